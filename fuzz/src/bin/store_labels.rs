//! Labels, superblock frames and key blocks on a device.

#![no_main]

use std::sync::Arc;

use block::MemoryDevice;
use store::Store;
use store::layout::{BLOCK, KEY_BLOCK_MAGIC, LABEL_MAGIC, Label, SUPERBLOCK_MAGIC, decode_frame};

const SIZE: usize = 340 * BLOCK;

/// The first byte says what is made right: checksums and magics.
fn block(how: u8, magic: &[u8; 8], bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let len = bytes.len().min(BLOCK);
    block[..len].copy_from_slice(&bytes[..len]);
    if how & 1 == 0 {
        block[..8].copy_from_slice(magic);
    }
    if how & 2 == 0 {
        let sum = blake3::hash(&block[..BLOCK - 32]);
        block[BLOCK - 32..].copy_from_slice(sum.as_bytes());
    }
    block
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let (label, frame) = rest.split_at(rest.len().min(72));
    let label = block(*how, &LABEL_MAGIC, label);
    let guid = Label::decode(&label).map_or(1, |label| label.pool_guid.get());
    let superblock = block(how >> 2, &SUPERBLOCK_MAGIC, frame);
    let key_block = block(how >> 2, &KEY_BLOCK_MAGIC, frame);
    let _ = decode_frame(SUPERBLOCK_MAGIC, guid, &superblock);
    let _ = decode_frame(KEY_BLOCK_MAGIC, guid, &key_block);

    let mut image = vec![0; SIZE];
    let front = if how & 0x10 == 0 { 0 } else { SIZE - BLOCK };
    image[front..front + BLOCK].copy_from_slice(&label);
    image[BLOCK..2 * BLOCK].copy_from_slice(&superblock);
    image[33 * BLOCK..34 * BLOCK].copy_from_slice(&key_block);
    let device = Arc::new(MemoryDevice::from_bytes(image));
    let _ = store::probe(device.as_ref());
    let Ok(store) = Store::open(vec![device]) else {
        return;
    };
    let _ = (store.groups(), store.members(), store.superblocks());
    for index in [0, 1, store.key_blocks(), u32::MAX] {
        let _ = (store.read_key_block(index), store.key_block_is_blank(index));
        let _ = store.wipe_key_block(index);
    }
    let _ = store.erase();
});
