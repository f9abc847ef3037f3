//! The errors, in terms of POSIX.

/// The result of a file system operation.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $errno:literal, $text:literal;)*) => {
        /// The reason why a file system operation failed. Each variant is one `errno` of Linux.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* #[error($text)] $name,)*
        }

        impl Error {
            /// The number that Linux gives this error.
            pub const fn errno(self) -> i32 {
                match self { $(Error::$name => $errno,)* }
            }

            /// The error to which Linux gives this number.
            pub const fn from_errno(errno: i32) -> Option<Error> {
                match errno {
                    $($errno => Some(Error::$name),)*
                    _ => None,
                }
            }
        }
    };
}

errors! {
    /// `EPERM`
    NotPermitted = 1, "operation not permitted";
    /// `ENOENT`
    NotFound = 2, "no such file or directory";
    /// `EIO`
    Io = 5, "input/output error";
    /// `ENXIO`
    NoSuchAddress = 6, "no such device or address";
    /// `E2BIG`
    TooBig = 7, "argument list too long";
    /// `ENOMEM`
    NoMemory = 12, "cannot allocate memory";
    /// `EACCES`
    Access = 13, "permission denied";
    /// `EBUSY`
    Busy = 16, "device or resource busy";
    /// `EEXIST`
    Exists = 17, "file exists";
    /// `EXDEV`
    CrossDevice = 18, "invalid cross-device link";
    /// `ENODEV`
    NoDevice = 19, "no such device";
    /// `ENOTDIR`
    NotDirectory = 20, "not a directory";
    /// `EISDIR`
    IsDirectory = 21, "is a directory";
    /// `EINVAL`
    Invalid = 22, "invalid argument";
    /// `ENFILE`
    TooManyFiles = 23, "too many open files in system";
    /// `EFBIG`
    FileTooBig = 27, "file too large";
    /// `ENOSPC`
    NoSpace = 28, "no space left on device";
    /// `EROFS`
    ReadOnly = 30, "read-only file system";
    /// `EMLINK`
    TooManyLinks = 31, "too many links";
    /// `ERANGE`
    Range = 34, "numerical result out of range";
    /// `ENAMETOOLONG`
    NameTooLong = 36, "file name too long";
    /// `ENOSYS`
    NotImplemented = 38, "function not implemented";
    /// `ENOTEMPTY`
    NotEmpty = 39, "directory not empty";
    /// `ENODATA`
    NoAttribute = 61, "no data available";
    /// `EOVERFLOW`
    Overflow = 75, "value too large for defined data type";
    /// `EOPNOTSUPP`
    NotSupported = 95, "operation not supported";
    /// `ESTALE`
    Stale = 116, "stale file handle";
    /// `EDQUOT`
    Quota = 122, "disk quota exceeded";
    /// `ENOKEY`
    NoKey = 126, "required key not available";
}
