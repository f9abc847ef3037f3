//! Discards freed space, so that the devices can use it for something else.
//!
//! The extents that a commit freed are discarded after the next commit. Then the two newest superblocks do not reach
//! them, and an import uses an older superblock only if both are damaged. By then some of the units are in use again.
//! So a run is discarded only if all of it is still free. During the discard the run is taken, and its bytes are
//! reserved as for a write, so that writers do not count on them.

use std::sync::Arc;

use store::UNIT;

use super::{ReserveFor, Space};
use crate::error::Result;
use crate::format::records::extent::{Class, StoredExtent, UnitSpan};
use crate::storage::space::segments::group_use::GroupUse;

/// Shorter runs are not worth a call.
pub(crate) const UNITS_MIN: u32 = (64 << 10) / UNIT;

/// The largest number of runs that a commit discards. The rest stays as it is.
const RUNS_MAX: usize = 1024;

impl Space {
    /// Called when a commit is durable: notes the extents that it freed. Returns the runs that the previous commit
    /// freed. They can be discarded now.
    pub(crate) fn note_freed(&self, freed: &[StoredExtent]) -> Vec<UnitSpan> {
        let numbering = self.numbering();
        let freed = freed.iter().map(|extent| numbering.span(extent));
        let before = self.freed_last.lock().replace(runs(freed.collect()));
        before.unwrap_or_default()
    }

    /// Adds runs to those that the last commit freed.
    pub(crate) fn note_ended(&self, free: Vec<UnitSpan>) {
        let mut last = self.freed_last.lock();
        let all = last.take().unwrap_or_default().into_iter().chain(free);
        *last = Some(runs(all.collect()));
    }

    /// Discards the long ones of these runs, if they are still free. On a log a discard costs nothing, and all are discarded.
    pub(crate) fn discard_runs(self: &Arc<Space>, due: Vec<UnitSpan>) {
        let mut calls_left = RUNS_MAX;
        let worthwhile = due.into_iter().filter(|run| {
            let is_log = self.disk.store.is_log(run.segment.group());
            let fits = run.units >= UNITS_MIN && calls_left > 0;
            calls_left -= usize::from(fits && !is_log);
            is_log || fits
        });
        for run in worthwhile {
            if let Err(error) = self.discard(run) {
                // The pool does not need the discard.
                tracing::debug!(%error, ?run, "freed space was not given back to the host");
            }
        }
    }

    fn discard(self: &Arc<Space>, run: UnitSpan) -> Result<()> {
        let bytes = u64::from(run.units) * u64::from(UNIT);
        let Ok(_reserved) = self.reserve_spare(bytes, ReserveFor::Writing, 0) else {
            return Ok(());
        };
        // A writer may have taken a part of it since the commit.
        if !self.take_if_free(run)? {
            return Ok(());
        }
        let (offset, len) = (run.start * UNIT, run.units * UNIT);
        let done = self.disk.store.discard(run.segment, offset, len);
        // Also after a failure: then the units are just not discarded.
        self.release_spans([run]);
        Ok(done?)
    }

    pub(super) fn take_if_free(&self, run: UnitSpan) -> Result<bool> {
        let mut inner = self.inner.lock();
        let takes = inner.takes.get(run.segment.group() as usize);
        if !matches!(takes, Some(GroupUse::Records | GroupUse::Logs)) {
            return Ok(false);
        }
        if !self
            .map(&mut inner, run.segment)?
            .taken
            .is_free(run.start, run.units)
        {
            return Ok(false);
        }
        let class = inner.class_of(run.segment);
        if class == Some(Class::System) {
            return Ok(false);
        }
        self.take(&mut inner, class.unwrap_or(Class::Data), run);
        Ok(true)
    }
}

/// Joins spans that touch or overlap.
pub(super) fn runs(mut sorted: Vec<UnitSpan>) -> Vec<UnitSpan> {
    sorted.sort_unstable_by_key(|span| (span.segment, span.start));
    debug_assert!(sorted.iter().all(|span| span.units > 0));
    let mut runs: Vec<UnitSpan> = Vec::new();
    for span in sorted {
        match runs.last_mut() {
            Some(last) if last.segment == span.segment && last.start + last.units >= span.start => {
                last.units = last.units.max(span.start + span.units - last.start);
            }
            _ => runs.push(span),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::SegmentId;

    #[test]
    fn neighbours_form_runs() {
        let span = |index, start, units| UnitSpan {
            segment: SegmentId::new(0, index),
            start,
            units,
        };
        let freed = [
            span(1, 8, 8),
            span(1, 0, 8),
            span(1, 17, 15),
            span(2, 16, 16),
            span(0, 0, 1),
        ];
        let expected = [
            span(0, 0, 1),
            span(1, 0, 16),
            span(1, 17, 15),
            span(2, 16, 16),
        ];
        assert_eq!(runs(freed.to_vec()), expected);
    }
}
