//! Errors of secrets, with the next step for the user.

use std::io;

use failure::FailureKind;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why there is no secret, or no memory for it. Nothing is changed by an operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not let this process lock the memory that a secret needs.
    #[error(
        "cannot lock {needed} bytes of memory for secrets: this process may lock {limit} bytes in \
         all; raise the limit (`ulimit -l`, or LimitMEMLOCK= of a systemd unit)"
    )]
    LockLimit {
        /// The number of bytes to lock.
        needed: usize,
        /// `RLIMIT_MEMLOCK`, in bytes.
        limit: u64,
    },
    /// The memory for secrets of this process is used up.
    #[error(
        "cannot lock {needed} bytes more of memory for secrets: this process locks {limit} bytes at most; \
         wait until other commands that read keys have ended, and try again"
    )]
    SecretsFull {
        /// The number of bytes to lock.
        needed: usize,
        /// The largest number of bytes that are locked at one time.
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
        /// The change that was refused.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl From<&Error> for FailureKind {
    fn from(_: &Error) -> FailureKind {
        FailureKind::Other
    }
}
