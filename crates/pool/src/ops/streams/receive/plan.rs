//! The dataset that a stream becomes, and the checks before it is received.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::datasets::keyarea;
use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::volume_shape::VolumeShape;
use crate::format::stream::Begin;
use crate::names::DatasetName;
use crate::ops::datasets::clones::check_clones;
use crate::ops::datasets::create::free_name;
use crate::ops::pool::Pool;
use crate::ops::snapshots::bookmarks;
use crate::ops::snapshots::holds;
use crate::ops::streams::receive::policy::{ReceiveInto, ReceivePolicy};

/// The time at which a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanTime {
    /// Before anything is received.
    Begin,
    /// In the commit that makes the dataset visible.
    End,
}

/// The result of a stream.
pub(super) struct ReceivePlan {
    /// The dataset above, and the last part of the name.
    pub(super) parent: u64,
    pub(super) last: String,
    /// The whole name.
    pub(super) dataset: String,
    /// The name of the snapshot.
    pub(super) snapshot: String,
    /// The dataset, if the stream continues one of its snapshots.
    pub(super) head: Option<Arc<Entry>>,
    /// The snapshot that the stream continues.
    pub(super) base: Option<Arc<Entry>>,
    /// The snapshots after that one, which are destroyed.
    pub(super) later: Vec<Arc<Entry>>,
    /// True if the dataset has to be rolled back to it.
    pub(super) rolls_back: bool,
}

/// The dataset above an existing or new dataset, and the last part of its name. The root dataset counts as below
/// itself, without a name.
pub(super) fn place_of(state: &DatasetTable, dataset: &str) -> Result<(u64, String)> {
    DatasetName::parse(dataset)?;
    Ok(match dataset.rsplit_once('/') {
        Some((above, last)) => (state.find(above)?.id, last.into()),
        None => (state.find(dataset)?.id, String::new()),
    })
}

impl ReceivePlan {
    pub(super) fn new(
        pool: &Pool,
        state: &DatasetTable,
        begin: &Begin,
        into: &ReceiveInto<'_>,
        when: PlanTime,
    ) -> Result<ReceivePlan> {
        let (dataset, snapshot) = match into.target.split_once('@') {
            Some((dataset, snapshot)) => (dataset, snapshot),
            None => (into.target, begin.snapshot()),
        };
        DatasetName::parse(&format!("{dataset}@{snapshot}"))?;
        let found = state.find(dataset).ok().cloned();
        let mut plan = ReceivePlan {
            parent: 0,
            last: String::new(),
            dataset: dataset.into(),
            snapshot: snapshot.into(),
            head: found.clone(),
            base: None,
            later: Vec::new(),
            rolls_back: false,
        };
        match (begin.is_full(), found) {
            (true, Some(_)) => Err(Error::refused(
                dataset,
                "it exists already, and the stream makes a dataset; receive it under another name, \
                 or destroy this one first",
            )),
            (true, None) => {
                (plan.parent, plan.last) = free_name(state, dataset)?;
                Ok(plan)
            }
            (false, None) => {
                (plan.parent, plan.last) = free_name(state, dataset)?;
                plan.share(state, begin)?;
                Ok(plan)
            }
            (false, Some(head)) => {
                (plan.parent, plan.last) = place_of(state, dataset)?;
                plan.go_on(state, begin, into, &head)?;
                if when == PlanTime::End || !into.is_open {
                    let concerned = [&plan.later[..], &[head]].concat();
                    pool.engine.check_closed(state, &concerned)?;
                }
                Ok(plan)
            }
        }
    }

    /// Checks a new dataset, so that a wrong choice of the caller fails before anything is received.
    pub(super) fn check_new(&self, begin: &Begin, policy: &dyn ReceivePolicy) -> Result<()> {
        if self.head.is_some() {
            return Ok(());
        }
        if let Some(base) = &self.base
            && !policy.may_clone(base)
        {
            return Err(self.lacks_base(begin));
        }
        let refused = |reason| Error::refused(self.dataset.as_str(), reason);
        policy.props(begin).map_err(refused)?;
        Ok(())
    }

    /// The error for a stream that starts from a snapshot which this pool does not have.
    pub(super) fn lacks_base(&self, begin: &Begin) -> Error {
        Error::refused(
            self.dataset.as_str(),
            format!(
                "there is no such dataset, and the stream goes on from a snapshot of one (guid {}); receive \
                 a full stream first",
                begin.from_guid
            ),
        )
    }

