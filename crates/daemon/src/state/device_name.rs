//! Which names can be those of volumes, and files and disks that have several paths.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Whether it can be the name of a volume, or of a snapshot of one: a pool has no other datasets without a slash.
pub(crate) fn is_name(text: &str) -> bool {
    pool::DatasetName::parse(text).is_ok_and(|name| !name.path.is_empty())
}

/// Whether both paths lead to the same file or disk.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some(match found.file_type().is_block_device() {
            true => (found.rdev(), None),
            false => (found.dev(), Some(found.ino())),
        })
    };
    one == other || identity(one).is_some_and(|is| Some(is) == identity(other))
}
