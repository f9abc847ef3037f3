//! Connections of commands that may take long, or wait for typed input. Ending what they work on can end them.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};

/// Who breaks connections off waits so long for them to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The connections under way.
pub(crate) struct Connections {
    running: Mutex<Running>,
    changed: Condvar,
    max: usize,
}

#[derive(Default)]
struct Running {
    next: u64,
    streams: BTreeMap<u64, UnixStream>,
    is_closed: bool,
}

/// Counts as a connection while it exists.
pub(crate) struct Connection<'a> {
    all: &'a Connections,
    number: u64,
}

impl Connections {
    /// No more than `max` at a time.
    pub(crate) fn new(max: usize) -> Connections {
        Connections {
            running: Mutex::default(),
            changed: Condvar::new(),
            max,
        }
    }

    pub(crate) fn begin(&self, stream: &UnixStream) -> Result<Connection<'_>> {
        let lost = |error| Failure::other(format!("the caller went away: {error}"));
        let stream = stream.try_clone().map_err(lost)?;
        let mut running = self.running.lock();
        if running.is_closed || running.streams.len() >= self.max {
            let why = match running.is_closed {
                true => "what this is about is ending",
                false => "too many commands run at the same time; try again",
            };
            return Err(Failure::new(FailureKind::Busy, why));
        }
        running.next += 1;
        let number = running.next;
        running.streams.insert(number, stream);
        Ok(Connection { all: self, number })
    }

    /// Ends all connections, as if those at the other end had gone away, and takes no more. False if one of
    /// them still does what it was asked for.
    pub(crate) fn break_off(&self) -> bool {
        let mut running = self.running.lock();
        running.is_closed = true;
        for stream in running.streams.values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let some = |running: &mut Running| !running.streams.is_empty();
        self.changed.wait_while_for(&mut running, some, PATIENCE);
        running.streams.is_empty()
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.all.running.lock().streams.remove(&self.number);
        self.all.changed.notify_all();
    }
}

/// A connection on which all has to come until a moment, and not only each piece a while after the one before.
pub(crate) struct Hurried<'a> {
    pub(crate) stream: &'a UnixStream,
    pub(crate) until: Instant,
}

impl Read for Hurried<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buf)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use protocol::wire;

    #[test]
    fn a_request_that_comes_in_drops_is_not_waited_for() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"J").unwrap();
        let until = Instant::now();
        let mut late = Hurried {
            stream: &here,
            until,
        };
        let error = wire::receive_request(&mut late, 1000).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }

    #[test]
    fn there_are_so_many_and_they_can_be_ended() {
        let connections = Connections::new(1);
        let (here, _there) = UnixStream::pair().unwrap();
        let first = connections.begin(&here).unwrap();
        assert!(connections.begin(&here).is_err());
        drop(first);
        drop(connections.begin(&here).unwrap());
        assert!(connections.break_off());
        assert!(connections.begin(&here).is_err());
    }
}
