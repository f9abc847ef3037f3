//! Changing a passphrase where there is no free slot, and the encryption of key material.

use std::sync::Arc;

use crate::common::{
    RANDOM, add, bytes, cheap_slot, container, holds, opens, reopen, secret, small,
};
use block::fault::{FaultClock, FaultDevice, images};
use block::{BlockDevice, MemoryDevice};
use luks::{Container, ContainerFormat, ContainerVersion, Error, SlotChoice};

/// A LUKS2 container with all 32 slots in use, and space for the material of one more.
fn full() -> Container {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(3 << 20));
    let format = ContainerFormat {
        data_offset: Some((32 << 10) + 33 * (64 << 10)),
        ..small(ContainerVersion::V2)
    };
    let made = luks::format(device, &format, &secret("first"), &RANDOM);
    let (mut container, key) = made.unwrap();
    for id in 1..32 {
        add(&mut container, &key, "more", Some(id));
    }
    container
}

fn opens_slot(container: &Container, text: &str, slot: u32) -> bool {
    container.unlock(&secret(text), Some(slot)).is_ok()
}

/// The old passphrase opens or the new one, whenever the power fails, and no other slot is touched.
#[test]
fn a_passphrase_changes_where_all_slots_are_in_use() {
    let made = full();
    let slot = made.slots()[0].clone();
    let material = bytes(&made)[slot.offset as usize..][..64].to_vec();
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::from_bytes(bytes(&made), &clock));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let mut container = Container::open(shared, &RANDOM).unwrap();
    let old = container.unlock(&secret("first"), Some(0)).unwrap();
    let choice = cheap_slot(ContainerVersion::V2);
    let changed = container.change_key(&old, &secret("new"), &choice, &RANDOM);
    assert_eq!(changed.unwrap(), 0);
    assert!(!holds(&device.to_bytes(), &material), "it is overwritten");
    let (end, journal) = (clock.now(), device.take_journal());
    for cut in 0..=end {
        for (seed, image) in images(&journal, cut, 0..4).into_iter().enumerate() {
            let when = format!("cut before {cut} of {end}, seed {seed}");
            let found = reopen(image).unwrap_or_else(|error| panic!("{when}: {error}"));
            let [old, new] = ["first", "new"].map(|text| opens_slot(&found, text, 0));
            assert!(old != new, "{when}: {old}, {new}");
            assert!(old || cut > 0, "{when}");
            assert!(new || cut < end, "{when}");
            assert!(opens_slot(&found, "more", 31), "{when}");
        }
    }
}

/// A container whose header has no space for more key material.
fn without_space(version: ContainerVersion) -> Container {
    let (mut made, key) = container(version);
    let choice = cheap_slot(version);
    while made
        .add_key(&key, &secret("more"), &choice, None, &RANDOM)
        .is_ok()
    {}
    made
}

#[test]
fn a_slot_is_overwritten_only_if_that_is_asked_for() {
    for version in [ContainerVersion::V1, ContainerVersion::V2] {
        let mut made = without_space(version);
        let choice = cheap_slot(version);
        let old = made.unlock(&secret("first"), None).unwrap();
        let before = bytes(&made);
        let refused = made.change_key(&old, &secret("new"), &choice, &RANDOM);
        let Err(Error::NoSpace { what }) = &refused else {
            panic!("{refused:?}");
        };
        assert!(what.contains("--in-place"), "{what}");
        assert_eq!(bytes(&made), before);
        let changed = made.change_key_in_place(&old, &secret("new"), &choice, &RANDOM);
        assert_eq!(changed.unwrap(), 0);
        let read = reopen(bytes(&made)).unwrap();
        assert_eq!(opens(&read, &["first", "new", "more"]), ["new", "more"]);
    }
}

/// After a power cut, no passphrase would be left.
#[test]
fn the_last_slot_is_not_overwritten() {
    for version in [ContainerVersion::V1, ContainerVersion::V2] {
        let (mut made, _) = container(version);
        let old = made.unlock(&secret("first"), None).unwrap();
        let choice = cheap_slot(version);
        let refused = made.change_key_in_place(&old, &secret("new"), &choice, &RANDOM);
        assert!(
            matches!(refused, Err(Error::LastSlot { slot: 0 })),
            "{refused:?}"
        );
        assert_eq!(opens(&made, &["first", "new"]), ["first"]);
    }
}

fn with_cipher(version: ContainerVersion, cipher: &str, key_len: usize) -> SlotChoice {
    SlotChoice {
        cipher: Some((cipher.into(), key_len)),
        ..cheap_slot(version)
    }
}

#[test]
fn key_material_is_encrypted_as_is_asked_for() {
    let (mut made, key) = container(ContainerVersion::V2);
    let choice = with_cipher(ContainerVersion::V2, "serpent-xts-plain64", 64);
    made.add_key(&key, &secret("second"), &choice, None, &RANDOM)
        .unwrap();
    let read = reopen(bytes(&made)).unwrap();
    let slot = &read.slots()[1];
    assert_eq!(
        (&*slot.cipher, slot.cipher_key_len),
        ("serpent-xts-plain64", 64)
    );
    assert_eq!(opens(&read, &["first", "second"]), ["first", "second"]);
    for (cipher, key_len) in [
        ("aes-ecb", 16),
        ("aes-xts-plain64", 20),
        ("capi:xts(aes)-plain64", 64),
        ("cipher_null-ecb", 16),
    ] {
        let choice = with_cipher(ContainerVersion::V2, cipher, key_len);
        let refused = made.add_key(&key, &secret("x"), &choice, None, &RANDOM);
        assert!(matches!(refused, Err(Error::Usage(_))), "{cipher}");
    }
    let (mut made, key) = container(ContainerVersion::V1);
    let choice = with_cipher(ContainerVersion::V1, "aes-xts-plain64", 64);
    let refused = made.add_key(&key, &secret("x"), &choice, None, &RANDOM);
    assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
}
