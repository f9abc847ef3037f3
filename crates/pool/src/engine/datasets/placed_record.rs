//! A record that is written, but in no array yet.

use std::sync::Arc;

use crate::engine::context::PoolContext;
use crate::format::records::pointer::{RecordIdentity, RecordLocation, RecordPtr, ShareId};
use crate::storage::gang::AllottedSpace;
use crate::storage::in_flight::Ticket;

/// A record that is written, but in no array yet. Dropping it frees its space.
#[must_use]
pub struct PlacedRecord {
    pub(crate) context: Arc<PoolContext>,
    pub(crate) allotted: AllottedSpace,
    pub(crate) checksum: [u8; 16],
    pub(crate) identity: RecordIdentity,
    /// The record is pinned in the dedup table. Then the table frees its space.
    pub(crate) share: Option<ShareId>,
    pub(crate) is_used: bool,
    pub(crate) _ticket: Ticket,
}

impl PlacedRecord {
    pub(crate) fn allotted(&self) -> &AllottedSpace {
        &self.allotted
    }

    /// The place of the record. Its birth is not known yet.
    pub(crate) fn place(&self) -> RecordLocation {
        self.place_of(0)
    }

    fn place_of(&self, txg: u64) -> RecordLocation {
        let place = self.allotted.place(txg, self.checksum);
        match &self.share {
            Some(share) => place.with_share_mark(share.mark),
            None => place,
        }
    }

    pub(crate) fn into_ptr(mut self, txg: u64) -> RecordPtr {
        self.is_used = true;
        match &self.share {
            Some(share) => self.context.dedup.put(share, txg),
            None => {
                let extents = self.allotted.extents();
                self.context.space.count_allocated(txg, extents);
            }
        }
        RecordPtr {
            place: self.place_of(txg),
            identity: self.identity,
        }
    }
}

impl Drop for PlacedRecord {
    fn drop(&mut self) {
        match &self.share {
            _ if self.is_used => {}
            Some(share) => self.context.dedup.unpin(share, &self.context.space),
            None => self.context.space.release(self.allotted.extents()),
        }
    }
}
