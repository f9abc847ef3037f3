//! The states of datasets that this machine has seen last. They are in the state directory, and not in the pools, so
//! that who can write to the devices cannot change them.
//!
//! `state::datasets::rollback_guard` compares and notes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataset::SealedState;
use encoding::unhex;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::state::memory::StateDir;

/// The file in the state directory.
const MEMORY: &str = "seen.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenState {
    pub(super) pool: u64,
    pub(super) dataset: u64,
    pub(super) sequence: u64,
    pub(super) seal: String,
    /// The time when this machine saw the state first.
    pub(super) time: u64,
}

impl SeenState {
    pub(super) fn state(&self) -> Option<SealedState> {
        Some(SealedState {
            sequence: self.sequence,
            seal: unhex(&self.seal)?.try_into().ok()?,
        })
    }
}

/// The last seen states of all pools.
pub(crate) struct SeenStates {
    state: Arc<StateDir>,
    all: Mutex<BTreeMap<(u64, u64), SeenState>>,
}

impl SeenStates {
    pub(crate) fn new(state: &Arc<StateDir>) -> SeenStates {
        let all: Vec<SeenState> = state.recall(MEMORY, "mount the datasets, and compare anchors");
        let by_dataset = all
            .into_iter()
            .map(|seen| ((seen.pool, seen.dataset), seen));
        SeenStates {
            all: Mutex::new(by_dataset.collect()),
            state: Arc::clone(state),
        }
    }

    pub(super) fn of(&self, pool: u64, dataset: u64) -> Option<SeenState> {
        self.all.lock().get(&(pool, dataset)).cloned()
    }

    /// Changes the states, and writes the file if anything changed. The change stays in memory if that fails.
    pub(super) fn change(&self, change: impl FnOnce(&mut BTreeMap<(u64, u64), SeenState>)) {
        let mut all = self.all.lock();
        let before = all.clone();
        change(&mut all);
        if before == *all {
            return;
        }
        let list: Vec<&SeenState> = all.values().collect();
        if let Err(failure) = self.state.remember(MEMORY, &list) {
            let reason = failure.message;
            tracing::error!(reason, "the seen states of datasets were not noted");
        }
    }

    /// Copies the states of one pool to the same datasets of another pool.
    pub(crate) fn carry_over(&self, from: u64, to: u64) {
        self.change(|all| {
            let own = all.values().filter(|seen| seen.pool == from).cloned();
            let own: Vec<SeenState> = own.map(|seen| SeenState { pool: to, ..seen }).collect();
            all.extend(own.into_iter().map(|seen| ((to, seen.dataset), seen)));
        });
    }

    /// Forgets the states of a pool that was taken back as a whole.
    pub(crate) fn forget_pool(&self, pool: u64) {
        self.change(|all| all.retain(|_, seen| seen.pool != pool));
    }

    /// Forgets the states of datasets, because the administrator accepts any, or destroyed them.
    pub(crate) fn forget(&self, pool: u64, datasets: &[u64]) {
        self.change(|all| {
            for dataset in datasets {
                all.remove(&(pool, *dataset));
            }
        });
    }
}

/// The datasets of a pool whose state was compared since the import.
#[derive(Default)]
pub(crate) struct ComparedStates {
    pub(super) ids: Mutex<BTreeSet<u64>>,
    /// The time when states were noted last.
    pub(super) noted: Mutex<u64>,
}
