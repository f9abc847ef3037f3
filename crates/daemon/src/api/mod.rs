//! What a command asks of the daemon, and what the daemon answers.
//!
//! Everything here travels as JSON in frames (see [`crate::wire`]); secrets do not, they have frames
//! of their own.

mod anchor;
mod command;
mod inspection;
mod pools;
mod reply;
mod report;
mod serving;
mod wanted;

use serde::{Deserialize, Serialize};

pub use anchor::{Anchor, AnchorOutcome, AnchorRow};
pub use command::Command;
pub use inspection::{
    CheckRow, ChunkRow, InspectedDataset, Inspection, KeychainRow, LogEntryRow, LogRow, PointerRow,
    SuperblockRow,
};
pub use pools::{
    CacheIo, DeviceIo, DeviceRow, FeatureRow, HistoryRow, ImportablePool, Io, PoolFeatures, PoolIo,
    PoolReport, RemovalRow, ScrubRow,
};
pub use reply::Reply;
pub use report::{
    AccountRow, DaemonReport, DatasetRow, DiffReport, DiffRow, GenerationRow, HoldRow, KeyRow,
    MountRow, OwnerKind, PermissionRow, PropertyRow, ShredReport, SlotRow, Source, Survivor, Value,
    ZoneRow,
};
pub use serving::{
    BorrowedDevice, Borrowing, DeviceAnswer, DeviceRequest, ExportRow, MappingChange, MappingRow,
    MappingTimes, NewExport, OpenMapping, PlainMapping,
};
pub use wanted::{
    AccessTimes, Allowed, DeviceChange, DeviceGroup, InspectTarget, NewVolume, NewZone,
    PermissionChange, PoolDevices, Props, Rotation, SendWhat, WhoKind,
};

/// Every feature of pools that this program knows.
pub fn known_features() -> Vec<FeatureRow> {
    let features = pool::FEATURES.iter();
    features
        .map(|feature| FeatureRow::new(feature, false))
        .collect()
}

/// The newest format of pools; the first is 1.
pub const FORMAT_VERSION: u32 = store::layout::FORMAT_VERSION;

/// The version of this protocol. Client and daemon are one binary, but not always of one day: it is one more
/// with every change to what travels here, so that who is of another day is told so instead of being
/// misunderstood.
pub const API_VERSION: u32 = 8;

/// A request: the first frame of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`API_VERSION`]
    pub version: u32,
    /// What is wanted.
    pub command: Command,
    /// How much memory one password hash may take, in MiB, where that is more than the daemon's budget. Only of
    /// its master.
    #[serde(default)]
    pub hash_memory: Option<u64>,
}

/// A frame from the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Ask a person for a secret and send it in a frame of its own.
    Ask(Ask),
    /// Something to tell that does not end the command.
    Notice(String),
    /// Send the data now.
    Ready,
    /// Here is the device: what follows are [`DeviceRequest`]s.
    Lent(BorrowedDevice),
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
    /// What was given before was wrong. Only a person is asked again.
    #[serde(default)]
    pub again: bool,
}

/// What is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AskFormat {
    /// A passphrase.
    Passphrase,
    /// A key of 64 hexadecimal digits.
    Hex,
    /// What opens a token.
    Pin,
    /// What is in a key file, all of it.
    KeyFile,
}

/// Why a command failed, and with which exit code it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What happened, to what, and what to do.
    pub message: String,
}

/// Kinds of failure. Their exit codes are an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Anything else.
    Other,
    /// There is no such pool, dataset, snapshot or property.
    NotFound,
    /// The name is taken.
    Exists,
    /// Something is in use.
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
    /// There is no room.
    NoSpace,
    /// A device failed.
    Device,
    /// What was asked for makes no sense.
    Usage,
    /// The daemon cannot be reached.
    NoDaemon,
}

impl FailureKind {
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
        }
    }
}
