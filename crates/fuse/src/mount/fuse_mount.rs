//! Attaching a file system to the tree of directories, and unmounting it.
//!
//! Root uses the system calls; everyone else asks `fusermount3`, which is set-user-ID for this. Most of the code
//! handles obstacles: a mount whose server was killed, a mount on top, files in use, another namespace that still has
//! the mount.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use vfs::{FileSystem, Ino};

use crate::dispatch::handshake;
use crate::error::Error;
use crate::mount::attach;
use crate::mount::foreign::OwnConnection;
use crate::mount::guard::Opening;
use crate::mount::mountinfo::{self, Id};
use crate::mount::mountpoint::{MountDirectory, Spot};
use crate::mount::open_directory::has_lost_server;
use crate::mount::{helper, holder, tune};
use crate::options::Options;
use crate::threads::session::{FuseSession, SessionEnd};
use crate::wire::buffer::RequestBuffer;
use crate::wire::convert::NAMES_KEPT;

/// The number of dead mounts on top of each other that are cleared away.
const DEAD_MAX: usize = 16;
/// The time that an unmount waits for the threads of the file system, which may wait for its disks.
const THREADS: Duration = Duration::from_secs(10);
/// The time that another process may take between the end of its unmount in the tree and in the kernel.
const MOMENT: Duration = Duration::from_millis(200);
/// The time that a forced unmount waits for what the kernel writes back for a request.
const WRITTEN_BACK: Duration = Duration::from_secs(5);
/// The time that a forced unmount waits for gathered writes to be written.
const WRITE_BACK: Duration = Duration::from_secs(10);

/// A mounted file system. Dropping it unmounts, by force if need be.
pub struct FuseMount {
    session: Arc<FuseSession>,
    path: PathBuf,
    /// The numbers by which the kernel tells this mount from others at the same path.
    id: Id,
    /// Cuts the connection when it is written to, where root has mounted the control file system. It is opened while
    /// the number of the connection is sure to be its own. Later the number may be that of another mount, before the
    /// session notices.
    abort: Option<File>,
    how: MountMethod,
    _own: OwnConnection,
    /// Lets one thread at a time unmount. True once the kernel did not let go; later unmounts do not wait again.
    unmounting: Mutex<bool>,
}

/// The method by which the file system was mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountMethod {
    Ourselves,
    Helper,
}

impl std::fmt::Debug for FuseMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount")
            .field("path", &self.path)
            .field("how", &self.how)
            .finish()
    }
}

impl FuseMount {
    /// Mounts `fs` at the directory `mountpoint` and begins to serve it.
    ///
    /// The directory need not be empty; what is in it is hidden meanwhile, as with `mount(8)`. A
    /// mount that a killed process left behind there is cleared away first.
    ///
    /// # Errors
    /// As [`FuseMount::at`].
    pub fn new(
        fs: Arc<dyn FileSystem>,
        mountpoint: &Path,
        options: &Options,
    ) -> Result<FuseMount, Error> {
        FuseMount::at(fs, &MountDirectory::new(mountpoint, ""), options)
    }

    /// Mounts `fs` at a place, as [`FuseMount::new`] does at a directory.
    ///
    /// The helper mounts with the rights of the user who runs this program. So it is not noticed if that user
    /// exchanges a directory for a link in that moment.
    ///
    /// # Errors
    /// [`Error::NoMountpoint`], [`Error::NotDirectory`] and [`Error::Mountpoint`] for the directory;
    /// [`Error::NoDevice`], [`Error::OpenDevice`] and [`Error::Mount`] if root cannot mount;
    /// [`Error::NoHelper`], [`Error::RunHelper`] and [`Error::Helper`] for ordinary users; [`Error::Protocol`],
    /// [`Error::Device`], [`Error::Memory`] and [`Error::Thread`] if it cannot be served.
    pub fn at(
        fs: Arc<dyn FileSystem>,
        place: &MountDirectory,
        options: &Options,
    ) -> Result<FuseMount, Error> {
        let cannot = |error| cannot_use(&place.path(), error);
        clear_dead(place)?;
        let spot = place.spot().map_err(cannot)?;
        let dir = spot.open().map_err(|error| cannot(error.into()))?;
        if rustix::process::geteuid().is_root() {
            let device = open_device()?;
            match attach::create(&device, options) {
                Ok(mount) => return FuseMount::ourselves(fs, device, (mount, dir), &spot, options),
                // Root of a container, perhaps; the helper may do better. It goes by the path.
                Err(Errno::PERM) if place.is_safe().map_err(cannot)? => {}
                Err(cause) => return Err(cannot_mount(&spot.path, cause)),
            }
        }
        FuseMount::with_helper(fs, &spot, options)
    }

