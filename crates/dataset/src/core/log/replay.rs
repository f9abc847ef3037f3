//! Replaying the log of a dataset that was not closed.

use std::sync::Arc;

use pool::{ArrayKind, LogEnd, LogEntry, LogHead, ReserveFor, VolumeShape};
use vfs::Ino;

use super::Scope;
use super::steps::{ContentsStep, Counters, LogStep, LoggedRecord, steps_of};
use crate::buffer::RecordBuffer;
use crate::core::Dataset;
use crate::core::io::blocks::VOLUME_INO;
use crate::core::io::memory::inode::Inode;
use crate::error::{Error, LostEntries, Result};
use crate::layout::{INO_LIMIT, KeyKind, attr_ino};
use crate::tree::TreeView;

/// The result of a check of a log.
#[derive(Clone, Copy, Debug, Default)]
struct LogCheck {
    /// The number of entries that can be applied.
    good: u64,
    /// The entries after them.
    lost: LostEntries,
}

/// Keys and their new values.
type KeyChanges<'a> = [(&'a [u8], Option<&'a [u8]>)];

impl Dataset {
    /// Applies the waiting entries of the log, and commits.
    ///
    /// # Errors
    /// As [`Dataset::check_log`]; the pool has no free space for the changes, or failed. The entries stay in the log.
    pub(crate) fn replay_log(&self) -> Result<()> {
        let Some(head) = self.open.waiting_log() else {
            return Ok(());
        };
        let dataset = self.name();
        if !self.open.is_writable() {
            tracing::warn!(
                dataset,
                "the log is not replayed while the pool is imported read-only: the data synced last is not visible"
            );
            return Ok(());
        }
        // All of it is checked first: nothing is applied of a log that is refused.
        let checked = self.check_log(&head)?;
        let mut applied = 0;
        // Read a second time: the check kept no entries in memory.
        for entry in self.open.read_log(&head).take(checked.good as usize) {
            let payload = self.open_log_entry(&head, &entry);
            let payload = payload.ok_or_else(|| self.damaged("its log"))?;
            self.replay_entry(&head, &entry, &payload, &mut applied)?;
        }
        if applied > 0 {
            tracing::info!(dataset, steps = applied, "the log is replayed");
        }
        self.open.log_replayed();
        // The commit has to visit the dataset to free the log, even if no entry was applied.
        self.open.mark_changed(&self.pool.enter()?);
        match checked.lost.what() {
            Some(what) => self
                .pool
                .commit_and_note(&format!("{what} of the log of {dataset}"))?,
            None => self.pool.commit()?,
        }
        Ok(())
    }

    /// Reads the log to its end, and changes nothing.
    ///
    /// # Errors
    /// [`Error::ForeignLog`] if an entry is not one of this log in this state, unless the settings give it up; the log cannot
    /// be read.
    fn check_log(&self, head: &LogHead) -> Result<LogCheck> {
        let dataset = self.name();
        let mut checked = LogCheck::default();
        let mut log = self.open.read_log(head);
        for entry in log.by_ref() {
            let is_right = checked.lost.entries == 0 && self.is_right(head, &entry)?;
            if is_right {
                checked.good += 1;
            } else {
                checked.lost.entries += 1;
                checked.lost.bytes += entry.payload.len() as u64;
            }
        }
        match log.end() {
            LogEnd::Unreadable { .. } => self.open.refuse_unreadable_log(&log)?,
            // What comes after it cannot be told from an earlier use of the ring.
            LogEnd::Damaged { .. } => checked.lost.entries += 1,
            LogEnd::Whole { .. } => {}
        }
        let LogCheck { good, lost } = checked;
        if lost.entries == 0 {
            return Ok(checked);
        }
        if !self.settings().gives_up_log {
            return Err(Error::ForeignLog {
                dataset: dataset.into(),
                good,
                lost,
            });
        }
        tracing::error!(
            dataset,
            entries = lost.entries,
            bytes = lost.bytes,
            "a part of the log is given up: it is damaged, or not of this state of the dataset"
        );
        Ok(checked)
    }

