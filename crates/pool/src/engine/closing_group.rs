//! A transaction group that is written, but not durable yet.

use std::sync::{Arc, Weak};

use crate::engine::commit::SyncedDataset;
use crate::engine::datasets::open_dataset::{CommitDataset, DatasetHooks, OpenDataset};
use crate::format::records::extent::StoredExtent;
use crate::format::records::pointer::{RecordLocation, RecordPtr};
use crate::format::superblock::root::PoolRoot;

/// A commit that has written everything but its superblock.
pub(crate) struct ClosingGroup {
    pub(crate) txg: u64,
    pub(crate) root: PoolRoot,
    /// Space that can be used again after the group is durable.
    pub(crate) freed: Vec<StoredExtent>,
    /// Places to free later.
    pub(crate) unread: Vec<RecordLocation>,
    /// True if a command in the group changed devices or keys. Their state in memory then depends on the result of the
    /// commit.
    pub(crate) is_bound: bool,
    /// Weak: a dataset can be closed while the devices fail.
    datasets: Vec<(Weak<OpenDataset>, [RecordPtr; 2])>,
    holders: Vec<Weak<dyn DatasetHooks>>,
}

impl ClosingGroup {
    pub(crate) fn new(
        (freed, unread): (Vec<StoredExtent>, Vec<RecordLocation>),
        (txg, root): (u64, PoolRoot),
        parts: &[CommitDataset],
        synced: &[SyncedDataset],
        is_bound: bool,
    ) -> ClosingGroup {
        let dataset = |synced: &SyncedDataset| (Arc::downgrade(&synced.part.dataset), synced.roots);
        let holders = parts.iter().filter_map(|part| part.holder.as_ref());
        ClosingGroup {
            txg,
            root,
            freed,
            unread,
            is_bound,
            datasets: synced.iter().map(dataset).collect(),
            holders: holders.map(Arc::downgrade).collect(),
        }
    }

    /// Tells the datasets that the group is durable.
    pub(crate) fn tell_parts(&self) {
        for (dataset, roots) in &self.datasets {
            if let Some(dataset) = dataset.upgrade() {
                dataset.on_durable(roots);
            }
        }
        for holder in self.holders.iter().filter_map(Weak::upgrade) {
            holder.synced(self.txg);
        }
    }
}