    /// Serves a mount, and then puts it into the tree.
    fn ourselves(
        fs: Arc<dyn FileSystem>,
        device: OwnedFd,
        (mount, dir): (OwnedFd, OwnedFd),
        spot: &Spot,
        options: &Options,
    ) -> Result<FuseMount, Error> {
        let cannot = |cause| cannot_mount(&spot.path, cause);
        let id = mountinfo::id_of(&mount)
            .ok_or(Errno::NOSYS)
            .map_err(cannot)?;
        let session = serve(device, fs, options)?;
        if let Err(cause) = attach::attach(&mount, &dir) {
            session.stop();
            return Err(cannot(cause));
        }
        tune::tune(id, options);
        Ok(FuseMount::begun(session, spot, id, MountMethod::Ourselves))
    }

    fn with_helper(
        fs: Arc<dyn FileSystem>,
        spot: &Spot,
        options: &Options,
    ) -> Result<FuseMount, Error> {
        let open = spot.open().ok().and_then(Opening::of);
        let device = helper::mount(&spot.path, options);
        drop(open);
        let device = device?;
        let session = serve(device, fs, options).inspect_err(|_| {
            if let Err(error) = helper::unmount(&spot.path, true) {
                tracing::warn!(%error, path = %spot.path.display(), "left mounted after a failed start; umount -l takes it away");
            }
        })?;
        let id = attach::id_at(spot).ok_or_else(|| cannot_mount(&spot.path, Errno::NOSYS))?;
        Ok(FuseMount::begun(session, spot, id, MountMethod::Helper))
    }

    fn begun(session: Arc<FuseSession>, spot: &Spot, id: Id, how: MountMethod) -> FuseMount {
        tracing::info!(path = %spot.path.display(), "mounted");
        FuseMount {
            _own: OwnConnection::new(id.connection, &session),
            session,
            path: spot.path.clone(),
            id,
            abort: open_abort(id),
            how,
            unmounting: Mutex::new(false),
        }
    }

