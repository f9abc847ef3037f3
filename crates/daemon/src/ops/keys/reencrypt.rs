//! Re-encryption in the background: the pool worker seals stored records again with the newest data keys, and
//! destroys key generations that no record needs any more.
//!
//! A running re-encryption is noted among the properties of the dataset, under a name that no property can have. So it
//! continues after a restart or a crash, once the dataset is mounted. Its position is not stored: it passes over
//! records that are done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use dataset::Dataset;
use pool::{ArrayKind, Entry, NewKeyring, Origin, RecordPtr};
use protocol::api::{FailureKind, GenerationRow};

use crate::failure::{Failure, Result};
use crate::ops::keys::change::check_has_keyring;
use crate::state::callers::decision::{Decide, Internal};
use crate::state::keys::keyring::numbers;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::pool_worker::COMMIT_INTERVAL;

const PROPERTY: &str = "@reencrypt";
/// The bytes that are encrypted again before a commit.
const STEP: u64 = 32 << 20;

/// The reason why a re-encryption waits before it fills the pool.
const TOO_LITTLE_SPACE: &str = "too little space is free in the pool";

/// The work that remains for a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Running,
    Paused,
    /// Only the snapshots with these ids are sealed with older keys.
    Pinned(BTreeSet<u64>),
}

impl State {
    fn of(entry: &Entry) -> Option<State> {
        match entry.props.get(PROPERTY)?.as_str() {
            "running" => Some(State::Running),
            "paused" => Some(State::Paused),
            text => {
                let ids = text.strip_prefix("pinned ")?.split(',');
                Some(State::Pinned(
                    ids.filter_map(|id| id.parse().ok()).collect(),
                ))
            }
        }
    }

    fn to_text(&self) -> String {
        match self {
            State::Running => "running".into(),
            State::Paused => "paused".into(),
            State::Pinned(ids) => {
                let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
                format!("pinned {}", ids.join(","))
            }
        }
    }
}

impl ActivePool {
    /// Starts a re-encryption, or resumes one after a pause.
    pub(crate) fn start_reencryption(
        &self,
        entry: &Entry,
        decision: &dyn Decide,
        origin: &Origin,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        check_has_keyring(entry, &name)?;
        let _admin = self.lock(decision)?;
        self.again(entry, &name, decision)?;
        self.set_state(entry.id, Some(&State::Running), origin)?;
        self.wake();
        Ok(())
    }

    /// Pauses a re-encryption until a command resumes it.
    pub(crate) fn pause_reencryption(
        &self,
        entry: &Entry,
        decision: &dyn Decide,
        origin: &Origin,
    ) -> Result<()> {
        let name = self.pool.name_of(entry.id)?;
        check_has_keyring(entry, &name)?;
        let _admin = self.lock(decision)?;
        match State::of(&*self.again(entry, &name, decision)?) {
            Some(State::Running) => self.set_state(entry.id, Some(&State::Paused), origin),
            _ => Err(Failure::other(format!(
                "'{name}' is not being re-encrypted"
            ))),
        }
    }

    fn set_state(&self, id: u64, state: Option<&State>, origin: &Origin) -> Result<()> {
        let change = (PROPERTY.to_owned(), state.map(State::to_text));
        let name = self.pool.name_of(id)?;
        Ok(self.pool.set_props(&[name], &[change], origin)?)
    }

    /// The state of a re-encryption as text; `None` if there is none.
    pub(crate) fn reencryption(&self, entry: &Entry) -> Option<String> {
        let state = State::of(entry)?;
        let done = || {
            let progress = self.files_of(entry.id)?.reencrypted();
            let seen = progress.seen.min(entry.referenced);
            Some((100 * seen / entry.referenced.max(1), progress.waits))
        };
        Some(match (state, done()) {
            (State::Running, Some((percent, false))) => format!("running, {percent}% done"),
            (State::Running, Some((percent, true))) => {
                format!("waits for free space, {percent}% done")
            }
            (State::Running, None) => "waits for a mount".into(),
            (State::Paused, _) => "paused".into(),
            (State::Pinned(ids), _) => {
                let names = ids.iter().filter_map(|id| self.pool.entry(*id).ok());
                let names: Vec<String> = names.map(|entry| format!("@{}", entry.name)).collect();
                format!("pinned by {}", names.join(","))
            }
        })
    }

