//! Backups of keyrings: any bytes, and bytes whose length and checksum are made right.

#![no_main]

use keys::{Backup, Keyring};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = Backup::decode(data);
    let mut bytes = data.to_vec();
    let len = (bytes.len() + 32) as u32;
    if bytes.len() >= 14 {
        bytes[..8].copy_from_slice(b"SRKEYBAK");
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
    }
    let sum = cipher::hash(&bytes);
    bytes.extend_from_slice(&sum);
    if let Ok(backup) = Backup::decode(&bytes) {
        assert_eq!(backup.encode().unwrap(), bytes);
        for keyring in &backup.keyrings {
            let _ = Keyring::decode(&keyring.bytes);
        }
    }
});
