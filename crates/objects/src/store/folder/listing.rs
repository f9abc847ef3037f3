//! Lists of the objects below a folder, in the order of names.

use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::store::folder::files::FolderFiles;
use crate::store::folder::name::{DEPTH_MAX, folders, is_part};
use crate::store::interface::ListedObject;

/// Lists the objects below `prefix`, those after `after`, at most `limit`.
pub(super) fn list(
    files: &FolderFiles,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<ListedObject>, Errno> {
    let folders = folders(prefix)?;
    let folder = match files.existing_folder(&folders) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        folder => folder?,
    };
    let mut first = FirstNames {
        after,
        limit,
        names: BinaryHeap::new(),
    };
    first.read(folder, prefix, folders.len())?;
    let names = first.names.into_sorted_vec().into_iter();
    Ok(names
        .map(|(name, size)| ListedObject { name, size })
        .collect())
}

/// The first names in order of those that were read.
struct FirstNames<'a> {
    after: Option<&'a str>,
    limit: usize,
    /// Names and sizes, the last name on top.
    names: BinaryHeap<(String, u64)>,
}

impl FirstNames<'_> {
    fn read(&mut self, folder: OwnedFd, prefix: &str, depth: usize) -> Result<(), Errno> {
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            // A name that no object can have belongs to something else.
            let Some(part) = entry.file_name().to_str().ok().filter(|part| is_part(part)) else {
                continue;
            };
            let name = format!("{prefix}{part}");
            if entry.file_type() == FileType::RegularFile && !self.is_among_first(&name) {
                continue;
            }
            let about = match statat(&folder, part, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                about => about?,
            };
            match FileType::from_raw_mode(about.st_mode) {
                FileType::RegularFile if self.is_among_first(&name) => {
                    let size = u64::try_from(about.st_size).unwrap_or(0);
                    self.names.push((name, size));
                    if self.names.len() > self.limit {
                        self.names.pop();
                    }
                }
                FileType::Directory if depth < DEPTH_MAX => {
                    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    match openat(&folder, part, flags, Mode::empty()) {
                        Err(Errno::NOENT) => {}
                        below => self.read(below?, &format!("{name}/"), depth + 1)?,
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_among_first(&self, name: &str) -> bool {
        self.after.is_none_or(|after| name > after)
            && (self.names.len() < self.limit
                || self
                    .names
                    .peek()
                    .is_some_and(|(last, _)| name < last.as_str()))
    }
}
