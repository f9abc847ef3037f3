//! The verifications that read snapshots of a pool. A forced export or destruction of the pool ends them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::DataChannel;

/// The time for a verification to end by itself. It looks after each batch of records.
const POLITE: Duration = Duration::from_secs(2);
/// The time for it to end after its connection was closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The verifications of one pool.
#[derive(Default)]
pub(crate) struct PoolVerifications {
    table: Mutex<VerificationTable>,
    ended: Condvar,
}

#[derive(Default)]
struct VerificationTable {
    next: u64,
    /// The connections of those that run.
    running: BTreeMap<u64, Arc<dyn DataChannel>>,
    /// The number of commands that let none run.
    holds: usize,
}

/// A verification that reads a snapshot or sends its row, as long as this exists.
pub(crate) struct RunningVerification<'a> {
    all: &'a PoolVerifications,
    number: u64,
}

/// Lets no verification run, as long as this exists.
pub(crate) struct VerificationHold<'a>(&'a PoolVerifications);

impl PoolVerifications {
    /// Begins a verification for the caller at this connection.
    ///
    /// # Errors
    /// The pool is being exported or destroyed by force.
    pub(crate) fn begin(&self, data: &Arc<dyn DataChannel>) -> Result<RunningVerification<'_>> {
        let mut table = self.table.lock();
        if table.holds > 0 {
            return Err(interrupted());
        }
        table.next += 1;
        let number = table.next;
        table.running.insert(number, Arc::clone(data));
        Ok(RunningVerification { all: self, number })
    }

    /// Ends all verifications, and waits for that.
    pub(crate) fn hold(&self) -> VerificationHold<'_> {
        let is_running = |table: &mut VerificationTable| !table.running.is_empty();
        let mut table = self.table.lock();
        table.holds += 1;
        self.ended.wait_while_for(&mut table, is_running, POLITE);
        // The caller may read no rows.
        table.running.values().for_each(|data| data.break_off());
        self.ended.wait_while_for(&mut table, is_running, PATIENCE);
        VerificationHold(self)
    }

    /// Returns whether all are to end.
    pub(crate) fn is_held(&self) -> bool {
        self.table.lock().holds > 0
    }
}

impl RunningVerification<'_> {
    /// Returns whether it is to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.all.is_held()
    }
}

impl Drop for RunningVerification<'_> {
    fn drop(&mut self) {
        self.all.table.lock().running.remove(&self.number);
        self.all.ended.notify_all();
    }
}

impl Drop for VerificationHold<'_> {
    fn drop(&mut self) {
        self.0.table.lock().holds -= 1;
    }
}

/// The failure of a verification that a forced command ended.
pub(crate) fn interrupted() -> Failure {
    let why = "the pool is being exported or destroyed by force";
    Failure::new(FailureKind::Busy, why)
}
