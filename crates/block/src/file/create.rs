//! New files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Makes a file of `size` bytes, all of them holes, readable by its owner only. It must not exist.
pub(super) fn create(path: &Path, size: u64) -> io::Result<File> {
    match create_whole(path, size) {
        Err(error) if has_no_unnamed_files(&error) => create_in_place(path, size),
        made => made,
    }
}

/// Makes a file without a name, and gives it one when it has its size: a crash leaves it whole or not
/// at all.
pub(super) fn create_whole(path: &Path, size: u64) -> io::Result<File> {
    let file = unnamed(path)?;
    file.set_len(size)?;
    file.sync_all()?;
    rustix::fs::linkat(&file, "", CWD, path, AtFlags::EMPTY_PATH)?;
    named(file, path)
}

/// Makes a file without a name, to see whether [`create`] would succeed. It is gone when it is closed.
pub(super) fn rehearse(path: &Path, size: u64) -> io::Result<File> {
    if path.symlink_metadata().is_ok() {
        return Err(Errno::EXIST.into());
    }
    let file = match unnamed(path) {
        Err(error) if has_no_unnamed_files(&error) => {
            let file = new_file(path)?;
            std::fs::remove_file(path)?;
            file
        }
        opened => opened?,
    };
    file.set_len(size)?;
    Ok(file)
}

/// The longest file, below `size`, that the file system of `path` allows. None if it cannot be found out.
pub(super) fn limit(path: &Path, size: u64) -> Option<u64> {
    let file = unnamed(path).ok()?;
    let (mut allowed, mut refused) = (0, size);
    while refused - allowed > 1 {
        let middle = allowed + (refused - allowed) / 2;
        match file.set_len(middle) {
            Ok(()) => allowed = middle,
            Err(error) if is_too_large(&error, middle) => refused = middle,
            Err(_) => return None,
        }
    }
    (allowed > 0).then_some(allowed)
}

/// Returns whether a file system does not allow files of this size.
pub(super) fn is_too_large(error: &io::Error, size: u64) -> bool {
    let is_no_size = i64::try_from(size).is_err();
    match error.kind() {
        io::ErrorKind::FileTooLarge => true,
        io::ErrorKind::InvalidInput => is_no_size,
        _ => false,
    }
}

/// Returns whether that cannot be done on a file system, or before Linux 6.10 by an ordinary user.
fn has_no_unnamed_files(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    // If the directory is missing, the other way says so too.
    [Errno::OPNOTSUPP, Errno::ISDIR, Errno::NOENT, Errno::INVAL]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

pub(super) fn create_in_place(path: &Path, size: u64) -> io::Result<File> {
    let file = new_file(path)?;
    if let Err(error) = file.set_len(size).and_then(|()| file.sync_all()) {
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    named(file, path)
}

/// An empty file without a name, beside `path`.
fn unnamed(path: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(File::from(rustix::fs::open(parent(path), flags, mode)?))
}

/// An empty file at `path`, where nothing may be.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// Makes the name of a new file durable.
fn named(file: File, path: &Path) -> io::Result<File> {
    match File::open(parent(path)).and_then(|parent| parent.sync_all()) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(error)
        }
    }
}

/// The directory that a file is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
