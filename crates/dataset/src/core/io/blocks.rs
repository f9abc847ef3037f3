//! The blocks of a volume: records of its only inode. The slot of a block is its number. Memory and commits treat them
//! like records of files.

use std::sync::Arc;

use pool::ArrayKind;
use vfs::Ino;

use crate::core::io::memory::inode::Inode;
use crate::core::io::write::WritePiece;
use crate::core::log::journal::ChangedRange;
use crate::core::{Dataset, Settings};
use crate::error::Result;

/// The only inode of a volume.
pub(crate) const VOLUME_INO: Ino = 1;

/// A call empties at most this many blocks in one transaction group.
const EMPTIED_AT_ONCE: usize = 1024;
/// The largest number of emptied blocks that the log lists. After more, `flush` commits instead.
const EMPTIED_LOGGED: u64 = 256;

/// A part of a range that lies in one block.
pub(crate) struct InBlock {
    pub(crate) block: u64,
    /// The offset in the block.
    pub(crate) start: usize,
    /// The offset in the range.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// The parts of a range.
pub(crate) fn in_blocks(
    offset: u64,
    len: usize,
    block_size: usize,
) -> impl Iterator<Item = InBlock> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = offset + at as u64;
        let start = (from % block_size as u64) as usize;
        let part = InBlock {
            block: from / block_size as u64,
            start,
            at,
            len: (block_size - start).min(len - at),
        };
        at += part.len;
        (part.len > 0).then_some(part)
    })
}

impl Dataset {
    /// Fills `buf` from `offset` on.
    pub(crate) fn read_blocks(&self, block_size: usize, offset: u64, buf: &mut [u8]) -> Result<()> {
        for part in in_blocks(offset, buf.len(), block_size) {
            let to = &mut buf[part.at..part.at + part.len];
            let record = self.record(VOLUME_INO, part.block, true)?;
            let held = record.as_ref().map_or(&[][..], |record| record.as_ref());
            let held = held.get(part.start..).unwrap_or_default();
            let there = held.len().min(to.len());
            to[..there].copy_from_slice(&held[..there]);
            to[there..].fill(0);
        }
        Ok(())
    }

    /// Writes `data` at `offset`, all of it in one transaction group. No other thread writes to these
    /// blocks meanwhile.
    pub(crate) fn write_blocks(
        &self,
        settings: &Settings,
        inode: &Arc<Inode>,
        block_size: usize,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        loop {
            let mut parts = Vec::new();
            for part in in_blocks(offset, data.len(), block_size) {
                let piece = WritePiece {
                    record: part.block,
                    start: part.start,
                    data: &data[part.at..part.at + part.len],
                    filled: block_size,
                };
                parts.push(self.plan_record(inode, piece, false)?);
            }
            self.reserve_parts(settings, &mut parts)?;
            if self.put_blocks(inode, block_size, &mut parts)? {
                let complete = parts.iter().filter(|part| part.is_to_the_end(block_size));
                self.seal_early(inode, complete.map(|part| part.record));
                return Ok(());
            }
        }
    }

    /// Empties blocks, so that they read as zeros.
    pub(crate) fn empty_blocks(&self, inode: &Arc<Inode>, from: u64, to: u64) -> Result<()> {
        debug_assert!(from <= to, "a range of blocks");
        let is_logged = to - from <= EMPTIED_LOGGED;
        let mut at = from;
        while at < to {
            // Otherwise a thread that is changing a block would write its old contents back.
            let _io = inode.io.write();
            let (mut full, mut next) = self.some_full(inode, at, to)?;
            if !full.is_empty() {
                let _reserved = self.reserve_to_empty(&mut full, &mut next)?;
                self.empty_some(inode, &full, is_logged)?;
            }
            at = next;
        }
        Ok(())
    }

    /// Some non-empty blocks of a range, and the block at which to continue.
    fn some_full(&self, inode: &Inode, from: u64, to: u64) -> Result<(Vec<u64>, u64)> {
        let (mut full, mut next) = (Vec::new(), from);
        while full.len() < EMPTIED_AT_ONCE {
            match self.next_full(inode, next, to)? {
                Some(block) => {
                    full.push(block);
                    next = block + 1;
                }
                None => return Ok((full, to)),
            }
        }
        Ok((full, next))
    }

    /// The first non-empty block of a range.
    pub(crate) fn next_full(&self, inode: &Inode, from: u64, to: u64) -> Result<Option<u64>> {
        let dirty = inode.records.lock().range(from..to).next().map(|(b, _)| *b);
        // Memory first: a record that moves to the pool in between is found there.
        let stored = self.open.next(ArrayKind::Data, from, to)?;
        Ok(dirty.into_iter().chain(stored).min())
    }

    fn empty_some(&self, inode: &Inode, blocks: &[u64], is_logged: bool) -> Result<()> {
        let hold = self.pool.enter()?;
        // Before this lock a sealing thread may have put a record into its slot.
        let mut records = inode.records.lock();
        for block in blocks {
            if let Some(dirty) = records.remove(block) {
                self.dirty.sub(dirty.buffer.len());
            }
            // In memory and in the array, under one hold: no commit sees only one of them.
            self.open.punch(&hold, ArrayKind::Data, *block);
            let range = ChangedRange {
                txg: hold.txg(),
                record: *block,
                start: 0,
                end: 0,
                is_whole: true,
            };
            if is_logged {
                self.journal.note_range(inode.ino, range);
            }
        }
        if !is_logged {
            // The log would get too long: the next flush commits.
            self.journal.note_unlogged(hold.txg());
        }
        self.mark_changed(&hold);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_fall_into_blocks() {
        let parts: Vec<_> = in_blocks(5000, 10_000, 4096)
            .map(|part| (part.block, part.start, part.at, part.len))
            .collect();
        let expected = [(1, 904, 0, 3192), (2, 0, 3192, 4096), (3, 0, 7288, 2712)];
        assert_eq!(parts, expected);
        assert_eq!(in_blocks(5000, 0, 4096).count(), 0);
    }
}
