//! The errors of devices.

use std::io;

use failure::FailureKind;

/// The result of what is done to devices.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of a device, or of the driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no driver.
    #[error(
        "/dev/ublk-control is missing: load the module (modprobe ublk_drv) of Linux 6.5 or newer; or use 'strongroom nbd \
         attach'"
    )]
    NoDriver,
    /// The driver lacks commands that are needed.
    #[error(
        "the ublk driver of this kernel is too old: use Linux 6.5 or newer, or 'strongroom nbd attach'"
    )]
    OldDriver,
    /// The kernel does not let this process attach devices.
    #[error("the kernel lets only root attach devices: run the daemon as root, with CAP_SYS_ADMIN")]
    NotPermitted,
    /// The kernel does not let this process use `io_uring`.
    #[error(
        "the kernel does not let the daemon use io_uring ({source}): allow it (sysctl kernel.io_uring_disabled=0)"
    )]
    NoRing {
        /// The cause.
        source: io::Error,
    },
    /// A device is in use.
    #[error("{device} is in use: unmount it, and end what else is on it; or use another device")]
    InUse {
        /// The device.
        device: String,
    },
    /// The device of another program or volume.
    #[error("{device} exists already; use another number, or none for a free one")]
    Exists {
        /// The device.
        device: String,
    },
    /// A device of the kernel cannot be used.
    #[error("{device}: {source}")]
    Kernel {
        /// The device.
        device: String,
        /// The cause.
        source: io::Error,
    },
    /// The driver refused something.
    #[error("the kernel's ublk driver: {0}")]
    Driver(#[source] io::Error),
    /// A thread could not be started.
    #[error("a queue cannot be served: {0}")]
    Thread(#[source] io::Error),
    /// A device that the kernel cannot have.
    #[error(
        "{device} has {size} bytes in sectors of {sector}; block devices of the kernel have whole sectors of at most 4096 \
         bytes"
    )]
    Shape {
        /// The device.
        device: String,
        /// The size of the device in bytes.
        size: u64,
        /// The size of its sectors.
        sector: u32,
    },
    /// The device that was left has another size than its source now.
    #[error("{device} has {size} bytes, and {source_name} has {now}")]
    OtherSize {
        /// The device.
        device: String,
        /// The size of the device of the kernel.
        size: u64,
        /// The device that it was made of.
        source_name: String,
        /// The size of that one.
        now: u64,
    },
    /// Requests that do not end.
    #[error("{device} still has requests that are carried out; try again later")]
    Busy {
        /// The device.
        device: String,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] block::Error),
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Device(error) => error.into(),
            Error::InUse { .. } | Error::Busy { .. } | Error::Exists { .. } => FailureKind::Busy,
            Error::NotPermitted => FailureKind::Permission,
            Error::Shape { .. } => FailureKind::Usage,
            _ => FailureKind::Other,
        }
    }
}
