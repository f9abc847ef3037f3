//! The commit that makes the received data a snapshot.

use std::sync::Arc;

use super::plan::{PlanTime, ReceivePlan};
use crate::engine::datasets::keyarea;
use crate::engine::datasets::reseal::note_waiting;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_internal};
use crate::error::{Error, Result};
use crate::format::datasets::entry::{Entry, text_bytes};
use crate::format::datasets::entry_flags::PARTIAL;
use crate::format::datasets::seal_input::SealInput;
use crate::format::stream::Begin;
use crate::format::superblock::features::{
    FEATURE_BOUND_LOGS, FEATURE_ROTATED, FEATURE_SEALED_FACTS,
};
use crate::ops::datasets::properties::check_props;
use crate::ops::pool::Pool;
use crate::ops::snapshots::snapshot;
use crate::ops::streams::receive::policy::{ReceiveInto, ReceivePolicy, StreamSealer};
use crate::storage::writer::txg::TxgWriter;

/// The error for a stream with complete frames whose records do not result in the expected roots.
pub(super) const NOT_WHAT_WAS_SAID: &str = "does not hold what it says that it does";

impl Pool {
    /// Makes the received data a snapshot, in one commit, and returns its name. `id` is the hidden dataset, and `head` the
    /// dataset that the stream extends.
    pub(super) fn finish_receive(
        &self,
        (id, head): (u64, Option<u64>),
        begin: &Begin,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
        sealing: Option<&StreamSealer>,
        origin: &Origin,
    ) -> Result<String> {
        self.engine.commit_within_limits(|commit, state| {
            let plan = ReceivePlan::new(self, state, begin, into, PlanTime::End)?;
            plan.check_is_same(state.entry(id)?, head)?;
            let keyring = match sealing {
                None => plan.keyring(self, begin, policy)?,
                Some(sealing) => {
                    let is_stored = state.entry(id)?.keyring.is_some();
                    let new = sealing.keyring.clone();
                    new.filter(|_| plan.head.is_none() && !is_stored)
                }
            };
            if sealing.is_none() {
                let levels = begin.roots.map(|root| root.level);
                let roots = commit.relevel(state, id, levels)?;
                if roots.map(|root| root.identity) != begin.roots {
                    return Err(Error::stream(NOT_WHAT_WAS_SAID));
                }
            }
            log(commit, state, origin, None);
            let head = match &plan.head {
                None => plan.become_dataset(state, id, begin, policy, sealing)?,
                Some(head) => plan.go_over(commit, state, id, head.id)?,
            };
            let _reserved = commit.reserve_entries(3, text_bytes(&state.entry(head)?.props))?;
            if let Some(keyring) = keyring {
                let guid = state.entry(head)?.guid;
                let new = keyarea::write(commit, state, guid, &keyring)?;
                let old = state.edit(head)?.keyring.replace(new);
                keyarea::replaced(state, head, old)?;
                if sealing.is_none() {
                    state.root.features_required |= FEATURE_ROTATED;
                }
            }
            match sealing {
                None => enter_seal(state, head, begin, plan.head.is_none())?,
                Some(sealing) => make_seal(state, (head, plan.head.is_none()), begin, sealing)?,
            }
            let snapshot = (begin.to_guid, begin.created);
            note_waiting(state, head)?;
            snapshot::create(commit, state, head, &plan.snapshot, snapshot)?;
            let name = format!("{}@{}", plan.dataset, plan.snapshot);
            let made = Arc::clone(state.find(&name)?);
            match &begin.plain {
                Some([_, lineage]) => state.edit(made.id)?.set_lineage(lineage),
                None if begin.suite != 0 => state.edit(made.id)?.set_keys_txg(begin.needed_txg),
                None => {}
            }
            log_internal(commit, state, origin, "receive", &made);
            Ok(name)
        })
    }
}

impl ReceivePlan {
    /// Checks that the target of the receive is still the same as at its start. The received data shares records with
    /// the snapshot from which the stream starts, and not with another one, even an equal one.
    fn check_is_same(&self, partial: &Entry, head: Option<u64>) -> Result<()> {
        let base = self.base.as_ref().map_or(0, |base| base.id);
        let is_place = partial.parent == self.parent
            && partial.name.strip_prefix(PARTIAL) == Some(self.last.as_str());
        let is_head = self.head.as_ref().map(|head| head.id) == head;
        match is_place && is_head && partial.origin == base {
            true => Ok(()),
            false => Err(Error::refused(
                self.dataset.as_str(),
                "another dataset took its name while the stream came; receive it again",
            )),
        }
    }

