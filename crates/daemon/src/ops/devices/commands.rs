//! Commands that change the devices of a pool.

use std::path::{Path, PathBuf};

use pool::{DeviceInfo, DeviceState, Origin, Pool, Purpose};
use protocol::api::{DeviceChange, DeviceGroup, FailureKind, NewPoolDevices};
use protocol::device_name::DeviceName;
use store::NewMember;

use crate::failure::{Failure, Result};
use crate::host::process::system::new_guid;
use crate::host::process::system::now_secs;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// The bytes of a group under removal that are copied at a time.
const REMOVAL_STEP: u64 = 32 << 20;

impl Daemon {
    pub(crate) fn change_devices(
        &self,
        pool: &str,
        change: &DeviceChange,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool(pool)?;
        {
            let _admin = active.lock(context.decision)?;
            let done = active.change_devices(self, change, context);
            active.wake();
            // The next start needs the paths of the devices.
            self.pool_table.remember_joined(pool);
            done?;
        }
        if let DeviceChange::Remove { wait: true, .. } = change {
            active.end_removal()?;
            self.pool_table.remember_pools();
        }
        Ok(())
    }
}

/// The warning for a device that left the pool and was not overwritten.
pub(crate) fn keeps_keys(device: &DeviceInfo) -> String {
    format!(
        "{} could not be reached and was not overwritten: it still has the label of the pool and wrapped \
         keys; overwrite it or destroy it before it leaves your hands",
        device.path
    )
}

impl ActivePool {
    pub(crate) fn change_devices(
        &self,
        daemon: &Daemon,
        change: &DeviceChange,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let pool = &self.pool;
        let origin = context.origin();
        if let Some(done) = self.change_cache(daemon, change, context) {
            return done;
        }
        if let Some(done) = self.change_follower(daemon, change, context) {
            return done;
        }
        match change {
            DeviceChange::Add {
                devices,
                force,
                dry_run,
            } => self.add(daemon, devices, (*force, *dry_run), context),
            DeviceChange::Attach {
                device, new, force, ..
            } => {
                let beside = find(pool, device)?;
                let new = self.new_member(daemon, new, *force, None)?;
                daemon.pool_table.remember_joining(&pool.name(), &[&new]);
                Ok(pool.attach_device(beside.guid, &new, false, &origin)?)
            }
            DeviceChange::Replace { device, new, force } => {
                let old = find(pool, device)?;
                if let Some(spare) = new.as_deref().and_then(|new| find_spare(pool, new)) {
                    return Ok(pool.resilverer().use_spare(old.guid, spare.guid, &origin)?);
                }
                let new = match new {
                    Some(new) => self.new_member(daemon, new, *force, None)?,
                    // Without a new path, the new device is at the path of the old one.
                    None => {
                        refuse_working(&old)?;
                        pool.release_device(old.guid)?;
                        self.new_member(daemon, Path::new(&old.path), *force, Some(old.guid))?
                    }
                };
                daemon.pool_table.remember_joining(&pool.name(), &[&new]);
                Ok(pool.attach_device(old.guid, &new, true, &origin)?)
            }
            DeviceChange::Detach { device, force } => {
                let device = find(pool, device)?;
                let is_reached = self.reach(daemon, &device, context);
                match force {
                    true => pool.give_up_device(device.guid, &origin)?,
                    false => pool.detach_device(device.guid, &origin)?,
                }
                if !is_reached {
                    context.channel.notice(keeps_keys(&device));
                }
                Ok(())
            }
            DeviceChange::Remove { device, .. } => match find_group(pool, device)? {
                Some((group, Purpose::Logs)) => Ok(pool.log_devices().remove(group, &origin)?),
                Some((group, _)) => Ok(pool.removal().begin(group, &origin)?),
                None => Ok(pool.remove_spare(find(pool, device)?.guid, &origin)?),
            },
            DeviceChange::StopRemove => Ok(pool.removal().stop(&origin)?),
            DeviceChange::Offline { device, temporary } => {
                let device = find(pool, device)?;
                Ok(pool.offline_device(device.guid, *temporary, &origin)?)
            }
            DeviceChange::Online { device, expand } => {
                // The disk may have another name now, or be connected elsewhere.
                let found = find(pool, device).or_else(|missing| {
                    let moved = labelled(daemon, pool, Path::new(device)).ok_or(missing)?;
                    let path = device.clone();
                    Ok::<_, Failure>(DeviceInfo { path, ..moved })
                })?;
                match found.state {
                    _ if *expand => Ok(pool.expand_device(found.guid, &origin).map(drop)?),
                    DeviceState::Online | DeviceState::Resilvering | DeviceState::Spare => Ok(()),
                    DeviceState::Offline | DeviceState::Faulted | DeviceState::Missing => {
                        self.online(daemon, &found, &origin)
                    }
                }
            }
            DeviceChange::Clear { device } => self.clear(daemon, device.as_deref(), context),
            DeviceChange::Reopen => self.reopen(daemon, context),
        }
    }

