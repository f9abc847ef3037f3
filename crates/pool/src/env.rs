//! Time and chance, from outside, so that one seed replays a whole run.

use std::time::Duration;

/// What the engine may not take from the system by itself.
pub trait Env: Send + Sync {
    /// Seconds since 1970.
    fn now(&self) -> u64;

    /// Time since some moment, for measuring how long things take; nothing is decided by it.
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    /// A number that no other pool or dataset is likely to draw.
    fn guid(&self) -> u64;
}
