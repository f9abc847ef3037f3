//! Re-encryption by this crate: to the end, in parts that cryptsetup goes on with, and through power cuts.

use std::sync::Arc;

use crate::common::reencryption::{
    Edit, HERE, Judge, edited, image_of, is_in_reencryption, made, open, pattern, read,
};
use crate::common::{RANDOM, secret};
use block::fault::{FaultClock, FaultDevice, images};
use block::{BlockDevice, MemoryDevice};
use luks::{
    BothKeys, Container, ContainerVersion, Error, Protection, ReencryptionChoice, ReencryptionEnd,
    ReencryptionPace, Result,
};

/// Hot zones of a MiB.
const ZONES: ReencryptionPace = ReencryptionPace {
    zone: Some(1 << 20),
    device_size: None,
};

fn how(protection: Protection) -> ReencryptionChoice {
    ReencryptionChoice {
        cipher: None,
        key_len: None,
        sector_size: None,
        protection,
        slot: crate::common::cheap_slot(ContainerVersion::V2),
    }
}

fn begin(device: &Arc<dyn BlockDevice>, how: &ReencryptionChoice) -> Result<(Container, BothKeys)> {
    let mut container = Container::open(Arc::clone(device), &RANDOM)?;
    let old = container.unlock(&secret("first"), None)?;
    let kept = [(old.slot, secret("first"))];
    let keys = container.begin_reencryption(&**device, how, old.key, &kept, &RANDOM)?;
    Ok((container, keys))
}

/// A container in memory whose re-encryption is begun, and that device.
fn begun(image: &[u8], how: &ReencryptionChoice) -> (Vec<u8>, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
    begin(&(Arc::clone(&device) as _), how).unwrap();
    (image_of(&device), device)
}

/// Goes on with a re-encryption for so many hot zones of a MiB.
fn resume(device: &Arc<dyn BlockDevice>, mut zones: usize) -> Result<ReencryptionEnd> {
    let mut container = Container::open(Arc::clone(device), &RANDOM)?;
    let keys = container.unlock_both(&secret("first"))?;
    let mut last = None;
    container.reencrypt(&**device, &keys, ZONES, &RANDOM, &mut |progress| {
        assert!(last.is_none_or(|last| progress.done > last), "{progress:?}");
        last = Some(progress.done);
        zones -= 1;
        zones > 0
    })
}

fn ended(image: &[u8]) -> Result<Vec<u8>> {
    let device = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
    assert_eq!(
        resume(&(Arc::clone(&device) as _), 1000)?,
        ReencryptionEnd::All
    );
    Ok(image_of(&device))
}

/// Returns the data of a container that is not in re-encryption any more.
fn content(image: &[u8], what: &str) -> Vec<u8> {
    assert!(!is_in_reencryption(image), "{what}");
    let opened = open(image, HERE).unwrap_or_else(|error| panic!("{what}: {error}"));
    read(&opened.1)
}

fn all_protections() -> [Protection; 3] {
    let checksum = Protection::Checksum("sha256".into());
    [checksum, Protection::Journal, Protection::None]
}

/// All changes that are tried: the sectors before, and how it is re-encrypted.
fn changes() -> Vec<(u32, ReencryptionChoice)> {
    let mut all = Vec::new();
    for protection in all_protections() {
        let plain = how(protection);
        let other = ReencryptionChoice {
            cipher: Some("aes-cbc-essiv:sha256".into()),
            ..plain.clone()
        };
        let shorter = ReencryptionChoice {
            key_len: Some(32),
            ..plain.clone()
        };
        let larger = ReencryptionChoice {
            sector_size: Some(4096),
            ..plain.clone()
        };
        let smaller = ReencryptionChoice {
            sector_size: Some(512),
            cipher: Some("aes-cbc-plain64".into()),
            ..plain.clone()
        };
        all.extend([
            (512, plain),
            (4096, other),
            (4096, shorter),
            (512, larger),
            (4096, smaller),
        ]);
    }
    all
}