    /// Continues the removal of a group until it is done.
    fn end_removal(&self) -> Result<()> {
        while self.pool.removal().step(REMOVAL_STEP)? {}
        let status = self.pool.removal().status();
        match status.filter(|status| status.is_under_way()) {
            None => Ok(()),
            Some(status) => Err(Failure::new(
                FailureKind::Other,
                format!(
                    "the removal of {} waits: {}; the pool continues it by itself",
                    status.name,
                    status
                        .waits
                        .unwrap_or_else(|| "the removal continues".into())
                ),
            )),
        }
    }

    fn add(
        &self,
        daemon: &Daemon,
        new: &NewPoolDevices,
        (force, dry_run): (bool, bool),
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        if !force {
            let known = redundancies(&self.pool);
            refuse_mixed(known.into_iter().chain(new.groups.iter().map(redundancy)))?;
        }
        // All are opened before anything is changed.
        let open = |paths: &[PathBuf]| -> Result<Vec<NewMember>> {
            paths
                .iter()
                .map(|path| self.new_member(daemon, path, force, None))
                .collect()
        };
        let groups = new.groups.iter();
        let groups = groups.map(|group| Ok((open(&group.devices)?, group.parity)));
        let groups: Vec<_> = groups.collect::<Result<_>>()?;
        let logs: Result<Vec<_>> = new.logs.iter().map(|group| open(&group.devices)).collect();
        let logs = logs?;
        let caches = open(&new.caches)?;
        let spares = open(&new.spares)?;
        if dry_run {
            for (group, parity) in &groups {
                self.pool.check_group(group, *parity)?;
            }
            for group in &logs {
                self.pool.log_devices().check(group)?;
            }
            self.pool.cache_devices().check(&caches)?;
            for spare in &spares {
                self.pool.check_spare(spare)?;
            }
            return Ok(());
        }
        let origin = context.origin();
        let in_groups = groups.iter().flat_map(|(group, _)| group);
        let joining = in_groups.chain(logs.iter().flatten()).chain(&spares);
        daemon
            .pool_table
            .remember_joining(&self.pool.name(), &joining.collect::<Vec<_>>());
        for (group, parity) in &groups {
            self.pool.add_group(group, *parity, &origin)?;
        }
        for group in &logs {
            self.pool.log_devices().add(group, &origin)?;
        }
        for cache in &caches {
            self.pool.cache_devices().add(cache, &origin)?;
        }
        for spare in &spares {
            self.pool.add_spare(spare, &origin)?;
        }
        Ok(())
    }

    /// Opens a device that is missing in the pool, so that it is overwritten when it leaves. False if it cannot be
    /// opened.
    pub(crate) fn reach(
        &self,
        daemon: &Daemon,
        device: &DeviceInfo,
        context: &mut CallerContext<'_>,
    ) -> bool {
        match device.state {
            DeviceState::Online | DeviceState::Resilvering | DeviceState::Spare => true,
            DeviceState::Offline | DeviceState::Faulted | DeviceState::Missing => {
                let mut origin = context.origin();
                origin.text = format!("pool online {}, to be overwritten", device.path);
                self.online(daemon, device, &origin).is_ok()
            }
        }
    }

    /// Uses the new space of devices that became larger, if `autoexpand` is on and no command works on the pool.
    pub(crate) fn expand_by_itself(&self) -> pool::Result<()> {
        let pool = &self.pool;
        let is_wanted = pool
            .top()?
            .props
            .get("autoexpand")
            .is_some_and(|value| value == "on");
        let Some(_admin) = self
            .try_lock()
            .filter(|_| is_wanted && pool.suspended().is_none())
        else {
            return Ok(());
        };
        let devices = pool.devices();
        for found in pool.expandable() {
            let path = devices.iter().find(|device| device.guid == found.guid);
            let path = path.map_or("", |device| device.path.as_str());
            let origin = Origin {
                who: "strongroom".into(),
                text: format!("pool online -e {} {path}, by autoexpand=on", pool.name()),
                uid: None,
            };
            let gained = pool.expand_device(found.guid, &origin)?;
            if gained.records > 0 {
                tracing::info!(
                    bytes = gained.records,
                    "the pool grew, because {path} became larger"
                );
            }
        }
        Ok(())
    }

