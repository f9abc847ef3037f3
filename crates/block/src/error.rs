//! The errors of devices.

use std::io::ErrorKind;
use std::{fmt, io};

use failure::FailureKind;

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The way in which this machine lost the reservation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another machine or program has the disk, or ended the registration.
    Taken,
    /// No machine is registered with the disk any more.
    Forgotten,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Taken => "another machine has taken it, and may write to the disk now",
            Loss::Forgotten => {
                "the disk has forgotten it, or a program has cleared it; another machine may write to the disk now"
            }
        })
    }
}

/// The reason why a device operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device could not be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The device's path.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process holds the device.
    #[error("{path} is in use by {holder}")]
    Busy {
        /// The device's path.
        path: String,
        /// The process that uses it, if known.
        holder: String,
    },
    /// Another machine or program has reserved the disk.
    #[error("{device} is reserved by {holder}")]
    Reserved {
        /// The device's name.
        device: String,
        /// The holder of the reservation, if it is known.
        holder: String,
    },
    /// The device cannot be reserved.
    #[error("{device} cannot be reserved: {reason}")]
    NoReservations {
        /// The device's name.
        device: String,
        /// The reason.
        reason: String,
    },
    /// The reservation of the disk by this machine is lost.
    #[error("the reservation of {device} is lost: {loss}")]
    ClaimLost {
        /// The device's name.
        device: String,
        /// The way in which it was lost.
        loss: Loss,
    },
    /// The path is neither a regular file nor a block device.
    #[error("{path} is {what}, not a regular file or a block device")]
    NotADevice {
        /// The path.
        path: String,
        /// The kind of file that it is instead.
        what: &'static str,
    },
    /// The file system does not allow a file of this size.
    #[error("{path} cannot have {size} bytes: {}", of_limit(*.limit))]
    TooLarge {
        /// The file's path.
        path: String,
        /// The size.
        size: u64,
        /// The largest size that the file system allows, if that is known.
        limit: Option<u64>,
    },
    /// A range does not lie on the device.
    #[error("{device}: bytes {offset}+{len} lie outside its {size} bytes")]
    OutOfRange {
        /// The device's name.
        device: String,
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Size of the device.
        size: u64,
    },
    /// A range is not made of whole sectors, on a device that takes nothing else.
    #[error("{device}: bytes {offset}+{len} are not whole sectors of {sector} bytes")]
    Misaligned {
        /// The device's name.
        device: String,
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Size of a sector.
        sector: u32,
    },
    /// The device was opened read-only.
    #[error("{device} is open read-only")]
    ReadOnly {
        /// The device's name.
        device: String,
    },
    /// The stored bytes are not those that were written, and the device detects that.
    #[error(
        "{device}: the {len} bytes at {offset} are not authentic: they were changed, damaged, or never written"
    )]
    Unauthentic {
        /// The device's name.
        device: String,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
    /// The device failed.
    #[error("{device}: {operation} of {len} bytes at {offset} failed: {source}")]
    Io {
        /// The device's name.
        device: String,
        /// The operation that failed.
        operation: &'static str,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        len: u64,
        /// The error of the system.
        source: io::Error,
    },
}

/// The limit of a file system, in words.
fn of_limit(limit: Option<u64>) -> String {
    let Some(limit) = limit else {
        return "its file system does not allow files of this size".into();
    };
    let round = match limit >> 30 {
        0 => String::new(),
        gib => format!(" ({gib} GiB)"),
    };
    format!("its file system allows files of at most {limit} bytes{round}")
}

impl Error {
    /// Returns whether the backing store itself has no free space (a sparse file on a full file system).
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Busy { .. } | Error::Reserved { .. } => FailureKind::Busy,
            Error::Open { source, .. } => match source.kind() {
                ErrorKind::NotFound => FailureKind::NotFound,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    FailureKind::Permission
                }
                ErrorKind::AlreadyExists => FailureKind::Exists,
                ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                    FailureKind::Usage
                }
                ErrorKind::StorageFull => FailureKind::NoSpace,
                _ => FailureKind::Device,
            },
            Error::ReadOnly { .. } => FailureKind::Permission,
            Error::NotADevice { .. }
            | Error::TooLarge { .. }
            | Error::Misaligned { .. }
            | Error::NoReservations { .. } => FailureKind::Usage,
            Error::Unauthentic { .. } => FailureKind::Damaged,
            _ => FailureKind::Device,
        }
    }
}
