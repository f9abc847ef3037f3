//! Files that appear whole or not at all, and stay after a power failure.
//!
//! A file gets its name only when its bytes are durable, and a request succeeds only when the name is durable too. No
//! part of a path below the folder may be a symbolic link. The folder stays open, so that the place where it was mounted
//! cannot take its name later.

use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fstat, fsync, linkat, mkdirat, openat,
    renameat, renameat_with, unlinkat,
};
use rustix::io::{Errno, pread};

use crate::store::folder::name::{ObjectPath, UNFINISHED};
use crate::store::interface::{Creation, Part};

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Another request can remove an empty folder while a file is written for it. It does not do so often.
const ATTEMPTS: usize = 16;

type Result<T> = std::result::Result<T, Errno>;

/// The files below a folder.
pub(super) struct FolderFiles {
    path: PathBuf,
    /// Absent until the folder exists.
    root: Mutex<Option<Arc<OwnedFd>>>,
}

/// The thing to do about a folder that is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    Report,
    Make,
}

impl FolderFiles {
    /// Opens the folder if it exists.
    ///
    /// # Errors
    /// The path is a symbolic link or no folder, or the process may not open it.
    pub(super) fn open(path: &Path) -> Result<FolderFiles> {
        let files = FolderFiles {
            path: path.to_owned(),
            root: Mutex::new(None),
        };
        match files.root(Absence::Report) {
            Ok(_) | Err(Errno::NOENT) => Ok(files),
            Err(error) => Err(error),
        }
    }

    /// Makes a file if there is none of that name.
    pub(super) fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation> {
        let path = ObjectPath::new(name)?;
        self.in_folder(&path.folders, |folder| {
            let file = UnfinishedFile::write(folder, bytes)?;
            let creation = match file.name(path.file) {
                Ok(()) => Creation::Made,
                Err(Errno::EXIST) => Creation::Exists,
                Err(error) => return Err(error),
            };
            // The other one may have stopped before its name was durable.
            fsync(folder)?;
            Ok(creation)
        })
    }

    /// Makes or replaces a file.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = ObjectPath::new(name)?;
        self.in_folder(&path.folders, |folder| {
            let file = UnfinishedFile::write_with_name(folder, bytes)?;
            file.take_place_of(path.file)?;
            fsync(folder)
        })
    }

    /// Reads a range of a file.
    pub(super) fn read(&self, name: &str, range: Range<u64>) -> Result<Option<Part>> {
        let path = ObjectPath::new(name)?;
        let folder = match self.folder(&path.folders, Absence::Report) {
            Err(Errno::NOENT) => return Ok(None),
            folder => folder?,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&folder, path.file, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        let about = fstat(&file)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(Errno::ISDIR);
        }
        let size = u64::try_from(about.st_size).map_err(|_| Errno::OVERFLOW)?;
        let bytes = read_range(&file, range.start, size.min(range.end))?;
        Ok(Some(Part { bytes, size }))
    }

    /// Removes a file, and the folders that are empty then.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let path = ObjectPath::new(name)?;
        let folder = match self.folder(&path.folders, Absence::Report) {
            Err(Errno::NOENT) => return Ok(()),
            folder => folder?,
        };
        match unlinkat(&folder, path.file, AtFlags::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            removed => removed?,
        }
        fsync(&folder)?;
        let mut folders = path.folders;
        while let Some(last) = folders.pop() {
            let parent = self.folder(&folders, Absence::Report)?;
            // It is not empty, or another request removed it.
            if unlinkat(&parent, last, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Opens a folder for a list.
    pub(super) fn existing_folder(&self, folders: &[&str]) -> Result<OwnedFd> {
        self.folder(folders, Absence::Report)
    }

    /// Works in a folder, which is made if it is missing.
    fn in_folder<T>(&self, folders: &[&str], work: impl Fn(&OwnedFd) -> Result<T>) -> Result<T> {
        let mut outcome = Err(Errno::NOENT);
        for _ in 0..ATTEMPTS {
            outcome = self
                .folder(folders, Absence::Make)
                .and_then(|folder| work(&folder));
            if !matches!(outcome, Err(Errno::NOENT)) {
                break;
            }
        }
        outcome
    }

    fn folder(&self, folders: &[&str], absence: Absence) -> Result<OwnedFd> {
        let root = self.root(absence)?;
        // A second handle of the same folder.
        let mut folder = openat(&*root, ".", FOLDER, Mode::empty())?;
        for name in folders {
            folder = open_folder(&folder, name, absence)?;
        }
        Ok(folder)
    }

    fn root(&self, absence: Absence) -> Result<Arc<OwnedFd>> {
        let mut root = self.root.lock();
        if let Some(root) = &*root {
            return Ok(Arc::clone(root));
        }
        let folder = match openat(CWD, &self.path, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) if absence == Absence::Make => self.make_root()?,
            folder => folder?,
        };
        let folder = Arc::new(folder);
        *root = Some(Arc::clone(&folder));
        Ok(folder)
    }

    fn make_root(&self) -> Result<OwnedFd> {
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(Errno::NOENT);
        };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let parent = openat(CWD, parent, flags, Mode::empty())?;
        make_folder(&parent, Path::new(name))
    }
}