    /// Prepares a device that joins the pool. A device that the pool has already is refused, unless it is to replace
    /// itself, with force.
    fn new_member(
        &self,
        daemon: &Daemon,
        path: &Path,
        force: bool,
        itself: Option<u64>,
    ) -> Result<NewMember> {
        if is_on_store(path) {
            return Err(Failure::usage(format!(
                "{0}: a pool gets its object store when it is made, and later only disks, as log or cache devices. For an \
                 image of the pool there: strongroom pool attach {1} DISK {0}",
                path.display(),
                self.pool.name()
            )));
        }
        if let Some(known) = labelled(daemon, &self.pool, path)
            && !(force && itself == Some(known.guid))
        {
            return Err(is_itself(&self.pool, path, &known));
        }
        let device = self.open_device(daemon, path)?;
        daemon.refuse_used(&device, Some(self.pool.guid()))?;
        Ok(NewMember {
            device,
            guid: new_guid(),
            created: now_secs(),
            force,
        })
    }

    fn online(&self, daemon: &Daemon, device: &DeviceInfo, origin: &Origin) -> Result<()> {
        self.pool.release_device(device.guid)?;
        let opened = self.open_device(daemon, Path::new(&device.path))?;
        Ok(self.pool.online_device(device.guid, opened, origin)?)
    }

    /// Looks again for the missing devices, and reports those that are still missing.
    fn reopen(&self, daemon: &Daemon, context: &mut CallerContext<'_>) -> Result<()> {
        let devices = self.pool.devices().into_iter();
        let missing = devices.filter(|device| device.state == DeviceState::Missing);
        for device in missing {
            if let Err(failure) = self.online(daemon, &device, &context.origin()) {
                let (path, reason) = (&device.path, failure.message);
                context
                    .channel
                    .notice(format!("{path} is still missing: {reason}"));
            }
        }
        Ok(())
    }

    /// Resumes a suspended pool, clears the error counts, and uses faulted devices again.
    fn clear(
        &self,
        daemon: &Daemon,
        device: Option<&str>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let find_wanted = || match device {
            Some(device) => Ok(vec![find(&self.pool, device)?]),
            None => Ok::<_, Failure>(self.pool.devices()),
        };
        find_wanted()?;
        if self.pool.suspended().is_some() {
            // Before a flush can succeed again.
            daemon.last_run.note_pool(self.pool.guid(), true);
            self.note_losses_in_use();
        }
        self.pool.resume(&context.origin())?;
        // The device that suspended it counts as failed no more.
        let wanted = find_wanted()?;
        let guid = device.and(wanted.first()).map(|device| device.guid);
        self.pool.clear_device_errors(guid, &context.origin())?;
        let mut failures = match device {
            None => self.clear_caches(daemon),
            Some(_) => Vec::new(),
        };
        for device in wanted {
            if device.state == DeviceState::Faulted {
                failures.extend(self.online(daemon, &device, &context.origin()).err());
            }
        }
        crate::state::callers::context::first_of(failures, context)
    }
}

/// A device of a pool by its path or its guid.
pub(crate) fn find(pool: &Pool, name: &str) -> Result<DeviceInfo> {
    let by_name = pool.find_device(name);
    let Err(error) = by_name else {
        return Ok(by_name?);
    };
    let mut devices = pool.devices().into_iter();
    let same = devices.find(|device| is_named(name, &device.path, device.guid));
    same.ok_or_else(|| Failure::new(FailureKind::NotFound, error.to_string()))
}

/// The device of a pool whose label is at a path, on a volume or on an export of another server. Nothing if another
/// user has the volume or the export.
fn labelled(daemon: &Daemon, pool: &Pool, path: &Path) -> Option<DeviceInfo> {
    let name = DeviceName::parse(path);
    if !name.is_lent() && !path.is_absolute() {
        return None;
    }
    let label = daemon.probe(path).ok()?;
    let mut devices = pool.devices().into_iter();
    devices.find(|known| label.pool_guid == pool.guid() && known.guid == label.device_guid)
}

/// The refusal of a device that the pool has already. No option overwrites it.
fn is_itself(pool: &Pool, path: &Path, known: &DeviceInfo) -> Failure {
    let (pool, path, guid) = (pool.name(), path.display(), known.guid);
    let is_it = format!("{path} is the device {guid} of the pool '{pool}' itself");
    match is_away(known) {
        true => Failure::new(
            FailureKind::Exists,
            format!(
                "{is_it}, and may have the only good copy of data; to use it again: strongroom pool online {pool} {path}"
            ),
        ),
        false => Failure::new(
            FailureKind::Busy,
            format!("{is_it}, which is in use as {}", known.path),
        ),
    }
}

