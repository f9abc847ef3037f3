//! The lag of a job, by the bookmarks that it makes in its source.

use std::sync::Arc;

use pool::Entry;
use protocol::api::is_behind;

use crate::failure::Result;
use crate::host::callers::users::Peer;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::ops::replication::list::JobOfDataset;
use crate::state::pools::active_pool::ActivePool;
use crate::state::replication::job::{PENDING, ReplicationJob};

/// The lag of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicationLag {
    /// The time of the newest snapshot that was copied, of the dataset whose copy is the oldest.
    pub(crate) newest: Option<u64>,
    /// The seconds since the oldest snapshot was made that was not copied yet.
    pub(crate) lag: u64,
}

impl ReplicationLag {
    /// Returns whether a copy is behind: several runs did not bring it further.
    pub(crate) fn is_behind(self, job: &ReplicationJob) -> bool {
        is_behind(self.lag, job.every)
    }
}

impl JobOfDataset {
    /// The lag of the job, over the datasets that a caller may see; without a caller over all. `None` if its pool does not
    /// answer, or if its dataset was destroyed.
    pub(crate) fn lag(&self, peer: Option<&Peer>) -> Option<ReplicationLag> {
        let (source, job) = (Arc::clone(&self.source), self.job.clone());
        let peer = peer.cloned();
        let lag = unless_stalled(&self.active, move |active| {
            active.replication_lag(&source, &job, peer.as_ref())
        });
        lag?.ok()
    }
}

impl ActivePool {
    /// The datasets that a job copies.
    pub(crate) fn heads_of_job(
        &self,
        source: &Arc<Entry>,
        job: &ReplicationJob,
    ) -> Result<Vec<Arc<Entry>>> {
        match job.recursive {
            true => self.heads_below(source),
            false => Ok(vec![Arc::clone(source)]),
        }
    }

    /// The lag of a job, over the datasets that a caller may see; without a caller over all. No device is read.
    fn replication_lag(
        &self,
        source: &Arc<Entry>,
        job: &ReplicationJob,
        peer: Option<&Peer>,
    ) -> Result<ReplicationLag> {
        let mut heads = self.heads_of_job(source, job)?;
        if let Some(peer) = peer.filter(|peer| !peer.is_admin) {
            heads.retain(|head| self.allows_something(head, peer).unwrap_or_default());
        }
        let prefix = job.mark_prefix(source.guid);
        let now = self.pool.now();
        let mut lag = ReplicationLag::default();
        for (number, head) in heads.iter().enumerate() {
            let marks = self.pool.bookmarks(head.id)?.into_iter();
            let mut own = marks.filter(|mark| {
                let name = mark.name.rsplit_once('#').map_or("", |(_, name)| name);
                name.starts_with(&prefix) && !name.ends_with(PENDING)
            });
            let mark = own.next_back().map(|mark| mark.bookmark);
            let txg = mark.as_ref().map_or(0, |mark| mark.created_txg);
            let snapshots = self.pool.snapshots(head.id)?;
            let waiting = snapshots.iter().find(|one| one.created_txg > txg);
            if let Some(waiting) = waiting {
                lag.lag = lag.lag.max(now.saturating_sub(waiting.created));
            }
            let copied = mark.map(|mark| mark.created);
            lag.newest = match (number, lag.newest, copied) {
                (0, _, copied) => copied,
                (_, Some(all), Some(one)) => Some(all.min(one)),
                // A dataset without snapshots has nothing to copy.
                (_, all, None) if snapshots.is_empty() => all,
                _ => None,
            };
        }
        Ok(lag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_behind_after_several_runs() {
        let text = r#"[{"name": "j", "target": "b/a", "owner": 0, "every": 86400}]"#;
        let job = ReplicationJob::parse_all(text).remove(0);
        let is_behind = |lag| ReplicationLag { newest: None, lag }.is_behind(&job);
        assert!(!is_behind(3 * 86_400 + 3600) && is_behind(3 * 86_400 + 3601));
    }
}
