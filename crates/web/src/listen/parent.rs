//! The first process: it binds, accepts, and starts the others.

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::accounts::{first_group, uid_of};
use protocol::api::{Failure, FailureKind};

use super::descriptors;
use super::processes::{self, NETWORK, program, wait};
use super::settings::{self, NetworkSettings};
use crate::tls::{IdentityFiles, WatchedIdentity};

/// The user of the process for the network, if there is such an account; else `nobody`.
const USERS: [&str; 2] = ["strongroom-web", "nobody"];
/// The pause before the process for the network is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two looks for a new certificate.
const LOOK: Duration = Duration::from_secs(2);

/// A site on the network.
pub struct Network {
    /// The address to listen at: `ADDRESS:PORT`.
    pub listen: String,
    /// The files of TLS.
    pub identity: IdentityFiles,
    /// The names of the site.
    pub names: Vec<String>,
}

/// The socket of the site of a daemon: `web.sock` beside the daemon's socket.
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
    processes::attend(daemon, listener)
        .map_err(|error| Failure::other(format!("connections cannot be accepted: {error}")))
}

/// Binds the address, starts the process for it, and starts it again whenever it ends.
fn serve_site(daemon: &Path, site: &Network) -> Result<(), Failure> {
    let (files, identity) = WatchedIdentity::read(&site.identity)?;
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
    let settings = NetworkSettings {
        identity,
        names: site.names.clone(),
        account: account()?,
    };
    let daemon = daemon.to_owned();
    let (mut child, channel) = start_site(&daemon, &listener, &settings)?;
    let served = Arc::new(Mutex::new(NetworkProcess { settings, channel }));
    let of_watch = Arc::clone(&served);
    let watch = move || {
        loop {
            wait(&mut child, |_| {});
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
    let thread = threads::start("web-parent", work);
    thread.map_err(|error| Failure::other(format!("no thread: {error}")))?;
    Ok(())
}

/// The settings of the process for the network, and the pipe to it.
struct NetworkProcess {
    settings: NetworkSettings,
    channel: UnixStream,
}

fn locked(served: &Mutex<NetworkProcess>) -> MutexGuard<'_, NetworkProcess> {
    served.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes each new certificate on. One that cannot be used changes nothing.
fn renew(mut files: WatchedIdentity, served: &Mutex<NetworkProcess>) {
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
    settings: &NetworkSettings,
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
