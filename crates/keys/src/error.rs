//! The errors of operations on secrets: what happened, to what, and what to do about it.
//!
//! No variant holds a secret or a part of one, not even a rejected character. Texts that a person
//! gave are repeated only where they are paths.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cipher::Suite;

use failure::FailureKind;

use crate::format::{KEY_LENGTHS, MaterialFormat, PASSPHRASE_MAX, PASSPHRASE_MIN};
use crate::layout::SLOTS_MAX;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of an operation on secrets. A failed operation changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No memory is left for a secret, or the secret could not be read.
    #[error(transparent)]
    Secret(#[from] secret::Error),
    /// A key source that cannot be used.
    #[error("the key source cannot be used: {0}")]
    KeySource(String),
    /// The key file is missing.
    #[error("the key file {path} does not exist; is its file system mounted?", path = .0.display())]
    KeyFileMissing(PathBuf),
    /// The key file may not be read, or reading it failed.
    #[error("the key file {path} cannot be read: {source}", path = .path.display())]
    KeyFileUnreadable {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The key file is not a kind of file that a key of this format is read from.
    #[error("{path} is {kind}; a {format} key is read from a regular file", path = .path.display())]
    KeyFileKind {
        /// The file.
        path: PathBuf,
        /// The kind of the file.
        kind: &'static str,
        /// The format of the key.
        format: MaterialFormat,
    },
    /// The key file could not be created, or exists already.
    #[error("the key file {path} cannot be written: {reason}", path = .path.display(), reason = why_not(path, source))]
    KeyFileWrite {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// A key did not come in time.
    #[error("the key from {origin}: {reason}")]
    KeyLate {
        /// The source that was waited for.
        origin: String,
        /// For how long, and what to do.
        reason: String,
    },
    /// A key server did not give a key.
    #[error("the key server {url}: {reason}")]
    KeyServer {
        /// The address of the server, without parts that may be meant for the server only.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A secret that clevis sealed does not open.
    #[error("the passphrase that clevis sealed cannot be recovered: {0}")]
    Clevis(String),
    /// The kernel's keyring did not give a key.
    #[error("the key '{description}' in the kernel's keyring: {reason}")]
    UserKey {
        /// The name of the object.
        description: String,
        /// The reason.
        reason: String,
    },
    /// The TPM did not give a key.
    #[error("the TPM: {0}")]
    Tpm(String),
    /// The file with the signatures of PCRs is damaged.
    #[error(
        "the signature file {path} is damaged: {reason}; make it again with 'systemd-measure sign'", path = .path.display()
    )]
    SignatureFile {
        /// The file.
        path: PathBuf,
        /// The fault of the file.
        reason: String,
    },
    /// The TPM opens nothing for a while, after wrong PINs.
    #[error("the TPM: {0}")]
    TpmLocked(String),
    /// The TPM wants another PIN.
    #[error("the TPM: {0}")]
    TpmPin(String),
    /// An authenticator did not give a key.
    #[error("the authenticator: {0}")]
    Fido(String),
    /// An authenticator wants another PIN.
    #[error("the authenticator: {0}")]
    FidoPin(String),
    /// Too few of the sources that hold a key together helped.
    #[error("the key in parts: {0}")]
    Shares(String),
    /// A program did not give a key.
    #[error("the key provider {path}: {reason}", path = .path.display())]
    KeyProvider {
        /// The path, or the part of it that others can change.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A token did not do what it was asked.
    #[error("the token '{token}': {reason}")]
    Token {
        /// The label or serial number of the token.
        token: String,
        /// The reason.
        reason: String,
    },
    /// A token was not opened.
    #[error("the token '{token}': {reason}")]
    TokenPin {
        /// The label or serial number of the token.
        token: String,
        /// The reason.
        reason: String,
    },
    /// A token has a key of that name.
    #[error(
        "the token '{token}' has a key of this name already, which may be the only copy; choose another"
    )]
    TokenKeyExists {
        /// The label or serial number of the token.
        token: String,
    },
    /// A raw or hexadecimal key of the wrong length.
    #[error("{origin} holds {got} {unit}; a {format} key has {lengths}", unit = unit(*format), lengths = lengths(*format))]
    KeyLength {
        /// The origin of the key: a file's path, or "the prompt".
        origin: String,
        /// The format of the key.
        format: MaterialFormat,
        /// The number of bytes or characters; of an endless file, the number that was read.
        got: u64,
    },
    /// A raw or hexadecimal key that is too short, or too long, for a cipher suite.
    #[error(
        "it has {} bits; a key for {} has {}{}", 8 * got, suite.name(), suited(*suite), suites_for(*got)
    )]
    KeyForSuite {
        /// The number of bytes.
        got: usize,
        /// The suite.
        suite: Suite,
    },
    /// A character in a hexadecimal key that is not a digit.
    #[error("{origin} has a character that is not a hexadecimal digit, at position {position}")]
    HexDigit {
        /// The origin of the key.
        origin: String,
        /// The position of the character, from 1.
        position: usize,
    },
    /// A passphrase that is too easy to guess to be a passphrase.
    #[error("the passphrase from {origin} is too short; use at least {min} bytes", min = PASSPHRASE_MIN)]
    PassphraseShort {
        /// The origin of the passphrase.
        origin: String,
    },
    /// A passphrase longer than is read.
    #[error("the passphrase from {origin} is too long; use at most {max} bytes", max = PASSPHRASE_MAX)]
    PassphraseLong {
        /// The origin of the passphrase.
        origin: String,
    },

    /// The parameters of the password hash are out of bounds.
    #[error("the parameters of the password hash cannot be used: {0}")]
    KdfParams(&'static str),
    /// The memory is too small to hash a passphrase.
    #[error(
        "not enough memory to check the passphrase: Argon2id needs {memory_kib} KiB; free some memory, or \
         unlock on a larger machine"
    )]
    KdfMemory {
        /// The memory of the hash, in KiB.
        memory_kib: u32,
    },

    /// A password hash takes more memory than all of them have together.
    #[error(
        "one try of this passphrase takes {needed_mib} MiB of memory in {passes} passes, and the daemon allows \
         {limit_mib} MiB for all password hashes together; if you trust the key slot, root can allow it once: \
         --hash-memory {needed_mib}"
    )]
    KdfBudget {
        /// The memory of the hash, in MiB.
        needed_mib: u64,
        /// The passes over that memory.
        passes: u32,
        /// The memory of all hashes together, in MiB.
        limit_mib: u64,
    },
    /// Too many password hashes wait for memory.
    #[error("too many passphrases are being tried at the same time; try again later")]
    KdfBusy,
    /// The caller went away before its password hash began.
    #[error("the caller went away before its passphrase was tried")]
    KdfGone,
    /// Trying all slots would take too long.
    #[error(
        "this passphrase was not tried at all key slots: together they take more than {limit_gib} GiB of \
         memory times passes, or {limit_gib} million iterations of PBKDF2; remove slots that you do not know"
    )]
    KdfWork {
        /// The most work that is tried, in GiB times passes.
        limit_gib: u64,
    },

    /// FIPS mode is on, and the slot has a hash that is not approved.
    #[error(
        "Argon2id, the hash of the passphrase, is not approved, and FIPS mode is on; run 'strongroom crypto disable \
         fips-140', restart the daemon, load the key, and replace the hash with 'strongroom key change --pbkdf pbkdf2'"
    )]
    FipsSlot,

    /// The key is not the one that was used here.
    #[error("the key or passphrase is wrong")]
    WrongKey,
    /// No slot takes a key of this kind.
    #[error("no key slot takes a {0}")]
    KindMismatch(&'static str),
    /// The stored bytes are not what was written. It is not the key that is wrong.
    #[error("the keyring is damaged ({0}); restore it from a copy")]
    Damaged(&'static str),
    /// Written by a later version of the program.
    #[error("the keyring has format {version}, which this version cannot read; update Strongroom")]
    TooNew {
        /// The format.
        version: u16,
    },
    /// A part of an intact keyring is unknown to this program.
    #[error(
        "the keyring uses {what} number {id}, which this version does not know; update Strongroom"
    )]
    Unknown {
        /// The kind of the part.
        what: &'static str,
        /// The number of the part.
        id: u8,
    },
    /// An operation on slots that the wrapping key's owner must do.
    #[error(
        "this dataset inherits its wrapping key; change the key of the dataset above that has it"
    )]
    Inherited,
    /// The keyring has no such slot.
    #[error("there is no key slot {0}")]
    NoSlot(u32),
    /// The keyring has as many slots as possible.
    #[error("all {max} key slots are in use; remove one first", max = SLOTS_MAX)]
    SlotsFull,
    /// Without this slot the dataset could not be unlocked any more.
    #[error("key slot {0} is the last one that can be used; add another before you remove it")]
    LastSlot(u32),
    /// The keyring has no such generation.
    #[error("the keyring has no generation {0}")]
    NoGeneration(u32),
    /// A keyring that could not be read back.
    #[error("the keyring cannot be created: {0}")]
    Keyring(&'static str),

    /// A file is not a backup of keys, or cannot be one.
    #[error("the backup of keys cannot be used: {0}")]
    Backup(String),

    /// A cryptographic operation failed.
    #[error(transparent)]
    Cipher(#[from] cipher::Error),
}

impl Error {
    /// An authenticator that did not give a key, and why.
    pub(crate) fn fido(reason: impl std::fmt::Display) -> Error {
        Error::Fido(reason.to_string())
    }

    /// Returns whether the error is about one slot, so that another slot may still open.
    pub(crate) fn is_of_one_slot(&self) -> bool {
        matches!(
            self,
            Error::Damaged(_)
                | Error::KdfBudget { .. }
                | Error::KdfWork { .. }
                | Error::FipsSlot
                | Error::KeyServer { .. }
                | Error::Tpm(_)
                | Error::TpmLocked(_)
                | Error::TpmPin(_)
                | Error::Shares(_)
        )
    }

    /// The rank of an error: of the errors of several slots, one of the highest rank is told. A wrong PIN says more
    /// than a slot of another TPM.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Error::TpmLocked(_) => 2,
            Error::TpmPin(_) => 1,
            _ => 0,
        }
    }
}

