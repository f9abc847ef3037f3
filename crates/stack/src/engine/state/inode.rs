//! The inodes that the front end knows.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::fs::OFlags;
use vfs::{Error, Ino, Kind, Result, Trust};

use super::names::NameCache;
use crate::lower::{Entry, close, settle};

/// The most lower files that are open at the same time for reading and writing.
const OPEN_MAX: usize = 256;

/// The time for which a known size is used to read, where others may change it: as long as the kernel uses
/// attributes.
const EXTENT_KEPT: Duration = Duration::from_secs(1);

/// The use of a lower directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Other clients, or programs beside the mount, may change the lower directory.
    pub shared: bool,
    /// True if attributes of a shared directory that others change may be seen a moment later.
    pub brief: bool,
    /// True if clients on other machines change a shared directory, each with a page cache of its own.
    pub remote: bool,
    /// True if no other client may change a remote directory while this one does, so that no lock and no read from
    /// the server is needed.
    pub alone: bool,
    /// Reading does not change access times of the lower directory, if the user of the mount owns what is read, or is
    /// root.
    pub noatime: bool,
    /// The mount option `nodiratime`: like `noatime`, for directories only.
    pub nodiratime: bool,
    /// The option to list a directory for each name that is not known, where only a listing finds names.
    pub nodircache: bool,
}

impl Options {
    /// The time for which the front end may keep names and attributes.
    pub(crate) fn trust(self) -> Trust {
        match (self.shared, self.brief) {
            (false, _) => Trust::Lasting,
            (true, true) => Trust::BriefAttributes,
            (true, false) => Trust::Once,
        }
    }

    /// Returns whether the kernel can tell of names that others make.
    pub(crate) fn watches_names(self) -> bool {
        self.shared && !self.remote && !self.nodircache
    }

    /// Returns whether an extent that was found at this time may still be used to read the file.
    fn trusts_extent(self, found: Instant) -> bool {
        match self.trust() {
            Trust::Lasting => true,
            Trust::Brief | Trust::BriefAttributes => found.elapsed() < EXTENT_KEPT,
            Trust::Once => false,
        }
    }

    /// The flags with which a new file is opened.
    pub(crate) fn to_write(self) -> OFlags {
        match self.noatime {
            true => OFlags::RDWR | OFlags::NOATIME,
            false => OFlags::RDWR,
        }
    }
}

/// An inode of the lower directory.
pub(crate) struct LowerInode<N> {
    pub(crate) ino: Ino,
    pub(crate) kind: Kind,
    pub(crate) entry: Entry,
    pub(crate) node: N,
    /// The number of times that the inode became something else.
    pub(crate) generation: u64,
    /// The lock of a file: shared to read, exclusive to change. Of a directory: exclusive to change names. Of
    /// two, the lower number first.
    pub(crate) io: RwLock<()>,
    /// The names of a directory that were listed.
    pub(crate) names: Arc<NameCache>,
    /// The length of a symbolic link's target. The target is read once: reading it again would change the link's
    /// access time each time that its attributes are shown.
    target_len: Mutex<Option<u64>>,
    /// The number of times that programs have it open, as far as the front end says so.
    opens: Mutex<u64>,
    /// The lower file, while it is among the last that were used.
    file: Mutex<Option<OpenFile>>,
    /// The extent of a file when it was last read, and the time of that. Nothing while it changes.
    extent: Mutex<Option<(LowerFileExtent, Instant)>>,
}

/// The length of a file, and the header of its contents.
#[derive(Clone)]
pub(crate) struct LowerFileExtent {
    /// Bytes in the view.
    pub(crate) size: u64,
    /// Bytes of the lower file.
    pub(crate) lower_size: u64,
    /// Empty if the format has none, or the file is empty.
    pub(crate) header: Arc<[u8]>,
}

#[derive(Clone)]
struct OpenFile {
    file: Arc<OwnedFd>,
    to_write: bool,
    /// The same, for reads from the server.
    direct: Option<Arc<OwnedFd>>,
}

impl<N> LowerInode<N> {
    pub(crate) fn new(ino: Ino, kind: Kind, entry: Entry, node: N) -> LowerInode<N> {
        LowerInode {
            ino,
            kind,
            entry,
            node,
            generation: 0,
            io: RwLock::new(()),
            names: Arc::default(),
            target_len: Mutex::new(None),
            opens: Mutex::new(0),
            file: Mutex::new(None),
            extent: Mutex::new(None),
        }
    }

    /// An inode with the same number, for another lower entry.
    pub(crate) fn remade(&self, entry: Entry, node: N, generation: u64) -> LowerInode<N> {
        LowerInode {
            generation,
            // A name that is being made in this one is in the other one too.
            names: self.names.clone(),
            ..LowerInode::new(self.ino, self.kind, entry, node)
        }
    }

