//! Snapshots by a schedule: makes them at the begin of each period, and prunes the oldest.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::tz::TimeZone;
use pool::{DatasetWith, Entry, Error, Origin};
use protocol::api::command;

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::datasets::snapshot_schedule::{Due, Kind, PROPERTY, SnapshotSchedule};
use crate::state::pools::active_pool::ActivePool;

struct ScheduledDataset {
    dataset: DatasetWith,
    schedule: SnapshotSchedule,
}

impl ActivePool {
    /// Makes the snapshots that are due and prunes old ones, if a period may have begun. A command on the pool has
    /// priority.
    pub(crate) fn snapshots_by_schedule(&self) -> pool::Result<()> {
        let now = self.pool.now();
        if !self.snapshots_looked_at.is_due(now) {
            return Ok(());
        }
        let Some(_admin) = self.try_lock() else {
            return Ok(());
        };
        self.pool.check_writable()?;
        let scheduled = self.scheduled()?;
        for (is_local, zone) in [(false, TimeZone::UTC), (true, TimeZone::system())] {
            let same = scheduled
                .iter()
                .filter(|one| one.schedule.is_local() == is_local);
            let same: Vec<&ScheduledDataset> = same.collect();
            for kind in Kind::ALL.into_iter().filter(|_| !same.is_empty()) {
                if let Some(due) = Due::at(now, kind, zone.clone()) {
                    self.make_due(&same, kind, &due)?;
                }
            }
        }
        self.prune_scheduled(&scheduled, &own_origin("prune".into()))?;
        let is_fine = scheduled.iter().any(|one| one.schedule.is_fine());
        self.snapshots_looked_at.set(now, is_fine);
        Ok(())
    }

