//! Errors of the lower directory.

use rustix::io::Errno;
use vfs::Error;

/// The error of the file system for an error of the lower directory. An error that POSIX has no use
/// for here, such as a loop of links that a hostile server made, is `EIO`.
pub(crate) fn posix(error: Errno) -> Error {
    if error == Errno::MFILE {
        // The limit of this process, which is not that of the caller.
        return Error::TooManyFiles;
    }
    Error::from_errno(error.raw_os_error()).unwrap_or(Error::Io)
}
