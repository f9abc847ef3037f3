//! Containers whose sectors are authenticated: making them, using them, and what changes they notice.

use std::io::IoSlice;
use std::sync::Arc;

use crate::common::{RANDOM, cheap_slot, secret};
use block::{BlockDevice, MemoryDevice};
use luks::{Container, ContainerFormat, ContainerVersion, Error, Mapping, MappingFlags};
use secret::Secret;

const DATA_OFFSET: u64 = 1 << 20;

fn settings() -> ContainerFormat {
    ContainerFormat {
        integrity: Some("hmac(sha256)".into()),
        sector_size: 4096,
        data_offset: Some(DATA_OFFSET),
        slot: cheap_slot(ContainerVersion::V2),
        ..ContainerFormat::new(ContainerVersion::V2, crate::common::UUID.into())
    }
}

fn made() -> (Container, Secret) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(3 << 20));
    luks::format(device, &settings(), &secret("first"), &RANDOM).unwrap()
}

fn open(container: &Container, key: &Secret, flags: MappingFlags) -> luks::Result<Mapping> {
    Mapping::open(container, Arc::clone(container.device()), key, flags)
}

fn is_unauthentic(read: block::Result<()>) -> bool {
    matches!(read, Err(block::Error::Unauthentic { .. }))
}

#[test]
fn what_was_never_written_is_not_read_until_it_is_wiped() {
    let (container, key) = made();
    let mut sector = vec![1; 4096];
    let mapping = open(&container, &key, MappingFlags::default()).unwrap();
    assert!(is_unauthentic(mapping.read_at(0, &mut sector)));
    assert_eq!(sector, [0; 4096], "nothing of it is given out");
    drop(mapping);
    let mut steps = Vec::new();
    luks::wipe(&container, &key, &mut |done, of| {
        steps.push((done, of));
        true
    })
    .unwrap();
    let mapping = open(&container, &key, MappingFlags::default()).unwrap();
    assert_eq!(steps.last(), Some(&(mapping.size(), mapping.size())));
    let mut all = vec![1; mapping.size() as usize];
    mapping.read_at(0, &mut all).unwrap();
    assert!(all.iter().all(|byte| *byte == 0));
}

#[test]
fn both_forms_of_the_data_path_read_what_was_written() {
    let (container, key) = made();
    for is_queued in [false, true] {
        let flags = MappingFlags {
            read_workqueue: is_queued,
            write_workqueue: is_queued,
            allow_discards: true,
            ..MappingFlags::default()
        };
        let mapping = open(&container, &key, flags).unwrap();
        let len = mapping.size() as usize;
        let written: Vec<u8> = (0..len).map(|n| (n / 5) as u8 ^ (n >> 13) as u8).collect();
        let read = |when: &str| {
            let mut read = vec![0; len];
            mapping.read_at(0, &mut read).unwrap();
            assert!(read == written, "{when}");
        };
        mapping.write_at(0, &[IoSlice::new(&written)]).unwrap();
        read("some of it waits");
        mapping.flush().unwrap();
        read("nothing waits");
        mapping.discard(0, 8192).unwrap();
        read("nothing is discarded: it would not be authentic");
        let durable = [IoSlice::new(&written[..8192])];
        mapping.write_durably_at(0, &durable).unwrap();
        let refused = mapping.resize(Some(4096)).unwrap_err();
        assert!(matches!(refused, Error::Usage(_)), "{refused}");
        assert!(mapping.cipher().ends_with("with hmac(sha256)"));
    }
}

