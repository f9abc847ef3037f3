//! The reports in the replies of the daemon: about pools, datasets, exports, states of anchors, and verified copies.

mod advice;
mod anchor;
mod audit;
mod datasets;
mod fullness;
mod inspection;
mod pools;
mod replication;
mod serving;
mod verification;

pub use advice::{PoolAdvice, ProblemKind, Severity, advice};
pub use anchor::{AnchorDoubt, AnchorOutcome, AnchorRow, DatasetAnchor};
pub use audit::{AuditAnchor, AuditFinding, AuditReport, AuditRow};
pub use datasets::{
    AccountRow, CallerReport, DaemonReport, DatasetRow, DeferredReport, DiffReport, DiffRow,
    DoomedReport, GenerationRow, HoldRow, HomeRow, KeyRow, MountRow, NewToken, OwnerKind,
    PermissionRow, PropertyRow, PropertyValue, ShredReport, SlotRow, StreamRow, Survivor, TokenRow,
    TokenScope, ValueSource, WRONG_KEYS_ALARM, WrongKeyRow, ZoneRow,
};
pub use fullness::Fullness;
pub use inspection::{
    CheckRow, ChunkRow, InspectedDataset, Inspection, KeychainRow, LogEntryRow, LogRow, PointerRow,
    SuperblockRow,
};
pub use pools::{
    CacheIo, CheckpointRow, DeviceIo, DeviceRow, EventRow, FeatureReport, FeatureRow, FollowerRow,
    HistoryRow, ImportablePool, Io, PoolIoReport, PoolReport, PoolStateRow, ReaderRow,
    RefreshReport, RemovalRow, RetentionRow, ScrubEstimate, ScrubRow, StoreCheckRow, StoreIo,
    StoreProbeReport, SweepRow,
};
pub use replication::{CopyCheckRow, ReplicationRow, is_behind};
pub use serving::{
    BorrowedDevice, DeviceAnswer, DeviceRequest, DeviceUse, ExportRow, HaReport, HaTargetRow,
    HaUnitRow, MappingChange, MappingKeyPlace, MappingReencryption, MappingRow, MappingTimes,
    PlainMapping, ReservationRow, SessionRow,
};
pub use verification::{
    CopyCondition, CopyReport, CopyRow, LostRecords, SealFinding, VerifiedSnapshot,
};
