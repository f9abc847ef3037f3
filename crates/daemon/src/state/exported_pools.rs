//! The places of devices of exported pools, so that `pool import` finds them without `-d`.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::state::memory::StateDir;

/// The file in the state directory.
const FILE: &str = "exported.json";
/// The number of pools that are remembered. Older ones are forgotten.
const POOLS_MAX: usize = 100;

/// The pools that were exported, the last one at the end.
pub(crate) struct ExportedPools {
    state: Arc<StateDir>,
    pools: Mutex<Vec<ExportedPool>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct ExportedPool {
    guid: u64,
    devices: Vec<PathBuf>,
}

impl ExportedPools {
    /// Reads the file.
    pub(crate) fn new(state: &Arc<StateDir>) -> ExportedPools {
        ExportedPools {
            state: Arc::clone(state),
            pools: Mutex::new(state.recall(FILE, "strongroom pool import -d")),
        }
    }

    /// Adds an exported pool.
    pub(crate) fn add(&self, guid: u64, devices: Vec<PathBuf>) {
        let mut pools = self.pools.lock();
        pools.retain(|pool| pool.guid != guid);
        let surplus = (pools.len() + 1).saturating_sub(POOLS_MAX);
        pools.drain(..surplus);
        pools.push(ExportedPool { guid, devices });
        self.remember(&pools);
    }

    /// Removes a pool that was imported again.
    pub(crate) fn remove(&self, guid: u64) {
        let mut pools = self.pools.lock();
        let before = pools.len();
        pools.retain(|pool| pool.guid != guid);
        if pools.len() != before {
            self.remember(&pools);
        }
    }

    /// The devices of all pools.
    pub(crate) fn devices(&self) -> Vec<PathBuf> {
        let pools = self.pools.lock();
        pools.iter().flat_map(|pool| pool.devices.clone()).collect()
    }

    fn remember(&self, pools: &[ExportedPool]) {
        if let Err(failure) = self.state.remember(FILE, &pools) {
            tracing::warn!(
                reason = failure.message,
                "where exported pools are could not be written; 'pool import' needs -d for them"
            );
        }
    }
}
