//! Which operation serves a command.

use std::sync::Arc;

use protocol::api::{Command, DaemonReport, FailureKind, Reply, command};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::ops::clones::CloneOf;
use crate::ops::datasets::NewDatasets;
use crate::ops::keys::commands::unloaded_roots;
use crate::ops::list::Get;
use crate::ops::mounts::HowToMount;
use crate::ops::pools::{ImportPool, NewPool};

use crate::state::context::{Context, first_of, reach};
use crate::state::daemon::Daemon;

impl Daemon {
    /// Does what a command asks for.
    pub(super) fn run(
        self: &Arc<Self>,
        command: Command,
        context: &mut Context<'_>,
    ) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::PoolCreate(command::PoolCreate {
                pool,
                devices,
                size,
                force,
                props,
                no_mount,
            }) => {
                let new = NewPool {
                    name: pool,
                    devices: *devices,
                    size,
                    force,
                    props,
                    no_mount,
                };
                self.create_pool(new, context).map(done)
            }
            Command::PoolImportable(command::PoolImportable { search }) => {
                self.importable(&search).map(Reply::Importable)
            }
            Command::PoolImport(command::PoolImport {
                search,
                pool,
                new_name,
                read_only,
                force,
                no_mount,
                load_keys,
                without_logs,
                accept,
            }) => {
                let import = ImportPool {
                    search,
                    pool,
                    new_name,
                    read_only,
                    force,
                    no_mount,
                    load_keys,
                    keys_until: None,
                    without_logs,
                    accept,
                };
                self.import_pools(&import, context).map(Reply::Names)
            }
            Command::PoolExport(command::PoolExport { pool, force }) => {
                self.export_pool(&pool, force, context).map(done)
            }
            Command::PoolDestroy(command::PoolDestroy { pool, force }) => {
                self.destroy_pool(&pool, force, context).map(done)
            }
            Command::PoolDevices(command::PoolDevices { pool, change }) => {
                self.change_devices(&pool, &change, context).map(done)
            }
            Command::PoolStatus(command::PoolStatus { pools }) => {
                self.status(&pools).map(Reply::Pools)
            }
            Command::PoolIo(command::PoolIo { pools }) => self.pool_io(&pools).map(Reply::Io),
            Command::PoolSync(command::PoolSync { pools }) => self.sync(&pools).map(done),
            Command::PoolScrub(command::PoolScrub { pool, stop }) => {
                self.scrub(&pool, stop, context).map(done)
            }
            Command::PoolFeatures(command::PoolFeatures { pools }) => {
                self.features(&pools).map(Reply::Features)
            }
            Command::PoolHistory(command::PoolHistory { pool, internal }) => {
                self.history(&pool, internal).map(Reply::History)
            }
            Command::Create(command::Create {
                name,
                props,
                parents,
                no_mount,
                volume,
            }) => {
                let new = NewDatasets {
                    name: &name,
                    parents,
                    no_mount,
                    volume,
                };
                self.create(&new, &props, context).map(done)
            }
            Command::Destroy(command::Destroy {
                name,
                recursive,
                clones,
                force,
                dry_run,
            }) => self
                .destroy(&name, reach(recursive, clones), force, dry_run, context)
                .map(Reply::Names),
            Command::Shred(command::Shred {
                name,
                recursive,
                clones,
                force,
                dry_run,
            }) => self
                .shred(&name, reach(recursive, clones), force, dry_run, context)
                .map(Reply::Shredded),
            Command::ReceiveAbandon(command::ReceiveAbandon { target }) => {
                self.abandon_receive(&target, context).map(done)
            }
            Command::Rename(command::Rename { from, to }) => {
                self.rename(&from, &to, context).map(done)
            }
            Command::Get(command::Get {
                names,
                depth,
                snapshots,
                props,
            }) => self
                .get(&Get {
                    names,
                    depth,
                    snapshots,
                    props,
                })
                .map(|rows| match context.view {
                    Some(_) => Reply::Datasets(rows),
                    None => Reply::Datasets(self.seen_by(&context.peer, rows)),
                }),
            Command::Set(command::Set {
                names,
                props,
                force,
            }) => self.set(&names, &props, force, context).map(done),
            Command::Userspace(command::Userspace { name, kind, check }) => self
                .userspace(&name, kind, check, context)
                .map(Reply::Accounts),
            Command::Inherit(command::Inherit {
                names,
                prop,
                recursive,
            }) => self.inherit(&names, &prop, recursive, context).map(done),
            Command::Snapshot(command::Snapshot { names, recursive }) => {
                self.snapshot(&names, recursive, context).map(Reply::Names)
            }
            Command::Rollback(command::Rollback {
                name,
                recursive,
                force,
            }) => self.rollback(&name, recursive, force, context).map(done),
            other => self.run_clones_and_holds(other, context),
        }
    }

    fn run_clones_and_holds(
        self: &Arc<Self>,
        command: Command,
        context: &mut Context<'_>,
    ) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::Clone(command::Clone {
                snapshot,
                name,
                props,
                rekey,
                parents,
                no_mount,
            }) => {
                let clone = CloneOf {
                    snapshot: &snapshot,
                    name: &name,
                    props: &props,
                    rekey,
                    parents,
                    no_mount,
                };
                self.clone_snapshot(&clone, context).map(done)
            }
            Command::Promote(command::Promote { name }) => self.promote(&name, context).map(done),
            Command::Hold(command::Hold {
                names,
                tag,
                recursive,
            }) => self.hold(&names, &tag, recursive, context).map(done),
            Command::Release(command::Release {
                names,
                tag,
                recursive,
            }) => self.release(&names, &tag, recursive, context).map(done),
            Command::Diff(command::Diff { from, to }) => {
                self.diff(&from, to.as_deref()).map(Reply::Diff)
            }
            Command::Holds(command::Holds { names, recursive }) => {
                self.holds(&names, recursive).map(Reply::Holds)
            }
            other => self.run_mounts(other, context),
        }
    }

    fn run_mounts(self: &Arc<Self>, command: Command, context: &mut Context<'_>) -> Result<Reply> {
        let done = |()| Reply::Nothing;
        match command {
            Command::Mount(command::Mount {
                name: Some(name),
                dir,
                load_keys,
                read_only,
                overlay,
                allowed,
            }) => {
                let how = HowToMount {
                    dir,
                    read_only,
                    overlay,
                    allowed,
                    owner: self.owner_of_root(&name, context)?,
                };
                self.mount_one(&name, load_keys, &how, context).map(done)
            }
            Command::Mount(command::Mount {
                name: None,
                load_keys,
                ..
            }) => self.mount_all(load_keys, context).map(done),
            Command::Remount(command::Remount {
                name,
                read_only,
                allowed,
            }) => self.remount(&name, read_only, allowed).map(done),
            Command::Mounts => self.mount_list().map(Reply::Mounts),
            Command::Unmount(command::Unmount { target, force }) => {
                self.unmount(target.as_deref(), force, context).map(done)
            }
            Command::Inspect(command::Inspect {
                target,
                detail,
                check,
            }) => {
                let inspection = self.inspect(&target, detail, check)?;
                Ok(Reply::Inspection(Box::new(inspection)))
            }
            Command::Anchor(command::Anchor { names }) => self.anchors(&names).map(Reply::Anchors),
            Command::AnchorVerify(command::AnchorVerify { anchors }) => {
                self.check_anchors(&anchors).map(Reply::AnchorRows)
            }
            Command::Permissions(command::Permissions { name }) => {
                self.permissions(&name).map(Reply::Permissions)
            }
            Command::ChangePermissions(change) => {
                self.change_permissions(&change, context).map(done)
            }
            Command::ZoneCreate(new) => self.create_zone(&new, context).map(done),
            Command::ZoneDestroy(command::ZoneDestroy { name }) => {
                self.destroy_zone(&name, context).map(done)
            }
            Command::Zones => Ok(Reply::Zones(self.zone_rows())),
            Command::NbdExport(new) => self.export_device(&new).map(done),
            Command::NbdUnexport(command::NbdUnexport { name, force }) => {
                self.unexport(&name, force).map(done)
            }
            Command::NbdExports => Ok(Reply::Exports(self.export_rows())),
            Command::LuksOpen(new) => self.open_mapping(&new, context.prompt).map(done),
            Command::LuksClose(command::LuksClose { name }) => self.close_mapping(&name).map(done),
            Command::LuksStatus(command::LuksStatus { names }) => {
                self.mapping_rows(&names).map(Reply::Mappings)
            }
            Command::LuksRefresh(command::LuksRefresh { name, change }) => {
                self.change_mapping(&name, &change).map(done)
            }
            Command::LuksResize(command::LuksResize { name, size }) => {
                self.resize_mapping(&name, size).map(done)
            }
            Command::DaemonStatus => Ok(Reply::Daemon(self.report())),
            other => self.run_keys(other, context),
        }
    }

    fn sync(&self, names: &[String]) -> Result<()> {
        let named: Result<Vec<_>> = names.iter().map(|name| self.pool(name)).collect();
        let pools = if names.is_empty() {
            self.pools()
        } else {
            named?
        };
        for imported in pools.iter().filter(|p| !p.pool.is_read_only()) {
            imported.pool.commit()?;
        }
        Ok(())
    }

    fn scrub(&self, pool: &str, stop: bool, context: &mut Context<'_>) -> Result<()> {
        let imported = self.pool(pool)?;
        let _admin = imported.lock()?;
        imported.pool.record(&context.origin())?;
        if stop {
            imported.pool.scrub_stop()?;
        } else {
            imported.pool.scrub_start()?;
            imported.wake();
        }
        Ok(())
    }

    /// Who owns the root of a dataset that is mounted for the first time. To mount it is not to own it: a delegate
    /// does who may make datasets there.
    fn owner_of_root(&self, name: &str, context: &Context<'_>) -> Result<Caller> {
        let (imported, entry) = self.find(name)?;
        let may_make = match imported.pool.entry(entry.parent) {
            Ok(above) => imported.allows(&above, &context.peer, "create")?,
            // The root of a pool is nobody's to make.
            Err(_) => false,
        };
        Ok(match may_make {
            true => context.caller(),
            false => context.owner_elsewhere(),
        })
    }

    fn mount_one(
        self: &Arc<Self>,
        name: &str,
        load_keys: bool,
        how: &HowToMount,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (imported, entry) = self.find(name)?;
        if !entry.is_snapshot() && entry.props.get("canmount").is_some_and(|is| is == "off") {
            return Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "'{name}' is not mounted: its property canmount is off; 'strongroom set canmount=noauto \
                     {name}' lets a command mount it"
                ),
            ));
        }
        if load_keys && entry.suite != 0 {
            imported.ensure_key(imported.key_root(&entry)?, context.prompt)?;
        }
        let _admin = imported.lock()?;
        let entry = imported.again(&entry, name)?;
        self.mount(&imported, &entry, how)
    }

    fn mount_all(self: &Arc<Self>, load_keys: bool, context: &mut Context<'_>) -> Result<()> {
        let mut failures = Vec::new();
        for imported in self.pools() {
            if load_keys {
                for root in unloaded_roots(&imported)? {
                    failures.extend(imported.ensure_key(root, context.prompt).err());
                }
            }
            // One that was exported meanwhile has nothing to mount.
            let Ok(_admin) = imported.lock() else {
                continue;
            };
            let entries = imported.all_heads()?;
            failures.extend(self.mount_automatic(&imported, &entries, context.caller()));
        }
        first_of(failures, context)
    }

    fn report(&self) -> DaemonReport {
        DaemonReport {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            socket: self.socket.display().to_string(),
            hardware: cipher::hardware().to_string(),
            pools: self
                .pools()
                .iter()
                .map(|imported| imported.pool.name())
                .collect(),
        }
    }
}
