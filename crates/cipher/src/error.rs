//! What can go wrong, in few words.
//!
//! Misuse (a wrong length) is described, because it is a defect of the caller. A failure to
//! authenticate is not: whether the key, the nonce, the associated data or the ciphertext was wrong
//! is nothing that a cipher knows, and nothing that an attacker should be told.

use crate::Suite;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a cryptographic operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The data is not what the holder of this key sealed.
    #[error("the data is not authentic")]
    Unauthentic,
    /// The key does not have the length that the suite takes.
    #[error("{suite} takes a key of {expected} bytes, not {got}")]
    KeyLength {
        /// The suite that was asked for.
        suite: Suite,
        /// The length that it takes.
        expected: usize,
        /// The length that was given.
        got: usize,
    },
    /// The record is longer than the suite can protect.
    #[error("{suite} takes records of up to {max} bytes, not {got}")]
    TooLong {
        /// The suite of the record.
        suite: Suite,
        /// The longest record that it takes.
        max: u64,
        /// The length that was given.
        got: u64,
    },
    /// The output is not as long as the input.
    #[error("{input} bytes of input do not fit {output} bytes of output exactly")]
    OutputLength {
        /// The length of the input.
        input: usize,
        /// The length of the output.
        output: usize,
    },
    /// The operating system or the library gave no random bytes. Nothing may be sealed.
    #[error("the source of random numbers failed")]
    Random,
    /// The library refused inputs that it must accept: it is out of memory, or defective.
    #[error("the cryptographic library failed")]
    Library,
}
