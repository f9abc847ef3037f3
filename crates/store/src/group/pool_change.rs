//! The labels of a device whose pool changes: it is split off from its pool, or its pool gets another guid.

use std::sync::Arc;

use crate::group::member::Member;
use crate::layout::frames::{BLOCK, Bad, Label, PoolChange, decode_frame};

impl Label {
    /// The label of a device that is to be split off. It belongs to its pool still.
    pub(crate) fn splitting(&self, pool_guid: u64, name: &str, txg: u64) -> Label {
        let mut label = self.settled();
        label.set_change(PoolChange::Splitting, pool_guid);
        label.since = txg.into();
        label.set_new_name(name);
        label
    }

    /// The label of a device that was split off: it belongs to the new pool.
    pub(crate) fn split_off(&self) -> Label {
        let mut label = *self;
        let old = std::mem::replace(&mut label.pool_guid, self.other_guid);
        label.set_change(PoolChange::SplitOff, old.get());
        label
    }

    /// The label of a device whose pool has got another guid.
    pub(crate) fn renumbered(&self, pool_guid: u64) -> Label {
        let mut label = self.settled();
        let old = std::mem::replace(&mut label.pool_guid, pool_guid.into());
        label.set_change(PoolChange::Renumbered, old.get());
        label
    }

    /// Returns the new label of a device, if that of another one in the same pool has changed already.
    pub(crate) fn beside(&self, changed: &Label) -> Option<Label> {
        let (own, changes_from) = (self.pool_guid, changed.other_guid);
        match (changed.change(), self.change()) {
            (PoolChange::SplitOff, PoolChange::Splitting)
                if self.other_guid == changed.pool_guid =>
            {
                Some(self.split_off())
            }
            (PoolChange::Renumbered, PoolChange::None) if own == changes_from => {
                Some(self.renumbered(changed.pool_guid.get()))
            }
            _ => None,
        }
    }
}

impl Member {
    /// A frame of the pool, or of the one that the label names too.
    pub(crate) fn frame<'a>(
        &self,
        magic: [u8; 8],
        block: &'a [u8; BLOCK],
    ) -> Result<(u64, &'a [u8]), Bad> {
        match decode_frame(magic, self.label.pool_guid.get(), block) {
            Err(Bad::Foreign) if self.label.takes_frames_of_other() => {
                decode_frame(magic, self.label.other_guid.get(), block)
            }
            frame => frame,
        }
    }

    /// Returns whether a superblock names the pool of the label, and not the one before.
    pub(crate) fn has_own_superblock(&self) -> bool {
        let settled = self.with_label(self.label.settled());
        settled.newest_txg().is_some()
    }
}

/// Treats a change that a power cut interrupted as done on all devices, if a device that is no spare has it.
pub(crate) fn complete_changes(members: &mut [Arc<Member>]) {
    let changed: Vec<Label> = members
        .iter()
        .map(|member| member.label)
        .filter(|label| label.takes_frames_of_other() && !label.is_spare())
        .collect();
    for member in members {
        if let Some(label) = changed.iter().find_map(|label| member.label.beside(label)) {
            *member = Arc::new(member.with_label(label));
        }
    }
}
