//! What can go wrong with secrets, and what to do about it.

use std::io;

use failure::FailureKind;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no memory for a secret, or no secret. Nothing is changed by an operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not let this process lock the memory that a secret needs.
    #[error(
        "cannot lock {needed} bytes of memory for secrets: this process may lock {limit} bytes in \
         all; raise the limit (`ulimit -l`, or LimitMEMLOCK= of a systemd unit)"
    )]
    LockLimit {
        /// How many bytes were to be locked.
        needed: usize,
        /// `RLIMIT_MEMLOCK`, in bytes.
        limit: u64,
    },
    /// This process holds as much memory for secrets as it takes at one time.
    #[error(
        "cannot lock {needed} bytes more of memory for secrets: this process locks {limit} bytes at most; \
         wait until other commands that read keys have ended, and try again"
    )]
    SecretsFull {
        /// How many bytes were to be locked.
        needed: usize,
        /// How many bytes are locked at one time, at most.
        limit: usize,
    },
    /// The kernel refused memory for secrets, for another reason than the limit.
    #[error("cannot set up memory for secrets: {0}")]
    Memory(#[source] io::Error),
    /// A secret is longer than an address space.
    #[error("a secret is too long for the memory of this machine")]
    SecretTooLong,
    /// Reading a secret failed.
    #[error("cannot read a secret: {0}")]
    Read(#[source] io::Error),
    /// The process could not be protected against core dumps.
    #[error("cannot keep this process from dumping its memory ({what}): {source}")]
    Harden {
        /// What was refused.
        what: &'static str,
        /// By the kernel, for this reason.
        source: io::Error,
    },
}

impl From<&Error> for FailureKind {
    fn from(_: &Error) -> FailureKind {
        FailureKind::Other
    }
}
