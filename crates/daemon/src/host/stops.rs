//! Ends threads that listen.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Failure, Result};

/// Ends the thread that listens.
#[derive(Clone)]
pub(crate) struct Stops(Arc<(UnixStream, UnixStream)>);

pub(crate) const STOPPED: u8 = 0;

pub(crate) const SIGNALLED: u8 = 1;

/// The next action of the thread that listens.
pub(crate) enum Next {
    Connection,
    /// Unmount everything and end.
    Signal,
    /// End. Everything is unmounted already.
    Stopped,
}

impl Stops {
    pub(crate) fn new() -> Result<Stops> {
        let pair = UnixStream::pair()
            .map_err(|error| Failure::other(format!("the daemon cannot wait: {error}")))?;
        Ok(Stops(Arc::new(pair)))
    }

    pub(crate) fn tell(&self, why: u8) {
        // It fails only if no thread waits any more.
        let _ = (&self.0.0).write_all(&[why]);
    }

    /// Waits for `time`, or until the thread has to end.
    pub(crate) fn wait_for(&self, time: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.0.1, PollFlags::IN)];
        // What cannot be waited for is tried again at once.
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
    }

    /// Waits for a connection, or until the thread has to end.
    pub(crate) fn wait(&self, listener: &UnixListener) -> Next {
        use rustix::event::{PollFd, PollFlags, poll};
        let told = &self.0.1;
        loop {
            let mut fds = [
                PollFd::new(told, PollFlags::IN),
                PollFd::new(listener, PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            if !fds[0].revents().is_empty() {
                let mut why = [STOPPED];
                let _ = (&*told).read_exact(&mut why);
                return match why {
                    [SIGNALLED] => Next::Signal,
                    _ => Next::Stopped,
                };
            }
            if !fds[1].revents().is_empty() {
                return Next::Connection;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_can_be_told_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let stops = Stops::new().unwrap();
        let _connection = UnixStream::connect(&socket).unwrap();
        assert!(matches!(stops.wait(&listener), Next::Connection));
        // Also without the socket, and before any connection that waits.
        std::fs::remove_file(&socket).unwrap();
        stops.tell(SIGNALLED);
        assert!(matches!(stops.wait(&listener), Next::Signal));
    }
}
