//! Renaming datasets and snapshots.

use std::sync::Arc;

use protocol::api::command;

use crate::failure::{Failure, Result};
use crate::state::callers::context::{CallerContext, all_done};
use crate::state::daemon::Daemon;
use crate::state::front_end::ExclusiveUse;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    /// Gives a dataset or a snapshot another name.
    pub(crate) fn rename(
        self: &Arc<Self>,
        wanted: &command::Rename,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let (from, to) = (wanted.from.as_str(), wanted.to.as_str());
        let active = self.pool_of(from)?;
        check_options(wanted)?;
        let same_pool = to.starts_with('@')
            || pool::DatasetName::parse(to)?.pool == pool::DatasetName::parse(from)?.pool;
        if !same_pool {
            return Err(Failure::usage(format!(
                "'{to}' is in another pool, and a dataset stays in its pool; to rename a pool: 'pool export', then \
                 'pool import OLDNAME NEWNAME'"
            )));
        }
        if !wanted.parents {
            return self.rename_in(&active, wanted, context);
        }
        // They stay if the rename fails: someone may have written into them meanwhile.
        self.make_above(&active, from, to, context)?;
        self.rename_in(&active, wanted, context)
    }

    fn rename_in(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        wanted: &command::Rename,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let (from, to) = (wanted.from.as_str(), wanted.to.as_str());
        let _admin = active.lock(context.decision)?;
        let entry = active.pool.find(from)?;
        if entry.is_snapshot() {
            let (pool, origin) = (&active.pool, context.origin());
            let renamed = match wanted.recursive {
                true => pool.rename_snapshots(from, to, &origin),
                false => pool.rename(from, to, &origin),
            };
            return Ok(renamed?);
        }
        active.pool.check_writable()?;
        // The kernel's table of mounts has the name, and the mount point may depend on the name.
        let moving = active.heads_below(&entry)?;
        self.may_go(&ExclusiveUse::Datasets(active, &moving))?;
        let ids: Vec<u64> = moving.iter().map(|entry| entry.id).collect();
        // Also with force: what uses a volume would not get it back.
        for id in &ids {
            active.close_volume(*id, false)?;
        }
        let own_dirs = active.own_dirs(ids.iter().copied());
        let withdrawn = self.withdraw(&[(active, ids.clone())], wanted.force)?;
        context.tell_cuts(active);
        withdrawn.clear();
        let renamed = active.pool.rename(from, to, &context.origin());
        active.remove_left_dirs(own_dirs);
        let failures = withdrawn.offer_again(self);
        active.close_unmounted(ids);
        all_done(renamed, failures, context)
    }

    /// Makes the datasets above a new name.
    fn make_above(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        from: &str,
        to: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        // What cannot be done is refused before anything is made.
        active.pool.find(from)?;
        if active.pool.find(to).is_ok() {
            return Err(pool::Error::Exists { name: to.into() }.into());
        }
        if to
            .strip_prefix(from)
            .is_some_and(|rest| rest.starts_with('/'))
        {
            return Err(Failure::usage(format!(
                "'{from}' cannot be moved below itself"
            )));
        }
        let Some((above, _)) = to.rsplit_once('/') else {
            return Ok(());
        };
        let new = command::Create {
            name: above.into(),
            parents: true,
            ..command::Create::default()
        };
        match self.create(&new, context) {
            // One that could not be mounted is there.
            Err(failure) if active.pool.find(above).is_ok() => context.tell(vec![failure]),
            made => drop(made?),
        }
        Ok(())
    }
}

/// Refuses options that mean nothing for what is named.
fn check_options(wanted: &command::Rename) -> Result<()> {
    match wanted.from.contains('@') {
        false if wanted.recursive => Err(Failure::usage(
            "-r renames snapshots of one name; a dataset moves with everything below it without -r",
        )),
        true if wanted.parents => Err(Failure::usage(
            "a snapshot stays with its dataset, so there is nothing to create above it; leave out -p",
        )),
        _ => Ok(()),
    }
}
