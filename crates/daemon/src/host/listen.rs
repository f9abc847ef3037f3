//! The place where the daemon listens: one daemon has it, and no other process can pose as it.

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

/// A socket for commands and one for metrics, and the lock that says whose they are.
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    /// For metrics; `None` once it was taken.
    pub(crate) metrics: Option<UnixListener>,
    _sockets: [Bound; 2],
    /// Held until the process ends. The file stays: removing it would let two have it.
    _lock: File,
}

/// A socket that was made here, and goes with this, unless another process has put another in its place.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    /// Device and inode, to tell it from another one that was put in its place.
    id: Option<(u64, u64)>,
}

impl Bound {
    pub(crate) fn new(path: PathBuf) -> Bound {
        let id = id_of(&path);
        Bound { path, id }
    }
}

fn id_of(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.id == id_of(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens where commands look for the daemon.
pub(crate) fn listen(socket: &Path) -> Result<Listening> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::other(format!("cannot {what} {}: {error}", socket.display()))
    };
    if let Some(dir) = socket.parent() {
        make_private_dir(dir).map_err(|error| failed("make the directory of", error))?;
        if dir == fallback_dir() {
            check_private(dir)?;
        }
    }
    let lock = lock(socket)?;
    // A daemon of a version without the lock.
    if UnixStream::connect(socket).is_ok() {
        return Err(taken(socket));
    }
    let metrics = metrics_socket(socket);
    Ok(Listening {
        listener: bind(socket)?,
        metrics: Some(bind(&metrics)?),
        _sockets: [socket.to_owned(), metrics].map(Bound::new),
        _lock: lock,
    })
}

/// Listens at a socket in a directory of this user's. Both are made, and no other user can reach them. The
/// socket goes with the second value.
///
/// # Errors
/// [`FailureKind::Permission`] for a directory in which another user could replace the socket; others if it
/// cannot be made.
pub fn listen_privately(socket: &Path) -> Result<(UnixListener, Bound)> {
    let failed = |error: std::io::Error| {
        Failure::other(format!(
            "cannot make the directory of {}: {error}",
            socket.display()
        ))
    };
    for dir in socket.ancestors().skip(1).take(2) {
        make_private_dir(dir).map_err(failed)?;
        check_private(dir)?;
    }
    Ok((bind(socket)?, Bound::new(socket.to_owned())))
}

/// Lets others than root connect, or no longer; `passes` also where only another socket in the directory is
/// for them. Who they are is asked when they do. The usual directory is the daemon's own; another one is
/// for the user who made it.
pub(crate) fn open_to_others(socket: &Path, is_open: bool, passes: bool) -> std::io::Result<()> {
    let mode = if is_open { 0o666 } else { 0o600 };
    let dir_mode = if passes { 0o711 } else { 0o700 };
    std::fs::set_permissions(socket, Permissions::from_mode(mode))?;
    match socket.parent().filter(|dir| *dir == Path::new(SYSTEM_DIR)) {
        Some(dir) => std::fs::set_permissions(dir, Permissions::from_mode(dir_mode)),
        None => Ok(()),
    }
}

/// Where metrics are served: `metrics.sock` beside `socket`. A socket for commands that has another
/// name gives it to that for metrics, since there may be several in one directory.
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

/// Listens at a path that is ours.
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

/// Refuses a directory in which another user could replace our socket.
fn check_private(dir: &Path) -> Result<()> {
    let refused = |what: &str| {
        Err(Failure::new(
            FailureKind::Permission,
            format!(
                "{} {what}; say where else to listen: --socket PATH",
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
        check_private(&own).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(check_private(&link).is_err());
        std::fs::set_permissions(&own, Permissions::from_mode(0o770)).unwrap();
        assert!(check_private(&own).is_err());
        assert!(check_private(&dir.path().join("absent")).is_err());
    }
}
