//! The errors of a portal, and the reasons for the end of a connection.

use std::io;

use failure::FailureKind;

/// The result of what is done to targets and portals.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of a target or a portal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A target of that name exists already.
    #[error("a target '{name}' is there already")]
    Exists {
        /// The name.
        name: String,
    },
    /// No target has that name.
    #[error("there is no target '{name}'")]
    NoSuchTarget {
        /// The name.
        name: String,
    },
    /// Initiators use a target.
    #[error("initiators use target '{name}' ({sessions} sessions); log them out, or use --force")]
    InUse {
        /// The target.
        name: String,
        /// The number of sessions.
        sessions: usize,
    },
    /// A name that the protocol does not allow.
    #[error("'{name}' is not an iSCSI name: {what}")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        what: &'static str,
    },
    /// Some bytes at the end could not be reached.
    #[error(
        "{device} has {size} bytes, which is not a multiple of its sectors of {sector}; make it one: truncate -s"
    )]
    Unaligned {
        /// The device.
        device: String,
        /// The size of the device, in bytes.
        size: u64,
        /// The size of its sectors.
        sector: u32,
    },
    /// Blocks that are smaller than the device can write.
    #[error("{device} has sectors of {least} bytes, so a unit of it cannot have blocks of {block}")]
    BlockSize {
        /// The device.
        device: String,
        /// The wanted size of a block.
        block: u32,
        /// The size of its sectors.
        least: u32,
    },
    /// A number that no unit can have.
    #[error("{lun} is not the number of a unit; use 0 to 16383")]
    Lun {
        /// The number.
        lun: u16,
    },
    /// A command for a unit does not end.
    #[error("a command for '{name}' is still being carried out")]
    Busy {
        /// The unit.
        name: String,
    },
    /// The stored reservations are unknown, and no write may break them.
    #[error(
        "the persistent reservations of '{name}' cannot be read: {what}; to begin without them, export it with \
         --forget-reservations"
    )]
    Reservations {
        /// The unit.
        name: String,
        /// The reason.
        what: String,
    },
    /// A thread could not be started.
    #[error("initiators cannot be served: {0}")]
    Thread(#[source] io::Error),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] block::Error),
}

/// The cause of the end of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DisconnectCause {
    /// The socket.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A PDU that the protocol does not allow.
    #[error("{0}")]
    Protocol(&'static str),
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Device(error) => error.into(),
            Error::Exists { .. } => FailureKind::Exists,
            Error::NoSuchTarget { .. } => FailureKind::NotFound,
            Error::InUse { .. } | Error::Busy { .. } => FailureKind::Busy,
            Error::Name { .. } | Error::Lun { .. } | Error::Unaligned { .. } => FailureKind::Usage,
            _ => FailureKind::Other,
        }
    }
}
