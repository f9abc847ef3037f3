//! The clients of a lower directory that other machines use: where reads can be older than a lock, one at a time.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_RDLCK, F_UNLCK, F_WRLCK, SEEK_SET, flock};
use rustix::fs::{AtFlags, Mode, OFlags};
use vfs::{Error, Result};

use super::temporary;
use crate::lower::{Entry, Sharing};

/// A client of a lower directory, as long as this is held. Dropping the last one removes its file.
pub struct DirectoryClient {
    dir: Entry,
    file: OwnedFd,
    is_alone: bool,
}

/// The reason why a client cannot use a lower directory together with others.
#[derive(Debug, thiserror::Error)]
pub enum ClientRefusal {
    /// Another client uses it.
    #[error(
        "another client uses it, and {0}: two clients would lose each other's bytes; unmount it there, or mount it \
         read-only"
    )]
    InUse(&'static str),
    /// The lower file system does not tell whether there is another client.
    #[error(
        "{0}: two clients would lose each other's bytes; use --private if no other machine changes it, or mount it \
         read-only"
    )]
    Unknown(&'static str),
    /// An error of the lower directory.
    #[error(transparent)]
    Lower(#[from] Error),
}

const NO_DIRECT: &str = "its file system cannot read past its cache (O_DIRECT)";
const NO_LOCKS: &str = "its file system has no locks";
const TOGETHER: &str = "cannot know that this one reads what it writes";

impl DirectoryClient {
    /// Joins the clients of a lower directory, or becomes the only one. Nothing if no other machine uses it, or if
    /// this one cannot make or open the file; then others may change it as well.
    ///
    /// # Errors
    /// [`ClientRefusal`].
    pub fn enter(dir: &Entry) -> std::result::Result<Option<DirectoryClient>, ClientRefusal> {
        if dir.is_local() {
            return Ok(None);
        }
        let why = match Sharing::of(dir)? {
            Sharing::Unlocked(why) => return Err(ClientRefusal::Unknown(why)),
            Sharing::Cached(why) => Some(why),
            Sharing::Coherent => None,
        };
        loop {
            let flags = OFlags::CREATE | OFlags::RDWR;
            let file = match dir.open(temporary::client(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => file,
                // The file is another user's, or the directory, or nothing can be made: files are still there to be
                // removed.
                Err(
                    Error::Access
                    | Error::NotPermitted
                    | Error::ReadOnly
                    | Error::NoSpace
                    | Error::Quota,
                ) if why.is_none() => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let dir = dir.try_clone()?;
            let mut client = DirectoryClient {
                dir,
                file,
                is_alone: false,
            };
            let why = why.or((!client.reads_from_server()?).then_some(NO_DIRECT));
            client.is_alone = why.is_some();
            let kind = match client.is_alone {
                true => F_WRLCK,
                false => F_RDLCK,
            };
            match client.lock(kind) {
                Ok(()) if client.is_named()? => return Ok(Some(client)),
                // The last client has removed it just now.
                Ok(()) => {}
                Err(Errno::EAGAIN | Errno::EACCES) => {
                    return Err(ClientRefusal::InUse(why.unwrap_or(TOGETHER)));
                }
                Err(Errno::ENOLCK | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EINVAL) => {
                    return Err(ClientRefusal::Unknown(NO_LOCKS));
                }
                Err(error) => {
                    return Err(Error::from_errno(error as i32).unwrap_or(Error::Io).into());
                }
            }
        }
    }

    /// Returns whether no other client may enter as long as this is held.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    fn lock(&self, kind: i32) -> nix::Result<()> {
        let range = flock {
            l_type: kind as i16,
            l_whence: SEEK_SET as i16,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&range)).map(|_| ())
    }

    fn reads_from_server(&self) -> Result<bool> {
        match self.dir.open(
            temporary::client(),
            OFlags::RDONLY | OFlags::DIRECT,
            Mode::empty(),
        ) {
            Ok(_) => Ok(true),
            Err(Error::Invalid | Error::NotSupported) => Ok(false),
            // Another client has removed it: what is asked next says so.
            Err(Error::NotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the file still has its name.
    fn is_named(&self) -> Result<bool> {
        let number = |entry: Entry| entry.stat_of_server().map(|stat| stat.stx_ino);
        let locked = Entry::of(&self.file).and_then(number);
        let named = self.dir.entry(temporary::client()).and_then(number);
        match (locked, named) {
            (Ok(locked), Ok(named)) => Ok(locked == named),
            // A server may not know what was removed, also while it is open.
            (Err(Error::NotFound | Error::Stale), _) | (_, Err(Error::NotFound | Error::Stale)) => {
                Ok(false)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}

impl Drop for DirectoryClient {
    fn drop(&mut self) {
        // Without its own lock the last one gets the other, also where two end at the same time.
        let _ = self.lock(F_UNLCK);
        if self.lock(F_WRLCK).is_ok() && self.is_named() == Ok(true) {
            let _ = rustix::fs::unlinkat(&self.dir, temporary::client(), AtFlags::empty());
        }
    }
}
