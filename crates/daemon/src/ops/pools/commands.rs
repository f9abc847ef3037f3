//! Makes, imports, exports and destroys pools.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pool::{Pool, PoolState, Superblock};
use protocol::api::{CheckpointUse, FailureKind, ImportablePool, Props, command};
use protocol::device_name::DeviceName;
use store::{CreateOptions, LateDevice, Store};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::host::identity::{this_claimant, this_host};
use crate::host::pool_lock::PoolLock;
use crate::host::process::memory;
use crate::host::process::system::now_secs;
use crate::host::process::system::{System, new_guid};
use crate::ops::datasets::spec::DatasetSpec;
use crate::ops::devices::commands::keeps_keys;
use crate::ops::devices::commands::{redundancy, refuse_mixed};
use crate::ops::devices::new_pool::MadeDevices;
use crate::ops::devices::stores::object_stores::{is_on_store, no_heartbeats};
use crate::ops::devices::stores::store_outages::give_up;
use crate::ops::imports::disk_reservations::{claim_late, explain_unreserved, release_unwanted};
use crate::ops::imports::last_host::{is_same, refuse_other_host};
use crate::ops::imports::scan::{FoundPool, ImportScan, choose};
use crate::ops::pools::checkpoints::{at_checkpoint, is_temporary, refuse_use_of_checkpoint};
use crate::state::callers::context::{CallerContext, first_of};
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::front_end::ExclusiveUse;
use crate::state::memory::KnownPool;
use crate::state::mounts::mountpoints;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::last_end::LastEnd;
use crate::state::pools::pool_table::{already_imported, name_is_taken};

/// The time that an export waits for devices that do not answer.
const LATE: Duration = Duration::from_secs(5);

impl Daemon {
    pub(crate) fn create_pool(
        self: &Arc<Self>,
        new: &command::PoolCreate,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        pool::check_pool_name(&new.pool)?;
        let name = new.temporary_name.as_ref().unwrap_or(&new.pool);
        if self.pool(name).is_ok() {
            return Err(name_is_taken(name));
        }
        let groups = &new.devices.groups;
        if groups.is_empty() || groups.iter().any(|group| group.devices.is_empty()) {
            return Err(Failure::usage(
                "a pool, and each of its groups, needs at least one file or disk",
            ));
        }
        if !new.devices.logs.is_empty() || !new.devices.caches.is_empty() {
            return Err(Failure::usage(
                "log and cache devices join a pool that is there: make it first, then use 'pool add'",
            ));
        }
        for group in &new.devices.groups {
            self.may_go(&ExclusiveUse::Devices(&group.devices))?;
        }
        if !new.force {
            refuse_mixed(new.devices.groups.iter().map(redundancy))?;
        }
        let props = props_of_store(new)?;
        if new.dry_run {
            return self.try_create(new);
        }
        let plan = DatasetSpec::new(0, &new.pool, &props, context.channel)?;
        // Another command may have been faster while a key was asked for.
        if self.pool(name).is_ok() {
            return Err(name_is_taken(name));
        }
        let (mut top, key) = plan.carry_out(None, &new.pool)?;
        context.record_owner(&mut top.props);
        let made = MadeDevices::default();
        let groups = self.open_groups(new, &made)?;
        let spares = self.open_devices(&new.devices.spares, new, &made)?;
        let members = groups.iter().flat_map(|group| &group.devices);
        let count = members.chain(&spares).count();
        let options = CreateOptions {
            pool_guid: new_guid(),
            device_guids: (0..count).map(|_| new_guid()).collect(),
            created: now_secs(),
            force: new.force,
        };
        let is_wish = |(key, value): &(String, String)| key == "reservations" && value == "on";
        let by = this_claimant(options.pool_guid);
        let by = new.props.iter().any(is_wish).then_some(&by);
        let lock = PoolLock::take(name, options.pool_guid)?;
        let store = Arc::new(Store::create_by(groups, spares, &options, by)?);
        let pool = Pool::create(Arc::clone(&store), Arc::new(System), &new.pool, top)?;
        pool.record(&context.origin())?;
        pool.claim(this_host())?;
        pool.multihost().beat()?;
        if let Some(name) = &new.temporary_name {
            pool.name_temporarily(name)?;
        }
        store.commit_labels()?;
        made.keep();
        let active = ActivePool::new(
            (pool, lock),
            &self.accepted,
            &self.wakeup,
            &self.events,
            &self.mounted_dirs,
            new.altroot.clone(),
        )?;
        self.pool_table
            .set_remembered(active.pool.guid(), new.temporary_name.is_none());
        let entry = active.pool.top()?;
        if let Some(key) = key {
            active.keys.put(entry.id, key);
            active.accept_as_set(entry.id);
        }
        self.take_in(&active, false)?;
        self.events.add("pool_create", name, "the pool was created");
        if !new.no_mount {
            let _admin = active.lock(context.decision)?;
            let failures = self.offer_datasets(&active, &[entry], context.caller());
            let created = |failure: Failure| {
                failure.context(format_args!("'{name}' was created, but not mounted"))
            };
            first_of(failures.into_iter().map(created).collect(), context)?;
        }
        Ok(())
    }

