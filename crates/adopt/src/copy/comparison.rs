//! Comparisons of a file or directory with its copy in a dataset.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use console::outcome::Result;
use console::session::other;
use protocol::api::{Failure, FailureKind};
use rustix::io::Errno;

use crate::copy::attributes::{self, AttributeRules};
use crate::copy::contents;
use crate::copy::node::{FileNode, mtime};

/// Compares a file with its state when it was copied; of directories, whether both are one.
pub(crate) fn is_copy(from: &FileNode, copy: &FileNode) -> bool {
    let (a, b) = (&from.meta, &copy.meta);
    let is_same = if a.is_symlink() {
        let texts = (from.link_text(), copy.link_text());
        matches!(texts, (Ok(text), Ok(of_copy)) if text == of_copy)
    } else if a.is_file() {
        (a.len(), mtime(a)) == (b.len(), mtime(b))
    } else {
        a.is_dir() || a.rdev() == b.rdev()
    };
    a.file_type() == b.file_type() && is_same
}

/// Returns whether the dataset has the same file, or the same contents of a directory. Owners, modes and attributes
/// have to be the same too.
pub(crate) fn is_equal(from: &FileNode, copy: &FileNode) -> io::Result<bool> {
    let (a, b) = (&from.meta, &copy.meta);
    let facts = |node: &FileNode| (node.meta.uid(), node.meta.gid(), node.meta.mode());
    let rules = AttributeRules {
        owner: true,
        privileged: rustix::process::geteuid().is_root(),
    };
    if !is_copy(from, copy)
        || facts(from) != facts(copy)
        || attributes::attributes(from, rules)? != attributes::attributes(copy, rules)?
    {
        return Ok(false);
    }
    if a.is_file() {
        let same = contents::is_same(&from.open()?, &copy.open()?, b.len(), &mut |_| Ok(()));
        return same.map_err(|trouble| io::Error::other(trouble.why));
    }
    if !a.is_dir() {
        return Ok(true);
    }
    for name in from.names()? {
        let found = (from.child_on_mount(&name)?, copy.child_on_mount(&name)?);
        match found {
            (Some(from), Some(copy)) if is_equal(&from, &copy)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns whether anything but directories is in a directory.
///
/// # Errors
/// Something is mounted in it, or it cannot be listed.
pub(crate) fn has_files(dir: &FileNode, path: &Path) -> Result<bool> {
    // All of it is looked at, for mounts.
    let mut has = false;
    for name in names(dir, path)? {
        let path = path.join(&name);
        if let Some(entry) = dir.child_on_mount(&name).map_err(failed_at(&path))? {
            has |= !entry.meta.is_dir() || has_files(&entry, &path)?;
        }
    }
    Ok(has)
}

/// The names in a directory. One that the daemon closed cannot be listed by its user, and has none.
pub(crate) fn names(dir: &FileNode, path: &Path) -> Result<Vec<OsString>> {
    match dir.names() {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) && dir.is_closed() => {
            Ok(Vec::new())
        }
        listed => listed.map_err(failed_at(path)),
    }
}

/// The failure of looking at a path.
pub(crate) fn failed_at(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => Failure::new(
            FailureKind::Busy,
            format!(
                "something is mounted at '{}', and it is not taken in; unmount it first",
                path.display()
            ),
        ),
        _ => other(format!("'{}' cannot be looked at: {error}", path.display())),
    }
}
