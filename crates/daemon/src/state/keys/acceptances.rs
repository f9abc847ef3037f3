//! The places of keys that the owner of this machine has accepted. They are in the state directory, not in pools.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::state::datasets::seen_states::SeenStates;
use crate::state::memory::StateDir;

/// The file in the state directory.
const MEMORY: &str = "accepted.json";

/// A place of the key of one dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct AcceptedLocation {
    pub(crate) pool: u64,
    pub(crate) dataset: u64,
    pub(crate) location: String,
}

/// The places that the owner has accepted.
pub(crate) struct Acceptances {
    state: Arc<StateDir>,
    all: Mutex<BTreeSet<AcceptedLocation>>,
    /// The states of datasets that this machine has seen.
    pub(crate) seen: SeenStates,
}

impl Acceptances {
    pub(crate) fn new(state: &Arc<StateDir>) -> Arc<Acceptances> {
        Arc::new(Acceptances {
            all: Mutex::new(state.recall(MEMORY, "strongroom key accept")),
            seen: SeenStates::new(state),
            state: Arc::clone(state),
        })
    }

    pub(crate) fn has(&self, accepted: &AcceptedLocation) -> bool {
        self.all.lock().contains(accepted)
    }

    /// Copies the accepted places of one pool to the same datasets of another pool.
    pub(crate) fn carry_over(&self, from: u64, to: u64) -> Result<()> {
        let own: Vec<AcceptedLocation> = {
            let all = self.all.lock();
            all.iter().filter(|one| one.pool == from).cloned().collect()
        };
        let carried = own
            .into_iter()
            .map(|one| AcceptedLocation { pool: to, ..one });
        self.add(carried.collect(), |_| false)
    }

    /// Adds places, removes those that are stale (`is_stale`), and writes the file if anything changed.
    pub(crate) fn add(
        &self,
        new: Vec<AcceptedLocation>,
        is_stale: impl Fn(&AcceptedLocation) -> bool,
    ) -> Result<()> {
        let mut all = self.all.lock();
        let mut changed = all.clone();
        changed.extend(new.clone());
        if changed == *all {
            return Ok(());
        }
        changed.retain(|one| !is_stale(one) || new.contains(one));
        self.state.remember(MEMORY, &changed)?;
        *all = changed;
        Ok(())
    }
}
