//! The errors of the devices of a pool.

use failure::FailureKind;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] block::Error),
    /// A flush of the device failed before.
    #[error("{device}: a flush failed, and what was written before may be lost")]
    Unflushed {
        /// The device's name.
        device: String,
    },
    /// The device did not answer in time, and other devices have the data.
    #[error("{device} did not answer for {millis} ms")]
    Unanswered {
        /// The device's name.
        device: String,
        /// The time that was waited, in milliseconds.
        millis: u64,
    },
    /// The device has not answered requests that were given up.
    #[error(
        "{device} still has requests that it did not answer; wait until it does, or replace it"
    )]
    StillUnanswered {
        /// The device's name.
        device: String,
    },
    /// The device did not take a write that the pool cannot do without.
    #[error("{reason}")]
    Stalled {
        /// The device's name.
        device: String,
        /// The error of the write.
        reason: String,
        /// True if the file system of the device is full.
        is_full: bool,
    },
    /// The device has the label of none or of another pool, where it had that of this one.
    #[error("{device} is not the device that the pool had here; connect the device of the pool")]
    OtherDevice {
        /// The device's name.
        device: String,
    },
    /// The device has no label.
    #[error("{device} holds no Strongroom pool")]
    NotAPool {
        /// The device's name.
        device: String,
    },
    /// The device is in a pool already, or holds something else.
    #[error("{device} {what}; use -f to overwrite it")]
    InUse {
        /// The device's name.
        device: String,
        /// The kind of contents.
        what: String,
    },
    /// The device is not the cache device that it was.
    #[error(
        "{device} does not have the label of this cache device; remove it from the pool, and add it again"
    )]
    NotThatCache {
        /// The device's name.
        device: String,
    },
    /// The labels are both damaged.
    #[error("{device}: both copies of its label are damaged")]
    DamagedLabel {
        /// The device's name.
        device: String,
    },
    /// The pool was written by a newer program.
    #[error(
        "{device}: pool format {found} is newer than this program's {supported}; update Strongroom to open it"
    )]
    TooNew {
        /// The device's name.
        device: String,
        /// The format of the pool.
        found: u32,
        /// The newest format this program knows.
        supported: u32,
    },
    /// The device is shorter than its label says.
    #[error(
        "{device} became too small: it has {actual} bytes, and its label says {expected}; restore its size"
    )]
    Truncated {
        /// The device's name.
        device: String,
        /// Bytes there are.
        actual: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// The device cannot hold a pool.
    #[error("{device} has {size} bytes; it needs at least {minimum} for its place in the pool")]
    TooSmall {
        /// The device's name.
        device: String,
        /// Bytes there are.
        size: u64,
        /// Bytes there must be.
        minimum: u64,
    },
    /// Groups have no device that holds all segments.
    #[error("the pool cannot be opened without these missing devices: {missing}; connect them")]
    MissingDevices {
        /// The missing devices, as far as they are known.
        missing: String,
    },
    /// A group has no member that can be read.
    #[error("no device of group {group} can be read")]
    NoMember {
        /// The number of the group.
        group: u32,
    },
    /// The pool has no such device.
    #[error("the device {guid} of the pool is missing")]
    NoSuchMember {
        /// The guid.
        guid: u64,
    },
    /// Two devices say that they are the same one.
    #[error("{first} and {second} are copies of the same device; name the one to use")]
    Duplicate {
        /// The name of the first of them.
        first: String,
        /// The other.
        second: String,
    },
    /// The devices do not belong together.
    #[error("the devices do not form one pool: {reason}")]
    Mismatch {
        /// In what they differ.
        reason: String,
    },
    /// No superblock can be read.
    #[error("no copy of the superblock is whole on any device of the pool")]
    NoSuperblock,
    /// No copy of a key block can be read.
    #[error("key block {index} is damaged in every copy")]
    DamagedKeyBlock {
        /// The number of the key block.
        index: u32,
    },
    /// A thread that made a request panicked.
    #[error("a request to a device panicked, which is a defect of the program")]
    Panicked,
    /// An address outside the pool.
    #[error("segment {group}/{index}, bytes {offset}+{len}: no such place in the pool")]
    NoSuchPlace {
        /// Group of the segment.
        group: u16,
        /// Index of the segment in its group.
        index: u32,
        /// The offset in the segment.
        offset: u32,
        /// The length in bytes.
        len: u64,
    },
}

impl Error {
    /// The name of the device whose failure this is.
    pub fn device(&self) -> Option<&str> {
        match self {
            Error::Device(block::Error::Io { device, .. })
            | Error::Unflushed { device }
            | Error::Unanswered { device, .. }
            | Error::StillUnanswered { device }
            | Error::Stalled { device, .. } => Some(device),
            _ => None,
        }
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Device(error) => FailureKind::from(error),
            Error::Stalled { is_full: true, .. } => FailureKind::NoSpace,
            Error::NotAPool { .. } => FailureKind::NotFound,
            Error::MissingDevices { .. } | Error::NoMember { .. } | Error::OtherDevice { .. } => {
                FailureKind::Device
            }
            Error::NoSuchMember { .. } => FailureKind::NotFound,
            Error::NotThatCache { .. } => FailureKind::Device,
            Error::InUse { .. } => FailureKind::Exists,
            Error::TooSmall { .. } | Error::Duplicate { .. } | Error::Mismatch { .. } => {
                FailureKind::Usage
            }
            Error::DamagedLabel { .. }
            | Error::Truncated { .. }
            | Error::NoSuperblock
            | Error::DamagedKeyBlock { .. } => FailureKind::Damaged,
            Error::TooNew { .. } => FailureKind::TooNew,
            _ => FailureKind::Other,
        }
    }
}
