//! Time and chance, from outside, so that one seed replays a whole run.

/// What the engine may not take from the system by itself.
pub trait Env: Send + Sync {
    /// Seconds since 1970.
    fn now(&self) -> u64;

    /// A number that no other pool or dataset is likely to draw.
    fn guid(&self) -> u64;
}
