//! The first process: it binds, accepts, and starts the others.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use protocol::accounts::{first_group, uid_of};
use protocol::api::{Failure, FailureKind};
use rustix::fs::{MemfdFlags, memfd_create};

use super::descriptors;
use super::settings::{self, Settings};
use crate::places::{Place, Places};
use crate::tls::{Files, IdentityFiles};

/// The user of the process for the network, if there is such an account; else `nobody`.
const USERS: [&str; 2] = ["strongroom-web", "nobody"];
/// Processes at a time: of all users, and of each.
const PROCESSES_MAX: usize = 256;
const PROCESSES_EACH_MAX: usize = 32;
/// The pause before the process for the network is started again, and after a connection could not be served.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to look for a new certificate.
const LOOK: Duration = Duration::from_secs(2);

/// What the hidden commands of the processes are called.
pub const CONNECTION: &str = "connection";
/// As [`CONNECTION`].
pub const NETWORK: &str = "network";

/// A site on the network.
pub struct Network {
    /// Where it listens: `ADDRESS:PORT`.
    pub listen: String,
    /// The files of TLS.
    pub identity: IdentityFiles,
    /// The names of the site.
    pub names: Vec<String>,
}

/// Where to look for the site of a daemon: `web.sock` beside its socket.
pub fn default_socket(daemon: &Path) -> PathBuf {
    match daemon.file_name() {
        Some(name) if name != "socket" => {
            let mut name = name.to_owned();
            name.push(".web.sock");
            daemon.with_file_name(name)
        }
        _ => daemon.with_file_name("web.sock"),
    }
}

/// Serves the daemon at `daemon` on a listener, and on the network if asked. Does not return but with a failure.
///
/// # Errors
/// The certificate or the address cannot be used.
pub fn run(
    daemon: &Path,
    listener: &UnixListener,
    site: Option<&Network>,
    ready: impl FnOnce(),
) -> Result<(), Failure> {
    // It reads the key of the certificate, and an ordinary user's process is open to the user's others.
    secret::harden_process()?;
    descriptors::keep()
        .map_err(|error| Failure::other(format!("the open files are not known: {error}")))?;
    if let Some(site) = site {
        serve_site(daemon, site)?;
    }
    ready();
    let places = Places::new(PROCESSES_MAX, PROCESSES_EACH_MAX);
    // Others cannot lock out root and the user who serves.
    let own_places = Places::new(PROCESSES_MAX, PROCESSES_EACH_MAX);
    let own = rustix::process::geteuid().as_raw();
    // The files that the processes of each user lock in turn.
    let mut turns: HashMap<u32, Weak<OwnedFd>> = HashMap::new();
    for stream in listener.incoming() {
        let served = stream.and_then(|stream| {
            turns.retain(|_, turn| turn.strong_count() > 0);
            let peer = rustix::net::sockopt::socket_peercred(&stream)?;
            let uid = peer.uid.as_raw();
            let of_own = uid == own || peer.uid.is_root();
            let taken = if of_own { &own_places } else { &places }.take(uid);
            // A user with too many is not served.
            let Some(place) = taken else { return Ok(()) };
            let turn = turns.get(&uid).and_then(Weak::upgrade);
            let turn = turn.map_or_else(turn_file, Ok)?;
            turns.insert(uid, Arc::downgrade(&turn));
            accept(daemon, stream, turn, place)
        });
        if let Err(error) = served {
            eprintln!("strongroom: a connection could not be served: {error}");
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// A file that has no name, and nothing in it.
fn turn_file() -> io::Result<Arc<OwnedFd>> {
    let file = memfd_create("strongroom-web", MemfdFlags::CLOEXEC)?;
    Ok(Arc::new(file))
}

/// Starts a process for a connection.
fn accept(
    daemon: &Path,
    stream: UnixStream,
    turn: Arc<OwnedFd>,
    place: Place<u32>,
) -> io::Result<()> {
    let mut command = program(daemon, CONNECTION);
    command
        .stdin(OwnedFd::from(stream))
        .stdout(turn.try_clone()?);
    let mut child = command.spawn()?;
    drop(command);
    std::thread::Builder::new().spawn(move || {
        wait(&mut child);
        drop((place, turn));
    })?;
    Ok(())
}

/// Waits for the end of a process, and passes on what it says. A terminal obeys control characters, so they are left
/// out.
fn wait(child: &mut Child) {
    if let Some(mut said) = child.stderr.take() {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = said.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..len]);
            let text = text.replace(|c: char| c != '\n' && c.is_control(), "");
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
    let _ = child.wait();
}

/// This program again, to serve for a daemon. It begins as the user of this process, and takes the rights of another
/// one when its memory is closed to that user.
fn program(daemon: &Path, what: &str) -> Command {
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

/// Binds the address, starts the process for it, and starts it again whenever it ends.
fn serve_site(daemon: &Path, site: &Network) -> Result<(), Failure> {
    let (files, identity) = Files::read(&site.identity)?;
    let listener = TcpListener::bind(&site.listen).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::AddrInUse => FailureKind::Busy,
            io::ErrorKind::InvalidInput => FailureKind::Usage,
            _ => FailureKind::Other,
        };
        Failure::new(kind, format!("cannot listen at '{}': {error}", site.listen))
    })?;
    if let Ok(address) = listener.local_addr() {
        let _ = writeln!(io::stdout(), "https://{address}/");
    }
    let settings = Settings {
        identity,
        names: site.names.clone(),
        account: account()?,
    };
    let daemon = daemon.to_owned();
    let (mut child, channel) = start_site(&daemon, &listener, &settings)?;
    let served = Arc::new(Mutex::new(Served { settings, channel }));
    let of_watch = Arc::clone(&served);
    let watch = move || {
        loop {
            wait(&mut child);
            eprintln!("strongroom: the process for the network has ended; it is started again");
            std::thread::sleep(PAUSE);
            let mut served = locked(&of_watch);
            match start_site(&daemon, &listener, &served.settings) {
                Ok(next) => (child, served.channel) = next,
                Err(failure) => eprintln!("strongroom: {}", failure.message),
            }
        }
    };
    spawn(watch)?;
    spawn(move || renew(files, &served))
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().spawn(work);
    thread.map_err(|error| Failure::other(format!("no thread: {error}")))?;
    Ok(())
}