#[test]
fn a_container_is_reencrypted_in_one_go_and_in_parts() {
    for (sector_size, how) in changes() {
        let what = format!("{sector_size} to {how:?}");
        let image = made(sector_size);
        let old_key = crate::common::reopen(image.clone()).unwrap();
        let old_key = old_key.unlock(&secret("first"), None).unwrap().key;
        let (begun, device) = begun(&image, &how);
        assert!(
            read(&open(&begun, HERE).unwrap().1) == pattern(),
            "{what}: begun"
        );
        assert!(
            content(&ended(&begun).unwrap(), &what) == pattern(),
            "{what}: at once"
        );
        let device: Arc<dyn BlockDevice> = device;
        let mut parts = 0;
        while let ReencryptionEnd::Paused(progress) = resume(&device, 2).unwrap() {
            parts += 1;
            assert_eq!(
                (progress.done, progress.total),
                (parts << 20, 4 << 20),
                "{what}"
            );
            let mut image = vec![0; device.size() as usize];
            device.read_at(0, &mut image).unwrap();
            assert!(
                read(&open(&image, HERE).unwrap().1) == pattern(),
                "{what}: {parts}"
            );
        }
        assert_eq!(parts, 3, "{what}");
        let container = Container::look(device).unwrap();
        assert!(!container.is_volume_key(&old_key).unwrap(), "{what}");
        assert!(
            content(&crate::common::bytes(&container), &what) == pattern(),
            "{what}: in parts"
        );
        let slots: Vec<u32> = container.slots().iter().map(|slot| slot.id).collect();
        assert_eq!(slots, [1], "{what}");
        let segment = container.segment().unwrap();
        assert_eq!(
            segment.sector_size,
            how.sector_size.unwrap_or(sector_size),
            "{what}"
        );
        assert_eq!(
            segment.cipher,
            how.cipher.as_deref().unwrap_or("aes-xts-plain64"),
            "{what}"
        );
    }
}

/// Each passphrase that is kept opens the container afterwards, with its priority and tokens, and no other.
#[test]
fn slots_that_are_kept_open_afterwards_and_no_others() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(made(512)));
    let mut container = Container::open(Arc::clone(&device), &RANDOM).unwrap();
    let old = container.unlock(&secret("first"), None).unwrap().key;
    for name in ["second", "third"] {
        crate::common::add(&mut container, &old, name, None);
    }
    container
        .set_priority(1, luks::Priority::Prefer, &RANDOM)
        .unwrap();
    let token = container.keyring_token("a:key", Some(1));
    container.add_token(token, None, &RANDOM).unwrap();
    let kept = [(0, secret("first")), (1, secret("second"))];
    let how = how(Protection::Journal);
    let keys = container
        .begin_reencryption(&*device, &how, old, &kept, &RANDOM)
        .unwrap();
    assert_eq!(keys.slot, 3);
    let found = container.reencrypt(
        &*device,
        &keys,
        ReencryptionPace::default(),
        &RANDOM,
        &mut |_| true,
    );
    assert_eq!(found.unwrap(), ReencryptionEnd::All);
    assert_eq!(
        crate::common::opens(&container, &["first", "second", "third"]),
        ["first", "second"]
    );
    assert_eq!(container.slots()[0].id, 4);
    assert_eq!(
        container.token(0).unwrap()["keyslots"],
        serde_json::json!(["4"])
    );
    assert!(content(&crate::common::bytes(&container), "kept") == pattern());
}

#[test]
fn what_was_paused_is_ended_by_cryptsetup() {
    let Some(judge) = Judge::new() else { return };
    for (n, (sector_size, how)) in changes().into_iter().enumerate() {
        let parts = n % 4;
        let what = format!("{sector_size} to {how:?} after {parts}");
        let (begun, device) = begun(&made(sector_size), &how);
        let image = match parts {
            0 => begun,
            parts => {
                resume(&(Arc::clone(&device) as _), parts).unwrap();
                image_of(&device)
            }
        };
        let ended = judge.run(&image, "--resume-only");
        let ended = ended.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(content(&ended, &what) == pattern(), "{what}");
    }
}

