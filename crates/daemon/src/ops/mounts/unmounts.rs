//! Ends mounts.
//!
//! A command holds the lock of the pool meanwhile, so nothing here waits for another process: the kernel lets go of a
//! mount at once, or it stays in use. With force its session ends whatever the kernel still has.

use std::sync::Arc;
use std::time::Duration;

use fuse::{Error, MountDirectory};
use protocol::api::MountPermissions;
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::front_end::PoolEntries;
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::pools::active_pool::{ActivePool, MountState};

/// The number of mounts that are ended by force at the same time.
const AT_ONCE: usize = 64;

/// The time to wait until the daemon itself no longer uses a dataset.
const CLOSING_MAX: Duration = Duration::from_secs(5);

/// Makes the writes to a mount durable, and closes its files.
fn close(state: MountState) {
    let MountState {
        mount,
        dataset,
        mounted,
        place,
        ..
    } = state;
    drop(mount);
    if let Some(mounted) = &mounted {
        mounted.close_snapshots();
    }
    drop(mounted);
    if let Err(error) = dataset.close() {
        tracing::error!(%error, dataset = dataset.name(), "closing a dataset failed; what was not synced is lost. 'strongroom pool status' says more");
    }
    tracing::info!(dataset = dataset.name(), dir = %place.path().display(), "unmounted");
}

impl ActivePool {
    /// Closes the files of a mount that another process has unmounted. The dataset may have been mounted again since.
    pub(in crate::ops) fn clean_up(self: &Arc<Self>, id: u64) {
        let mut mounts = self.mounts.lock();
        let is_gone = mounts
            .get(&id)
            .is_some_and(|state| !state.mount.is_mounted());
        let state = if is_gone { mounts.remove(&id) } else { None };
        drop(mounts);
        if let Some(mut state) = state {
            self.withdraw_share(&mut state);
            close(state);
            self.close_unmounted([id]);
        }
    }

