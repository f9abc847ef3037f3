//! The connection to an initiator, and input that is not parsed yet.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use admission::Deadline;

/// The bytes that are received at a time while PDUs are small.
const CAPACITY: usize = 64 << 10;
/// A silent initiator is asked for a sign of life so many times, and is gone then.
pub(crate) const UNANSWERED_MAX: u32 = 2;

/// Bytes to and from an initiator.
pub(crate) trait InitiatorLink: Send + Sync {
    /// Receives something; 0 at the end.
    fn receive(&self, out: &mut [u8]) -> io::Result<usize>;

    /// Sends all of it.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Lifts the limit of the login. From now on receiving fails with `WouldBlock` after each `silence`, and sending when
    /// nothing was taken for as long as an initiator may be silent.
    fn begin_session(&self, silence: Duration);

    /// Makes sending and receiving fail, now and later.
    fn cut(&self);

    /// The address at which the initiator reached this target.
    fn portal(&self) -> String;

    /// The address of the initiator.
    fn peer(&self) -> String;
}

/// A connected socket.
pub(crate) struct InitiatorSocket {
    stream: TcpStream,
    peer: SocketAddr,
    /// The login has to end until then.
    deadline: Deadline,
}

impl InitiatorSocket {
    pub(crate) fn new(stream: TcpStream, peer: SocketAddr, patience: Duration) -> InitiatorSocket {
        let deadline = Deadline::at(Instant::now() + patience);
        InitiatorSocket {
            stream,
            peer,
            deadline,
        }
    }

    /// The time that is left, or an error when it is over.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.left() {
            Some(Duration::ZERO) => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl InitiatorLink for InitiatorSocket {
    fn receive(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(left) = self.left()? {
                self.stream.set_read_timeout(Some(left))?;
            }
            match (&self.stream).read(out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => return received,
            }
        }
    }

    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if let Some(left) = self.left()? {
                self.stream.set_write_timeout(Some(left))?;
            }
            match (&self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn begin_session(&self, silence: Duration) {
        self.deadline.lift();
        let longest = silence * (UNANSWERED_MAX + 1);
        let limited = self.stream.set_read_timeout(Some(silence));
        if limited
            .and(self.stream.set_write_timeout(Some(longest)))
            .is_err()
        {
            self.cut();
        }
    }

    fn cut(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn portal(&self) -> String {
        let address = self.stream.local_addr();
        // A socket for all addresses has those of IPv4 in another form.
        let plain = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
        address.map_or_else(|_| String::new(), |address| plain(address).to_string())
    }

    fn peer(&self) -> String {
        self.peer.to_string()
    }
}

/// Received bytes that wait: one system call reads many small PDUs.
pub(crate) struct PduBuffer {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl PduBuffer {
    pub(crate) fn new() -> PduBuffer {
        PduBuffer {
            buffer: vec![0; CAPACITY].into(),
            start: 0,
            end: 0,
        }
    }

    /// Returns whether no bytes wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Fills `out`. False if the initiator ended before the first byte.
    pub(crate) fn fill(&mut self, link: &dyn InitiatorLink, out: &mut [u8]) -> io::Result<bool> {
        let mut done = 0;
        while done < out.len() {
            let rest = &mut out[done..];
            if self.is_empty() && rest.len() >= CAPACITY {
                match link.receive(rest)? {
                    0 => return end(done),
                    received => done += received,
                }
                continue;
            }
            if self.is_empty() {
                (self.start, self.end) = (0, link.receive(&mut self.buffer)?);
                if self.end == 0 {
                    return end(done);
                }
            }
            let n = rest.len().min(self.end - self.start);
            rest[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
            (self.start, done) = (self.start + n, done + n);
        }
        Ok(true)
    }
}

fn end(done: usize) -> io::Result<bool> {
    match done {
        0 => Ok(false),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