    /// Finds the snapshot of another dataset that the stream starts from: the new dataset becomes its clone.
    fn share(&mut self, state: &DatasetTable, begin: &Begin) -> Result<()> {
        let fitting = state.all().filter(|entry| {
            let is_meant = entry.is_snapshot() && entry.guid == begin.from_guid;
            is_meant && self.fits(entry, begin).is_ok()
        });
        // Of several copies, the one that came with the datasets around it.
        let base = fitting.max_by_key(|entry| {
            let name = state.name_of(entry);
            let (here, there) = (self.dataset.split('/'), name.split(['/', '@']));
            let shared = here.zip(there).take_while(|(a, b)| a == b).count();
            (shared, Reverse(entry.id))
        });
        let base = Arc::clone(base.ok_or_else(|| self.lacks_base(begin))?);
        if begin.plain.is_some() && base.suite != 0 {
            return Err(Error::refused(
                self.dataset.as_str(),
                format!(
                    "it would share records with {}, whose keys do not come with a stream in the clear; send it \
                     with -w, or in full",
                    state.name_of(&base)
                ),
            ));
        }
        self.base = Some(base);
        Ok(())
    }

    /// Checks that a snapshot has the state that the stream starts from.
    fn fits(&self, base: &Entry, begin: &Begin) -> Result<()> {
        let refused = |reason: String| Err(Error::refused(self.dataset.as_str(), reason));
        let blocks = |shape: Option<VolumeShape>| shape.map(|shape| shape.block_size());
        if blocks(base.volume()) != blocks(begin.volume) {
            return refused(format!(
                "its snapshot @{} and the stream are not both of files, or of blocks of one size; receive a \
                 full stream under another name",
                base.name
            ));
        }
        let roots = base.roots.map(|root| root.identity);
        if let Some([from, _]) = &begin.plain {
            if base.lineage() != *from {
                return refused(format!(
                    "its snapshot @{} is not in the state that the stream goes on from; receive a full \
                     stream under another name",
                    base.name
                ));
            }
        } else if (base.family, base.suite, roots) != (begin.family, begin.suite, begin.from_roots)
        {
            return refused(format!(
                "its snapshot @{} is not sealed as the one that the stream goes on from; receive a \
                 full stream under another name",
                base.name
            ));
        }
        Ok(())
    }

    /// Finds the snapshot that the stream starts from.
    fn go_on(
        &mut self,
        state: &DatasetTable,
        begin: &Begin,
        into: &ReceiveInto<'_>,
        head: &Arc<Entry>,
    ) -> Result<()> {
        let refused = |reason: String| Err(Error::refused(self.dataset.as_str(), reason));
        let mut later = state.snapshots(head);
        let Some(at) = later.iter().position(|s| s.guid == begin.from_guid) else {
            return refused(format!(
                "it lacks the snapshot that the stream goes on from (guid {})",
                begin.from_guid
            ));
        };
        let base = Arc::clone(&later[at]);
        later.truncate(at);
        self.fits(&base, begin)?;
        let is_changed = later.is_empty() && head.roots != base.roots || head.log.exists();
        if !later.is_empty() && !into.force {
            let names: Vec<String> = later.iter().map(|s| format!("@{}", s.name)).collect();
            return refused(format!(
                "it has newer snapshots ({}) than @{}, which the stream goes on from; -F destroys \
                 them",
                names.join(", "),
                base.name
            ));
        }
        if is_changed && !into.force {
            return refused(format!(
                "it was changed since @{}, which the stream goes on from; -F takes it back to that",
                base.name
            ));
        }
        let marks = bookmarks::later(head, base.created_txg);
        if !marks.is_empty() && !into.force {
            return refused(format!(
                "it has newer bookmarks ({}) than @{}, which the stream goes on from; -F destroys them",
                marks.join(", "),
                base.name
            ));
        }
        let name = format!("{}@{}", self.dataset, self.snapshot);
        match state.find(&name) {
            Ok(taken) if !later.iter().any(|s| s.id == taken.id) => {
                return Err(Error::Exists { name });
            }
            _ => {}
        }
        for snapshot in &later {
            holds::check(state, snapshot)?;
        }
        check_clones(state, &Vec::from_iter(&later), &BTreeSet::new())?;
        self.rolls_back = is_changed || !later.is_empty();
        self.base = Some(base);
        self.later = later;
        Ok(())
    }

    /// The new keyring of the dataset, if it differs from the present one.
    pub(super) fn keyring(
        &self,
        pool: &Pool,
        begin: &Begin,
        policy: &dyn ReceivePolicy,
    ) -> Result<Option<Vec<u8>>> {
        if begin.suite == 0 || begin.plain.is_some() {
            return Ok(None);
        }
        let current = self.current_keyring(pool)?;
        let refused = |reason: String| Error::refused(self.dataset.as_str(), reason);
        policy.keyring(begin, current.as_deref()).map_err(refused)
    }

    /// The present keyring of the dataset.
    pub(super) fn current_keyring(&self, pool: &Pool) -> Result<Option<Vec<u8>>> {
        let store = pool.engine.disk.store.as_ref();
        let current = self.head.as_ref().and_then(|head| {
            let at = head.keyring.as_ref()?;
            Some(keyarea::read(store, head.guid, at))
        });
        current.transpose()
    }
}
