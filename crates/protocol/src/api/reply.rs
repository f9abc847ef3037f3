//! The replies of the daemon.

use serde::{Deserialize, Serialize};

use super::{
    AccountRow, AnchorRow, AuditReport, AuditRow, CallerReport, CopyReport, DaemonReport,
    DatasetAnchor, DatasetRow, DeferredReport, DiffReport, DoomedReport, EventRow, ExportRow,
    FeatureReport, GenerationRow, HaReport, HistoryRow, HoldRow, HomeRow, ImportablePool,
    Inspection, KeyRow, MappingRow, MountRow, NewToken, PermissionRow, PoolIoReport, PoolReport,
    RefreshReport, ReplicationRow, ScrubEstimate, SessionRow, ShredReport, SlotRow,
    StoreProbeReport, StreamRow, TokenRow, VerifiedSnapshot, WrongKeyRow, ZoneRow,
};

/// The reply to a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The command succeeded, without a value.
    Nothing,
    /// Names of what was made or went.
    Names(Vec<String>),
    /// The datasets and snapshots that would be destroyed.
    Doomed(DoomedReport),
    /// Snapshots that were destroyed, or are to be.
    Deferred(DeferredReport),
    /// The datasets that were destroyed with their keys.
    Shredded(ShredReport),
    /// Datasets with properties.
    Datasets(Vec<DatasetRow>),
    /// Pools.
    Pools(Vec<PoolReport>),
    /// The outcome of a refresh.
    Refreshed(RefreshReport),
    /// The operations of devices.
    Io(Vec<PoolIoReport>),
    /// Pools that could be imported.
    Importable(Vec<ImportablePool>),
    /// The mounts.
    Mounts(Vec<MountRow>),
    /// A dataset that is a home.
    Home(HomeRow),
    /// The features of pools.
    Features(Vec<FeatureReport>),
    /// The history.
    History(Vec<HistoryRow>),
    /// Records of the log of who did what.
    Audit(Vec<AuditRow>),
    /// The check of that log.
    AuditReport(AuditReport),
    /// The events of pools.
    Events(Vec<EventRow>),
    /// The differences of two states.
    Diff(DiffReport),
    /// Streams.
    Streams(Vec<StreamRow>),
    /// Snapshots that were read.
    Verified(Vec<VerifiedSnapshot>),
    /// Tags on snapshots.
    Holds(Vec<HoldRow>),
    /// The space and quotas of users or groups.
    Accounts(Vec<AccountRow>),
    /// Keys.
    Keys(Vec<KeyRow>),
    /// Wrong keys that users tried.
    WrongKeys(Vec<WrongKeyRow>),
    /// Generations of data keys.
    Generations(Vec<GenerationRow>),
    /// Slots.
    Slots(Vec<SlotRow>),
    /// The number of a slot.
    Slot(u32),
    /// A backup of keyrings, in hexadecimal digits.
    Backup(String),
    /// Anchors.
    Anchors(Vec<DatasetAnchor>),
    /// Anchors beside the present.
    AnchorRows(Vec<AnchorRow>),
    /// The amount that a scrub has to read.
    ScrubEstimate(ScrubEstimate),
    /// The guarantees of an object store.
    StoreProbe(StoreProbeReport),
    /// An inspection.
    Inspection(Box<Inspection>),
    /// The permissions on datasets.
    Permissions(Vec<PermissionRow>),
    /// Zones.
    Zones(Vec<ZoneRow>),
    /// Exports.
    Exports(Vec<ExportRow>),
    /// Sessions of initiators.
    Sessions(Vec<SessionRow>),
    /// The targets and units that a pool serves.
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
    /// The verification of the copies of a job.
    CopyReport(CopyReport),
    /// Jobs that copy datasets.
    Replications(Vec<ReplicationRow>),
    /// The page of metrics.
    Metrics(String),
}

impl Reply {
    /// The whole reply, if `before` are the rows that came before this one, in order. `None` if they are of other kinds.
    pub fn after(self, before: Vec<Reply>) -> Option<Reply> {
        if before.is_empty() {
            return Some(self);
        }
        let mut whole = before.into_iter();
        let first = whole.next()?;
        whole.chain([self]).try_fold(first, Reply::with)
    }

    /// The rows of both. `None` if they are of different kinds, or no rows.
    fn with(self, more: Reply) -> Option<Reply> {
        fn joined<T>(mut rows: Vec<T>, more: Vec<T>) -> Vec<T> {
            rows.extend(more);
            rows
        }
        Some(match (self, more) {
            (Reply::Datasets(rows), Reply::Datasets(more)) => Reply::Datasets(joined(rows, more)),
            (Reply::Holds(rows), Reply::Holds(more)) => Reply::Holds(joined(rows, more)),
            (Reply::Keys(rows), Reply::Keys(more)) => Reply::Keys(joined(rows, more)),
            (Reply::Accounts(rows), Reply::Accounts(more)) => Reply::Accounts(joined(rows, more)),
            (Reply::History(rows), Reply::History(more)) => Reply::History(joined(rows, more)),
            (Reply::Audit(rows), Reply::Audit(more)) => Reply::Audit(joined(rows, more)),
            (Reply::Verified(rows), Reply::Verified(more)) => Reply::Verified(joined(rows, more)),
            (Reply::Diff(rows), Reply::Diff(more)) => Reply::Diff(DiffReport {
                files: rows
                    .files
                    .zip(more.files)
                    .map(|(rows, more)| joined(rows, more)),
                ..more
            }),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(tags: &[&str]) -> Reply {
        let row = |tag: &&str| HoldRow {
            name: "tank@1".into(),
            tag: (*tag).into(),
            time: 1,
            until: None,
        };
        Reply::Holds(tags.iter().map(row).collect())
    }

    #[test]
    fn rows_are_joined_in_order() {
        let whole = holds(&["d"]).after(vec![holds(&["a", "b"]), holds(&["c"])]);
        let Some(Reply::Holds(rows)) = whole else {
            panic!("{whole:?}");
        };
        let tags: Vec<&str> = rows.iter().map(|row| &*row.tag).collect();
        assert_eq!(tags, ["a", "b", "c", "d"]);
        assert!(matches!(
            Reply::Nothing.after(Vec::new()),
            Some(Reply::Nothing)
        ));
        assert!(Reply::Nothing.after(vec![holds(&["a"])]).is_none());
    }
}
