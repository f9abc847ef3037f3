//! Tests against images of ext4 that Linux 6.12 and 6.18 wrote: keys, names, contents. One line of the file for
//! each directory with a policy.

use serde_json::Value;

use super::*;
use crate::formats::fscrypt::name::{self, NAME_MAX};

fn linux() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../tests/fscrypt_linux.json")).expect("JSON")
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("a string");
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

fn master(directory: &Value) -> FscryptMasterKey {
    let key = secret::Secret::from_slice(&bytes(&directory["master_key"])).expect("memory");
    FscryptMasterKey::new(key).expect("a length")
}

fn volume(directory: &Value, ino: &Value) -> Option<InodeIdentity> {
    Some(InodeIdentity {
        uuid: bytes(&directory["fs_uuid"]).try_into().expect("16 bytes"),
        ino: ino.as_u64().expect("a number") as u32,
    })
}

fn context(value: &Value) -> InodeContext {
    InodeContext::decode(&bytes(value)).expect("a context")
}

#[test]
fn contexts_and_names_of_keys() {
    let mut policies = std::collections::HashSet::new();
    for directory in linux() {
        let stored = bytes(&directory["dir_context"]);
        let context = InodeContext::decode(&stored).expect("a context");
        assert_eq!(context.encode(), stored);
        let name = match context.policy.key {
            KeyName::Descriptor(descriptor) => {
                assert_eq!(descriptor[..], bytes(&directory["key_id"]));
                // What is named otherwise was not made by the tool.
                if directory["dir"] != "v1_pass16" {
                    continue;
                }
                master(&directory).descriptor()
            }
            KeyName::Identifier(_) => master(&directory).identifier().expect("derived"),
        };
        assert_eq!(name, context.policy.key, "{}", directory["dir"]);
        policies.insert(context.policy);
    }
    assert!(policies.len() > 12, "{}", policies.len());
}

#[test]
fn names() {
    for directory in linux() {
        let context = context(&directory["dir_context"]);
        let volume = volume(&directory, &directory["dir_ino"]);
        let key = InodeKey::new(&context, &master(&directory), false, volume).expect("a key");
        for known in directory["names"].as_array().expect("names") {
            let (plain, sealed) = (bytes(&known["plain"]), bytes(&known["cipher"]));
            let padding = context.policy.padding;
            let made = name::seal(&key, &plain, padding, NAME_MAX).expect("sealed");
            assert_eq!(made, sealed, "{}", directory["dir"]);
            assert_eq!(name::open(&key, &sealed), Ok(plain));
            let nokey = known["nokey_hash0"].as_str().expect("a string");
            assert_eq!(nokey_name(&sealed), nokey.as_bytes());
        }
    }
}

#[test]
fn contents() {
    for directory in linux() {
        for known in directory["contents"].as_array().expect("contents") {
            let context = context(&known["context"]);
            let volume = volume(&directory, &known["ino"]);
            let key = InodeKey::new(&context, &master(&directory), true, volume).expect("a key");
            let unit = known["unit_size"].as_u64().expect("a number");
            let offset = known["unit"].as_u64().expect("a number") * unit;
            let mut plain = bytes(&known["plain_prefix"]);
            plain.resize(unit as usize, 0);
            let mut data = plain.clone();
            key.seal(offset, &mut data).expect("sealed");
            let digest = cipher::Digest::Sha256.hash(&[&data]);
            assert_eq!(
                digest[..],
                bytes(&known["cipher_sha256"]),
                "{}",
                directory["dir"]
            );
            key.open(offset, &mut data).expect("opened");
            assert_eq!(data, plain);
        }
    }
}

/// Many units in one call are the units one by one.
#[test]
fn runs_of_units() {
    for directory in linux() {
        let context = context(&directory["dir_context"]);
        let volume = volume(&directory, &directory["dir_ino"]);
        let key = InodeKey::new(&context, &master(&directory), true, volume).expect("a key");
        let unit = context.policy.unit();
        let mut run = vec![7; 5 * unit];
        let mut single = run.clone();
        // Near the end of 32 bits, where the sum with the inode's hash wraps.
        let first = u64::from(u32::MAX) - 4;
        key.seal(first * unit as u64, &mut run).expect("sealed");
        for (data, index) in single.chunks_mut(unit).zip(first..) {
            key.seal(index * unit as u64, data).expect("sealed");
        }
        assert_eq!(run, single, "{}", directory["dir"]);
        key.open(first * unit as u64, &mut run).expect("opened");
        assert!(run.iter().all(|byte| *byte == 7));
        assert_eq!(key.seal(1, &mut run), Err(vfs::Error::Invalid));
        assert_eq!(key.seal(0, &mut run[1..]), Err(vfs::Error::Invalid));
    }
}

#[test]
fn damaged_contexts() {
    let good = bytes(&linux()[0]["dir_context"]);
    assert!(InodeContext::decode(&good).is_some());
    for len in 0..good.len() {
        assert_eq!(InodeContext::decode(&good[..len]), None);
    }
    assert_eq!(InodeContext::decode(&[&good[..], &[0]].concat()), None);
    // Version, modes, flags, unit, and what must be zero.
    for (at, byte) in [
        (0, 3),
        (1, 4),
        (1, 9),
        (2, 1),
        (3, 7),
        (3, 64),
        (4, 8),
        (4, 13),
        (5, 1),
    ] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(InodeContext::decode(&bad), None, "{at}: {byte}");
    }
}

/// Lengths of `fscrypt_fname_encrypted_size`.
#[test]
fn lengths() {
    for (len, padding, padded) in [
        (0, 4, 16),
        (17, 4, 20),
        (17, 32, 32),
        (33, 32, 64),
        (250, 32, 255),
    ] {
        assert_eq!(padded_len(len, padding, 255), Some(padded));
    }
    assert_eq!(padded_len(256, 4, 255), None);
}

/// A key of 16 bytes, whose identifier is that of Linux 6.18, is one for AES-128 only: there, files of other policies
/// are refused with `ENOKEY`.
#[test]
fn short_keys() {
    let key = secret::Secret::from_slice(b"0123456789abcdef").expect("memory");
    let master = FscryptMasterKey::new(key).expect("a length");
    let key = master.identifier().expect("derived");
    let linux = 0xe452_298a_f064_556f_8332_de82_232d_7bdc_u128.to_be_bytes();
    assert_eq!(key, KeyName::Identifier(linux));
    for (contents, names, suits) in [
        (EncryptionMode::Aes128Cbc, EncryptionMode::Aes128Cts, true),
        (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts, false),
        (EncryptionMode::Adiantum, EncryptionMode::Adiantum, false),
    ] {
        let policy = EncryptionPolicy {
            contents,
            names,
            ..EncryptionPolicy::new([0; 16])
        };
        let context = InodeContext {
            policy,
            nonce: [1; 16],
        };
        for is_file in [true, false] {
            let made = InodeKey::new(&context, &master, is_file, None).map(drop);
            let expected = if suits {
                Ok(())
            } else {
                Err(vfs::Error::NoKey)
            };
            assert_eq!(made, expected, "{contents:?}");
        }
    }
}
