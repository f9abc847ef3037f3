//! Helpers that the tests by behaviour share.

// Each test file uses some of it.
#![allow(dead_code)]

use cipher::{SeededRandom, Suite};
use keys::{Argon2Params, KeyGeneration, KeyMaterial, Keyring, WrappingKey, WrappingKeyAccess};
use secret::{Key, Secret};

pub(crate) const FAMILY: u64 = 0x0123_4567_89ab_cdef;
pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const CHEAP: Argon2Params = Argon2Params::insecure_for_tests();

pub(crate) fn passphrase(text: &str) -> KeyMaterial {
    KeyMaterial::Passphrase(Secret::from_slice(text.as_bytes()).expect("memory"))
}

pub(crate) fn key(byte: u8) -> KeyMaterial {
    KeyMaterial::Key(Key::from_bytes(&[byte; 32]).expect("memory"))
}

/// A keyring with one slot, that `material` unlocks, and two generations.
pub(crate) fn keyring(material: &KeyMaterial, random: &SeededRandom) -> (Keyring, WrappingKey) {
    let (wrapping, wrapping_key) =
        WrappingKeyAccess::create(material, &CHEAP, NOW, random).expect("create");
    let generations = generations(&wrapping_key, random);
    let keyring = Keyring::new(FAMILY, wrapping, generations).expect("a keyring");
    (keyring, wrapping_key)
}

pub(crate) fn generations(wrapping_key: &WrappingKey, random: &SeededRandom) -> Vec<KeyGeneration> {
    [(1, 100, Suite::Xaes256Gcm), (2, 250, Suite::Aes128Ccm)]
        .map(|(number, txg, suite)| {
            KeyGeneration::create(wrapping_key, FAMILY, number, txg, suite, NOW, random)
                .expect("create")
                .0
        })
        .to_vec()
}

/// Makes the checksum right again, as an attacker does who edits a keyring.
pub(crate) fn fix_checksum(bytes: &mut [u8]) {
    if let Some(content) = bytes.len().checked_sub(32) {
        let (content, trailer) = bytes.split_at_mut(content);
        trailer.copy_from_slice(&cipher::hash(content));
    }
}

/// The same, and the length in the header.
pub(crate) fn fix_length_and_checksum(bytes: &mut [u8]) {
    let length = (bytes.len() as u32).to_le_bytes();
    if let Some(field) = bytes.get_mut(8..12) {
        field.copy_from_slice(&length);
    }
    fix_checksum(bytes);
}
