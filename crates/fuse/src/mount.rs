//! Putting a file system into the tree of directories, and taking it out again.
//!
//! Root uses the system calls; everyone else asks `fusermount3`, which is set-user-ID for this.
//! What makes this more than two calls is everything that may be in the way: a mount whose server
//! was killed, something mounted on top, files in use, another namespace that still has the mount.

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use vfs::FileSystem;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::handshake::{self, MAX_WRITE};
use crate::options::Options;
use crate::place::{Place, in_proc};
use crate::session::{End, Session};
use crate::{elsewhere, helper, tune};

/// How many dead mounts on top of each other are cleared away.
const DEAD_MAX: usize = 16;
/// How long an ordinary unmount waits for the kernel to let go.
const LET_GO: Duration = Duration::from_secs(10);
/// How long a forced unmount waits for gathered writes to be written.
const WRITE_BACK: Duration = Duration::from_secs(10);

/// A mounted file system. Dropping it unmounts, by force if need be.
pub struct Mount {
    session: Arc<Session>,
    path: PathBuf,
    /// What the kernel calls this mount, to tell it from others at the same path.
    id: Option<Id>,
    /// Cuts the connection when it is written to, where root has mounted the control file system.
    /// Opened while the number of the connection is sure to be its own: it may be another mount's
    /// as soon as this one is gone, which is before the session notices.
    abort: Option<File>,
    how: How,
    /// One at a time unmounts.
    unmounting: Mutex<()>,
}

/// What the kernel calls a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id {
    mount: u64,
    /// The minor number of its device, which is also the number of its FUSE connection.
    connection: u32,
}

/// Who mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Ourselves,
    Helper,
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount")
            .field("path", &self.path)
            .field("how", &self.how)
            .finish()
    }
}