#[test]
fn what_cryptsetup_left_is_ended_here() {
    let Some(judge) = Judge::new() else { return };
    for resilience in ["checksum", "journal", "none"] {
        let options = format!("--resilience {resilience}");
        let begun = judge
            .run(&made(4096), &format!("--init-only {options}"))
            .unwrap();
        assert!(
            content(&ended(&begun).unwrap(), &options) == pattern(),
            "{options}"
        );
        if resilience == "none" {
            continue;
        }
        let mut ended_without_a_key = 0;
        // Some moments while data is changed, and each one of the end.
        for when in [5, 8, 11].into_iter().chain(14..) {
            let killed = judge.killed(&begun, &format!("--resume-only {options}"), when);
            let Some(image) = killed else { break };
            let what = format!("{options}, killed at {when}");
            if let Some(image) = ended_without_key(&image) {
                ended_without_a_key += 1;
                assert!(content(&image, &what) == pattern(), "{what}: without a key");
            }
            let image = match is_in_reencryption(&image) {
                true => ended(&image).unwrap_or_else(|error| panic!("{what}: {error}")),
                false => image,
            };
            assert!(content(&image, &what) == pattern(), "{what}");
        }
        assert!(ended_without_a_key > 0, "{options}: {ended_without_a_key}");
    }
}

/// A container whose re-encryption was ended without a passphrase, if only its end was left.
fn ended_without_key(image: &[u8]) -> Option<Vec<u8>> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
    let mut container = Container::open(Arc::clone(&device), &RANDOM).unwrap();
    if !container.is_in_reencryption() || !container.is_all_new(&*device).unwrap() {
        return None;
    }
    container.end_reencryption(&*device, &RANDOM).unwrap();
    assert!(!container.is_in_reencryption());
    Some(crate::common::bytes(&container))
}