/// Returns the reason why a new key file could not be written, in words.
fn why_not(path: &Path, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory if path.is_dir() => {
            "it is a directory; name a new file in it".into()
        }
        io::ErrorKind::AlreadyExists => {
            "it exists already, and may hold the only copy of a key; choose another name".into()
        }
        io::ErrorKind::NotFound => match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => {
                format!(
                    "the directory {} does not exist; create it first",
                    above.display()
                )
            }
            _ => "the path is empty".into(),
        },
        _ => source.to_string(),
    }
}

/// The unit in which the length of a key in this format is counted.
fn unit(format: MaterialFormat) -> &'static str {
    match format {
        MaterialFormat::Hex => "characters",
        MaterialFormat::Raw | MaterialFormat::Passphrase => "bytes",
    }
}

/// The lengths that a key in this format can have.
fn lengths(format: MaterialFormat) -> String {
    let per_byte = if format == MaterialFormat::Hex { 2 } else { 1 };
    let [short, middle, long] = KEY_LENGTHS.map(|bytes| bytes * per_byte);
    format!("{short}, {middle} or {long}, as its cipher suite")
}

/// The suites that a key of so many bytes is for, as the end of a sentence.
fn suites_for(bytes: usize) -> String {
    let names = Suite::ALL
        .into_iter()
        .filter(|suite| suite.key_len() == bytes);
    let names: Vec<String> = names
        .map(|suite| format!("encryption={}", suite.name()))
        .collect();
    format!("; {} takes this one", names.join(" or "))
}

