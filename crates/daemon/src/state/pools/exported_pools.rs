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
    /// The reason why the file was not written, if it was not.
    unsaved: Mutex<Option<String>>,
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
            unsaved: Mutex::default(),
        }
    }

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

    pub(crate) fn devices(&self) -> Vec<PathBuf> {
        let pools = self.pools.lock();
        pools.iter().flat_map(|pool| pool.devices.clone()).collect()
    }

    /// Tries again to write the file if it could not be written. Returns what is still not saved, with the way out.
    pub(crate) fn save_again(&self) -> Option<String> {
        let pools = self.pools.lock();
        if self.unsaved.lock().is_some() {
            self.remember(&pools);
        }
        let unsaved = self.unsaved.lock();
        unsaved.as_ref().map(|reason| {
            format!(
                "where exported pools are is not saved, and after the next start of the daemon 'pool import' needs -d \
                 for them: {reason}. Free space there, then run 'strongroom pool list', which saves it"
            )
        })
    }

    fn remember(&self, pools: &[ExportedPool]) {
        let written = self.state.remember(FILE, &pools);
        let reason = written.err().map(|failure| failure.message);
        let mut unsaved = self.unsaved.lock();
        if let Some(reason) = reason.as_ref().filter(|_| unsaved.is_none()) {
            tracing::warn!(
                reason,
                "where exported pools are could not be written; 'pool import' needs -d for them"
            );
        }
        *unsaved = reason;
    }
}