    /// The pools on the devices in these places that are not imported here.
    pub(crate) fn importable(&self, search: &[PathBuf]) -> Result<Vec<ImportablePool>> {
        let _readers = self.object_devices.keep_readers();
        let mut all = Vec::new();
        let ImportScan { pools, failures } = self.scan_for_pools(search);
        if let (true, Some(failure)) = (pools.is_empty(), failures.into_iter().next()) {
            return Err(failure);
        }
        for candidate in pools.into_iter().filter(|found| !found.is_destroyed()) {
            if self
                .pools()
                .iter()
                .any(|active| active.pool.guid() == candidate.guid)
            {
                continue;
            }
            let mut pool = ImportablePool {
                name: "?".into(),
                guid: candidate.guid,
                state: "ONLINE".into(),
                host: String::new(),
                host_id: 0,
                last_written: 0,
                active: false,
                devices: candidate
                    .paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect(),
                missing: candidate.missing,
            };
            if candidate.is_degraded {
                pool.state = "DEGRADED".into();
            }
            match candidate.superblock {
                Ok(superblock) => {
                    pool.active = superblock.state == PoolState::Active;
                    pool.name = superblock.name;
                    pool.host = superblock.host.name;
                    pool.host_id = superblock.host.id;
                    pool.last_written = superblock.time;
                }
                Err(failure) => pool.state = failure.message,
            }
            all.push(pool);
        }
        Ok(all)
    }