/// The bits of a key that can protect a suite.
fn suited(suite: Suite) -> String {
    match 8 * suite.key_len() {
        256 => "256".into(),
        fewer => format!("{fewer} or 256"),
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::WrongKey | Error::TokenPin { .. } | Error::TpmPin(_) | Error::FidoPin(_) => {
                FailureKind::WrongKey
            }
            Error::TokenKeyExists { .. } => FailureKind::Exists,
            Error::KdfBusy => FailureKind::Busy,
            Error::KeyFileWrite { source, .. } => match source.kind() {
                ErrorKind::AlreadyExists | ErrorKind::IsADirectory => FailureKind::Exists,
                ErrorKind::PermissionDenied => FailureKind::Permission,
                ErrorKind::NotFound => FailureKind::NotFound,
                ErrorKind::StorageFull => FailureKind::NoSpace,
                _ => FailureKind::Other,
            },
            Error::Damaged(_) | Error::SignatureFile { .. } => FailureKind::Damaged,
            Error::TooNew { .. } => FailureKind::TooNew,
            Error::KeySource(_) => FailureKind::Usage,
            Error::Backup(_) => FailureKind::Damaged,
            Error::NoSlot(_) => FailureKind::NotFound,
            Error::KeyFileMissing(_)
            | Error::KeyFileUnreadable { .. }
            | Error::KeyFileKind { .. }
            | Error::KeyLate { .. }
            | Error::KeyServer { .. }
            | Error::Clevis(_)
            | Error::UserKey { .. }
            | Error::Tpm(_)
            | Error::TpmLocked(_)
            | Error::Fido(_)
            | Error::Shares(_)
            | Error::KeyProvider { .. }
            | Error::Token { .. }
            | Error::KeyLength { .. }
            | Error::KeyForSuite { .. }
            | Error::HexDigit { .. }
            | Error::PassphraseShort { .. }
            | Error::PassphraseLong { .. }
            | Error::KindMismatch(_) => FailureKind::NoKey,
            _ => FailureKind::Other,
        }
    }
}