fn open_folder(parent: &OwnedFd, name: &str, absence: Absence) -> Result<OwnedFd> {
    match openat(parent, name, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) if absence == Absence::Make => make_folder(parent, Path::new(name)),
        folder => folder,
    }
}

fn make_folder(parent: &OwnedFd, name: &Path) -> Result<OwnedFd> {
    match mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => {}
        made => made?,
    }
    fsync(parent)?;
    openat(parent, name, FOLDER, Mode::empty())
}

fn read_range(file: &OwnedFd, start: u64, end: u64) -> Result<Bytes> {
    let size = usize::try_from(end.saturating_sub(start)).map_err(|_| Errno::NOMEM)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| Errno::NOMEM)?;
    bytes.resize(size, 0);
    let mut done = 0;
    while done < size {
        match pread(file, &mut bytes[done..], start + done as u64) {
            // It was shortened since.
            Ok(0) => return Err(Errno::IO),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes.into())
}

/// A file whose bytes are durable, but which has not its name yet.
struct UnfinishedFile<'a> {
    folder: &'a OwnedFd,
    file: OwnedFd,
    /// The name for now, on file systems on which each file needs one.
    name: Option<String>,
}

impl<'a> UnfinishedFile<'a> {
    /// Writes a file without a name where that is possible: nothing is left of it after a crash.
    fn write(folder: &'a OwnedFd, bytes: &[u8]) -> Result<UnfinishedFile<'a>> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(folder, ".", flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                let unfinished = UnfinishedFile {
                    folder,
                    file,
                    name: None,
                };
                unfinished.fill(bytes)
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                UnfinishedFile::write_with_name(folder, bytes)
            }
            Err(error) => Err(error),
        }
    }

    fn write_with_name(folder: &'a OwnedFd, bytes: &[u8]) -> Result<UnfinishedFile<'a>> {
        let name = format!("{UNFINISHED}{:016x}", random()?);
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let unfinished = UnfinishedFile {
            folder,
            file,
            name: Some(name),
        };
        unfinished.fill(bytes)
    }

    fn fill(self, mut bytes: &[u8]) -> Result<UnfinishedFile<'a>> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.file, bytes) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        fsync(&self.file)?;
        Ok(self)
    }

    /// Gives the file its name, if no other file has it.
    fn name(&self, file: &str) -> Result<()> {
        let Some(unfinished) = &self.name else {
            let handle = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
            return linkat(CWD, handle, self.folder, file, AtFlags::SYMLINK_FOLLOW);
        };
        match linkat(
            self.folder,
            unfinished.as_str(),
            self.folder,
            file,
            AtFlags::empty(),
        ) {
            // A file system without second names of files.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => renameat_with(
                self.folder,
                unfinished.as_str(),
                self.folder,
                file,
                RenameFlags::NOREPLACE,
            ),
            linked => linked,
        }
    }

    /// Gives the file its name, and takes it from another file.
    fn take_place_of(&self, file: &str) -> Result<()> {
        let unfinished = self.name.as_deref().ok_or(Errno::INVAL)?;
        renameat(self.folder, unfinished, self.folder, file)
    }
}

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // It was renamed, or it is not needed any more.
            let _ = unlinkat(self.folder, name.as_str(), AtFlags::empty());
        }
    }
}

impl fmt::Debug for FolderFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FolderFiles({})", self.path.display())
    }
}

/// A random number for a name.
fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(u64::from_le_bytes(bytes)),
        _ => Err(Errno::IO),
    }
}
