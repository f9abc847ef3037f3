//! The connection to a client: a socket.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

/// Bytes to and from a client. One thread receives at a time, and one sends.
pub(crate) trait Link: Send + Sync {
    /// Receives something, first into `first` and then into `second`; 0 at the end.
    fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize>;

    /// Sends all of it.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Whether it is encrypted.
    fn is_secure(&self) -> bool;

    /// From now on waits for the client as long as it takes.
    fn take_time(&self);

    /// Tells the client that nothing more comes.
    fn finish(&self);

    /// Makes sending and receiving fail, now and later.
    fn cut(&self);

    /// Whether the client has closed its end, whether or not that was noticed by who receives.
    fn is_left(&self) -> bool;
}

/// A connected socket.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// When the handshake has to end.
    deadline: Instant,
    /// Whether the handshake has ended, so that `deadline` no longer counts.
    has_time: AtomicBool,
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd, patience: Duration) -> Socket {
        Socket {
            fd,
            deadline: Instant::now() + patience,
            has_time: AtomicBool::new(false),
        }
    }

    /// Returns when it is ready for these, or fails when the client's time is over.
    fn wait_for(&self, what: PollFlags) -> io::Result<()> {
        if self.has_time.load(Ordering::Relaxed) {
            return Ok(());
        }
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match poll(&mut [PollFd::new(&self.fd, what)], Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Link for Socket {
    fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        self.wait_for(PollFlags::IN)?;
        loop {
            let pieces = &mut [IoSliceMut::new(first), IoSliceMut::new(second)];
            match rustix::io::readv(&self.fd, pieces) {
                Err(Errno::INTR) => {}
                received => return Ok(received?),
            }
        }
    }

    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.wait_for(PollFlags::OUT)?;
            let mut flags = SendFlags::NOSIGNAL;
            if !self.has_time.load(Ordering::Relaxed) {
                flags |= SendFlags::DONTWAIT;
            }
            match rustix::net::send(&self.fd, bytes, flags) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn is_secure(&self) -> bool {
        false
    }

    fn take_time(&self) {
        self.has_time.store(true, Ordering::Relaxed);
    }

    fn finish(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    fn cut(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    fn is_left(&self) -> bool {
        let ends = PollFlags::RDHUP | PollFlags::HUP;
        let polled = &mut [PollFd::new(&self.fd, ends)];
        poll(polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(ends)
    }
}
