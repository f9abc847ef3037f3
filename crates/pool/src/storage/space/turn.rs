//! Turns: when free space is too small for several deletes at the same time, they run one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::{Reservation, ReserveFor, Space};
use crate::error::Result;

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
    space: &'a Arc<Space>,
    _taken: MutexGuard<'a, ()>,
    _counted: Counted<'a>,
}

impl Turn {
    /// Whether a thread has the turn, or waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits for the turn.
    pub(crate) fn wait<'a>(&'a self, space: &'a Arc<Space>) -> TurnToFree<'a> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(self);
        TurnToFree {
            space,
            _taken: self.taken.lock(),
            _counted,
        }
    }
}

/// One that waits for a turn or has it.
struct Counted<'a>(&'a Turn);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TurnToFree<'_> {
    /// Sets bytes aside, also of what those leave that do not have the turn.
    ///
    /// # Errors
    /// [`Error::NoSpace`](crate::Error::NoSpace) if there are too few.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.space.reserve(bytes, ReserveFor::FreeingAlone)
    }

    /// What is free, and what of it is set aside. As long as this changes, it is worth another try.
    pub fn free(&self) -> (u64, u64) {
        (self.space.free().certain, self.space.reserved_bytes())
    }
}
