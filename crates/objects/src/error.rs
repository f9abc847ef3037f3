//! The errors of object stores.

use failure::FailureKind;

/// The result of a request to an object store.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a request to an object store failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store did not answer, or asked to come again later. The request may have been carried out.
    #[error("{store}: {operation} of '{object}' was not answered: {reason}")]
    Unanswered {
        /// The address of the store.
        store: String,
        /// The request: "create", "get", "list", "delete".
        operation: &'static str,
        /// The name of the object.
        object: String,
        /// The message of the client.
        reason: String,
    },
    /// The store refuses the request, and will refuse it again: no right, no bucket, a wrong region.
    #[error("{store}: {operation} of '{object}' was refused: {reason}")]
    Refused {
        /// The address of the store.
        store: String,
        /// The request: "create", "get", "list", "delete".
        operation: &'static str,
        /// The name of the object.
        object: String,
        /// The message of the store.
        reason: String,
    },
    /// A setting is missing or wrong. No request was sent.
    #[error("{store} cannot be used: {reason}")]
    Unusable {
        /// The address of the store.
        store: String,
        /// The setting, and the way out.
        reason: String,
    },
    /// Another machine has taken the line. What this one did not report as durable may be lost.
    #[error("{store}: another machine has taken the pool, and writes to it now")]
    Fenced {
        /// The address of the store.
        store: String,
    },
    /// Another machine wrote while this one opened the pool. It is stopped now.
    #[error("{store}: another machine wrote to the pool while it was opened; open it again")]
    Changed {
        /// The address of the store.
        store: String,
    },
    /// An object is not what was written.
    #[error("{store}: the object '{object}' is damaged: {reason}")]
    Damaged {
        /// The address of the store.
        store: String,
        /// The name of the object.
        object: String,
        /// The way in which it is damaged.
        reason: &'static str,
    },
    /// An object that is needed is not there.
    #[error(
        "{store}: the object '{object}' is missing; a person, a program or a lifecycle rule of the store has deleted it"
    )]
    Missing {
        /// The address of the store.
        store: String,
        /// The name of the object.
        object: String,
    },
    /// The writer has removed objects of the state that a reader has.
    #[error(
        "{store}: the objects of this state of the pool were removed; to read the newest state: strongroom pool refresh"
    )]
    Outdated {
        /// The address of the store.
        store: String,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandom,
    /// The address has no pool.
    #[error("{store}: there is no pool")]
    NoPool {
        /// The address of the store.
        store: String,
    },
    /// The address has objects already.
    #[error(
        "{store}: there is an object '{object}' already; a new pool needs an address without objects"
    )]
    NotEmpty {
        /// The address of the store.
        store: String,
        /// The name of an object.
        object: String,
    },
}

impl Error {
    /// Returns whether the same request can succeed later without help.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Unanswered { .. })
    }
}

impl Error {
    /// Returns whether objects are missing or not what a device has. Such a device can only be removed.
    pub(crate) fn says_unreadable(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::Missing { .. } | Error::NoPool { .. }
        )
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Unanswered { .. }
            | Error::Fenced { .. }
            | Error::Outdated { .. }
            | Error::NoRandom => FailureKind::Device,
            Error::Refused { .. } => FailureKind::Permission,
            Error::Unusable { .. } => FailureKind::Usage,
            Error::Changed { .. } => FailureKind::Busy,
            Error::Damaged { .. } | Error::Missing { .. } => FailureKind::Damaged,
            Error::NoPool { .. } => FailureKind::NotFound,
            Error::NotEmpty { .. } => FailureKind::Exists,
        }
    }
}
