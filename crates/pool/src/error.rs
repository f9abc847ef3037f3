//! The errors of a pool.

use failure::FailureKind;

use crate::utc::utc;

/// The result of a pool operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The reasons why a pool operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device, or the set of devices.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// No copy of a record holds what it should.
    #[error("{what} at segment {group}/{index}, offset {offset} is damaged in every copy")]
    Damaged {
        /// The kind of the object that exists.
        what: &'static str,
        /// Group of the segment of the first copy.
        group: u32,
        /// Index of the segment in its group.
        index: u32,
        /// Offset of the first copy.
        offset: u32,
    },
    /// A device failed that has a copy of a record or node, and no other copy is good.
    #[error("{what} at segment {group}/{index}, offset {offset} cannot be read: {source}")]
    Unreadable {
        /// The kind of the object that exists.
        what: &'static str,
        /// Group of the segment of the first copy.
        group: u32,
        /// Index of the segment in its group.
        index: u32,
        /// Offset of the first copy.
        offset: u32,
        /// The failure of the device.
        source: store::Error,
    },
    /// A structure is whole and says what cannot be.
    #[error("the pool's {what} is inconsistent: {detail}")]
    Inconsistent {
        /// The structure that is damaged.
        what: &'static str,
        /// The reason.
        detail: String,
    },
    /// Too little space.
    #[error("no space is left in the pool")]
    NoSpace,
    /// A quota or reservation does not allow it.
    #[error("{name}: {reason}")]
    Limit {
        /// The dataset or pool.
        name: String,
        /// The limit that is exceeded.
        reason: String,
    },
    /// The key area is full.
    #[error("the pool's key area is full: its devices have space for {blocks} key blocks")]
    KeyAreaFull {
        /// The number of key blocks.
        blocks: u32,
    },
    /// A write or flush failed; the pool refuses changes.
    #[error("the pool is suspended: {reason}; {until}")]
    Suspended {
        /// The first failure.
        reason: String,
        /// The event that ends the suspension.
        until: SuspensionEnd,
    },
    /// A part of the program ended by a panic. What it was doing may be half done in memory.
    #[error("a fault of the program ended {what}; the log has more. Please report it")]
    Fault {
        /// The part.
        what: &'static str,
    },
    /// Another host uses the pool, by its heartbeats.
    #[error(
        "host '{host}' (hostid {id:08x}) uses the pool '{pool}': its heartbeat is of {time} (seconds since 1970). Export \
         it there, or stop that host. -f does not override this"
    )]
    OtherHost {
        /// The pool.
        pool: String,
        /// The name of the host.
        host: String,
        /// The number of the host.
        id: u32,
        /// Seconds since 1970, by its clock.
        time: u64,
    },
    /// The key holder of a dataset could not seal what a commit was to write.
    #[error("a dataset could not be written: {reason}")]
    Sealing {
        /// The reason of the refusal.
        reason: String,
    },
    /// The pool was opened read-only.
    #[error("the pool is imported read-only")]
    ReadOnly,
    /// The pool uses a feature that this program does not know.
    #[error(
        "the pool uses features that this program does not know ({bits:#x}); update Strongroom to open it"
    )]
    UnknownFeatures {
        /// The feature bits.
        bits: u64,
    },
    /// Two devices of a pool were used apart from each other.
    #[error(
        "{device} and {other} belong to the same pool, but each was changed without the other; disconnect the \
         one that you do not want, import the pool with -d, then replace the other one"
    )]
    OtherHistory {
        /// A device of the pool.
        device: String,
        /// A device with the newest state.
        other: String,
    },
    /// Logs that wait to be replayed are on devices that are not there.
    #[error(
        "{devices} is missing, and only this device has the data synced last to {datasets}; connect it, or \
         give up this data and import the last committed state: pool import -m"
    )]
    LogsLost {
        /// The devices.
        devices: String,
        /// The datasets.
        datasets: String,
    },
    /// A change to the devices of the pool makes no sense.
    #[error("{device}: {reason}")]
    Device {
        /// The device.
        device: String,
        /// The reason why the device cannot be used.
        reason: String,
    },
    /// The pool was destroyed.
    #[error("the pool '{name}' has been destroyed")]
    Destroyed {
        /// The name that was not found.
        name: String,
    },
    /// No such dataset, snapshot or bookmark exists.
    #[error("{name}: no such {}", kind_of(name))]
    NoSuchDataset {
        /// The name asked for.
        name: String,
    },
    /// The name is taken.
    #[error("{name} exists already")]
    Exists {
        /// The name.
        name: String,
    },
    /// The name cannot be.
    #[error("'{name}' is not a valid name: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// The reason why the name is not valid.
        reason: &'static str,
    },
    /// The dataset has children or snapshots.
    #[error("{name} has {what}; use -r to destroy them too")]
    HasDependents {
        /// The dataset.
        name: String,
        /// The change that the dataset has.
        what: &'static str,
    },
    /// Clones need the snapshot.
    #[error("{name} has clones: {clones}; use -R to destroy them too, or promote one of them")]
    HasClones {
        /// The snapshot.
        name: String,
        /// The names of the clones.
        clones: String,
    },
    /// The snapshot has a hold.
    #[error("{name} is held ({tags}); use 'strongroom release' first")]
    Held {
        /// The snapshot.
        name: String,
        /// The tags.
        tags: String,
    },
    /// The snapshot, or a snapshot of the pool, has a hold that has not ended.
    #[error(
        "{name} is retained until {}, and no command destroys or releases it before; the time of the pool is {}",
        utc(*until),
        utc(*time)
    )]
    Retained {
        /// The snapshot or the pool.
        name: String,
        /// The end of the retention, in seconds since 1970.
        until: u64,
        /// The time of the pool.
        time: u64,
    },
    /// The dataset is open.
    #[error("{name} is in use")]
    Busy {
        /// The dataset.
        name: String,
    },
    /// A stream is not one that can be received.
    #[error("the stream {reason}")]
    Stream {
        /// The reason.
        reason: String,
    },
    /// A stream could not be read or written.
    #[error("the stream ended early: {0}")]
    StreamIo(std::io::Error),
    /// The operation does not fit the dataset.
    #[error("{name}: {reason}")]
    Refused {
        /// The dataset.
        name: String,
        /// The reason of the failure.
        reason: String,
    },
}

