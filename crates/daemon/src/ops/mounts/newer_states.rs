//! Mounts of a reader, which go to a newer state of its pool.

use std::sync::Arc;

use dataset::{Dataset, SnapshotDirFs};
use pool::Entry;
use vfs::{Caller, FileSystem};

use crate::failure::Result;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties::{self, Mountpoint};
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::pools::active_pool::{ActivePool, MountState};

/// The files of a mount in a newer state.
struct NewerFiles {
    entry: Arc<Entry>,
    dataset: Arc<Dataset>,
    mounted: Option<Arc<SnapshotDirFs>>,
    files: Arc<dyn FileSystem>,
    options: fuse::Options,
}

impl Daemon {
    /// Moves the mounts of a state to a newer one. Those of datasets that are gone, have another name or directory, or
    /// whose key was changed are ended. Returns their ids.
    ///
    /// # Errors
    /// A mount could not be ended. Then all others stay with the older state.
    pub(in crate::ops) fn move_mounts(
        self: &Arc<Self>,
        older: &Arc<ActivePool>,
        newer: &Arc<ActivePool>,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<u64>> {
        let (mut stay, mut gone) = (Vec::new(), Vec::new());
        for id in older.mounted_ids() {
            match self.newer_files(older, newer, id) {
                Ok(Some(files)) => stay.push(files),
                Ok(None) => gone.push(id),
                Err(failure) => {
                    let name = older.pool.name_of(id)?;
                    let why = format!("'{name}' is unmounted: {}", failure.message);
                    context.channel.notice(why);
                    gone.push(id);
                }
            }
        }
        let ended = self.unmount_all(older, &gone, true)?;
        ended.iter().rev().for_each(|mount| mount.remove_dir());
        context.tell_cuts(older);
        for files in stay {
            let state = older.mounts.lock().remove(&files.entry.id);
            if let Some(state) = state {
                self.move_mount(newer, files, state);
            }
        }
        older.awaited_mounts.move_crashed_to(&newer.awaited_mounts);
        Ok(gone)
    }

    /// Opens the files of a mount in a newer state. `None` if the mount does not stay.
    fn newer_files(
        self: &Arc<Self>,
        older: &Arc<ActivePool>,
        newer: &Arc<ActivePool>,
        id: u64,
    ) -> Result<Option<NewerFiles>> {
        let Ok(entry) = newer.pool.entry(id) else {
            return Ok(None);
        };
        let is_same = older.pool.entry(id)?.guid == entry.guid
            && older.pool.name_of(id)? == newer.pool.name_of(id)?;
        let (dir, read_only, allowed, by_property) = {
            let mounts = older.mounts.lock();
            let Some(state) = mounts.get(&id).filter(|state| state.mount.is_mounted()) else {
                return Ok(None);
            };
            (
                state.dir(),
                state.read_only,
                state.allowed,
                state.by_property,
            )
        };
        if !is_same || by_property && !is_mounted_at(newer, &entry, &dir)? {
            return Ok(None);
        }
        let how = MountRequest {
            gives_up_log: false,
            dir: None,
            read_only,
            hiding: HidingPolicy::Refused,
            allowed,
            owner: Caller::default(),
        };
        let dataset = self.open_files(newer, &entry, &how)?;
        let (files, mounted) = self.files_to_mount(newer, &entry, &dataset)?;
        Ok(Some(NewerFiles {
            options: newer.restrictions(&entry, true, &allowed)?,
            entry,
            dataset,
            mounted,
            files,
        }))
    }

    fn move_mount(self: &Arc<Self>, newer: &Arc<ActivePool>, to: NewerFiles, from: MountState) {
        let id = to.entry.id;
        let (dirs, lease) = newer.enter_mount(id, &from.place, &from.mount, to.mounted.as_ref());
        let (dataset, mounted) = (Arc::clone(&from.dataset), from.mounted.clone());
        let state = MountState {
            dataset: to.dataset,
            mounted: to.mounted,
            _dirs: dirs,
            _lease: lease,
            ..from
        };
        if let Some(refreshed) = &state.refreshed {
            refreshed.exchange(to.files);
            state
                .mount
                .forget_contents(&vfs::FileSystem::known(&**refreshed));
        }
        if let Some(mounted) = mounted {
            mounted.close_snapshots();
        }
        if let Err(error) = dataset.close() {
            tracing::warn!(%error, dataset = dataset.name(), "an older state could not be closed");
        }
        if let Err(error) = state.mount.follow(&to.options) {
            tracing::warn!(%error, dataset = state.dataset.name(), "the options of a mount stay");
        }
        self.watch(newer, id, &state.mount);
        newer.mounts.lock().insert(id, state);
        newer.share_again(id);
    }
}

/// Returns whether the properties of a dataset, or those of a snapshot's, mount it at this directory.
fn is_mounted_at(active: &ActivePool, entry: &Entry, dir: &std::path::Path) -> Result<bool> {
    if entry.props.get("canmount").is_some_and(|is| is == "off") {
        return Ok(false);
    }
    let (mountpoint, _) = properties::mountpoint(active, entry)?;
    Ok(matches!(mountpoint, Mountpoint::Path(place) if place.path() == dir))
}
