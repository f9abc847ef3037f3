//! A transaction group that is written and not durable yet.

use std::sync::{Arc, Weak};

use crate::engine::commit::Synced;
use crate::engine::dataset::{DatasetHooks, OpenDataset, Part};
use crate::format::extent::Extent;
use crate::format::pointer::RecordPtr;
use crate::format::root::PoolRoot;

/// All that is left of a commit once everything is written, but for the superblock.
pub(crate) struct Closing {
    pub(crate) txg: u64,
    pub(crate) root: PoolRoot,
    /// May be used again when it is durable.
    pub(crate) freed: Vec<Extent>,
    /// A command in it changed devices or keys: what is in memory of these depends on how the commit ends.
    pub(crate) is_bound: bool,
    /// Not held: while the devices fail a dataset can be closed.
    datasets: Vec<(Weak<OpenDataset>, [RecordPtr; 2])>,
    holders: Vec<Weak<dyn DatasetHooks>>,
}

impl Closing {
    pub(crate) fn new(
        freed: Vec<Extent>,
        (txg, root): (u64, PoolRoot),
        parts: &[Part],
        synced: &[Synced],
        is_bound: bool,
    ) -> Closing {
        let dataset = |synced: &Synced| (Arc::downgrade(&synced.part.dataset), synced.roots);
        let holders = parts.iter().filter_map(|part| part.holder.as_ref());
        Closing {
            txg,
            root,
            freed,
            is_bound,
            datasets: synced.iter().map(dataset).collect(),
            holders: holders.map(Arc::downgrade).collect(),
        }
    }

    /// Tells the datasets that it is durable.
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