/// Sectors changed, exchanged, and put back with the tags of others.
#[test]
fn sectors_are_where_they_were_written_as_they_were_written() {
    let (container, key) = made();
    luks::wipe(&container, &key, &mut |_, _| true).unwrap();
    let device = Arc::clone(container.device());
    let size = open(&container, &key, MappingFlags::default())
        .unwrap()
        .size();
    // In an area, data follows its tags.
    let data = device.size() - device.size() % 4096 - size;
    let found = (DATA_OFFSET..=data)
        .step_by(4096)
        .find_map(|at| find_data(&device, &container, &key, at));
    let (first, second) = found.expect("the first two sectors are somewhere");
    let read = |at: u64| {
        let mut bytes = vec![0; 4096];
        device.read_at(at, &mut bytes).unwrap();
        bytes
    };
    let write = |at: u64, bytes: &[u8]| device.write_at(at, &[IoSlice::new(bytes)]).unwrap();
    let opens = |n: u64| {
        let mapping = open(&container, &key, MappingFlags::default()).unwrap();
        mapping.read_at(n * 4096, &mut [0; 4096])
    };
    let (one, two) = (read(first), read(second));
    let mut changed = one.clone();
    changed[4095] ^= 1;
    write(first, &changed);
    assert!(is_unauthentic(opens(0)));
    opens(1).unwrap();
    write(first, &two);
    write(second, &one);
    assert!(is_unauthentic(opens(0)) && is_unauthentic(opens(1)));
    write(first, &one);
    write(second, &two);
    opens(0).unwrap();
    opens(1).unwrap();
}

/// Finds the address of the first sector of the data: when a byte there changes, this sector is not authentic any
/// more, and the second one is.
fn find_data(
    device: &Arc<dyn BlockDevice>,
    container: &Container,
    key: &Secret,
    at: u64,
) -> Option<(u64, u64)> {
    let mut old = vec![0; 4096];
    device.read_at(at, &mut old).unwrap();
    device.write_at(at, &[IoSlice::new(&[0x5a; 4096])]).unwrap();
    let opened = open(container, key, MappingFlags::default());
    let found = opened.is_ok_and(|mapping| {
        is_unauthentic(mapping.read_at(0, &mut [0; 4096]))
            && mapping.read_at(4096, &mut [0; 4096]).is_ok()
    });
    device.write_at(at, &[IoSlice::new(&old)]).unwrap();
    found.then_some((at, at + 4096))
}

/// The superblock, the header and a key are three things.
#[test]
fn what_is_wrong_is_said() {
    let (container, key) = made();
    let device = Arc::clone(container.device());
    let other = Secret::from_slice(&vec![1; key.len()]).unwrap();
    let refused = open(&container, &other, MappingFlags::default()).map(drop);
    assert!(matches!(refused, Err(Error::Usage(_))));
    let mut superblock = vec![0; 4096];
    device.read_at(DATA_OFFSET, &mut superblock).unwrap();
    let with = |at: usize, value: u8| {
        let mut changed = superblock.clone();
        changed[at] = value;
        device
            .write_at(DATA_OFFSET, &[IoSlice::new(&changed)])
            .unwrap();
        open(&container, &key, MappingFlags::default())
            .map(drop)
            .unwrap_err()
    };
    assert!(matches!(with(0, 0), Error::Integrity { .. }));
    assert!(matches!(with(8, 9), Error::Unsupported { .. }));
    assert!(matches!(with(10, 48), Error::Integrity { .. }));
    assert!(matches!(with(23, 0xff), Error::Integrity { .. }));
}

