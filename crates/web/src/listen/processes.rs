//! A process for each connection at the unix socket.
//!
//! The first bytes of a client are awaited before a process is started, and one process starts at a time: so a user who
//! connects and leaves, or is silent, costs a thread and no process, and holds up no other user.
//!
//! A user can stop a process that has the rights of the user. So nothing waits for such a process but the thread of its
//! connection, and a connection that gives way ends its process by SIGKILL. Whatever still lives counts for its user.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use admission::{ConnectionPlaces, Deadline, Permit, PlaceLimit, PlaceLimits, StopSignal};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The hidden command of a process for one connection.
pub const CONNECTION: &str = "connection";
/// The hidden command of the process for the network.
pub const NETWORK: &str = "network";

/// The byte that a process writes to its standard error when it has begun. The process is root's until then, so that no
/// user can delay it.
pub(super) const BEGUN: u8 = 0x05;
/// The byte that follows [`BEGUN`] when the daemon knows the caller.
pub(super) const KNOWN: u8 = 0x06;

/// Connections at a time: of users that the daemon knows, and of those that have not asked it yet.
const CONNECTIONS: PlaceLimit = PlaceLimit {
    all: 256,
    site: 32,
    each: 32,
};
/// Threads at a time, each with a process at most; those of root are not limited. Connections that gave way end at once,
/// so that there are hardly more threads than places.
const THREADS: PlaceLimit = PlaceLimit {
    all: 3 * CONNECTIONS.all,
    site: 2 * CONNECTIONS.site,
    each: 2 * CONNECTIONS.each,
};
/// The time for the first bytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The processes that serve connections.
struct Processes {
    daemon: PathBuf,
    places: Arc<ConnectionPlaces>,
    threads: Arc<ConnectionPlaces>,
    /// The files that the processes of each user lock in turn.
    turns: Mutex<HashMap<u32, Weak<OwnedFd>>>,
    /// Processes begin in these lines. Others do not hold up root and the user who serves.
    lines: [ProcessQueue; 2],
}

/// Serves a listener. Does not return but with an error.
pub(super) fn attend(daemon: &Path, listener: &UnixListener) -> io::Result<()> {
    let places = |limit, reserved| {
        ConnectionPlaces::new(PlaceLimits {
            strangers: limit,
            members: limit,
            reserved,
        })
    };
    let processes = Arc::new(Processes {
        daemon: daemon.to_owned(),
        places: places(CONNECTIONS, CONNECTIONS.all),
        threads: places(THREADS, usize::MAX),
        turns: Mutex::default(),
        lines: Default::default(),
    });
    let stop = StopSignal::new()?;
    admission::attend(listener, &stop, failed, |stream, source| {
        // A user with too many threads is refused, and nothing gives way.
        let Ok(counted) = processes.threads.enter(source.clone(), || {}) else {
            return;
        };
        let connection = Arc::new(ServedConnection::new(stream));
        let cut = {
            let connection = Arc::clone(&connection);
            move || connection.cut()
        };
        let is_reserved = source.is_reserved();
        let permit = processes.places.greet(source, cut);
        let processes = Arc::clone(&processes);
        let serve = move || {
            let _counted = counted;
            let served = processes.serve(&connection, &permit, is_reserved);
            served.unwrap_or_else(|error| failed(&error));
        };
        if let Err(error) = threads::start("web", serve) {
            failed(&error);
        }
    });
    Ok(())
}

fn failed(error: &io::Error) {
    eprintln!("strongroom: a connection could not be served: {error}");
}

/// A connection, and what serves it.
struct ServedConnection {
    stream: UnixStream,
    thread: OnceLock<Thread>,
    process: OnceLock<OwnedFd>,
}

impl ServedConnection {
    fn new(stream: UnixStream) -> ServedConnection {
        ServedConnection {
            stream,
            thread: OnceLock::new(),
            process: OnceLock::new(),
        }
    }

