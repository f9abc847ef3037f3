//! Snapshots, holds and rollback.

use std::sync::Arc;

use pool::Reach;
use protocol::api::{FailureKind, HoldRow};
use protocol::characters::is_hidden;

use crate::failure::{Failure, Result};
use crate::state::callers::context::{CallerContext, first_of};
use crate::state::callers::row_stream::RowStream;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    pub(crate) fn hold(
        &self,
        names: &[String],
        (tag, until): (&str, Option<u64>),
        recursive: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        if tag.chars().any(is_hidden) {
            return Err(Failure::usage(
                "a tag has no control and no invisible characters; choose another one",
            ));
        }
        for (active, names) in self.by_pool(names)? {
            let _admin = active.lock(context.decision)?;
            context.check_texts(&active, names.len() * tag.len())?;
            let (pool, origin) = (&active.pool, context.origin());
            match until {
                None => pool.hold(&names, tag, recursive, &origin)?,
                Some(until) => pool.hold_until(&names, (tag, until), recursive, &origin)?,
            }
        }
        Ok(())
    }

    pub(crate) fn release(
        &self,
        names: &[String],
        tag: &str,
        recursive: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        for (active, names) in self.by_pool(names)? {
            let _admin = active.lock(context.decision)?;
            let pool = &active.pool;
            active.close_snapshots(&pool.freed_by_release(&names, tag, recursive)?);
            pool.release(&names, tag, recursive, &context.origin())?;
            active.wake();
        }
        Ok(())
    }

    pub(crate) fn holds(
        &self,
        names: &[String],
        recursive: bool,
        rows: &mut RowStream<'_, HoldRow>,
    ) -> Result<()> {
        for (active, names) in self.by_pool(names)? {
            for hold in active.pool.holds(&names, recursive)? {
                rows.push(HoldRow {
                    name: hold.snapshot,
                    tag: hold.tag,
                    time: hold.time,
                    until: hold.until,
                })?;
            }
        }
        Ok(())
    }

    /// Names of snapshots, or patterns for several, by pool.
    pub(crate) fn by_pool(&self, names: &[String]) -> Result<Vec<(Arc<ActivePool>, Vec<String>)>> {
        let mut all: Vec<(Arc<ActivePool>, Vec<String>)> = Vec::new();
        for name in names {
            let (dataset, _) = name.split_once('@').unwrap_or((name, ""));
            let active = self.pool_of(dataset)?;
            match all
                .iter_mut()
                .find(|(known, _)| Arc::ptr_eq(known, &active))
            {
                Some((_, names)) => names.push(name.clone()),
                None => all.push((active, vec![name.clone()])),
            }
        }
        Ok(all)
    }

    pub(crate) fn snapshot(
        &self,
        names: &[String],
        recursive: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<String>> {
        let Some(first) = names.first() else {
            return Err(Failure::usage(
                "name at least one snapshot to make: dataset@snapshot",
            ));
        };
        let active = self.pool_of(first)?;
        for name in names {
            if self.pool_of(name)?.pool.guid() != active.pool.guid() {
                return Err(Failure::usage(
                    "snapshots of one command must be in one pool",
                ));
            }
        }
        let _admin = active.lock(context.decision)?;
        Ok(active.pool.snapshot(names, recursive, &context.origin())?)
    }

    /// Takes a dataset back to a snapshot, and destroys what came later, within `reach`.
    pub(crate) fn rollback(
        self: &Arc<Self>,
        name: &str,
        reach: Reach,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool_of(name)?;
        let doomed = || {
            check_last(&active, name, reach)?;
            Ok(active.pool.doomed_by_rollback(name, reach)?)
        };
        let mut failures = Vec::new();
        self.take_away(&active, force, doomed, context, |context| {
            let entry = active.pool.find(name)?;
            if !force {
                let volume = active.pool.entry(entry.parent)?;
                self.may_change_waiting(&active, Some(&volume))?;
            }
            let withdrawn = self.withdraw(&[(&active, vec![entry.parent])], force)?;
            context.tell_cuts(&active);
            let (pool, origin) = (&active.pool, context.origin());
            let rolled_back = match active.accepts(&entry) {
                None => pool.rollback(name, reach, &origin),
                Some(accept) => pool.rollback_and_accept(name, reach, accept, &origin),
            };
            if rolled_back.is_ok() {
                // Before it is mounted again, which compares it with the state that this machine saw.
                active.forget_seen(&*active.pool.entry(entry.parent)?);
            }
            failures = withdrawn.offer_again(self);
            if rolled_back.is_err() {
                context.tell(std::mem::take(&mut failures));
            }
            Ok(rolled_back?)
        })?;
        first_of(failures, context)
    }
}

/// Refuses to go back beyond later snapshots and bookmarks, unless these are to be destroyed, and without the key to a
/// snapshot that is to be destroyed itself.
fn check_last(active: &ActivePool, name: &str, reach: Reach) -> Result<()> {
    let entry = active.pool.find(name)?;
    if !entry.is_snapshot() {
        return Err(Failure::usage(format!(
            "'{name}' is not a snapshot; write DATASET@SNAPSHOT"
        )));
    }
    if entry.is_deferred() && entry.suite != 0 && !active.has_key(active.key_root(&entry)?) {
        // The dataset would keep a seal that only this snapshot can renew.
        return Err(Failure::new(
            FailureKind::Busy,
            format!(
                "'{name}' is to be destroyed (destroy -d), so load the key of its dataset first"
            ),
        ));
    }
    if reach != Reach::Named {
        return Ok(());
    }
    let later = active.pool.snapshots(entry.parent)?;
    if later
        .iter()
        .any(|other| other.created_txg > entry.created_txg)
    {
        return Err(Failure::new(
            FailureKind::Busy,
            format!("'{name}' is not the last snapshot; use -r to destroy the later ones"),
        ));
    }
    let marks = active.pool.bookmarks(entry.parent)?;
    let is_later = |mark: &&pool::NamedBookmark| mark.bookmark.created_txg > entry.created_txg;
    match marks.iter().find(is_later) {
        None => Ok(()),
        Some(mark) => Err(Failure::new(
            FailureKind::Busy,
            format!(
                "'{}' is a later bookmark; use -r to destroy the later ones",
                mark.name
            ),
        )),
    }
}