    /// The length of a symbolic link's target, which `read` gives if it is not known.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn target_len(&self, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<u64> {
        let mut known = self.target_len.lock();
        match *known {
            Some(len) => Ok(len),
            None => Ok(*known.insert(read()?.len() as u64)),
        }
    }

    /// Counts one more program that has it open, if it may.
    ///
    /// # Errors
    /// Those of `check`.
    pub(crate) fn count_open(&self, check: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut opens = self.opens.lock();
        check()?;
        *opens += 1;
        Ok(())
    }

    /// Counts one less, and calls `closed` with the last one.
    pub(crate) fn count_release(&self, closed: impl FnOnce()) {
        let mut opens = self.opens.lock();
        *opens = opens.saturating_sub(1);
        if *opens == 0 {
            closed();
        }
    }

    /// Calls `idle` unless programs have it open; returns whether they do. What was known by its key is known
    /// no more.
    pub(crate) fn is_open_or(&self, idle: impl FnOnce()) -> bool {
        let opens = self.opens.lock();
        *self.target_len.lock() = None;
        if *opens == 0 {
            idle();
        }
        *opens > 0
    }

    /// The known extent of a file, if that may still be used to read it up to `end`. Others may change its last
    /// bytes, those behind the last multiple of `unit`.
    pub(crate) fn extent(&self, options: Options, end: u64, unit: u64) -> Option<LowerFileExtent> {
        let (extent, found) = self.extent.lock().clone()?;
        let reaches = !options.shared || end <= extent.size - extent.size % unit;
        (reaches && options.trusts_extent(found)).then_some(extent)
    }

    /// The length of the file when it was last found.
    pub(crate) fn last_size(&self) -> Option<u64> {
        self.extent.lock().as_ref().map(|(extent, _)| extent.size)
    }

    /// Keeps what was found, under the lock that keeps changes out, or what a change has made of it.
    pub(crate) fn keep_extent(&self, extent: LowerFileExtent) {
        *self.extent.lock() = Some((extent, Instant::now()));
    }

    /// Has the next reader look again. Who changes the file does so first, and always looks.
    pub(crate) fn forget_extent(&self) {
        *self.extent.lock() = None;
    }

    /// Has the next reader look again if the file has another size than this one.
    pub(crate) fn check_extent(&self, size: u64) {
        let mut kept = self.extent.lock();
        if kept.as_ref().is_some_and(|(extent, _)| extent.size != size) {
            *kept = None;
        }
    }

    /// Has the lower file opened anew for what comes next: many network file systems look for changes
    /// of other clients at that time only.
    pub(crate) fn close(&self) {
        *self.file.lock() = None;
        self.forget_extent();
    }

    /// Closes the lower file: many network file systems write at that time what other clients are to see,
    /// and hold other clients up while it is open. What comes next opens it again.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn flush(&self) -> Result<()> {
        let Some(opened) = self.file.lock().take() else {
            return Ok(());
        };
        match Arc::try_unwrap(opened.file) {
            Ok(file) => close(file),
            // Another request uses it. Closing a copy flushes in the same way.
            Err(used) => settle(&used),
        }
    }

    /// The lower file, if it is open.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for what is no file.
    fn opened(&self) -> Result<Option<OpenFile>> {
        match self.kind {
            Kind::File => Ok(self.file.lock().clone()),
            Kind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// Returns the entry of a directory.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub(crate) fn directory(&self) -> Result<&Entry> {
        match self.kind {
            Kind::Directory => Ok(&self.entry),
            _ => Err(Error::NotDirectory),
        }
    }
}

/// All inodes that the front end has looked up, and how often.
pub(crate) struct LowerInodes<N> {
    known: Mutex<HashMap<Ino, InodeEntry<N>>>,
    open: Mutex<VecDeque<Weak<LowerInode<N>>>>,
    options: Options,
}

struct InodeEntry<N> {
    inode: Arc<LowerInode<N>>,
    lookups: u64,
}

impl<N> LowerInodes<N> {
    /// With the root, which is never forgotten.
    pub(crate) fn new(root: LowerInode<N>, options: Options) -> LowerInodes<N> {
        let root = InodeEntry {
            inode: Arc::new(root),
            lookups: 0,
        };
        LowerInodes {
            known: Mutex::new(HashMap::from([(vfs::ROOT, root)])),
            open: Mutex::new(VecDeque::new()),
            options,
        }
    }

    /// A known inode.
    ///
    /// # Errors
    /// `Stale`.
    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<LowerInode<N>>> {
        let known = self.known.lock();
        let found = known.get(&ino).ok_or(Error::Stale)?;
        Ok(Arc::clone(&found.inode))
    }

    /// The inode, if it is known; with one lookup more.
    pub(crate) fn look_up(&self, ino: Ino) -> Option<Arc<LowerInode<N>>> {
        let mut known = self.known.lock();
        let found = known.get_mut(&ino)?;
        found.lookups += 1;
        Some(Arc::clone(&found.inode))
    }

    /// Enters an inode with one lookup; the one that another thread has entered first wins.
    pub(crate) fn enter(&self, inode: LowerInode<N>) -> Arc<LowerInode<N>> {
        let mut known = self.known.lock();
        let entered = known.entry(inode.ino).or_insert_with(|| InodeEntry {
            inode: Arc::new(inode),
            lookups: 0,
        });
        entered.lookups += 1;
        Arc::clone(&entered.inode)
    }

