//! Damaged copies of a LUKS2 header: they are found, reported and written again.

use std::io::IoSlice;
use std::sync::Arc;

use crate::common::{RANDOM, add, bytes, cheap_slot, container, opens, reopen, secret};
use block::BlockDevice;
use block::fault::{Fault, FaultClock, FaultDevice};
use luks::{Container, ContainerVersion, Error, Header, luks2};
use serde_json::{Map, Value};

const COPY: usize = 0x4000;

fn state(image: &[u8]) -> (luks2::CopyState, luks2::CopyState) {
    let device = block::MemoryDevice::from_bytes(image.to_vec());
    let found = luks2::Header::read(&device).unwrap();
    (found.first, found.second)
}

fn epoch(container: &Container) -> u64 {
    match container.header() {
        Header::V2(header) => header.epoch,
        Header::V1(_) => panic!("LUKS1"),
    }
}

/// Any flipped bit in one copy: the other is used, and opening the container repairs it.
#[test]
fn a_damaged_copy_is_mended_from_the_other() {
    let (made, _) = container(ContainerVersion::V2);
    let whole = bytes(&made);
    for copy in [0, COPY] {
        // Everywhere in the binary header, and here and there in the JSON area.
        let magic = if copy == 0 { 6 } else { 0 };
        let places = (magic..4096).step_by(37).chain((4096..COPY).step_by(613));
        for place in places {
            let mut image = whole.clone();
            image[copy + place] ^= 0x10;
            let (first, second) = state(&image);
            let (bad, good) = if copy == 0 {
                (first, second)
            } else {
                (second, first)
            };
            assert!(matches!(bad, luks2::CopyState::Bad(_)), "{copy}+{place}");
            assert_eq!(good, luks2::CopyState::Current);
            let repaired = reopen(image).unwrap();
            assert_eq!(opens(&repaired, &["first"]), ["first"]);
            let current = (luks2::CopyState::Current, luks2::CopyState::Current);
            assert_eq!(state(&bytes(&repaired)), current);
        }
    }
}

#[test]
fn without_a_whole_copy_nothing_is_opened() {
    let (made, _) = container(ContainerVersion::V2);
    let mut image = bytes(&made);
    image[5000] ^= 1;
    image[COPY + 5000] ^= 1;
    let error = reopen(image.clone()).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("checksum"), "{error}");
    image.truncate(COPY + 4096);
    let error = reopen(image).err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let (made, _) = container(ContainerVersion::V2);
    let mut short = bytes(&made);
    short.truncate(1 << 19);
    let error = reopen(short).err().unwrap();
    assert!(matches!(error, Error::TooSmall { .. }), "{error}");
}

/// Another file system over the beginning: the container opens to read, and nothing is written there
/// without being told to.
#[test]
fn what_was_written_over_is_repaired_only_when_asked() {
    let (made, _) = container(ContainerVersion::V2);
    let mut image = bytes(&made);
    image[..4096].fill(0x42);
    let mut read = reopen(image.clone()).unwrap();
    let key = read.unlock(&secret("first"), None).unwrap().key;
    let slot = cheap_slot(ContainerVersion::V2);
    let refused = [
        read.check_writable().err(),
        read.add_key(&key, &secret("second"), &slot, None, &RANDOM)
            .err(),
        read.remove_slot(0, true, &RANDOM).err(),
        read.rename(None, Some("x"), None, &RANDOM).err(),
        read.convert(ContainerVersion::V1, &RANDOM).err(),
        read.erase(&RANDOM).err(),
    ];
    for error in refused {
        let error = error.unwrap();
        assert!(matches!(error, Error::Overwritten { .. }), "{error}");
    }
    assert!(bytes(&read) == image, "nothing was written");
    let device = block::MemoryDevice::from_bytes(image);
    luks::repair(&device, &RANDOM).unwrap();
    assert!(
        luks::repair(&device, &RANDOM).is_err(),
        "nothing is wrong any more"
    );
    assert_eq!(
        opens(&reopen(device.to_bytes()).unwrap(), &["first"]),
        ["first"]
    );
    for image in [vec![0; 1 << 20], vec![], vec![0xff; 100]] {
        assert!(matches!(reopen(image), Err(Error::NotLuks { .. })));
    }
}

