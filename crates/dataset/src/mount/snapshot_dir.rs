//! The file system that is mounted: a dataset, and in its directory `.snapshot` its snapshots, read-only.
//!
//! The upper bits of an inode number name its tree: 0 is the dataset itself, 1 the directory `.snapshot`. Each snapshot
//! gets a number of its own at its first look-up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pool::Entry;
use vfs::{
    Attr, Caller, DirEntry, Error, FileFlags, FileSystem, Ino, Kind, NewNode, ROOT, RenameMode,
    Result, SNAPSHOT_DIR, Time, Trust,
};

use crate::core::Dataset;
use crate::fs::to_errno;
use crate::layout::INO_LIMIT;
use crate::mount::closed_dirs::{ClosedCheck, ClosedDirs};
use crate::mount::open_snapshots::OpenSnapshots;

const TREE_BITS: u32 = INO_LIMIT.ilog2();
const HEAD: u64 = 0;
const CONTROL: u64 = 1;
/// The directory of snapshots as an inode.
const CONTROL_INO: Ino = CONTROL << TREE_BITS | ROOT;
/// The cookie at which a listing of the root continues behind `.snapshot`.
const CONTROL_COOKIE: u64 = i64::MAX as u64 - 1;

/// Opens a snapshot by its entry.
pub type OpenSnapshot = Box<dyn Fn(&Entry) -> crate::Result<Arc<Dataset>> + Send + Sync>;

/// A mounted dataset with its snapshots.
pub struct SnapshotDirFs {
    head: Arc<Dataset>,
    open_snapshot: OpenSnapshot,
    /// True if listings of the root show `.snapshot`.
    visible: AtomicBool,
    snapshots: OpenSnapshots,
    closed: ClosedDirs,
}

/// The place of an inode.
enum MountedInode {
    /// In the dataset.
    Head(Ino),
    /// The directory `.snapshot`.
    Control,
    /// In a snapshot, with the upper bits of its inode numbers.
    Snapshot(Arc<Dataset>, Ino, u64),
}

impl SnapshotDirFs {
    /// A file system with a dataset and its snapshots.
    pub fn new(head: Arc<Dataset>, open_snapshot: OpenSnapshot, visible: bool) -> SnapshotDirFs {
        SnapshotDirFs {
            head,
            open_snapshot,
            visible: AtomicBool::new(visible),
            snapshots: OpenSnapshots::default(),
            closed: ClosedDirs::default(),
        }
    }

    /// Lets nothing be made in a directory as long as `is_closed` says so, also for root, and lets nothing else take its
    /// place. Nothing is stored: it ends with this file system.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the path leads to nothing, [`Error::NotDirectory`] if it is no directory of the dataset.
    pub fn close_dir(&self, path: &Path, is_closed: ClosedCheck) -> Result<()> {
        self.closed.close(&self.head, path, is_closed)
    }

    /// Makes or removes a directory that is closed or lies in a closed one, through the mount.
    pub fn change_closed<T>(&self, path: &Path, change: impl FnOnce() -> T) -> T {
        self.closed.except(&self.head, path, change)
    }

    /// The dataset itself.
    pub fn head(&self) -> &Arc<Dataset> {
        &self.head
    }

    /// Shows or hides `.snapshot` in listings.
    pub fn set_visible(&self, visible: bool) {
        self.visible.store(visible, Ordering::Relaxed);
    }

    /// Closes a snapshot that is to be destroyed. Programs that have it open get `ESTALE`.
    pub fn close_snapshot(&self, id: u64) {
        self.snapshots.close(id);
    }

    /// Closes all snapshots.
    pub fn close_snapshots(&self) {
        self.snapshots.close_all();
    }

