//! Several ways to one wrapping key.

mod common;

use std::time::Instant;

use cipher::SeededRandom;
use common::{CHEAP, FAMILY, NOW, generations, key, keyring, passphrase};
use keys::{
    Argon2Params, Backup, BackupKeyring, Error, GuessCost, KeySlot, Keyring, SLOTS_MAX, SlotKind,
    WrappingKeyAccess,
};

#[test]
fn each_of_two_slots_opens() {
    let random = SeededRandom::new(1);
    let (mut keyring, wrapping_key) = keyring(&passphrase("correct horse"), &random);
    let mut wrapping = keyring.wrapping().clone();
    let number = wrapping
        .add_slot(&wrapping_key, 200, &key(7), &CHEAP, NOW + 1, &random)
        .expect("add");
    assert_eq!(number, 1);
    keyring
        .set_wrapping(wrapping)
        .expect("the same wrapping key");

    let keyring = Keyring::decode(&keyring.encode()).expect("encoded");
    let data_key = |material| {
        let wrapping_key = keyring.unlock(&material).expect("unlock");
        let keys = keyring.open(&wrapping_key).expect("open");
        keys[0].data.expose().to_vec()
    };
    assert_eq!(data_key(passphrase("correct horse")), data_key(key(7)));
    assert!(matches!(
        keyring.unlock(&passphrase("wrong horse")),
        Err(Error::WrongKey)
    ));
    assert!(matches!(keyring.unlock(&key(8)), Err(Error::WrongKey)));

    let slots = keyring.wrapping().slots();
    let seen: Vec<_> = slots
        .iter()
        .map(|s| (s.number(), s.priority(), s.created()))
        .collect();
    assert_eq!(
        seen,
        [(0, KeySlot::PRIORITY_NORMAL, NOW), (1, 200, NOW + 1)]
    );
    assert!(
        matches!(slots[0].kind(), SlotKind::Passphrase { cost, .. } if *cost == GuessCost::from(&CHEAP))
    );
    assert!(matches!(slots[1].kind(), SlotKind::Key { .. }));
}

/// Changing a passphrase does not take the old one, only the loaded wrapping key.
#[test]
fn a_replaced_slot_opens_with_the_new_key_only() {
    let random = SeededRandom::new(1);
    let (keyring, wrapping_key) = keyring(&passphrase("old passphrase"), &random);
    let mut wrapping = keyring.wrapping().clone();
    let salt = |wrapping: &WrappingKeyAccess| match wrapping.slots()[0].kind() {
        SlotKind::Passphrase { salt, .. } => *salt,
        other => panic!("{other:?}"),
    };
    let old_salt = salt(&wrapping);
    let new = passphrase("new passphrase");
    wrapping
        .replace_slot(0, &wrapping_key, &new, &CHEAP, NOW + 5, &random)
        .expect("replace");
    assert_ne!(salt(&wrapping), old_salt);
    assert_eq!(wrapping.slots()[0].created(), NOW + 5);
    wrapping.unlock(&new).expect("the new passphrase");
    let old = wrapping.unlock(&passphrase("old passphrase"));
    assert!(matches!(old, Err(Error::WrongKey)));

    // The same passphrase again gets another salt, too.
    let salt_before = salt(&wrapping);
    wrapping
        .replace_slot(0, &wrapping_key, &new, &CHEAP, NOW, &random)
        .expect("replace");
    assert_ne!(salt(&wrapping), salt_before);

    // And a slot may change its kind.
    wrapping
        .replace_slot(0, &wrapping_key, &key(9), &CHEAP, NOW, &random)
        .expect("replace");
    let unlocked = wrapping.unlock(&key(9)).expect("the key");
    keyring.open(&unlocked).expect("the same wrapping key");
    assert!(matches!(wrapping.unlock(&new), Err(Error::KindMismatch(_))));
}

