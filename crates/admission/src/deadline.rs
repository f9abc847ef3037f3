//! The time of a client that is not authenticated: a moment for all that it sends, and not one for each piece.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::accept::is_gone;

/// The moment after which waiting fails, if there is one. Another thread may move it.
#[derive(Debug)]
pub struct Deadline {
    /// The moment is counted from here.
    start: Instant,
    /// In nanoseconds; [`Deadline::NONE`] without a limit.
    after: AtomicU64,
}

impl Deadline {
    const NONE: u64 = u64::MAX;

    /// A deadline at this moment.
    pub fn at(moment: Instant) -> Deadline {
        let deadline = Deadline {
            start: Instant::now(),
            after: AtomicU64::new(Deadline::NONE),
        };
        deadline.set(moment);
        deadline
    }

    /// Moves it to this moment.
    pub fn set(&self, moment: Instant) {
        let after = moment.saturating_duration_since(self.start).as_nanos();
        let after = u64::try_from(after).unwrap_or(Deadline::NONE);
        self.after.store(after, Ordering::Relaxed);
    }

    /// Lets waiting take as long as it takes.
    pub fn lift(&self) {
        self.after.store(Deadline::NONE, Ordering::Relaxed);
    }

    /// The time that is left, if it is limited. Zero if it is over.
    pub fn left(&self) -> Option<Duration> {
        self.left_at(Instant::now)
    }

    /// The time left, like [`Deadline::left`], at another moment. A lifted deadline does not ask for the time.
    fn left_at(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        match self.after.load(Ordering::Relaxed) {
            Deadline::NONE => None,
            after => {
                let passed = now().saturating_duration_since(self.start);
                Some(Duration::from_nanos(after).saturating_sub(passed))
            }
        }
    }
}

/// Waits for the first bytes of a client, and reads none of them. False if the client has gone, or the time is over.
pub fn await_first_bytes(stream: impl AsFd, deadline: &Deadline) -> bool {
    loop {
        let left = deadline.left();
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&stream, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return !is_gone(&stream),
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn time_runs_out_unless_it_is_lifted() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let deadline = Deadline::at(now + 9 * second);
        assert!(
            deadline
                .left_at(|| now + second)
                .is_some_and(|left| left <= 8 * second)
        );
        assert_eq!(deadline.left_at(|| now + 10 * second), Some(Duration::ZERO));
        deadline.set(now + 20 * second);
        assert!(
            deadline
                .left_at(|| now + 10 * second)
                .is_some_and(|left| left > 9 * second)
        );
        deadline.lift();
        assert_eq!(deadline.left_at(|| now + 99 * second), None);
    }

    #[test]
    fn first_bytes_are_awaited() {
        let soon = || Deadline::at(Instant::now() + Duration::from_secs(60));
        let (here, mut there) = UnixStream::pair().expect("sockets");
        assert!(!await_first_bytes(&here, &Deadline::at(Instant::now())));
        there.write_all(b"x").expect("it is open");
        assert!(await_first_bytes(&here, &soon()));
        drop(there);
        assert!(!await_first_bytes(&here, &soon()));
    }
}
