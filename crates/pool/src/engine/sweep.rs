//! The progress of work on all free space of a pool. In memory only.

use parking_lot::Mutex;

use crate::format::jobs::scrub_status::ScrubPhase;

/// A kind of work on all free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepKind {
    /// Discards free space on the devices.
    Trim,
    /// Writes a pattern to free space.
    Initialize,
}

/// The progress of both kinds. They may run at the same time.
#[derive(Default)]
pub(crate) struct Sweeps([Mutex<SweepStatus>; 2]);

impl Sweeps {
    pub(crate) fn of(&self, what: SweepKind) -> &Mutex<SweepStatus> {
        &self.0[what as usize]
    }
}

/// The progress of a running sweep, or the result of the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepStatus {
    /// The phase: whether the sweep runs.
    pub phase: ScrubPhase,
    /// The time of its start, in seconds since 1970.
    pub started: u64,
    /// The time of its end.
    pub ended: u64,
    /// The segments that were examined.
    pub examined: u64,
    /// The segments that existed at its start.
    pub total: u64,
    /// The bytes of free space that were processed, parity included.
    pub bytes: u64,
    /// The number of failed calls.
    pub failures: u64,
    /// The error of the last failed call.
    pub error: Option<String>,
    /// The only device that is processed; `None` for all devices.
    pub device: Option<u64>,
    /// Tells one sweep from the next.
    pub(crate) run: u64,
}
