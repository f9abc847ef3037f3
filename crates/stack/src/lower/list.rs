//! Listing a directory of the lower tree.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, RawDir, SeekFrom};
use vfs::{Error, Kind, Result};

use super::{Entry, posix};

/// A name in a lower directory.
pub(crate) struct LowerDirEntry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) ino: u64,
    /// The kind of the entry; nothing where the lower file system does not say.
    pub(crate) kind: Option<Kind>,
    /// The cookie with which a listing continues after it.
    pub(crate) cookie: u64,
}

/// Calls `each` with the entries of a directory after `cookie` (0: all), until it returns false.
///
/// # Errors
/// Those of `open` and `getdents`, and of `each`.
pub(crate) fn list(
    dir: &Entry,
    cookie: u64,
    each: impl FnMut(LowerDirEntry<'_>) -> Result<bool>,
) -> Result<()> {
    list_open(
        &dir.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?,
        cookie,
        each,
    )
}

/// Lists like [`list`], a directory that is open.
///
/// # Errors
/// Those of `getdents`, and of `each`.
pub(crate) fn list_open(
    file: &OwnedFd,
    cookie: u64,
    mut each: impl FnMut(LowerDirEntry<'_>) -> Result<bool>,
) -> Result<()> {
    if cookie != 0 {
        rustix::fs::seek(file, SeekFrom::Start(cookie)).map_err(|_| Error::Invalid)?;
    }
    let mut buffer = [const { MaybeUninit::uninit() }; 32 << 10];
    let mut entries = RawDir::new(file, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(posix)?;
        let listed = LowerDirEntry {
            name: entry.file_name().to_bytes(),
            ino: entry.ino(),
            kind: kind(entry.file_type()),
            cookie: entry.next_entry_cookie(),
        };
        if !each(listed)? {
            break;
        }
    }
    Ok(())
}

pub(crate) fn kind(kind: FileType) -> Option<Kind> {
    Some(match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return None,
    })
}
