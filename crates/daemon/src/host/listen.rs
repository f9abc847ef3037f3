//! The sockets of the daemon. Only one daemon listens at a place, and no other process can impersonate it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use protocol::api::FailureKind;
use protocol::client::{SYSTEM_DIR, fallback_dir};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::failure::{Failure, Result};

/// A socket for commands, a socket for metrics, and the lock of the daemon that has them.
pub(crate) struct DaemonSockets {
    pub(crate) listener: UnixListener,
    /// The socket for metrics; `None` once it was taken.
    pub(crate) metrics: Option<UnixListener>,
    _sockets: [SocketFile; 2],
    /// Held until the process ends. The file stays: if it were removed, two daemons could hold the lock.
    _lock: File,
}

/// A socket that this process made. Dropping this removes it, unless another process has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode, to detect a socket that replaced it.
    id: Option<(u64, u64)>,
}

impl SocketFile {
    pub(crate) fn new(path: PathBuf) -> SocketFile {
        let id = id_of(&path);
        SocketFile { path, id }
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.id == id_of(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

pub(crate) fn listen(socket: &Path) -> Result<DaemonSockets> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::other(format!("cannot {what} {}: {error}", socket.display()))
    };
    if let Some(dir) = socket.parent() {
        make_private_dir(dir).map_err(|error| failed("make the directory of", error))?;
        if dir == fallback_dir() {
            check_private(dir, "--socket")?;
        }
    }
    let lock = lock(socket)?;
    // A daemon of a version without the lock.
    if UnixStream::connect(socket).is_ok() {
        return Err(taken(socket));
    }
    let metrics = metrics_socket(socket);
    Ok(DaemonSockets {
        listener: bind(socket)?,
        metrics: Some(bind(&metrics)?),
        _sockets: [socket.to_owned(), metrics].map(SocketFile::new),
        _lock: lock,
    })
}

/// Makes a socket in a directory of this user, and listens there. Makes the directory too. No other user can reach
/// them. Dropping the second value removes the socket.
///
/// # Errors
/// [`FailureKind::Permission`] for a directory in which another user could replace the socket; other kinds if the
/// socket cannot be made.
pub fn listen_privately(socket: &Path) -> Result<(UnixListener, SocketFile)> {
    let failed = |error: std::io::Error| {
        Failure::other(format!(
            "cannot make the directory of {}: {error}",
            socket.display()
        ))
    };
    for dir in socket.ancestors().skip(1).take(2) {
        make_private_dir(dir).map_err(failed)?;
        check_private(dir, "--socket")?;
    }
    Ok((bind(socket)?, SocketFile::new(socket.to_owned())))
}

/// Listens at a socket in a directory in which no other user can replace it. Dropping the second value removes the
/// socket. `option` names another place.
///
/// # Errors
/// As [`listen_privately`]; also if there is no such directory.
pub fn listen_beside(socket: &Path, option: &str) -> Result<(UnixListener, SocketFile)> {
    if let Some(dir) = socket.parent() {
        check_private(dir, option)?;
    }
    Ok((bind(socket)?, SocketFile::new(socket.to_owned())))
}

/// Allows or forbids connections of users other than root. The daemon checks the user of each connection. With
/// `passes`, these users can enter the directory, because another socket there is for them. The usual directory belongs
/// to the daemon; another directory is left to the user who made it.
pub(crate) fn open_to_others(socket: &Path, is_open: bool, passes: bool) -> std::io::Result<()> {
    let mode = if is_open { 0o666 } else { 0o600 };
    let dir_mode = if passes { 0o711 } else { 0o700 };
    std::fs::set_permissions(socket, Permissions::from_mode(mode))?;
    match socket.parent().filter(|dir| *dir == Path::new(SYSTEM_DIR)) {
        Some(dir) => std::fs::set_permissions(dir, Permissions::from_mode(dir_mode)),
        None => Ok(()),
    }
}

/// The socket for metrics: `metrics.sock` beside `socket`. If the socket for commands has an unusual name, the name of
/// the socket for metrics contains it, because one directory can have several.
pub(crate) fn metrics_socket(socket: &Path) -> PathBuf {
    let name = socket.file_name().unwrap_or_default();
    let mut metrics = OsString::new();
    if name != "socket" {
        metrics.push(name);
        metrics.push(".");
    }
    metrics.push("metrics.sock");
    socket.with_file_name(metrics)
}

/// Listens at a path that belongs to this daemon.
pub(crate) fn bind(socket: &Path) -> Result<UnixListener> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::other(format!("cannot {what} {}: {error}", socket.display()))
    };
    // The process that left it was killed: it would have had the lock.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("replace", error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(socket).map_err(|error| failed("listen at", error))?;
    std::fs::set_permissions(socket, Permissions::from_mode(0o600))
        .map_err(|error| failed("protect", error))?;
    Ok(listener)
}