impl Mount {
    /// Mounts `fs` at the directory `mountpoint` and begins to serve it.
    ///
    /// The directory need not be empty; what is in it is hidden meanwhile, as with `mount(8)`. A
    /// mount that a killed process left behind there is cleared away first.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        mountpoint: &Path,
        options: &Options,
    ) -> Result<Mount, Error> {
        let path = prepare(mountpoint)?;
        Mount::begin(fs, &path, path.clone(), options)
    }

    /// The same at a place, of whose names below its base none may be a symbolic link.
    ///
    /// Where the helper mounts, somebody who exchanges a directory for a link in that moment is not noticed:
    /// it mounts with the rights of the user who runs this program.
    pub fn at(fs: Arc<dyn FileSystem>, place: &Place, options: &Options) -> Result<Mount, Error> {
        clear_dead(&place.path())?;
        let cannot = |error| cannot_use(&place.path(), &error);
        let dir = place.open().map_err(cannot)?;
        let path = place.absolute().map_err(cannot)?;
        Mount::begin(fs, &in_proc(&dir), path, options)
    }

    /// Mounts at a directory that is also, or is going to be, at `path`.
    fn begin(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        path: PathBuf,
        options: &Options,
    ) -> Result<Mount, Error> {
        let (device, how) = mount(dir, &path, options)?;
        let session = serve(device, fs, options).inspect_err(|_| {
            if let Err(error) = detach(&path, how) {
                tracing::warn!(%error, path = %path.display(), "left mounted after a failed start; umount -l takes it away");
            }
        })?;
        let id = id(&path);
        if how == How::Ourselves {
            tune::tune(&path, options);
        }
        tracing::info!(path = %path.display(), source = options.fs_name, "mounted");
        Ok(Mount {
            session,
            path,
            id,
            abort: id.and_then(open_abort),
            how,
            unmounting: Mutex::new(()),
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the mount follow other values of `read_only`, `nosuid`, `nodev` and `noexec`. Where the
    /// helper has mounted it stays as it was.
    pub fn follow(&self, options: &Options) -> Result<(), Error> {
        let is_ours = self.how == How::Ourselves && self.id.is_some() && id(&self.path) == self.id;
        if !is_ours {
            return Ok(());
        }
        let flags = flags(options) | MountFlags::BIND;
        rustix::mount::mount_remount(&self.path, flags, "").map_err(|cause| Error::Mount {
            path: self.path.clone(),
            cause,
        })
    }

    /// Whether the kernel still uses the file system. After a lazy unmount by someone else
    /// (`umount -l`) that is so until its files are closed.
    pub fn is_mounted(&self) -> bool {
        self.session.is_live()
    }

    /// Waits until the file system is unmounted, by whomever.
    pub fn wait(&self) -> End {
        self.session.wait()
    }

    /// Calls `f` once the file system is unmounted, by whomever; at once if it already is. The call
    /// comes from a thread of this crate and should be short.
    pub fn on_end(&self, f: impl FnOnce(End) + Send + 'static) {
        self.session.on_end(Box::new(f));
    }

    /// How often the kernel asked for each operation since the mount, by the names of
    /// `linux/fuse.h`.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.session.counts()
    }

    /// Unmounts, and returns when no thread serves the file system any more.
    ///
    /// Without `force` a file system in use stays mounted and the answer is [`Error::Busy`]. With
    /// it the mount disappears at once; what programs have written is written back, and then their
    /// open files give errors. Does nothing if the file system is not mounted any more.
    pub fn unmount(&self, force: bool) -> Result<(), Error> {
        let _one_at_a_time = self.unmounting.lock();
        if self.session.is_live() {
            if self.is_in_tree()? {
                if force {
                    self.unmount_by_force()?;
                } else {
                    unmount(&self.path, self.how)?;
                }
            } else if force {
                self.cut_connection();
            }
            if self.session.wait_for(LET_GO).is_none() {
                return Err(Error::InUseElsewhere {
                    path: self.path.clone(),
                    holder: self.id.and_then(|id| elsewhere::holder(id.connection)),
                });
            }
            tracing::info!(path = %self.path.display(), force, "unmounted");
        }
        self.session.join();
        Ok(())
    }

    /// Whether unmounting the path means this mount; false if someone else has lazily unmounted it.
    fn is_in_tree(&self) -> Result<bool, Error> {
        let (Some(ours), Some(there)) = (self.id, id(&self.path)) else {
            return Ok(true);
        };
        match (ours.mount == there.mount, is_listed(ours.mount)) {
            (true, _) => Ok(true),
            (false, true) => Err(Error::Covered(self.path.clone())),
            (false, false) => Ok(false),
        }
    }

    fn unmount_by_force(&self) -> Result<(), Error> {
        // Opening a directory asks nothing of the file system, so this works even if it hangs.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.path, flags, Mode::empty())
            .ok()
            .map(Arc::new);
        if let Some(root) = &root {
            self.write_back(root);
        }
        detach(&self.path, self.how)?;
        self.cut_connection();
        // Where that was not allowed: the kernel cuts the connection when the device is closed,
        // which is when the last worker ends; a worker that is told to stop ends after its next
        // request; so requests are what it takes.
        self.session.stop();
        while let (true, Some(root)) = (self.session.is_live(), &root) {
            if rustix::fs::fstatfs(root).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Has the kernel send the writes it has gathered. A file system that hangs is not waited for.
    fn write_back(&self, root: &Arc<OwnedFd>) {
        let (done, wait) = mpsc::channel();
        let (root, session) = (Arc::clone(root), Arc::clone(&self.session));
        let started = thread::Builder::new()
            .name("fuse-writeback".to_owned())
            .spawn(move || {
                if rustix::fs::syncfs(&*root).is_ok() {
                    session.drain(|| rustix::fs::fstatfs(&*root).is_ok());
                }
                // Close it before saying so: it keeps the mount in use.
                drop(root);
                drop(session);
                let _ = done.send(());
            });
        if started.is_ok() && wait.recv_timeout(WRITE_BACK).is_err() {
            tracing::warn!(
                path = %self.path.display(),
                "what the kernel has gathered is given up: the file system does not take it"
            );
        }
    }

    /// Has the kernel give up everything that is still asked of the file system.
    fn cut_connection(&self) {
        if let Some(mut abort) = self.abort.as_ref()
            && let Err(error) = abort.write_all(b"1")
        {
            tracing::debug!(%error, "connection not cut");
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount(false).or_else(|_| self.unmount(true)) {
            tracing::error!(%error, path = %self.path.display(), "still mounted; umount -l takes it away");
        }
    }
}

/// Makes sure that there is a directory to mount at, and returns its absolute path.
fn prepare(mountpoint: &Path) -> Result<PathBuf, Error> {
    clear_dead(mountpoint)?;
    let cannot = |error| cannot_use(mountpoint, &error);
    // The kernel's message for this one would be confusing.
    let path = fs::canonicalize(mountpoint).map_err(cannot)?;
    match fs::metadata(&path).map_err(cannot)?.is_dir() {
        true => Ok(path),
        false => Err(Error::NotDirectory(path)),
    }
}

fn cannot_use(mountpoint: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::NoMountpoint(mountpoint.to_owned()),
        ErrorKind::NotADirectory => Error::NotDirectory(mountpoint.to_owned()),
        _ => Error::Mountpoint {
            path: mountpoint.to_owned(),
            cause: Errno::from_io_error(error).unwrap_or(Errno::IO),
        },
    }
}

/// Unmounts what processes that were killed left at `path`.
fn clear_dead(path: &Path) -> Result<(), Error> {
    for _ in 0..DEAD_MAX {
        // Attributes may still be cached; this always asks.
        match rustix::fs::statfs(path) {
            Err(cause @ (Errno::NOTCONN | Errno::CONNABORTED)) => {
                tracing::info!(path = %path.display(), "clearing away a mount without a server");
                let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
                match rustix::mount::unmount(path, flags) {
                    Ok(()) => {}
                    Err(Errno::PERM) => helper::unmount(path, true)?,
                    Err(_) => {
                        let path = path.to_owned();
                        return Err(Error::Mountpoint { path, cause });
                    }
                }
            }
            _ => break,
        }
    }
    Ok(())
}

fn mount(dir: &Path, path: &Path, options: &Options) -> Result<(OwnedFd, How), Error> {
    if rustix::process::geteuid().is_root() {
        let device = open_device()?;
        match mount_ourselves(dir, &device, options) {
            Ok(()) => return Ok((device, How::Ourselves)),
            // Root of a container, perhaps; the helper may do better.
            Err(Errno::PERM) => {}
            Err(cause) => {
                let path = path.to_owned();
                return Err(Error::Mount { path, cause });
            }
        }
    }
    Ok((helper::mount(path, options)?, How::Helper))
}

fn open_device() -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => Error::NoDevice,
        error => Error::OpenDevice(error),
    })
}

