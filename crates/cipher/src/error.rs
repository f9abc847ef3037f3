//! Errors of this crate, in few words.
//!
//! Misuse (a wrong length) is described, because it is a defect of the caller. A failed authentication is not
//! described. A cipher cannot know which of the key, the nonce, the associated data and the ciphertext was wrong. An
//! attacker must not learn it.

use crate::{AeadAlgorithm, Mechanism, NameMode, Provider, SectorSpec, Suite};

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a cryptographic operation was refused.
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
    /// The coordinates are those of no point of the curve, or of its neutral one.
    #[error("not a point of the curve")]
    Point,
    /// The bytes are not a public key of RSA.
    #[error("not a public key of RSA")]
    RsaKey,
    /// The shares are not those of one secret.
    #[error("the shares do not belong together")]
    Shares,
    /// The name is that of no sector cipher.
    #[error("no such sector cipher: {0}")]
    SectorName(&'static str),
    /// The key does not have a length that the sector cipher takes.
    #[error("{spec} takes a key of {} bytes, not {got}", Lens(.spec.key_lens()))]
    SectorKey {
        /// The cipher that was asked for.
        spec: SectorSpec,
        /// The length that was given.
        got: usize,
    },
    /// The data is no whole number of sectors, or there are no such sectors.
    #[error("{data} bytes are no whole number of sectors of {sector} bytes, a multiple of 16")]
    SectorSize {
        /// The length of a sector.
        sector: usize,
        /// The length of the data.
        data: usize,
    },
    /// A length-preserving cipher does not take a key, a tweak or data of this length.
    #[error("{mode} does not take {what} of {got} bytes")]
    NameSize {
        /// The cipher.
        mode: NameMode,
        /// The argument that has the wrong length.
        what: &'static str,
        /// The length that was given.
        got: usize,
    },
    /// The key or the nonce does not have the length that the AEAD takes.
    #[error(
        "{algorithm} takes a key of {} bytes and a nonce of {}",
        .algorithm.key_len(),
        .algorithm.nonce_len()
    )]
    AeadKey {
        /// The algorithm.
        algorithm: AeadAlgorithm,
    },
    /// The provider does not have the algorithm.
    #[error("{provider} does not have this algorithm")]
    Unsupported {
        /// The provider that was asked.
        provider: Provider,
    },
    /// FIPS mode is on, and this is not approved.
    #[error(
        "{algorithm} is not approved, and FIPS mode is on; choose an approved algorithm, or run strongroom \
         crypto disable fips-140"
    )]
    NotApproved {
        /// The mechanism that was asked for.
        mechanism: Mechanism,
        /// The full name of the mechanism.
        algorithm: &'static str,
    },
    /// Every provider that has this is disabled.
    #[error("no provider of {mechanism} is enabled: strongroom crypto providers")]
    Disabled {
        /// The mechanism that was asked for.
        mechanism: Mechanism,
    },
    /// The parameters of a password hash are none that it has.
    #[error("the password hash refuses its parameters: {0}")]
    PasswordHash(&'static str),
    /// The machine has less memory than the password hash takes.
    #[error("the password hash takes {memory_kib} KiB of memory, and less is free")]
    Memory {
        /// The memory that the hash takes, in KiB.
        memory_kib: u32,
    },
    /// The operating system or the library gave no random bytes. Nothing may be sealed.
    #[error("the source of random numbers failed")]
    Random,
    /// The library refused inputs that it must accept: it is out of memory, or defective.
    #[error("the cryptographic library failed")]
    Library,
}

/// Lengths in a sentence: "16, 24 or 32".
struct Lens(&'static [usize]);

impl std::fmt::Display for Lens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, len) in self.0.iter().enumerate() {
            let before = match i {
                0 => "",
                _ if i + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(f, "{before}{len}")?;
        }
        Ok(())
    }
}
