//! The errors of `gocryptfs.conf`.

/// The reason why a configuration was not read, made or unlocked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no JSON of the right shape.
    #[error("gocryptfs.conf is damaged: {0}")]
    Damaged(String),
    /// The configuration has a part that is not understood here.
    #[error("gocryptfs.conf needs what is not supported: {0}")]
    Unsupported(String),
    /// A directory of an early gocryptfs, which today's gocryptfs does not open either.
    #[error(
        "gocryptfs.conf is too old: it has {0}; copy the files with an old gocryptfs into a new directory"
    )]
    TooOld(String),
    /// The passphrase does not open the master key, or the sealed key was changed: they look the same.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
    /// The cipher refuses, by its policy or for want of memory.
    #[error(transparent)]
    Cipher(#[from] cipher::Error),
    /// No locked memory is left.
    #[error(transparent)]
    Memory(#[from] secret::Error),
}