/// Places, each with its length.
type Bad<'a> = &'a [(u64, u64)];

/// A device with these bytes on which these places cannot be read, each so many bytes.
fn with_bad(image: &[u8], bad: Bad<'_>) -> Arc<FaultDevice> {
    let device = FaultDevice::from_bytes(image.to_vec(), &FaultClock::new());
    for (offset, len) in bad.iter().copied() {
        device.inject(Fault::BadBytes { offset, len });
    }
    Arc::new(device)
}

/// A copy that cannot be read may be the newer one, and is not written over unless that is asked for.
#[test]
fn a_copy_that_cannot_be_read_is_neither_missing_nor_written_over() {
    let (made, _) = container(ContainerVersion::V2);
    let image = bytes(&made);
    for bad in [0, 5000, COPY as u64, COPY as u64 + 5000] {
        let device = with_bad(&image, &[(bad, 512)]);
        let mut read = Container::open(Arc::clone(&device) as _, &RANDOM).unwrap();
        let key = read.unlock(&secret("first"), None).unwrap().key;
        read.check_data_writable().unwrap();
        let slot = cheap_slot(ContainerVersion::V2);
        let refused = [
            read.check_writable().err(),
            read.add_key(&key, &secret("second"), &slot, None, &RANDOM)
                .err(),
            read.rename(None, Some("x"), None, &RANDOM).err(),
        ];
        for error in refused {
            let error = error.unwrap();
            assert!(matches!(error, Error::Unreadable { .. }), "{bad}: {error}");
        }
        assert_eq!(device.written(), 0, "{bad}");
        luks::repair(&*device, &RANDOM).unwrap();
        device.heal();
        assert!(luks::repair(&*device, &RANDOM).is_err(), "{bad} is whole");
    }
}

/// A device that takes no write in the first copy, as `inner` does in places that are bad.
struct Unwritable(Arc<FaultDevice>, std::ops::Range<u64>);

impl BlockDevice for Unwritable {
    block::delegate!(self => self.0; size sector_sizes name read_at flush discard);
    block::plain_device!();

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        match offset < self.1.end && self.1.start < offset + len as u64 {
            true => Err(block::Error::ReadOnly {
                device: self.name(),
            }),
            false => self.0.write_at(offset, pieces),
        }
    }
}

/// To destroy the keys takes no header that is whole, and no place of the device that fails prevents it elsewhere.
#[test]
fn keys_are_erased_where_a_copy_can_be_neither_read_nor_written() {
    let (made, _) = container(ContainerVersion::V2);
    let image = bytes(&made);
    let area = made.slots().remove(0);
    let keys = area.offset as usize..(area.offset + area.len) as usize;
    let second = COPY as u64;
    let beside = area.offset + area.len;
    // Where it cannot be read, and where it cannot be written.
    for (bad, unwritable) in [
        (0, 0..0),
        (second + 5000, 0..0),
        (0, 0..512),
        (second, second..second + 512),
        (0, beside..beside + 512),
    ] {
        let inner = with_bad(&image, &[(bad, 512)]);
        let device = Arc::new(Unwritable(Arc::clone(&inner), unwritable.clone()));
        let mut erased = Container::look(device as _).unwrap();
        let ended = erased.erase(&RANDOM);
        assert_eq!(
            ended.is_ok(),
            unwritable.is_empty(),
            "{bad}, {unwritable:?}"
        );
        inner.heal();
        let mut after = vec![0; image.len()];
        inner.read_at(0, &mut after).unwrap();
        let left = keys.clone().step_by(512);
        let is_left = |at: usize| after[at..at + 512] == image[at..at + 512];
        assert!(!left.into_iter().any(is_left), "{bad}, {unwritable:?}");
        let found = reopen(after).unwrap();
        assert!(found.unlock(&secret("first"), None).is_err());
        assert_eq!(found.slots().len(), 0, "{bad}, {unwritable:?}");
    }
}

