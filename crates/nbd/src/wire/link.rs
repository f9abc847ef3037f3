//! The connection to the other end: a socket.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use admission::Deadline;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, Shutdown, sockopt};

/// The send buffer of a unix socket. It holds a large reply, so that the sender need not wait again and again. (The
/// buffers of TCP grow by themselves.)
const SEND_BUFFER: usize = 1 << 20;

/// Bytes to and from the other end. One thread receives at a time, and one sends.
pub(crate) trait PeerLink: Send + Sync {
    /// Receives something, first into `first` and then into `second`; 0 at the end.
    fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize>;

    /// Sends all of it.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Returns whether the link is encrypted.
    fn is_secure(&self) -> bool;

    /// From now on waits for the other end as long as it takes.
    fn take_time(&self);

    /// Receiving fails after this moment.
    fn receive_until(&self, moment: Instant);

    /// Sending fails after this moment.
    fn send_until(&self, moment: Instant);

    /// Tells the other end that nothing more comes.
    fn finish(&self);

    /// Makes sending and receiving fail, now and later.
    fn cut(&self);

    /// Returns whether nothing can be sent any more, because either end is closed.
    fn is_cut(&self) -> bool;

    /// Returns whether the other end is closed, also if the receiving thread has not noticed.
    fn is_left(&self) -> bool;
}

/// A connected socket.
pub(crate) struct PeerSocket {
    fd: OwnedFd,
    receive_limit: Deadline,
    send_limit: Deadline,
}

impl PeerSocket {
    /// `patience`: how long the handshake may take.
    pub(crate) fn new(fd: OwnedFd, patience: Duration) -> PeerSocket {
        let end = Instant::now() + patience;
        if sockopt::socket_domain(&fd) == Ok(AddressFamily::UNIX) {
            // The system may allow less (`net.core.wmem_max`): then large answers take longer.
            let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
        }
        PeerSocket {
            fd,
            receive_limit: Deadline::at(end),
            send_limit: Deadline::at(end),
        }
    }

    /// Returns whether the socket is in one of these states now.
    fn is_in(&self, states: PollFlags) -> bool {
        let polled = &mut [PollFd::new(&self.fd, states)];
        poll(polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(states)
    }

    /// Returns when it is ready for these, or fails when the time is over.
    fn wait_for(&self, what: PollFlags, limit: &Deadline) -> io::Result<()> {
        while let Some(left) = limit.left() {
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match poll(&mut [PollFd::new(&self.fd, what)], Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

impl PeerLink for PeerSocket {
    fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        self.wait_for(PollFlags::IN, &self.receive_limit)?;
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
            self.wait_for(PollFlags::OUT, &self.send_limit)?;
            let mut flags = SendFlags::NOSIGNAL;
            if self.send_limit.left().is_some() {
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
        self.receive_limit.lift();
        self.send_limit.lift();
    }

    fn receive_until(&self, moment: Instant) {
        self.receive_limit.set(moment);
    }

    fn send_until(&self, moment: Instant) {
        self.send_limit.set(moment);
    }

    fn finish(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    fn cut(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    fn is_cut(&self) -> bool {
        self.is_in(PollFlags::HUP)
    }

    fn is_left(&self) -> bool {
        self.is_in(PollFlags::RDHUP | PollFlags::HUP)
    }
}
