//! The errors of servers and clients, and the reasons for the end of a connection.

use std::io;

use failure::FailureKind;

/// The result of what is done to exports and servers.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of an export or a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An export of that name exists already.
    #[error("an export '{name}' exists already; use another name with --name")]
    Exists {
        /// The name.
        name: String,
    },
    /// No export has that name.
    #[error("there is no export '{name}'")]
    NoSuchExport {
        /// The name.
        name: String,
    },
    /// Clients use an export.
    #[error("clients use export '{name}' ({clients} connected); disconnect them, or use --force")]
    InUse {
        /// The export.
        name: String,
        /// The number of connections that use the export.
        clients: usize,
    },
    /// A name that does not fit into the protocol.
    #[error("'{name}' cannot be the name of an export: it is {what}; use another name with --name")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        what: &'static str,
    },
    /// Some bytes at the end could not be reached.
    #[error(
        "{device} has {size} bytes, which is not a multiple of its sector size, {sector}; change the size: \
         truncate -s"
    )]
    Unaligned {
        /// The device.
        device: String,
        /// The size of the device, in bytes.
        size: u64,
        /// The size of its sectors.
        sector: u32,
    },
    /// A certificate or a key cannot be used.
    #[error("{path}: {reason}")]
    Certificates {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A thread could not be started.
    #[error("clients cannot be served: {0}")]
    Thread(#[source] io::Error),
    /// The kernel has no such devices.
    #[error(
        "this kernel offers no network block devices to the daemon: load the module (modprobe nbd), use a kernel with \
         CONFIG_BLK_DEV_NBD, and run the daemon outside of network namespaces"
    )]
    NoKernelModule,
    /// The kernel does not let this process attach devices.
    #[error("the kernel lets only root attach devices: run the daemon as root, with CAP_SYS_ADMIN")]
    NotPermitted,
    /// A device of the kernel is in use.
    #[error("{device} is in use: unmount it, and end what else is on it; or use another device")]
    KernelDeviceInUse {
        /// The device.
        device: String,
    },
    /// A device of the kernel cannot be used.
    #[error("{device}: {source}")]
    KernelDevice {
        /// The device.
        device: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel refused something.
    #[error("the kernel's network block devices: {0}")]
    Kernel(#[source] io::Error),
    /// A device whose sectors the kernel cannot have.
    #[error(
        "{device} has sectors of {sector} bytes; network block devices of the kernel have at most 4096"
    )]
    SectorSize {
        /// The device.
        device: String,
        /// The size of its sectors.
        sector: u32,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] block::Error),
}

/// The cause of the end of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CloseCause {
    /// The socket, or TLS.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A message that the protocol does not allow.
    #[error("{0}")]
    Protocol(&'static str),
    /// The refusal of a server, with its reason.
    #[error("{0}")]
    Refused(String),
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Device(error) => error.into(),
            Error::Exists { .. } => FailureKind::Exists,
            Error::NoSuchExport { .. } => FailureKind::NotFound,
            Error::InUse { .. } | Error::KernelDeviceInUse { .. } => FailureKind::Busy,
            Error::NotPermitted => FailureKind::Permission,
            Error::Name { .. }
            | Error::Unaligned { .. }
            | Error::Certificates { .. }
            | Error::SectorSize { .. } => FailureKind::Usage,
            _ => FailureKind::Other,
        }
    }
}