#[test]
fn what_makes_no_sense_is_not_made() {
    let refused = |format: ContainerFormat| {
        let device = Arc::new(MemoryDevice::new(3 << 20));
        let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
        let made = luks::format(shared, &format, &secret("first"), &RANDOM);
        assert!(device.to_bytes().iter().all(|byte| *byte == 0));
        made.map(drop).unwrap_err().to_string()
    };
    let aead = |cipher: &str, key_len| ContainerFormat {
        cipher: cipher.into(),
        integrity: Some("aead".into()),
        key_len,
        ..settings()
    };
    let said = refused(aead("aes-gcm-plain64", 32));
    assert!(said.contains("-random"), "{said}");
    let said = refused(aead("aes-gcm-random", 64));
    assert!(said.contains("128, 192, 256"), "{said}");
    let said = refused(aead("aegis128-random", 16));
    assert!(said.contains("AEGIS"), "{said}");
    let said = refused(ContainerFormat {
        data_offset: Some(0),
        ..settings()
    });
    assert!(said.contains("header"), "{said}");
    let said = refused(ContainerFormat {
        version: ContainerVersion::V1,
        slot: cheap_slot(ContainerVersion::V1),
        sector_size: 512,
        ..settings()
    });
    assert!(said.contains("LUKS1"), "{said}");
    let said = refused(ContainerFormat {
        data_offset: Some((3 << 20) - 4096),
        ..settings()
    });
    assert!(said.contains("are needed"), "{said}");
    assert!(luks::integrity_type("crc32").is_err());
}

/// Without the journal, sectors are written in place, and what others wrote through it stays.
#[test]
fn sectors_are_written_without_the_journal() {
    let (container, key) = made();
    luks::wipe(&container, &key, &mut |_, _| true).unwrap();
    let direct = MappingFlags {
        no_journal: true,
        ..MappingFlags::default()
    };
    for (n, flags) in [
        MappingFlags::default(),
        direct,
        MappingFlags::default(),
        direct,
    ]
    .into_iter()
    .enumerate()
    {
        let mapping = open(&container, &key, flags).unwrap();
        assert_eq!(mapping.flags(), flags);
        let bytes = [n as u8 + 1; 4096];
        let (at, all) = (n as u64 * 4096, [IoSlice::new(&bytes)]);
        mapping.write_at(at, &all).unwrap();
        mapping.write_at(64 << 10, &all).unwrap();
        mapping.flush().unwrap();
    }
    let mapping = open(&container, &key, MappingFlags::default()).unwrap();
    let mut sector = [0; 4096];
    for n in 0..4 {
        mapping.read_at(n * 4096, &mut sector).unwrap();
        assert_eq!(sector, [n as u8 + 1; 4096]);
    }
    mapping.read_at(64 << 10, &mut sector).unwrap();
    assert_eq!(sector, [4; 4096]);
}

/// With a damaged journal, what was complete before can be read, and nothing is written.
#[test]
fn a_damaged_journal_is_left_aside() {
    let (container, key) = made();
    luks::wipe(&container, &key, &mut |_, _| true).unwrap();
    let mapping = open(&container, &key, MappingFlags::default()).unwrap();
    mapping.write_at(8192, &[IoSlice::new(&[7; 4096])]).unwrap();
    mapping.flush().unwrap();
    drop(mapping);
    // The journal begins behind the superblock.
    let noise = [0x55; 4096];
    let device = container.device();
    device
        .write_at(DATA_OFFSET + 4096, &[IoSlice::new(&noise)])
        .unwrap();
    let before = {
        let mut bytes = vec![0; device.size() as usize];
        device.read_at(0, &mut bytes).unwrap();
        bytes
    };
    let recovery = MappingFlags {
        recovery: true,
        ..MappingFlags::default()
    };
    let read_only = MappingFlags {
        read_only: true,
        ..recovery
    };
    for flags in [
        MappingFlags::default(),
        MappingFlags {
            recovery: false,
            ..read_only
        },
    ] {
        let damaged = open(&container, &key, flags).map(drop);
        assert!(
            matches!(damaged, Err(Error::Integrity { .. })),
            "{damaged:?}"
        );
    }
    let refused = open(&container, &key, recovery).map(drop);
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    let mapping = open(&container, &key, read_only).unwrap();
    let mut sector = [0; 4096];
    mapping.read_at(8192, &mut sector).unwrap();
    assert_eq!(sector, [7; 4096]);
    assert!(mapping.write_at(0, &[IoSlice::new(&sector)]).is_err());
    let mut after = vec![0; device.size() as usize];
    device.read_at(0, &mut after).unwrap();
    assert!(before == after, "nothing was written");
}
