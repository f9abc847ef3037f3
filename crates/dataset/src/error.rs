//! What can go wrong with an open dataset.

/// The result of a dataset operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a dataset operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool below.
    #[error(transparent)]
    Pool(#[from] pool::Error),
    /// The operation is refused, in the words of POSIX.
    #[error(transparent)]
    Fs(#[from] vfs::Error),
    /// The keys.
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// Something that its seal vouches for, or that nothing vouches for, cannot be.
    #[error("{dataset}: {what} is damaged")]
    Damaged {
        /// The dataset.
        dataset: String,
        /// What is.
        what: String,
    },
}
