//! Counts unlinked files that are still open, and waits until one is closed.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::Result;

/// A writer without free space waits so long for just unlinked files to be released. A kernel releases them after
/// `unlink` has returned, and the program may write again before.
const PATIENCE: Duration = Duration::from_secs(1);

/// The unlinked files that may still be in use.
#[derive(Default)]
pub(crate) struct Unlinked {
    counts: Mutex<Counts>,
    has_gone: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Names that were removed.
    unlinked: u64,
    /// Files that went when they were let go of.
    gone: u64,
    /// How many names had been removed when a writer waited in vain: these files are really in use.
    waited_for: u64,
}

impl Unlinked {
    /// How many unlinked files have gone.
    pub(super) fn gone(&self) -> u64 {
        self.counts.lock().gone
    }

    /// A name was removed.
    pub(crate) fn add(&self) {
        self.counts.lock().unlinked += 1;
    }

    /// A file without a name was let go of, and is gone.
    pub(crate) fn remove(&self) {
        self.counts.lock().gone += 1;
        self.has_gone.notify_all();
    }

    /// Waits until a file goes, if none has since so many had. False if none does.
    pub(super) fn wait(&self, gone: u64, has_orphans: impl Fn() -> Result<bool>) -> Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        // A removed name is counted while the tree is held.
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
