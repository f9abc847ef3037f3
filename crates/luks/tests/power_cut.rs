//! The power fails at any write of any change: what is found then is the old state or the new one.

mod common;

use std::sync::Arc;

use block::BlockDevice;
use block::fault::{Fault, FaultClock, FaultDevice, images};
use common::{RANDOM, add, cheap_slot, container, opens, reopen, secret, small};
use luks::{Container, ContainerVersion, Error, Priority, Result};

const BOTH: [ContainerVersion; 2] = [ContainerVersion::V1, ContainerVersion::V2];
const ALL: [&str; 3] = ["first", "second", "new"];

/// Does something to a container with the passphrases "first" and "second", and looks at what a power
/// cut leaves, at each write.
fn cut_everywhere(
    version: ContainerVersion,
    change: impl Fn(&mut Container) -> Result<()>,
    check: impl Fn(Result<Container>, &str),
) {
    let (mut made, key) = container(version);
    add(&mut made, &key, "second", None);
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::from_bytes(common::bytes(&made), &clock));
    let mut container =
        Container::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &RANDOM).unwrap();
    change(&mut container).unwrap();
    let end = clock.now();
    let journal = device.take_journal();
    assert!(end > 3, "there was something to cut");
    for cut in 0..=end {
        for (seed, image) in images(&journal, cut, 0..12).into_iter().enumerate() {
            check(
                reopen(image),
                &format!("{version}, cut before {cut} of {end}, seed {seed}"),
            );
        }
    }
}

#[test]
fn a_priority_that_was_not_written_is_not_shown() {
    let (made, _) = container(ContainerVersion::V2);
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::from_bytes(common::bytes(&made), &clock));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let mut container = Container::open(shared, &RANDOM).unwrap();
    device.inject(Fault::FullAfter(device.written()));
    let failed = container.set_priority(0, Priority::Prefer, &RANDOM);
    assert!(failed.is_err());
    assert_eq!(container.slots()[0].priority, Priority::Normal);
    device.heal();
    container
        .set_priority(0, Priority::Prefer, &RANDOM)
        .unwrap();
    assert_eq!(container.slots()[0].priority, Priority::Prefer);
}

#[test]
fn a_key_is_added_or_not() {
    for version in BOTH {
        let change = |container: &mut Container| {
            let key = container.unlock(&secret("first"), None)?.key;
            container
                .add_key(&key, &secret("new"), &cheap_slot(version), None, &RANDOM)
                .map(drop)
        };
        cut_everywhere(version, change, |found, when| {
            let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
            let opens = opens(&found, &ALL);
            assert!(opens == ALL[..2] || opens == ALL, "{when}: {opens:?}");
        });
    }
}

/// A slot that is going may not open any more while it is still listed, but no other is touched.
#[test]
fn a_key_is_removed_or_not() {
    for version in BOTH {
        let change = |container: &mut Container| container.remove_slot(1, false, &RANDOM);
        cut_everywhere(version, change, |found, when| {
            let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
            let opens = opens(&found, &ALL);
            assert!(
                opens == ["first", "second"] || opens == ["first"],
                "{when}: {opens:?}"
            );
        });
    }
}

/// At each moment the old passphrase opens, or the new one.
#[test]
fn a_passphrase_is_exchanged_or_not() {
    for version in BOTH {
        let change = |container: &mut Container| {
            let old = container.unlock(&secret("second"), None)?;
            container
                .change_key(&old, &secret("new"), &cheap_slot(version), &RANDOM)
                .map(drop)
        };
        cut_everywhere(version, change, |found, when| {
            let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
            let opens = opens(&found, &ALL);
            assert!(opens.contains(&"first"), "{when}: {opens:?}");
            assert!(
                opens.contains(&"second") || opens.contains(&"new"),
                "{when}: {opens:?}"
            );
        });
    }
}

#[test]
fn names_are_changed_or_not() {
    for version in BOTH {
        let change =
            |container: &mut Container| container.rename(Some("other"), None, None, &RANDOM);
        cut_everywhere(version, change, |found, when| {
            let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!([common::UUID, "other"].contains(&found.uuid()), "{when}");
            assert_eq!(opens(&found, &ALL), ALL[..2], "{when}");
        });
    }
}

/// From one version to the other and back: it opens at every moment, as one of them.
#[test]
fn a_container_is_converted_or_not() {
    for (from, to) in [
        (ContainerVersion::V1, ContainerVersion::V2),
        (ContainerVersion::V2, ContainerVersion::V1),
    ] {
        let change = |container: &mut Container| {
            if from == ContainerVersion::V2 {
                for name in ["first", "second"] {
                    let old = container.unlock(&secret(name), None)?;
                    let choice = cheap_slot(ContainerVersion::V1);
                    container.change_key(&old, &secret(name), &choice, &RANDOM)?;
                }
            }
            container.convert(to, &RANDOM)
        };
        cut_everywhere(from, change, |found, when| {
            let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_eq!(
                opens(&found, &ALL),
                ALL[..2],
                "{when}, found {}",
                found.version()
            );
        });
    }
}

