//! Re-encryption of the beginning of the data only, as `--device-size` of cryptsetup has it.

use std::sync::Arc;

use crate::common::reencryption::{
    DATA, Disks, HERE, Judge, image_of, is_in_reencryption, made, open, pattern, read,
};
use crate::common::{RANDOM, secret};
use block::fault::{FaultClock, FaultDevice, images};
use block::{BlockDevice, MemoryDevice};
use luks::{
    Container, ContainerVersion, Error, Protection, ReencryptionChoice, ReencryptionEnd,
    ReencryptionPace, Result,
};

/// The length of the part: two and a half of four hot zones of a MiB.
const LEN: u64 = 5 << 19;
const PART: ReencryptionPace = ReencryptionPace {
    zone: Some(1 << 20),
    device_size: Some(LEN),
};
const SIZE: &str = "--device-size 2560K";

fn begin(device: &Arc<dyn BlockDevice>, protection: Protection) {
    let how = ReencryptionChoice {
        cipher: None,
        key_len: None,
        sector_size: None,
        protection,
        slot: crate::common::cheap_slot(ContainerVersion::V2),
    };
    let mut container = Container::open(Arc::clone(device), &RANDOM).unwrap();
    let old = container.unlock(&secret("first"), None).unwrap();
    let kept = [(old.slot, secret("first"))];
    let begun = container.begin_reencryption(&**device, &how, old.key, &kept, &RANDOM);
    begun.unwrap();
}

/// Goes on for so many hot zones.
fn resume(
    device: &Arc<dyn BlockDevice>,
    pace: ReencryptionPace,
    mut zones: usize,
) -> Result<ReencryptionEnd> {
    let mut container = Container::open(Arc::clone(device), &RANDOM)?;
    let keys = container.unlock_both(&secret("first"))?;
    container.reencrypt(&**device, &keys, pace, &RANDOM, &mut |progress| {
        assert_eq!(progress.total, LEN);
        zones -= 1;
        zones > 0
    })
}

fn in_memory(image: &[u8]) -> (Arc<MemoryDevice>, Arc<dyn BlockDevice>) {
    let device = Arc::new(MemoryDevice::from_bytes(image.to_vec()));
    (Arc::clone(&device), device)
}

fn bytes(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.size() as usize];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

/// The beginning is there under the new key, and the rest as it was, encrypted with the old one.
fn check(image: &[u8], before: &[u8], what: &str) {
    assert!(!is_in_reencryption(image), "{what}");
    let opened = open(image, HERE).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (len, rest) = (LEN as usize, (DATA + LEN) as usize);
    assert!(read(&opened.1)[..len] == pattern()[..len], "{what}");
    assert!(image[rest..] == before[rest..], "{what}: behind it");
}

#[test]
fn the_beginning_is_encrypted_anew_and_the_rest_stays() {
    let before = made(512);
    let (memory, device) = in_memory(&before);
    begin(&device, Protection::Journal);
    assert!(matches!(
        resume(&device, PART, 2),
        Ok(ReencryptionEnd::Paused(_))
    ));
    let other = ReencryptionPace {
        device_size: Some(LEN + 4096),
        ..PART
    };
    assert!(matches!(resume(&device, other, 9), Err(Error::Usage(_))));
    // The header knows it by now.
    let unsaid = ReencryptionPace {
        device_size: None,
        ..PART
    };
    assert_eq!(resume(&device, unsaid, 9).unwrap(), ReencryptionEnd::All);
    check(&image_of(&memory), &before, "in two parts");
}

#[test]
fn cryptsetup_and_this_program_end_what_the_other_began() {
    let Some(judge) = Judge::new() else { return };
    let before = made(512);
    for parts in [0, 2, 3] {
        let (memory, device) = in_memory(&before);
        begin(&device, Protection::Checksum("sha256".into()));
        if parts > 0 {
            resume(&device, PART, parts).unwrap();
        }
        let ended = judge.run(&image_of(&memory), &format!("--resume-only {SIZE}"));
        check(&ended.unwrap(), &before, "ended by cryptsetup");
    }
    let begun = judge.run(&before, &format!("--init-only {SIZE}")).unwrap();
    let mut killed = 0;
    for when in [1, 5, 8, 11] {
        let left = judge.killed(&begun, &format!("--resume-only {SIZE}"), when);
        let Some(image) = left else { break };
        let (memory, device) = in_memory(&image);
        if is_in_reencryption(&image) {
            killed += 1;
            resume(&device, PART, 9).unwrap();
        }
        check(&image_of(&memory), &before, "begun by cryptsetup");
    }
    assert!(killed > 1, "{killed}");
}

#[test]
fn a_power_cut_at_any_write_keeps_the_beginning_and_the_rest() {
    let before = made(512);
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::from_bytes(before.clone(), &clock));
    let shared: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
    begin(&shared, Protection::Checksum("sha256".into()));
    assert_eq!(resume(&shared, PART, 9).unwrap(), ReencryptionEnd::All);
    let (end, journal) = (clock.now(), device.take_journal());
    let mut resumed = 0;
    for cut in 0..=end {
        for image in images(&journal, cut, 1..2) {
            let what = format!("cut before {cut} of {end}");
            let (memory, device) = in_memory(&image);
            if is_in_reencryption(&image) {
                resumed += 1;
                let ended = resume(&device, PART, 9);
                assert_eq!(ended.expect(&what), ReencryptionEnd::All, "{what}");
            }
            check(&image_of(&memory), &before, &what);
        }
    }
    assert!(resumed > 10, "{resumed}");
}

