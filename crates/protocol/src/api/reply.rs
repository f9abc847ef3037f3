//! Everything that can be returned.

use serde::{Deserialize, Serialize};

use super::{
    AccountRow, Anchor, AnchorRow, CallerReport, DaemonReport, DatasetRow, DeferredReport,
    DiffReport, EventRow, ExportRow, GenerationRow, HaReport, HistoryRow, HoldRow, ImportablePool,
    Inspection, KeyRow, MappingRow, MountRow, NewToken, PermissionRow, PoolFeatures, PoolIo,
    PoolReport, SessionRow, ShredReport, SlotRow, StreamRow, TokenRow, ZoneRow,
};

/// What a command returns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Nothing but that it is done.
    Nothing,
    /// Names of what was made or went.
    Names(Vec<String>),
    /// Snapshots that were destroyed, or are to be.
    Deferred(DeferredReport),
    /// What was destroyed with its keys.
    Shredded(ShredReport),
    /// Datasets with properties.
    Datasets(Vec<DatasetRow>),
    /// Pools.
    Pools(Vec<PoolReport>),
    /// What devices did.
    Io(Vec<PoolIo>),
    /// Pools that could be imported.
    Importable(Vec<ImportablePool>),
    /// What is mounted.
    Mounts(Vec<MountRow>),
    /// What pools have that not every program knows.
    Features(Vec<PoolFeatures>),
    /// The history.
    History(Vec<HistoryRow>),
    /// What happened to pools.
    Events(Vec<EventRow>),
    /// What differs.
    Diff(DiffReport),
    /// Streams.
    Streams(Vec<StreamRow>),
    /// Tags on snapshots.
    Holds(Vec<HoldRow>),
    /// What users or groups have.
    Accounts(Vec<AccountRow>),
    /// Keys.
    Keys(Vec<KeyRow>),
    /// Generations of data keys.
    Generations(Vec<GenerationRow>),
    /// Slots.
    Slots(Vec<SlotRow>),
    /// The number of a slot.
    Slot(u32),
    /// A backup of keyrings, in hexadecimal digits.
    Backup(String),
    /// Anchors.
    Anchors(Vec<Anchor>),
    /// Anchors beside the present.
    AnchorRows(Vec<AnchorRow>),
    /// An inspection.
    Inspection(Box<Inspection>),
    /// Who may do what.
    Permissions(Vec<PermissionRow>),
    /// Zones.
    Zones(Vec<ZoneRow>),
    /// Exports.
    Exports(Vec<ExportRow>),
    /// Sessions of initiators.
    Sessions(Vec<SessionRow>),
    /// What a pool serves.
    Ha(HaReport),
    /// Mappings.
    Mappings(Vec<MappingRow>),
    /// The daemon.
    Daemon(DaemonReport),
    /// The caller.
    Caller(CallerReport),
    /// Tokens, without what has to be shown.
    Tokens(Vec<TokenRow>),
    /// A new token.
    Token(NewToken),
    /// The page of metrics.
    Metrics(String),
}
