//! The interface of the implementations: each runs over sectors, each with its IV.

use super::iv::IvGenerator;
use crate::Result;
use crate::ffi::Direction;

/// An implementation of a mode, with its key.
pub(crate) trait SectorEngine: Send + Sync {
    /// Runs over sectors, in place.
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()>;
}

/// Consecutive sectors.
pub(crate) struct Sectors<'a> {
    pub(super) ivs: SectorIvs<'a>,
    /// The length of each.
    pub(super) size: usize,
    pub(super) data: &'a mut [u8],
}

impl Sectors<'_> {
    /// Calls `run` with each sector and its IV, which it may change.
    #[inline]
    pub(crate) fn each(
        mut self,
        mut run: impl FnMut(&mut [u8; 16], &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        // The rest of the data would be left as it is: in the clear.
        assert!(self.data.len().is_multiple_of(self.size), "whole sectors");
        for sector in self.data.chunks_exact_mut(self.size) {
            run(&mut self.ivs.next()?, sector)?;
        }
        Ok(())
    }
}

/// The IVs of consecutive sectors.
pub(super) struct SectorIvs<'a> {
    pub(super) generator: &'a IvGenerator,
    pub(super) next: u64,
    pub(super) step: u64,
}

impl SectorIvs<'_> {
    #[inline]
    pub(super) fn next(&mut self) -> Result<[u8; 16]> {
        let number = self.next;
        self.next = number.wrapping_add(self.step);
        self.generator.iv(number)
    }
}
