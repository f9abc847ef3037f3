//! Backups of headers, and conversion between the versions.

use crate::common::{RANDOM, add, bytes, cheap_slot, container, opens, reopen, secret, small};
use luks::{ContainerVersion, Error};

const BOTH: [ContainerVersion; 2] = [ContainerVersion::V1, ContainerVersion::V2];

#[test]
fn a_backup_opens_what_was_erased() {
    for version in BOTH {
        let (mut made, key) = container(version);
        let backup = made.backup().unwrap();
        let kept = luks::read_backup(backup.clone(), &RANDOM).unwrap();
        assert_eq!(kept.unlock(&secret("first"), None).unwrap().key, key);
        made.erase(&RANDOM).unwrap();
        assert!(opens(&made, &["first"]).is_empty());
        luks::restore(&**made.device(), &kept, |_| Ok(())).unwrap();
        let read = reopen(bytes(&made)).unwrap();
        assert_eq!(read.unlock(&secret("first"), None).unwrap().key, key);
        for cut in [0, 100, 5000, backup.len() - 1] {
            assert!(luks::read_backup(backup[..cut].to_vec(), &RANDOM).is_err());
        }
    }
}

#[test]
fn a_backup_of_other_data_is_refused() {
    for version in BOTH {
        let (made, _) = container(version);
        let device = std::sync::Arc::new(block::MemoryDevice::new(4 << 20));
        let other = luks::ContainerFormat {
            data_offset: Some(2 << 20),
            ..small(version)
        };
        let (other, _) = luks::format(device, &other, &secret("other"), &RANDOM).unwrap();
        let backup = luks::read_backup(other.backup().unwrap(), &RANDOM).unwrap();
        let before = bytes(&made);
        let refused = luks::restore(&**made.device(), &backup, |_| Ok(()));
        assert!(
            matches!(refused, Err(Error::Usage(_) | Error::TooSmall { .. })),
            "{refused:?}"
        );
        assert_eq!(before, bytes(&made));
    }
}

#[test]
fn there_and_back() {
    let (mut made, key) = container(ContainerVersion::V1);
    add(&mut made, &key, "second", Some(6));
    let old: Vec<_> = made.slots();
    let material = bytes(&made)[old[1].offset as usize..][..64].to_vec();
    made.convert(ContainerVersion::V2, &RANDOM).unwrap();
    assert_eq!(made.version(), ContainerVersion::V2);
    let mut read = reopen(bytes(&made)).unwrap();
    assert_eq!(read.version(), ContainerVersion::V2);
    assert_eq!(opens(&read, &["first", "second"]), ["first", "second"]);
    assert_eq!(read.unlock(&secret("first"), None).unwrap().key, key);
    let new = read.slots().into_iter().find(|slot| slot.id == 6).unwrap();
    let image = bytes(&read);
    assert_eq!(image[new.offset as usize..][..64], material);
    let copies = image
        .chunks_exact(64)
        .filter(|chunk| *chunk == material)
        .count();
    assert_eq!(copies, 1, "material is nowhere else any more");

    assert!(
        read.convert(ContainerVersion::V2, &RANDOM).is_err(),
        "it is LUKS2 already"
    );
    read.convert(ContainerVersion::V1, &RANDOM).unwrap();
    let read = reopen(bytes(&read)).unwrap();
    assert_eq!(read.version(), ContainerVersion::V1);
    assert_eq!(read.unlock(&secret("second"), None).unwrap().key, key);
    assert_eq!(read.segment().unwrap().offset, 1 << 20);
}

#[test]
fn what_luks1_cannot_hold_is_not_converted() {
    let (mut made, _) = container(ContainerVersion::V2);
    let before = bytes(&made);
    let refused = made.convert(ContainerVersion::V1, &RANDOM).unwrap_err();
    assert!(refused.to_string().contains("pbkdf2"), "{refused}");
    assert_eq!(bytes(&made), before);
    let old = made.unlock(&secret("first"), None).unwrap();
    made.change_key(
        &old,
        &secret("first"),
        &cheap_slot(ContainerVersion::V1),
        &RANDOM,
    )
    .unwrap();
    let token = made.keyring_token("x", None);
    made.add_token(token, None, &RANDOM).unwrap();
    let refused = made.convert(ContainerVersion::V1, &RANDOM).unwrap_err();
    assert!(refused.to_string().contains("tokens"), "{refused}");
    made.remove_token(0, &RANDOM).unwrap();
    made.convert(ContainerVersion::V1, &RANDOM).unwrap();
    assert_eq!(opens(&reopen(bytes(&made)).unwrap(), &["first"]), ["first"]);
}
