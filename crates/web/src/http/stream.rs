//! A connection with one time limit for a whole exchange, and not one for each piece.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A socket whose single calls can have a time limit.
pub(crate) trait ClientSocket: Read + Write {
    /// Lets the next reads and writes take so long.
    fn limit(&self, time: Duration) -> io::Result<()>;

    /// Closes the half that writes.
    fn finish(&self) -> io::Result<()>;
}

impl ClientSocket for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl ClientSocket for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn finish(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A connection.
pub(crate) trait ClientStream: Read + Write {
    /// Tells the client that nothing more comes. What the client sends can still be read.
    fn finish(&mut self) -> io::Result<()>;

    /// From now on everything has to be done before this moment.
    fn end_at(&mut self, moment: Instant);

    /// Sets the time for [`ClientStream::end_at`], counted from now.
    fn end_in(&mut self, time: Duration) {
        self.end_at(Instant::now() + time);
    }
}

/// A socket with a moment at which everything on it ends.
pub(crate) struct TimedSocket<S> {
    socket: S,
    end: Instant,
}

impl<S: ClientSocket> TimedSocket<S> {
    /// A socket that has so much time.
    pub(crate) fn new(socket: S, time: Duration) -> TimedSocket<S> {
        let end = Instant::now() + time;
        TimedSocket { socket, end }
    }

    fn hurry(&self) -> io::Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.socket.limit(left),
        }
    }
}

impl<S: ClientSocket> ClientStream for TimedSocket<S> {
    fn finish(&mut self) -> io::Result<()> {
        self.socket.finish()
    }

    fn end_at(&mut self, moment: Instant) {
        self.end = moment;
    }
}

impl<S: ClientSocket> Read for TimedSocket<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.hurry()?;
        self.socket.read(out)
    }
}

impl<S: ClientSocket> Write for TimedSocket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hurry()?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
