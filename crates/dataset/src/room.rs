//! Room for what is about to be written: where there is none, what can be freed is.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pool::{Reservation, ReserveFor};

use crate::error::Result;
use crate::files::{Files, PAGE_ROOM};
use crate::quota::OPERATION_CHARGE;

/// One operation changes about this many pages.
const OPERATION_ROOM: u64 = 4 * PAGE_ROOM;

/// A writer without room waits so long for files to be let go of that have just been unlinked. A kernel does so
/// after whoever unlinked one has gone on, and perhaps written again.
const PATIENCE: Duration = Duration::from_secs(1);

/// A delete that finds too little space gives up once commits have changed nothing for so long. Threads that
/// have set space aside do in this time what they set it aside for.
const STANDSTILL: Duration = Duration::from_millis(20);

/// The unlinked files that somebody may still look at.
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
    /// How many names had been removed when somebody waited in vain: these files are really in use.
    waited_for: u64,
}

impl Unlinked {
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
    fn wait(&self, gone: u64, has_orphans: impl Fn() -> Result<bool>) -> Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        // Whoever removes a name holds the tree when that is counted.
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

impl Files {
    /// Keeps as much of an operation's room as the pages need that it made dirty.
    pub(crate) fn keep_room(&self, mut room: Reservation, dirtied: usize) {
        room.shrink(dirtied as u64 * PAGE_ROOM);
        if dirtied > 0 {
            self.page_room.lock().push(room);
        }
    }

    /// Sets room aside for an operation on the tree.
    pub(crate) fn reserve_operation(&self, why: ReserveFor) -> Result<Reservation> {
        if why == ReserveFor::Writing {
            self.charge(OPERATION_CHARGE)?;
        }
        // What users and groups have is on a page of its own, if it is counted.
        let accounts = u64::from(self.tree.header().counts_owners) * PAGE_ROOM;
        self.find_room(OPERATION_ROOM + accounts, why)
    }

    /// Sets room aside for contents, if quotas allow it.
    pub(crate) fn reserve(&self, bytes: u64, why: ReserveFor) -> Result<Reservation> {
        if why == ReserveFor::Writing {
            self.charge(bytes)?;
        }
        self.find_room(bytes, why)
    }

    /// Sets room aside. Where there is none, what waits to be freed is freed first.
    fn find_room(&self, bytes: u64, why: ReserveFor) -> Result<Reservation> {
        if let Ok(room) = self.room_of_pool(bytes, why) {
            return Ok(room);
        }
        if why != ReserveFor::Writing {
            return self.room_to_free(bytes);
        }
        let free = || {
            // Files come before the log, which can do without room.
            self.pool.give_up_logs()?;
            self.pool.commit()?;
            self.reap_dead()?;
            self.free_to_the_end()
        };
        let room = self.after_freeing(free, || Ok(self.room_of_pool(bytes, why).ok()))?;
        room.map_or_else(|| self.room_of_pool(bytes, why), Ok)
    }

    /// Sets space aside for a delete that finds too little: alone, and after commits, which give back what
    /// others have set aside and do not need.
    fn room_to_free(&self, bytes: u64) -> Result<Reservation> {
        let turn = self.pool.turn_to_free();
        let mut seen = None;
        let mut last_change = Instant::now();
        loop {
            if let Ok(room) = turn.reserve(bytes) {
                return Ok(room);
            }
            let free = turn.free();
            if seen.replace(free) != Some(free) {
                last_change = Instant::now();
            } else if last_change.elapsed() > STANDSTILL {
                return Ok(turn.reserve(bytes)?);
            }
            self.pool.give_up_logs()?;
            // Not all that could be: what frees something must not wait for itself.
            self.free_to_the_end()?;
        }
    }

    /// Commits until nothing waits to be freed.
    pub(crate) fn free_to_the_end(&self) -> Result<()> {
        self.pool.commit()?;
        while self.pool.space().freeing > 0 {
            self.pool.commit()?;
        }
        Ok(())
    }

    /// Frees what can be freed and tries something; where that is not enough, again when files that have just
    /// been unlinked are let go of.
    pub(crate) fn after_freeing<T>(
        &self,
        free: impl Fn() -> Result<()>,
        attempt: impl Fn() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let gone = self.unlinked.counts.lock().gone;
            free()?;
            let done = attempt()?;
            if done.is_some() || !self.unlinked.wait(gone, || self.has_orphans())? {
                return Ok(done);
            }
        }
    }
}
