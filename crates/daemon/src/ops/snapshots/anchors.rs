//! Anchors: prints them, and proves that a dataset grew from an anchored state, or that it did not.

use std::sync::Arc;

use dataset::{Ancestry, SealedState};
use encoding::{hex, unhex};
use pool::Entry;
use protocol::api::{AnchorDoubt, AnchorOutcome, AnchorRow, DatasetAnchor, FailureKind};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    /// The anchors of these datasets and of all datasets below them; of all datasets if `names` is empty.
    pub(crate) fn anchors(&self, names: &[String]) -> Result<Vec<DatasetAnchor>> {
        let mut of = Vec::new();
        for name in names {
            let (active, entry) = self.find(name)?;
            of.push((active, entry.id));
        }
        if names.is_empty() {
            for active in self.pools() {
                let top = active.pool.top()?.id;
                of.push((active, top));
            }
        }
        let mut anchors: Vec<DatasetAnchor> = Vec::new();
        for (active, id) in of {
            if !active.pool.is_read_only() {
                active.pool.commit()?;
            }
            anchors.extend(below(&active, id)?);
        }
        if anchors.is_empty() {
            return Err(Failure::new(
                FailureKind::NotFound,
                "there is no encrypted dataset; only encrypted datasets have anchors",
            ));
        }
        Ok(anchors)
    }

    /// Accepts the present states of datasets, although this machine has seen others.
    pub(crate) fn accept_states(
        &self,
        names: &[String],
        context: &CallerContext<'_>,
    ) -> Result<()> {
        for (active, names) in self.by_pool(names)? {
            let _admin = active.lock(context.decision)?;
            for name in names {
                active.forget_seen(&*active.pool.find(&name)?);
            }
        }
        Ok(())
    }

    /// Compares anchors with the datasets as they are now.
    pub(crate) fn check_anchors(&self, anchors: &[DatasetAnchor]) -> Result<Vec<AnchorRow>> {
        anchors.iter().map(|anchor| self.check(anchor)).collect()
    }

    fn check(&self, anchor: &DatasetAnchor) -> Result<AnchorRow> {
        let pools = self.pools();
        let pool = pools.iter().find(|p| p.pool.guid() == anchor.pool_guid);
        let active = pool.ok_or_else(|| {
            let (guid, name) = (anchor.pool_guid, &anchor.dataset);
            Failure::new(
                FailureKind::NotFound,
                format!("the pool of the anchor of '{name}' is not imported; its guid is {guid}; after 'pool \
                         reguid' or 'pool split' a pool needs new anchors"),
            )
        })?;
        let top = active.pool.top()?.id;
        let listed = active.pool.list(top)?;
        let found = listed.iter().find(|l| l.entry.guid == anchor.guid);
        let Some(found) = found.filter(|l| !l.entry.is_snapshot()) else {
            return Ok(row(
                anchor,
                &anchor.dataset,
                None,
                AnchorFinding::Outcome(AnchorOutcome::Missing),
            ));
        };
        let (sequence, finding) = compare(active, &found.entry, anchor)?;
        let changed = active.pool.unsealed_facts(found.entry.id)?.changed;
        Ok(AnchorRow {
            unsealed: changed.into_iter().map(str::to_owned).collect(),
            ..row(anchor, &found.name, Some(sequence), finding)
        })
    }
}

/// The result of a comparison.
enum AnchorFinding {
    Outcome(AnchorOutcome),
    Unknown(AnchorDoubt),
}

fn row(anchor: &DatasetAnchor, name: &str, now: Option<u64>, finding: AnchorFinding) -> AnchorRow {
    let (outcome, doubt) = match finding {
        AnchorFinding::Outcome(outcome) => (outcome, None),
        AnchorFinding::Unknown(doubt) => (AnchorOutcome::Unknown, Some(doubt)),
    };
    AnchorRow {
        dataset: name.into(),
        guid: anchor.guid,
        anchored: anchor.sequence,
        now,
        outcome,
        doubt,
        unsealed: Vec::new(),
    }
}

fn below(active: &ActivePool, id: u64) -> Result<Vec<DatasetAnchor>> {
    let (txg, listed) = active.pool.list_durable(id)?;
    // A clear dataset has no seals: nothing could be proved about it.
    let datasets = listed
        .into_iter()
        .filter(|l| !l.entry.is_snapshot() && l.entry.suite != 0);
    Ok(datasets
        .map(|listed| DatasetAnchor {
            dataset: listed.name,
            pool_guid: active.pool.guid(),
            txg,
            guid: listed.entry.guid,
            sequence: listed.entry.sequence,
            seal: hex(&listed.entry.seal),
        })
        .collect())
}

/// Compares a dataset with an anchor. Also returns its present sequence.
fn compare(
    active: &Arc<ActivePool>,
    entry: &Entry,
    anchor: &DatasetAnchor,
) -> Result<(u64, AnchorFinding)> {
    let found = |outcome| Ok((entry.sequence, AnchorFinding::Outcome(outcome)));
    let unknown = |doubt| Ok((entry.sequence, AnchorFinding::Unknown(doubt)));
    let was_clear = anchor.seal.bytes().all(|digit| digit == b'0');
    if entry.suite == 0 && !was_clear {
        return found(AnchorOutcome::Replaced);
    }
    let is_older = entry.sequence < anchor.sequence || active.pool.committed_txg() < anchor.txg;
    let keys = match active.data_keys(entry) {
        // No honest state has a smaller number.
        _ if is_older && entry.suite == 0 => return found(AnchorOutcome::RolledBack),
        Ok(Some(keys)) => keys,
        Ok(None) => return unknown(AnchorDoubt::Clear),
        Err(failure) if failure.kind == FailureKind::NoKey && is_older => {
            return found(AnchorOutcome::RolledBack);
        }
        Err(failure) if failure.kind == FailureKind::NoKey => return unknown(AnchorDoubt::NoKey),
        Err(failure) if failure.kind == FailureKind::Damaged => {
            return found(AnchorOutcome::Replaced);
        }
        Err(failure) => return Err(failure),
    };
    let Some(seal) = unhex(&anchor.seal).and_then(|seal| seal.try_into().ok()) else {
        return found(AnchorOutcome::Forked);
    };
    let earlier = SealedState {
        sequence: anchor.sequence,
        seal,
    };
    let (entry, ancestry) = match dataset::ancestry(&active.pool, entry.id, keys, &earlier) {
        Ok(compared) => compared,
        // An attacker with the old keys can make an old seal.
        Err(
            dataset::Error::Damaged { .. }
            | dataset::Error::OldSeal { .. }
            | dataset::Error::KeyringCut { .. },
        ) => return found(AnchorOutcome::Replaced),
        Err(error) => return Err(error.into()),
    };
    let finding = match ancestry {
        // The whole pool is older, although nothing has changed in this dataset.
        _ if is_older => AnchorFinding::Outcome(AnchorOutcome::RolledBack),
        Ancestry::Same => AnchorFinding::Outcome(AnchorOutcome::Same),
        Ancestry::Later => AnchorFinding::Outcome(AnchorOutcome::Later),
        Ancestry::RolledBack => AnchorFinding::Outcome(AnchorOutcome::RolledBack),
        Ancestry::Forked => AnchorFinding::Outcome(AnchorOutcome::Forked),
        Ancestry::BeginsLater => AnchorFinding::Unknown(AnchorDoubt::HistoryBeginsLater),
        Ancestry::Unreadable => AnchorFinding::Unknown(AnchorDoubt::HistoryDamaged),
    };
    Ok((entry.sequence, finding))
}