fn mount_ourselves(dir: &Path, device: &OwnedFd, options: &Options) -> Result<(), Errno> {
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,max_read={MAX_WRITE}",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if options.allow_other {
        let _ = write!(data, ",allow_other");
    }
    let flags = flags(options);
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let kind = format!("fuse.{}", options.subtype);
    rustix::mount::mount(options.fs_name.as_str(), dir, kind, flags, data.as_c_str())
}

fn flags(options: &Options) -> MountFlags {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, options.nosuid);
    flags.set(MountFlags::NODEV, options.nodev);
    flags.set(MountFlags::NOEXEC, options.noexec);
    flags
}

fn serve(
    device: OwnedFd,
    fs: Arc<dyn FileSystem>,
    options: &Options,
) -> Result<Arc<Session>, Error> {
    let mut buffer = Buffer::new();
    let agreed = handshake::shake(device.as_fd(), options, &mut buffer)?;
    Session::start(device, fs, options, agreed, buffer)
}

fn unmount(path: &Path, how: How) -> Result<(), Error> {
    match how {
        How::Ourselves => rustix::mount::unmount(path, UnmountFlags::NOFOLLOW)
            .map_err(|error| cannot_unmount(path, error)),
        How::Helper => helper::unmount(path, false),
    }
}

/// Takes the mount away even if it is in use, and cuts the connection where that is allowed.
fn detach(path: &Path, how: How) -> Result<(), Error> {
    let flags = UnmountFlags::DETACH | UnmountFlags::FORCE | UnmountFlags::NOFOLLOW;
    match how {
        How::Ourselves => {
            rustix::mount::unmount(path, flags).map_err(|error| cannot_unmount(path, error))
        }
        How::Helper => helper::unmount(path, true),
    }
}

fn cannot_unmount(path: &Path, cause: Errno) -> Error {
    let path = path.to_owned();
    match cause {
        Errno::BUSY => Error::Busy(path),
        cause => Error::Unmount { path, cause },
    }
}

fn open_abort(id: Id) -> Option<File> {
    let path = format!("/sys/fs/fuse/connections/{}/abort", id.connection);
    File::options().write(true).open(path).ok()
}

/// What the kernel calls the mount that `path` is on.
fn id(path: &Path) -> Option<Id> {
    // Without synchronizing, this asks nothing of the file system.
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::MNT_ID).ok()?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(Id {
        mount: found.stx_mnt_id,
        connection: found.stx_dev_minor,
    })
}

/// Whether this mount namespace has the mount.
fn is_listed(mount: u64) -> bool {
    let list = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mount.to_string();
    list.lines()
        .any(|line| line.split(' ').next() == Some(&mount))
}
