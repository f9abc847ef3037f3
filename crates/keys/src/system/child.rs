//! A program that was started, and a socket to it with a time limit.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};

/// A program that was started. It does not outlive this.
pub(crate) struct ChildProgram(pub(crate) Child);

impl ChildProgram {
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.0.id()).ok()?)
    }

    /// Waits until it ends, but not for longer.
    pub(crate) fn wait(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).unwrap_or_default();
        let pidfd = self
            .pid()
            .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        if let Some(pidfd) = pidfd {
            let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&time));
        }
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        // What it started may be left when it has ended.
        if let Some(pid) = self.pid() {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// A socket that is given up at some moment.
#[derive(Debug)]
pub struct TimedStream {
    /// The socket.
    pub stream: UnixStream,
    /// The moment.
    pub until: Instant,
}

impl TimedStream {
    /// Connects, and does not wait for longer if the program has stopped taking connections.
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn connect(path: &Path, until: Instant) -> io::Result<TimedStream> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        // A connection waits for as long as what is written to it would.
        let left = until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        let stream = UnixStream::from(socket);
        Ok(TimedStream { stream, until })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for TimedStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(out)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
