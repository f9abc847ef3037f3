//! `pool split`: a member of each mirror becomes a pool of its own.

use std::path::PathBuf;
use std::sync::Arc;

use pool::NewPool;
use protocol::api::command;
use protocol::device_name::DeviceName;

use crate::failure::Result;
use crate::host::process::system::new_guid;
use crate::ops::devices::commands::find;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::pool_table::name_is_taken;

impl Daemon {
    /// Splits a pool, and returns the devices of the new pool. The new pool is imported if a directory for its mount
    /// points is named, and exported otherwise.
    pub(crate) fn split_pool(
        self: &Arc<Self>,
        split: &command::PoolSplit,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<String>> {
        pool::check_pool_name(&split.new)?;
        if self.pool(&split.new).is_ok() {
            return Err(name_is_taken(&split.new));
        }
        let active = self.pool(&split.pool)?;
        let guid = new_guid();
        let devices = {
            let _admin = active.lock(context.decision)?;
            let pool = &active.pool;
            let named = split.devices.iter();
            let named = named.map(|name| Ok(find(pool, name)?.guid));
            let members = pool.split_members(&named.collect::<Result<Vec<_>>>()?)?;
            let mut devices = pool.devices();
            devices.retain(|device| members.contains(&device.guid));
            let devices: Vec<String> = devices.into_iter().map(|device| device.path).collect();
            if split.dry_run {
                return Ok(devices);
            }
            // The datasets of the new pool have the same sources of keys.
            self.accepted.carry_over(pool.guid(), guid)?;
            self.accepted.seen.carry_over(pool.guid(), guid);
            let new = NewPool {
                guid,
                name: &split.new,
            };
            let done = pool.split(new, &members, &context.origin());
            active.wake();
            self.pool_table.remember_pools();
            if let Some(error) = done? {
                let (pool, new) = (&split.pool, &split.new);
                context.channel.notice(format!(
                    "'{new}' was split off from '{pool}', but a device could not be told so: {error}; the next \
                     import of '{pool}' or '{new}' completes it"
                ));
            }
            devices
        };
        let paths: Vec<PathBuf> = devices.iter().map(PathBuf::from).collect();
        let here = paths.iter();
        let here = here.filter(|path| DeviceName::parse(path).is_path());
        self.pool_table.exported.add(guid, here.cloned().collect());
        self.import_split(split, guid, paths, context)
            .map_err(|failure| {
                let (pool, new) = (&split.pool, &split.new);
                failure.context(format_args!(
                    "'{new}' was split off from '{pool}', and was not imported; strongroom pool import -d \
                     DEVICES {guid}"
                ))
            })?;
        Ok(devices)
    }

    /// Imports the new pool. After this its devices belong to that pool only.
    fn import_split(
        self: &Arc<Self>,
        split: &command::PoolSplit,
        guid: u64,
        search: Vec<PathBuf>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let stays = split.altroot.is_some();
        let import = command::PoolImport {
            search,
            pool: Some(guid.to_string()),
            temporary: !stays,
            no_mount: !stays,
            load_keys: split.load_keys,
            altroot: split.altroot.clone(),
            ..command::PoolImport::default()
        };
        self.import_pools(&import, None, context)?;
        match stays {
            true => Ok(()),
            false => self.export_pool(&split.new, false, context),
        }
    }
}
