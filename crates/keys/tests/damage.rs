//! A wrong key and a damaged keyring are told apart, and nothing that was changed is ever accepted.

mod common;

use cipher::{Random, SeededRandom, Suite};
use common::{
    FAMILY, fix_checksum, fix_length_and_checksum, generations, key, keyring, passphrase,
};
use keys::{Error, KeyMaterial, Keyring, SlotKind, WrappingKeyAccess};

/// Decodes, unlocks and opens everything.
fn open_all(bytes: &[u8], material: &KeyMaterial) -> Result<(), Error> {
    let keyring = Keyring::decode(bytes)?;
    let wrapping_key = keyring.unlock(material)?;
    keyring.open(&wrapping_key).map(drop)
}

#[test]
fn a_wrong_key_is_a_wrong_key() {
    let random = SeededRandom::new(1);
    let (with_passphrase, _) = keyring(&passphrase("correct horse"), &random);
    let bytes = with_passphrase.encode();
    open_all(&bytes, &passphrase("correct horse")).expect("the right passphrase");
    for wrong in [
        "correct horsf",
        "correct hors",
        "Correct horse",
        "correct horse\n",
    ] {
        let opened = open_all(&bytes, &passphrase(wrong));
        assert!(matches!(opened, Err(Error::WrongKey)));
    }
    let (with_key, _) = keyring(&key(7), &random);
    let bytes = with_key.encode();
    open_all(&bytes, &key(7)).expect("the right key");
    assert!(matches!(open_all(&bytes, &key(8)), Err(Error::WrongKey)));
}

#[test]
fn another_kind_of_key_is_neither() {
    let random = SeededRandom::new(1);
    let (with_passphrase, _) = keyring(&passphrase("correct horse"), &random);
    let opened = open_all(&with_passphrase.encode(), &key(7));
    assert!(matches!(opened, Err(Error::KindMismatch("raw or hex key"))));
    let (with_key, _) = keyring(&key(7), &random);
    let opened = open_all(&with_key.encode(), &passphrase("correct horse"));
    assert!(matches!(opened, Err(Error::KindMismatch("passphrase"))));
}

/// Whatever bit the medium flips, the keyring is damaged; the key is not blamed.
#[test]
fn every_flipped_bit_is_damage() {
    let random = SeededRandom::new(1);
    let (keyring, _) = keyring(&passphrase("correct horse"), &random);
    let bytes = keyring.encode();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let decoded = Keyring::decode(&flipped);
        assert!(matches!(decoded, Err(Error::Damaged(_))), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_damage() {
    let random = SeededRandom::new(1);
    let (keyring, _) = keyring(&passphrase("correct horse"), &random);
    let bytes = keyring.encode();
    for len in 0..bytes.len() {
        let decoded = Keyring::decode(&bytes[..len]);
        assert!(matches!(decoded, Err(Error::Damaged(_))), "{len} bytes");
        // Also if the missing piece is covered up.
        let mut cut = bytes[..len].to_vec();
        fix_length_and_checksum(&mut cut);
        let decoded = Keyring::decode(&cut);
        assert!(matches!(decoded, Err(Error::Damaged(_))), "{len} bytes");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(Keyring::decode(&longer), Err(Error::Damaged(_))));
}

#[test]
fn a_later_version_is_not_damage() {
    let random = SeededRandom::new(1);
    let (keyring, _) = keyring(&key(7), &random);
    let mut bytes = keyring.encode();
    let decoded = |bytes: &mut Vec<u8>, version: u16| {
        bytes[12..14].copy_from_slice(&version.to_le_bytes());
        fix_checksum(bytes);
        Keyring::decode(bytes)
    };
    let newer = decoded(&mut bytes, 4);
    assert!(matches!(newer, Err(Error::TooNew { version: 4 })));
    // A keyring has the version that its generations need, and no other.
    let without_rule = decoded(&mut bytes, 2);
    assert!(matches!(without_rule, Err(Error::Damaged(_))));
}

/// An attacker edits a keyring and makes the checksum right. Every field is bound to a key, so whatever
/// bit it is, the keyring does not open.
#[test]
fn no_flipped_bit_passes_with_the_checksum_made_right() {
    let random = SeededRandom::new(1);
    for (material, is_rotated) in [(passphrase("correct horse"), false), (key(7), true)] {
        let (mut keyring, own) = keyring(&material, &random);
        if is_rotated {
            let rotated = keyring.rotate(&own, 300, Suite::DEFAULT, 0, &random);
            rotated.expect("rotate");
        }
        let bytes = keyring.encode();
        let mut wrong_key = 0;
        for bit in 0..(bytes.len() - 32) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fix_checksum(&mut flipped);
            if asks_for_much_memory(&flipped) {
                continue;
            }
            let error = open_all(&flipped, &material).expect_err("a changed keyring opened");
            match error {
                Error::WrongKey => wrong_key += 1,
                Error::Damaged(_) => {}
                Error::TooNew { .. } => assert!((96..112).contains(&bit), "bit {bit}"),
                // The kind or algorithm of the slot became one that a later version may have.
                Error::KindMismatch(_) => {
                    let kind = (48 + 4) * 8..(48 + 7) * 8;
                    let kdf = (48 + 128) * 8..(48 + 130) * 8;
                    assert!(kind.contains(&bit) || kdf.contains(&bit), "bit {bit}");
                }
                Error::Unknown { .. } => {}
                other => panic!("bit {bit}: {other}"),
            }
        }
        assert!(wrong_key > 1000);
    }
}

/// Returns whether opening the slot takes much memory. Such a slot is refused in the end, but only after so much
/// memory was filled.
fn asks_for_much_memory(bytes: &[u8]) -> bool {
    let Ok(keyring) = Keyring::decode(bytes) else {
        return false;
    };
    keyring
        .wrapping()
        .slots()
        .iter()
        .any(|slot| match slot.kind() {
            SlotKind::Passphrase {
                cost: keys::GuessCost::Argon2id(params),
                ..
            } => params.memory_kib() > 1024,
            _ => false,
        })
}

#[test]
fn an_inherited_keyring_is_bound_to_its_key() {
    let random = SeededRandom::new(1);
    let (_, parent_key) = keyring(&key(7), &random);
    let (_, other_key) = keyring(&key(7), &random);
    let id = *parent_key.id();
    let wrapping = WrappingKeyAccess::Inherited { id };
    let child = Keyring::new(FAMILY, wrapping, generations(&parent_key, &random)).expect("keyring");
    let bytes = child.encode();
    let child = Keyring::decode(&bytes).expect("unchanged");
    assert_eq!(child.open(&parent_key).expect("the parent's key").len(), 2);
    assert!(matches!(child.open(&other_key), Err(Error::WrongKey)));
    assert!(matches!(child.unlock(&key(7)), Err(Error::Inherited)));

    for bit in 0..(bytes.len() - 32) * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fix_checksum(&mut flipped);
        let opened = Keyring::decode(&flipped).and_then(|child| child.open(&parent_key));
        assert!(opened.is_err(), "bit {bit}");
    }
}