    /// Wakes the pool worker to read the schedules, if one of these changed properties is a schedule.
    pub(crate) fn follow_schedule<'p>(&self, mut props: impl Iterator<Item = &'p str>) {
        if props.any(|property| property == PROPERTY) {
            self.snapshots_looked_at.forget();
            self.wake();
        }
    }

    fn scheduled(&self) -> pool::Result<Vec<ScheduledDataset>> {
        let all = self.pool.datasets_with(PROPERTY)?.into_iter();
        let all = all.filter_map(|dataset| {
            let schedule = SnapshotSchedule::parse(&dataset.value)?;
            Some(ScheduledDataset { dataset, schedule })
        });
        Ok(all.collect())
    }

    /// A dataset, and with `recursive` those below it, as if they had this schedule.
    fn by_one_schedule(
        &self,
        entry: &Arc<Entry>,
        recursive: bool,
        schedule: &SnapshotSchedule,
    ) -> Result<Vec<ScheduledDataset>> {
        let heads = match recursive {
            true => self.heads_below(entry)?,
            false => vec![Arc::clone(entry)],
        };
        let scheduled = heads.into_iter().map(|entry| {
            let dataset = DatasetWith {
                name: self.pool.name_of(entry.id)?,
                entry,
                value: String::new(),
            };
            let schedule = schedule.clone();
            Ok(ScheduledDataset { dataset, schedule })
        });
        scheduled.collect()
    }

    /// Makes the snapshots of one kind, all at the same moment.
    fn make_due(&self, scheduled: &[&ScheduledDataset], kind: Kind, at: &Due) -> pool::Result<()> {
        let mut due = Vec::new();
        for one in scheduled {
            let id = one.dataset.entry.id;
            let has_failed = || self.snapshots_looked_at.has_failed(id, kind, at.time);
            if one.schedule.keeps(kind).is_none() || has_failed() {
                continue;
            }
            let made = self.pool.snapshots(id)?;
            if !made.iter().any(|it| at.is_made(&it.name, it.created)) {
                due.push((id, format!("{}@{}", one.dataset.name, at.name)));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        let origin = own_origin(format!("snapshot @{} of {} datasets", at.name, due.len()));
        let names: Vec<String> = due.iter().map(|(_, name)| name.clone()).collect();
        match self.pool.snapshot(&names, false, &origin) {
            Ok(_) => return Ok(()),
            Err(error @ (Error::Suspended { .. } | Error::ReadOnly)) => return Err(error),
            Err(_) => {}
        }
        // If one snapshot cannot be made, the others are made all the same.
        for (id, name) in due {
            let origin = own_origin(format!("snapshot {name}"));
            match self
                .pool
                .snapshot(std::slice::from_ref(&name), false, &origin)
            {
                Ok(_) => {}
                Err(error @ (Error::Suspended { .. } | Error::ReadOnly)) => {
                    return Err(error);
                }
                Err(error) => {
                    self.snapshots_looked_at.note_failed(id, kind, at.time);
                    self.say_failed(&name, &error);
                }
            }
        }
        Ok(())
    }

    /// Writes to the log and the history that a snapshot was not made.
    fn say_failed(&self, name: &str, error: &Error) {
        tracing::warn!(%error, name, "a snapshot by schedule was not made");
        let origin = own_origin(format!("snapshot {name} failed: {error}"));
        if let Err(error) = self.pool.record(&origin) {
            tracing::warn!(%error, "the history does not say that a snapshot was not made");
        }
    }

    /// The snapshots of these datasets that their schedules do not keep, and that nothing else keeps.
    fn excess(&self, scheduled: &[ScheduledDataset]) -> pool::Result<Vec<Arc<Entry>>> {
        let mut excess = Vec::new();
        for one in scheduled {
            let snapshots = self.pool.snapshots(one.dataset.entry.id)?;
            let over = one.schedule.excess(&snapshots, |snapshot| &snapshot.name);
            excess.extend(over.into_iter().cloned());
        }
        let ids: Vec<u64> = excess.iter().map(|snapshot| snapshot.id).collect();
        // A finished listing of `.snapshot` must not keep a snapshot.
        self.close_snapshots(&ids);
        Ok(self.pool.prunable(&excess))
    }

    fn prune_scheduled(
        &self,
        scheduled: &[ScheduledDataset],
        origin: &Origin,
    ) -> pool::Result<Vec<String>> {
        let excess = self.excess(scheduled)?;
        match excess.is_empty() {
            true => Ok(Vec::new()),
            false => self.pool.prune(&excess, origin),
        }
    }
}

/// The origin of work that the daemon does without a command.
fn own_origin(text: String) -> Origin {
    Origin {
        who: "strongroom".into(),
        text: format!("{text}, by {PROPERTY}"),
        uid: None,
    }
}

/// The schedule that a command names.
fn kept(keep: &str) -> Result<SnapshotSchedule> {
    let schedule = SnapshotSchedule::parse(keep).filter(|_| keep != "none");
    schedule.ok_or_else(|| {
        Failure::usage(format!(
            "--keep '{keep}': write it as the property {PROPERTY}, such as hourly:24,daily:30"
        ))
    })
}

impl Daemon {
    /// Prunes the snapshots of datasets by their schedules, or by that of the command; with `dry_run` it destroys none.
    /// Returns the names.
    pub(crate) fn prune(
        &self,
        it: &command::Prune,
        context: &CallerContext<'_>,
    ) -> Result<Vec<String>> {
        let (recursive, dry_run) = (it.recursive, it.dry_run);
        let keep = it.keep.as_deref().map(kept).transpose()?;
        let mut gone = Vec::new();
        for name in &it.names {
            let (active, entry) = self.find(name)?;
            if entry.is_snapshot() {
                return Err(Failure::usage(format!(
                    "'{name}' is a snapshot; name the dataset whose snapshots are to be pruned"
                )));
            }
            let _admin = active.lock(context.decision)?;
            active.same(&entry, name, context.decision)?;
            let scheduled = match &keep {
                Some(keep) => active.by_one_schedule(&entry, recursive, keep)?,
                None => {
                    let below = format!("{name}/");
                    let mut scheduled = active.scheduled()?;
                    scheduled.retain(|one| {
                        one.dataset.entry.id == entry.id
                            || recursive && one.dataset.name.starts_with(&below)
                    });
                    scheduled
                }
            };
            if scheduled.is_empty() {
                return Err(Failure::other(format!(
                    "'{name}' has no {PROPERTY}; to give it one: strongroom set {PROPERTY}=daily:30 {name}; to prune a \
                     copy: strongroom snapshot --prune --keep daily:30 {name}"
                )));
            }
            gone.extend(match dry_run {
                true => {
                    let excess = active.excess(&scheduled)?.into_iter();
                    let names = excess.map(|snapshot| active.pool.name_of(snapshot.id));
                    names.collect::<pool::Result<Vec<_>>>()?
                }
                false => active.prune_scheduled(&scheduled, &context.origin())?,
            });
        }
        Ok(gone)
    }
}