/// A spare of a pool that replaces no device.
fn find_spare(pool: &Pool, path: &Path) -> Option<DeviceInfo> {
    let found = find(pool, path.to_str()?).ok();
    found.filter(|device| device.state == DeviceState::Spare)
}

/// Returns whether `name` names the device with this path and guid.
pub(crate) fn is_named(name: &str, path: &str, guid: u64) -> bool {
    let canonical = |path: &str| Path::new(path).canonicalize().ok();
    DeviceName::parse(name).is_same(DeviceName::parse(path))
        || name.parse() == Ok(guid)
        || canonical(name).is_some_and(|name| canonical(path) == Some(name))
}

/// The group with this name, if it is no spare. A group of one device has the name of this device.
fn find_group(pool: &Pool, name: &str) -> Result<Option<(u16, Purpose)>> {
    let devices = pool.devices();
    let is_path = DeviceName::parse(name).is_path();
    let number = Path::new(name).file_name().and_then(|name| name.to_str());
    let number = number.filter(|_| is_path).and_then(number_of);
    let named = devices
        .iter()
        .find(|d| number.is_some() && d.group == number);
    if let (Some(device), Some(number)) = (named, number) {
        return Ok(Some((number, device.purpose)));
    }
    let device = find(pool, name)?;
    let Some(group) = device.group else {
        return Ok(None);
    };
    if devices.iter().filter(|d| d.group == Some(group)).count() == 1 {
        return Ok(Some((group, device.purpose)));
    }
    let (path, pool) = (&device.path, pool.name());
    let what = match device.purpose {
        Purpose::Logs => "log devices",
        _ => "devices",
    };
    Err(Failure::usage(match device.shape.parity() {
        0 => format!(
            "{path} is one of several {what} with the same data; to take out this one: 'pool detach {pool} \
             {path}'; to take out all of them: 'pool remove {pool} mirror-{group}'"
        ),
        parity => format!(
            "{path} is one of several devices with parity; to replace this one: 'pool replace {pool} {path} \
             NEW'; to take out all of them: 'pool remove {pool} raidz{parity}-{group}'"
        ),
    }))
}

/// The number of a group, from the name that `pool status` shows.
fn number_of(name: &str) -> Option<u16> {
    let kinds = ["mirror-", "raidz1-", "raidz2-", "raidz3-"];
    let number = kinds.iter().find_map(|kind| name.strip_prefix(kind))?;
    number.parse().ok()
}

/// Returns whether the pool does not use the device. Others are locked.
pub(crate) fn is_away(device: &DeviceInfo) -> bool {
    matches!(
        device.state,
        DeviceState::Offline | DeviceState::Faulted | DeviceState::Missing
    )
}

fn refuse_working(device: &DeviceInfo) -> Result<()> {
    match is_away(device) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} works; name the new device too: pool replace POOL OLD NEW",
            device.path
        ))),
    }
}

/// The number of members of a group, and the number of them that are parity.
pub(crate) type Redundancy = (usize, usize);

pub(crate) fn redundancy(group: &DeviceGroup) -> Redundancy {
    (group.devices.len(), group.parity)
}

/// The redundancies of the groups of a pool.
fn redundancies(pool: &Pool) -> Vec<Redundancy> {
    let mut groups = std::collections::BTreeMap::new();
    for device in pool.devices() {
        if let (Some(group), 0, Purpose::Data) = (device.group, device.replaces, device.purpose) {
            let (members, parity) = groups.entry(group).or_insert((0, 0));
            *members += 1;
            *parity = device.shape.parity();
        }
    }
    groups.into_values().collect()
}

/// Refuses groups of different redundancy: a pool is only as safe as its least safe group.
pub(crate) fn refuse_mixed(mut groups: impl Iterator<Item = Redundancy>) -> Result<()> {
    let Some(first) = groups.next() else {
        return Ok(());
    };
    let describe = |(members, parity): Redundancy| {
        let devices = match members {
            1 => "1 device".into(),
            _ => format!("{members} devices"),
        };
        match parity {
            0 => devices,
            1 => format!("{devices} with single parity"),
            2 => format!("{devices} with double parity"),
            _ => format!("{devices} with triple parity"),
        }
    };
    match groups.find(|group| *group != first) {
        None => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "the groups would have different redundancy, {} and {}; use -f if that is what you want",
            describe(first),
            describe(other)
        ))),
    }
}

#[cfg(test)]
mod tests;
