//! The errors of the tool's files.

/// The reason why a policy or protector could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key or the passphrase opens nothing.
    #[error("the passphrase or key is wrong")]
    WrongKey,
    /// The bytes are not what was written.
    #[error("the metadata is damaged: {0}")]
    Damaged(String),
    /// Intact, but with something that is not known here.
    #[error("the metadata has {0}, which this version does not know")]
    Unknown(String),
    /// No policy, protector or directory of this name.
    #[error("there is no {0}")]
    NotFound(String),
    /// An object of this name exists already.
    #[error("there is {0} already")]
    Exists(String),
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Refused(String),
    /// Another user could have written it.
    #[error("{0} belongs to another user")]
    Foreign(String),
    /// The cost of a password hash is out of bounds, or there is no memory for it.
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// The cipher refuses, by its policy or for want of memory.
    #[error(transparent)]
    Cipher(#[from] cipher::Error),
    /// No locked memory is left.
    #[error(transparent)]
    Memory(#[from] secret::Error),
    /// The directory cannot be read or changed.
    #[error("{0}")]
    Lower(#[from] vfs::Error),
}

/// A result.
pub type Result<T> = std::result::Result<T, Error>;

/// Damaged in this way.
pub(super) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}
