//! Error numbers, as the kernel takes them.

use vfs::Error;

/// An error number of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const IO: Errno = Errno(5);
    pub(crate) const NOT_PERMITTED: Errno = Errno(1);
    pub(crate) const NO_SUCH_IOCTL: Errno = Errno(25);
    pub(crate) const RANGE: Errno = Errno(34);
    pub(crate) const INVALID: Errno = Errno(22);
    pub(crate) const NOT_IMPLEMENTED: Errno = Errno(38);
    pub(crate) const NOT_SUPPORTED: Errno = Errno(95);
}

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        Errno(error.errno())
    }
}
