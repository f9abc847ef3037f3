//! Reads of a range of blocks, in pieces of any length.

use super::sense::Sense;
use super::unit::ScsiUnit;

/// A range of blocks that is read in pieces. Each block is read once, also if several pieces have parts of it. So what
/// another initiator writes meanwhile is in all of a block, or in nothing of it.
pub(crate) struct Reading<'a> {
    unit: &'a ScsiUnit,
    /// The offset of the next piece.
    next: u64,
    /// The block in which the last piece ended, if that was within one.
    split: Vec<u8>,
}

impl<'a> Reading<'a> {
    /// A range that begins at this offset, which is that of a block.
    pub(crate) fn new(unit: &'a ScsiUnit, offset: u64) -> Reading<'a> {
        Reading {
            unit,
            next: offset,
            split: Vec::new(),
        }
    }

    /// Reads the next piece.
    pub(crate) fn read(&mut self, piece: &mut [u8]) -> Result<(), Sense> {
        let block = self.unit.block() as usize;
        let within = (self.next % block as u64) as usize;
        let kept = match within {
            0 => 0,
            _ => piece.len().min(block - within),
        };
        let (first, rest) = piece.split_at_mut(kept);
        if kept > 0 {
            first.copy_from_slice(&self.split[within..within + kept]);
        }
        self.next += kept as u64;
        let (whole, last) = rest.split_at_mut(rest.len() - rest.len() % block);
        if !whole.is_empty() {
            self.unit.read(self.next, whole)?;
            self.next += whole.len() as u64;
        }
        if !last.is_empty() {
            self.split.resize(block, 0);
            self.unit.read(self.next, &mut self.split)?;
            last.copy_from_slice(&self.split[..last.len()]);
            self.next += last.len() as u64;
        }
        Ok(())
    }
}
