//! A process for each connection at the unix socket.
//!
//! The first bytes of a client are awaited before a process is started, and one process starts at a time: so a user who
//! connects and leaves, or is silent, costs a thread and no process, and holds up no other user.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use admission::{Deadline, Permit, PlaceLimit, PlaceLimits, Places, StopSignal};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::socket_peercred;

/// What the hidden commands of the processes are called.
pub const CONNECTION: &str = "connection";
/// As [`CONNECTION`].
pub const NETWORK: &str = "network";

/// What a process says on its standard error when it has begun, and has the rights of its user.
pub(super) const BEGUN: u8 = 0x05;
/// As [`BEGUN`], when the daemon knows its caller.
pub(super) const KNOWN: u8 = 0x06;

/// Connections at a time: of users that the daemon knows, and of those that have not asked it yet.
const CONNECTIONS: PlaceLimit = PlaceLimit {
    all: 256,
    site: 32,
    each: 32,
};
/// The time for the first bytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The processes that serve connections.
struct Processes {
    daemon: PathBuf,
    places: Arc<Places>,
    /// The files that the processes of each user lock in turn.
    turns: Mutex<HashMap<u32, Weak<OwnedFd>>>,
    /// Is locked while a process begins. Others do not hold up root and the user who serves.
    beginning: [Mutex<()>; 2],
}

/// Serves a listener. Does not return but with an error.
pub(super) fn attend(daemon: &Path, listener: &UnixListener) -> io::Result<()> {
    let processes = Arc::new(Processes {
        daemon: daemon.to_owned(),
        places: Places::new(PlaceLimits {
            strangers: CONNECTIONS,
            members: CONNECTIONS,
            reserved: CONNECTIONS.all,
        }),
        turns: Mutex::default(),
        beginning: Default::default(),
    });
    let stop = StopSignal::new()?;
    admission::attend(listener, &stop, failed, |stream, source| {
        let stream = Arc::new(stream);
        let cut = {
            let stream = Arc::clone(&stream);
            move || drop(stream.shutdown(Shutdown::Both))
        };
        let is_reserved = source.is_reserved();
        let permit = processes.places.greet(source, cut);
        let processes = Arc::clone(&processes);
        let serve = move || {
            let served = processes.serve(&stream, &permit, is_reserved);
            served.unwrap_or_else(|error| failed(&error));
        };
        if let Err(error) = std::thread::Builder::new().spawn(serve) {
            failed(&error);
        }
    });
    Ok(())
}

fn failed(error: &io::Error) {
    eprintln!("strongroom: a connection could not be served: {error}");
}

impl Processes {
    /// Serves a connection by a process, if its client says something.
    fn serve(&self, stream: &UnixStream, permit: &Permit, is_reserved: bool) -> io::Result<()> {
        let deadline = Deadline::at(Instant::now() + PATIENCE);
        if !admission::await_first_bytes(stream, &deadline) {
            return Ok(());
        }
        let mut beginning = Some(self.beginning[usize::from(is_reserved)].lock());
        if !permit.is_valid() || admission::is_gone(stream) {
            return Ok(());
        }
        let turn = self.turn(socket_peercred(stream)?.uid.as_raw())?;
        let mut command = program(&self.daemon, CONNECTION);
        command
            .stdin(stream.try_clone().map(OwnedFd::from)?)
            .stdout(turn.try_clone()?);
        let mut child = command.spawn()?;
        drop(command);
        wait(&mut child, |mark| match mark {
            KNOWN => {
                // Without a place it is served, and gives way to others.
                let _ = permit.admit();
            }
            // Another process begins: the one that waits longest.
            _ => drop(beginning.take().map(MutexGuard::unlock_fair)),
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

/// This program again, to serve for a daemon. It begins as the user of this process, and takes the rights of another
/// one when its memory is closed to that user.
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
