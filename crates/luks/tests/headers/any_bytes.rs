//! Headers in which anything was changed, with checksums that are right: none makes the program panic, and
//! what is taken can be asked everything.

use std::sync::Arc;

use crate::common::{bytes, container};
use block::{BlockDevice, MemoryDevice};
use cipher::{Digest, Random, SeededRandom};
use luks::{Container, ContainerVersion};

const COPY: usize = 0x4000;

/// A number below `bound`.
fn below(random: &SeededRandom, bound: usize) -> usize {
    let mut bytes = [0; 8];
    random.fill(&mut bytes).unwrap();
    (u64::from_le_bytes(bytes) % bound as u64) as usize
}

fn look(image: Vec<u8>) -> bool {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(image));
    let Ok(container) = Container::look(device) else {
        return false;
    };
    let _ = (container.dump(), container.dump_json(), container.segment());
    let _ = (container.slots(), container.backup());
    true
}

#[test]
fn changed_json_is_refused_or_read() {
    let (made, _) = container(ContainerVersion::V2);
    let whole = bytes(&made)[..0x8000].to_vec();
    let random = SeededRandom::new(3);
    let end = whole[4096..COPY]
        .iter()
        .position(|byte| *byte == 0)
        .unwrap();
    let pieces: [&[u8]; 12] = [
        b"\"",
        b"{",
        b"}",
        b"[]",
        b"0",
        b"-1",
        b"18446744073709551615",
        b"1e999",
        b"null",
        b",",
        b":",
        b"\\u0000",
    ];
    let mut taken = 0;
    for _ in 0..4000 {
        let mut json = whole[4096..4096 + end].to_vec();
        for _ in 0..=below(&random, 3) {
            let at = below(&random, json.len());
            let piece = pieces[below(&random, pieces.len())];
            let cut = at + below(&random, 4).min(json.len() - at);
            match below(&random, 3) {
                0 => json[at] ^= 1 << below(&random, 8),
                _ => drop(json.splice(at..cut, piece.iter().copied())),
            }
        }
        let mut image = whole.clone();
        image[4096..COPY].fill(0);
        json.truncate(COPY - 4096);
        image[4096..4096 + json.len()].copy_from_slice(&json);
        image[448..512].fill(0);
        let sum = Digest::Sha256.hash(&[&image[..COPY]]);
        image[448..480].copy_from_slice(&sum);
        image[COPY..].fill(0);
        image.resize(1 << 20, 0);
        taken += usize::from(look(image));
    }
    assert!(taken > 0, "some changes are harmless");
}

#[test]
fn changed_luks1_headers_are_refused_or_read() {
    let (made, _) = container(ContainerVersion::V1);
    let whole = bytes(&made);
    let random = SeededRandom::new(4);
    for _ in 0..1500 {
        let mut image = whole.clone();
        for _ in 0..=below(&random, 3) {
            let at = 8 + below(&random, 584);
            image[at] = below(&random, 256) as u8;
        }
        look(image);
    }
}
