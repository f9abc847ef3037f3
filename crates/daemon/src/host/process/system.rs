//! Time and random numbers from the system.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cipher::SystemRandom;
use dataset::Clock;
use jiff::Timestamp;
use pool::Env;
use vfs::Time;

/// Time and random numbers from the system.
pub(crate) struct System;

impl Clock for System {
    fn now(&self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Time {
            secs: now.tv_sec,
            nanos: now.tv_nsec as u32,
        }
    }
}

impl Env for System {
    fn now(&self) -> u64 {
        now_secs()
    }

    fn elapsed(&self) -> Duration {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGIN.elapsed()
    }

    fn lease_clock(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn guid(&self) -> u64 {
        new_guid()
    }
}

/// A random number that is not 0.
pub(crate) fn new_guid() -> u64 {
    let mut bytes = [0; 8];
    cipher::Random::fill(&SystemRandom, &mut bytes).expect("the system has random numbers");
    u64::from_le_bytes(bytes).max(1)
}

/// Seconds since 1970.
pub(crate) fn now_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

/// A time as UTC; the number of seconds if it is outside the calendar.
pub(crate) fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok();
    match time.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        Some(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        None => seconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_no_zone() {
        assert_eq!(utc(1_795_206_665), "2026-11-20 20:31:05 UTC");
        assert_eq!(utc(u64::MAX), u64::MAX.to_string());
    }
}
