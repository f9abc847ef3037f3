//! Refuses each change that takes a retained snapshot away, or ends its retention earlier.
//!
//! Every command changes the dataset table in a commit. The comparison of the tables before and after it is the one
//! place that all of them pass. Commands that destroy snapshots refuse earlier, with the same error.

use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::retention::length::{RETENTION, RETENTION_MAX, retention_length};
use crate::engine::retention::pool_clock::PoolClock;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::superblock::features::{FEATURE_CLONES, FEATURE_RETENTION};
use crate::format::superblock::root::PoolState;

impl DatasetTable {
    /// Starts the clock of the pool, at an import.
    pub(crate) fn start_clock(&mut self, env: &Arc<dyn Env>) {
        let believed = self.root.pool_time.get();
        self.clock = Some(PoolClock::start(env, believed));
    }

    /// The time of the pool, in seconds since 1970. Retentions end by it. Before the first retention it is that of the
    /// machine. A machine that starts with a clock of long ago has the time of the last commit.
    pub(crate) fn time(&self) -> u64 {
        let believed = match self.has_retention() {
            true => self.root.pool_time.get(),
            false => self.root.time.get(),
        };
        let clock = self.clock.as_ref();
        clock.map_or(believed, |clock| clock.time().max(believed))
    }

    /// Writes the time of the pool into the root of this commit, once there are retentions.
    pub(crate) fn keep_time(&mut self) {
        if self.has_retention() {
            self.root.pool_time = self.time().into();
        }
    }

    fn has_retention(&self) -> bool {
        self.root.features_required.get() & FEATURE_RETENTION != 0
    }

    /// Puts a tag on a snapshot that keeps it until a time. The pool keeps its time from the first one on.
    pub(crate) fn retain(&mut self, id: u64, tag: &str, (time, until): (u64, u64)) -> Result<()> {
        if !self.has_retention() {
            let now = self.time();
            self.root.pool_time = now.into();
            if let Some(clock) = &mut self.clock {
                clock.begin(now);
            }
            self.root.features_required |= FEATURE_RETENTION | FEATURE_CLONES;
        }
        let latest = self.root.retained_until.get().max(until);
        self.root.retained_until = latest.into();
        self.edit(id)?.put_hold(tag, time, Some(until));
        Ok(())
    }

    /// Retains a new snapshot for as long as the property `retention` of its dataset says.
    pub(crate) fn retain_new(&mut self, id: u64, head: u64) -> Result<()> {
        let head = self.entry(head)?;
        let value = self.effective(head, RETENTION).map(|(value, _)| value);
        let Some(value) = value.filter(|value| *value != "off") else {
            return Ok(());
        };
        let Some(length) = retention_length(value) else {
            let reason = format!(
                "this program cannot read its property 'retention', which is '{value}'; set it again, or to off"
            );
            return Err(Error::refused(self.name_of(head), reason));
        };
        let time = self.time();
        let now = self.clock.as_ref().map_or(time, PoolClock::machine);
        // The pool catches up with the clock of the machine twice as fast as time passes. So with this the retention is
        // not shorter.
        let behind = now.saturating_sub(time).min(length);
        let until = time.saturating_add(length.saturating_add(behind).min(RETENTION_MAX));
        self.retain(id, RETENTION, (now, until))
    }

    /// The latest end of a retention in the pool, if it is still to come.
    pub(crate) fn retained_until(&self) -> Option<u64> {
        let until = self.root.retained_until.get();
        (until != 0 && until > self.time()).then_some(until)
    }

    /// Refuses to destroy a snapshot before the end of its retention.
    pub(crate) fn check_ended(&self, snapshot: &Entry) -> Result<()> {
        let until = snapshot.retained_until();
        if until == 0 || until <= self.time() {
            return Ok(());
        }
        Err(self.retained(self.name_of(snapshot), until))
    }

    /// Refuses to destroy the pool before the end of all retentions.
    pub(crate) fn check_all_ended(&self) -> Result<()> {
        match self.retained_until() {
            None => Ok(()),
            Some(until) => Err(self.retained(self.pool_name(), until)),
        }
    }

    /// Refuses another state of the pool that lacks a retained snapshot of this one.
    pub(crate) fn check_kept_in(&self, other: &DatasetTable) -> Result<()> {
        let mut all = self.all().filter(|entry| entry.is_snapshot());
        all.try_for_each(|snapshot| self.check_kept(snapshot, other))
    }

    fn check_kept(&self, snapshot: &Entry, after: &DatasetTable) -> Result<()> {
        let keeps = |now: &Arc<Entry>| {
            now.retained_until() >= snapshot.retained_until()
                && now.roots == snapshot.roots
                && now.guid == snapshot.guid
        };
        match after.get(snapshot.id).is_some_and(keeps) {
            true => Ok(()),
            false => self.check_ended(snapshot),
        }
    }

    fn retained(&self, name: String, until: u64) -> Error {
        let time = self.time();
        Error::Retained { name, until, time }
    }
}

/// Refuses a task that takes a retained snapshot away, ends a retention earlier, or destroys the pool before.
pub(crate) fn check_retained(before: &DatasetTable, after: &DatasetTable) -> Result<()> {
    if !before.has_retention() {
        return Ok(());
    }
    if after.root.state() == Some(PoolState::Destroyed) {
        before.check_all_ended()?;
    }
    let changed = after.dirty.iter().filter_map(|id| before.get(*id));
    let mut changed = changed.filter(|entry| entry.is_snapshot());
    changed.try_for_each(|snapshot| before.check_kept(snapshot, after))
}
