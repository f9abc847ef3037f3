//! Turns: where there is too little free space for all that want to delete at the same time, one does after
//! the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{Reservation, ReserveFor};
use crate::error::{Error, Result};
use crate::pool::Pool;

/// Who frees alone, and how many wait for that.
#[derive(Default)]
pub(crate) struct Turn {
    taken: Mutex<()>,
    waiting: AtomicUsize,
}

/// The turn of one thread to set space aside with [`ReserveFor::FreeingAlone`]. It ends when this is dropped.
/// No other thread sets space aside for freeing meanwhile, so a commit gives back what the others have
/// set aside.
pub struct TurnToFree<'a> {
    pool: &'a Pool,
    _taken: MutexGuard<'a, ()>,
    _counted: Counted<'a>,
}

/// One that waits for a turn or has it.
struct Counted<'a>(&'a Turn);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// Sets bytes aside for a change that gives back more than it takes.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there are too few, or if another thread has the turn to free: then this one has
    /// to wait for its turn too.
    pub fn reserve_to_free(&self, bytes: u64) -> Result<Reservation> {
        match self.shared.freeing.waiting.load(Ordering::Relaxed) {
            0 => self.reserve(bytes, ReserveFor::Freeing),
            _ => Err(Error::NoSpace),
        }
    }

    /// Waits for the turn to free.
    pub fn turn_to_free(&self) -> TurnToFree<'_> {
        let turn = &self.shared.freeing;
        turn.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(turn);
        TurnToFree {
            pool: self,
            _taken: turn.taken.lock(),
            _counted,
        }
    }
}

impl TurnToFree<'_> {
    /// Sets bytes aside, also of what those leave that do not have the turn.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there are too few.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.pool.reserve(bytes, ReserveFor::FreeingAlone)
    }

    /// What is free, and what of it is set aside. As long as this changes, it is worth another try.
    pub fn free(&self) -> (u64, u64) {
        let space = &self.pool.shared.space;
        (space.free().certain, space.reserved_bytes())
    }
}