/// What the process for the network is served with, and the way to it.
struct Served {
    settings: Settings,
    channel: UnixStream,
}

fn locked(served: &Mutex<Served>) -> MutexGuard<'_, Served> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes each new certificate on. One that cannot be used changes nothing.
fn renew(mut files: Files, served: &Mutex<Served>) {
    loop {
        std::thread::sleep(LOOK);
        match files.renewed() {
            None => {}
            Some(Ok(identity)) => {
                let mut served = locked(served);
                // If the process has ended, the next one gets it.
                let _ = settings::send(&mut served.channel, &identity);
                served.settings.identity = identity;
                eprintln!("strongroom: the new certificate is in use");
            }
            Some(Err(failure)) => {
                let why = failure.message;
                eprintln!(
                    "strongroom: the new certificate is not used, and the old one stays: {why}"
                );
            }
        }
    }
}

/// The user and the group of the process for the network: none but those of this process, if it is not root's.
fn account() -> Result<Option<(u32, u32)>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let mut found = USERS
        .iter()
        .filter_map(|name| Some((uid_of(name)?, first_group(name)?)));
    let why = "there is no user 'strongroom-web' or 'nobody', as whom the process for the network would run";
    found.next().map(Some).ok_or_else(|| Failure::other(why))
}

fn start_site(
    daemon: &Path,
    listener: &TcpListener,
    settings: &Settings,
) -> Result<(Child, UnixStream), Failure> {
    let failed = |error: io::Error| {
        Failure::other(format!("the process for the network cannot start: {error}"))
    };
    let (mut here, there) = UnixStream::pair().map_err(failed)?;
    let listener = listener.try_clone().map_err(failed)?;
    let mut command = program(daemon, NETWORK);
    command
        .stdin(OwnedFd::from(listener))
        .stdout(OwnedFd::from(there));
    let child = command.spawn().map_err(failed)?;
    // The other end of the pair is open here too, until the command goes.
    drop(command);
    settings::send(&mut here, settings).map_err(failed)?;
    Ok((child, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_beside_the_daemons() {
        let beside = |path: &str| default_socket(Path::new(path));
        assert_eq!(beside("/run/a/socket"), Path::new("/run/a/web.sock"));
        assert_eq!(
            beside("/run/a/zones/b"),
            Path::new("/run/a/zones/b.web.sock")
        );
    }
}
