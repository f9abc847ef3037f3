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
}

impl Error {
    /// Returns whether the same request can succeed later without help.
    pub fn is_outage(&self) -> bool {
        matches!(self, Error::Unanswered { .. })
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Unanswered { .. } => FailureKind::Device,
            Error::Refused { .. } => FailureKind::Permission,
        }
    }
}
