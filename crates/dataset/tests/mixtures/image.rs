//! The image of a pool on one device, changed by someone who makes all hashes fit: read from `docs/FORMAT.md`.

use std::ops::Range;

pub(crate) const UNIT: usize = 4096;
const POINTER: usize = 128;
const FANOUT: usize = 32;
/// The checksum in a pointer, and in its identity the tag, the suite, the flags, the level and the second part of the
/// checksum.
const CHECKSUM: Range<usize> = 40..56;
const IDENTITY: usize = 64;
const TAG: Range<usize> = 88..104;
const SUITE: usize = 108;
const FLAGS: usize = 110;
const LEVEL: usize = 111;
const CHECK: Range<usize> = 116..128;
/// The pointer to the dataset table in a superblock, and the slot of the first dataset there.
const TABLE: Range<usize> = 32 + 48..32 + 48 + POINTER;
const FIRST: usize = 1;
/// The roots of both arrays in the entry of a dataset.
pub(crate) const ROOTS: [Range<usize>; 2] = [176..304, 304..432];

/// A number of `len` bytes.
pub(crate) fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    let mut number = [0; 8];
    number[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(number) as usize
}

/// Returns the range that an address points to.
pub(crate) fn run_of(image: &[u8], addr: &[u8]) -> Range<usize> {
    let (segment_size, header_size) = (number(image, 12, 4), number(image, 48, 8));
    let start = header_size + number(addr, 0, 4) * segment_size + number(addr, 8, 4);
    start..start + number(addr, 12, 4)
}

/// Returns the offsets of the newest superblock in both headers.
fn superblocks(image: &[u8]) -> [usize; 2] {
    let back = image.len() - (33 + number(image, 44, 4)) * UNIT;
    [UNIT, back].map(|ring| {
        let frames = (0..32).map(|slot| ring + slot * UNIT);
        let newest = frames.max_by_key(|frame| number(image, frame + 16, 8));
        newest.expect("a ring has frames")
    })
}

/// The entry of the first dataset, after `change` if that is given; then all hashes above fit.
pub(crate) fn entry(image: &mut [u8], change: &mut dyn FnMut(&mut [u8], &mut [u8])) -> Vec<u8> {
    let frames = superblocks(image);
    let mut pointer = image[frames[0]..][TABLE].to_vec();
    let entry = below(
        image,
        &mut pointer,
        &mut |level| slot_at(FIRST, level),
        change,
    );
    for frame in frames {
        image[frame..][TABLE].copy_from_slice(&pointer);
        let sum = *blake3::hash(&image[frame..frame + UNIT - 32]).as_bytes();
        image[frame + UNIT - 32..frame + UNIT].copy_from_slice(&sum);
    }
    entry
}

fn slot_at(slot: usize, level: u8) -> usize {
    slot >> (5 * (level - 1)) & (FANOUT - 1)
}

/// Does the same as [`entry`], for the record that a pointer leads to by these children. `change` gets the image too.
pub(crate) fn below(
    image: &mut [u8],
    pointer: &mut [u8],
    child_at: &mut dyn FnMut(u8) -> usize,
    change: &mut dyn FnMut(&mut [u8], &mut [u8]),
) -> Vec<u8> {
    let level = pointer[LEVEL];
    let mut bytes = image[run_of(image, &pointer[..16])].to_vec();
    let found = if level == 0 {
        change(image, &mut bytes);
        bytes.clone()
    } else {
        let child = child_at(level) * POINTER;
        below(image, &mut bytes[child..child + POINTER], child_at, change)
    };
    store(image, pointer, &bytes);
    found
}

/// Puts other bytes in the place of a record or node, with hashes that fit.
pub(crate) fn store(image: &mut [u8], pointer: &mut [u8], bytes: &[u8]) {
    let sum = blake3::hash(bytes);
    let sum = sum.as_bytes();
    pointer[CHECKSUM].copy_from_slice(&sum[..16]);
    if pointer[LEVEL] > 0 {
        let hash = node_hash(bytes, pointer[LEVEL]);
        pointer[IDENTITY..IDENTITY + 32].copy_from_slice(&hash);
    } else if pointer[FLAGS] == 1 {
        pointer[CHECK].copy_from_slice(&sum[16..28]);
    } else if pointer[SUITE] == 0 {
        pointer[TAG].copy_from_slice(&sum[..16]);
    }
    for copy in [0, 16] {
        if number(pointer, copy + 12, 4) > 0 {
            let run = run_of(image, &pointer[copy..copy + 16]);
            image[run].copy_from_slice(bytes);
        }
    }
}

fn node_hash(node: &[u8], level: u8) -> [u8; 32] {
    let children = || node.chunks(POINTER);
    let identities = children().flat_map(|child| child[IDENTITY..].to_vec());
    let checked = children().filter(|child| child[LEVEL] == 0 && child[FLAGS] == 1);
    let checksums = checked.flat_map(|child| child[CHECKSUM].to_vec());
    let hashed: Vec<u8> = identities.chain([level]).chain(checksums).collect();
    *blake3::hash(&hashed).as_bytes()
}

pub(crate) fn children(node: &[u8]) -> Vec<usize> {
    let pointers = node.chunks(POINTER).enumerate();
    let used = pointers.filter(|(_, pointer)| number(pointer, 12, 4) > 0);
    used.map(|(child, _)| child).collect()
}

/// The bytes of a record or node.
pub(crate) fn load<'a>(image: &'a [u8], pointer: &[u8]) -> &'a [u8] {
    &image[run_of(image, &pointer[..16])]
}

/// Returns the number of levels below a pointer.
pub(crate) fn level(pointer: &[u8]) -> u8 {
    pointer[LEVEL]
}
