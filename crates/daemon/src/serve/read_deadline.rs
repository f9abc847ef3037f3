//! Reading from a client that may be slow on purpose.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// A connection with one time limit for all data, and not one for each piece.
pub(crate) struct DeadlineReader<'a> {
    pub(crate) stream: &'a UnixStream,
    pub(crate) until: Instant,
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buf)
    }
}
