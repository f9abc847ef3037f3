//! The state directory: only one daemon uses it, and the next daemon finds it again.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use protocol::api::FailureKind;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::failure::{Failure, Result};

/// The lock file in the directory.
const LOCK: &str = "daemon.lock";

/// The longest path.
const PATH_MAX: u64 = 4096;

/// Locks the directory for a daemon that listens at `socket`, until the returned file is dropped. `None` if no daemon
/// can store files there.
///
/// # Errors
/// [`FailureKind::Busy`] if another daemon uses it.
pub(crate) fn lock(dir: &Path, socket: &Path) -> Result<Option<File>> {
    let opened = std::fs::create_dir_all(dir).and_then(|()| options().open(dir.join(LOCK)));
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => {
            tracing::warn!(%error, dir = %dir.display(), "the state directory cannot be used");
            return Ok(None);
        }
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(taken(dir, &mut file)),
        Err(error) => {
            let dir = dir.display();
            return Err(Failure::other(format!(
                "cannot lock the state directory {dir}: {error}"
            )));
        }
    }
    // Who it is, for the one that comes second.
    let line = format!("{} {}\n", std::process::id(), socket.display());
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        tracing::warn!(%error, "the name of this daemon was not written to its state directory");
    }
    Ok(Some(file))
}

fn options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}

fn taken(dir: &Path, file: &mut File) -> Failure {
    let mut line = String::new();
    let _ = file
        .rewind()
        .and_then(|()| file.take(PATH_MAX).read_to_string(&mut line));
    let who = line.trim_end().split_once(' ');
    let dir = dir.display();
    let message = match who {
        Some((pid, socket)) => format!(
            "the state directory {dir} is in use by the daemon with pid {pid}, which listens at {socket}; use \
             that one (--socket {socket}), or another directory: strongroom daemon --state-dir DIR"
        ),
        None => format!(
            "the state directory {dir} is in use by another daemon; use another one: strongroom daemon \
             --state-dir DIR"
        ),
    };
    Failure::new(FailureKind::Busy, message)
}

/// Notes the directory, so that the next daemon at this socket uses it by default.
pub(crate) fn remember(socket: &Path, dir: &Path) {
    let note = note(socket);
    let written = options().open(&note).and_then(|mut file| {
        file.set_len(0)?;
        file.write_all(dir.as_os_str().as_encoded_bytes())
    });
    if let Err(error) = written {
        tracing::warn!(%error, note = %note.display(), "the state directory is not remembered");
    }
}

/// The directory that the last daemon at this socket used.
fn remembered(socket: &Path) -> Option<PathBuf> {
    let mut options = std::fs::OpenOptions::new();
    options
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = options.open(note(socket)).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let mut text = String::new();
    file.take(PATH_MAX).read_to_string(&mut text).ok()?;
    Some(PathBuf::from(text)).filter(|dir| dir.is_absolute())
}

/// The file beside a socket with the path of the state directory.
fn note(socket: &Path) -> PathBuf {
    let mut name = OsString::from(socket);
    name.push(".state-dir");
    name.into()
}

/// The state directory of this user's daemon at `socket`: that of the last daemon there, or the usual one.
pub(crate) fn state_dir_at(socket: &Path) -> Result<PathBuf> {
    remembered(socket).map_or_else(usual_state_dir, Ok)
}

/// The default state directory of this user's daemon.
fn usual_state_dir() -> Result<PathBuf> {
    default_state_dir(
        rustix::process::geteuid().is_root(),
        std::env::var_os("XDG_STATE_HOME"),
        std::env::var_os("HOME"),
    )
}

/// `strongroom` in `$XDG_STATE_HOME`. Without this variable, `/var/lib/strongroom` for root, and the user's state
/// directory for other users.
fn default_state_dir(
    is_root: bool,
    state_home: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf> {
    let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
    let own = || match is_root {
        true => Some("/var/lib".into()),
        false => absolute(Path::new(&home?).join(".local/state")),
    };
    let base = state_home.and_then(|dir| absolute(dir.into())).or_else(own);
    base.map(|base| base.join("strongroom")).ok_or_else(|| {
        Failure::usage(
            "there is no HOME to remember pools in; say where: strongroom daemon --state-dir DIR",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_has_a_directory() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("state");
        let held = lock(&dir, Path::new("/run/a")).unwrap();
        let refusal = lock(&dir, Path::new("/run/b")).unwrap_err();
        assert_eq!(refusal.kind, FailureKind::Busy);
        let pid = format!("pid {}", std::process::id());
        assert!(refusal.message.contains(&pid), "{}", refusal.message);
        assert!(
            refusal.message.contains("--socket /run/a"),
            "{}",
            refusal.message
        );
        drop(held);
        assert!(lock(&dir, Path::new("/run/b")).unwrap().is_some());
        assert!(
            lock(Path::new("/dev/null/none"), Path::new("/run/b"))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_directory_is_found_again() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("socket");
        assert_eq!(remembered(&socket), None);
        remember(&socket, Path::new("/srv/a much longer state"));
        remember(&socket, Path::new("/srv/state"));
        assert_eq!(remembered(&socket), Some(PathBuf::from("/srv/state")));
        std::fs::write(note(&socket), "relative").unwrap();
        assert_eq!(remembered(&socket), None);
    }

    #[test]
    fn the_list_of_pools_is_never_where_others_can_write() {
        let dir = |root, state: Option<&str>, home: Option<&str>| {
            default_state_dir(root, state.map(Into::into), home.map(Into::into))
        };
        let is = |found: Result<PathBuf>, path: &str| found.unwrap() == Path::new(path);
        assert!(is(dir(true, None, None), "/var/lib/strongroom"));
        assert!(is(dir(false, Some("/s"), Some("/h")), "/s/strongroom"));
        assert!(is(
            dir(false, Some("relative"), Some("/h")),
            "/h/.local/state/strongroom"
        ));
        for home in [None, Some("")] {
            let failure = dir(false, None, home).unwrap_err();
            assert!(failure.message.contains("--state-dir"));
        }
    }
}
