//! FUSE file systems of other users, whose servers may keep every access waiting.
//!
//! A user who may mount (`fusermount3`) can mount over a directory on the way to a mountpoint. With `user_allow_other`
//! the root user gets into it too, and a lookup there takes as long as the server of that user wants. So a path is
//! walked step by step ([`crate::Place`]), and each directory is looked at before anything is looked up in it. None of
//! this asks the file system anything.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::mountinfo;
use crate::session::Session;

/// The FUSE connections of this process. The list of mounts need not be read for them, and it is long where there are
/// many.
static OWN: Mutex<Vec<Connection>> = Mutex::new(Vec::new());

/// The number of a connection, and its session. The kernel gives the number to another file system as soon as it has
/// let go of this one, which may be long before the session ends.
struct Connection {
    number: u32,
    session: Weak<Session>,
}

/// A connection of this process, until this is dropped.
pub(crate) struct OwnConnection(Weak<Session>);

impl OwnConnection {
    /// Notes a connection.
    pub(crate) fn new(number: u32, session: &Arc<Session>) -> OwnConnection {
        let session = Arc::downgrade(session);
        OWN.lock().push(Connection {
            number,
            session: session.clone(),
        });
        OwnConnection(session)
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        OWN.lock().retain(|own| !own.session.ptr_eq(&self.0));
    }
}

/// Whether the number is that of a connection of this process.
fn is_own(number: u32) -> bool {
    let own = OWN.lock();
    let mut same = own.iter().filter(|own| own.number == number);
    same.any(|own| {
        own.session
            .upgrade()
            .is_some_and(|session| session.is_connected())
    })
}

/// Opens a directory for no more than finding what is in it.
pub(crate) const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory in another one, unless it is a symbolic link. Nothing is asked of a file system that is mounted
/// there.
pub(crate) fn step(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, name, PASS | OFlags::NOFOLLOW, Mode::empty())
}

/// Fails if a directory is on a FUSE file system that another user's process serves. `path` is for the message.
pub(crate) fn refuse(dir: &OwnedFd, path: &Path) -> io::Result<()> {
    match served_by(dir) {
        None => Ok(()),
        Some(user) => Err(io::Error::other(format!(
            "{} is a FUSE file system of the user {user}, whose server can keep every access waiting; unmount it first, \
             or use another directory",
            path.display()
        ))),
    }
}

/// The user, if it is another one than root and the user of this process.
fn served_by(dir: &OwnedFd) -> Option<u32> {
    // Without synchronizing, this asks nothing of the file system.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(dir, "", flags, StatxFlags::empty()).ok()?;
    // Only root mounts FUSE on a disk, which has a major number.
    if stat.stx_dev_major != 0 || is_own(stat.stx_dev_minor) {
        return None;
    }
    let mount = mountinfo::id_of(dir)?.mount;
    let list = fs::read("/proc/self/mountinfo").ok()?;
    let mut lines = list.split(|byte| *byte == b'\n');
    let user = lines.find_map(|line| user_of(line, mount))?;
    let own = rustix::process::geteuid().as_raw();
    Some(user).filter(|user| *user != 0 && *user != own)
}

/// The user of the FUSE mount with this number, if the line of the kernel's list is about it.
fn user_of(line: &[u8], mount: u64) -> Option<u32> {
    let line = std::str::from_utf8(line).ok()?;
    let (before, after) = line.split_once(" - ")?;
    (before.split(' ').next()?.parse() == Ok(mount)).then_some(())?;
    after.starts_with("fuse").then_some(())?;
    let options = after.rsplit(' ').next()?.split(',');
    let user = options
        .filter_map(|option| option.strip_prefix("user_id="))
        .next()?;
    user.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_in_the_kernels_list() {
        let line = |kind: &str| {
            format!(
                "47 27 0:44 / /a\\040-\\040b ro,nosuid shared:1 - {kind} x rw,user_id=12,group_id=0"
            )
        };
        let user = |kind, mount| user_of(line(kind).as_bytes(), mount);
        assert_eq!(user("fuse.sshfs", 47), Some(12));
        assert_eq!(user("fuse", 47), Some(12));
        assert_eq!(user("fuse", 4), None);
        assert_eq!(user("ext4", 47), None);
        assert_eq!(user_of(b"", 47), None);
    }
}
