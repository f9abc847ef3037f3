//! Replaying the log of a dataset that was not closed.

use std::sync::Arc;

use pool::{ArrayKind, LogEnd, LogHead, ReserveFor, VolumeShape};
use vfs::Ino;

use super::Scope;
use super::steps::{Contents, Counters, Logged, Step, steps_of};
use crate::buffer::Buffer;
use crate::core::Dataset;
use crate::core::io::blocks::VOLUME_INO;
use crate::error::Result;
use crate::layout::{INO_LIMIT, KeyKind, attr_ino};
use crate::tree::View;

/// Keys and their new values.
type Changed<'a> = [(&'a [u8], Option<&'a [u8]>)];

impl Dataset {
    /// Applies the waiting entries of the log, and commits.
    ///
    /// # Errors
    /// The pool has no free space for the changes, or failed, or the log cannot be read. The entries stay in the log.
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
        let mut applied = 0;
        let mut log = self.open.read_log(&head);
        let mut is_authentic = true;
        for entry in log.by_ref() {
            let payload = self.sealer.open_log(&entry.identity, &entry.payload);
            let payload = payload.as_deref().unwrap_or_default();
            let generation = entry.identity.generation();
            is_authentic =
                self.replay_entry(&head, (entry.sequence, generation), payload, &mut applied)?;
            if !is_authentic {
                break;
            }
        }
        let lost = match log.end() {
            _ if !is_authentic => Some("someone has changed the log"),
            LogEnd::Damaged { .. } => Some("the log is damaged"),
            LogEnd::Unreadable { .. } => return Ok(self.open.refuse_unreadable_log(&log)?),
            LogEnd::Whole { .. } => None,
        };
        if let Some(why) = lost {
            tracing::error!(
                dataset,
                "{why}: some of the data that programs synced last is lost"
            );
        }
        if applied > 0 {
            tracing::info!(dataset, steps = applied, "the log is replayed");
        }
        self.open.log_replayed();
        self.open.mark_changed(&self.pool.enter()?);
        Ok(self.pool.commit()?)
    }

    /// Applies an entry. False if the payload does not belong to this log at this place. Entries after the head are
    /// sealed with the keys that seal the head, because a rotation holds the log.
    fn replay_entry(
        &self,
        head: &LogHead,
        (sequence, generation): (u64, u32),
        payload: &[u8],
        applied: &mut u64,
    ) -> Result<bool> {
        let Some(mut steps) = steps_of(payload, head.chain, sequence) else {
            return Ok(false);
        };
        while let Some(step) = steps.next() {
            let Ok((txg, step)) = step else {
                return Ok(false);
            };
            if txg <= head.base {
                continue;
            }
            if self.sealer.is_encrypted() && generation < self.sealer.head_floor() {
                return Ok(false);
            }
            if self.volume.is_some_and(|shape| !is_of_volume(&step, shape)) {
                return Ok(false);
            }
            match step {
                Step::Edits(counters, edits) => self.replay_edits(counters, &edits)?,
                Step::Contents(contents) => self.replay_contents(&contents)?,
                Step::Record(logged) => {
                    if !self.replay_logged(&logged)? {
                        return Ok(false);
                    }
                }
                Step::Empty { record, .. } if self.volume.is_some() => {
                    self.throttle()?;
                    let inode = self.inodes.get(VOLUME_INO);
                    self.empty_blocks(&inode, record, record + 1)?;
                }
                Step::Empty { .. } => return Ok(false),
            }
            *applied += 1;
        }
        Ok(true)
    }

    fn replay_edits(&self, counters: Counters, edits: &Changed<'_>) -> Result<()> {
        self.throttle()?;
        // Records in memory have slots, and these would be wrong after the change.
        if moves_slots(edits) && !self.inodes.dirty.lock().is_empty() {
            self.pool.commit()?;
        }
        let apply = |w: &mut crate::tree::Writer<'_>| {
            for (key, value) in edits {
                if attr_ino(key).is_some() {
                    let was_there = w.get(key)?.is_some();
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

    fn replay_contents(&self, contents: &Contents<'_>) -> Result<()> {
        let make = || self.replayed_record(contents);
        self.replay_record(contents.ino, contents.record, make)
    }

    /// Replays a record that an entry points to. Writes it to a new place, because the bitmaps do not have its old
    /// place. False if the record is not the logged one.
    fn replay_logged(&self, logged: &Logged) -> Result<bool> {
        let (mut opened, mut is_whole) = (None, false);
        let mut open = |bytes: &[u8]| {
            is_whole |= self.open.is_undamaged(&logged.ptr, bytes);
            opened = self.sealer.open(ArrayKind::Data, &logged.ptr, bytes).ok();
            opened.is_some()
        };
        let read = self.open.read_logged(&logged.ptr, &mut open);
        let Some(buffer) = opened else {
            // The record was good when the entry was read. If it cannot be read now, the log has to wait.
            return if is_whole {
                Ok(false)
            } else {
                Ok(read.map(|()| false)?)
            };
        };
        self.replay_record(logged.ino, logged.record, || Ok(buffer))?;
        Ok(true)
    }

    /// Puts a record into its slot, if the file has a slot for it.
    fn replay_record(
        &self,
        ino: Ino,
        record: u64,
        make: impl FnOnce() -> Result<Buffer>,
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
    fn replayed_record(&self, contents: &Contents<'_>) -> Result<Buffer> {
        let mut buffer = Buffer::default();
        if !contents.is_whole
            && let Some(before) = self.record(contents.ino, contents.record, false)?
        {
            buffer = before.as_ref().clone();
        }
        let end = contents.start + contents.bytes.len();
        buffer.grow(end.next_multiple_of(4096));
        buffer[contents.start..end].copy_from_slice(contents.bytes);
        Ok(buffer)
    }
}

/// Whether a step can be from the log of a volume: blocks in its only inode.
fn is_of_volume(step: &Step<'_>, shape: VolumeShape) -> bool {
    let block_size = shape.block_size();
    let (ino, record, len) = match step {
        Step::Edits(..) => return false,
        Step::Contents(contents) => {
            let len = contents.start + contents.bytes.len();
            (contents.ino, contents.record, len as u32)
        }
        Step::Record(logged) => {
            let len = logged.ptr.identity.logical_size();
            (logged.ino, logged.record, len)
        }
        Step::Empty { ino, record } => (*ino, *record, 0),
    };
    ino == VOLUME_INO && record < pool::SLOT_LIMIT && len <= block_size
}

/// Whether edits may change the slots of records.
fn moves_slots(edits: &Changed<'_>) -> bool {
    let kinds = [KeyKind::Extent, KeyKind::Shared, KeyKind::Dead];
    edits
        .iter()
        .any(|(key, _)| kinds.iter().any(|kind| key.get(8) == Some(&(*kind as u8))))
}
