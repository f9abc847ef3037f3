//! Holds: tags on a snapshot. A snapshot with a tag cannot be destroyed; one that is to go goes with its last tag. A hold
//! with an end cannot be released before it, and keeps nothing after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log_about, log_internal};
use crate::engine::retention::length::RETENTION_MAX;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::hold_mark::HoldMark;
use crate::format::superblock::features::{FEATURE_CLONES, FEATURE_DEFERRED};
use crate::ops::datasets::properties::check_props;
use crate::ops::pool::Pool;
use crate::ops::snapshots::name_ranges;
use crate::ops::snapshots::snapshot;
use crate::storage::writer::txg::TxgWriter;
use crate::utc::utc;

/// The largest length of a tag.
const TAG_MAX: usize = 200;

/// A pool may be ahead of the clock of the machine by so many seconds, if a hold gets an end.
const AHEAD_MAX: u64 = 86_400;

/// A tag on a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHold {
    /// The name of the snapshot.
    pub snapshot: String,
    /// The name of the hold.
    pub tag: String,
    /// The time of the hold, in seconds since 1970.
    pub time: u64,
    /// The time of the pool before which the hold cannot be released; `None` if it has no end.
    pub until: Option<u64>,
}

impl Pool {
    /// Puts a tag on snapshots, on all or none. With `recursive` also on snapshots with the same name in datasets
    /// below.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`];
    /// [`Error::Exists`] if a snapshot has the tag; [`Error::Refused`] if a snapshot has as many tags as fit;
    /// [`Error::Limit`], [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn hold(
        &self,
        names: &[String],
        tag: &str,
        recursive: bool,
        origin: &Origin,
    ) -> Result<()> {
        self.put_tags(names, (tag, None), recursive, origin)
    }

    /// Puts a tag on snapshots that keeps them until a time of the pool. Before, nothing releases the tag and nothing
    /// destroys the snapshots. A tag that has an end already gets the later one.
    ///
    /// # Errors
    /// As [`Pool::hold`]; [`Error::Retained`] if a snapshot has the tag until later;
    /// [`Error::Refused`] if the time is over, or too far away, or if the pool is ahead of the clock of the machine by more
    /// than a day.
    pub fn hold_until(
        &self,
        names: &[String],
        (tag, until): (&str, u64),
        recursive: bool,
        origin: &Origin,
    ) -> Result<()> {
        self.put_tags(names, (tag, Some(until)), recursive, origin)
    }

    /// The time of the pool, in seconds since 1970, by which holds end.
    pub fn time(&self) -> u64 {
        self.engine.state.read().time()
    }

    /// The latest end of a hold in the pool, if it is still to come.
    pub fn retained_until(&self) -> Option<u64> {
        self.engine.state.read().retained_until()
    }

    /// Refuses to destroy the pool before the end of all holds.
    ///
    /// # Errors
    /// [`Error::Retained`].
    pub fn check_retentions_ended(&self) -> Result<()> {
        self.engine.state.read().check_all_ended()
    }

    fn put_tags(
        &self,
        names: &[String],
        (tag, until): (&str, Option<u64>),
        recursive: bool,
        origin: &Origin,
    ) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            check_tag(tag)?;
            let snapshots = all_named(state, names, recursive)?;
            let _reserved = commit.reserve_entries(snapshots.len(), snapshots.len() * TAG_MAX)?;
            let now = commit.core.env.now();
            log_about(commit, state, origin, only(&snapshots));
            state.root.features_required |= FEATURE_CLONES;
            for snapshot in snapshots {
                match until {
                    None => put_tag(state, &snapshot, tag, now)?,
                    Some(until) => retain(state, &snapshot, tag, (now, until))?,
                }
                let full =
                    |_| Error::refused(state.name_of(&snapshot), "it has as many tags as fit");
                check_props("", &state.entry(snapshot.id)?.props).map_err(full)?;
            }
            Ok(())
        })
    }

    /// Removes a tag from snapshots, from all or none. Destroys those that wait for it.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`];
    /// [`Error::Refused`] if a snapshot has no such tag; [`Error::Retained`] before the end of the tag;
    /// [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn release(
        &self,
        names: &[String],
        tag: &str,
        recursive: bool,
        origin: &Origin,
    ) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            let snapshots = all_named(state, names, recursive)?;
            let _reserved = commit.reserve_entries(snapshots.len(), 0)?;
            log_about(commit, state, origin, only(&snapshots));
            let freed: Vec<u64> = snapshots.iter().map(|snapshot| snapshot.id).collect();
            for snapshot in snapshots {
                let Some(mark) = snapshot.hold_named(tag) else {
                    let reason = format!("it has no tag '{tag}'");
                    return Err(Error::refused(state.name_of(&snapshot), reason));
                };
                check_mark_ended(state, &snapshot, &mark)?;
                state.edit(snapshot.id)?.remove_hold(tag);
            }
            destroy_due(self, commit, state, &freed, origin).map(drop)
        })
    }

    /// The snapshots that go with a tag, if [`Pool::release`] removes it.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`].
    pub fn freed_by_release(
        &self,
        names: &[String],
        tag: &str,
        recursive: bool,
    ) -> Result<Vec<u64>> {
        let state = self.engine.state.read();
        let mut named = all_named(&state, names, recursive)?;
        let has_it = |snapshot: &Arc<Entry>| snapshot.hold_named(tag).is_some();
        if !named.iter().all(has_it) {
            return Ok(Vec::new());
        }
        named.retain(|snapshot| {
            let mut others = keeping(&state, snapshot).filter(|mark| mark.tag != tag);
            let is_last = others.next().is_none() && state.clones(snapshot.id).next().is_none();
            snapshot.is_deferred() && is_last
        });
        Ok(named.iter().map(|snapshot| snapshot.id).collect())
    }

    /// The snapshots that go with their last clones, if these are destroyed.
    pub fn freed_by(&self, doomed: &[Arc<Entry>]) -> Vec<u64> {
        freed_by(&self.engine.state.read(), doomed)
    }

    /// The snapshots that are destroyed as soon as nothing keeps them.
    pub fn deferred(&self) -> Vec<u64> {
        let state = self.engine.state.read();
        let has_some = state.root.features_optional.get() & FEATURE_DEFERRED != 0;
        let all = has_some.then(|| state.all());
        let deferred = all.into_iter().flatten().filter(|it| it.is_deferred());
        deferred.map(|entry| entry.id).collect()
    }

    /// Destroys the snapshots that wait for it, and that nothing keeps any more. One that cannot be destroyed keeps no
    /// other.
    ///
    /// # Errors
    /// The first one of those as [`Pool::commit`] has them.
    pub fn destroy_due(&self) -> Result<()> {
        let mut waiting = self.deferred();
        let state = self.engine.state.read();
        waiting.retain(|id| due(self, &state, *id).is_some());
        drop(state);
        let origin = Origin {
            who: "pool".into(),
            ..Origin::default()
        };
        let destroy = |id| {
            self.engine.commit_with(|commit, state| {
                destroy_due(self, commit, state, &[id], &origin).map(drop)
            })
        };
        let outcomes = waiting.into_iter().map(destroy);
        outcomes.fold(Ok(()), Result::and)
    }

    /// The tags on snapshots, by snapshot and tag.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] and [`Error::BadName`].
    pub fn holds(&self, names: &[String], recursive: bool) -> Result<Vec<SnapshotHold>> {
        let state = self.engine.state.read();
        let snapshots = all_named(&state, names, recursive)?;
        let holds = snapshots.iter().flat_map(|snapshot| {
            let name = state.name_of(snapshot);
            snapshot.holds().map(move |mark| SnapshotHold {
                snapshot: name.clone(),
                tag: mark.tag.into(),
                time: mark.time,
                until: mark.until,
            })
        });
        Ok(holds.collect())
    }
}

