//! Visits all free space, run by run, to discard or overwrite it.
//!
//! A run is taken during the work on it, as in [`super::discard`]. Runs that the last commit freed are skipped: the
//! previous superblock still reaches them, and an import uses it if the newest is damaged.

use std::sync::Arc;

use store::{Store, UNIT};

use super::{ReserveFor, Space};
use crate::error::Result;
use crate::format::records::extent::{Class, UnitSpan};
use crate::storage::space::segments::group_use::GroupUse;

/// Longer runs are taken in pieces, so that writers find space meanwhile.
const PIECE_UNITS: u32 = (4 << 20) / UNIT;

impl Space {
    pub(crate) fn segments(&self) -> u64 {
        self.numbering().total()
    }

    /// The pieces of free space of a segment, each of at least `least` units.
    pub(crate) fn free_pieces(&self, number: u64, least: u32) -> Result<Vec<UnitSpan>> {
        let numbering = self.numbering();
        if number >= numbering.total() {
            return Ok(Vec::new());
        }
        let id = numbering.segment(number);
        let mut inner = self.inner.lock();
        let takes = inner.takes.get(id.group() as usize);
        let is_usable = matches!(takes, Some(GroupUse::Records | GroupUse::Logs));
        if !is_usable || inner.class_of(id) == Some(Class::System) || inner.unopened.contains(&id) {
            return Ok(Vec::new());
        }
        let runs = self.map(&mut inner, id)?.taken.free_runs();
        let mut pieces = Vec::new();
        for (mut start, mut units) in runs {
            while units >= least {
                let now = units.min(PIECE_UNITS);
                pieces.push(UnitSpan {
                    segment: id,
                    start,
                    units: now,
                });
                (start, units) = (start + now, units - now);
            }
        }
        Ok(pieces)
    }

    /// Works on a piece while nothing can be placed there. Returns its bytes: 0 if the piece is in use now, or if a
    /// superblock still reaches it.
    pub(crate) fn while_free(
        self: &Arc<Space>,
        piece: UnitSpan,
        act: impl FnOnce(&Store) -> store::Result<()>,
    ) -> Result<u64> {
        let bytes = u64::from(piece.units) * u64::from(UNIT);
        let Ok(_reserved) = self.reserve_spare(bytes, ReserveFor::Writing, 0) else {
            return Ok(0);
        };
        if !self.take_if_free(piece)? {
            return Ok(0);
        }
        // The piece is taken first. So if a commit freed it, the commit is already noted, and `freed_last` has it.
        let done = match self.was_freed_last(&piece) {
            true => Ok(0),
            false => act(self.disk.store.as_ref()).map(|()| bytes),
        };
        self.release_spans([piece]);
        Ok(done?)
    }

    fn was_freed_last(&self, piece: &UnitSpan) -> bool {
        let last = self.freed_last.lock();
        let Some(last) = &*last else { return true };
        let end = piece.start + piece.units;
        let before = last.partition_point(|span| (span.segment, span.start) < (piece.segment, end));
        let nearest = before.checked_sub(1).map(|n| last[n]);
        nearest.is_some_and(|span| {
            span.segment == piece.segment && span.start + span.units > piece.start
        })
    }
}