    /// Puts another inode of the same number in the place of one; the one that another thread has put there
    /// first wins.
    pub(crate) fn replace(
        &self,
        old: &Arc<LowerInode<N>>,
        new: LowerInode<N>,
    ) -> Result<Arc<LowerInode<N>>> {
        let mut known = self.known.lock();
        let found = known.get_mut(&old.ino).ok_or(Error::Stale)?;
        if Arc::ptr_eq(&found.inode, old) {
            found.inode = Arc::new(new);
        }
        Ok(Arc::clone(&found.inode))
    }

    /// The numbers of known files and links that a test holds for.
    pub(crate) fn with_contents(&self, is_one: impl Fn(&N) -> bool) -> Vec<Ino> {
        let known = self.known.lock();
        let inodes = known.values().map(|known| &known.inode);
        let found = inodes.filter(|inode| {
            matches!(inode.kind, Kind::File | Kind::Symlink) && is_one(&inode.node)
        });
        found.map(|inode| inode.ino).collect()
    }

    /// All that are known.
    pub(crate) fn all(&self) -> Vec<Arc<LowerInode<N>>> {
        let known = self.known.lock();
        known.values().map(|known| known.inode.clone()).collect()
    }

    /// Gives lookups back.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        let mut known = self.known.lock();
        if let Some(found) = known.get_mut(&ino) {
            found.lookups = found.lookups.saturating_sub(count);
            if found.lookups == 0 && ino != vfs::ROOT {
                known.remove(&ino);
            }
        }
    }

    /// Gives all lookups back.
    pub(crate) fn forget_all(&self) {
        self.known.lock().retain(|ino, _| *ino == vfs::ROOT);
    }

    /// The lower file of an inode, open to read.
    ///
    /// A file that is only read is not opened to write: network file systems let a client keep what it
    /// has read as long as no client has the file open to write. CephFS (ceph-fuse) shows old bytes where
    /// two clients have.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` for what is no file; those of `open`.
    pub(crate) fn file(&self, inode: &Arc<LowerInode<N>>) -> Result<Arc<OwnedFd>> {
        if let Some(opened) = inode.opened()? {
            return Ok(opened.file);
        }
        let file = self.open_lower(inode, OFlags::RDONLY)?;
        Ok(self.keep(inode, file, false))
    }

    /// The lower file of an inode, open to read, and to write where that is possible.
    ///
    /// # Errors
    /// As [`LowerInodes::file`].
    pub(crate) fn file_to_write(&self, inode: &Arc<LowerInode<N>>) -> Result<Arc<OwnedFd>> {
        if let Some(opened) = inode.opened()?.filter(|opened| opened.to_write) {
            return Ok(opened.file);
        }
        match self.open_lower(inode, OFlags::RDWR) {
            Err(Error::Access | Error::ReadOnly | Error::NotPermitted) => self.file(inode),
            file => Ok(self.keep(inode, file?, true)),
        }
    }

    /// The lower file, open to be read from the server: past the page cache of this machine.
    ///
    /// # Errors
    /// As [`LowerInodes::file`]; `Invalid` if the lower file system has no such reads.
    pub(crate) fn file_of_server(&self, inode: &Arc<LowerInode<N>>) -> Result<Arc<OwnedFd>> {
        if let Some(OpenFile {
            direct: Some(file), ..
        }) = inode.opened()?
        {
            return Ok(file);
        }
        let file = Arc::new(self.open_lower(inode, OFlags::RDONLY | OFlags::DIRECT)?);
        if let Some(opened) = &mut *inode.file.lock() {
            opened.direct = Some(Arc::clone(&file));
        }
        Ok(file)
    }

    fn open_lower(&self, inode: &LowerInode<N>, flags: OFlags) -> Result<OwnedFd> {
        match self.options.noatime {
            true => inode.entry.reopen_without_atime(flags),
            false => inode.entry.reopen(flags),
        }
    }

    /// The lower directory, open to be listed.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn open_dir(&self, entry: &Entry) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.options.noatime || self.options.nodiratime {
            true => entry.reopen_without_atime(flags),
            false => entry.reopen(flags),
        }
    }

    /// Keeps an open lower file with its inode, and closes the one that was opened first of all.
    pub(crate) fn keep(
        &self,
        inode: &Arc<LowerInode<N>>,
        file: OwnedFd,
        to_write: bool,
    ) -> Arc<OwnedFd> {
        let mut slot = inode.file.lock();
        match &*slot {
            Some(other) if other.to_write && !to_write => return Arc::clone(&other.file),
            _ => {}
        }
        let file = Arc::new(file);
        *slot = Some(OpenFile {
            file: Arc::clone(&file),
            to_write,
            direct: None,
        });
        drop(slot);
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(inode));
        let oldest = (open.len() > OPEN_MAX).then(|| open.pop_front()).flatten();
        drop(open);
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            *oldest.file.lock() = None;
        }
        file
    }
}