/// The snapshots that these names stand for, each once.
fn all_named(state: &DatasetTable, names: &[String], recursive: bool) -> Result<Vec<Arc<Entry>>> {
    let mut all = Vec::new();
    let mut ids = BTreeSet::new();
    for name in names {
        let named = name_ranges::named(state, name, recursive)?.into_iter();
        all.extend(named.filter(|snapshot| ids.insert(snapshot.id)));
    }
    Ok(all)
}

/// The guid of a snapshot that is the only one; otherwise 0.
fn only(snapshots: &[Arc<Entry>]) -> u64 {
    match snapshots {
        [one] => one.guid,
        _ => 0,
    }
}

fn check_tag(tag: &str) -> Result<()> {
    if tag.is_empty() || tag.len() > TAG_MAX || tag.chars().any(char::is_control) {
        return Err(Error::BadName {
            name: tag.into(),
            reason: "a tag has 1 to 200 printable bytes",
        });
    }
    Ok(())
}

/// Puts a tag without an end on a snapshot. Replaces a tag that has ended.
fn put_tag(state: &mut DatasetTable, snapshot: &Entry, tag: &str, now: u64) -> Result<()> {
    let mark = snapshot.hold_named(tag);
    if mark.is_some_and(|mark| mark.keeps(|| state.time())) {
        return Err(taken(state, snapshot, tag));
    }
    state.edit(snapshot.id)?.put_hold(tag, now, None);
    Ok(())
}

