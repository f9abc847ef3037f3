//! The requests of commands to the daemon, and its answers.
//!
//! Everything here travels as JSON in frames (see [`crate::wire`]); secrets do not, they have frames
//! of their own.

mod arguments;
pub mod command;
mod reply;
mod reports;
mod zone_profile;

use serde::{Deserialize, Serialize};

pub use arguments::{
    AccessTimes, CheckpointUse, DeviceChange, DeviceGroup, HomeStep, InspectTarget, JobChange,
    MountPermissions, NAMES_MAX, NewPoolDevices, NewVolume, Pbkdf, Props, ReceiveName, Rotation,
    SendScope, SpaceWork, WhoKind,
};
pub use command::{Command, CommandDefinition, Effect};
pub use failure::{Failure, FailureKind, Result};
pub use reply::Reply;
pub use reports::{
    AccountRow, AnchorDoubt, AnchorOutcome, AnchorRow, AuditAnchor, AuditFinding, AuditReport,
    AuditRow, BorrowedDevice, CacheIo, CallerReport, CheckRow, CheckpointRow, ChunkRow,
    CopyCheckRow, CopyCondition, CopyReport, CopyRow, DaemonReport, DatasetAnchor, DatasetRow,
    DeferredReport, DeviceAnswer, DeviceIo, DeviceRequest, DeviceRow, DeviceUse, DiffReport,
    DiffRow, DoomedReport, EventRow, ExportRow, FeatureReport, FeatureRow, FollowerRow, Fullness,
    GenerationRow, HaReport, HaTargetRow, HaUnitRow, HistoryRow, HoldRow, HomeRow, ImportablePool,
    InspectedDataset, Inspection, Io, KeyRow, KeychainRow, LogEntryRow, LogRow, LostRecords,
    MappingChange, MappingKeyPlace, MappingReencryption, MappingRow, MappingTimes, MountRow,
    NewToken, OwnerKind, PermissionRow, PlainMapping, PointerRow, PoolAdvice, PoolIoReport,
    PoolReport, PoolStateRow, ProblemKind, PropertyRow, PropertyValue, ReaderRow, RefreshReport,
    RemovalRow, ReplicationRow, ReservationRow, RetentionRow, ScrubEstimate, ScrubRow, SealFinding,
    SessionRow, Severity, ShredReport, SlotRow, StoreCheckRow, StoreIo, StoreProbeReport,
    StreamRow, SuperblockRow, Survivor, SweepRow, TokenRow, TokenScope, ValueSource,
    VerifiedSnapshot, WRONG_KEYS_ALARM, WrongKeyRow, ZoneRow, advice, is_behind,
};
pub use zone_profile::ZoneProfile;

/// The version of this protocol. A change of a request or a reply raises it. Command and daemon are one binary, but
/// the daemon may still run an older one: the two refuse each other instead of misunderstanding a request.
pub const API_VERSION: u32 = 26;

/// A request: the first frame of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`API_VERSION`]
    pub version: u32,
    /// The command.
    pub command: Command,
    /// The memory that one password hash may take, in MiB, where that is more than the daemon's budget. Only the
    /// daemon's owner may set it.
    #[serde(default)]
    pub hash_memory: Option<u64>,
}

/// A frame from the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaemonAnswer {
    /// Ask a person for a secret and send it in a frame of its own.
    Ask(Ask),
    /// A message that does not end the command.
    Notice(String),
    /// Send the data now.
    Ready,
    /// The progress of the work. The client answers with a `bool`: true to continue.
    Progress(MappingReencryption),
    /// The device that was asked for. [`DeviceRequest`]s follow.
    Lent(BorrowedDevice),
    /// Rows of the reply. More follow, and [`DaemonAnswer::Done`] has the last ones ([`Reply::after`]).
    Rows(Reply),
    /// Done.
    Done(Reply),
    /// Refused or failed.
    Failed(Failure),
}

/// A secret that is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// For which dataset.
    pub dataset: String,
    /// In which form.
    pub format: AskFormat,
    /// Ask twice: it is a new one.
    pub twice: bool,
    /// True if the secret before was wrong. Only a person is asked again.
    #[serde(default)]
    pub again: bool,
}

/// The form of a secret that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskFormat {
    /// A passphrase.
    Passphrase,
    /// A key of 64 hexadecimal digits.
    Hex,
    /// A PIN, which opens a token.
    Pin,
    /// The contents of a key file.
    KeyFile,
}
