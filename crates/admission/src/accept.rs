//! The loop that accepts connections, until its thread has to end.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_keepalive, socket_peercred};

use crate::source::ClientSource;

/// The pause after a connection could not be accepted. The usual reason is the limit of open files: without the pause
/// the waiting connection would be tried over and over.
const BACK_OFF: Duration = Duration::from_millis(100);
/// The log has at most one line about connections that could not be accepted in this time.
const QUIET: Duration = Duration::from_secs(60);

/// A socket that listens, and knows where clients come from.
pub trait Listen: AsFd {
    /// A connection.
    type Stream: AsFd;

    /// Accepts the next connection.
    ///
    /// # Errors
    /// Those of the system.
    fn take(&self) -> io::Result<(Self::Stream, ClientSource)>;
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    fn take(&self) -> io::Result<(UnixStream, ClientSource)> {
        let (stream, _) = self.accept()?;
        let peer = socket_peercred(&stream)?;
        Ok((stream, ClientSource::local_user(peer.uid.as_raw())))
    }
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    fn take(&self) -> io::Result<(TcpStream, ClientSource)> {
        let (stream, address) = self.accept()?;
        stream.set_nodelay(true)?;
        // A host that has vanished is not waited for.
        set_socket_keepalive(&stream, true)?;
        Ok((stream, ClientSource::address(address.ip())))
    }
}

/// Ends a thread that accepts connections.
#[derive(Clone, Debug)]
pub struct StopSignal(Arc<(UnixStream, UnixStream)>);

impl StopSignal {
    /// A thread that is not told to end.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn new() -> io::Result<StopSignal> {
        Ok(StopSignal(Arc::new(UnixStream::pair()?)))
    }

    /// Tells the thread to end. [`attend`] returns `why`.
    pub fn tell(&self, why: u8) {
        // It fails only if no thread waits any more.
        let _ = (&self.0.0).write_all(&[why]);
    }

    /// Waits for `time`, or until the thread has to end.
    fn wait_for(&self, time: Duration) {
        let mut fds = [PollFd::new(&self.0.1, PollFlags::IN)];
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
    }

    /// Waits for a connection. If the thread has to end, returns why.
    fn wait(&self, listener: &impl AsFd) -> Option<u8> {
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
                let mut why = [0];
                let _ = (&*told).read_exact(&mut why);
                return Some(why[0]);
            }
            if !fds[1].revents().is_empty() {
                return None;
            }
        }
    }
}

/// Accepts connections until the thread has to end, and returns why it does. `begin` has each connection whose client
/// is still there, and must not wait. `failed` logs an error.
pub fn attend<L: Listen>(
    listener: &L,
    stop: &StopSignal,
    failed: impl Fn(&io::Error),
    mut begin: impl FnMut(L::Stream, ClientSource),
) -> u8 {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(why) = stop.wait(listener) {
            return why;
        }
        match listener.take() {
            Ok((stream, _)) if is_gone(&stream) => {}
            Ok((stream, source)) => begin(stream, source),
            Err(error) => {
                if told.is_none_or(|at| at.elapsed() >= QUIET) {
                    told = Some(Instant::now());
                    failed(&error);
                }
                stop.wait_for(BACK_OFF);
            }
        }
    }
}

/// A thread that accepts connections. When this is dropped it ends, and closes its listener.
#[derive(Debug)]
pub struct AcceptThread {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
}

impl AcceptThread {
    /// Starts a thread of this name. The rest is as in [`attend`].
    ///
    /// # Errors
    /// There are no more threads or descriptors.
    pub fn start<L: Listen + Send + 'static>(
        name: &str,
        listener: L,
        failed: impl Fn(&io::Error) + Send + 'static,
        begin: impl FnMut(L::Stream, ClientSource) + Send + 'static,
    ) -> io::Result<AcceptThread> {
        let stop = StopSignal::new()?;
        let own = stop.clone();
        let accept = move || {
            attend(&listener, &own, failed, begin);
        };
        let thread = Some(threads::start(name, accept)?);
        Ok(AcceptThread { stop, thread })
    }
}

impl Drop for AcceptThread {
    fn drop(&mut self) {
        self.stop.tell(0);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns whether a client has gone. One that has closed only the half that sends is there while something of it
/// waits.
pub fn is_gone(stream: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&stream, PollFlags::RDHUP)];
    if poll(&mut fds, Some(&Timespec::default())).is_err() {
        return false;
    }
    let ends = fds[0].revents();
    let has_nothing = || rustix::io::ioctl_fionread(&stream).is_ok_and(|len| len == 0);
    ends.intersects(PollFlags::HUP | PollFlags::ERR)
        || (ends.contains(PollFlags::RDHUP) && has_nothing())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::os::fd::BorrowedFd;

    use super::*;

    /// A listener that fails a few times first.
    struct Unready {
        inner: UnixListener,
        failures: Cell<usize>,
    }

    impl AsFd for Unready {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.inner.as_fd()
        }
    }

    impl Listen for Unready {
        type Stream = UnixStream;

        fn take(&self) -> io::Result<(UnixStream, ClientSource)> {
            match self.failures.get() {
                0 => self.inner.take(),
                left => {
                    self.failures.set(left - 1);
                    Err(rustix::io::Errno::MFILE.into())
                }
            }
        }
    }

    fn bound(dir: &tempfile::TempDir) -> (UnixListener, std::path::PathBuf) {
        let path = dir.path().join("socket");
        (UnixListener::bind(&path).expect("a socket"), path)
    }

    #[test]
    fn connections_are_accepted_until_the_thread_is_told_to_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inner, path) = bound(&dir);
        let listener = Unready {
            inner,
            failures: Cell::new(3),
        };
        // One has gone before it is accepted.
        drop(UnixStream::connect(&path).expect("it listens"));
        let _client = UnixStream::connect(&path).expect("it listens");
        let stop = StopSignal::new().expect("sockets");
        let errors = Cell::new(0);
        let begun = RefCell::new(Vec::new());
        let why = attend(
            &listener,
            &stop,
            |_| errors.set(errors.get() + 1),
            |stream, source| {
                begun.borrow_mut().push((stream, source));
                stop.tell(7);
            },
        );
        assert_eq!((why, errors.get(), begun.borrow().len()), (7, 1, 1));
        let own = ClientSource::local_user(rustix::process::getuid().as_raw());
        assert_eq!(begun.borrow()[0].1, own);
    }

    #[test]
    fn what_has_come_is_there_although_its_half_is_closed() {
        let (here, mut there) = UnixStream::pair().expect("sockets");
        assert!(!is_gone(&here));
        there.write_all(b"x").expect("it is open");
        there
            .shutdown(std::net::Shutdown::Write)
            .expect("it is open");
        assert!(!is_gone(&here));
        (&here).read_exact(&mut [0]).expect("a byte");
        assert!(is_gone(&here));
    }
}
