//! The passphrases of a container: adding, changing and removing them.

use crate::common::{RANDOM, add, bytes, cheap_slot, container, holds, opens, reopen, secret};
use luks::{ContainerVersion, Error, Priority};

const BOTH: [ContainerVersion; 2] = [ContainerVersion::V1, ContainerVersion::V2];

#[test]
fn a_container_opens_with_its_passphrase_only() {
    for version in BOTH {
        let (made, key) = container(version);
        let read = reopen(bytes(&made)).unwrap();
        assert_eq!(read.version(), version);
        let unlocked = read.unlock(&secret("first"), None).unwrap();
        assert_eq!((unlocked.slot, &unlocked.key), (0, &key));
        for wrong in ["", "firs", "first ", "First"] {
            let error = read.unlock(&secret(wrong), None).unwrap_err();
            assert!(matches!(error, Error::WrongPassphrase { .. }), "{error}");
        }
        let error = read.unlock(&secret("first"), Some(3)).unwrap_err();
        assert!(matches!(error, Error::NoSlot { slot: 3, .. }), "{error}");
    }
}

#[test]
fn keys_come_and_go() {
    for version in BOTH {
        let (mut made, key) = container(version);
        let slot = cheap_slot(version);
        let id = made
            .add_key(&key, &secret("second"), &slot, None, &RANDOM)
            .unwrap();
        let five = made
            .add_key(&key, &secret("fifth"), &slot, Some(5), &RANDOM)
            .unwrap();
        assert_eq!((id, five), (1, 5));
        let taken = made.add_key(&key, &secret("x"), &slot, Some(5), &RANDOM);
        assert!(matches!(taken, Err(Error::SlotInUse { slot: 5 })));
        let other_key = secret("0123456789abcdef");
        assert!(
            made.add_key(&other_key, &secret("x"), &slot, None, &RANDOM)
                .is_err()
        );

        let all = ["first", "second", "fifth"];
        assert_eq!(opens(&reopen(bytes(&made)).unwrap(), &all), all);
        let material = made
            .slots()
            .iter()
            .find(|slot| slot.id == 1)
            .unwrap()
            .clone();
        let before = bytes(&made)[material.offset as usize..][..64].to_vec();
        made.remove_slot(1, false, &RANDOM).unwrap();
        assert!(
            !holds(&bytes(&made), &before),
            "old material is overwritten"
        );
        assert_eq!(
            opens(&reopen(bytes(&made)).unwrap(), &all),
            ["first", "fifth"]
        );
        made.remove_slot(0, false, &RANDOM).unwrap();
        let last = made.remove_slot(5, false, &RANDOM).unwrap_err();
        assert!(matches!(last, Error::LastSlot { slot: 5 }), "{last}");
        assert_eq!(opens(&made, &all), ["fifth"]);
        made.remove_slot(5, true, &RANDOM).unwrap();
        assert!(opens(&reopen(bytes(&made)).unwrap(), &all).is_empty());
    }
}

#[test]
fn a_passphrase_is_exchanged() {
    for version in BOTH {
        let (mut made, _) = container(version);
        let old = made.unlock(&secret("first"), None).unwrap();
        let slot = made.slots()[0].clone();
        let before = bytes(&made)[slot.offset as usize..][..64].to_vec();
        let id = made
            .change_key(&old, &secret("new"), &cheap_slot(version), &RANDOM)
            .unwrap();
        assert_eq!(
            id,
            if version == ContainerVersion::V1 {
                1
            } else {
                0
            }
        );
        let read = reopen(bytes(&made)).unwrap();
        assert_eq!(opens(&read, &["first", "new"]), ["new"]);
        assert_eq!(read.slots().len(), 1);
        assert!(
            !holds(&bytes(&made), &before),
            "old material is overwritten"
        );
    }
}

#[test]
fn all_slots_can_be_used() {
    for (version, most) in [(ContainerVersion::V1, 8), (ContainerVersion::V2, 32)] {
        // LUKS2 has space for as many as fit before its data.
        let slots = match version {
            ContainerVersion::V1 => most,
            ContainerVersion::V2 => ((1 << 20) - (32 << 10)) / (64 << 10),
        };
        let (mut made, key) = container(version);
        let slot = cheap_slot(version);
        for id in 1..slots {
            made.add_key(&key, &secret("more"), &slot, Some(id), &RANDOM)
                .unwrap();
        }
        let before = bytes(&made);
        let full = made.add_key(&key, &secret("more"), &slot, None, &RANDOM);
        assert!(matches!(full, Err(Error::NoSpace { .. })), "{full:?}");
        assert_eq!(
            before,
            bytes(&made),
            "nothing is changed by what is refused"
        );
        assert_eq!(opens(&made, &["first", "more"]), ["first", "more"]);
    }
}