/// The size is refused where cryptsetup refuses it.
#[test]
fn sizes_that_do_not_fit_are_refused() {
    let judge = Judge::new();
    let sizes = [0, 1000, 6 << 10, 4096, LEN, 4 << 20, (4 << 20) + 4096];
    for size in sizes {
        let pace = ReencryptionPace {
            zone: None,
            device_size: Some(size),
        };
        let fits = pace.check(4 << 20, 4096).is_ok();
        assert_eq!(fits, [4096, LEN, 4 << 20].contains(&size), "{size}");
        if let Some(judge) = &judge {
            let options = format!("--init-only --device-size {size}");
            assert_eq!(judge.run(&made(4096), &options).is_ok(), fits, "{size}");
        }
    }
}

/// The beginning of a device that was not encrypted, with its header elsewhere; and back.
#[test]
fn the_beginning_is_encrypted_and_decrypted() {
    let (plain, header) = (in_memory(&pattern()), in_memory(&vec![0; 16 << 20]));
    let format = crate::common::small(ContainerVersion::V2);
    let (mut container, keys) = luks::begin_encryption(
        Arc::clone(&header.1),
        &*plain.1,
        &format,
        &Protection::Journal,
        &secret("first"),
        &RANDOM,
    )
    .unwrap();
    let ended = container.reencrypt(&*plain.1, &keys, PART, &RANDOM, &mut |_| true);
    assert_eq!(ended.unwrap(), ReencryptionEnd::All);
    let disks = Disks {
        data: bytes(&*plain.1),
        header: Some(bytes(&*header.1)),
    };
    let len = LEN as usize;
    let (then, now) = (pattern(), &disks.data);
    assert!(now[len..] == then[len..], "the rest stays");
    let mut sectors = now[..len].chunks(512).zip(then.chunks(512));
    assert!(sectors.all(|(now, then)| now != then));
    if let Some(judge) = Judge::new() {
        let options = format!("--decrypt --header header {SIZE}");
        let ended = judge.run_on(&disks, &options).unwrap();
        assert!(ended.data == pattern(), "decrypted by cryptsetup");
    }
    let segment = container.check_decryption(&*plain.1).unwrap();
    assert_eq!(segment.offset, 0);
    let unlocked = container.unlock(&secret("first"), None).unwrap();
    let keys = container
        .begin_decryption(
            &*plain.1,
            &Protection::Journal,
            PART,
            unlocked,
            &crate::common::cheap_slot(ContainerVersion::V2),
            &RANDOM,
        )
        .unwrap();
    let ended = container.reencrypt(&*plain.1, &keys, PART, &RANDOM, &mut |_| true);
    assert_eq!(ended.unwrap(), ReencryptionEnd::All);
    assert!(bytes(&*plain.1) == pattern(), "decrypted here");
}

/// A mapping that does not know the size reads it from the header, while there is a hot zone.
#[test]
fn a_hot_zone_says_where_the_data_ends() {
    let clock = FaultClock::new();
    let unsaid = ReencryptionPace {
        device_size: None,
        ..PART
    };
    let (plain, head) = (in_memory(&pattern()), in_memory(&vec![0; 16 << 20]));
    let (mut container, keys) = luks::begin_encryption(
        head.1,
        &*plain.1,
        &crate::common::small(ContainerVersion::V2),
        &Protection::Journal,
        &secret("first"),
        &RANDOM,
    )
    .unwrap();
    let ended = container.reencrypt(&*plain.1, &keys, PART, &RANDOM, &mut |_| true);
    assert_eq!(ended.unwrap(), ReencryptionEnd::All);
    let faulty = |bytes| Arc::new(FaultDevice::from_bytes(bytes, &clock));
    let (data, header) = (faulty(bytes(&*plain.1)), faulty(bytes(&*head.0)));
    let mut container = Container::open(Arc::clone(&header) as _, &RANDOM).unwrap();
    let unlocked = container.unlock(&secret("first"), None).unwrap();
    let slot = crate::common::cheap_slot(ContainerVersion::V2);
    let keys = container
        .begin_decryption(&*data, &Protection::Journal, PART, unlocked, &slot, &RANDOM)
        .unwrap();
    let ended = container.reencrypt(&*data, &keys, PART, &RANDOM, &mut |_| true);
    assert_eq!(ended.unwrap(), ReencryptionEnd::All);
    let (end, header, data) = (clock.now(), header.take_journal(), data.take_journal());
    let mut hot = 0;
    for cut in 0..=end {
        let heads = images(&header, cut, 0..0);
        for (head, data) in heads.iter().zip(images(&data, cut, 0..0).iter().cycle()) {
            let (memory, data) = in_memory(data);
            let mut container = Container::open(in_memory(head).1, &RANDOM).unwrap();
            let Ok(progress) = container.reencryption_progress(&*data) else {
                continue;
            };
            if progress.total != LEN {
                // It has not begun.
                continue;
            }
            hot += 1;
            let keys = container.unlock_both(&secret("first")).unwrap();
            let ended = container.reencrypt(&*data, &keys, unsaid, &RANDOM, &mut |_| true);
            assert_eq!(ended.unwrap(), ReencryptionEnd::All, "cut before {cut}");
            assert!(bytes(&*memory) == pattern(), "cut before {cut} of {end}");
        }
    }
    assert!(hot > 10, "{hot}");
}
