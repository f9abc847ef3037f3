//! The checkpoint of a pool: an earlier state that is kept as a whole until it is discarded.
//!
//! The root of the pool points to a copy of the root of that state. `storage::space` keeps the space of the state, so
//! no unit that it needs is used again. The state also needs its devices and keyrings, which no root protects. So these
//! must not change while there is a checkpoint.

use crate::engine::datasets::keyarea;
use crate::engine::datasets::table::{DatasetTable, head_id};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::jobs::scrub_status::ScrubPosition;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::config::{Config, DeviceState};
use crate::storage::writer::txg::TxgWriter;

/// The largest number of seals that a commit gives to a dataset.
const SEALS_MAX: u64 = 4;

impl DatasetTable {
    /// Refuses a change of the devices, or a second checkpoint, while there is a checkpoint.
    pub(crate) fn refuse_with_checkpoint(&self) -> Result<()> {
        if self.checkpoint.is_none() {
            return Ok(());
        }
        let pool = self.pool_name();
        let reason = format!(
            "it has a checkpoint, which needs the devices as they are; discard it first: strongroom pool checkpoint \
             -d {pool}"
        );
        Err(Error::refused(pool, reason))
    }

    /// Refuses a checkpoint if the pool could not go back to it.
    pub(crate) fn check_can_keep(&self, waits: impl Fn(&Entry) -> bool) -> Result<()> {
        let refuse = |reason: String| Err(Error::refused(self.pool_name(), reason));
        if self.checkpoint.is_some() {
            return refuse(format!(
                "it has a checkpoint already; discard it first: strongroom pool checkpoint -d {}",
                self.pool_name()
            ));
        }
        if self.config.leaving().is_some() {
            let reason =
                "a device is being removed; wait for the end, or stop that (pool remove -s)";
            return refuse(reason.into());
        }
        let mut members = self.config.devices.iter().filter(|d| d.is_member());
        if let Some(device) = members.find(|device| device.state != DeviceState::Online) {
            return refuse(format!(
                "{} does not have all data, and could not be brought up to date while there is a checkpoint; wait for \
                 the end of its resilver, bring it back (pool online), or replace it",
                device.path
            ));
        }
        if let Some(entry) = self.all().find(|entry| waits(entry)) {
            return refuse(format!(
                "{} has synced data that waits for its key; load the key and mount it first",
                self.name_of(entry)
            ));
        }
        Ok(())
    }

    pub(crate) fn discard_checkpoint(&mut self, commit: &TxgWriter<'_>) {
        let record = self.root.checkpoint;
        self.root.set_checkpoint(RecordPtr::EMPTY);
        if !record.is_empty() {
            commit.free(&record.place);
        }
        // Keys that only the checkpoint needed are overwritten when this commit is durable.
        if let Some(checkpoint) = self.checkpoint.take() {
            keyarea::discard_kept(self, &checkpoint);
        }
    }

    /// Completes a rewind to an earlier state, in the first commit after it. `given_up` is the abandoned state, if it can
    /// be read. `since` is the transaction group of the earlier state, and `received` the highest sequence that came with
    /// a stream since.
    ///
    /// The logs are dropped: they have only changes that were made after the earlier state. Sequences of datasets
    /// continue after those of the abandoned state, because no two states of a dataset may have the same sequence.
    pub(crate) fn settle_rewound(
        &mut self,
        commit: &TxgWriter<'_>,
        given_up: Option<&DatasetTable>,
        (since, received): (u64, u64),
    ) -> Result<()> {
        debug_assert!(commit.txg > since, "the earlier state is older");
        let commits = commit.txg.saturating_sub(since);
        let ids: Vec<u64> = self.all().map(|entry| entry.id).collect();
        for id in ids {
            let entry = self.entry(id)?;
            let past = match given_up.and_then(|later| later.get(id)) {
                Some(later) => later.sequence.max(later.sequence_past),
                // The abandoned state does not have the dataset, or cannot be read. Each commit gave the dataset at
                // most `SEALS_MAX` seals, after its own or after one that it received.
                None => {
                    let known = entry.sequence.max(entry.sequence_past).max(received);
                    known.saturating_add(SEALS_MAX.saturating_mul(commits))
                }
            };
            let is_head = head_id(entry) == id;
            let has_log = entry.log.exists();
            if has_log {
                // Chunks are in the bitmaps, and so in those of the earlier state.
                commit.free_extents(entry.log.extents());
            }
            if has_log || is_head && past > entry.sequence_past {
                let entry = self.edit(id)?;
                entry.log = entry.log.without_chunks();
                if is_head {
                    entry.sequence_past = entry.sequence_past.max(past);
                }
            }
        }
        if self.config.resilver.is_running() {
            // Its position is from the abandoned state.
            self.config.restart_resilver();
        }
        self.config.scrub.position = ScrubPosition::default();
        if let Some(follower) = &mut self.config.follower {
            // What the earlier state has, and the abandoned one had freed, is older than the image.
            follower.since = commit.txg;
        }
        self.config_dirty = true;
        Ok(())
    }
}

/// Refuses a task that changes the devices on which the checkpoint is stored.
pub(crate) fn check_layout(before: &DatasetTable, after: &DatasetTable) -> Result<()> {
    let has_checkpoint = before.checkpoint.is_some() && after.checkpoint.is_some();
    if has_checkpoint && after.config_dirty && layout(&before.config) != layout(&after.config) {
        return after.refuse_with_checkpoint();
    }
    Ok(())
}

/// The members, and the shapes, roles and stretches of groups.
fn layout(config: &Config) -> impl PartialEq {
    let members = config.devices.iter().filter(|device| device.is_member());
    let members: Vec<_> = members.map(|d| (d.guid, d.group, d.column)).collect();
    (
        members,
        config.shapes.clone(),
        config.roles.clone(),
        config.stretches.clone(),
    )
}