#[test]
fn slots_are_numbered_by_the_lowest_free_number() {
    let random = SeededRandom::new(1);
    let (mut wrapping, wrapping_key) =
        WrappingKeyAccess::create(&key(0), &CHEAP, NOW, &random).expect("create");
    let add = |wrapping: &mut WrappingKeyAccess, byte| {
        wrapping.add_slot(&wrapping_key, 0, &key(byte), &CHEAP, NOW, &random)
    };
    for number in 1..SLOTS_MAX as u32 {
        assert_eq!(add(&mut wrapping, number as u8).expect("space"), number);
    }
    assert!(matches!(add(&mut wrapping, 99), Err(Error::SlotsFull)));
    wrapping.remove_slot(5, &wrapping_key).expect("remove");
    wrapping.remove_slot(17, &wrapping_key).expect("remove");
    assert!(matches!(
        wrapping.remove_slot(5, &wrapping_key),
        Err(Error::NoSlot(5))
    ));
    assert!(matches!(wrapping.unlock(&key(5)), Err(Error::WrongKey)));
    assert_eq!(add(&mut wrapping, 50).expect("space"), 5);
    assert_eq!(add(&mut wrapping, 51).expect("space"), 17);
    assert!(matches!(add(&mut wrapping, 99), Err(Error::SlotsFull)));

    let full = Keyring::new(
        FAMILY,
        wrapping.clone(),
        generations(&wrapping_key, &random),
    );
    let full = full.expect("a keyring");
    assert_eq!(Keyring::decode(&full.encode()).expect("encoded"), full);
    for byte in [0, 1, 16, 31, 50, 51] {
        wrapping.unlock(&key(byte)).expect("one of the slots");
    }
}

#[test]
fn the_last_slot_stays() {
    let random = SeededRandom::new(1);
    let (mut wrapping, wrapping_key) =
        WrappingKeyAccess::create(&key(0), &CHEAP, NOW, &random).expect("create");
    assert!(matches!(
        wrapping.remove_slot(0, &wrapping_key),
        Err(Error::LastSlot(0))
    ));
    assert!(matches!(
        wrapping.remove_slot(1, &wrapping_key),
        Err(Error::NoSlot(1))
    ));
    wrapping.unlock(&key(0)).expect("still there");
}

#[test]
fn slots_are_changed_with_their_own_wrapping_key_only() {
    let random = SeededRandom::new(1);
    let (mut wrapping, own) =
        WrappingKeyAccess::create(&key(0), &CHEAP, NOW, &random).expect("create");
    let (_, other) = WrappingKeyAccess::create(&key(0), &CHEAP, NOW, &random).expect("create");
    let before = wrapping.clone();
    let added = wrapping.add_slot(&other, 0, &key(1), &CHEAP, NOW, &random);
    assert!(matches!(added, Err(Error::WrongKey)));
    let replaced = wrapping.replace_slot(0, &other, &key(1), &CHEAP, NOW, &random);
    assert!(matches!(replaced, Err(Error::WrongKey)));
    assert!(matches!(
        wrapping.remove_slot(0, &other),
        Err(Error::WrongKey)
    ));
    let missing = wrapping.replace_slot(3, &own, &key(1), &CHEAP, NOW, &random);
    assert!(matches!(missing, Err(Error::NoSlot(3))));
    assert_eq!(wrapping, before);

    let mut inherited = WrappingKeyAccess::Inherited { id: *own.id() };
    let added = inherited.add_slot(&own, 0, &key(1), &CHEAP, NOW, &random);
    assert!(matches!(added, Err(Error::Inherited)));
}

#[test]
fn slots_with_a_higher_priority_are_tried_first() {
    let random = SeededRandom::new(1);
    let slow = Argon2Params::new(64 << 10, 3, 1).expect("policy");
    let phrase = passphrase("correct horse");
    let (mut wrapping, wrapping_key) =
        WrappingKeyAccess::create(&phrase, &slow, NOW, &random).expect("create");
    let time = |wrapping: &WrappingKeyAccess| {
        let start = Instant::now();
        wrapping.unlock(&phrase).expect("unlock");
        start.elapsed()
    };
    let slow_alone = time(&wrapping);
    wrapping
        .add_slot(&wrapping_key, 255, &phrase, &CHEAP, NOW, &random)
        .expect("add");
    // If the slow slot, which has the lower number, were tried first, each would take as long.
    let with_fast = (0..5).map(|_| time(&wrapping)).min().expect("five");
    assert!(with_fast < slow_alone / 2);
}

#[test]
fn cheap_parameters_are_refused_but_the_ones_for_tests() {
    let random = SeededRandom::new(1);
    let phrase = passphrase("correct horse");
    // They can be read from a foreign keyring, but not be used again for a new slot.
    let (keyring, wrapping_key) = keyring(&phrase, &random);
    let mut bytes = keyring.encode();
    let memory = 48 + 128 + 4;
    bytes[memory..memory + 4].copy_from_slice(&64u32.to_le_bytes());
    common::fix_checksum(&mut bytes);
    let foreign = Keyring::decode(&bytes).expect("in bounds");
    let SlotKind::Passphrase {
        cost: GuessCost::Argon2id(params),
        ..
    } = foreign.wrapping().slots()[0].kind()
    else {
        panic!("a passphrase slot");
    };
    assert_eq!(params.memory_kib(), 64);
    let mut wrapping = keyring.wrapping().clone();
    let replaced = wrapping.replace_slot(0, &wrapping_key, &phrase, params, NOW, &random);
    assert!(matches!(replaced, Err(Error::KdfParams(_))));
    assert_eq!(&wrapping, keyring.wrapping());
    let created = WrappingKeyAccess::create(&phrase, params, NOW, &random);
    assert!(matches!(created, Err(Error::KdfParams(_))));
}

