//! Work on all free space of a pool: how far it is. In memory only.

use parking_lot::Mutex;

use crate::format::scrub_status::ScrubPhase;

/// What is done to all free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// The devices are told that it is free.
    Trim,
    /// A pattern is written to it.
    Initialize,
}

/// Each kind of work, which may go on at the same time.
#[derive(Default)]
pub(crate) struct Sweeps([Mutex<SweepStatus>; 2]);

impl Sweeps {
    pub(crate) fn of(&self, what: Sweep) -> &Mutex<SweepStatus> {
        &self.0[what as usize]
    }
}

/// How far a sweep is, or how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepStatus {
    /// Whether it runs.
    pub phase: ScrubPhase,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Segments that were looked at.
    pub examined: u64,
    /// Segments there were when it began.
    pub total: u64,
    /// Bytes of free space that it was done to, parity included.
    pub bytes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Why the last of these failed.
    pub error: Option<String>,
    /// The only device that it is done to; all if there is none.
    pub device: Option<u64>,
    /// Tells one sweep from the next.
    pub(crate) run: u64,
}
