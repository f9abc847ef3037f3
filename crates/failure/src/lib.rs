//! Failures of commands: a kind, which decides the exit code, and a message.
//!
//! Each crate says beside its error type which kind an error is (`impl From<&Error> for FailureKind`). So `?` makes a
//! [`Failure`] from the errors of all crates.

use std::error::Error;
use std::fmt::Display;
use std::io;

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// The failure of a command, with its exit code.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// A line that says what happened, to what, and what to do.
    pub message: String,
}

impl Failure {
    /// A failure with its message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
        }
    }

    /// A failure of a request that makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// A failure of none of the other kinds.
    pub fn other(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Other, message)
    }

    /// Puts the failed action before the message.
    pub fn context(mut self, action: impl Display) -> Failure {
        self.message = format!("{action}: {}", self.message);
        self
    }
}

impl<E> From<E> for Failure
where
    E: Error,
    for<'a> FailureKind: From<&'a E>,
{
    fn from(error: E) -> Failure {
        Failure::new(FailureKind::from(&error), error.to_string())
    }
}

/// Kinds of failure. Their exit codes are an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum FailureKind {
    /// Anything else.
    Other,
    /// The pool, dataset, snapshot or property does not exist.
    NotFound,
    /// The name is taken.
    Exists,
    /// The object is in use.
    Busy,
    /// The caller may not do this.
    Permission,
    /// The key is the wrong one.
    WrongKey,
    /// The key is not loaded, or cannot be read where it should be.
    NoKey,
    /// Data, keys or structures are damaged.
    Damaged,
    /// The pool was written by a newer program.
    TooNew,
    /// No space is free.
    NoSpace,
    /// A device failed.
    Device,
    /// The request makes no sense.
    Usage,
    /// The daemon cannot be reached.
    NoDaemon,
    /// The log of a dataset does not belong to its present state.
    ForeignLog,
}

impl FailureKind {
    /// The kind of an error of the system.
    pub fn of_system(error: &io::Error) -> FailureKind {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FailureKind::NoSpace,
            _ => FailureKind::Other,
        }
    }

    /// The exit code of a command that fails like this.
    pub const fn exit_code(self) -> u8 {
        match self {
            FailureKind::Other => 1,
            FailureKind::Usage => 2,
            FailureKind::NotFound => 3,
            FailureKind::Exists => 4,
            FailureKind::Busy => 5,
            FailureKind::Permission => 6,
            FailureKind::WrongKey => 7,
            FailureKind::NoKey => 8,
            FailureKind::Damaged => 9,
            FailureKind::TooNew => 10,
            FailureKind::NoSpace => 11,
            FailureKind::Device => 12,
            FailureKind::NoDaemon => 13,
            FailureKind::ForeignLog => 14,
        }
    }
}
