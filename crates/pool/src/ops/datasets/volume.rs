//! Volumes: datasets with an array of blocks. Each block is in the slot of `data` with its number.
//!
//! The sizes of a volume and its blocks are stored unencrypted: among the properties of its entry, under a name that no
//! property can have. The seal covers them. Snapshots keep them, so a snapshot and a volume that is rolled back to it
//! have the earlier size.

use std::sync::{Arc, Weak};

use crate::engine::datasets::facts;
use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::reseal::{Reseal, note_waiting, seal_anew};
use crate::engine::history::{Origin, log, log_internal};
use crate::error::{Error, Result};
use crate::format::datasets::volume_shape::VolumeShape;
use crate::ops::pool::Pool;

impl Pool {
    /// Gives a volume another size, in whole blocks. If its whole size was reserved, the new size is reserved. If it is
    /// encrypted, `reseal` makes the seal over the new state. Blocks after the new end stay in their slots until the
    /// open volume empties the slots, or until the volume is opened next.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`];
    /// [`Error::Refused`] if it is not a volume, or the size is not whole blocks;
    /// [`Error::Inconsistent`] if `reseal` fails;
    /// [`Error::Limit`], [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn resize_volume(
        &self,
        name: &str,
        size: u64,
        mut reseal: Option<Reseal>,
        origin: &Origin,
    ) -> Result<VolumeShape> {
        let committing = self.engine.lock_commits();
        let open = self.open_volume(name)?;
        if let Some(open) = &open {
            // Entries of the smaller or larger volume are not for the present one.
            open.log.lock().want_head();
            open.need_visit();
        }
        let engine = &self.engine;
        engine.commit_within_limits_holding(&committing, |commit, state| {
            let before = Arc::clone(state.find(name)?);
            let old = before
                .volume()
                .filter(|_| !before.is_snapshot())
                .ok_or_else(|| Error::refused(name, "it is not a volume"))?;
            let block_size = old.block_size();
            let new = VolumeShape::new(size, block_size).ok_or_else(|| {
                let reason =
                    format!("a volume is whole blocks, and its blocks have {block_size} bytes");
                Error::refused(name, reason)
            })?;
            let _reserved = commit.reserve_entries(1, 0)?;
            state.edit(before.id)?.set_volume(Some(new));
            if before.was_written() {
                facts::renew(state, before.id, commit.txg)?;
            }
            let entry = state.edit(before.id)?;
            if entry.was_written() {
                entry.let_seal_wait(&before);
                entry.sequence = entry.sequence.max(entry.sequence_past).saturating_add(1);
                entry.set_sealed_guid(None);
            }
            if let Some(open) = &open {
                open.log.lock().resealed(entry);
            }
            let guid = entry.guid;
            seal_anew(entry, &before, guid, &mut reseal)?;
            note_waiting(state, before.id)?;
            log(commit, state, origin, None);
            let what = format!("size {} instead of {} of", new.size(), old.size());
            log_internal(commit, state, origin, &what, &before);
            Ok(new)
        })
    }

    /// The open dataset of a name, if it is open.
    fn open_volume(&self, name: &str) -> Result<Option<Arc<OpenDataset>>> {
        let id = self.engine.state.read().find(name)?.id;
        let open = self.engine.open.lock();
        Ok(open.get(&id).and_then(Weak::upgrade))
    }
}
