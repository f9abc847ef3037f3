//! Cleans up after a crash: mounts without a server, and datasets that wait for a key.

use std::collections::BTreeSet;
use std::sync::Arc;

use fuse::ListedMount;
use pool::Entry;
use protocol::api::{FailureKind, MountPermissions};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::ops::mounts::unmounts::EndedMount;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties::{self, Mountpoint};
use crate::state::front_end::{FrontEnd, PoolEntries, WithdrawnDatasets, offers_nothing};
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::mounts::mount_records::RecordedMount;
use crate::state::pools::active_pool::ActivePool;

pub(crate) struct MountFrontEnd;

impl FrontEnd<Daemon> for MountFrontEnd {
    /// Removes the mounts that a killed daemon of this user left.
    fn prepare(&self, daemon: &Daemon) {
        let remembered = daemon.pool_table.recall();
        let records = &daemon.mount_records;
        let found = |dead: &ListedMount| {
            let mounted = records.find(dead)?;
            let mut pools = remembered.pools.values();
            pools
                .any(|known| known.is_of(mounted.pool))
                .then_some(mounted)
        };
        let subtype = fuse::Options::default().subtype;
        let dead = fuse::clear_dead(&subtype, |dead| found(dead).is_some());
        let dead = dead
            .into_iter()
            .filter_map(|dead| Some((found(&dead)?, dead)));
        // Who made copies elsewhere makes them again.
        let dead = dead.filter(|(mounted, dead)| mounted.dir == dead.path);
        records.begin(dead.collect());
    }

    /// Mounts again the datasets that a command mounted at a directory. The others mount by their properties.
    fn start(&self, daemon: &Arc<Daemon>) {
        let dead = daemon.mount_records.take_dead();
        // The mounts were cleared from the deepest one up. They are mounted again in the opposite order.
        for (mounted, dead) in dead.into_iter().rev() {
            if let Err(failure) = daemon.mount_one_as_before(&mounted, &dead) {
                tracing::error!(
                    dataset = dead.source,
                    reason = failure.message,
                    "not mounted again; mount it with 'strongroom mount -l'"
                );
            }
        }
    }

    fn offer(
        &self,
        daemon: &Arc<Daemon>,
        active: &Arc<ActivePool>,
        entries: &[Arc<Entry>],
        owner: Caller,
    ) -> Vec<Failure> {
        daemon.mount_automatic(active, entries, owner)
    }

    fn withdraw(
        &self,
        daemon: &Arc<Daemon>,
        wanted: &[PoolEntries<'_>],
        force: bool,
    ) -> Result<Option<Box<dyn WithdrawnDatasets<Daemon>>>> {
        let unmounted = daemon.unmount_from(wanted, force)?;
        Ok(Some(Box::new(unmounted)))
    }

    fn withdraw_what_can(&self, wanted: &[PoolEntries<'_>]) -> Vec<Failure> {
        Daemon::unmount_what_can(wanted, true)
    }

    fn awaits(&self, _: &Daemon, active: &ActivePool, entry: &Entry) -> Result<bool> {
        let was_mounted = active.awaited_mounts.has_crashed(entry.id);
        Ok(was_mounted || mounts_by_itself(active, entry)?)
    }

    offers_nothing!(Daemon: restore may_go hold forget close stop);
}

impl WithdrawnDatasets<Daemon> for Vec<EndedMount> {
    fn clear(&self) {
        self.iter().rev().for_each(EndedMount::remove_dir);
    }

    fn offer_again(self: Box<Self>, daemon: &Arc<Daemon>) -> Vec<Failure> {
        let has_pool = |was: &EndedMount| was.has_pool(daemon);
        daemon.mount_again(self.into_iter().filter(has_pool).collect())
    }
}

impl Daemon {
    fn mount_one_as_before(
        self: &Arc<Self>,
        mounted: &RecordedMount,
        dead: &ListedMount,
    ) -> Result<()> {
        let (active, entry) = self.find(&dead.source)?;
        if (active.pool.guid(), entry.guid) != (mounted.pool, mounted.dataset) {
            let name = &dead.source;
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("'{name}' is not what was mounted there, but another dataset of this name"),
            ));
        }
        let _admin = active.lock(&Internal)?;
        if active.mounts.lock().contains_key(&entry.id) {
            return Ok(());
        }
        if active.awaited_mounts.waits_for_parent(entry.id) {
            return Ok(());
        }
        if active.waits_for_key(&entry)? {
            active.awaited_mounts.note_crashed(entry.id);
            return Ok(());
        }
        let had = |option: &str| dead.options.iter().any(|found| found == option);
        let refused = |option: &str| had(option).then_some(false);
        let how = MountRequest {
            gives_up_log: false,
            dir: Some(dead.path.clone()),
            read_only: had("ro"),
            hiding: HidingPolicy::Allowed,
            allowed: MountPermissions {
                exec: refused("noexec"),
                setuid: refused("nosuid"),
                devices: refused("nodev"),
                ..MountPermissions::default()
            },
            owner: Caller::default(),
        };
        self.mount(&active, &entry, &how)
    }

    /// The datasets that would be mounted or exported if their keys were loaded, or were mounted before a crash.
    pub(crate) fn waiting_for_keys(&self, active: &ActivePool) -> Result<Vec<String>> {
        let waiting = self.waiting(active)?.into_iter();
        let names = waiting.map(|entry| Ok(active.pool.name_of(entry.id)?));
        let mut names = names.collect::<Result<Vec<_>>>()?;
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The key roots whose keys these datasets need.
    pub(crate) fn awaited_keys(&self, active: &ActivePool) -> Result<BTreeSet<u64>> {
        let waiting = self.waiting(active)?.into_iter();
        let encrypted = waiting.filter(|entry| entry.suite != 0);
        encrypted.map(|entry| active.key_root(&entry)).collect()
    }

    fn waiting(&self, active: &ActivePool) -> Result<Vec<Arc<Entry>>> {
        let again = active.awaited_mounts.crashed();
        // Snapshots that wait to be mounted again are included.
        let again = again.iter().filter_map(|id| active.pool.entry(*id).ok());
        let mut waiting = Vec::new();
        for entry in active.all_heads()?.into_iter().chain(again) {
            // Where a property is wrong, the mount says so.
            let is_awaited = || self.is_awaited(active, &entry).unwrap_or(true);
            let waits_for_parent = active.awaited_mounts.waits_for_parent(entry.id);
            if waits_for_parent || active.waits_for_key(&entry)? && is_awaited() {
                waiting.push(entry);
            }
        }
        Ok(waiting)
    }

    /// Returns whether a front end would offer a dataset if its key were loaded.
    fn is_awaited(&self, active: &ActivePool, entry: &Entry) -> Result<bool> {
        for front_end in self.front_ends {
            if front_end.awaits(self, active, entry)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl ActivePool {
    /// Returns whether the key of a dataset is not loaded.
    fn waits_for_key(&self, entry: &Entry) -> Result<bool> {
        Ok(entry.suite != 0 && !self.has_key(self.key_root(entry)?))
    }
}

/// Returns whether a dataset is mounted when its pool is imported.
fn mounts_by_itself(active: &ActivePool, entry: &Entry) -> Result<bool> {
    let canmount = entry.props.get("canmount").map_or("on", String::as_str);
    let (place, _) = properties::mountpoint(active, entry)?;
    Ok(entry.volume().is_none() && canmount == "on" && matches!(place, Mountpoint::Path(_)))
}
