//! The last report on a pool, for the time in which its devices do not answer.

use parking_lot::Mutex;
use protocol::api::PoolReport;

#[derive(Default)]
pub(crate) struct LastReport(Mutex<Option<Box<PoolReport>>>);

impl LastReport {
    /// Keeps a report.
    pub(crate) fn note(&self, report: &PoolReport) {
        *self.0.lock() = Some(Box::new(report.clone()));
    }

    /// The last one, if there is any.
    pub(crate) fn get(&self) -> Option<PoolReport> {
        self.0.lock().as_deref().cloned()
    }
}