    /// Makes the hidden dataset visible.
    fn become_dataset(
        &self,
        state: &mut DatasetTable,
        id: u64,
        begin: &Begin,
        policy: &dyn ReceivePolicy,
        sealing: Option<&StreamSealer>,
    ) -> Result<u64> {
        let refused = |reason| Error::refused(self.dataset.as_str(), reason);
        let mut props = policy.props(begin).map_err(refused)?;
        // Names that begin like this are the pool's own.
        props.retain(|name, _| !name.starts_with('@'));
        check_props(&self.dataset, &props)?;
        state.rename(id, self.parent, &self.last)?;
        let (suite, is_key_root) = match sealing {
            None => (begin.suite, true),
            Some(sealing) => (sealing.suite, sealing.is_key_root),
        };
        let key_root = match (suite, is_key_root) {
            (0, _) => 0,
            (_, true) => id,
            (_, false) => state.entry(self.parent)?.key_root,
        };
        let entry = state.edit(id)?;
        if sealing.is_none() {
            entry.family = begin.family;
        }
        entry.suite = suite;
        entry.key_root = key_root;
        entry.props = props;
        entry.set_volume(begin.volume);
        Ok(id)
    }

    /// Replaces the state of the dataset that the stream extends by the received state.
    fn go_over(
        &self,
        commit: &TxgWriter<'_>,
        state: &mut DatasetTable,
        id: u64,
        head: u64,
    ) -> Result<u64> {
        if let (true, Some(base)) = (self.rolls_back, &self.base) {
            for later in &self.later {
                snapshot::destroy(commit, state, later.id)?;
            }
            snapshot::roll_back(commit, state, head, base)?;
        }
        let partial = state.remove(id);
        let partial = partial
            .ok_or_else(|| Error::inconsistent("dataset table", "what was received vanished"))?;
        let entry = state.edit(head)?;
        if let Some(base) = &self.base {
            // The received data may be older than these.
            entry.forget_bookmarks_after(base.created_txg);
        }
        if !entry.deadlist.is_empty() {
            let what = "a dataset that did not change has let go of something";
            return Err(Error::inconsistent("dataset table", what));
        }
        entry.roots = partial.roots;
        entry.deadlist = partial.deadlist;
        entry.dead_bytes = partial.dead_bytes;
        entry.referenced = partial.referenced;
        entry.logical = partial.logical;
        entry.used = entry.used.saturating_add(partial.used);
        // What it has passed may be where it has not been yet.
        if state.config.resilver.is_running() {
            state.config.restart_resilver();
            state.config_dirty = true;
        }
        Ok(head)
    }
}

/// Gives a dataset the seal that came with the stream.
fn enter_seal(state: &mut DatasetTable, head: u64, begin: &Begin, is_new: bool) -> Result<()> {
    state.root.note_received(begin.sequence);
    let entry = state.edit(head)?;
    let past = entry.sequence.max(entry.sequence_past);
    // In a new dataset it counted the commits of the receive. They made no seals of the dataset.
    entry.sequence_past = if is_new { 0 } else { past };
    entry.sequence = begin.sequence;
    entry.seal = begin.seal;
    entry.log = begin.log_head();
    let has_states = !entry.log.is_unbound();
    entry.set_volume(begin.volume);
    entry.set_waiting_mark(begin.waiting_seals());
    entry.set_facts_mark(begin.sealed_facts());
    let has_facts = entry.facts_mark().is_some();
    if begin.suite != 0 {
        entry.set_sealed_guid(Some(begin.sealed_guid));
        let keys_txg = entry.foreign_txg().unwrap_or(0).max(begin.keys_txg);
        entry.set_keys_txg(keys_txg);
    }
    if has_states {
        state.root.features_required |= FEATURE_BOUND_LOGS;
    }
    if has_facts {
        state.root.features_required |= FEATURE_SEALED_FACTS;
    }
    Ok(())
}

/// Gives a dataset that was received in the clear its first seal, over its present state.
fn make_seal(
    state: &mut DatasetTable,
    (head, is_new): (u64, bool),
    begin: &Begin,
    sealing: &StreamSealer,
) -> Result<()> {
    // The next commit with the key seals them: in this one the dataset gets another snapshot and its properties.
    state.edit(head)?.set_facts_mark(None);
    let entry = state.edit(head)?;
    // As in `enter_seal`.
    let past = match is_new {
        true => 0,
        false => entry.sequence.max(entry.sequence_past),
    };
    match is_new {
        true => entry.set_waiting_mark(None),
        false => entry.let_seal_wait(&entry.clone()),
    }
    entry.sequence_past = past;
    entry.sequence = past + 1;
    entry.set_sealed_guid(None);
    entry.set_volume(begin.volume);
    entry.seal = sealing
        .records
        .dataset_seal(&SealInput::of(entry, entry.guid));
    Ok(())
}