    fn place(&self, ino: Ino) -> Result<MountedInode> {
        let (tree, own) = (ino >> TREE_BITS, ino & (INO_LIMIT - 1));
        match tree {
            HEAD => Ok(MountedInode::Head(own)),
            CONTROL => Ok(MountedInode::Control),
            _ => Ok(MountedInode::Snapshot(
                self.snapshots.get(tree)?,
                own,
                tree << TREE_BITS,
            )),
        }
    }

    /// The inode in the dataset. Refuses inodes of snapshots, because they cannot be changed.
    fn head_ino(&self, ino: Ino) -> Result<Ino> {
        match self.place(ino)? {
            MountedInode::Head(ino) => Ok(ino),
            MountedInode::Control | MountedInode::Snapshot(..) => Err(Error::ReadOnly),
        }
    }

    /// Asks the dataset or snapshot that has an inode. For the directory `.snapshot` the answer is `control`.
    fn ask<T>(
        &self,
        ino: Ino,
        control: Result<T>,
        ask: impl FnOnce(&Dataset, Ino) -> Result<T>,
    ) -> Result<T> {
        match self.place(ino)? {
            MountedInode::Head(ino) => ask(&self.head, ino),
            MountedInode::Control => control,
            MountedInode::Snapshot(dataset, ino, _) => ask(&dataset, ino),
        }
    }

    fn entries(&self) -> Result<Vec<Arc<Entry>>> {
        let pool = &self.head.pool;
        pool.snapshots(self.head.id())
            .map_err(|error| to_errno(error.into()))
    }

    fn lookup_snapshot(&self, name: &[u8]) -> Result<Attr> {
        let snapshots = self.entries()?;
        let entry = snapshots.iter().find(|entry| entry.name.as_bytes() == name);
        let entry = entry.ok_or(Error::NotFound)?;
        let open = || (self.open_snapshot)(entry).map_err(to_errno);
        let (tree, dataset) = self.snapshots.open(entry.id, open)?;
        Ok(in_tree(dataset.lookup(ROOT, b".")?, tree << TREE_BITS))
    }

    fn control_attr(&self) -> Result<Attr> {
        let root = self.head.getattr(ROOT)?;
        let snapshots = self.entries()?;
        let changed = snapshots.last().map_or(root.btime, |entry| Time {
            secs: entry.created as i64,
            nanos: 0,
        });
        Ok(Attr {
            ino: CONTROL_INO,
            kind: Kind::Directory,
            mode: 0o555,
            nlink: 2 + snapshots.len() as u32,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: snapshots.len() as u64 + 2,
            blocks: 0,
            is_passing: false,
            blksize: root.blksize,
            atime: changed,
            mtime: changed,
            ctime: changed,
            btime: root.btime,
        })
    }

