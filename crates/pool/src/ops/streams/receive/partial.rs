//! Hidden datasets that are being received.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::{PlanTime, ReceivePlan};
use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_internal};
use crate::engine::limits::counts;
use crate::error::{Error, Result};
use crate::format::datasets::entry::{DatasetKind, Entry, text_bytes};
use crate::format::datasets::entry_flags::{PARTIAL, ReceiveState};
use crate::format::records::array_kind::ArrayKind;
use crate::format::stream::{Begin, ResumeToken, StreamPosition};
use crate::format::superblock::features::{FEATURE_CLONES, FEATURE_RECEIVED};
use crate::ops::datasets::create::{self, NewDataset};
use crate::ops::datasets::destroy;
use crate::ops::info::DatasetListing;
use crate::ops::pool::Pool;
use crate::ops::streams::receive::policy::{ReceiveInto, ReceivePolicy};
use crate::storage::array::diff;
use crate::storage::writer::txg::TxgWriter;

/// A receive that has begun.
pub(super) struct ReceiveStart {
    /// The hidden dataset.
    pub(super) dataset: Arc<OpenDataset>,
    /// The id of the dataset that the stream extends; `None` if it makes one.
    pub(super) head: Option<u64>,
    /// True if the received part is kept after an interruption.
    pub(super) is_resumable: bool,
}

impl Pool {
    /// Checks whether a stream can be received, and opens the hidden dataset for it.
    pub(super) fn begin_receive(
        &self,
        begin: &Begin,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
    ) -> Result<ReceiveStart> {
        let (id, head) = self.engine.commit_with(|commit, state| {
            let plan = ReceivePlan::new(self, state, begin, into, PlanTime::Begin)?;
            plan.keyring(self, begin, policy)?;
            plan.check_new(begin, policy)?;
            let head = plan.head.as_ref().map(|head| head.id);
            let id = match state.partial_of(plan.parent, &plan.last).cloned() {
                Some(partial) if self.goes_on(state, &plan, &partial, begin)? => partial.id,
                Some(partial) => {
                    destroy::destroy_head(commit, state, partial.id)?;
                    plan.make_partial(commit, state, begin, into)?
                }
                None => plan.make_partial(commit, state, begin, into)?,
            };
            Ok((id, head))
        })?;
        let dataset = self.open_dataset(id)?;
        let partial = self.entry(id)?;
        let is_resumable = partial.receiving().is_some_and(|was| was.resumable);
        match begin.start <= self.next_to_receive(&partial)? {
            true => Ok(ReceiveStart {
                dataset,
                head,
                is_resumable,
            }),
            false => Err(Error::refused(
                into.target,
                "the stream goes on further than what was received; make it with the token of now \
                 (get receive_resume_token)",
            )),
        }
    }

    /// Returns whether a stream continues the part that was received before. False if that part can be destroyed.
    pub(super) fn goes_on(
        &self,
        state: &DatasetTable,
        plan: &ReceivePlan,
        partial: &Arc<Entry>,
        begin: &Begin,
    ) -> Result<bool> {
        if self
            .engine
            .check_closed(state, std::slice::from_ref(partial))
            .is_err()
        {
            let name = format!(
                "{}: something is being received into it, and it",
                plan.dataset
            );
            return Err(Error::Busy { name });
        }
        let Some(was) = partial.receiving().filter(|was| was.resumable) else {
            return Ok(false);
        };
        let refused = |what: &str| {
            Err(Error::refused(
                plan.dataset.as_str(),
                format!(
                    "{} was received into it in part{what}; go on with that (send -t), or throw it away \
                     (receive -A)",
                    was.name
                ),
            ))
        };
        if (was.to_guid, was.from_guid) != (begin.to_guid, begin.from_guid) {
            return refused("");
        }
        let is_state = |state| partial.receiving_state().is_none_or(|was| was == state);
        match (begin.plain_state(), partial.receiving_plain()) {
            (Some(to), Some(was)) if to == was => {}
            (None, None) if begin.sealed_state().is_some_and(is_state) => {}
            (_, Some(_)) => return refused(" in the clear, and this is another state, or sealed"),
            (_, None) => {
                return refused(
                    " as it was sealed then, and this is sealed otherwise, or not at all",
                );
            }
        }
        Ok(partial.origin == plan.base.as_ref().map_or(0, |base| base.id))
    }

    /// The next position of a dataset that is being received.
    pub(super) fn next_to_receive(&self, partial: &Entry) -> Result<StreamPosition> {
        let _committing = self.engine.lock_commits();
        for array in [ArrayKind::Data, ArrayKind::Pages] {
            let root = &partial.roots[array as usize];
            let last = diff::last(&self.engine.disk, root, partial.prev_snap_txg)?;
            if let Some(last) = last {
                return Ok(StreamPosition::new(array, last + 1));
            }
        }
        Ok(StreamPosition::START)
    }

    /// The resume token of an interrupted receive, if there is one.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`]; as
    /// [`Pool::each_record`].
    pub fn resume_token(&self, target: &str) -> Result<Option<ResumeToken>> {
        let partial = find_partial(&self.engine.state.read(), target)?;
        let Some((partial, was)) = partial.and_then(|p| Some((Arc::clone(&p), p.receiving()?)))
        else {
            return Ok(None);
        };
        if !was.resumable {
            return Ok(None);
        }
        Ok(Some(ResumeToken {
            to_guid: was.to_guid,
            from_guid: was.from_guid,
            name: was.name,
            next: self.next_to_receive(&partial)?,
            plain: partial.receiving_plain().is_some(),
        }))
    }