    /// Does a piece of the re-encryption of each mounted dataset. True if there is more to do at once.
    pub(crate) fn tend_reencryption(&self, all: &[Arc<Dataset>]) -> bool {
        let mut more = false;
        let is_open = |id: &u64| all.iter().any(|dataset| dataset.id() == *id);
        self.reencryption_waits.lock().retain(|id, _| is_open(id));
        for dataset in all {
            let Ok(entry) = self.pool.entry(dataset.id()) else {
                continue;
            };
            let state = State::of(&entry);
            let is_running = state == Some(State::Running);
            let worked = match state {
                Some(State::Running) => self.reencrypt(dataset, &entry),
                Some(State::Pinned(ids)) if ids.iter().any(|id| self.pool.entry(*id).is_err()) => {
                    self.destroy_unused(dataset, &entry).map(|()| false)
                }
                _ => Ok(false),
            };
            let waits = match worked {
                Ok(again) => {
                    more |= again;
                    let waits = is_running && dataset.reencrypted().waits;
                    waits.then(|| TOO_LITTLE_SPACE.to_owned())
                }
                Err(failure) => Some(failure.message),
            };
            self.note_wait(dataset, waits);
        }
        more
    }

    /// For the report on the pool: which re-encryptions wait, and the advice.
    pub(crate) fn advice_on_reencryption(&self) -> (Option<String>, Option<String>) {
        let known = self.reencryption_waits.lock();
        let mut waits = known.iter().filter_map(|(id, reason)| {
            let name = self.pool.name_of(*id).ok()?;
            Some((name, reason))
        });
        let Some((name, reason)) = waits.next() else {
            return (None, None);
        };
        let trouble = format!("The re-encryption of '{name}' waits: {reason}.");
        let action = match reason.as_str() {
            TOO_LITTLE_SPACE => {
                "Free some space: delete files, or destroy snapshots, which keep the old records. \
                 The re-encryption goes on by itself."
            }
            _ => "The re-encryption tries again by itself. The log of the daemon says more.",
        };
        (Some(trouble), Some(action.into()))
    }

    /// Logs why a re-encryption waits, once for each reason.
    fn note_wait(&self, dataset: &Dataset, reason: Option<String>) {
        let mut known = self.reencryption_waits.lock();
        let name = dataset.name();
        match reason {
            None if known.remove(&dataset.id()).is_some() => {
                tracing::info!(dataset = name, "re-encryption goes on");
            }
            Some(reason) if known.get(&dataset.id()) != Some(&reason) => {
                tracing::warn!(dataset = name, reason, "re-encryption waits");
                known.insert(dataset.id(), reason);
            }
            None | Some(_) => {}
        }
    }

    /// Does a piece of the re-encryption of one dataset.
    fn reencrypt(&self, dataset: &Arc<Dataset>, entry: &Entry) -> Result<bool> {
        let progress = dataset.reencrypt_step(STEP)?;
        self.pool.commit()?;
        if progress.is_done {
            self.destroy_unused(dataset, entry)?;
        }
        Ok(!progress.is_done && !progress.waits)
    }

    /// Destroys the generations of keys that neither the dataset nor one of its snapshots needs. A keyring without them
    /// replaces the old one, which is overwritten.
    fn destroy_unused(&self, dataset: &Arc<Dataset>, entry: &Entry) -> Result<()> {
        // After a commit no record in the log is sealed with older keys.
        self.pool.commit()?;
        let uses = self.uses(dataset, entry)?;
        let Some(_admin) = self.try_lock() else {
            return Ok(());
        };
        let name = self.pool.name_of(entry.id)?;
        let now = self.again(entry, &name, &Internal)?;
        let is_open = self
            .files_of(now.id)
            .is_some_and(|open| Arc::ptr_eq(&open, dataset));
        let snapshots = self.pool.snapshots(now.id)?;
        let is_new = |snapshot: &Arc<Entry>| !uses.contains_key(&snapshot.id);
        if !is_open || snapshots.iter().any(is_new) {
            // The dataset has changed since it was read. The next try comes soon.
            return Ok(());
        }
        let (mut keyring, foreign) = self.opened_keyring(&now)?;
        let used: BTreeSet<u32> = uses.values().flatten().copied().collect();
        let newest = keyring.newest().number();
        let all: Vec<u32> = keyring.generations().iter().map(|g| g.number()).collect();
        let mut unused: Vec<u32> = all
            .into_iter()
            .filter(|number| *number != newest && !used.contains(number))
            .collect();
        for number in &unused {
            keyring.retire(*number)?;
        }
        // Generations that do not open are not needed any more.
        unused.extend(foreign);
        let pinning = snapshots.iter().filter(|snapshot| {
            let uses = uses.get(&snapshot.id);
            uses.is_some_and(|uses| uses.iter().any(|number| *number != newest))
        });
        let pinning: BTreeSet<u64> = pinning.map(|snapshot| snapshot.id).collect();
        let state = (!pinning.is_empty()).then_some(State::Pinned(pinning));
        let origin = Origin {
            who: "daemon".into(),
            text: format!("re-encryption of {name} has finished"),
            uid: None,
        };
        if !unused.is_empty() {
            let change = NewKeyring {
                id: now.id,
                keyring: keyring.encode(),
                key_root: now.key_root,
                props: Vec::new(),
                done: format!(
                    "encryption keys destroyed: generation {}",
                    numbers(&unused).unwrap_or_default()
                ),
            };
            self.replace_keyrings(&[change], &origin)?;
            unused.iter().for_each(|n| dataset.forget_generation(*n));
        }
        self.set_state(now.id, state.as_ref(), &origin)
    }

