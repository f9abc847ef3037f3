//! Repairs the copies that readers found bad.

use super::{VisitStep, VisitTask, is_current};
use crate::error::Result;
use crate::format::jobs::scrub_status::ScrubStatus;
use crate::format::records::array_kind::ArrayKind;
use crate::ops::scrub::Scrubber;
use crate::storage::repair_queue::BadCopy;

impl Scrubber<'_> {
    /// Repairs what was read with errors since this was called last, and returns how many copies were
    /// rewritten. Needs no key.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Inconsistent`](crate::Error::Inconsistent) if a
    /// node cannot be read; [`Error::Store`](crate::Error::Store) if a device fails.
    pub fn heal(&self) -> Result<u64> {
        let disk = &self.engine.disk;
        let damaged = disk.repairs.take();
        let mut is_own = disk.remap.found_errors();
        if damaged.is_empty() && !is_own || self.engine.read_only {
            return Ok(0);
        }
        let mut status = ScrubStatus::default();
        let mut step = VisitStep {
            engine: self.engine,
            task: VisitTask::Repair,
            left: u64::MAX,
            in_use: None,
            status: &mut status,
        };
        for bad in damaged {
            is_own |= !step.heal(&bad)?;
        }
        if is_own {
            step.pool_arrays()?;
        }
        if status.repaired > 0 {
            tracing::warn!(copies = status.repaired, "bad copies were repaired");
        }
        Ok(status.repaired)
    }
}

impl VisitStep<'_> {
    /// False if no dataset has it.
    fn heal(&mut self, bad: &BadCopy) -> Result<bool> {
        let Some(slot) = bad.slot else {
            return Ok(false);
        };
        let engine = self.engine;
        let heads: Vec<u64> = {
            let state = engine.state.read();
            let heads = state.all().filter(|entry| !entry.is_snapshot());
            heads.map(|entry| entry.id).collect()
        };
        for id in heads {
            for kind in ArrayKind::ALL {
                let current = || is_current(engine, id, kind, slot, &bad.ptr);
                if current()? {
                    self.examine(&bad.ptr.place, &current)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
