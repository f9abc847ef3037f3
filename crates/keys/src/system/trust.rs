//! Files that only root and the user of this process can change.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The path without symbolic links, if only root and this user can change or replace what is there.
/// Otherwise which file or directory others can change, and why.
pub(crate) fn check_trusted(path: &Path) -> std::result::Result<PathBuf, (PathBuf, String)> {
    let failed = |error: io::Error| (path.to_owned(), error.to_string());
    let real = path.canonicalize().map_err(failed)?;
    for (depth, at) in real.ancestors().enumerate() {
        let found = at.symlink_metadata().map_err(failed)?;
        let is_sticky = depth > 0 && found.mode() & 0o1000 != 0;
        if found.mode() & 0o022 != 0 && !is_sticky && !found.file_type().is_socket() {
            return Err((
                at.to_owned(),
                "other users can write to it: chmod go-w".into(),
            ));
        }
        if !is_trusted(found.uid()) {
            let whose = format!(
                "it belongs to the user {}; it has to be root's, or the daemon's user's",
                found.uid()
            );
            return Err((at.to_owned(), whose));
        }
    }
    Ok(real)
}

/// Returns whether a path is below one of these, or below the targets of links among them.
pub(crate) fn is_in<P: AsRef<Path>>(real: &Path, places: &[P]) -> bool {
    let mut places = places
        .iter()
        .filter_map(|place| place.as_ref().canonicalize().ok());
    places.any(|place| real.starts_with(place))
}

/// Returns whether this user is trusted with keys: root, and the user of this process.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}