    fn list_control(&self, cookie: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result<()> {
        let dots = [(1, &b"."[..], CONTROL_INO), (2, b"..", ROOT)];
        let snapshots = self.entries()?;
        // The inode of a snapshot is known only after its first look-up.
        let named = snapshots
            .iter()
            .map(|entry| (entry.id + 2, entry.name.as_bytes(), CONTROL_INO));
        for (at, name, ino) in dots
            .into_iter()
            .chain(named)
            .filter(|(at, ..)| *at > cookie)
        {
            let entry = DirEntry {
                ino,
                kind: Kind::Directory,
                name,
                cookie: at,
                attr: None,
            };
            if !emit(&entry) {
                break;
            }
        }
        Ok(())
    }

    fn list_root(
        &self,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let mut full = false;
        if cookie < CONTROL_COOKIE {
            self.head.readdir(ROOT, cookie, attrs, &mut |entry| {
                full = !emit(entry);
                !full
            })?;
        }
        if !full && cookie < CONTROL_COOKIE && self.visible.load(Ordering::Relaxed) {
            emit(&DirEntry {
                ino: CONTROL_INO,
                kind: Kind::Directory,
                name: SNAPSHOT_DIR,
                cookie: CONTROL_COOKIE,
                attr: None,
            });
        }
        Ok(())
    }
}

/// The attributes of an inode with its number in the mount.
fn in_tree(attr: Attr, tree: u64) -> Attr {
    Attr {
        ino: tree | attr.ino,
        ..attr
    }
}

/// Refuses the name `.snapshot` in the root, which is in use.
fn refuse_control(parent: Ino, name: &[u8]) -> Result<()> {
    if parent == ROOT && name == SNAPSHOT_DIR {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

impl FileSystem for SnapshotDirFs {
    vfs::methods! { self;
        getattr(ino) => match self.place(ino)? {
            MountedInode::Head(ino) => self.head.getattr(ino),
            MountedInode::Control => self.control_attr(),
            MountedInode::Snapshot(dataset, ino, tree) => Ok(in_tree(dataset.getattr(ino)?, tree)),
        };
        owner(ino) => match self.place(ino)? {
            MountedInode::Head(ino) => self.head.owner(ino),
            MountedInode::Control | MountedInode::Snapshot(..) => self.getattr(ino),
        };
        setattr(caller, ino, set) => self.head.setattr(caller, self.head_ino(ino)?, set);
        flags(ino) => self.ask(ino, Ok(FileFlags::default()), |fs, ino| fs.flags(ino));
        set_flags(ino, flags) => self.head.set_flags(self.head_ino(ino)?, flags);
        readlink(ino) => self.ask(ino, Err(Error::Invalid), |fs, ino| fs.readlink(ino));
        read(ino, offset, len) => self.ask(ino, Err(Error::IsDirectory), |fs, ino| fs.read(ino, offset, len));
        write(ino, offset, data, kill_suidgid) => self.head.write(self.head_ino(ino)?, offset, data, kill_suidgid);
        fsync(ino, datasync) => match self.place(ino)? {
            MountedInode::Head(ino) => self.head.fsync(ino, datasync),
            MountedInode::Control | MountedInode::Snapshot(..) => Ok(()),
        };
        sync() => self.head.sync();
        fallocate(ino, offset, len, mode) => self.head.fallocate(self.head_ino(ino)?, offset, len, mode);
        seek(ino, offset, what) => self.ask(ino, Err(Error::Invalid), |fs, ino| fs.seek(ino, offset, what));
        readdir(ino, cookie, attrs, emit) => match self.place(ino)? {
            MountedInode::Head(ROOT) => self.list_root(cookie, attrs, emit),
            MountedInode::Head(ino) => self.head.readdir(ino, cookie, attrs, emit),
            MountedInode::Control => self.list_control(cookie, emit),
            MountedInode::Snapshot(dataset, ino, tree) => {
                dataset.readdir(ino, cookie, attrs, &mut |entry| {
                    let up = ino == ROOT && entry.name == b"..";
                    emit(&DirEntry {
                        ino: if up { CONTROL_INO } else { tree | entry.ino },
                        attr: entry.attr.map(|attr| in_tree(attr, tree)),
                        ..*entry
                    })
                })
            }
        };
        statfs() => self.head.statfs();
        setxattr(ino, name, value, how) => self.head.setxattr(self.head_ino(ino)?, name, value, how);
        getxattr(ino, name) => self.ask(ino, Err(Error::NoAttribute), |fs, ino| fs.getxattr(ino, name));
        listxattr(ino) => self.ask(ino, Ok(Vec::new()), |fs, ino| fs.listxattr(ino));
        removexattr(ino, name) => self.head.removexattr(self.head_ino(ino)?, name);
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        if parent == ROOT && name == SNAPSHOT_DIR {
            return self.control_attr();
        }
        match self.place(parent)? {
            MountedInode::Head(ino) => self.head.lookup(ino, name),
            MountedInode::Control if name == b"." => self.control_attr(),
            MountedInode::Control if name == b".." => self.head.lookup(ROOT, b"."),
            MountedInode::Control => self.lookup_snapshot(name),
            MountedInode::Snapshot(_, ROOT, _) if name == b".." => self.control_attr(),
            MountedInode::Snapshot(dataset, ino, tree) => {
                Ok(in_tree(dataset.lookup(ino, name)?, tree))
            }
        }
    }

    fn forget(&self, ino: Ino, count: u64) {
        let (tree, own) = (ino >> TREE_BITS, ino & (INO_LIMIT - 1));
        match tree {
            HEAD => self.head.forget(own, count),
            CONTROL => {}
            _ => self.snapshots.forget(tree, own, count),
        }
    }

    fn forget_all(&self) {
        self.head.forget_all();
        self.close_snapshots();
    }

    fn known(&self) -> Vec<Ino> {
        let of_snapshots = self.snapshots.known().into_iter();
        let of_snapshots = of_snapshots.map(|(tree, ino)| tree << TREE_BITS | ino);
        self.head.known().into_iter().chain(of_snapshots).collect()
    }

    fn trust(&self, ino: Ino) -> Trust {
        match ino >> TREE_BITS == CONTROL {
            true => Trust::Once,
            false => Trust::Lasting,
        }
    }

    /// The generation, cut to 32 bits as in the kernel.
    fn generation(&self, found: &Attr) -> u64 {
        let (tree, born) = (found.ino >> TREE_BITS, self.head.generation(found));
        let id = match tree {
            HEAD | CONTROL => 0,
            // In another mount another snapshot may have the same number and inode.
            _ => self.snapshots.get(tree).map_or(0, |dataset| dataset.id()),
        };
        let mixed = (born ^ id.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> 32
    }

    fn mknod(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        refuse_control(parent, name)?;
        self.closed.refuse_new(parent)?;
        self.head.mknod(caller, self.head_ino(parent)?, name, node)
    }

    fn tmpfile(&self, caller: &Caller, parent: Ino, node: &NewNode) -> Result<Attr> {
        self.closed.refuse_new(parent)?;
        self.head.tmpfile(caller, self.head_ino(parent)?, node)
    }

    fn mkdir(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        refuse_control(parent, name)?;
        self.closed.refuse_new_dir(parent, name)?;
        self.head.mkdir(caller, self.head_ino(parent)?, name, node)
    }

    fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Attr> {
        refuse_control(parent, name)?;
        self.closed.refuse_new(parent)?;
        self.head
            .symlink(caller, self.head_ino(parent)?, name, target)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        refuse_control(parent, name)?;
        self.closed.refuse_new(parent)?;
        if ino >> TREE_BITS != parent >> TREE_BITS {
            return Err(Error::CrossDevice);
        }
        self.head.link(self.head_ino(ino)?, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        refuse_control(parent, name)?;
        self.head.unlink(self.head_ino(parent)?, name)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        refuse_control(parent, name)?;
        let parent = self.head_ino(parent)?;
        self.closed.refuse_loss(&self.head, parent, name)?;
        self.head.rmdir(parent, name)
    }

    fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        refuse_control(parent, name)?;
        refuse_control(new_parent, new_name)?;
        // An exchange and a whiteout put a name into both.
        if matches!(mode, RenameMode::Exchange | RenameMode::Whiteout(_)) {
            self.closed.refuse_new(parent)?;
        }
        self.closed.refuse_new(new_parent)?;
        self.closed.refuse_loss(&self.head, parent, name)?;
        self.closed.refuse_loss(&self.head, new_parent, new_name)?;
        if parent >> TREE_BITS != new_parent >> TREE_BITS {
            return Err(Error::CrossDevice);
        }
        self.head
            .rename(self.head_ino(parent)?, name, new_parent, new_name, mode)
    }

    fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let to = self.head_ino(to)?;
        match self.place(from)? {
            MountedInode::Head(from) => self.head.copy_range(from, from_offset, to, to_offset, len),
            MountedInode::Control | MountedInode::Snapshot(..) => Err(Error::CrossDevice),
        }
    }
}
