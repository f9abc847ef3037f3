//! Helpers that the tests share: containers that open at once.
#![allow(dead_code)]

pub(crate) mod machine;
pub(crate) mod online;
pub(crate) mod reencryption;

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use cipher::{Digest, SystemRandom};
use luks::{Container, ContainerFormat, ContainerVersion, KdfChoice, KdfKind, SlotChoice, Variant};
use secret::Secret;

pub(crate) const UUID: &str = "5ae2903e-22b6-43a2-b884-f5e9640ee47b";
pub(crate) const RANDOM: SystemRandom = SystemRandom;

pub(crate) fn secret(text: &str) -> Secret {
    Secret::from_slice(text.as_bytes()).unwrap()
}

/// A password hash that costs as little as there is.
pub(crate) fn cheap(kind: KdfKind) -> KdfChoice {
    KdfChoice {
        force_iterations: Some(if kind == KdfKind::Pbkdf2 { 1000 } else { 4 }),
        memory_kib: 32,
        lanes: Some(1),
        ..KdfChoice::new(kind)
    }
}

pub(crate) fn cheap_slot(version: ContainerVersion) -> SlotChoice {
    let kind = match version {
        ContainerVersion::V1 => KdfKind::Pbkdf2,
        ContainerVersion::V2 => KdfKind::Argon2(Variant::Argon2id),
    };
    SlotChoice {
        kdf: cheap(kind),
        ..SlotChoice::new(version)
    }
}

/// A small container: 16-byte keys, whose material has 64,000 bytes.
pub(crate) fn small(version: ContainerVersion) -> ContainerFormat {
    ContainerFormat {
        cipher: "aes-cbc-essiv:sha256".into(),
        key_len: 16,
        data_offset: Some(1 << 20),
        slot: cheap_slot(version),
        ..ContainerFormat::new(version, UUID.into())
    }
}

/// A container in memory that opens with "first".
pub(crate) fn container(version: ContainerVersion) -> (Container, Secret) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(2 << 20));
    luks::format(device, &small(version), &secret("first"), &RANDOM).unwrap()
}

/// Adds a passphrase that is cheap to try; returns its slot.
pub(crate) fn add(
    container: &mut Container,
    key: &Secret,
    passphrase: &str,
    slot: Option<u32>,
) -> u32 {
    let cheap = cheap_slot(container.version());
    let added = container.add_key(key, &secret(passphrase), &cheap, slot, &RANDOM);
    added.unwrap()
}

/// Returns all bytes of the device of a container.
pub(crate) fn bytes(container: &Container) -> Vec<u8> {
    let mut bytes = vec![0; container.device().size() as usize];
    container.device().read_at(0, &mut bytes).unwrap();
    bytes
}

pub(crate) fn reopen(bytes: Vec<u8>) -> luks::Result<Container> {
    Container::open(Arc::new(MemoryDevice::from_bytes(bytes)), &RANDOM)
}

/// Returns those of the passphrases that open the container.
pub(crate) fn opens<'a>(container: &Container, passphrases: &[&'a str]) -> Vec<&'a str> {
    let opens = |text: &&&str| container.unlock(&secret(text), None).is_ok();
    passphrases.iter().filter(opens).copied().collect()
}

/// Returns whether bytes occur in others, at a multiple of 16.
pub(crate) fn holds(hay: &[u8], needle: &[u8]) -> bool {
    hay.chunks_exact(16).any(|chunk| chunk == &needle[..16])
}

/// The SHA-256 of data, as sha256sum prints it.
pub(crate) fn hex_hash(data: &[u8]) -> String {
    encoding::hex(&Digest::Sha256.hash(&[data]))
}