    /// The interrupted receives that would make datasets below a dataset, with the names of these.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn interrupted(&self, id: u64) -> Result<Vec<DatasetListing>> {
        let state = self.engine.state.read();
        state.entry(id)?;
        let heads = state.subtree(id);
        let partials = heads.iter().flat_map(|head| state.partials(head.id));
        Ok(partials
            .filter_map(|partial| new_dataset(&state, partial))
            .collect())
    }

    /// The interrupted receive that would make the dataset with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] if there is no dataset above it; [`Error::BadName`].
    pub fn interrupted_as(&self, name: &str) -> Result<Option<DatasetListing>> {
        let state = self.engine.state.read();
        if name.contains('@') {
            return Ok(None);
        }
        let partial = find_partial(&state, name)?;
        Ok(partial.and_then(|partial| new_dataset(&state, &partial)))
    }

    /// Destroys the part that an interrupted receive left.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none; [`Error::Busy`] if it
    /// goes on; as [`Pool::commit`].
    pub fn abandon_receive(&self, target: &str, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            let partial = find_partial(state, target)?.ok_or_else(|| {
                Error::refused(target, "there is no interrupted receive to throw away")
            })?;
            self.engine
                .check_closed(state, std::slice::from_ref(&partial))?;
            log(commit, state, origin, None);
            log_internal(commit, state, origin, "receive abandoned", &partial);
            destroy::destroy_head(commit, state, partial.id)
        })
    }

    pub(super) fn discard_partial(&self, id: u64) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            match state.get(id).filter(|entry| entry.is_partial()).cloned() {
                None => Ok(()),
                Some(partial) => {
                    self.engine
                        .check_closed(state, std::slice::from_ref(&partial))?;
                    destroy::destroy_head(commit, state, id)
                }
            }
        })
    }
}

/// Destroys the parts of receives that cannot be resumed. Their processes have ended.
pub(crate) fn discard_broken(commit: &TxgWriter<'_>, state: &mut DatasetTable) -> Result<()> {
    let broken = state.all().filter(|entry| {
        entry.is_partial()
            && !entry
                .receiving()
                .is_some_and(|receiving| receiving.resumable)
    });
    let broken: Vec<u64> = broken.map(|entry| entry.id).collect();
    broken
        .into_iter()
        .try_for_each(|id| destroy::destroy_head(commit, state, id))
}

/// The dataset that an interrupted receive would make; `None` if it goes into one that exists.
fn new_dataset(state: &DatasetTable, partial: &Arc<Entry>) -> Option<DatasetListing> {
    partial.receiving().filter(|was| was.resumable)?;
    let last = partial.name.strip_prefix(PARTIAL)?;
    let name = format!("{}/{last}", state.name_of(state.get(partial.parent)?));
    if last.is_empty() || state.find(&name).is_ok() {
        return None;
    }
    Some(DatasetListing {
        name,
        used: partial.used,
        used_by_dataset: partial.used,
        written: state.own_bytes(partial),
        ..DatasetListing::uncounted(state, partial)
    })
}

fn find_partial(state: &DatasetTable, target: &str) -> Result<Option<Arc<Entry>>> {
    let (dataset, _) = target.split_once('@').unwrap_or((target, ""));
    let (parent, last) = super::plan::place_of(state, dataset)?;
    Ok(state.partial_of(parent, &last).cloned())
}

impl ReceivePlan {
    /// Makes the hidden dataset for a stream: a new dataset, or a clone.
    fn make_partial(
        &self,
        commit: &TxgWriter<'_>,
        state: &mut DatasetTable,
        begin: &Begin,
        into: &ReceiveInto<'_>,
    ) -> Result<u64> {
        if begin.start != StreamPosition::START {
            return Err(Error::refused(
                into.target,
                "the stream goes on with a receive of which nothing is here",
            ));
        }
        if self.head.is_none() {
            counts::check_new_partial(state, self.parent)?;
        }
        let receiving = ReceiveState {
            to_guid: begin.to_guid,
            from_guid: begin.from_guid,
            resumable: into.resumable,
            name: begin.sender.name.clone(),
        };
        let marks = Entry::receiving_marks(&receiving, begin);
        let shape = begin.volume.map(|shape| shape.mark());
        let props: BTreeMap<_, _> = marks.chain(shape).collect();
        let _reserved = commit.reserve_entries(1, text_bytes(&props))?;
        let kind = match begin.volume {
            None => DatasetKind::FileSystem,
            Some(_) => DatasetKind::Volume,
        };
        let new = NewDataset {
            kind,
            guid: commit.core.env.guid(),
            suite: 0,
            keyring: None,
            is_key_root: false,
            props,
        };
        let name = format!("{PARTIAL}{}", self.last);
        let id = create::insert(commit, state, new, (self.parent, &name), commit.txg)?;
        if let Some(base) = &self.base {
            let entry = state.edit(id)?;
            entry.family = base.family;
            entry.origin = base.id;
            entry.prev_snap_txg = base.created_txg;
            entry.roots = base.roots;
            entry.referenced = base.referenced;
            entry.logical = base.logical;
        }
        state.root.features_required |= FEATURE_RECEIVED | FEATURE_CLONES;
        Ok(id)
    }
}
