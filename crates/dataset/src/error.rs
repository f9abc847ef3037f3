//! The errors of an open dataset.

use failure::FailureKind;

/// The result of a dataset operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Entries of a log that are not replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostEntries {
    /// Their number, as far as it is known: a damaged entry hides those after it.
    pub entries: u64,
    /// The bytes of their payloads, of damaged ones none.
    pub bytes: u64,
}

impl LostEntries {
    /// Returns the note in the history of a pool; `None` if nothing is lost.
    pub(crate) fn what(&self) -> Option<String> {
        (self.entries > 0).then(|| format!("gave up {self}"))
    }
}

impl std::fmt::Display for LostEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} entries with {} bytes", self.entries, self.bytes)
    }
}

/// The reason why a dataset operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pool.
    #[error(transparent)]
    Pool(#[from] pool::Error),
    /// The operation is refused with an error of POSIX.
    #[error(transparent)]
    Fs(#[from] vfs::Error),
    /// An error of keys.
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// The present state of a dataset has a seal of keys that seal no present state any more.
    #[error(
        "{dataset}: its present state has the old seal of key generation {generation}, and only generation \
         {floor} or a later one seals it since 'key rotate'. A rollback without the key and a received older \
         snapshot look like that, and so does a forgery with the old keys. 'strongroom rollback \
         {dataset}@SNAPSHOT' with the key loaded accepts the state of a snapshot; make one if there is none"
    )]
    OldSeal {
        /// The dataset.
        dataset: String,
        /// The generation that made the seal.
        generation: u32,
        /// The oldest generation that seals the present state.
        floor: u32,
    },
    /// The keyring lacks the generations that seal the present state of a dataset.
    #[error(
        "{dataset}: its keyring lacks the key generations after {newest}, which seal its present state. A later \
         stream or 'strongroom key restore' brings them; its snapshots can be mounted and cloned"
    )]
    KeyringCut {
        /// The dataset.
        dataset: String,
        /// The newest generation that is there.
        newest: u32,
    },
    /// The log of a dataset has an entry that is not of this log in this state, or is damaged.
    #[error(
        "{dataset}: its log is not of its present state: it is damaged, someone has changed it, or the devices have an \
         older state. After {good} good entries come {lost} that cannot be replayed. Nothing is changed. 'strongroom mount \
         --give-up-log {dataset}' replays the good ones and gives up the others"
    )]
    ForeignLog {
        /// The dataset.
        dataset: String,
        /// The number of entries before it.
        good: u64,
        /// The entry and those after it.
        lost: LostEntries,
    },
    /// A part of a dataset is damaged, or is not authentic.
    #[error("{dataset}: {what} is damaged")]
    Damaged {
        /// The dataset.
        dataset: String,
        /// The damaged part.
        what: String,
    },
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Pool(error) => error.into(),
            Error::Keys(error) => error.into(),
            Error::Damaged { .. } => FailureKind::Damaged,
            Error::ForeignLog { .. } => FailureKind::ForeignLog,
            Error::Fs(vfs::Error::ReadOnly) => FailureKind::Permission,
            _ => FailureKind::Other,
        }
    }
}
