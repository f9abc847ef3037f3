//! Wrapped keys in the key area.
//!
//! The pool stores the bytes of a keyring and does not understand them. It writes them to free key blocks. A commit
//! names these blocks in the dataset's entry. The same commit lists the replaced blocks. When the commit is durable,
//! the pool overwrites them. After a power cut in between, the next import overwrites them.

use std::collections::BTreeSet;

use store::Store;
use store::layout::PAYLOAD_MAX;

use crate::engine::context::PoolContext;
use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::codec::ValueWriter;
use crate::format::datasets::entry::KeyringRef;
use crate::format::records::pointer::checksum;
use crate::format::superblock::checkpoint::Checkpoint;
use crate::format::superblock::features::FEATURE_SPLIT_KEYS;
use crate::storage::writer::txg::TxgWriter;

/// Each block begins with the dataset's guid and its number among the keyring's blocks.
const HEAD: usize = 16;
const PART: usize = PAYLOAD_MAX - HEAD;

/// The largest number of blocks in a keyring.
const BLOCKS_MAX: usize = 1024;

/// The bytes of the version of a keyring, in every version of its format.
const VERSION: std::ops::Range<usize> = 12..14;

/// The first version in which the keys of a generation are wrapped in parts.
const VERSION_SPLIT: u16 = 3;

/// Returns whether older programs do not know this keyring.
fn is_split(keyring: &[u8]) -> bool {
    let version = keyring.get(VERSION).and_then(|bytes| bytes.try_into().ok());
    version.is_some_and(|bytes| u16::from_le_bytes(bytes) >= VERSION_SPLIT)
}

/// Writes a keyring into free blocks, and returns their numbers.
pub(crate) fn write(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    guid: u64,
    keyring: &[u8],
) -> Result<KeyringRef> {
    let store = commit.core.disk.store.as_ref();
    let parts: Vec<&[u8]> = keyring.chunks(PART).collect();
    let used = used(state);
    let blocks: Vec<u32> = (0..store.key_blocks())
        .filter(|block| !used.contains(block))
        .take(parts.len())
        .collect();
    if blocks.len() < parts.len() || parts.len() > BLOCKS_MAX {
        return Err(Error::KeyAreaFull {
            blocks: store.key_blocks(),
        });
    }
    for (index, (block, part)) in blocks.iter().zip(&parts).enumerate() {
        let mut w = ValueWriter::default();
        w.u64(guid).u32(index as u32).u32(parts.len() as u32);
        w.bytes.extend_from_slice(part);
        commit.note_key_block(*block);
        store.write_key_block(*block, &w.bytes)?;
    }
    if is_split(keyring) {
        state.root.features_required |= FEATURE_SPLIT_KEYS;
    }
    Ok(KeyringRef {
        blocks,
        len: keyring.len() as u32,
        checksum: checksum(keyring),
    })
}

/// Reads a keyring back.
pub(crate) fn read(store: &Store, guid: u64, at: &KeyringRef) -> Result<Vec<u8>> {
    let bad = |detail: String| Error::inconsistent("key area", detail);
    let mut keyring = Vec::new();
    for (index, block) in at.blocks.iter().enumerate() {
        let payload = store.read_key_block(*block)?;
        let mut head = ValueWriter::default();
        head.u64(guid).u32(index as u32).u32(at.blocks.len() as u32);
        let part = payload
            .strip_prefix(&head.bytes[..])
            .ok_or_else(|| bad(format!("block {block} belongs to another keyring")))?;
        keyring.extend_from_slice(part);
    }
    if keyring.len() != at.len as usize || checksum(&keyring) != at.checksum {
        return Err(bad("a keyring is not the one that its dataset names".into()));
    }
    Ok(keyring)
}

/// The blocks that hold a keyring, or wait to be overwritten.
fn used(state: &DatasetTable) -> BTreeSet<u32> {
    blocks(state)
        .chain(state.config.wipe.iter().copied())
        .chain(kept(state))
        .collect()
}

/// The blocks of the datasets' keyrings.
pub(crate) fn blocks(state: &DatasetTable) -> impl Iterator<Item = u32> {
    let keyrings = state.all().filter_map(|entry| entry.keyring.as_ref());
    keyrings.flat_map(|keyring| keyring.blocks.iter().copied())
}

/// The blocks of the checkpoint's keyrings.
fn kept(state: &DatasetTable) -> impl Iterator<Item = u32> {
    let checkpoint = state.checkpoint.iter();
    checkpoint.flat_map(|checkpoint| checkpoint.key_blocks.iter().copied())
}

/// Returns whether the checkpoint has some of these blocks.
pub(crate) fn is_kept(state: &DatasetTable, keyring: &KeyringRef) -> bool {
    kept(state).any(|block| keyring.blocks.contains(&block))
}

impl PoolContext {
    /// The key blocks that hold keyrings.
    pub(crate) fn key_blocks_in_use(&self) -> Vec<u32> {
        let state = self.state.read();
        let blocks: BTreeSet<u32> = blocks(&state).chain(kept(&state)).collect();
        blocks.into_iter().collect()
    }
}

/// Lists the blocks of a replaced keyring, so that they are overwritten. The dataset has another keyring now.
///
/// # Errors
/// [`Error::Refused`] if the checkpoint has the blocks: the caller relies on the old keyring being overwritten.
pub(crate) fn replaced(state: &mut DatasetTable, id: u64, old: Option<KeyringRef>) -> Result<()> {
    if old.as_ref().is_some_and(|old| is_kept(state, old)) {
        let name = state.name_of(state.entry(id)?);
        let pool = state.pool_name();
        let reason = format!(
            "the checkpoint of '{pool}' has its keyring, which would be overwritten; discard the checkpoint first: \
             strongroom pool checkpoint -d {pool}"
        );
        return Err(Error::refused(name, reason));
    }
    discard(state, old);
    Ok(())
}

/// Lists the blocks of a destroyed dataset's keyring, so that they are overwritten. Blocks of the checkpoint stay until
/// it is discarded.
pub(crate) fn discard(state: &mut DatasetTable, old: Option<KeyringRef>) {
    if let Some(old) = old.filter(|old| !is_kept(state, old)) {
        state.config.wipe.extend(old.blocks);
        state.config_dirty = true;
    }
}

/// Lists the blocks that only this discarded checkpoint had, so that they are overwritten.
pub(crate) fn discard_kept(state: &mut DatasetTable, checkpoint: &Checkpoint) {
    let used = used(state);
    let blocks = checkpoint.key_blocks.iter().copied();
    let blocks: Vec<u32> = blocks.filter(|block| !used.contains(block)).collect();
    state.config_dirty |= !blocks.is_empty();
    state.config.wipe.extend(blocks);
}

/// Overwrites the listed blocks. The commit that listed them is durable.
pub(crate) fn wipe(store: &Store, state: &mut DatasetTable) -> Result<()> {
    if state.config.wipe.is_empty() {
        return Ok(());
    }
    for block in &state.config.wipe {
        store.wipe_key_block(*block)?;
    }
    store.flush()?;
    state.config.wipe.clear();
    state.config_dirty = true;
    Ok(())
}

/// After a crash: lists blocks that were written for a commit that never became durable, so that they are overwritten.
pub(crate) fn discard_strays(store: &Store, state: &mut DatasetTable) -> Result<()> {
    let used = used(state);
    for block in (0..store.key_blocks()).filter(|block| !used.contains(block)) {
        if !store.key_block_is_blank(block)? {
            state.config.wipe.push(block);
            state.config_dirty = true;
        }
    }
    Ok(())
}