/// Puts a tag with an end on a snapshot, or moves the end of this tag away.
fn retain(
    state: &mut DatasetTable,
    snapshot: &Entry,
    tag: &str,
    (now, until): (u64, u64),
) -> Result<()> {
    let time = state.time();
    let refused = |reason: String| Err(Error::refused(state.name_of(snapshot), reason));
    if until <= time {
        let time = utc(time);
        return refused(format!(
            "the end of a hold has to come; the time of the pool is {time}"
        ));
    }
    if until > time.saturating_add(RETENTION_MAX) {
        return refused(
            "a hold ends within 30 years, because nobody can end it earlier; a hold without --until has no end".into(),
        );
    }
    let made = match snapshot.hold_named(tag) {
        None => now,
        Some(mark) if mark.until.is_none() => return Err(taken(state, snapshot, tag)),
        Some(mark) => {
            if mark.until > Some(until) {
                check_mark_ended(state, snapshot, &mark)?;
            }
            mark.time
        }
    };
    // An end is a time of the pool. It would come too early by as much as the pool is ahead.
    if time > now.saturating_add(AHEAD_MAX) {
        return refused(format!(
            "the time of the pool is {}, and that of this machine {}: the hold would end too early; set the clock of the \
             machine, or use the property 'retention', which takes a length",
            utc(time),
            utc(now)
        ));
    }
    state.retain(snapshot.id, tag, (made, until))
}

fn taken(state: &DatasetTable, snapshot: &Entry, tag: &str) -> Error {
    Error::Exists {
        name: format!("the tag '{tag}' on {}", state.name_of(snapshot)),
    }
}

/// Refuses to release a tag before its end, or to end it earlier.
fn check_mark_ended(state: &DatasetTable, snapshot: &Entry, mark: &HoldMark<'_>) -> Result<()> {
    let time = state.time();
    match mark.until.filter(|until| *until > time) {
        None => Ok(()),
        Some(until) => Err(Error::Retained {
            name: state.name_of(snapshot),
            until,
            time,
        }),
    }
}

/// The tags that keep a snapshot now.
fn keeping<'a>(state: &'a DatasetTable, snapshot: &'a Entry) -> impl Iterator<Item = HoldMark<'a>> {
    snapshot.holds().filter(|mark| mark.keeps(|| state.time()))
}

/// Returns whether a hold, a clone or a receive that goes on from it keeps a snapshot.
pub(crate) fn is_kept(state: &DatasetTable, snapshot: &Entry) -> bool {
    keeping(state, snapshot).next().is_some() || state.clones(snapshot.id).next().is_some()
}

/// The snapshots that wait to be destroyed, and that only clones among these keep.
pub(crate) fn freed_by(state: &DatasetTable, doomed: &[Arc<Entry>]) -> Vec<u64> {
    let ids: BTreeSet<u64> = doomed.iter().map(|entry| entry.id).collect();
    let heads = doomed.iter().filter(|entry| !entry.is_snapshot());
    let origins: BTreeSet<u64> = heads.map(|head| head.origin).collect();
    let mut freed: Vec<u64> = origins.difference(&ids).copied().collect();
    freed.retain(|id| {
        let waits = |it: &&Arc<Entry>| it.is_deferred() && keeping(state, it).next().is_none();
        state.get(*id).filter(waits).is_some() && state.clones(*id).all(|it| ids.contains(&it.id))
    });
    freed
}

/// Destroys those of these snapshots that wait for it, and that nothing keeps any more. Those that are open wait for
/// another time. Returns the names of what went.
pub(crate) fn destroy_due(
    pool: &Pool,
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    ids: &[u64],
    origin: &Origin,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for id in ids {
        let Some(entry) = due(pool, state, *id) else {
            continue;
        };
        names.push(state.name_of(&entry));
        log_internal(commit, state, origin, "destroy", &entry);
        snapshot::destroy(commit, state, entry.id)?;
    }
    Ok(names)
}

/// A snapshot, if it waits to be destroyed, and nothing keeps it any more.
fn due(pool: &Pool, state: &DatasetTable, id: u64) -> Option<Arc<Entry>> {
    let entry = state.get(id)?;
    let is_due = entry.is_deferred() && !is_kept(state, entry);
    let is_closed = || {
        pool.engine
            .check_closed(state, std::slice::from_ref(entry))
            .is_ok()
    };
    (is_due && is_closed()).then(|| Arc::clone(entry))
}

/// Refuses to destroy a snapshot that is held or retained.
pub(crate) fn check(state: &DatasetTable, snapshot: &Entry) -> Result<()> {
    state.check_ended(snapshot)?;
    let tags: Vec<&str> = keeping(state, snapshot).map(|mark| mark.tag).collect();
    if tags.is_empty() {
        return Ok(());
    }
    Err(Error::Held {
        name: state.name_of(snapshot),
        tags: tags.join(", "),
    })
}
