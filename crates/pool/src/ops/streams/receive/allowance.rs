//! Quotas during a receive: a stream that exceeds them fails as soon as that is certain.
//!
//! The received data counts as of the last commit, plus all bytes that were allocated since. If this sum is too large,
//! a commit finds the exact size.

use std::sync::Arc;

use store::human_size;

use crate::engine::limits::quota::{self, QuotaKind};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::stream::Begin;
use crate::ops::pool::Pool;
use crate::ops::streams::receive::policy::{ReceiveInto, ReceivePolicy};

/// The bytes that may still be received into a dataset.
pub(super) struct Allowance {
    partial: u64,
    /// The dataset that the stream extends, if the stream only adds to it.
    head: Option<u64>,
    /// The quotas of a new dataset, from its properties.
    own: Vec<(QuotaKind, u64)>,
    /// The bytes that the narrowest limit still allows.
    left: u64,
}

impl Allowance {
    /// The allowance for the target of a stream. If the dataset is rolled back to a snapshot first, the freed space is
    /// unknown. Then the check is at the end.
    pub(super) fn new(
        pool: &Pool,
        partial: u64,
        begin: &Begin,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
    ) -> Result<Option<Allowance>> {
        let (dataset, _) = into.target.split_once('@').unwrap_or((into.target, ""));
        let head = pool.find(dataset).ok();
        if let Some(head) = &head
            && !goes_straight_on(pool, head, begin)?
        {
            return Ok(None);
        }
        let props = match &head {
            Some(_) => Default::default(),
            None => {
                let refused = |reason| Error::refused(dataset, reason);
                policy.props(begin).map_err(refused)?
            }
        };
        let own = QuotaKind::ALL.into_iter().filter_map(|kind| {
            let limit = props.get(kind.property())?.parse().ok()?;
            Some((kind, limit))
        });
        let mut allowance = Allowance {
            partial,
            head: head.map(|head| head.id),
            own: own.collect(),
            left: 0,
        };
        allowance.look(pool)?;
        Ok(Some(allowance))
    }

    /// Counts bytes that were allocated.
    ///
    /// # Errors
    /// [`Error::Limit`] if the received data is larger than a quota allows.
    pub(super) fn charge(&mut self, pool: &Pool, bytes: u64) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                pool.commit()?;
                self.look(pool)?;
            }
        }
        Ok(())
    }

    /// Computes the remaining bytes as of the last commit.
    fn look(&mut self, pool: &Pool) -> Result<()> {
        let state = pool.engine.state.read();
        let slacks = pool.slacks(&state);
        let partial = state.entry(self.partial)?;
        let of = self.head.unwrap_or(self.partial);
        let mut quotas = quota::of(&state, &slacks, of)?;
        // A file may shrink only after another one has grown.
        quotas.retain(|quota| quota.kind == QuotaKind::Below);
        self.left = u64::MAX;
        let above = quotas.iter().map(|quota| {
            let name = state.entry(quota.holder).map(|entry| state.name_of(entry));
            (name.ok(), quota.kind, quota.limit, quota.used)
        });
        let own = self.own.iter().map(|(kind, limit)| {
            let used = match kind {
                QuotaKind::Below => partial.used,
                QuotaKind::Itself => partial.referenced,
            };
            (None, *kind, *limit, used)
        });
        for (name, kind, limit, used) in above.chain(own) {
            if used > limit {
                return Err(Error::Limit {
                    name: name.unwrap_or_else(|| "what is received".into()),
                    reason: format!(
                        "what came takes it to {}, which is more than the {} of {}",
                        human_size(used),
                        kind.property(),
                        human_size(limit)
                    ),
                });
            }
            self.left = self.left.min(limit - used);
        }
        Ok(())
    }
}

/// Returns whether a dataset is equal to its snapshot that a stream starts from.
fn goes_straight_on(pool: &Pool, head: &Arc<Entry>, begin: &Begin) -> Result<bool> {
    let state = pool.engine.state.read();
    let newest = state.snapshots(head).into_iter().next();
    Ok(newest.is_some_and(|newest| newest.guid == begin.from_guid && newest.roots == head.roots))
}
