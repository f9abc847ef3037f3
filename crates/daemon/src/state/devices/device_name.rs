//! Names of volumes, and devices with several names.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use protocol::device_name::DeviceName;

/// Returns whether a text can be the name of a volume, or of a snapshot of one. Every volume has a slash in its name.
pub(crate) fn is_name(text: &str) -> bool {
    pool::DatasetName::parse(text).is_ok_and(|name| !name.path.is_empty())
}

/// Returns whether both names mean the same device: paths to one file or disk, or spellings of one name.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let (name, other_name) = (DeviceName::parse(one), DeviceName::parse(other));
    if !name.is_path() || !other_name.is_path() {
        return name.is_same(other_name);
    }
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some(match found.file_type().is_block_device() {
            true => (found.rdev(), None),
            false => (found.dev(), Some(found.ino())),
        })
    };
    one == other || identity(one).is_some_and(|is| Some(is) == identity(other))
}