/// A power cut before each write, of a re-encryption from the beginning to the end.
fn cut_everywhere(how: &ReencryptionChoice, sector_size: u32, judge: Option<&Judge>) {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::from_bytes(made(sector_size), &clock));
    let shared: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
    begin(&shared, how).unwrap();
    let begun = clock.now();
    assert_eq!(resume(&shared, 1000).unwrap(), ReencryptionEnd::All);
    let (end, journal) = (clock.now(), device.take_journal());
    let (mut asked, mut hot) = (0, 0);
    for cut in 0..=end {
        for (seed, image) in images(&journal, cut, 0..2).into_iter().enumerate() {
            let what = format!("{how:?}, cut before {cut} of {end}, begun at {begun}, seed {seed}");
            if !is_in_reencryption(&image) {
                assert!(content(&image, &what) == pattern(), "{what}");
                continue;
            }
            let read_only = luks::MappingFlags {
                read_only: true,
                ..HERE
            };
            let is_hot = matches!(open(&image, read_only), Err(Error::Usage(_)));
            hot += usize::from(is_hot);
            let ended = ended(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(content(&ended, &what) == pattern(), "{what}");
            if let Some(judge) = judge.filter(|_| is_hot && seed == 1 && cut % 5 == 0) {
                asked += 1;
                let ended = judge.recovered(&image).and_then(|image| {
                    // Behind the last hot zone nothing is left to do.
                    match is_in_reencryption(&image) {
                        true => judge.run(&image, "--resume-only"),
                        false => Ok(image),
                    }
                });
                let ended = ended.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(content(&ended, &what) == pattern(), "{what}: by cryptsetup");
            }
        }
    }
    assert!(hot > 8, "{hot} with a hot zone");
    assert!(judge.is_none() || asked > 1, "{asked} were asked");
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_with_checksums() {
    let how = how(Protection::Checksum("sha256".into()));
    cut_everywhere(&how, 512, Judge::new().as_ref());
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_with_a_journal() {
    let how = ReencryptionChoice {
        cipher: Some("aes-cbc-essiv:sha256".into()),
        ..how(Protection::Journal)
    };
    cut_everywhere(&how, 4096, Judge::new().as_ref());
}

/// The header follows what is written, also where nothing is kept for an interruption.
#[test]
fn a_device_that_fails_leaves_what_can_go_on() {
    for protection in all_protections() {
        let what = format!("{protection:?}");
        let clock = FaultClock::new();
        let device = Arc::new(FaultDevice::from_bytes(made(512), &clock));
        let shared: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
        let (mut container, keys) = begin(&shared, &how(protection)).unwrap();
        let mut zones = 0;
        let failed = container.reencrypt(&*shared, &keys, ZONES, &RANDOM, &mut |_| {
            zones += 1;
            if zones == 3 {
                device.inject(block::fault::Fault::FullAfter(device.written()));
            }
            true
        });
        assert!(failed.is_err(), "{what}");
        device.heal();
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(device.to_bytes()));
        assert_eq!(
            resume(&device, 1000).unwrap(),
            ReencryptionEnd::All,
            "{what}"
        );
    }
}

#[test]
fn what_cannot_be_reencrypted_is_refused_and_stays() {
    let refused = |image: &[u8], how: &ReencryptionChoice| {
        let device = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
        let error = begin(&(Arc::clone(&device) as _), how).err().unwrap();
        assert!(image_of(&device)[..image.len()] == *image);
        error
    };
    let checksum = || how(Protection::Checksum("sha256".into()));
    let usage = [
        ReencryptionChoice {
            cipher: Some("aes-xts-plain64".into()),
            key_len: Some(24),
            ..checksum()
        },
        ReencryptionChoice {
            sector_size: Some(8192),
            ..checksum()
        },
        how(Protection::Checksum("crc32".into())),
    ];
    for how in usage {
        assert!(
            matches!(refused(&made(512), &how), Error::Usage(_)),
            "{how:?}"
        );
    }
    let null = ReencryptionChoice {
        cipher: Some("cipher_null-ecb".into()),
        ..checksum()
    };
    assert!(matches!(
        refused(&made(512), &null),
        Error::Unsupported { .. }
    ));
    let (container, _) = crate::common::container(ContainerVersion::V1);
    let device = Arc::clone(container.device());
    assert!(matches!(
        begin(&device, &checksum()).err(),
        Some(Error::Unsupported { .. })
    ));
    let (begun, _) = begun(&made(512), &checksum());
    assert!(
        matches!(refused(&begun, &checksum()), Error::Unsupported { .. }),
        "begun twice"
    );
    let mut odd = made(512);
    odd.truncate(odd.len() - 512);
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(odd));
    let larger = ReencryptionChoice {
        sector_size: Some(4096),
        ..checksum()
    };
    assert!(matches!(
        begin(&device, &larger).err(),
        Some(Error::Usage(_))
    ));
}