    /// Waits until a mount that another process has just ended is closed, so that the dataset can be mounted again.
    pub(in crate::ops) fn let_end(&self, id: u64) -> Result<()> {
        let mut mounts = self.mounts.lock();
        let is_leaving = mounts
            .get(&id)
            .is_some_and(|state| !state.mount.is_in_tree());
        let state = if is_leaving { mounts.remove(&id) } else { None };
        drop(mounts);
        let Some(mut state) = state else {
            return Ok(());
        };
        self.withdraw_share(&mut state);
        match state.mount.unmount(false) {
            Ok(_) => close(state),
            Err(error) => {
                self.mounts.lock().insert(id, state);
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Unmounts a dataset or snapshot, if it is mounted; with `force` also if it is in use. Then the session ends, and
    /// [`ActivePool::take_cuts`] has a line about it.
    pub(crate) fn unmount(self: &Arc<Self>, id: u64, force: bool) -> Result<()> {
        let state = self.mounts.lock().remove(&id);
        let Some(mut state) = state else {
            return self.close_volume(id, force);
        };
        // The server uses what it exports.
        let was_shared = self.withdraw_share(&mut state);
        match state.mount.unmount(force) {
            Ok(None) => {}
            Ok(Some(refused)) => self.note_cut(id, &state, &refused),
            Err(error) => {
                let name = self.pool.name_of(id).unwrap_or_default();
                self.mounts.lock().insert(id, state);
                self.share_again(id);
                let is_server = was_shared && matches!(error, Error::Busy(_));
                let mut failure =
                    Failure::from(error).context(format_args!("cannot unmount '{name}'"));
                if is_server {
                    failure.message += &server_keeps(&name);
                }
                return Err(failure);
            }
        }
        close(state);
        self.close_unmounted([id]);
        Ok(())
    }

    /// Notes that a mount in use was ended.
    fn note_cut(&self, id: u64, state: &MountState, refused: &Error) {
        let name = self.pool.name_of(id).unwrap_or_default();
        let dir = state.dir();
        let why = match refused {
            Error::InUseElsewhere {
                holder: Some(holder),
                ..
            } => format!("it was {holder}"),
            Error::Covered(_) => "something was mounted on top".to_owned(),
            Error::Inside { inside, .. } => format!("{} was mounted in it", inside.display()),
            _ => "files of it were in use".to_owned(),
        };
        let text = format!("the mount of '{name}' at {} was cut: {why}", dir.display());
        tracing::warn!(reason = text, "a mount in use was ended");
        self.events.add("mount_cut", &self.pool.name(), &text);
        self.cuts.lock().push(text);
    }

    /// Waits until the daemon itself no longer uses these datasets: the pool worker may use one, and a mount that
    /// another process ended is closed a moment later. It does not wait for streams.
    pub(crate) fn await_closed(&self, ids: &[u64]) -> Result<()> {
        let mut heads = Vec::new();
        for id in ids {
            let entry = self.pool.entry(*id)?;
            heads.extend((!entry.is_snapshot()).then_some(*id));
        }
        self.pool.wait_until_closed(&heads, CLOSING_MAX);
        Ok(())
    }

    /// The mounts of those of these datasets that are mounted.
    fn mounted(self: &Arc<Self>, ids: &[u64]) -> Vec<EndedMount> {
        let mounts = self.mounts.lock();
        let found = ids
            .iter()
            .filter_map(|id| mounts.get(id).map(|state| (*id, state)));
        found
            .map(|(id, state)| EndedMount {
                active: Arc::clone(self),
                id,
                place: state.place.clone(),
                by_property: state.by_property,
                read_only: state.read_only,
                hiding: state.hiding,
                allowed: state.allowed,
            })
            .collect()
    }
}

/// The way out where the NFS server may use a mount that is not exported any more.
fn server_keeps(name: &str) -> String {
    format!(
        "; the NFS server keeps what clients used for its lease time (90 s, if nothing else is set): \
         'strongroom set sharenfs=off {name}', and unmount it then, or use -f"
    )
}

/// Returns the datasets that are mounted, parents first.
fn all_mounted(wanted: &[PoolEntries<'_>]) -> Vec<EndedMount> {
    let mut mounted: Vec<EndedMount> = wanted
        .iter()
        .flat_map(|(active, ids)| active.mounted(ids))
        .collect();
    mounted.sort_by_key(|was| was.place.path());
    mounted
}

/// Unmounts these mounts, the deepest first. Those in use are ended with `force`, all at the same time: each may wait for
/// its disks. Without force the first failure is the last unless `goes_on`. Returns those that were unmounted, parents
/// first, and failures for others.
fn end_mounts(
    mut mounted: Vec<EndedMount>,
    force: bool,
    goes_on: bool,
) -> (Vec<EndedMount>, Vec<Failure>) {
    let (mut done, mut in_use, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(next) = mounted.pop() {
        match next.end(false) {
            Ok(()) => done.push(next),
            Err(_) if force => in_use.push(next),
            Err(failure) => failures.push(failure),
        }
        if !goes_on && !failures.is_empty() {
            break;
        }
    }
    for some in in_use.chunks(AT_ONCE) {
        let ended: Vec<Result<()>> = std::thread::scope(|scope| {
            let end = |was: &'_ EndedMount| was.end(true);
            let threads: Vec<_> = some
                .iter()
                .map(|was| scope.spawn(move || end(was)))
                .collect();
            let died = |_| Err(Failure::other("the thread that unmounts died"));
            let results = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(died));
            results.collect()
        });
        for (was, ended) in some.iter().zip(ended) {
            match ended {
                Ok(()) => done.push(was.clone()),
                Err(failure) => failures.push(failure),
            }
        }
    }
    done.sort_by_key(|was| was.place.path());
    (done, failures)
}

/// A mount that was ended, with its options.
#[derive(Clone)]
pub(crate) struct EndedMount {
    active: Arc<ActivePool>,
    pub(crate) id: u64,
    place: MountDirectory,
    by_property: bool,
    read_only: bool,
    hiding: HidingPolicy,
    allowed: MountPermissions,
}

impl EndedMount {
    fn end(&self, force: bool) -> Result<()> {
        self.active.unmount(self.id, force)
    }

    /// Returns whether the pool of the mount is imported.
    pub(crate) fn has_pool(&self, daemon: &Daemon) -> bool {
        daemon.pool(&self.active.pool.name()).is_ok()
    }

    /// Removes the directory, if the daemon made it for the dataset and it is empty.
    pub(crate) fn remove_dir(&self) {
        if self.by_property {
            let remove = || self.place.remove();
            let _ = self.active.change_dir(&self.place.path(), remove);
        }
    }
}

impl Daemon {
    /// Unmounts those of these datasets that are mounted, and returns their mounts, so that they can be mounted again.
    /// If one cannot be unmounted, all stay mounted.
    pub(crate) fn unmount_all(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        ids: &[u64],
        force: bool,
    ) -> Result<Vec<EndedMount>> {
        let unmounted = self.unmount_from(&[(active, ids.to_vec())], force)?;
        active.await_closed(ids)?;
        Ok(unmounted)
    }

    /// Unmounts datasets of several pools, because a mount of one pool may be inside a mount of another.
    pub(crate) fn unmount_from(
        self: &Arc<Self>,
        wanted: &[PoolEntries<'_>],
        force: bool,
    ) -> Result<Vec<EndedMount>> {
        let (done, failures) = end_mounts(all_mounted(wanted), force, false);
        match failures.into_iter().next() {
            None => Ok(done),
            Some(failure) => {
                for failure in self.mount_again(done) {
                    tracing::error!(reason = failure.message, "could not be mounted again");
                }
                Err(failure)
            }
        }
    }

    /// Unmounts all datasets that it can, the deepest first, and returns failures for the others.
    pub(crate) fn unmount_what_can(wanted: &[PoolEntries<'_>], force: bool) -> Vec<Failure> {
        end_mounts(all_mounted(wanted), force, true).1
    }

    /// Mounts again, with the same options and parents first, what was unmounted for other work. It continues after a
    /// failure, and returns all failures.
    pub(crate) fn mount_again(self: &Arc<Self>, unmounted: Vec<EndedMount>) -> Vec<Failure> {
        let mut failures = Vec::new();
        for was in unmounted {
            // The dataset may have been destroyed meanwhile.
            let Ok(entry) = was.active.pool.entry(was.id) else {
                continue;
            };
            let how = MountRequest {
                gives_up_log: false,
                dir: (!was.by_property).then(|| was.place.path()),
                read_only: was.read_only,
                hiding: was.hiding,
                allowed: was.allowed,
                owner: Caller::default(),
            };
            failures.extend(self.mount(&was.active, &entry, &how).err());
        }
        failures
    }
}
