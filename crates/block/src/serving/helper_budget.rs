//! A limit for the threads of network servers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of threads that may still be started, besides the one of each connection. All connections of a server
/// share it.
#[derive(Debug)]
pub struct HelperBudget(AtomicUsize);

impl HelperBudget {
    /// Makes a budget of `max` threads.
    pub fn new(max: usize) -> HelperBudget {
        HelperBudget(AtomicUsize::new(max))
    }

    /// Takes a thread out of the budget. False if none is left.
    pub fn take(&self) -> bool {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
        taken.is_ok()
    }

    /// Puts a thread back that [`HelperBudget::take`] gave, after its end.
    pub fn put_back(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}
