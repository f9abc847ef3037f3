//! Turns: when free space is too small for several deletes at the same time, they run one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{ReserveFor, Space, SpaceReservation};
use crate::error::Result;

/// The right to free alone, and the number of threads that have it or wait for it.
#[derive(Default)]
pub(crate) struct FreeTurn {
    taken: Mutex<()>,
    waiting: AtomicUsize,
}

/// The turn of one thread to reserve space with [`ReserveFor::FreeingAlone`]. It ends when this is dropped. No other
/// thread makes such a reservation meanwhile, so a commit releases the space that the others have reserved.
pub struct FreeingTurn<'a> {
    space: &'a Arc<Space>,
    _taken: MutexGuard<'a, ()>,
    _counted: TurnWaiter<'a>,
}

impl FreeTurn {
    /// Returns whether a thread has the turn, or waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn wait<'a>(&'a self, space: &'a Arc<Space>) -> FreeingTurn<'a> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = TurnWaiter(self);
        FreeingTurn {
            space,
            _taken: self.taken.lock(),
            _counted,
        }
    }
}

/// A thread that waits for the turn or has it.
struct TurnWaiter<'a>(&'a FreeTurn);

impl Drop for TurnWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FreeingTurn<'_> {
    /// Reserves bytes, also from the space that threads without the turn must leave free.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there are too few.
    pub fn reserve(&self, bytes: u64) -> Result<SpaceReservation> {
        self.space.reserve(bytes, ReserveFor::FreeingAlone)
    }

    /// The free bytes, and the reserved ones of these. If they have changed, another try can succeed.
    pub fn free(&self) -> (u64, u64) {
        (self.space.free().certain, self.space.reserved_bytes())
    }
}
