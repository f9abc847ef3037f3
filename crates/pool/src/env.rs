//! Time and random numbers come from outside, so that a seed replays a whole run.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::{FixedState, FoldHasher};

/// The time, random numbers and threads that the engine may not take from the system by itself.
pub trait Env: Send + Sync {
    /// Seconds since 1970.
    fn now(&self) -> u64;

    /// Time since some moment, for measuring how long things take; nothing is decided by it.
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    /// Time since some moment, which nobody sets, and which also passes while the machine sleeps. By it a host gives a
    /// pool up that it could not show to be its own, and the time of a pool goes on.
    fn lease_clock(&self) -> Duration {
        Duration::ZERO
    }

    /// A number that no other pool or dataset is likely to draw.
    fn guid(&self) -> u64;

    /// Returns whether background work has threads of its own. Without them the caller of the pool has it done
    /// ([`CacheMembership::drain`](crate::CacheMembership::drain)), so that a seed replays it too.
    fn has_threads(&self) -> bool {
        true
    }
}

/// Hashes keys of a cache by a number drawn at random, so that one seed replays what a full cache forgets.
#[derive(Clone, Copy, Debug)]
pub struct CacheHash(pub u64);

impl BuildHasher for CacheHash {
    type Hasher = FoldHasher<'static>;

    fn build_hasher(&self) -> FoldHasher<'static> {
        FixedState::with_seed(self.0).build_hasher()
    }
}