    /// Returns whether an entry continues this log, with steps and records that can be applied.
    fn is_right(&self, head: &LogHead, entry: &LogEntry) -> Result<bool> {
        let Some(payload) = self.open_log_entry(head, entry) else {
            return Ok(false);
        };
        for step in later_steps(&payload, head, entry) {
            let Some(step) = step else {
                return Ok(false);
            };
            let is_right = match &step {
                _ if self.volume.is_some_and(|shape| !is_of_volume(&step, shape)) => false,
                LogStep::Record(logged) => self.open_logged(logged)?.is_some(),
                LogStep::Empty { .. } => self.volume.is_some(),
                LogStep::Edits(..) | LogStep::Contents(_) => true,
            };
            if !is_right {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The payload of an entry; `None` if it does not belong to this log at this place. Entries after the head are sealed
    /// with the keys that seal the head, because a rotation holds the log.
    fn open_log_entry(&self, head: &LogHead, entry: &LogEntry) -> Option<Vec<u8>> {
        let associated = entry.place.associated.as_deref();
        let opened = self
            .sealer
            .open_log(&entry.identity, associated, &entry.payload);
        let payload = opened.ok().filter(|_| entry.follows)?;
        steps_of(&payload, head.chain, entry.place.sequence)?;
        let is_old =
            self.sealer.is_encrypted() && entry.identity.generation() < self.sealer.head_floor();
        (!is_old || later_steps(&payload, head, entry).next().is_none()).then_some(payload)
    }

    /// Applies an entry that was checked.
    fn replay_entry(
        &self,
        head: &LogHead,
        entry: &LogEntry,
        payload: &[u8],
        applied: &mut u64,
    ) -> Result<()> {
        for step in later_steps(payload, head, entry) {
            match step.ok_or_else(|| self.damaged("its log"))? {
                LogStep::Edits(counters, edits) => self.replay_edits(counters, &edits)?,
                LogStep::Contents(contents) => self.replay_contents(&contents)?,
                LogStep::Record(logged) => {
                    let opened = self.open_logged(&logged)?;
                    let buffer = opened.ok_or_else(|| self.damaged("a record of its log"))?;
                    self.replay_record(logged.ino, logged.record, || Ok(buffer))?;
                }
                LogStep::Empty { record, .. } => {
                    self.throttle()?;
                    let inode = self.inodes.get(VOLUME_INO);
                    self.empty_blocks(&inode, record, record + 1)?;
                }
            }
            *applied += 1;
        }
        Ok(())
    }

    fn replay_edits(&self, counters: Counters, edits: &KeyChanges<'_>) -> Result<()> {
        self.throttle()?;
        // Records in memory have slots, and these would be wrong after the change.
        if moves_slots(edits) {
            self.empty_memory()?;
        }
        let apply = |w: &mut crate::tree::TreeWriter<'_>| {
            for (key, value) in edits {
                if attr_ino(key).is_some() {
                    let was_there = w.get(key)?.is_some();
                    // The count is not in the log: an interrupted replay may have applied the step before.
                    let inodes = w.header.inodes + u64::from(value.is_some());
                    w.header.inodes = inodes.saturating_sub(u64::from(was_there));
                }
                match value {
                    Some(value) => w.put(key.to_vec(), value.to_vec()),
                    None => w.delete(key.to_vec()),
                }
            }
            // The log of a clear dataset is not authenticated, so its values are limited.
            let next_ino = counters.next_ino.min(INO_LIMIT - 1);
            let next_data = counters.next_data.min(pool::SLOT_LIMIT - 1);
            w.header.next_ino = w.header.next_ino.max(next_ino);
            w.header.next_data = w.header.next_data.max(next_data);
            Ok(())
        };
        self.change_always(Scope::Upkeep, ReserveFor::Freeing, apply, |_, ()| ())
    }

    /// Puts all records in memory into the open transaction group. A commit would do that too, but files that replace each
    /// other would need one each, and a commit takes a round trip to the devices.
    fn empty_memory(&self) -> Result<()> {
        let inodes: Vec<_> = self.inodes.dirty.lock().values().cloned().collect();
        let begin = |inode: &Arc<Inode>| {
            let records: Vec<u64> = inode.records.lock().keys().copied().collect();
            self.seal_ahead(
                inode,
                records.into_iter().map(|record| (record, ())),
                |(), _| true,
            )
        };
        let begun: Vec<_> = inodes.iter().flat_map(begin).collect();
        self.engine.workers.finish(self.pool.guid(), &begun);
        let is_empty = |inode: &Arc<Inode>| inode.records.lock().is_empty();
        match inodes.iter().all(is_empty) {
            true => Ok(()),
            // The running commit has them, or they could not be sealed: the commit says why.
            false => Ok(self.pool.commit()?),
        }
    }

    fn replay_contents(&self, contents: &ContentsStep<'_>) -> Result<()> {
        let make = || self.replayed_record(contents);
        self.replay_record(contents.ino, contents.record, make)
    }

    /// A record that an entry points to; `None` if it is not the logged one. The replay writes it to a new place, because the
    /// bitmaps do not have its old place.
    fn open_logged(&self, logged: &LoggedRecord) -> Result<Option<RecordBuffer>> {
        let (mut opened, mut is_whole) = (None, false);
        let mut open = |bytes: &[u8]| {
            is_whole |= self.open.is_undamaged(&logged.ptr, bytes);
            opened = self.sealer.open(ArrayKind::Data, &logged.ptr, bytes).ok();
            opened.is_some()
        };
        let read = self.open.read_logged(&logged.ptr, &mut open);
        if opened.is_none() && !is_whole {
            // The record was good when the entry was read. If it cannot be read now, the log has to wait.
            read?;
        }
        Ok(opened)
    }

    /// Puts a record into its slot, if the file has a slot for it.
    fn replay_record(
        &self,
        ino: Ino,
        record: u64,
        make: impl FnOnce() -> Result<RecordBuffer>,
    ) -> Result<()> {
        self.throttle()?;
        let inode = self.inodes.get(ino);
        let _io = inode.io.write();
        let Some(slot) = self.slot_of(ino, record)? else {
            // An earlier, interrupted replay has already applied a later step that removes the record.
            return Ok(());
        };
        let buffer = make()?;
        let reserved = self.record_space(&self.settings(), buffer.len(), ReserveFor::Freeing)?;
        let hold = self.pool.enter()?;
        self.mark_changed(&hold);
        self.put_record(&inode, &hold, record, slot, Arc::new(buffer), reserved);
        Ok(())
    }

    /// The present record with the contents applied.
    fn replayed_record(&self, contents: &ContentsStep<'_>) -> Result<RecordBuffer> {
        let mut buffer = RecordBuffer::default();
        if !contents.is_whole
            && let Some(before) = self.record(contents.ino, contents.record, false)?
        {
            buffer = before.as_ref().clone();
        }
        let end = contents.start + contents.bytes.len();
        buffer.grow(end.next_multiple_of(4096));
        debug_assert!(end <= buffer.len());
        buffer[contents.start..end].copy_from_slice(contents.bytes);
        Ok(buffer)
    }
}

/// The steps of an entry that the arrays do not have; `None` in place of bytes that are no step.
fn later_steps<'a>(
    payload: &'a [u8],
    head: &LogHead,
    entry: &LogEntry,
) -> impl Iterator<Item = Option<LogStep<'a>>> {
    let base = head.base;
    let mut steps = steps_of(payload, head.chain, entry.place.sequence);
    let all = std::iter::from_fn(move || steps.as_mut()?.next());
    all.filter_map(move |step| match step {
        Ok((txg, step)) => (txg > base).then_some(Some(step)),
        Err(_) => Some(None),
    })
}

/// Returns whether a step can be from the log of a volume: blocks in its only inode.
fn is_of_volume(step: &LogStep<'_>, shape: VolumeShape) -> bool {
    let block_size = shape.block_size();
    let (ino, record, len) = match step {
        LogStep::Edits(..) => return false,
        LogStep::Contents(contents) => {
            let len = contents.start + contents.bytes.len();
            (contents.ino, contents.record, len as u32)
        }
        LogStep::Record(logged) => {
            let len = logged.ptr.identity.logical_size();
            (logged.ino, logged.record, len)
        }
        LogStep::Empty { ino, record } => (*ino, *record, 0),
    };
    ino == VOLUME_INO && record < pool::SLOT_LIMIT && len <= block_size
}

/// Returns whether edits may change the slots of records.
fn moves_slots(edits: &KeyChanges<'_>) -> bool {
    let kinds = [KeyKind::Extent, KeyKind::Shared, KeyKind::Dead];
    edits
        .iter()
        .any(|(key, _)| kinds.iter().any(|kind| key.get(8) == Some(&(*kind as u8))))
}