/// The event that ends the suspension of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspensionEnd {
    /// The devices work again, see [`Pool::resume`](crate::Pool::resume).
    Cleared,
    /// An import, and nothing else.
    Imported,
}

impl std::fmt::Display for SuspensionEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SuspensionEnd::Cleared => "run 'strongroom pool clear' when the device works",
            SuspensionEnd::Imported => "export the pool, repair the device, and import the pool",
        })
    }
}

impl Error {
    /// The name of the device whose failure this is.
    pub(crate) fn device(&self) -> Option<&str> {
        match self {
            Error::Store(error) | Error::Unreadable { source: error, .. } => error.device(),
            _ => None,
        }
    }

    /// Returns whether something in the pool has no good copy, or says what cannot be.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::Unreadable { .. } | Error::Inconsistent { .. }
        )
    }

    /// Returns whether a device failed, so that a later attempt may be successful.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Error::Store(_) | Error::Unreadable { .. })
    }

    pub(crate) fn stream(reason: impl Into<String>) -> Error {
        let reason = reason.into();
        Error::Stream { reason }
    }

    pub(crate) fn refused(name: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Refused {
            name: name.into(),
            reason: reason.into(),
        }
    }

    /// A change to a device that makes no sense.
    pub(crate) fn of_device(device: &str, reason: impl Into<String>) -> Error {
        Error::Device {
            device: device.into(),
            reason: reason.into(),
        }
    }

    /// A device that is not in the configuration.
    pub(crate) fn no_device(guid: u64) -> Error {
        Error::of_device(&guid.to_string(), "the pool has no such device")
    }

    pub(crate) fn inconsistent(what: &'static str, detail: impl Into<String>) -> Error {
        Error::Inconsistent {
            what,
            detail: detail.into(),
        }
    }
}

/// The kind of object that a name stands for.
fn kind_of(name: &str) -> &'static str {
    match name.find(['@', '#']).map(|at| &name[at..=at]) {
        None => "dataset",
        Some("@") => "snapshot",
        Some(_) => "bookmark",
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Store(error) => error.into(),
            Error::Unreadable { source, .. } => source.into(),
            Error::Damaged { .. } | Error::Inconsistent { .. } => FailureKind::Damaged,
            Error::NoSpace | Error::Limit { .. } | Error::KeyAreaFull { .. } => {
                FailureKind::NoSpace
            }
            Error::Suspended { .. } => FailureKind::Device,
            Error::UnknownFeatures { .. } => FailureKind::TooNew,
            Error::Destroyed { .. } | Error::NoSuchDataset { .. } => FailureKind::NotFound,
            Error::Exists { .. } => FailureKind::Exists,
            Error::Busy { .. }
            | Error::OtherHost { .. }
            | Error::HasDependents { .. }
            | Error::HasClones { .. }
            | Error::Held { .. }
            | Error::Retained { .. } => FailureKind::Busy,
            Error::BadName { .. } | Error::Refused { .. } | Error::Device { .. } => {
                FailureKind::Usage
            }
            Error::OtherHistory { .. } | Error::LogsLost { .. } => FailureKind::Device,
            Error::Stream { .. } => FailureKind::Damaged,
            Error::ReadOnly => FailureKind::Permission,
            _ => FailureKind::Other,
        }
    }
}
