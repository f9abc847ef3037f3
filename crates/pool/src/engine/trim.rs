//! How far a trim is. In memory only.

use crate::format::scrub_status::ScrubPhase;

/// How far a trim is, or how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimStatus {
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
    /// Bytes of free space that the devices were told of, parity included.
    pub trimmed: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Why the last of these failed.
    pub error: Option<String>,
    /// The only device that is told; all if there is none.
    pub device: Option<u64>,
    /// Tells one trim from the next.
    pub(crate) run: u64,
}
