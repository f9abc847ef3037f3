//! The pages of a history in the array `pages`.

use pool::{ArrayKind, OpenDataset};

use super::page::SealPage;
use crate::core::sealed_state::read_record;
use crate::error::Result;
use crate::seal::Sealer;
use crate::tree::SealRuns;

/// Reads the pages of a history.
pub(crate) struct SealPages<'a> {
    pub(crate) open: &'a OpenDataset,
    pub(crate) sealer: &'a Sealer,
    /// The name of the dataset.
    pub(crate) name: &'a str,
    /// The slots of the pages; `None` of a volume, where the slot is the number of the page.
    pub(crate) runs: Option<SealRuns>,
}

impl SealPages<'_> {
    fn slot(&self, number: u64) -> Option<u64> {
        match &self.runs {
            None => Some(number).filter(|slot| *slot < pool::SLOT_LIMIT),
            Some(runs) => runs.slot(number),
        }
    }

    fn is_there(&self, number: u64) -> Result<bool> {
        let Some(slot) = self.slot(number) else {
            return Ok(false);
        };
        Ok(!self.open.get(ArrayKind::Pages, slot)?.is_empty())
    }

    pub(crate) fn count(&self) -> Result<u64> {
        let mut above = 1;
        while self.is_there(above - 1)? {
            above *= 2;
        }
        // The page `above - 1` is missing, and `above / 2 - 1` exists.
        // Pages are numbered without gaps, so that a search by halves finds the end.
        let (mut least, mut most) = (above / 2, above - 1);
        while least < most {
            let middle = least.midpoint(most);
            match self.is_there(middle)? {
                true => least = middle + 1,
                false => most = middle,
            }
        }
        Ok(least)
    }

    /// A page; `None` if it is damaged.
    pub(crate) fn page(&self, number: u64) -> Option<SealPage> {
        let slot = self.slot(number)?;
        let ptr = self.open.get(ArrayKind::Pages, slot).ok()?;
        let (array, found) = (ArrayKind::Pages, (slot, ptr));
        let read = read_record(self.open, self.sealer, self.name, array, found);
        let (_, bytes) = read.ok()??;
        SealPage::decode(&bytes, number)
    }
}
