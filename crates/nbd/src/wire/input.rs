//! Input of a client that is not parsed yet: one system call reads many small requests.

use std::io;

use crate::wire::link::PeerLink;

/// The bytes that are received at a time while requests are small.
pub(crate) const CAPACITY: usize = 256 << 10;
/// The bytes that are received after a large payload. The payload does not pass this buffer, but bytes of the next
/// one that are received here have to be copied.
const CAPACITY_AFTER_LARGE: usize = 4 << 10;

/// Received bytes that wait.
pub(crate) struct ReceiveBuffer {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(crate) fn new() -> ReceiveBuffer {
        ReceiveBuffer {
            buffer: vec![0; CAPACITY].into(),
            start: 0,
            end: 0,
        }
    }

    /// Returns the number of waiting bytes.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Receives until `n` bytes are here, which fit. False if the client ended before the first of them.
    pub(crate) fn fill(&mut self, link: &dyn PeerLink, n: usize) -> io::Result<bool> {
        while self.len() < n {
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            } else if self.start + n > CAPACITY {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.len());
            }
            match link.receive(&mut self.buffer[self.end..], &mut [])? {
                0 if self.len() == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                received => self.end += received,
            }
        }
        Ok(true)
    }

    /// The next `n` bytes, which are here.
    pub(crate) fn take(&mut self, n: usize) -> &mut [u8] {
        self.start += n;
        &mut self.buffer[self.start - n..self.start]
    }

    /// Fills `out` with what is here and then what comes.
    pub(crate) fn read_into(&mut self, link: &dyn PeerLink, out: &mut [u8]) -> io::Result<()> {
        let here = out.len().min(self.len());
        out[..here].copy_from_slice(self.take(here));
        let mut done = here;
        while done < out.len() {
            // Nothing waits here any more; what comes behind `out` does.
            let missing = out.len() - done;
            let behind = &mut self.buffer[..CAPACITY_AFTER_LARGE];
            let received = link.receive(&mut out[done..], behind)?;
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (self.start, self.end) = (0, received.saturating_sub(missing));
            done += received.min(missing);
        }
        Ok(())
    }

    /// Leaves out `n` bytes.
    pub(crate) fn skip(&mut self, link: &dyn PeerLink, mut n: u64) -> io::Result<()> {
        while n > 0 {
            if self.len() == 0 && !self.fill(link, 1)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let here = usize::try_from(n).map_or(self.len(), |n| n.min(self.len()));
            self.take(here);
            n -= here as u64;
        }
        Ok(())
    }
}
