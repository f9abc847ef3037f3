//! Refuses datasets that were put back.
//!
//! An attacker can put back a whole dataset to an earlier state. So before a dataset is mounted or a volume is used,
//! its state is compared with the one that this machine saw last: it has to have grown from it. A state is noted if it
//! was compared before, at most once a minute and at an export. Commands of the administrator that take a dataset back
//! make its last state be forgotten.

use std::sync::Arc;

use dataset::Ancestry;
use encoding::hex;
use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::host::process::system::{now_secs, utc};
use crate::state::datasets::changed_facts::Facts;
use crate::state::datasets::seen_states::SeenState;
use crate::state::pools::active_pool::ActivePool;

/// States are noted at most this often, in seconds.
const INTERVAL: u64 = 60;

impl ActivePool {
    /// Refuses a dataset whose state did not grow from the one that this machine saw last.
    pub(crate) fn refuse_rolled_back(&self, entry: &Entry) -> Result<()> {
        if entry.is_snapshot() || entry.suite == 0 {
            return Ok(());
        }
        let seen = self.accepted.seen.of(self.pool.guid(), entry.guid);
        let known = seen.and_then(|seen| Some((seen.state()?, seen)));
        if let Some((earlier, seen)) = known {
            let Some(keys) = self.data_keys(entry)? else {
                return Ok(());
            };
            let compared = dataset::ancestry(&self.pool, entry.id, keys, &earlier);
            // Another error is reported when the dataset is opened.
            if let Ok((now, ancestry)) = compared {
                self.judge(&now, ancestry, &seen)?;
            }
        }
        self.compared.ids.lock().insert(entry.id);
        Ok(())
    }

    fn judge(&self, now: &Entry, ancestry: Ancestry, seen: &SeenState) -> Result<()> {
        let what = match ancestry {
            Ancestry::Same | Ancestry::Later => return Ok(()),
            Ancestry::RolledBack => "is older than",
            Ancestry::Forked => "did not grow from",
            Ancestry::BeginsLater | Ancestry::Unreadable => "cannot be proved to have grown from",
        };
        let name = self.pool.name_of(now.id)?;
        let text = format!(
            "the state of '{name}' (number {}) {what} state {} that this machine saw at {}",
            now.sequence,
            seen.sequence,
            utc(seen.time)
        );
        tracing::warn!(dataset = name, "{text}");
        self.events
            .add("dataset_rollback", &self.pool.name(), &text);
        if matches!(ancestry, Ancestry::BeginsLater | Ancestry::Unreadable) {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::Damaged,
            format!(
                "{text}; the devices were put back, or another machine took the dataset back. To accept this \
                 state: strongroom anchor accept {name}"
            ),
        ))
    }

    /// Notes the states of compared datasets, if that was not done in the last minute.
    pub(crate) fn note_seen_in_time(&self) {
        let now = now_secs();
        let last = *self.compared.noted.lock();
        if now.abs_diff(last) >= INTERVAL {
            self.seal_facts_of_loaded(Facts::Settings);
            self.note_seen();
        }
    }

    /// Notes the durable states of the datasets that were compared since the import.
    pub(crate) fn note_seen(&self) {
        let now = now_secs();
        *self.compared.noted.lock() = now;
        let ids: Vec<u64> = self.compared.ids.lock().iter().copied().collect();
        let pool = self.pool.guid();
        let entries = self.pool.durable_entries(&ids);
        let states = entries.iter().filter(|entry| entry.sequence != 0);
        let states: Vec<SeenState> = states
            .map(|entry| SeenState {
                pool,
                dataset: entry.guid,
                sequence: entry.sequence,
                seal: hex(&entry.seal),
                time: now,
            })
            .collect();
        self.accepted.seen.change(|all| {
            for seen in states {
                let known = all
                    .entry((pool, seen.dataset))
                    .or_insert_with(|| seen.clone());
                if (known.sequence, &known.seal) != (seen.sequence, &seen.seal) {
                    *known = seen;
                }
            }
        });
    }

    /// Accepts any state of a dataset, because the administrator took it back.
    pub(crate) fn forget_seen(&self, entry: &Entry) {
        self.accepted.seen.forget(self.pool.guid(), &[entry.guid]);
        self.compared.ids.lock().remove(&entry.id);
    }

    /// Forgets destroyed datasets, so that the file of states does not grow with each that ever was.
    pub(crate) fn forget_destroyed(&self, doomed: &[Arc<Entry>]) {
        let guids: Vec<u64> = doomed.iter().map(|entry| entry.guid).collect();
        self.accepted.seen.forget(self.pool.guid(), &guids);
        let mut compared = self.compared.ids.lock();
        for entry in doomed {
            compared.remove(&entry.id);
        }
    }
}