#[test]
fn erasing_leaves_nothing_to_open() {
    for version in BOTH {
        let (mut made, _) = container(version);
        let slot = made.slots()[0].clone();
        let before = bytes(&made);
        made.erase(&RANDOM).unwrap();
        let after = bytes(&made);
        for at in (slot.offset..slot.offset + slot.material_len()).step_by(512) {
            assert_ne!(before[at as usize..][..16], after[at as usize..][..16]);
        }
        let read = reopen(after).unwrap();
        assert!(read.slots().is_empty());
        for error in [
            read.check_slots(None).unwrap_err(),
            read.unlock(&secret("first"), None).map(drop).unwrap_err(),
        ] {
            assert!(matches!(error, Error::NoUsableSlot { .. }), "{error}");
            assert!(error.to_string().contains("it has none"), "{error}");
        }
    }
}

#[test]
fn damaged_material_is_told_from_a_wrong_passphrase() {
    for version in BOTH {
        let (made, _) = container(version);
        let slot = made.slots()[0].clone();
        for (from, len) in [(0, 512), (1024, 4096), (slot.material_len() - 512, 512)] {
            let mut image = bytes(&made);
            image[(slot.offset + from) as usize..][..len].fill(0);
            let read = reopen(image).unwrap();
            let error = read.unlock(&secret("first"), None).unwrap_err();
            let at = slot.offset + from;
            assert!(
                matches!(error, Error::KeyMaterial { slot: 0, offset, .. } if offset == at),
                "{error}"
            );
        }
        // Another slot still opens it.
        let (mut made, key) = container(version);
        add(&mut made, &key, "second", None);
        let mut image = bytes(&made);
        image[slot.offset as usize..][..512].fill(7);
        assert_eq!(
            opens(&reopen(image).unwrap(), &["first", "second"]),
            ["second"]
        );
    }
}

#[test]
fn priorities_decide_what_is_tried() {
    let (mut made, key) = container(ContainerVersion::V2);
    let slot = cheap_slot(ContainerVersion::V2);
    made.add_key(&key, &secret("second"), &slot, None, &RANDOM)
        .unwrap();
    made.set_priority(1, Priority::Prefer, &RANDOM).unwrap();
    made.set_priority(0, Priority::Ignore, &RANDOM).unwrap();
    let mut read = reopen(bytes(&made)).unwrap();
    let order: Vec<u32> = read.slots().iter().map(|slot| slot.id).collect();
    assert_eq!(order, [1, 0]);
    assert_eq!(opens(&read, &["first", "second"]), ["second"]);
    assert_eq!(read.unlock(&secret("first"), Some(0)).unwrap().slot, 0);
    read.set_priority(0, Priority::Normal, &RANDOM).unwrap();
    assert_eq!(opens(&read, &["first", "second"]), ["first", "second"]);
    assert!(read.dump().contains("Priority:   preferred"));
    assert!(matches!(
        read.set_priority(7, Priority::Normal, &RANDOM),
        Err(Error::NoSlot { .. })
    ));
    let (mut old, _) = container(ContainerVersion::V1);
    assert!(old.set_priority(0, Priority::Ignore, &RANDOM).is_err());
}

#[test]
fn names_are_changed() {
    let (mut made, _) = container(ContainerVersion::V2);
    made.rename(Some("other"), Some("my disk"), Some("mine"), &RANDOM)
        .unwrap();
    let read = reopen(bytes(&made)).unwrap();
    let luks::Header::V2(header) = read.header() else {
        panic!()
    };
    let names = (
        header.uuid.as_str(),
        header.label.as_str(),
        header.subsystem.as_str(),
    );
    assert_eq!(names, ("other", "my disk", "mine"));
    let long = "x".repeat(48);
    assert!(made.rename(None, Some(&long), None, &RANDOM).is_err());
    assert_eq!(opens(&reopen(bytes(&made)).unwrap(), &["first"]), ["first"]);
    let (mut old, _) = container(ContainerVersion::V1);
    old.rename(Some("other"), None, None, &RANDOM).unwrap();
    assert_eq!(reopen(bytes(&old)).unwrap().uuid(), "other");
    assert!(old.rename(None, Some("my disk"), None, &RANDOM).is_err());
}
