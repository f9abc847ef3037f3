//! How much of a dataset or snapshot is new since an earlier state.
//!
//! Since a snapshot, counters say it: what the later state refers to, less what of the snapshot is still in it. What
//! died on the way is in the deadlists between the two. Since a bookmark, the births in the trees say it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::engine::deadlist;
use crate::engine::table::head_id;
use crate::error::Result;
use crate::format::array_kind::ArrayKind;
use crate::ops::info::PIECE;
use crate::ops::pool::Pool;
use crate::storage::array::walk::{self, Visit};

impl Pool {
    /// Bytes on disk of what an entry has and an earlier snapshot of its line does not. The snapshot is named by its last
    /// part, if it is of the same dataset, or whole. None if there is no such snapshot.
    ///
    /// # Errors
    /// As [`Pool::entry`]; [`Error::Damaged`](crate::Error::Damaged) if a deadlist cannot be read.
    pub fn written_since(&self, id: u64, snapshot: &str) -> Result<Option<u64>> {
        let state = self.engine.state.read();
        let entry = state.entry(id)?;
        let whole = match snapshot.contains('@') {
            true => snapshot.to_owned(),
            false => format!("{}@{snapshot}", state.name_of(state.entry(head_id(entry))?)),
        };
        let Ok(since) = state.find(&whole) else {
            return Ok(None);
        };
        if since.id == id {
            return Ok(Some(0));
        }
        let line = state.line(entry);
        let Some(at) = line.iter().position(|before| before.id == since.id) else {
            return Ok(None);
        };
        let owners: BTreeSet<u64> = line[at..].iter().map(|older| older.id).collect();
        let mut dead: u64 = 0;
        for newer in [entry].into_iter().chain(&line[..at]) {
            dead = dead.saturating_add(match state.before(newer) {
                Some(before) if before.id == since.id => newer.dead_bytes,
                _ => deadlist::bytes_of(&self.engine.disk, &newer.deadlist, &owners)?,
            });
        }
        let still = since.referenced.saturating_sub(dead);
        Ok(Some(entry.referenced.saturating_sub(still)))
    }

    /// As [`Pool::written_since`], for a bookmark of the same dataset. It reads the nodes of what is new; commits can
    /// happen meanwhile.
    ///
    /// # Errors
    /// As [`Pool::each_record`].
    pub fn written_since_bookmark(&self, id: u64, mark: &str) -> Result<Option<u64>> {
        let since = {
            let state = self.engine.state.read();
            let entry = state.entry(id)?;
            let mark = state.entry(head_id(entry))?.bookmark(mark);
            let is_before = |txg: &u64| !entry.is_snapshot() || *txg <= entry.created_txg;
            mark.map(|mark| mark.created_txg).filter(is_before)
        };
        let Some(since) = since else { return Ok(None) };
        let mut bytes = 0;
        for array in ArrayKind::ALL {
            bytes += self.born_after(id, array, since)?;
        }
        Ok(Some(bytes))
    }

    /// Bytes on disk of the records and nodes of an array that were born after a transaction group.
    fn born_after(&self, id: u64, array: ArrayKind, txg: u64) -> Result<u64> {
        let (mut bytes, mut from) = (0_u64, 0);
        loop {
            let _committing = self.engine.lock_commits();
            let root = self.entry(id)?.roots[array as usize];
            let mut left = PIECE;
            let stopped = walk::visit(&self.engine.disk, &root, from, txg, &mut |visit| {
                let (Visit::Record(slot, ptr) | Visit::Node(slot, ptr, _)) = visit;
                if matches!(visit, Visit::Record(..)) {
                    if left == 0 {
                        return Ok(ControlFlow::Break(slot));
                    }
                    left -= 1;
                }
                bytes = bytes.saturating_add(ptr.place.allocated());
                Ok(ControlFlow::Continue(()))
            })?;
            match stopped {
                ControlFlow::Break(slot) => from = slot,
                ControlFlow::Continue(()) => return Ok(bytes),
            }
        }
    }
}
