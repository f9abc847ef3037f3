//! Renaming without replacing anything.

use rustix::fs::RenameFlags;
use rustix::io::Errno;
use vfs::{Error, Result};

use super::{Entry, posix};

/// Renames in a directory, to a name that is free. Most network file systems have no such rename. With a plain
/// one the name can be taken between the question and the rename; who takes it then is kept out by what `claim`
/// returns, or else only a file or an empty directory can be replaced.
///
/// # Errors
/// [`Error::Exists`]; those of claiming and renaming.
pub(crate) fn rename_free<C>(
    dir: &Entry,
    from: &[u8],
    to: &[u8],
    claim: impl FnOnce() -> Result<C>,
) -> Result<()> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            let _claim = claim()?;
            match dir.entry(to) {
                Ok(_) => Err(Error::Exists),
                Err(Error::NotFound) => rustix::fs::renameat(dir, from, dir, to).map_err(posix),
                Err(error) => Err(error),
            }
        }
        result => result.map_err(posix),
    }
}
