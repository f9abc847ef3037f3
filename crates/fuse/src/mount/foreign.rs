//! FUSE file systems of other users, whose servers may keep every access waiting.
//!
//! A user who may mount (`fusermount3`) can mount over a directory on the way to a mountpoint. With
//! `user_allow_other` the root user gets into it too, and a lookup there takes as long as the server of that user
//! wants. So a path is walked step by step ([`crate::MountDirectory`]). Each directory is checked before a name is
//! looked up in it. The check asks the file system nothing.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::mount::mountinfo;
use crate::threads::session::FuseSession;

/// The FUSE connections of this process. The list of mounts need not be read for them, and it is long where there are
/// many.
static OWN: Mutex<Vec<ConnectionRecord>> = Mutex::new(Vec::new());

/// The number of a connection, and its session. The kernel gives the number to another file system as soon as it has
/// let go of this one. The session may end long after that.
struct ConnectionRecord {
    number: u32,
    session: Weak<FuseSession>,
}

/// A connection of this process, until this is dropped.
pub(crate) struct OwnConnection(Weak<FuseSession>);

impl OwnConnection {
    pub(crate) fn new(number: u32, session: &Arc<FuseSession>) -> OwnConnection {
        let session = Arc::downgrade(session);
        OWN.lock().push(ConnectionRecord {
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

/// Returns whether the number is that of a connection of this process.
fn is_own(number: u32) -> bool {
    let own = OWN.lock();
    let same = own.iter().filter(|own| own.number == number);
    let sessions: Vec<_> = same.filter_map(|own| own.session.upgrade()).collect();
    // A session that is dropped here for the last time may drop other mounts.
    drop(own);
    sessions.iter().any(|session| session.is_connected())
}

/// Opens a directory for no more than finding what is in it.
pub(crate) const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory in another one, unless it is a symbolic link. Nothing is asked of a file system that is mounted
/// there.
pub(crate) fn step(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, name, PASS | OFlags::NOFOLLOW, Mode::empty())
}

/// Fails if a directory, found in the directory `above`, is on a FUSE file system of another user's process. Fails
/// too if its mount is not in the tree any more. `path` is for the message.
pub(crate) fn refuse(above: BorrowedFd<'_>, dir: &OwnedFd, path: &Path) -> io::Result<()> {
    let refused = |reason: String| {
        let path = path.display();
        Err(io::Error::other(format!("{path} {reason}")))
    };
    match server(above, dir)? {
        DirectoryServer::Trusted => Ok(()),
        DirectoryServer::User(user) => refused(format!(
            "is a FUSE file system of the user {user}, whose server can keep every access waiting; unmount it first, or \
             use another directory"
        )),
        DirectoryServer::Unlisted => refused(
            "is on a file system that has just been unmounted; repeat the command".to_owned(),
        ),
    }
}

/// The party that answers requests to a directory.
#[derive(Debug, PartialEq, Eq)]
enum DirectoryServer {
    /// The kernel, root, or the user of this process.
    Trusted,
    /// Another user.
    User(u32),
    /// Unknown: the mount has left the tree since the directory was opened.
    Unlisted,
}

fn server(above: BorrowedFd<'_>, dir: &OwnedFd) -> io::Result<DirectoryServer> {
    // Without synchronizing, this asks nothing of the file system.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(dir, "", flags, StatxFlags::empty())?;
    // Only root mounts FUSE on a disk, which has a major number.
    if stat.stx_dev_major != 0 || is_own(stat.stx_dev_minor) {
        return Ok(DirectoryServer::Trusted);
    }
    // An open directory keeps the number of its mount from being used again. The numbers of devices do not do here:
    // those of a file system with subvolumes are not in the list.
    let mount = |dir| mountinfo::id_of(dir).map(|id| id.mount).ok_or(Errno::NOSYS);
    let number = mount(dir.as_fd())?;
    // What is above has been looked at. Its mount may not be in the list: the root directory can be in the midst of one.
    if number == mount(above)? {
        return Ok(DirectoryServer::Trusted);
    }
    let list = fs::read("/proc/self/mountinfo")?;
    let mut lines = list.split(|byte| *byte == b'\n');
    let Some(line) = lines.find(|line| is_of(line, number)) else {
        return Ok(DirectoryServer::Unlisted);
    };
    let own = rustix::process::geteuid().as_raw();
    let user = user_of(line).filter(|user| *user != 0 && *user != own);
    Ok(user.map_or(DirectoryServer::Trusted, DirectoryServer::User))
}

/// Returns whether a line of the kernel's list is about the mount with this number.
fn is_of(line: &[u8], mount: u64) -> bool {
    let number = line.split(|byte| *byte == b' ').next();
    number == Some(mount.to_string().as_bytes())
}

/// The user whose process serves the mount of a line of the kernel's list, if it is FUSE. Names of directories and
/// sources in it may be no text.
fn user_of(line: &[u8]) -> Option<u32> {
    const DASH: &[u8] = b" - ";
    let dash = line.windows(DASH.len()).position(|part| part == DASH)?;
    let after = &line[dash + DASH.len()..];
    after.starts_with(b"fuse").then_some(())?;
    let mut options = after
        .rsplit(|byte| *byte == b' ')
        .next()?
        .split(|byte| *byte == b',');
    let user = options.find_map(|option| option.strip_prefix(b"user_id="))?;
    std::str::from_utf8(user).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, UnmountFlags};

    #[test]
    fn users_in_the_kernels_list() {
        let line = |kind: &str| {
            format!(
                "47 27 0:44 / /a\\040-\\040b ro,nosuid shared:1 - {kind} x rw,user_id=12,group_id=0"
            )
        };
        let user = |kind| user_of(line(kind).as_bytes());
        assert_eq!(user("fuse.sshfs"), Some(12));
        assert_eq!(user("fuse"), Some(12));
        assert_eq!(user("ext4"), None);
        assert_eq!(user_of(b""), None);
        let other = b"47 27 0:44 / /\xff ro - fuse.\xff \xff rw,user_id=12,group_id=0";
        assert_eq!(user_of(other), Some(12));
        assert!(is_of(other, 47) && !is_of(other, 4) && !is_of(b"", 4));
    }

    /// The owner unmounts lazily, after the directory was opened and before the list was read.
    #[test]
    fn a_directory_of_a_mount_that_left_the_tree_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root mounts");
        }
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("m");
        fs::create_dir(&path).unwrap();
        rustix::mount::mount("none", &path, "tmpfs", MountFlags::empty(), None).unwrap();
        fs::create_dir(path.join("below")).unwrap();
        let above = rustix::fs::open(above.path(), PASS, Mode::empty()).unwrap();
        let root = step(above.as_fd(), OsStr::new("m")).unwrap();
        refuse(above.as_fd(), &root, &path).unwrap();
        rustix::mount::unmount(&path, UnmountFlags::DETACH).unwrap();
        let error = refuse(above.as_fd(), &root, &path).unwrap_err();
        assert!(
            error.to_string().contains("has just been unmounted"),
            "{error}"
        );
        // The file system of a directory that was accepted is not asked for again.
        let below = step(root.as_fd(), OsStr::new("below")).unwrap();
        refuse(root.as_fd(), &below, &path).unwrap();
    }
}
