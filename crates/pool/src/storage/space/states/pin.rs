//! Pins the state of the last commit, as long as an image of it is being made.
//!
//! Units that later commits free stay taken until the pin ends. This does not hold for system segments: their space is
//! small and used again soon, so the copy reads their records before the next commit. It does not hold for log devices
//! either: an image has no logs. A pin never makes a write fail: it ends as soon as its units are needed.

use std::collections::BTreeSet;

use store::{SegmentId, UNIT};

use crate::error::Result;
use crate::format::records::extent::{Class, UnitSpan};
use crate::storage::space::Space;
use crate::storage::space::discard::runs;

/// The list of pinned units has space for at least so many more each time that neighbours were joined.
const SPANS_MIN: usize = 1024;

/// Adds units to those that are pinned. A copy may take long, so neighbours are joined each time that the list has doubled.
fn pin_more(pinned: &mut Vec<UnitSpan>, spans: Vec<UnitSpan>) {
    if pinned.len() + spans.len() > pinned.capacity() {
        *pinned = runs(std::mem::take(pinned));
        pinned.reserve(pinned.len().max(spans.len()).max(SPANS_MIN));
    }
    pinned.extend(spans);
}

impl Space {
    /// Pins the state of the last commit, while no commit runs. Returns the segments in which units were freed since the
    /// last call, or `None` for all segments.
    pub(crate) fn pin(&self) -> Option<BTreeSet<SegmentId>> {
        let mut inner = self.inner.lock();
        inner.pinned = Some(Vec::new());
        inner.stale_segments.replace(BTreeSet::new())
    }

    /// Returns whether the state is pinned still.
    pub(crate) fn is_pinned(&self) -> bool {
        self.inner.lock().pinned.is_some()
    }

    /// Ends the pin, if there is one.
    pub(crate) fn unpin(&self) {
        let freed = self.inner.lock().pinned.take();
        let free = runs(freed.unwrap_or_default());
        if !free.is_empty() {
            self.release_spans(free.iter().copied());
            self.note_ended(free);
        }
    }

    /// Ends the pin if units are free then. Returns whether they are.
    pub(in crate::storage::space) fn yield_pin(&self) -> bool {
        let has_units = {
            let inner = self.inner.lock();
            inner
                .pinned
                .as_ref()
                .is_some_and(|pinned| !pinned.is_empty())
        };
        if has_units {
            self.unpin();
        }
        has_units
    }

    /// Enters segments again that [`Space::pin`] returned: no image has the state.
    pub(crate) fn put_back_stale(&self, segments: Option<BTreeSet<SegmentId>>) {
        let mut inner = self.inner.lock();
        inner.stale_segments = match (inner.stale_segments.take(), segments) {
            (Some(now), Some(before)) => Some(now.into_iter().chain(before).collect()),
            _ => None,
        };
    }

    /// Frees units that the state of a durable commit does not have. The pinned state may have them.
    pub(in crate::storage::space) fn release_durably(&self, spans: Vec<UnitSpan>) {
        let mut inner = self.inner.lock();
        // An image has no logs, so their groups have nothing of the pinned state.
        debug_assert!(spans.iter().all(|span| span.units > 0));
        let is_free_now = |span: &UnitSpan| {
            let segment = span.segment;
            segment.group() != 0 || inner.class_of(segment) == Some(Class::System)
        };
        let (free_now, others): (Vec<_>, Vec<_>) = spans.into_iter().partition(is_free_now);
        if let Some(stale) = &mut inner.stale_segments {
            // An image has these units still. The next copy has to free them there.
            stale.extend(others.iter().map(|span| span.segment));
        }
        let free = match &mut inner.pinned {
            Some(pinned) => {
                pin_more(pinned, others);
                free_now
            }
            None => free_now.into_iter().chain(others).collect(),
        };
        drop(inner);
        self.release_spans(free);
    }

    /// Calls `each` with the segment, the offset and the length in bytes of each free run in some segments of group 0, or in
    /// all of them. System segments are left out.
    pub(crate) fn each_free_run(
        &self,
        segments: Option<&BTreeSet<SegmentId>>,
        mut each: impl FnMut(SegmentId, u32, u32) -> Result<()>,
    ) -> Result<()> {
        let numbering = self.numbering();
        let all = || (0..numbering.total()).map(|number| numbering.segment(number));
        let segments: Vec<SegmentId> = match segments {
            Some(segments) => segments.iter().copied().collect(),
            None => all().collect(),
        };
        // Groups of log devices have segments with the same indexes, and an image has none of them.
        for segment in segments.into_iter().filter(|id| id.group() == 0) {
            for run in self.free_runs_of(segment)? {
                each(segment, run.start * UNIT, run.units * UNIT)?;
            }
        }
        Ok(())
    }

    fn free_runs_of(&self, id: SegmentId) -> Result<Vec<UnitSpan>> {
        let mut inner = self.inner.lock();
        let runs = match inner.class_of(id) {
            Some(Class::System) => Vec::new(),
            // Its bitmap need not be read.
            None => vec![(0, self.units_per_segment)],
            Some(_) => self.map(&mut inner, id)?.taken.free_runs(),
        };
        let span = |(start, units)| UnitSpan {
            segment: id,
            start,
            units,
        };
        Ok(runs.into_iter().map(span).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_units_need_memory_for_their_runs_only() {
        let units = 100 * SPANS_MIN as u32;
        let mut pinned = Vec::new();
        for start in 0..units {
            let segment = SegmentId::new(0, 0);
            let unit = UnitSpan {
                segment,
                start,
                units: 1,
            };
            pin_more(&mut pinned, vec![unit]);
        }
        assert!(pinned.capacity() <= 4 * SPANS_MIN);
        let sum: u32 = pinned.iter().map(|span| span.units).sum();
        assert_eq!(sum, units);
    }
}
