//! Resumes a suspended pool when its devices work again.
//!
//! The memory of a suspended pool is newer than its devices: by the transaction group whose commit failed, if there is
//! one, and by the open group. Writes that a device refused are in memory too ([`store::Store::retry`]). They are made
//! now, and the commit continues where it failed. If a flush has failed, the system may have dropped writes that it had
//! accepted. Then all records that were born since the last commit are read on each member, and compared with their
//! checksums.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::engine::history::{Origin, log};
use crate::error::{Error, Result, SuspensionEnd};
use crate::format::jobs::scrub_status::ScrubStatus;
use crate::ops::pool::Pool;
use crate::ops::scrub::{RecordFinding, VisitStep, VisitTask};

/// The longest wait for work that began before the failure.
const SETTLE_TRIES: usize = 3000;
const SETTLE_PAUSE: Duration = Duration::from_millis(10);

/// Repairs are tried this many times.
const ROUNDS: usize = 3;

impl Pool {
    /// Resumes a suspended pool, if its devices work. All changes until now are durable when this returns. It does
    /// nothing if the pool is not suspended.
    ///
    /// # Errors
    /// A device still fails, or lacks data that was written to it. The pool stays suspended and unchanged.
    pub fn resume(&self, origin: &Origin) -> Result<()> {
        let engine = &self.engine;
        let _one = engine.resuming.lock();
        engine.check_lease()?;
        match engine.suspension.now() {
            None => return Ok(()),
            Some((_, SuspensionEnd::Cleared)) => {}
            Some((_, SuspensionEnd::Imported)) => return engine.suspension.check(),
        }
        let _flushing = engine.flushing.write();
        self.settle()?;
        // A file that was too short may have its size again.
        engine.disk.store.refresh_sizes();
        if engine.disk.store.retry()? {
            engine.suspension.set_doubtful(true);
        }
        if engine.suspension.is_doubtful() {
            self.verify_uncommitted()?;
            engine.suspension.set_doubtful(false);
        }
        let committing = engine.lock_commits();
        for dataset in engine.open_datasets() {
            // An `fsync` that failed has taken its part out of what the next one would log.
            dataset.log.lock().tear_if_on();
        }
        if let Some(closing) = engine.take_waiting() {
            engine.make_durable(closing)?;
        }
        engine.suspension.end();
        tracing::info!(pool = self.name(), "the devices work, and the pool goes on");
        engine.commit_holding(&committing, |commit, state| {
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Waits for the present commit, and for writers of records that have no slot yet. No slot can be changed now, so
    /// these records are dropped.
    fn settle(&self) -> Result<()> {
        let engine = &self.engine;
        drop(engine.lock_commits());
        engine.in_flight.devices_changed();
        for _ in 0..SETTLE_TRIES {
            if engine.in_flight.is_settled() {
                return Ok(());
            }
            std::thread::sleep(SETTLE_PAUSE);
        }
        let reason = "what began before the pool was suspended is not at its end; try again later";
        Err(Error::refused(self.name(), reason))
    }

    /// Reads all data that was written since the last commit, and repairs bad copies from good ones.
    fn verify_uncommitted(&self) -> Result<()> {
        let engine = &self.engine;
        for _ in 0..ROUNDS {
            let mut status = ScrubStatus::default();
            let mut step = VisitStep {
                engine: &self.engine,
                task: VisitTask::Repair,
                left: u64::MAX,
                in_use: None,
                status: &mut status,
            };
            step.uncommitted()?;
            if status.errors > 0 {
                let reason = format!(
                    "a device lost {} of the records that were written since the last commit",
                    status.errors
                );
                engine.suspend_for_good(Error::inconsistent("devices", reason));
                return engine.suspension.check();
            }
            if status.repaired == 0 {
                return Ok(());
            }
            engine.disk.store.retry()?;
        }
        engine.suspension.check()
    }
}

impl VisitStep<'_> {
    /// All records and nodes that were born since the last commit.
    fn uncommitted(&mut self) -> Result<()> {
        let engine = self.engine;
        let committed = engine.committed_txg();
        // What was copied from a group that is being removed is as old as its original.
        let since = match self.moved_till() > committed {
            true => 0,
            false => committed,
        };
        self.headers()?;
        self.pool_arrays()?;
        let entries: Vec<_> = engine.state.read().all().cloned().collect();
        for entry in entries {
            for (array, root) in (0..).zip(&entry.roots) {
                let min_birth = since.max(entry.prev_snap_txg);
                let mut from = 0;
                while let ControlFlow::Break(next) =
                    self.array(entry.id, array, root, (from, min_birth))?
                {
                    from = next;
                }
            }
        }
        for dataset in engine.open_datasets() {
            for (array, ptr) in dataset.uncommitted() {
                let found = self.examine(&ptr.place, &|| Ok(true))?;
                if found != RecordFinding::Good {
                    self.report(found, dataset.id(), Some(array), (0, 0));
                }
            }
        }
        Ok(())
    }
}
