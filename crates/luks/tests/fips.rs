//! The containers that FIPS mode refuses, by the name of their algorithm. One test: the mode is the whole process's.

mod common;

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::{Digest, Policy, PolicyTarget};
use common::{RANDOM, UUID, cheap, cheap_slot, secret};
use luks::{ContainerFormat, ContainerVersion, KdfKind, SlotChoice, Variant};

/// Returns a format in which everything is approved.
fn approved(version: ContainerVersion) -> ContainerFormat {
    ContainerFormat {
        slot: SlotChoice {
            kdf: cheap(KdfKind::Pbkdf2),
            ..cheap_slot(version)
        },
        ..ContainerFormat::new(version, UUID.into())
    }
}

fn with_hash(version: ContainerVersion, hash: Digest) -> ContainerFormat {
    let mut format = approved(version);
    format.slot.kdf.hash = hash.name().into();
    format
}

fn made(format: &ContainerFormat) -> luks::Result<()> {
    made_on(Arc::new(MemoryDevice::new(24 << 20)), format)
}

fn made_on(device: Arc<MemoryDevice>, format: &ContainerFormat) -> luks::Result<()> {
    luks::format(device, format, &secret("first"), &RANDOM).map(drop)
}

/// Refuses to make a container, and leaves the one that is there as it was.
fn refused(format: &ContainerFormat, name: &str) {
    let device = Arc::new(MemoryDevice::new(24 << 20));
    made_on(Arc::clone(&device), &approved(ContainerVersion::V2)).unwrap();
    let read = || {
        let mut bytes = vec![0; 24 << 20];
        device.read_at(0, &mut bytes).unwrap();
        bytes
    };
    let before = read();
    let said = made_on(Arc::clone(&device), format).expect_err(name);
    assert!(read() == before, "{name}: the old container is damaged");
    let said = said.to_string();
    let wanted = format!("{name} is not approved, and FIPS mode is on");
    assert!(said.contains(&wanted), "{said}");
}

#[test]
fn each_refusal_names_the_algorithm() {
    let mut policy = Policy::default();
    policy.enable(PolicyTarget::Fips);
    assert!(policy.install());
    for version in [ContainerVersion::V1, ContainerVersion::V2] {
        made(&approved(version)).unwrap();
        for (cipher, name) in [
            ("serpent-xts-plain64", "Serpent in XTS mode"),
            ("twofish-cbc-essiv:sha256", "Twofish in CBC mode"),
            ("camellia-xts-plain64", "Camellia in XTS mode"),
        ] {
            let key_len = if cipher.contains("xts") { 64 } else { 32 };
            let format = ContainerFormat {
                cipher: cipher.into(),
                key_len,
                ..approved(version)
            };
            refused(&format, name);
        }
        for (hash, name) in [
            (Digest::Ripemd160, "RIPEMD-160"),
            (Digest::Whirlpool, "Whirlpool"),
            (Digest::Blake2b512, "BLAKE2b-512"),
            (Digest::Blake2s256, "BLAKE2s-256"),
        ] {
            refused(&with_hash(version, hash), name);
        }
    }
    for (kind, name) in [
        (Variant::Argon2id, "Argon2id, the hash of the passphrase,"),
        (Variant::Argon2i, "Argon2i, the hash of the passphrase,"),
    ] {
        let mut format = approved(ContainerVersion::V2);
        format.slot.kdf = cheap(KdfKind::Argon2(kind));
        refused(&format, name);
    }
    let format = ContainerFormat {
        cipher: "chacha20-random".into(),
        key_len: 32,
        integrity: Some("poly1305".into()),
        ..approved(ContainerVersion::V2)
    };
    refused(&format, "ChaCha20-Poly1305");
}
