//! The clock of a pool. A retention ends by it, so a user who sets the clock of the machine must not end one.
//!
//! The superblock has the latest time that the pool believes. From there the clock goes on with the clock of the
//! machine, but between two bounds: at least as fast as the pool is really imported, and at most twice as fast. So a
//! clock that is set forward is believed after the pool was imported for as long as it was set forward. A pool that was
//! away catches up in the same way. A clock that is set back changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::env::Env;

/// Twice as fast as the pool is imported.
const CATCH_UP: u32 = 2;

/// The time of a pool since an import.
#[derive(Clone)]
pub(crate) struct PoolClock {
    env: Arc<dyn Env>,
    /// The time that the pool believed at the beginning, in seconds since 1970; 0: it kept no time.
    began: u64,
    /// [`Env::lease_clock`] at the beginning.
    at: Duration,
}

impl PoolClock {
    /// Goes on from the time that the pool believes; from the time of the machine if that is 0.
    pub(crate) fn start(env: &Arc<dyn Env>, believed: u64) -> PoolClock {
        PoolClock {
            env: Arc::clone(env),
            began: believed,
            at: env.lease_clock(),
        }
    }

    /// Goes on from this time, which the pool keeps from now on.
    pub(crate) fn begin(&mut self, time: u64) {
        self.began = time;
        self.at = self.env.lease_clock();
    }

    /// The time of the machine, in seconds since 1970. Nothing that protects data may rely on it.
    pub(crate) fn machine(&self) -> u64 {
        self.env.now()
    }

    /// The time of the pool, in seconds since 1970.
    pub(crate) fn time(&self) -> u64 {
        let machine = self.machine();
        if self.began == 0 {
            return machine;
        }
        let ran = self.env.lease_clock().saturating_sub(self.at);
        let after = |ran: Duration| self.began.saturating_add(ran.as_secs());
        machine.clamp(after(ran), after(ran.saturating_mul(CATCH_UP)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const DAY: u64 = 86_400;
    const BEGIN: u64 = 1_800_000_000;

    /// A clock that anybody sets, and one that nobody sets.
    #[derive(Default)]
    struct TwoClocks {
        machine: AtomicU64,
        ran: AtomicU64,
    }

    impl TwoClocks {
        fn at(machine: u64) -> (Arc<TwoClocks>, Arc<dyn Env>) {
            let clocks = Arc::new(TwoClocks::default());
            clocks.machine.store(machine, Ordering::Relaxed);
            (Arc::clone(&clocks), clocks)
        }

        fn pass(&self, secs: u64) {
            self.machine.fetch_add(secs, Ordering::Relaxed);
            self.ran.fetch_add(secs, Ordering::Relaxed);
        }

        fn set(&self, machine: u64) {
            self.machine.store(machine, Ordering::Relaxed);
        }
    }

    impl Env for TwoClocks {
        fn now(&self) -> u64 {
            self.machine.load(Ordering::Relaxed)
        }

        fn lease_clock(&self) -> Duration {
            Duration::from_secs(self.ran.load(Ordering::Relaxed))
        }

        fn guid(&self) -> u64 {
            1
        }
    }

    #[test]
    fn a_clock_that_is_set_forward_is_believed_after_as_long() {
        let (clocks, env) = TwoClocks::at(BEGIN);
        let clock = PoolClock::start(&env, BEGIN);
        clocks.pass(DAY);
        assert_eq!(clock.time(), BEGIN + DAY);
        clocks.set(BEGIN + 11 * DAY);
        assert_eq!(clock.time(), BEGIN + 2 * DAY);
        clocks.pass(DAY);
        assert_eq!(clock.time(), BEGIN + 4 * DAY);
        // It was set forward by ten days. The day before the change counts too.
        clocks.pass(8 * DAY);
        assert_eq!(clock.time(), BEGIN + 20 * DAY);
        clocks.pass(DAY);
        assert_eq!(clock.time(), BEGIN + 21 * DAY);
    }

    /// Setting it in small steps, with an import after each, gains nothing more.
    #[test]
    fn no_more_than_twice_the_time_passes() {
        let (clocks, env) = TwoClocks::at(BEGIN);
        let mut believed = BEGIN;
        for day in 0..20 {
            let clock = PoolClock::start(&env, believed);
            clocks.pass(DAY / 24);
            clocks.set(clocks.now() + DAY);
            believed = clock.time();
            assert_eq!(believed, BEGIN + (day + 1) * 2 * DAY / 24);
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_it() {
        let (clocks, env) = TwoClocks::at(BEGIN);
        let clock = PoolClock::start(&env, BEGIN);
        clocks.set(5);
        assert_eq!(clock.time(), BEGIN);
        clocks.pass(DAY);
        assert_eq!(clock.time(), BEGIN + DAY);
    }

    #[test]
    fn without_a_time_it_is_that_of_the_machine() {
        let (clocks, env) = TwoClocks::at(BEGIN);
        let clock = PoolClock::start(&env, 0);
        clocks.set(BEGIN + 9 * DAY);
        assert_eq!(clock.time(), BEGIN + 9 * DAY);
    }

    #[test]
    fn no_time_overflows() {
        let (clocks, env) = TwoClocks::at(BEGIN);
        let clock = PoolClock::start(&env, u64::MAX - 1);
        clocks.pass(DAY);
        assert_eq!(clock.time(), u64::MAX);
    }
}
