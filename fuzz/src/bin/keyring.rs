//! Keyrings: any bytes, and bytes whose length and checksum are made right.

#![no_main]

use keys::{KeyMaterial, Keyring, SlotKind};
use secret::Key;

const TRAILER: usize = 32;

fn whole(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let len = (bytes.len() + TRAILER) as u32;
    if bytes.len() >= 14 {
        bytes[..8].copy_from_slice(b"SRKEYRNG");
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
    }
    let sum = cipher::hash(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = Keyring::decode(data);
    let bytes = whole(data);
    let Ok(keyring) = Keyring::decode(&bytes) else {
        return;
    };
    assert_eq!(keyring.encode(), bytes);
    let _ = (keyring.newest().suite(), keyring.generation(1));
    // What a passphrase costs is bounded, but too much to try here.
    let dear = |kind: &SlotKind| matches!(kind, SlotKind::Passphrase { .. });
    if !keyring
        .wrapping()
        .slots()
        .iter()
        .any(|slot| dear(slot.kind()))
    {
        let material = KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap());
        if let Ok(key) = keyring.unlock(&material) {
            let _ = keyring.open(&key);
        }
    }
});