    /// Imports pools, and returns their names. It waits for keys until `keys_until`; without a limit if that is `None`.
    pub(crate) fn import_pools(
        self: &Arc<Self>,
        import: &command::PoolImport,
        keys_until: Option<Instant>,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<String>> {
        let _readers = self.object_devices.keep_readers();
        let ImportScan { pools, failures } = self.scan_for_pools(&import.search);
        if let (None, true, Some(failure)) = (&import.pool, pools.is_empty(), failures.first()) {
            return Err(failure.clone());
        }
        let chosen = choose(pools, import.pool.as_deref(), &import.search, &failures)?;
        context.tell(failures);
        let names = self.import_all(&chosen, import, keys_until, context);
        // Even after a failure: other pools are imported, or the pool is there without its keys.
        if !import.no_mount {
            self.restore_offers();
        }
        names
    }

    fn import_all(
        self: &Arc<Self>,
        chosen: &[FoundPool],
        import: &command::PoolImport,
        keys_until: Option<Instant>,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<String>> {
        let mut names = Vec::new();
        // Of several pools, one that cannot be imported does not keep the others away.
        let mut failures = Vec::new();
        for candidate in chosen {
            let pools = self.pools();
            let mut pools = pools.iter().map(|active| &active.pool);
            match (
                pools.find(|pool| pool.guid() == candidate.guid),
                &import.pool,
            ) {
                (None, None) if candidate.is_destroyed() => {}
                (None, _) if !context.channel.pause(Duration::ZERO) => {
                    let failure = broken_off(&names);
                    tracing::warn!(reason = failure.message, "an import ends");
                    failures.push(failure);
                    break;
                }
                (None, _) => match self.import_one(candidate, import, keys_until, context) {
                    Ok(name) => names.push(name),
                    Err(failure) => failures.push(failure),
                },
                (Some(pool), Some(wanted)) => {
                    let name = pool.name();
                    let alias = match *wanted == name {
                        true => String::new(),
                        false => format!(", as '{name}'"),
                    };
                    return Err(Failure::new(
                        FailureKind::Exists,
                        format!("the pool '{wanted}' is imported already{alias}"),
                    ));
                }
                (Some(_), None) => {}
            }
        }
        first_of(failures, context).map(|()| names)
    }

    pub(crate) fn import_one(
        self: &Arc<Self>,
        candidate: &FoundPool,
        import: &command::PoolImport,
        keys_until: Option<Instant>,
        context: &mut CallerContext<'_>,
    ) -> Result<String> {
        let superblock = candidate.superblock.as_ref().map_err(Clone::clone)?;
        let name = import.new_name.as_ref().unwrap_or(&superblock.name);
        if self.pool(name).is_ok() {
            return Err(already_imported(name));
        }
        // An attacker with the devices can have written any name there.
        pool::check_pool_name(name).map_err(|error| {
            let mut failure = Failure::from(error);
            failure.message += "; import the pool by its guid under a new name";
            failure
        })?;
        if import.read_only && import.new_name.is_some() && !import.temporary_name {
            return Err(Failure::usage(
                "a new name is written to the devices; import the pool without readonly=on, or use -t for a \
                 name that is not written",
            ));
        }
        self.refuse_impostor(name, candidate, import)?;
        refuse_other_host(superblock, import)?;
        refuse_use_of_checkpoint(superblock, import)?;
        // Before the first write.
        let lock = match import.read_only {
            true => PoolLock::none(),
            false => PoolLock::take(name, candidate.guid)?,
        };
        let (store, reader) = match import.read_only {
            true => self.open_to_read(candidate, import, name)?,
            false => (
                self.open_for_import(candidate, import, name, context)?,
                None,
            ),
        };
        let store = Arc::new(store);
        let unreserved = match store.is_claimed() {
            true => store.passed_over().to_vec(),
            false => Vec::new(),
        };
        let pool = match import.without_logs {
            true => open_without_logs(store, import, context),
            false => {
                let at = at_checkpoint(import.checkpoint);
                Pool::open_at(store, Arc::new(System), import.read_only, at).map_err(Failure::from)
            }
        };
        let pool = pool.map_err(|failure| explain_unreserved(failure, &unreserved))?;
        let was_own = self.was_own(&pool, superblock);
        let last_end = self.last_end_of(&pool, superblock, was_own);
        if !import.read_only {
            claim_late(&pool, import, context)?;
            pool.claim(this_host())?;
            pool.multihost().beat()?;
            if import.new_name.is_some() && !import.temporary_name {
                pool.rename_pool(name, &context.origin())?;
            } else {
                pool.record(&context.origin())?;
            }
            release_unwanted(&pool, import, context)?;
        }
        if import.temporary_name {
            pool.name_temporarily(name)?;
        }
        let active = ActivePool::new(
            (pool, lock),
            &self.accepted,
            &self.wakeup,
            &self.events,
            &self.mounted_dirs,
            import.altroot.clone(),
        )?;
        if let Some(reader) = reader {
            active.read_by(reader);
        }
        if import.accept {
            active.accept_all()?;
        }
        if import.checkpoint == CheckpointUse::Rewind {
            self.accepted.seen.forget_pool(active.pool.guid());
        }
        let guid = active.pool.guid();
        active.note_losses(last_end, self.last_run.has_lost(guid));
        let goes_on = was_own
            && superblock.state == PoolState::Active
            && self.last_run.end == LastEnd::Process
            && import.checkpoint != CheckpointUse::Rewind
            && !import.without_logs;
        active.goes_on.store(goes_on, Relaxed);
        self.last_run.note_pool(guid, last_end == LastEnd::Machine);
        self.pool_table
            .set_remembered(active.pool.guid(), !is_temporary(import));
        // Only imports of the daemon itself have a time limit for keys.
        self.take_in(&active, keys_until.is_some())?;
        self.start_refreshes(&active, context);
        self.events
            .add("pool_import", name, "the pool was imported");
        active.open_caches(self, context);
        active.follow_image(self, context);
        if import.load_keys {
            self.load_keys_of(&active, keys_until, context)?;
        }
        if !import.no_mount {
            let _admin = active.lock(context.decision)?;
            let entries = active.all_heads()?;
            let failures = self.offer_datasets(&active, &entries, Caller::default());
            context.tell(failures);
        }
        if !is_temporary(import) {
            self.tell_of_ha(&active, context)?;
        }
        Ok(active.pool.name())
    }

    /// Returns how the last use of a pool ended, which is being imported.
    fn last_end_of(&self, pool: &Pool, superblock: &Superblock, was_own: bool) -> LastEnd {
        if superblock.state != PoolState::Active {
            return LastEnd::Clean;
        }
        if self.last_run.has_lost(pool.guid()) {
            return LastEnd::Machine;
        }
        LastEnd::of_pool(pool, was_own.then_some(self.last_run.end))
    }

    /// Returns whether the last daemon of this machine was the last user of a pool.
    fn was_own(&self, pool: &Pool, superblock: &Superblock) -> bool {
        let absent = self.pool_table.absent();
        let is_own = absent.values().any(|it| it.is_of(pool.guid()));
        is_own && is_same(&superblock.host, &this_host())
    }

    /// Adds a pool to the imported pools. If this fails, it exports the pool again.
    fn take_in(&self, active: &Arc<ActivePool>, is_by_itself: bool) -> Result<()> {
        let added = self.pool_table.add(Arc::clone(active), is_by_itself);
        if added.is_err() {
            let mut admin = active.lock(&Internal)?;
            active.export(&mut admin)?;
        }
        self.open_to_delegates();
        added
    }

    pub(crate) fn export_pool(
        self: &Arc<Self>,
        name: &str,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = match self.pool(name) {
            Ok(active) => active,
            // If the pool could not be imported at the start, this ends the attempts.
            Err(_) if self.forget_absent(name) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let _brief = force.then(|| self.give_up_stores(&active));
        if !force {
            self.may_change_waiting(&active, None)?;
        }
        self.replications.stop_jobs_with(active.pool.guid(), name);
        let leave = || self.export_in(&active, force, context);
        self.without_offers(&active, force, "its pool was exported", leave)?;
        self.forget_ha(&active);
        close(active, context);
        Ok(())
    }

    /// Ends the attempts to import a pool that could not be imported at the start. False if there is none of this name.
    fn forget_absent(&self, name: &str) -> bool {
        let known = self.pool_table.absent().remove(name);
        let is_absent = self.pool_table.remove(name);
        // An attempt may wait for a store.
        for path in known.iter().flat_map(KnownPool::paths).filter(is_on_store) {
            give_up(&path.to_string_lossy());
        }
        is_absent
    }

    fn export_in(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let mut admin = active.lock(context.decision)?;
        let own_dirs = active.all_own_dirs();
        let _no_verification = force.then(|| active.verifications.hold());
        let withdrawn = self.withdraw(&[(active, active.used_ids())], force)?;
        context.tell_cuts(active);
        let is_writable = !active.pool.is_read_only() && active.pool.suspended().is_none();
        let recorded = match is_writable {
            true => active.pool.record(&context.origin()),
            false => Ok(()),
        };
        let exported = match recorded {
            Err(error) if active.pool.suspended().is_none() => Err(error.into()),
            _ => active.export(&mut admin),
        };
        if exported.is_err() {
            context.tell(withdrawn.offer_again(self));
            return exported;
        }
        self.events
            .add("pool_export", &active.pool.name(), "the pool was exported");
        // A server of another host is not asked for pools without a reason.
        let devices = active.known().paths().into_iter();
        let here = devices.filter(|path| DeviceName::parse(path).is_path());
        self.pool_table
            .exported
            .add(active.pool.guid(), here.collect());
        self.pool_table.remove(&active.pool.name());
        mountpoints::remove_dirs(own_dirs);
        Ok(())
    }

    pub(crate) fn destroy_pool(
        self: &Arc<Self>,
        name: &str,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool(name)?;
        // Otherwise the refusal would come after jobs were stopped and mounts were withdrawn.
        active.pool.check_retentions_ended()?;
        self.replications.stop_jobs_with(active.pool.guid(), name);
        let destroy = || self.destroy_in_whole(&active, force, context);
        let devices = active.pool.devices().into_iter();
        let image = active.pool.follower().info().map(|info| info.path);
        let places: Vec<String> = devices.map(|device| device.path).collect();
        let (left, destroyed) =
            self.without_offers(&active, force, "its pool was destroyed", destroy)?;
        let is_inside = |volume: &str| volume.split('/').next() == Some(name);
        let forgotten = self.forget_offers(&active, is_inside);
        self.forget_ha(&active);
        let image = image.map(|path| (self.own_image(&active, &path), path));
        close(active, context);
        for device in left.iter().filter(|device| !is_on_store(&device.path)) {
            context.channel.notice(keeps_keys(device));
        }
        self.remove_objects_of(&places, context);
        if let Some((image, path)) = image {
            self.remove_image(&path, image, context);
        }
        destroyed.and(forgotten)
    }

    /// Returns the devices that keep their keys, and whether the rest of the destruction succeeded. An error means that
    /// the pool stays.
    fn destroy_in_whole(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<(Vec<pool::DeviceInfo>, Result<()>)> {
        let mut admin = active.lock(context.decision)?;
        let own_dirs = active.all_own_dirs();
        let _no_verification = force.then(|| active.verifications.hold());
        let withdrawn = self.withdraw(&[(active, active.used_ids())], force)?;
        context.tell_cuts(active);
        active.stop_worker();
        let mut left = active.pool.devices();
        left.retain(|device| !active.reach(self, device, context));
        let destroyed = active.pool.destroy().map_err(Failure::from);
        if destroyed.is_err() && active.pool.superblock().state != PoolState::Destroyed {
            active.restart_worker();
            context.tell(withdrawn.offer_again(self));
            return destroyed.map(|()| (left, Ok(())));
        }
        self.events.add(
            "pool_destroy",
            &active.pool.name(),
            "the pool was destroyed",
        );
        active.keys.clear();
        admin.let_go();
        self.pool_table.remove(&active.pool.name());
        mountpoints::remove_dirs(own_dirs);
        Ok((left, destroyed))
    }
}

/// The properties of the root dataset of a new pool. On object stores its records are large: each request costs money.
///
/// # Errors
/// Not all devices lie on object stores, or the pool is to have heartbeats.
fn props_of_store(new: &command::PoolCreate) -> Result<Props> {
    let mut props = new.props.clone();
    let groups = new.devices.groups.iter();
    let devices = groups.flat_map(|group| &group.devices);
    let (on_stores, on_disks): (Vec<_>, Vec<_>) =
        devices.chain(&new.devices.spares).partition(is_on_store);
    if on_stores.is_empty() {
        return Ok(props);
    }
    if !on_disks.is_empty() || !new.devices.spares.is_empty() {
        return Err(Failure::usage(
            "a pool lies on disks or on object stores, not on both, and has no spares there; disks can become its log and \
             cache devices: strongroom pool add",
        ));
    }
    if { props.iter() }.any(|(name, value)| name == "multihost" && value == "on") {
        return Err(no_heartbeats(&new.pool));
    }
    if !props.iter().any(|(name, _)| name == "recordsize") {
        props.push(("recordsize".into(), "1M".into()));
    }
    Ok(props)
}

/// Waits until a pool that is not used any more has closed its devices, so that they can be used again.
fn close(active: Arc<ActivePool>, context: &mut CallerContext<'_>) {
    let notifier = active.close_notifier();
    let late = active.pool.late_devices();
    drop(active);
    let is_closed = notifier.wait();
    await_late(late, context);
    memory::give_back_soon();
    if !is_closed {
        let text = "another command still has the devices of the pool open; they are free when that command \
                    ends";
        context.channel.notice(text.into());
    }
}

/// Waits for requests that were given up, and names the devices that do not answer them either.
fn await_late(mut late: Vec<LateDevice>, context: &mut CallerContext<'_>) {
    let limit = Instant::now() + LATE;
    late.retain(|device| !device.has_answered());
    while !late.is_empty() && Instant::now() < limit && context.channel.pause(LATE / 50) {
        late.retain(|device| !device.has_answered());
    }
    for LateDevice { name, .. } in late {
        context.channel.notice(format!(
            "{name} has not answered writes that the pool did without; they may still reach it, and this process has it \
             open until then. Another machine that uses it before that has to scrub the pool afterwards"
        ));
    }
}

/// Opens a pool without the records on its missing log devices, and reports what is lost.
fn open_without_logs(
    store: Arc<Store>,
    import: &command::PoolImport,
    context: &mut CallerContext<'_>,
) -> Result<Pool> {
    if import.read_only {
        return Err(Failure::usage(
            "-m gives up logs, and with readonly=on nothing changes; leave out -m to read the pool: its logs \
             stay, and their data is not visible",
        ));
    }
    let (pool, given_up) = Pool::open_without_logs(store, Arc::new(System))?;
    for line in given_up {
        context.channel.notice(line);
    }
    Ok(pool)
}

/// The failure of an import whose caller has gone.
fn broken_off(imported: &[String]) -> Failure {
    Failure::other(match imported {
        [] => "the import was broken off, and no pool is imported".into(),
        names => format!(
            "the import was broken off; imported before: '{}'",
            names.join("', '")
        ),
    })
}