    /// Ends it, even if its user has stopped its process.
    fn cut(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        if let Some(process) = self.process.get() {
            // It may have ended.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// The threads whose processes begin, one after the other.
#[derive(Default)]
struct ProcessQueue(Mutex<VecDeque<Thread>>);

/// The place of this thread in a line.
struct QueueTurn<'a>(&'a ProcessQueue);

impl ProcessQueue {
    /// Waits for this thread to be the first. `None` if its client has had to give way meanwhile.
    fn wait(&self, permit: &Permit) -> Option<QueueTurn<'_>> {
        let own = std::thread::current();
        self.0.lock().push_back(own.clone());
        let place = QueueTurn(self);
        let is_first = || self.0.lock().front().map(Thread::id) == Some(own.id());
        while permit.is_valid() {
            if is_first() {
                return Some(place);
            }
            std::thread::park();
        }
        None
    }
}

impl Drop for QueueTurn<'_> {
    fn drop(&mut self) {
        let own = std::thread::current().id();
        let mut line = self.0.0.lock();
        line.retain(|thread| thread.id() != own);
        if let Some(first) = line.front() {
            first.unpark();
        }
    }
}

impl Processes {
    /// Serves a connection by a process, if its client says something.
    fn serve(
        &self,
        connection: &ServedConnection,
        permit: &Permit,
        is_reserved: bool,
    ) -> io::Result<()> {
        let stream = &connection.stream;
        let deadline = Deadline::at(Instant::now() + PATIENCE);
        let _ = connection.thread.set(std::thread::current());
        if !admission::await_first_bytes(stream, &deadline) {
            return Ok(());
        }
        let line = &self.lines[usize::from(is_reserved)];
        let Some(place) = line.wait(permit).filter(|_| !admission::is_gone(stream)) else {
            return Ok(());
        };
        let turn = self.turn(socket_peercred(stream)?.uid.as_raw())?;
        let mut command = program(&self.daemon, CONNECTION);
        command
            .stdin(stream.try_clone().map(OwnedFd::from)?)
            .stdout(turn.try_clone()?);
        let mut child = command.spawn()?;
        drop(command);
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => drop(connection.process.set(process)),
            // Without it the process could not be ended later. It has not begun.
            Err(_) => drop(child.kill()),
        }
        if !permit.is_valid() {
            connection.cut();
        }
        let mut place = Some(place);
        wait(&mut child, |mark| match mark {
            KNOWN => {
                // Without a place it is served, and gives way to others.
                let _ = permit.admit();
            }
            // Another process begins: the one that waits longest.
            _ => drop(place.take()),
        });
        Ok(())
    }

    /// The file that the processes of a user lock in turn.
    fn turn(&self, uid: u32) -> io::Result<Arc<OwnedFd>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.get(&uid).and_then(Weak::upgrade);
        let turn = turn.map_or_else(turn_file, Ok)?;
        turns.insert(uid, Arc::downgrade(&turn));
        Ok(turn)
    }
}

/// A file that has no name, and nothing in it.
fn turn_file() -> io::Result<Arc<OwnedFd>> {
    let file = memfd_create("strongroom-web", MemfdFlags::CLOEXEC)?;
    Ok(Arc::new(file))
}

/// Waits for the end of a process, and passes on what it says. A terminal obeys control characters, so they are left
/// out. `heard` has those that tell how the process is: [`BEGUN`] and [`KNOWN`].
pub(super) fn wait(child: &mut Child, mut heard: impl FnMut(u8)) {
    if let Some(mut said) = child.stderr.take() {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = said.read(&mut bytes) {
            let marks = bytes[..len]
                .iter()
                .filter(|byte| [BEGUN, KNOWN].contains(byte));
            marks.for_each(|mark| heard(*mark));
            let text = String::from_utf8_lossy(&bytes[..len]);
            let text = text.replace(|c: char| c != '\n' && c.is_control(), "");
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
    let _ = child.wait();
}

/// The command that starts this program again, to serve for a daemon. It begins as the user of this process, and takes
/// the rights of another user when its memory is closed to that user.
pub(super) fn program(daemon: &Path, what: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("strongroom")
        .args([OsStr::new("--socket"), daemon.as_os_str()])
        .args(["web", "serve", what])
        .arg(std::process::id().to_string())
        .env_clear()
        .stderr(Stdio::piped())
        .current_dir("/");
    command
}