/// Parts of one keyring put into another, without either key.
#[test]
fn parts_cannot_be_transplanted() {
    let random = SeededRandom::new(1);
    let (one, key_one) = keyring(&key(7), &random);
    let (two, _) = keyring(&key(7), &random);
    let (one, two) = (one.encode(), two.encode());
    let (slots, generations) = (48..48 + 128 + 32, 48 + 128 + 32..one.len() - 32);
    for range in [24..32, 32..48, slots, generations] {
        let mut mixed = one.clone();
        mixed[range.clone()].copy_from_slice(&two[range.clone()]);
        fix_checksum(&mut mixed);
        if mixed == one {
            // The families are the same.
            continue;
        }
        assert!(open_all(&mixed, &key(7)).is_err(), "bytes {range:?}");
    }
    // A generation of another family does not open.
    let keyring = Keyring::decode(&one).expect("unchanged");
    let opened = keyring.newest().open(&key_one, FAMILY + 1);
    assert!(matches!(opened, Err(Error::WrongKey)));
    // Nor do the generations in another order.
    let mut swapped = one.clone();
    let (first, second) = (48 + 128 + 32, 48 + 128 + 32 + 280);
    swapped[first..][..280].copy_from_slice(&one[second..][..280]);
    swapped[second..][..280].copy_from_slice(&one[first..][..280]);
    fix_checksum(&mut swapped);
    assert!(matches!(Keyring::decode(&swapped), Err(Error::Damaged(_))));
}

/// Thousands of random edits, with the checksum (and mostly the length) made right, so that every
/// part of the decoder sees them. It returns, and what it accepts it also writes back unchanged.
#[test]
fn random_edits_are_survived() {
    let random = SeededRandom::new(99);
    let draw = |below: usize| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes).expect("never fails");
        (u64::from_le_bytes(bytes) % below as u64) as usize
    };
    let originals = [passphrase("correct horse"), key(7)].map(|m| keyring(&m, &random).0.encode());
    let mut accepted = 0;
    for _ in 0..30_000 {
        let mut bytes = originals[draw(2)].clone();
        for _ in 0..=draw(4) {
            let at = draw(bytes.len());
            match draw(6) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, draw(256) as u8),
                2 => drop(bytes.remove(at.min(bytes.len() - 1))),
                3 => {
                    let piece = bytes[at..bytes.len().min(at + 280)].to_vec();
                    let to = draw(bytes.len());
                    bytes.splice(to..to, piece);
                }
                // Mostly the header and the slot, where the decoder decides things.
                4 => bytes[at % 224.min(at + 1)] = [0, 1, 2, 0x7f, 0x80, 0xff][draw(6)],
                _ => bytes[at] ^= 1 << draw(8),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        if draw(4) > 0 {
            fix_length_and_checksum(&mut bytes);
        }
        if let Ok(keyring) = Keyring::decode(&bytes) {
            assert!(keyring.encode() == bytes);
            accepted += 1;
        }
    }
    assert!(
        accepted > 100,
        "only {accepted} edits got through to the end"
    );

    for len in [0, 1, 47, 48, 79, 80, 81, 300, 5000] {
        for _ in 0..100 {
            let mut noise = vec![0; len];
            random.fill(&mut noise).expect("never fails");
            assert!(Keyring::decode(&noise).is_err());
            if len >= 80 {
                noise[..8].copy_from_slice(b"SRKEYRNG");
                noise[12..16].copy_from_slice(&[1, 0, 1, 3]);
                noise[20..24].fill(0);
                fix_length_and_checksum(&mut noise);
                assert!(Keyring::decode(&noise).is_err());
            }
        }
    }
}
