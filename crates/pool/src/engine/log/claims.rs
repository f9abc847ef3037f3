//! Claims the space of records that only a log points to.
//!
//! A large `fsync` writes records to their final place, and its log entry points to them. The commit that puts them
//! into an array also puts them into the bitmaps. If a crash comes before that commit, the bitmaps do not have them.
//! So an import claims the space of these records, and keeps it until the log is replayed or given up. This needs no
//! key.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::LogReader;
use crate::engine::datasets::table::DatasetTable;
use crate::error::Result;
use crate::format::logs::log_head::LogHead;
use crate::format::records::extent::StoredExtent;
use crate::format::records::pointer::RecordLocation;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;

/// Records that a replay would write again take at most this part of the free space.
const FREE_PART: u64 = 16;

/// The bytes of the records that the log of an open dataset points to.
#[derive(Default)]
pub(crate) struct PointedBytes {
    /// From entries of the open transaction group.
    open: u64,
    /// From entries of the transaction group that is being committed.
    frozen: u64,
}

impl PointedBytes {
    /// Counts the records of one more entry. False if there are too many.
    pub(crate) fn add(&mut self, places: &[RecordLocation], space: &Space) -> bool {
        let bytes: u64 = places.iter().map(RecordLocation::allocated).sum();
        let all = self.open + self.frozen + bytes;
        let fits = bytes == 0 || all.saturating_mul(FREE_PART) <= space.unreserved_bytes();
        if fits {
            self.open += bytes;
        }
        fits
    }

    pub(super) fn is_none(&self) -> bool {
        self.open == 0 && self.frozen == 0
    }

    pub(super) fn freeze(&mut self) {
        self.frozen += std::mem::take(&mut self.open);
    }

    pub(super) fn on_durable(&mut self) {
        self.frozen = 0;
    }
}

/// The claimed space of logs that wait to be replayed, by dataset.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<u64, ClaimedRecords>>);

struct ClaimedRecords {
    /// The chain of the log that points to the space.
    chain: u64,
    extents: Vec<StoredExtent>,
}

impl Claims {
    /// Claims the space that logs point to, during an import.
    pub(crate) fn take(
        disk: &PoolReader,
        space: &Space,
        state: &DatasetTable,
        gives_up_logs: bool,
    ) -> Result<Claims> {
        let mut all = HashMap::new();
        for entry in state.all().filter(|entry| entry.log.exists()) {
            let mut extents = Vec::new();
            let mut log = LogReader::new(disk, &entry.log, entry.guid);
            for place in log.claims() {
                for extent in StoredExtent::of_whole(&place) {
                    // If the space is in use, the record is gone, and the log ends there.
                    if space.claim(&extent)? {
                        extents.push(extent);
                    }
                }
            }
            if !gives_up_logs {
                state.refuse_unreadable(entry, &log)?;
            }
            if !extents.is_empty() {
                let chain = entry.log.chain;
                all.insert(entry.id, ClaimedRecords { chain, extents });
            }
        }
        Ok(Claims(Mutex::new(all)))
    }

    /// The dataset whose log points into a group, if there is one.
    pub(crate) fn dataset_in(&self, group: u16) -> Option<u64> {
        let all = self.0.lock();
        let is_there = |extent: &StoredExtent| extent.segment.group() == u32::from(group);
        let mut found = all
            .iter()
            .filter(|(_, claimed)| claimed.extents.iter().any(is_there));
        found.next().map(|(id, _)| *id)
    }

    /// Frees the claims of logs that a commit has ended.
    pub(crate) fn on_durable(&self, space: &Space, state: &DatasetTable) {
        let waits = |log: &LogHead, chain| log.exists() && log.chain == chain;
        self.0.lock().retain(|id, claimed| {
            let is_needed = state
                .get(*id)
                .is_some_and(|entry| waits(&entry.log, claimed.chain));
            if !is_needed {
                space.release(claimed.extents.drain(..));
            }
            is_needed
        });
    }
}
