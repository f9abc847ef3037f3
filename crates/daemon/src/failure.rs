//! Errors of every layer as failures of a command.

use std::fmt::Display;
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};

use rustix::io::Errno;

use protocol::api::{self, FailureKind};

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command failed, as the client gets it. The errors of all crates convert into it.
#[derive(Clone, Debug)]
pub struct Failure(pub api::Failure);

impl Failure {
    /// A failure with its message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure(api::Failure::new(kind, message))
    }

    /// The request makes no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure(api::Failure::usage(message))
    }

    /// A failure of none of the other kinds.
    pub fn other(message: impl Into<String>) -> Failure {
        Failure(api::Failure::other(message))
    }

    /// Puts the failed action before the message.
    pub fn context(mut self, what: impl Display) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl Deref for Failure {
    type Target = api::Failure;

    fn deref(&self) -> &api::Failure {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut api::Failure {
        &mut self.0
    }
}

impl From<api::Failure> for Failure {
    fn from(failure: api::Failure) -> Failure {
        Failure(failure)
    }
}

impl From<Failure> for api::Failure {
    fn from(failure: Failure) -> api::Failure {
        failure.0
    }
}

impl From<block::Error> for Failure {
    fn from(error: block::Error) -> Failure {
        Failure::new(kind_of_device(&error), error.to_string())
    }
}

fn kind_of_device(error: &block::Error) -> FailureKind {
    match error {
        block::Error::Busy { .. } | block::Error::Reserved { .. } => FailureKind::Busy,
        block::Error::Open { source, .. } => match source.kind() {
            ErrorKind::NotFound => FailureKind::NotFound,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => FailureKind::Permission,
            ErrorKind::AlreadyExists => FailureKind::Exists,
            ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
                FailureKind::Usage
            }
            ErrorKind::StorageFull => FailureKind::NoSpace,
            _ => FailureKind::Device,
        },
        block::Error::ReadOnly { .. } => FailureKind::Permission,
        block::Error::NotADevice { .. }
        | block::Error::TooLarge { .. }
        | block::Error::Misaligned { .. }
        | block::Error::NoReservations { .. } => FailureKind::Usage,
        block::Error::Unauthentic { .. } => FailureKind::Damaged,
        _ => FailureKind::Device,
    }
}