/// A device that fails is none without a header: it could be formatted.
#[test]
fn a_device_that_fails_is_not_one_without_a_header() {
    let (made, _) = container(ContainerVersion::V2);
    let image = bytes(&made);
    let second = COPY as u64;
    let mut damaged = image.clone();
    damaged[5000] ^= 1;
    let cases: [(&[u8], Bad<'_>); 6] = [
        (&image, &[(0, 1 << 20)]),
        (&image, &[(0, 512), (second, 512)]),
        (&image, &[(4096, 512), (second + 4096, 512)]),
        (&damaged, &[(second, 512)]),
        (&vec![0; 1 << 20], &[(second, 512)]),
        (&vec![0x42; 1 << 20], &[(0, 512)]),
    ];
    for (image, bad) in cases {
        let error = Header::read(&*with_bad(image, bad)).err().unwrap();
        assert!(matches!(error, Error::Device(_)), "{bad:?}: {error}");
    }
}

/// A first copy that is gone is written again from the second.
#[test]
fn zeros_are_replaced_by_the_second_copy() {
    let (made, _) = container(ContainerVersion::V2);
    let whole = bytes(&made);
    for len in [512, 4096, COPY] {
        let mut image = whole.clone();
        image[..len].fill(0);
        let read = reopen(image).unwrap();
        assert_eq!(opens(&read, &["first"]), ["first"]);
        read.check_writable().unwrap();
        let current = (luks2::CopyState::Current, luks2::CopyState::Current);
        assert_eq!(state(&bytes(&read)), current);
    }
}

/// The newer of two whole copies is the one.
#[test]
fn the_newer_copy_counts() {
    let (mut made, key) = container(ContainerVersion::V2);
    let before = bytes(&made);
    add(&mut made, &key, "second", None);
    let after = bytes(&made);
    for old_copy in [0, COPY] {
        let mut image = after.clone();
        image[old_copy..][..COPY].copy_from_slice(&before[old_copy..][..COPY]);
        let read = reopen(image).unwrap();
        assert_eq!(opens(&read, &["first", "second"]), ["first", "second"]);
        assert_eq!(epoch(&read), 3);
    }
}

#[test]
fn what_is_not_known_stays() {
    let (mut made, key) = container(ContainerVersion::V2);
    let token: Value = serde_json::from_str(
        r#"{"type": "someone-else", "keyslots": ["0"], "deep": {"list": [1, 2.5, null, "é"]},
            "large": 18446744073709551615}"#,
    )
    .unwrap();
    let token = token.as_object().unwrap().clone();
    assert_eq!(made.add_token(token.clone(), Some(4), &RANDOM).unwrap(), 4);
    add(&mut made, &key, "second", None);
    made.remove_slot(0, false, &RANDOM).unwrap();
    let read = reopen(bytes(&made)).unwrap();
    let mut expected = token.clone();
    expected["keyslots"] = Value::Array(Vec::new());
    assert_eq!(read.token(4).unwrap(), &Value::Object(expected));
    assert!(read.dump().contains("  4: someone-else\n"));
}

#[test]
fn tokens_come_and_go() {
    let (mut made, _) = container(ContainerVersion::V2);
    let keyring = made.keyring_token("my key", None);
    assert_eq!(made.add_token(keyring, None, &RANDOM).unwrap(), 0);
    let bound = made.keyring_token("other", Some(0));
    assert_eq!(made.add_token(bound.clone(), None, &RANDOM).unwrap(), 1);
    assert!(
        made.add_token(bound.clone(), Some(1), &RANDOM).is_err(),
        "in use"
    );
    assert!(
        made.add_token(bound.clone(), Some(32), &RANDOM).is_err(),
        "no such number"
    );
    let lost = made.keyring_token("lost", Some(9));
    assert!(
        made.add_token(lost, None, &RANDOM).is_err(),
        "no such key slot"
    );
    assert!(
        made.add_token(Map::new(), None, &RANDOM).is_err(),
        "no token"
    );
    let mut huge = bound;
    huge.insert("data".into(), "x".repeat(COPY).into());
    let error = made.add_token(huge, None, &RANDOM).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    made.remove_token(0, &RANDOM).unwrap();
    let mut read = reopen(bytes(&made)).unwrap();
    assert!(matches!(
        read.token(0),
        Err(Error::NoToken { token: 0, .. })
    ));
    assert_eq!(read.token(1).unwrap()["key_description"], "other");
    assert!(read.remove_token(0, &RANDOM).is_err());
}