/// Slots that a later version of the program adds are kept, and do not get in the way.
#[test]
fn a_slot_of_an_unknown_kind_is_kept() {
    let random = SeededRandom::new(1);
    let (keyring, wrapping_key) = keyring(&key(7), &random);
    let mut wrapping = keyring.wrapping().clone();
    wrapping
        .add_slot(&wrapping_key, 255, &key(8), &CHEAP, NOW, &random)
        .expect("add");
    let generations = keyring.generations().to_vec();
    let keyring = Keyring::new(FAMILY, wrapping, generations).expect("a keyring");
    for (at, value) in [(4, 99), (6, 3)] {
        let mut bytes = keyring.encode();
        bytes[48 + 128 + 32 + at] = value;
        common::fix_checksum(&mut bytes);
        let later = Keyring::decode(&bytes).expect("readable");
        assert!(matches!(
            later.wrapping().slots()[1].kind(),
            SlotKind::Other { .. }
        ));
        assert_eq!(later.encode(), bytes);
        let unlocked = later.unlock(&key(7)).expect("the slot that is known");
        later.open(&unlocked).expect("the generations");
        assert!(matches!(later.unlock(&key(8)), Err(Error::WrongKey)));
    }
}

/// A slot for a recipient has a public key and a ciphertext of a hybrid exchange (X25519 with ML-KEM-768) as
/// parameters.
#[test]
fn all_slots_can_be_for_recipients() {
    const PARAMS: usize = 2560;
    let random = SeededRandom::new(1);
    let (own, _) = keyring(&key(7), &random);
    let mut bytes = own.encode();
    let slot_end = 48 + 128 + 32;
    let head = &bytes[48..48 + 128];
    let recipients: Vec<u8> = (1..32u32)
        .flat_map(|number| {
            let mut slot = head.to_vec();
            slot[..4].copy_from_slice(&number.to_le_bytes());
            slot[4..6].copy_from_slice(&7u16.to_le_bytes());
            slot[16..18].copy_from_slice(&(PARAMS as u16).to_le_bytes());
            slot.extend(vec![number as u8; PARAMS]);
            slot
        })
        .collect();
    bytes.splice(slot_end..slot_end, recipients);
    bytes[15] = 32;
    common::fix_length_and_checksum(&mut bytes);

    let full = Keyring::decode(&bytes).expect("readable");
    assert_eq!(full.wrapping().slots().len(), SLOTS_MAX);
    assert_eq!(full.encode(), bytes);
    let unlocked = full.unlock(&key(7)).expect("the slot that is known");
    full.open(&unlocked).expect("the generations");
    // The key area, crates/pool/tests/send.rs stores and sends as many bytes.
    assert!(bytes.len() < 90_000, "{}", bytes.len());

    let of = |guid| BackupKeyring {
        guid,
        name: "tank/a".into(),
        keysource: "passphrase,prompt".into(),
        bytes: bytes.clone(),
    };
    let backup = Backup {
        created: NOW,
        keyrings: (0..100).map(of).collect(),
    };
    let copy = backup.encode().expect("a backup");
    assert_eq!(Backup::decode(&copy).expect("readable"), backup);
}

#[test]
fn nothing_prints_a_secret() {
    let random = SeededRandom::new(1);
    let material = passphrase("correct horse");
    let (keyring, wrapping_key) = keyring(&material, &random);
    let keys = keyring.open(&wrapping_key).expect("open");
    let printed = format!(
        "{material:?} {wrapping_key:?} {keys:?} {:?}",
        keys[0].record_cipher()
    );
    assert!(!printed.contains("horse"));
    let seal = keys[0].seal.as_ref().expect("it seals");
    for secret in [&keys[0].data, &keys[0].dedup, seal] {
        let list = format!("{:?}", secret.expose());
        let inner = list.trim_matches(['[', ']']);
        assert!(!printed.contains(inner));
    }
    assert!(printed.contains("[redacted]"));
}