    /// The generations that a dataset and each of its snapshots need, by the id of the dataset or snapshot.
    fn uses(&self, dataset: &Dataset, entry: &Entry) -> Result<BTreeMap<u64, BTreeSet<u32>>> {
        let mut trees = vec![entry.id];
        trees.extend(self.pool.snapshots(entry.id)?.iter().map(|s| s.id));
        let mut uses = BTreeMap::new();
        // Commits from time to time, because this can take long.
        let mut last = Instant::now();
        let mut between = || {
            if last.elapsed() < COMMIT_INTERVAL {
                return Ok(());
            }
            last = Instant::now();
            self.pool.commit()
        };
        for id in trees {
            let found = self.records_by_generation(id, &mut between)?;
            let mut used: BTreeSet<u32> = found.into_keys().collect();
            let seal = dataset.sealed_by(&self.pool, id)?;
            used.insert(seal.ok_or_else(|| {
                let name = self.pool.name_of(id).unwrap_or_default();
                let text = format!(
                    "the seal of '{name}' does not match its state, so no key is destroyed"
                );
                Failure::new(FailureKind::Damaged, text)
            })?);
            uses.insert(id, used);
        }
        Ok(uses)
    }

    /// The number of records of each generation in a dataset or snapshot, and their bytes on disk.
    pub(crate) fn records_by_generation(
        &self,
        id: u64,
        between: &mut dyn FnMut() -> pool::Result<()>,
    ) -> Result<BTreeMap<u32, (u64, u64)>> {
        let mut found: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut count = |ptr: &RecordPtr| {
            let (records, bytes) = found.entry(ptr.identity.generation()).or_default();
            *records += 1;
            *bytes += ptr.place.allocated();
        };
        for array in ArrayKind::ALL {
            self.pool.each_record_of(id, array, &mut count, between)?;
        }
        Ok(found)
    }

    /// The generations of a dataset's keys, and what needs them. It needs no key, and reads every node.
    pub(crate) fn generation_rows(&self, entry: &Entry) -> Result<Vec<GenerationRow>> {
        let name = self.pool.name_of(entry.id)?;
        check_has_keyring(entry, &name)?;
        let keyring = self.keyring(entry)?;
        let (opened, foreign) = self.opened_keyring(entry)?;
        let own = self.records_by_generation(entry.id, &mut || Ok(()))?;
        let mut by_snapshot = Vec::new();
        for snapshot in self.pool.snapshots(entry.id)? {
            let used = self.records_by_generation(snapshot.id, &mut || Ok(()))?;
            by_snapshot.push((format!("@{}", snapshot.name), used));
        }
        let newest = opened.newest().number();
        let rows = keyring.generations().iter().map(|generation| {
            let number = generation.number();
            let (records, bytes) = own.get(&number).copied().unwrap_or_default();
            let snapshots: Vec<String> = by_snapshot
                .iter()
                .filter(|(_, used)| used.contains_key(&number))
                .map(|(name, _)| name.clone())
                .collect();
            let state = match (number == newest, records, snapshots.is_empty()) {
                _ if foreign.contains(&number) => "foreign",
                (true, ..) => "newest",
                (false, 0, true) => "unused",
                (false, 0, false) => "pinned",
                (false, ..) => "in use",
            };
            GenerationRow {
                generation: number,
                txg: generation.txg(),
                created: generation.created(),
                state: state.into(),
                records,
                bytes,
                snapshots,
            }
        });
        Ok(rows.collect())
    }
}
