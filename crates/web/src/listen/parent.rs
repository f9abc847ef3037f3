//! The first process: it binds, accepts, and starts the others.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use protocol::accounts::{first_group, uid_of};
use protocol::api::{Failure, FailureKind};

use super::inherited::Settings;
use crate::places::Places;
use crate::tls::Identity;

/// The user of the process for the network, if there is such an account; else `nobody`.
const USERS: [&str; 2] = ["strongroom-web", "nobody"];
/// Processes at a time: of all users, and of each.
const PROCESSES_MAX: usize = 256;
const PROCESSES_EACH_MAX: usize = 32;
/// The pause before the process for the network is started again, and after a connection could not be served.
const PAUSE: Duration = Duration::from_secs(1);

/// What the hidden commands of the processes are called.
pub const CONNECTION: &str = "connection";
/// As [`CONNECTION`].
pub const NETWORK: &str = "network";

/// A site on the network.
pub struct Network {
    /// Where it listens: `ADDRESS:PORT`.
    pub listen: String,
    /// The file with the certificate and those that lead to its authority.
    pub certificate: PathBuf,
    /// The file with the key.
    pub key: PathBuf,
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
    if let Some(site) = site {
        serve_site(daemon, site)?;
    }
    ready();
    let places = Places::new(PROCESSES_MAX, PROCESSES_EACH_MAX);
    for stream in listener.incoming() {
        let served = stream.and_then(|stream| accept(daemon, stream, &places));
        if let Err(error) = served {
            eprintln!("strongroom: a connection could not be served: {error}");
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Starts a process for a connection. A user with too many is not served.
fn accept(daemon: &Path, stream: UnixStream, places: &Arc<Places<u32>>) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    let uid = peer.uid.as_raw();
    let Some(place) = places.take(uid) else {
        return Ok(());
    };
    let mut command = program(daemon, CONNECTION);
    command.stdin(OwnedFd::from(stream)).stdout(Stdio::null());
    as_user(&mut command, uid, peer.gid.as_raw());
    let mut child = command.spawn()?;
    std::thread::Builder::new().spawn(move || {
        let _ = child.wait();
        drop(place);
    })?;
    Ok(())
}

/// This program again, to serve for a daemon.
fn program(daemon: &Path, what: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("strongroom")
        .args([OsStr::new("--socket"), daemon.as_os_str()])
        .args(["web", "serve", what])
        .arg(std::process::id().to_string())
        .env_clear()
        .current_dir("/");
    command
}

/// Gives a command the rights of a user, and of no group besides, if this process can. Else it has those of this
/// process, which is a user's own.
fn as_user(command: &mut Command, uid: u32, gid: u32) {
    if rustix::process::geteuid().is_root() {
        command.uid(uid).gid(gid);
    }
}

/// Binds the address, starts the process for it, and starts it again whenever it ends.
fn serve_site(daemon: &Path, site: &Network) -> Result<(), Failure> {
    let identity = Identity::read(&site.certificate, &site.key)?;
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
    };
    let daemon = daemon.to_owned();
    let mut child = start_site(&daemon, &listener, &settings)?;
    let watch = move || {
        loop {
            let _ = child.wait();
            eprintln!("strongroom: the process for the network has ended; it is started again");
            std::thread::sleep(PAUSE);
            match start_site(&daemon, &listener, &settings) {
                Ok(next) => child = next,
                Err(failure) => eprintln!("strongroom: {}", failure.message),
            }
        }
    };
    let thread = std::thread::Builder::new().spawn(watch);
    thread.map_err(|error| Failure::other(format!("no thread: {error}")))?;
    Ok(())
}

fn start_site(
    daemon: &Path,
    listener: &TcpListener,
    settings: &Settings,
) -> Result<Child, Failure> {
    let failed = |error: io::Error| {
        Failure::other(format!("the process for the network cannot start: {error}"))
    };
    let (here, there) = UnixStream::pair().map_err(failed)?;
    let listener = listener.try_clone().map_err(failed)?;
    let mut command = program(daemon, NETWORK);
    command
        .stdin(OwnedFd::from(listener))
        .stdout(OwnedFd::from(there));
    let account = USERS
        .iter()
        .find_map(|name| Some((uid_of(name)?, first_group(name)?)));
    match account {
        Some((uid, gid)) => as_user(&mut command, uid, gid),
        None if rustix::process::geteuid().is_root() => {
            let why = "there is no user 'strongroom-web' or 'nobody', as whom it would run";
            return Err(Failure::other(why));
        }
        None => {}
    }
    let child = command.spawn().map_err(failed)?;
    // The other end of the pair is open here too, until the command goes.
    drop(command);
    serde_json::to_writer(&here, settings).map_err(|error| failed(error.into()))?;
    Ok(child)
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
