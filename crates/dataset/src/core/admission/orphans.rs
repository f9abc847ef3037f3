//! Counts unlinked files that are still open, and waits until one is closed.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::Result;

/// A writer without free space waits at most this long for the release of files that were just unlinked. The kernel
/// releases them after `unlink` has returned, and the program may write before that.
const PATIENCE: Duration = Duration::from_secs(1);

/// The unlinked files that may still be in use.
#[derive(Default)]
pub(crate) struct OrphanFiles {
    counts: Mutex<OrphanCounts>,
    has_gone: Condvar,
}

#[derive(Default)]
struct OrphanCounts {
    /// The number of removed names.
    unlinked: u64,
    /// The number of unlinked files that were released and removed.
    gone: u64,
    /// `unlinked` when a writer waited in vain: the files up to then are really in use.
    waited_for: u64,
}

impl OrphanFiles {
    /// The number of unlinked files that were removed.
    pub(super) fn gone(&self) -> u64 {
        self.counts.lock().gone
    }

    /// Called when a name was removed.
    pub(crate) fn add(&self) {
        self.counts.lock().unlinked += 1;
    }

    /// Called when a file without a name was released and removed.
    pub(crate) fn remove(&self) {
        self.counts.lock().gone += 1;
        self.has_gone.notify_all();
    }

    /// Waits until the number of removed files differs from `gone`. False if it stays the same.
    pub(super) fn wait(&self, gone: u64, has_orphans: impl Fn() -> Result<bool>) -> Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        // Names are counted under the lock of the tree, which `has_orphans` takes too.
        while has_orphans()? {
            let mut counts = self.counts.lock();
            if counts.gone != gone || counts.waited_for == counts.unlinked {
                break;
            }
            if self.has_gone.wait_until(&mut counts, deadline).timed_out() {
                counts.waited_for = counts.unlinked;
            }
        }
        Ok(self.counts.lock().gone != gone)
    }
}
