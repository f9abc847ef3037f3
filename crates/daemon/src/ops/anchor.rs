//! Anchors: prints them, and detects a pool or dataset that was rolled back.

use std::sync::Arc;

use pool::Entry;
use protocol::api::{Anchor, AnchorOutcome, AnchorRow, FailureKind};
use protocol::digits::hex;

use crate::failure::{Failure, Result};
use crate::state::active_pool::ActivePool;
use crate::state::daemon::Daemon;

impl Daemon {
    /// The anchors of these datasets and of all datasets below them; of all datasets if `names` is empty.
    pub(crate) fn anchors(&self, names: &[String]) -> Result<Vec<Anchor>> {
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
        let mut anchors: Vec<Anchor> = Vec::new();
        for (active, id) in of {
            if !active.pool.is_read_only() {
                active.pool.commit()?;
            }
            anchors.extend(below(&active, id)?);
        }
        Ok(anchors)
    }

    /// Compares anchors with the datasets as they are now.
    pub(crate) fn check_anchors(&self, anchors: &[Anchor]) -> Result<Vec<AnchorRow>> {
        anchors.iter().map(|anchor| self.check(anchor)).collect()
    }

    fn check(&self, anchor: &Anchor) -> Result<AnchorRow> {
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
        let row = |entry: Option<&Entry>, name: &str, outcome, is_verified| AnchorRow {
            dataset: name.into(),
            guid: anchor.guid,
            anchored: anchor.sequence,
            now: entry.map(|entry| entry.sequence),
            outcome,
            is_verified,
        };
        let top = active.pool.top()?.id;
        let listed = active.pool.list(top)?;
        let Some(found) = listed.iter().find(|l| l.entry.guid == anchor.guid) else {
            return Ok(row(None, &anchor.dataset, AnchorOutcome::Missing, false));
        };
        let is_verified = verify(active, &found.entry)?;
        let outcome = outcome(anchor, active, &found.entry, is_verified);
        let is_verified = is_verified == Some(true);
        Ok(row(Some(&found.entry), &found.name, outcome, is_verified))
    }
}

fn below(active: &ActivePool, id: u64) -> Result<Vec<Anchor>> {
    let (txg, listed) = active.pool.list_durable(id)?;
    let datasets = listed.into_iter().filter(|l| !l.entry.is_snapshot());
    Ok(datasets
        .map(|listed| Anchor {
            dataset: listed.name,
            pool_guid: active.pool.guid(),
            txg,
            guid: listed.entry.guid,
            sequence: listed.entry.sequence,
            seal: hex(&listed.entry.seal),
        })
        .collect())
}

fn outcome(
    anchor: &Anchor,
    active: &ActivePool,
    entry: &Entry,
    is_verified: Option<bool>,
) -> AnchorOutcome {
    let was_clear = anchor.seal.bytes().all(|digit| digit == b'0');
    let same_seal = anchor.seal.eq_ignore_ascii_case(&hex(&entry.seal));
    if is_verified == Some(false) || (entry.suite == 0 && !was_clear) {
        return AnchorOutcome::Replaced;
    }
    if entry.sequence < anchor.sequence || active.pool.committed_txg() < anchor.txg {
        return AnchorOutcome::RolledBack;
    }
    match (entry.sequence == anchor.sequence, same_seal) {
        (true, true) => AnchorOutcome::Same,
        (true, false) => AnchorOutcome::Replaced,
        (false, _) => AnchorOutcome::Later,
    }
}

/// Whether a holder of the key made the seal of a dataset; `None` if that cannot be known now.
fn verify(active: &Arc<ActivePool>, entry: &Entry) -> Result<Option<bool>> {
    let keys = match active.data_keys(entry) {
        Ok(Some(keys)) => keys,
        Ok(None) => return Ok(None),
        Err(failure) if failure.kind == FailureKind::NoKey => return Ok(None),
        Err(failure) if failure.kind == FailureKind::Damaged => return Ok(Some(false)),
        Err(failure) => return Err(failure),
    };
    match dataset::verify_seal(&active.pool, entry, keys) {
        Ok(()) => Ok(Some(true)),
        // An attacker with the old keys can make an old seal.
        Err(
            dataset::Error::Damaged { .. }
            | dataset::Error::OldSeal { .. }
            | dataset::Error::KeyringCut { .. },
        ) => Ok(Some(false)),
        Err(error) => Err(error.into()),
    }
}
