//! The sessions of a user, and what they opened: a file that only root can read or change.
//!
//! A session is known by the process that opened it, with the moment at which that process began. A process that is
//! gone has no session any more, so a crash leaves no session behind. The directory is on a file system that is empty after a
//! start of the machine.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use console::outcome::Result;
use protocol::api::Failure;
use rustix::fs::FlockOperation;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    /// The moment at which it began, in the kernel's ticks.
    began: u64,
}

impl Process {
    /// A process that lives.
    fn find(pid: i32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before the last parenthesis can be anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let began = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Process { pid, began })
    }

    fn lives(&self) -> bool {
        Process::find(self.pid).as_ref() == Some(self)
    }
}

/// The sessions of a user. Other logins of the user wait while this lives.
#[derive(Debug)]
pub(super) struct Sessions {
    path: PathBuf,
    processes: Vec<Process>,
    /// The names of opened parts.
    pub(super) opened: Vec<String>,
    _lock: File,
}

impl Sessions {
    /// The sessions that there are now.
    pub(super) fn open(dir: &Path, uid: u32) -> Result<Sessions> {
        let path = dir.join(uid.to_string());
        let failed = |error: io::Error| Failure::other(format!("{}: {error}", path.display()));
        make_private(dir).map_err(failed)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(path.with_extension("lock"))
            .map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|e| failed(e.into()))?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let (mut processes, mut opened) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("session", process)) => processes.extend(parse(process)),
                Some(("opened", what)) => opened.push(what.to_owned()),
                _ => {}
            }
        }
        processes.retain(Process::lives);
        Ok(Sessions {
            path,
            processes,
            opened,
            _lock: lock,
        })
    }

    /// Adds a session, of this process.
    pub(super) fn add(&mut self, pid: i32) -> Result<()> {
        let found = Process::find(pid);
        let gone = || Failure::other(format!("the process {pid} of the session has ended"));
        self.processes.push(found.ok_or_else(gone)?);
        Ok(())
    }

    /// Removes a session, of this process.
    pub(super) fn remove(&mut self, pid: i32) {
        let own = |process: &Process| process.pid == pid;
        if let Some(at) = self.processes.iter().position(own) {
            self.processes.remove(at);
        }
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Remembers that a session opened something.
    pub(super) fn note(&mut self, what: &str) {
        if !self.opened.iter().any(|known| known == what) {
            self.opened.push(what.to_owned());
        }
    }

    /// Stores them: the whole file at once.
    pub(super) fn store(&self) -> Result<()> {
        let mut text = String::new();
        for Process { pid, began } in &self.processes {
            text += &format!("session {pid} {began}\n");
        }
        for what in &self.opened {
            text += &format!("opened {what}\n");
        }
        let new = self.path.with_extension("new");
        let stored = || -> io::Result<()> {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&new, &self.path)
        };
        stored().map_err(|error| Failure::other(format!("{}: {error}", self.path.display())))
    }
}

fn parse(text: &str) -> Option<Process> {
    let (pid, began) = text.split_once(' ')?;
    Some(Process {
        pid: pid.parse().ok()?,
        began: began.parse().ok()?,
    })
}

/// Makes the directory and the one above it, for root only. One of another user is refused.
fn make_private(dir: &Path) -> io::Result<()> {
    let above = dir.parent().unwrap_or(Path::new("/"));
    for dir in [above, dir] {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(dir)?;
        let own = rustix::process::geteuid().as_raw();
        if !found.is_dir() || found.uid() != own || found.mode() & 0o022 != 0 {
            let why = "other users can change the directory";
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_pid() -> i32 {
        std::process::id().cast_signed()
    }

    #[test]
    fn the_last_session_is_the_last_that_lives() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("run/logins");
        fs::create_dir(dir.path().join("run")).unwrap();
        let open = || Sessions::open(&place, 1000).unwrap();
        let mut sessions = open();
        assert!(sessions.is_empty());
        sessions.add(own_pid()).unwrap();
        sessions.add(own_pid()).unwrap();
        sessions.note("dataset tank/home/ann");
        sessions.note("dataset tank/home/ann");
        sessions.store().unwrap();
        drop(sessions);

        let mut sessions = open();
        assert_eq!(sessions.opened, ["dataset tank/home/ann"]);
        sessions.remove(own_pid());
        assert!(!sessions.is_empty());
        sessions.remove(own_pid());
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_no_session() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("logins");
        let mut sessions = Sessions::open(&place, 1).unwrap();
        assert!(sessions.add(i32::MAX).is_err());
        sessions.add(own_pid()).unwrap();
        sessions.store().unwrap();
        let file = place.join("1");
        // The same number, but another process.
        let text = fs::read_to_string(&file).unwrap();
        let began = text.trim().rsplit(' ').next().unwrap().to_owned();
        drop(sessions);
        assert!(!Sessions::open(&place, 1).unwrap().is_empty());
        fs::write(&file, text.replace(&began, "1")).unwrap();
        assert!(Sessions::open(&place, 1).unwrap().is_empty());
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("logins");
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Sessions::open(&place, 1).is_err());
    }
}