#[test]
fn a_header_that_was_changed_in_between_is_refused() {
    let begun = begun(&made(4096), &how(Protection::Checksum("sha256".into()))).0;
    assert!(open(&edited(&begun, |_| ()), HERE).is_ok());
    let edits: [(&str, Edit); 8] = [
        ("another cipher at the end", |json| {
            json["segments"]["2"]["encryption"] = "aes-cbc-plain64".into();
        }),
        ("a plain segment", |json| {
            json["segments"]["0"]["type"] = "linear".into()
        }),
        ("another cipher", |json| {
            json["segments"]["0"]["encryption"] = "aes-xts-plain".into()
        }),
        ("another place", |json| {
            json["segments"]["0"]["iv_tweak"] = "8".into()
        }),
        ("the other key", |json| {
            json["digests"]["0"]["segments"] = serde_json::json!(["1"]);
            json["digests"]["1"]["segments"] = serde_json::json!(["0", "2"]);
            json["segments"]["2"]["iv_tweak"] = "8".into();
            json["segments"]["0"]["iv_tweak"] = "8".into();
        }),
        ("no resilience", |json| {
            let area = json["keyslots"]["2"]["area"].as_object_mut().unwrap();
            area["type"] = "journal".into();
        }),
        ("another hash", |json| {
            json["keyslots"]["2"]["area"]["hash"] = "sha512".into()
        }),
        ("no digest", |json| {
            json["digests"]["2"]["digest"] = json["digests"]["1"]["digest"].clone();
        }),
    ];
    for (what, edit) in edits {
        let Err(error) = open(&edited(&begun, edit), HERE) else {
            panic!("{what} is opened");
        };
        assert!(
            matches!(error, Error::Reencryption { .. }),
            "{what}: {error}"
        );
    }
    let decrypting = edited(&begun, |json| {
        json["keyslots"]["2"]["mode"] = "decrypt".into()
    });
    assert!(matches!(
        open(&decrypting, HERE).err(),
        Some(Error::Unsupported { .. })
    ));
}

/// Lets the header say that this many bytes are encrypted anew, and perhaps nothing of the rest.
fn claims(image: &[u8], len: u64, has_rest: bool) -> Vec<u8> {
    edited(image, |json| {
        let (previous, last) = (json["segments"]["1"].clone(), json["segments"]["2"].clone());
        let (mut first, mut rest) = (last.clone(), json["segments"]["0"].clone());
        for segment in [&mut first, &mut rest] {
            segment.as_object_mut().unwrap().remove("flags");
        }
        first["size"] = len.to_string().into();
        rest["offset"] = ((4 << 20) + len).to_string().into();
        rest["iv_tweak"] = (len / 512).to_string().into();
        let digests = &mut json["digests"];
        let (segments, of_old, of_new) = match has_rest {
            true => (
                vec![first, rest, previous, last],
                ["1", "2"].to_vec(),
                ["0", "3"],
            ),
            false => (vec![first, previous, last], ["1"].to_vec(), ["0", "2"]),
        };
        digests["0"]["segments"] = serde_json::json!(of_old);
        digests["1"]["segments"] = serde_json::json!(of_new);
        let numbered = segments.into_iter().enumerate();
        let numbered = numbered.map(|(n, segment)| (n.to_string(), segment));
        json["segments"] = serde_json::Value::Object(numbered.collect());
    })
}

/// Data behind the only segment stays, and so does its key.
#[test]
fn a_header_that_is_silent_about_the_rest_does_not_end_the_reencryption() {
    let begun = begun(&made(4096), &how(Protection::Journal)).0;
    let (device, mapping) = open(&claims(&begun, 1 << 20, false), HERE).unwrap();
    assert!(is_in_reencryption(&image_of(&device)));
    assert!(read(&mapping)[1 << 20..] == pattern()[1 << 20..]);
}

#[test]
fn a_sector_belongs_to_one_side_only() {
    let smaller = ReencryptionChoice {
        sector_size: Some(512),
        ..how(Protection::Journal)
    };
    let begun = begun(&made(4096), &smaller).0;
    assert!(open(&claims(&begun, 4096, true), HERE).is_ok());
    let error = open(&claims(&begun, 512, true), HERE).err();
    assert!(
        matches!(error, Some(Error::Reencryption { .. })),
        "{error:?}"
    );
}

/// A device that ends where the new part ends is not one that is encrypted anew.
#[test]
fn a_device_that_is_too_small_does_not_end_the_reencryption() {
    let begun = begun(&made(4096), &how(Protection::Journal)).0;
    let mut image = claims(&begun, 1 << 20, false);
    image.truncate(4 << 20);
    let error = open(&image, HERE).err();
    assert!(matches!(error, Some(Error::TooSmall { .. })), "{error:?}");
}
