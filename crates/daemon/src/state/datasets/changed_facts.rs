//! Changes without a key to facts that the seal of a dataset covers: its keyring, its snapshots, and the properties that
//! protect people.
//!
//! They are reported when the key is loaded: an administrator without the key may have made them, and so may an
//! attacker who writes to the devices. What this daemon changes while it has the key gets a new seal, at the latest
//! before the key is unloaded.

use std::sync::Arc;

use dataset::Resealer;
use pool::{Entry, Reseal, SealInput, UnsealedFacts};

use crate::failure::{Failure, Result};
use crate::state::callers::channel::Channel;
use crate::state::pools::active_pool::ActivePool;

/// The facts that are sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Facts {
    All,
    /// All but the list of snapshots. It changes often, and each seal without new contents takes a place of those that
    /// the history can keep.
    Settings,
}

impl ActivePool {
    /// Tells which facts were changed without the key, of the datasets below a key root.
    pub(crate) fn report_changed_facts(&self, key_root: u64, channel: &mut dyn Channel) {
        let changed = |head: &Entry| -> Result<Option<String>> {
            let facts = self.pool.unsealed_facts(head.id)?.changed;
            let name = self.pool.name_of(head.id)?;
            Ok((!facts.is_empty()).then(|| {
                let facts = facts.join(", ");
                format!("changed without the key of '{name}' since it was used last: {facts}")
            }))
        };
        for head in self.heads_of(key_root) {
            if let Ok(Some(text)) = changed(&head) {
                self.events.add("dataset_changed", &self.pool.name(), &text);
                tracing::warn!("{text}");
                channel.notice(text);
            }
        }
    }

    /// Seals facts that were changed, of the datasets below a key root whose key is loaded. A failure leaves the change
    /// to be reported.
    pub(crate) fn seal_changed_facts(&self, key_root: u64, which: Facts) {
        if self.pool.is_read_only() || self.pool.suspended().is_some() {
            return;
        }
        for head in self.heads_of(key_root) {
            if let Err(failure) = self.seal_facts_of(&head, which) {
                let reason = &failure.message;
                let dataset = self.pool.name_of(head.id).unwrap_or_default();
                tracing::warn!(dataset, reason, "its changed properties were not sealed");
            }
        }
    }

    /// Seals all facts that were changed, before the keys are forgotten with the pool.
    pub(crate) fn seal_before_export(&self) {
        self.seal_facts_of_loaded(Facts::All);
    }

    /// Seals changed facts of the datasets with all loaded keys.
    pub(crate) fn seal_facts_of_loaded(&self, which: Facts) {
        for root in self.keys.roots() {
            self.seal_changed_facts(root, which);
        }
    }

    fn heads_of(&self, key_root: u64) -> Vec<Arc<Entry>> {
        let root = self.pool.entry(key_root);
        let heads = root.map(|root| self.heads_below(&root).unwrap_or_default());
        let mut heads = heads.unwrap_or_default();
        heads.retain(|head| head.key_root == key_root);
        heads
    }

    fn seal_facts_of(&self, head: &Entry, which: Facts) -> Result<()> {
        let unsealed = self.pool.unsealed_facts(head.id)?;
        let is_due = match which {
            Facts::All => unsealed != UnsealedFacts::default(),
            Facts::Settings => unsealed.changed.iter().any(|fact| *fact != "snapshots"),
        };
        if !is_due {
            return Ok(());
        }
        let Some(keys) = self.data_keys(head)? else {
            return Ok(());
        };
        let resealer = Resealer::new(head.family, keys).map_err(Failure::from)?;
        let guid = head.guid;
        let reseal: Reseal = Box::new(move |before, input| {
            let was = SealInput::of(before, guid);
            let is_right = resealer.seals_head(&was, &before.seal);
            let seal = is_right.then(|| resealer.seal_as_newest(input)).flatten();
            seal.ok_or_else(|| "the seal of the dataset does not match its present state".into())
        });
        Ok(self.pool.seal_facts(head.id, reseal)?)
    }
}