impl From<nbd::Error> for Failure {
    fn from(error: nbd::Error) -> Failure {
        use nbd::Error as E;
        let kind = match error {
            E::Device(error) => return error.into(),
            E::Exists { .. } => FailureKind::Exists,
            E::NoSuchExport { .. } => FailureKind::NotFound,
            E::InUse { .. } | E::KernelDeviceInUse { .. } => FailureKind::Busy,
            E::NotPermitted => FailureKind::Permission,
            E::Name { .. }
            | E::Unaligned { .. }
            | E::Certificates { .. }
            | E::SectorSize { .. } => FailureKind::Usage,
            _ => FailureKind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<iscsi::Error> for Failure {
    fn from(error: iscsi::Error) -> Failure {
        use iscsi::Error as E;
        let kind = match error {
            E::Device(error) => return error.into(),
            E::Exists { .. } => FailureKind::Exists,
            E::NoSuchTarget { .. } => FailureKind::NotFound,
            E::InUse { .. } | E::Busy { .. } => FailureKind::Busy,
            E::Name { .. } | E::Lun { .. } | E::Unaligned { .. } => FailureKind::Usage,
            _ => FailureKind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        Failure::new(kind_of_store(&error), error.to_string())
    }
}

fn kind_of_store(error: &store::Error) -> FailureKind {
    use store::Error as E;
    match error {
        E::Device(error) => kind_of_device(error),
        E::Stalled { is_full: true, .. } => FailureKind::NoSpace,
        E::NotAPool { .. } => FailureKind::NotFound,
        E::MissingDevices { .. } | E::NoMember { .. } | E::OtherDevice { .. } => {
            FailureKind::Device
        }
        E::NoSuchMember { .. } => FailureKind::NotFound,
        E::NotThatCache { .. } => FailureKind::Device,
        E::InUse { .. } => FailureKind::Exists,
        E::TooSmall { .. } | E::Duplicate { .. } | E::Mismatch { .. } => FailureKind::Usage,
        E::DamagedLabel { .. }
        | E::Truncated { .. }
        | E::NoSuperblock
        | E::DamagedKeyBlock { .. } => FailureKind::Damaged,
        E::TooNew { .. } => FailureKind::TooNew,
        _ => FailureKind::Other,
    }
}

impl From<pool::Error> for Failure {
    fn from(error: pool::Error) -> Failure {
        use pool::Error as E;
        let kind = match error {
            E::Store(error) => return error.into(),
            E::Unreadable { ref source, .. } => kind_of_store(source),
            E::Damaged { .. } | E::Inconsistent { .. } => FailureKind::Damaged,
            E::NoSpace | E::Limit { .. } | E::KeyAreaFull { .. } => FailureKind::NoSpace,
            E::Suspended { .. } => FailureKind::Device,
            E::UnknownFeatures { .. } => FailureKind::TooNew,
            E::Destroyed { .. } | E::NoSuchDataset { .. } => FailureKind::NotFound,
            E::Exists { .. } => FailureKind::Exists,
            E::Busy { .. }
            | E::OtherHost { .. }
            | E::HasDependents { .. }
            | E::HasClones { .. }
            | E::Held { .. } => FailureKind::Busy,
            E::BadName { .. } | E::Refused { .. } | E::Device { .. } => FailureKind::Usage,
            E::OtherHistory { .. } | E::LogsLost { .. } => FailureKind::Device,
            E::Stream { .. } => FailureKind::Damaged,
            E::ReadOnly => FailureKind::Permission,
            _ => FailureKind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<keys::Error> for Failure {
    fn from(error: keys::Error) -> Failure {
        use keys::Error as E;
        let kind = match &error {
            E::WrongKey | E::TokenPin { .. } | E::TpmPin(_) | E::FidoPin(_) => {
                FailureKind::WrongKey
            }
            E::TokenKeyExists { .. } => FailureKind::Exists,
            E::KdfBusy => FailureKind::Busy,
            E::KeyFileWrite { source, .. } => match source.kind() {
                ErrorKind::AlreadyExists | ErrorKind::IsADirectory => FailureKind::Exists,
                ErrorKind::PermissionDenied => FailureKind::Permission,
                ErrorKind::NotFound => FailureKind::NotFound,
                ErrorKind::StorageFull => FailureKind::NoSpace,
                _ => FailureKind::Other,
            },
            E::Damaged(_) | E::SignatureFile { .. } => FailureKind::Damaged,
            E::TooNew { .. } => FailureKind::TooNew,
            E::KeySource(_) => FailureKind::Usage,
            E::Backup(_) => FailureKind::Damaged,
            E::NoSlot(_) => FailureKind::NotFound,
            E::KeyFileMissing(_)
            | E::KeyFileUnreadable { .. }
            | E::KeyFileKind { .. }
            | E::KeyLate { .. }
            | E::KeyServer { .. }
            | E::Clevis(_)
            | E::UserKey { .. }
            | E::Tpm(_)
            | E::TpmLocked(_)
            | E::Fido(_)
            | E::Shares(_)
            | E::KeyProvider { .. }
            | E::Token { .. }
            | E::KeyLength { .. }
            | E::KeyForSuite { .. }
            | E::HexDigit { .. }
            | E::PassphraseShort { .. }
            | E::PassphraseLong { .. }
            | E::KindMismatch(_) => FailureKind::NoKey,
            _ => FailureKind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<secret::Error> for Failure {
    fn from(error: secret::Error) -> Failure {
        Failure(error.into())
    }
}

impl From<luks::Error> for Failure {
    fn from(error: luks::Error) -> Failure {
        use luks::Error as E;
        let kind = match error {
            E::Device(error) => return error.into(),
            E::Keys(error) => return error.into(),
            E::NotLuks { .. } | E::NoSlot { .. } | E::NoToken { .. } => FailureKind::NotFound,
            E::Damaged { .. }
            | E::Overwritten { .. }
            | E::Reencryption { .. }
            | E::KeyMaterial { .. }
            | E::Integrity { .. } => FailureKind::Damaged,
            E::Unreadable { .. } => FailureKind::Device,
            E::Unsupported { .. } => FailureKind::TooNew,
            E::WrongPassphrase { .. } => FailureKind::WrongKey,
            E::NoUsableSlot { .. } => FailureKind::NoKey,
            E::SlotInUse { .. } => FailureKind::Exists,
            E::LastSlot { .. } | E::Busy(_) => FailureKind::Busy,
            E::NoSpace { .. } | E::TooSmall { .. } => FailureKind::NoSpace,
            E::Usage(_) => FailureKind::Usage,
            _ => FailureKind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<dataset::Error> for Failure {
    fn from(error: dataset::Error) -> Failure {
        use dataset::Error as E;
        match error {
            E::Pool(error) => error.into(),
            E::Keys(error) => error.into(),
            E::Damaged { .. } => Failure::new(FailureKind::Damaged, error.to_string()),
            E::ForeignLog { .. } => Failure::new(FailureKind::ForeignLog, error.to_string()),
            E::Fs(vfs::Error::ReadOnly) => Failure::new(FailureKind::Permission, error.to_string()),
            error => Failure::other(error.to_string()),
        }
    }
}

impl From<fuse::Error> for Failure {
    fn from(error: fuse::Error) -> Failure {
        let kind = match &error {
            fuse::Error::Busy(_)
            | fuse::Error::Writing(_)
            | fuse::Error::Covered(_)
            | fuse::Error::OptionsCovered(_)
            | fuse::Error::Inside { .. }
            | fuse::Error::InUseElsewhere { .. } => FailureKind::Busy,
            fuse::Error::NoMountpoint(_) => FailureKind::NotFound,
            fuse::Error::Helper(_)
            | fuse::Error::Mount {
                cause: Errno::PERM | Errno::ACCESS | Errno::ROFS,
                ..
            }
            | fuse::Error::OpenDevice(Errno::PERM | Errno::ACCESS) => FailureKind::Permission,
            _ => FailureKind::Other,
        };
        Failure::new(kind, error.to_string())
    }
}
