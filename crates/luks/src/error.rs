//! The errors of a container.
//!
//! A wrong passphrase, a damaged header and damaged key material are three different errors. LUKS has no checksum
//! over key material. Damage is told from a wrong passphrase by bytes that encryption never makes: see
//! [`crate::keyslots::material`].

use failure::FailureKind;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an operation on a container. A failed operation has changed nothing, unless its documentation says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device has no header.
    #[error("{device} holds no LUKS header")]
    NotLuks {
        /// The device that was looked at.
        device: String,
    },
    /// The device has a header, but no whole copy of it.
    #[error(
        "the LUKS header of {device} is damaged: {what}; if its data was not being re-encrypted, \
         'luks header-restore' puts a backup back"
    )]
    Damaged {
        /// The device.
        device: String,
        /// The damage that was found.
        what: String,
    },
    /// The header does not fit together with the re-encryption that it says is under way.
    #[error(
        "the re-encryption of {device} does not go on: {what}; no backup of the header fits its data now: copy \
         the device and its header before you try more"
    )]
    Reencryption {
        /// The device of the header.
        device: String,
        /// The contradiction that was found.
        what: String,
    },
    /// The metadata for the tags of authenticated sectors is damaged.
    #[error(
        "what dm-integrity keeps on {device} is damaged: {what}; the header is whole, but has no copy of \
         this: restore the device from a backup"
    )]
    Integrity {
        /// The device.
        device: String,
        /// The damage that was found.
        what: String,
    },
    /// The first copy of the header was overwritten by something else.
    #[error(
        "{device} is not written to: something was written over the first copy of its LUKS header; the \
         second copy is whole: if nothing else is kept there, 'luks repair' writes the first again"
    )]
    Overwritten {
        /// The device.
        device: String,
    },
    /// The device fails where a copy of the header is.
    #[error(
        "the header of {device} is not changed: one copy of it cannot be read, and the other one is whole; \
         'luks repair' writes the copy again"
    )]
    Unreadable {
        /// The device.
        device: String,
    },
    /// The header asks for something that this program does not do.
    #[error("{device} cannot be used here: {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// The feature that the header asks for.
        what: String,
    },
    /// No key slot opens with this passphrase.
    #[error("no key slot of {device} opens with this passphrase or key{untried}")]
    WrongPassphrase {
        /// The device.
        device: String,
        /// Key slots that could not be tried, and why, each after a semicolon.
        untried: String,
    },
    /// No key slot can be tried at all.
    #[error("no key slot of {device} can be used: {why}")]
    NoUsableSlot {
        /// The device.
        device: String,
        /// The reason, and the next step for the user.
        why: String,
    },
    /// The key material of a slot is not what was written.
    #[error(
        "the key material of slot {slot} of {device} is damaged (bytes from {offset} are not encrypted); \
         {advice}"
    )]
    KeyMaterial {
        /// The device.
        device: String,
        /// The slot.
        slot: u32,
        /// The address of the damage, in bytes.
        offset: u64,
        /// The next step for the user.
        advice: &'static str,
    },
    /// The header has no such key slot.
    #[error("{device} has no key slot {slot}")]
    NoSlot {
        /// The device.
        device: String,
        /// The slot.
        slot: u32,
    },
    /// The key slot is in use.
    #[error("key slot {slot} is in use")]
    SlotInUse {
        /// The slot.
        slot: u32,
    },
    /// The header has no such token.
    #[error("{device} has no token {token}")]
    NoToken {
        /// The device.
        device: String,
        /// The token.
        token: u32,
    },
    /// The slot is the last one that opens the container.
    #[error("key slot {slot} is the last one; what is in the container would be lost for good")]
    LastSlot {
        /// The slot.
        slot: u32,
    },
    /// The header has no free space.
    #[error("the LUKS header has no free space for this: {what}")]
    NoSpace {
        /// The purpose of the space, and a way to free some.
        what: String,
    },
    /// The device is smaller than the header says, or than a container must be.
    #[error("{device} has {size} bytes, and {needed} are needed")]
    TooSmall {
        /// The device.
        device: String,
        /// The size of the device, in bytes.
        size: u64,
        /// The size in bytes that it would have to have.
        needed: u64,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The operation has to wait for another one.
    #[error("{0}")]
    Busy(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] block::Error),
    /// A secret could not be kept, or a password not hashed.
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// A cryptographic operation failed.
    #[error(transparent)]
    Cipher(#[from] cipher::Error),
}

impl From<secret::Error> for Error {
    fn from(error: secret::Error) -> Error {
        Error::Keys(error.into())
    }
}

impl Error {
    pub(crate) fn usage(what: impl Into<String>) -> Error {
        Error::Usage(what.into())
    }

    pub(crate) fn suspended() -> Error {
        Error::Busy("the mapping is suspended: resume it first, with 'luks resume'".into())
    }

    pub(crate) fn damaged(device: &dyn block::BlockDevice, what: impl Into<String>) -> Error {
        Error::Damaged {
            device: device.name(),
            what: what.into(),
        }
    }

    pub(crate) fn integrity(device: &dyn block::BlockDevice, what: impl Into<String>) -> Error {
        Error::Integrity {
            device: device.name(),
            what: what.into(),
        }
    }

    pub(crate) fn unsupported(device: &str, what: impl Into<String>) -> Error {
        Error::Unsupported {
            device: device.into(),
            what: what.into(),
        }
    }
}

impl From<&Error> for FailureKind {
    fn from(error: &Error) -> FailureKind {
        match error {
            Error::Device(error) => error.into(),
            Error::Keys(error) => error.into(),
            Error::NotLuks { .. } | Error::NoSlot { .. } | Error::NoToken { .. } => {
                FailureKind::NotFound
            }
            Error::Damaged { .. }
            | Error::Overwritten { .. }
            | Error::Reencryption { .. }
            | Error::KeyMaterial { .. }
            | Error::Integrity { .. } => FailureKind::Damaged,
            Error::Unreadable { .. } => FailureKind::Device,
            Error::Unsupported { .. } => FailureKind::TooNew,
            Error::WrongPassphrase { .. } => FailureKind::WrongKey,
            Error::NoUsableSlot { .. } => FailureKind::NoKey,
            Error::SlotInUse { .. } => FailureKind::Exists,
            Error::LastSlot { .. } | Error::Busy(_) => FailureKind::Busy,
            Error::NoSpace { .. } | Error::TooSmall { .. } => FailureKind::NoSpace,
            Error::Usage(_) => FailureKind::Usage,
            _ => FailureKind::Other,
        }
    }
}
