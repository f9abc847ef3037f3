//! `pool reguid`: a pool gets another guid, on all of its devices.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::DeviceAccess;
use pool::DeviceState;
use protocol::api::{FailureKind, command};
use store::CacheRange;

use crate::failure::{Failure, Result};
use crate::host::process::system::new_guid;
use crate::ops::devices::meters::pool_user;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::front_end::ExclusiveUse;
use crate::state::memory::KnownPool;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    /// Gives a pool another guid. The pool is exported and imported for this, because all tables of the daemon use the
    /// guid.
    pub(crate) fn renumber_pool(
        self: &Arc<Self>,
        name: &str,
        load_keys: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool(name)?;
        refuse_unready(&active)?;
        self.may_go(&ExclusiveUse::Guid(&active))?;
        self.refuse_missing_spares(&active)?;
        let (old, new) = (active.pool.guid(), new_guid());
        let known = active.known();
        let caches = active.pool.cache_devices().list().into_iter();
        let caches: Vec<(PathBuf, u64)> = caches.map(|it| (it.path.into(), it.guid)).collect();
        let is_remembered = self.pool_table.is_remembered(old);
        self.accepted.carry_over(old, new)?;
        self.accepted.seen.carry_over(old, new);
        drop(active);
        let paths = known.paths();
        let devices = known.devices.iter().filter_map(|device| device.guid);
        let devices: Vec<u64> = devices.collect();
        if is_remembered {
            // The next start imports the pool too, even if this process stops at any point from here on.
            let known = KnownPool {
                becomes: Some(new),
                ..known.clone()
            };
            self.pool_table.remember_renumbered(name, known);
        }
        let exported = self.export_pool(name, false, context);
        self.pool_table.settle_renumbered(name, exported.is_ok());
        exported?;
        let done = self
            .open_store(&paths, DeviceAccess::Exclusive, &pool_user(name))
            .and_then(|store| Ok(store.renumber(new, &devices)?));
        if done.is_ok() {
            for (path, guid) in caches {
                if let Err(failure) = self.renumber_cache(&path, (old, new), guid) {
                    let (path, reason) = (path.display(), failure.message);
                    context.channel.notice(format!(
                        "the cache device {path} still names the guid from before: {reason}; remove it from the \
                         pool, and add it again"
                    ));
                }
            }
        }
        // After a failure too: the import completes the change if one device has it.
        let import = command::PoolImport {
            search: paths,
            temporary: !is_remembered,
            load_keys,
            altroot: known.altroot,
            ..command::PoolImport::default()
        };
        let imported = self.import_pools(&import, None, context);
        done?;
        self.pool_table.exported.remove(old);
        imported.map(drop)
    }

    /// Refuses a pool with a spare that cannot be opened. The states of devices do not show this.
    fn refuse_missing_spares(&self, active: &ActivePool) -> Result<()> {
        let devices = active.pool.devices().into_iter();
        for spare in devices.filter(|device| device.state == DeviceState::Spare) {
            let (name, path) = (active.pool.name(), &spare.path);
            let reason = match self.probe(Path::new(path)) {
                Ok(found) if found.device_guid == spare.guid => continue,
                Ok(_) => "it is another device".into(),
                Err(failure) => failure.message,
            };
            return Err(Failure::usage(format!(
                "the spare {path} would keep the guid from before: {reason}; bring it back, or: strongroom pool \
                 remove {name} {path}"
            )));
        }
        Ok(())
    }

    fn renumber_cache(&self, path: &Path, (old, new): (u64, u64), guid: u64) -> Result<()> {
        let user = "a command that gives its pool another guid";
        let device = self.open_device(path, DeviceAccess::Exclusive, user)?;
        Ok(CacheRange::renumber(&device, (old, new), guid)?)
    }
}

/// Refuses a pool if one of its devices would keep the old guid.
fn refuse_unready(active: &ActivePool) -> Result<()> {
    let pool = &active.pool;
    let name = pool.name();
    if pool.is_read_only() {
        return Err(pool::Error::ReadOnly.into());
    }
    let devices = pool.devices();
    let is_away = |state| !matches!(state, DeviceState::Online | DeviceState::Spare);
    if let Some(device) = devices.iter().find(|device| is_away(device.state)) {
        return Err(Failure::usage(format!(
            "{} is not online, and would keep the guid from before; repair '{name}' first",
            device.path
        )));
    }
    if pool.checkpoint_info().is_some() {
        return Err(Failure::new(
            FailureKind::Busy,
            format!(
                "'{name}' has a checkpoint; discard it first: strongroom pool checkpoint -d {name}"
            ),
        ));
    }
    if pool.superblock().name != name {
        return Err(Failure::usage(format!(
            "'{name}' is a temporary name; import the pool by its own name first"
        )));
    }
    Ok(pool.refuse_waiting_logs()?)
}
