//! Periodic work of the daemon: whether it is due, by a clock that may be wrong.

use parking_lot::Mutex;

/// A day, in seconds.
pub(crate) const DAY: u64 = 24 * 60 * 60;

/// Remembers when a clock that was set back was first seen. Each kind of periodic work has one.
#[derive(Default)]
pub(crate) struct Schedule {
    seen: Mutex<Option<u64>>,
}

impl Schedule {
    /// Returns whether `every` seconds have passed since the work was last done. `last` and `now` are seconds since
    /// 1970. Work that was due while no daemon ran is due now, once.
    ///
    /// If `last` is in the future, the clock was set back. Then the work is due `every` seconds after this was first
    /// seen. So one change of the clock does not cause the work twice, and the work does not wait until that future
    /// time.
    pub(crate) fn is_due(&self, last: u64, every: u64, now: u64) -> bool {
        let mut seen = self.seen.lock();
        if last <= now {
            *seen = None;
            return now - last >= every;
        }
        let since = seen.get_or_insert(now);
        *since = (*since).min(now);
        now - *since >= every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: u64 = 7 * DAY;

    #[test]
    fn it_is_time_again_after_the_period() {
        let schedule = Schedule::default();
        assert!(!schedule.is_due(1000, WEEK, 1000));
        assert!(!schedule.is_due(1000, WEEK, 999 + WEEK));
        assert!(schedule.is_due(1000, WEEK, 1000 + WEEK));
        // A daemon that was off for a year is late by one, and not by fifty.
        assert!(schedule.is_due(1000, WEEK, 1000 + 52 * WEEK));
        assert!(!schedule.is_due(1000 + 52 * WEEK, WEEK, 1001 + 52 * WEEK));
    }

    #[test]
    fn a_change_of_the_clock_makes_nothing_happen_twice() {
        let schedule = Schedule::default();
        let year = 365 * DAY;
        // The clock jumps forward: it is done once, at a time in the future of all that follows.
        assert!(schedule.is_due(1000, WEEK, 1000 + year));
        let last = 1000 + year;
        for now in [2000, 2000 + DAY, 1999 + WEEK] {
            assert!(!schedule.is_due(last, WEEK, now), "{now}");
        }
        // The next one does not wait for that year to come.
        assert!(schedule.is_due(last, WEEK, 2000 + WEEK));
        // Back and forth by an hour, as around the end of summer time.
        let schedule = Schedule::default();
        assert!(!schedule.is_due(10_000, WEEK, 10_000 - 3600));
        assert!(!schedule.is_due(10_000, WEEK, 10_000 + 3600));
    }
}