/// Takes the lock beside a socket, if no other daemon has it.
fn lock(socket: &Path) -> Result<File> {
    let mut path = OsString::from(socket);
    path.push(".lock");
    let failed = |error: Errno| {
        let path = Path::new(&path).display();
        Failure::other(format!("cannot lock {path}: {error}"))
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file =
        rustix::fs::open(Path::new(&path), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file.into()),
        Err(Errno::WOULDBLOCK) => Err(taken(socket)),
        Err(error) => Err(failed(error)),
    }
}

fn taken(socket: &Path) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("a daemon already listens at {}", socket.display()),
    )
}

fn make_private_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Refuses a directory in which another user could replace the socket.
fn check_private(dir: &Path, option: &str) -> Result<()> {
    let refused = |what: &str| {
        Err(Failure::new(
            FailureKind::Permission,
            format!(
                "{} {what}; say where else to listen: {option} PATH",
                dir.display()
            ),
        ))
    };
    let found = std::fs::symlink_metadata(dir)
        .map_err(|error| Failure::other(format!("{}: {error}", dir.display())))?;
    let own = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return refused("is not a directory of its own");
    }
    if found.uid() != own && found.uid() != 0 {
        return refused("belongs to someone else");
    }
    if found.mode() & 0o022 != 0 {
        return refused("can be written by others");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_has_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("deep/socket");
        let first = listen(&socket).unwrap();
        assert_eq!(
            std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            listen(&socket).err().map(|failure| failure.kind),
            Some(FailureKind::Exists)
        );
        let metrics = dir.path().join("deep/metrics.sock");
        UnixStream::connect(&metrics).unwrap();
        drop(first);
        assert!(!socket.exists() && !metrics.exists());
        listen(&socket).unwrap();
    }

    #[test]
    fn what_a_killed_daemon_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        drop(UnixListener::bind(&socket).unwrap());
        let listening = listen(&socket).unwrap();
        UnixStream::connect(&socket).unwrap();
        drop(listening);
    }

    #[test]
    fn a_daemon_leaves_the_sockets_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("place");
        let first = listen(&place.join("socket")).unwrap();
        // So that the other one's have other numbers.
        std::fs::rename(&place, dir.path().join("gone")).unwrap();
        let _second = listen(&place.join("socket")).unwrap();
        drop(first);
        UnixStream::connect(place.join("socket")).unwrap();
        UnixStream::connect(place.join("metrics.sock")).unwrap();
    }

    #[test]
    fn metrics_are_beside_commands() {
        let beside = |path: &str| metrics_socket(Path::new(path));
        assert_eq!(beside("/run/a/socket"), Path::new("/run/a/metrics.sock"));
        assert_eq!(beside("/tmp/two"), Path::new("/tmp/two.metrics.sock"));
    }

    #[test]
    fn directories_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        make_private_dir(&own).unwrap();
        check_private(&own, "--socket").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(check_private(&link, "--socket").is_err());
        std::fs::set_permissions(&own, Permissions::from_mode(0o770)).unwrap();
        assert!(check_private(&own, "--socket").is_err());
        assert!(check_private(&dir.path().join("absent"), "--socket").is_err());
    }
}