    /// Returns the directory of the mount.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the mount follow other values of `read_only`, `nosuid`, `nodev`, `noexec`, `access_times`
    /// and `nodiratime`. Where the helper has mounted it stays as it was.
    ///
    /// # Errors
    /// [`Error::Writing`] if files are open for writing that is to end; [`Error::OptionsCovered`] if something
    /// is mounted on top; [`Error::Mount`] if the kernel refuses.
    pub fn follow(&self, options: &Options) -> Result<(), Error> {
        match (self.how, self.root()) {
            (MountMethod::Ourselves, Some(root)) => attach::change(&root, &self.path, options),
            // No call of the kernel reaches a root that is covered.
            (MountMethod::Ourselves, None) if self.is_in_tree() => {
                Err(Error::OptionsCovered(self.path.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Opens the root of this mount, for no more than naming it. None if the connection is cut.
    fn root(&self) -> Option<OwnedFd> {
        let root = attach::find(self.id, &self.path)?.open().ok()?;
        let is_it = mountinfo::id_of(&root) == Some(self.id) && self.is_current(None);
        is_it.then_some(root)
    }

    /// Returns whether the numbers of this mount have been its own until now. The kernel gives them to the next mount
    /// as soon as it has freed the file system. It cuts the connection before, and cannot free a file system of which
    /// another mount is open. So the caller looks for something by these numbers, asks this, and only then changes
    /// it.
    fn is_current(&self, another: Option<&OwnedFd>) -> bool {
        another.is_some() || self.session.is_connected()
    }

    /// Returns whether the mount is in the tree of directories. It may still be in use where it is not.
    pub fn is_in_tree(&self) -> bool {
        mountinfo::listed(self.id).is_some()
    }

    /// Returns whether the kernel still uses the file system. After a lazy unmount by another process (`umount -l`)
    /// the kernel uses it until its files are closed.
    pub fn is_mounted(&self) -> bool {
        self.session.is_live()
    }

    /// Waits until the file system is unmounted, by this process or another.
    pub fn wait(&self) -> SessionEnd {
        self.session.wait()
    }

    /// Calls `f` once the file system is unmounted, by any process; at once if it already is. The call
    /// comes from a thread of this crate and should be short.
    pub fn on_end(&self, f: impl FnOnce(SessionEnd) + Send + 'static) {
        self.session.on_end(Box::new(f));
    }

    /// The number of the mount's device, which no other mount has at the same time.
    pub fn number(&self) -> u32 {
        self.id.connection
    }

    /// Has the kernel write back what programs have written to files, and forget the contents that it keeps.
    /// The writes come to the file system meanwhile, so none of its threads may call this.
    pub fn forget_contents(&self, files: &[Ino]) {
        self.session.forget_contents(files);
    }

    /// Waits until the kernel asks again for each name that follows keys.
    pub fn outlive_names(&self) {
        std::thread::sleep(NAMES_KEPT);
    }

    /// Waits until the file system has heard of each file that was closed before. As
    /// [`FuseMount::forget_contents`], not for its own threads.
    pub fn settle(&self) {
        if let Some(root) = self.root() {
            self.session.drain(|| rustix::fs::fstatfs(&root).is_ok());
        }
    }

    /// Returns the number of requests since the mount for each operation, by the names of `linux/fuse.h`.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.session.counts()
    }

    /// Unmounts, and returns when no thread serves the file system any more.
    ///
    /// Without `force` a file system in use stays mounted, and the error is [`Error::Busy`]. With it the mount
    /// disappears at once. The kernel writes back what programs have written, and then their open files give errors.
    /// The session ends, even if a mount namespace still has the mount or something covers it. Returns the error that
    /// an unmount without force gave before. Does nothing if the file system is not mounted any more.
    ///
    /// Waits for no other process: the kernel lets go of the file system within `umount(2)`, or something still has it.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Inside`], [`Error::Covered`] if something is mounted on top, and
    /// [`Error::InUseElsewhere`] if another namespace keeps it: without `force`. [`Error::Hanging`] if the file
    /// system does not answer; [`Error::Unmount`] and those of the helper if the kernel refuses.
    pub fn unmount(&self, force: bool) -> Result<Option<Error>, Error> {
        let mut was_held = self.unmounting.lock();
        let mut refused = None;
        if self.session.is_live() {
            // Of what the helper has taken out of the tree, nothing is left to end by force.
            let is_gentle = !force || self.how == MountMethod::Ourselves;
            let idle = is_gentle.then(|| self.end_idle(&mut was_held));
            match idle {
                Some(Ok(())) => {}
                Some(Err(error)) if !force => return Err(error),
                idle => {
                    self.end_by_force()?;
                    refused = idle.and_then(Result::err);
                }
            }
            tracing::info!(path = %self.path.display(), force, "unmounted");
        }
        self.session.join();
        Ok(refused)
    }

    fn end_idle(&self, was_held: &mut bool) -> Result<(), Error> {
        // The connection may be cut, and the mount still in the tree.
        let is_cut = !self.session.is_connected();
        let another = is_cut.then(|| self.another_root()).flatten();
        if let Some(spot) = self.locate(another.as_ref())? {
            self.unmount_idle(&spot, another.as_ref())?;
        }
        drop(another);
        if self.session.is_connected() {
            let holder = holder::holder(self.id.connection, None);
            let is_known = holder.is_some() || *was_held;
            if is_known || self.session.wait_for(MOMENT).is_none() {
                *was_held = true;
                let path = self.path.clone();
                return Err(Error::InUseElsewhere { path, holder });
            }
        }
        self.await_threads()
    }

    /// Waits for the threads of a file system that the kernel has let go of.
    fn await_threads(&self) -> Result<(), Error> {
        match self.session.wait_for(THREADS) {
            Some(_) => Ok(()),
            None => Err(Error::Hanging(self.path.clone())),
        }
    }

    /// Returns the location of the mount in the tree. It has none if another process has lazily unmounted it, or if
    /// its numbers may be those of another mount.
    fn locate(&self, another: Option<&OwnedFd>) -> Result<Option<Spot>, Error> {
        let found = attach::find(self.id, &self.path);
        let is_covered = found.is_none() && mountinfo::listed(self.id).is_some();
        match (self.is_current(another), is_covered) {
            (false, _) => Ok(None),
            (true, true) => Err(Error::Covered(self.path.clone())),
            (true, false) => Ok(found),
        }
    }

    fn unmount_idle(&self, spot: &Spot, another: Option<&OwnedFd>) -> Result<(), Error> {
        let cause = match self.how {
            MountMethod::Helper => match helper::unmount(&spot.path, false) {
                Err(Error::Busy(_)) => Errno::BUSY,
                result => return result,
            },
            MountMethod::Ourselves => match attach::unmount(spot) {
                Ok(()) => return Ok(()),
                Err(cause) => cause,
            },
        };
        let path = self.path.clone();
        match cause {
            Errno::BUSY => Err(match mountinfo::inside(self.id) {
                Some(inside) => Error::Inside { path, inside },
                None => Error::Busy(path),
            }),
            // Another process was faster.
            _ if self.locate(another)?.is_none() => Ok(()),
            cause => Err(self.cannot_unmount(cause)),
        }
    }

    /// Ends the session, whatever the kernel still has of the mount.
    fn end_by_force(&self) -> Result<(), Error> {
        // Opening a directory asks nothing of the file system, so this works even if it hangs.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = self.root();
        // Where the mount is out of reach: a namespace may have it, or something covers it.
        let another = if top.is_none() {
            self.another_root()
        } else {
            None
        };
        let pinned = top.as_ref().or(another.as_ref());
        let root = pinned.and_then(|root| rustix::fs::openat(root, ".", flags, Mode::empty()).ok());
        let root = root.map(Arc::new);
        if let Some(root) = &root {
            self.write_back(root);
        }
        match (self.how, &top) {
            (MountMethod::Ourselves, _) => attach::detach_all(self.id, || self.is_current(pinned)),
            (MountMethod::Helper, Some(_)) => {
                let spot = self.locate(None)?;
                spot.map_or(Ok(()), |spot| helper::unmount(&spot.path, true))?;
            }
            (MountMethod::Helper, None) => {}
        }
        self.cut_connection();
        self.session.close_later(WRITTEN_BACK);
        self.session.stop();
        drop((top, another));
        // Where that was not allowed, the kernel cuts the connection when the device is closed. That happens when the
        // last worker ends, and a worker that is told to stop ends after its next request. So requests are sent here.
        // One is not answered where a worker hangs.
        let session = Arc::clone(&self.session);
        let ask = move || {
            while let (true, Some(root)) = (session.is_live(), &root) {
                if rustix::fs::fstatfs(root).is_err() {
                    break;
                }
            }
        };
        let asking = thread::Builder::new().name("fuse-end".to_owned());
        let asking = asking.spawn(ask).map_err(Error::Thread)?;
        self.await_threads()?;
        // It has nothing to wait for any more.
        let _ = asking.join();
        Ok(())
    }

    /// The root of another mount of the same file system, which is nowhere in the tree. The kernel finds the file system
    /// by the open device, and refuses once it has freed it. For this, Linux has to be 5.15 or later, and the user root.
    fn another_root(&self) -> Option<OwnedFd> {
        let device = self.session.device()?;
        let another = attach::create(&device, &Options::default());
        another
            .inspect_err(|error| tracing::debug!(%error, "no other way to the mount"))
            .ok()
            .filter(|another| {
                mountinfo::id_of(another).map(|id| id.connection) == Some(self.id.connection)
            })
    }

    /// Has the kernel send the writes it has gathered, and forget what it has read. Programs in other namespaces may
    /// have the files open, or mapped. A file system that hangs is not waited for.
    fn write_back(&self, root: &Arc<OwnedFd>) {
        let (done, wait) = mpsc::channel();
        let (root, session) = (Arc::clone(root), Arc::clone(&self.session));
        let started = thread::Builder::new()
            .name("fuse-writeback".to_owned())
            .spawn(move || {
                if rustix::fs::syncfs(&*root).is_ok() {
                    session.drain(|| rustix::fs::fstatfs(&*root).is_ok());
                    session.forget_all_contents();
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

    fn cannot_unmount(&self, cause: Errno) -> Error {
        let path = self.path.clone();
        Error::Unmount { path, cause }
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

impl Drop for FuseMount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount(true) {
            tracing::error!(%error, path = %self.path.display(), "still mounted; umount -l takes it away");
        }
    }
}

fn cannot_use(mountpoint: &Path, error: io::Error) -> Error {
    let path = mountpoint.to_owned();
    match error.kind() {
        ErrorKind::NotFound => Error::NoMountpoint(path),
        ErrorKind::NotADirectory => Error::NotDirectory(path),
        _ => Error::Mountpoint { path, cause: error },
    }
}

fn cannot_mount(path: &Path, cause: Errno) -> Error {
    let path = path.to_owned();
    Error::Mount { path, cause }
}

/// Unmounts what processes that were killed left at a place.
fn clear_dead(place: &MountDirectory) -> Result<(), Error> {
    let cannot = |error| cannot_use(&place.path(), error);
    for _ in 0..DEAD_MAX {
        let spot = place.spot().map_err(cannot)?;
        let root = spot.open().map_err(|error| cannot(error.into()))?;
        if !has_lost_server(&root) {
            break;
        }
        tracing::info!(path = %spot.path.display(), "clearing away a mount without a server");
        match attach::detach(&root) {
            Err(Errno::PERM) => helper::unmount(&spot.path, true)?,
            result => result.map_err(|error| cannot(error.into()))?,
        }
    }
    Ok(())
}

fn open_device() -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => Error::NoDevice,
        error => Error::OpenDevice(error),
    })
}

fn serve(
    device: OwnedFd,
    fs: Arc<dyn FileSystem>,
    options: &Options,
) -> Result<Arc<FuseSession>, Error> {
    let mut buffer = RequestBuffer::new().map_err(Error::Memory)?;
    let agreed = handshake::shake(device.as_fd(), options, &mut buffer)?;
    FuseSession::start(device, fs, options, agreed, buffer)
}

fn open_abort(id: Id) -> Option<File> {
    let path = format!("/sys/fs/fuse/connections/{}/abort", id.connection);
    File::options().write(true).open(path).ok()
}
