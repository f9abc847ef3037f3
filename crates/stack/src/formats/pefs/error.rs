//! The errors of keys and key chains.

/// The reason why a key, a chain or a configuration could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a key file nor a passphrase.
    #[error("a key needs a key file or a passphrase")]
    NoInput,
    /// `.pefs.conf` is not `ALGORITHM:ITERATIONS`.
    #[error("the target of .pefs.conf is not ALGORITHM:ITERATIONS")]
    Config,
    /// `.pefs.db` is no btree of Berkeley DB 1.85, or damaged.
    #[error(".pefs.db is damaged: {0}")]
    Database(&'static str),
    /// A record of a chain was changed, or belongs to another key.
    #[error("the record of the key in .pefs.db is damaged")]
    Record,
    /// A chain comes back to a key that it has had.
    #[error("the key chain is a circle")]
    Circle,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The cipher refuses, by its policy or for want of memory.
    #[error(transparent)]
    Cipher(#[from] cipher::Error),
    /// No locked memory is left.
    #[error(transparent)]
    Memory(#[from] secret::Error),
}
