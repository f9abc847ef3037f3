//! The limits of datasets: quotas, reservations, and turns to free.

use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::limits::counts::{self, DatasetCounts};
use crate::engine::limits::quota::{self, Limits, Quota};
use crate::engine::limits::reservation::Slacks;
use crate::error::{Error, Result};
use crate::ops::pool::Pool;
use crate::storage::space::{FreeingTurn, ReserveFor, SpaceReservation};

impl Pool {
    /// The limits of a dataset.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn limits(&self, id: u64) -> Result<Limits> {
        let state = self.engine.state.read();
        let slacks = self.slacks(&state);
        Ok(Limits {
            quotas: quota::of(&state, &slacks, id)?,
            kept: slacks.kept_from(&state, id),
        })
    }

    /// Returns whether a dataset has to keep to quotas or reservations, now or when less is taken than now.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn is_limited(&self, id: u64) -> Result<bool> {
        let state = self.engine.state.read();
        let slacks = self.slacks(&state);
        Ok(slacks.any() || !quota::of(&state, &slacks, id)?.is_empty())
    }

    /// Returns the number of datasets and snapshots below a dataset.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn counts(&self, id: u64) -> Result<DatasetCounts> {
        let state = self.engine.state.read();
        Ok(DatasetCounts::of(&state, state.entry(id)?.id))
    }

    /// The bytes of all properties, tags, bookmarks and permissions in the pool.
    pub fn texts(&self) -> u64 {
        let state = self.engine.state.read();
        state.top().map_or(0, |top| counts::texts(&state, top.id))
    }

    /// Checks that so many more datasets may be made below a dataset.
    ///
    /// # Errors
    /// [`Error::Limit`]; as [`Pool::entry`].
    pub fn check_more_datasets(&self, id: u64, more: u64) -> Result<()> {
        let state = self.engine.state.read();
        counts::check_more(&state, state.entry(id)?.id, more)
    }

    /// Bytes that an ordinary write into a dataset may still use.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn available_to(&self, id: u64) -> Result<u64> {
        let limits = self.limits(id)?;
        let left = limits.quotas.iter().map(Quota::left).min();
        let available = self.engine.space.available_bytes();
        Ok(available
            .saturating_sub(limits.kept)
            .min(left.unwrap_or(u64::MAX)))
    }

    /// Sets bytes aside as [`Pool::reserve`] does, if then still so many are left as `kept` says.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if fewer than `bytes` and `kept` together are free.
    pub fn reserve_besides(
        &self,
        bytes: u64,
        why: ReserveFor,
        kept: u64,
    ) -> Result<SpaceReservation> {
        let space = &self.engine.space;
        space.reserve_besides(bytes, why, kept)
    }

    /// The slacks of a state, which are the same as long as its transaction group is.
    pub(crate) fn slacks(&self, state: &DatasetTable) -> Arc<Slacks> {
        let mut known = self.engine.slacks.lock();
        match &*known {
            Some((txg, slacks)) if *txg == state.txg => Arc::clone(slacks),
            _ => {
                let slacks = Arc::new(Slacks::of(state));
                *known = Some((state.txg, Arc::clone(&slacks)));
                slacks
            }
        }
    }

    /// Sets bytes aside for a change that gives back more than it takes.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there are too few, or if another thread has the turn to free: then this one has
    /// to wait for its turn too.
    pub fn reserve_to_free(&self, bytes: u64) -> Result<SpaceReservation> {
        match self.engine.freeing.is_wanted() {
            false => self.reserve(bytes, ReserveFor::Freeing),
            true => Err(Error::NoSpace),
        }
    }

    /// Waits for the turn to free.
    pub fn turn_to_free(&self) -> FreeingTurn<'_> {
        self.engine.freeing.wait(&self.engine.space)
    }
}