/// An erased container may be half erased, but what is found is the container, and a header that is whole.
#[test]
fn a_container_is_erased_or_not() {
    for version in BOTH {
        let change = |container: &mut Container| container.erase(&RANDOM);
        cut_everywhere(version, change, |found, when| {
            let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_eq!(found.uuid(), common::UUID, "{when}");
        });
    }
}

/// A container that is made, over another one: afterwards there is the old one, the new one, or none.
#[test]
fn a_container_is_made_whole_or_not_at_all() {
    for version in BOTH {
        for old in BOTH {
            let change = |container: &mut Container| {
                let device = Arc::clone(container.device());
                let format = luks::ContainerFormat {
                    uuid: "the-new-one".into(),
                    ..small(version)
                };
                luks::format(device, &format, &secret("new"), &RANDOM).map(drop)
            };
            cut_everywhere(old, change, |found, when| match found {
                Ok(found) if found.uuid() == "the-new-one" => {
                    assert_eq!(opens(&found, &ALL), ["new"], "{when}");
                }
                Ok(found) => {
                    assert_eq!(found.uuid(), common::UUID, "{when}");
                    assert_eq!(opens(&found, &ALL), ALL[..2], "{when}");
                }
                Err(Error::NotLuks { .. } | Error::Damaged { .. } | Error::Overwritten { .. }) => {}
                Err(error) => panic!("{when}: {error}"),
            });
        }
    }
}

/// The restored header is smaller or larger than the old one, or of the other version.
#[test]
fn a_header_is_restored_or_the_old_one_is_there() {
    let with_copies = |copy_len| luks::ContainerFormat {
        copy_len,
        areas_len: Some(256 << 10),
        ..small(ContainerVersion::V2)
    };
    let shapes = [
        small(ContainerVersion::V1),
        small(ContainerVersion::V2),
        with_copies(0x1_0000),
    ];
    for old in &shapes {
        for new in &shapes {
            restore_with_cuts(old, new);
            let other = luks::ContainerFormat {
                uuid: "another".into(),
                ..new.clone()
            };
            if old.version != new.version {
                restore_with_cuts(old, &other);
            }
        }
    }
}

fn restore_with_cuts(old: &luks::ContainerFormat, new: &luks::ContainerFormat) {
    let made = |format, passphrase| {
        let device: Arc<dyn BlockDevice> = Arc::new(block::MemoryDevice::new(2 << 20));
        luks::format(device, format, &secret(passphrase), &RANDOM)
            .unwrap()
            .0
    };
    let (there, backup) = (made(old, "old"), made(new, "new"));
    let backup = luks::read_backup(backup.backup().unwrap(), &RANDOM).unwrap();
    let clock = FaultClock::new();
    let device = FaultDevice::from_bytes(common::bytes(&there), &clock);
    let mut kept = Vec::new();
    luks::restore(&device, &backup, |old| {
        kept = old.to_vec();
        Ok(())
    })
    .unwrap();
    let (end, journal) = (clock.now(), device.take_journal());
    let data = common::bytes(&there).split_off(1 << 20);
    for cut in 0..=end {
        for (seed, image) in images(&journal, cut, 0..8).into_iter().enumerate() {
            let when = format!(
                "{} with {} over {} with {}, cut before {cut} of {end}, seed {seed}",
                new.version, new.copy_len, old.version, old.copy_len
            );
            assert!(image[1 << 20..] == data, "{when}");
            let found = reopen(image).unwrap_or_else(|error| panic!("{when}: {error}"));
            let is_one_of_them = [(&old.uuid, old.version), (&new.uuid, new.version)]
                .contains(&(&found.uuid().to_owned(), found.version()));
            assert!(is_one_of_them, "{when}: {}", found.version());
            if cut == end {
                assert_eq!(opens(&found, &["old", "new"]), ["new"], "{when}");
            }
            if seed > 1 {
                continue;
            }
            // Both ways out of it.
            let old = luks::read_backup(kept.clone(), &RANDOM).unwrap();
            for (backup, opened) in [(&old, "old"), (&backup, "new")] {
                luks::restore(&**found.device(), backup, |_| Ok(())).unwrap();
                let found = reopen(common::bytes(&found)).unwrap();
                assert_eq!(opens(&found, &["old", "new"]), [opened], "{when}");
            }
        }
    }
}

/// A device that fails from some write on: an error, and the old state or the new one when it works again.
#[test]
fn a_device_that_fails_leaves_the_old_state_or_the_new_one() {
    for version in BOTH {
        for at in 0..24 {
            let (made, _) = container(version);
            let clock = FaultClock::new();
            let device = Arc::new(FaultDevice::from_bytes(common::bytes(&made), &clock));
            let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
            let mut container = Container::open(shared, &RANDOM).unwrap();
            let old = container.unlock(&secret("first"), None).unwrap();
            device.inject(Fault::DeadFrom(at));
            let changed = container.change_key(&old, &secret("new"), &cheap_slot(version), &RANDOM);
            device.heal();
            let found = reopen(device.to_bytes()).unwrap();
            let opens = opens(&found, &["first", "new"]);
            match changed {
                Ok(_) => assert_eq!(opens, ["new"], "{version}, dead from {at}"),
                Err(_) => assert!(!opens.is_empty(), "{version}, dead from {at}"),
            }
        }
    }
}
