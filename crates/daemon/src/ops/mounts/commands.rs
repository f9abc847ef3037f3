//! Mounts and unmounts datasets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use dataset::{Dataset, SnapshotDirFs};
use fuse::MountDirectory;
use pool::Entry;
use protocol::api::{FailureKind, MountPermissions, MountRow};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::host::process::huge_pages::MountCount;
use crate::ops::datasets::volumes::refuse_volume;
use crate::ops::mounts::unmounts::EndedMount;
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties::{self, Mountpoint};
use crate::state::devices::leases::{Lease, LeasedObject};
use crate::state::mounts::metered_files::{FilesMeter, MeteredFiles};
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::mounts::mounted_dirs::MountedDir;
use crate::state::mounts::mountpoints;
use crate::state::mounts::refreshed_files::RefreshedFiles;
use crate::state::pools::active_pool::{ActivePool, MountState};

/// The files that a mount shows, and the dataset with its snapshots if it is no snapshot itself.
type MountableFiles = (Arc<dyn vfs::FileSystem>, Option<Arc<SnapshotDirFs>>);

impl Daemon {
    /// Opens the files of a dataset or snapshot.
    pub(crate) fn open_files(
        &self,
        active: &ActivePool,
        entry: &Entry,
        how: &MountRequest,
    ) -> Result<Arc<Dataset>> {
        active.refuse_rolled_back(entry)?;
        let keys = active.data_keys(entry)?;
        let mut settings = active.settings_of(entry, how.read_only, &how.allowed)?;
        let read_only = settings.read_only;
        // Opening finishes what is unfinished: the first directory, files that were unlinked while
        // open. No other thread can change anything yet.
        settings.read_only = false;
        settings.gives_up_log = how.gives_up_log;
        let opened = Dataset::open(
            &self.engine,
            &active.pool,
            entry.id,
            keys,
            settings,
            &how.owner,
        );
        let dataset = opened.map_err(|error| active.explain_foreign(entry, error.into()))?;
        settings.read_only = read_only;
        settings.gives_up_log = false;
        dataset.set_settings(settings);
        Ok(dataset)
    }

    /// Mounts a dataset or snapshot. Datasets below it that are mounted in its directory by their properties are unmounted
    /// and come into its mount, so that it hides none of them.
    pub(crate) fn mount(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entry: &Entry,
        how: &MountRequest,
    ) -> Result<()> {
        if how.dir.is_some()
            || how.hiding == HidingPolicy::Allowed
            || active.mounts.lock().contains_key(&entry.id)
        {
            return self.mount_alone(active, entry, how);
        }
        let inside = active.mounted_inside(entry)?;
        if !inside.is_empty() {
            // Nothing is unmounted in vain.
            active.data_keys(entry)?;
        }
        let inside = self.unmount_all(active, &inside, false)?;
        inside.iter().rev().for_each(EndedMount::remove_dir);
        let mounted = self.mount_alone(active, entry, how);
        let failures = self.mount_again(inside);
        mounted?;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    fn mount_alone(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entry: &Entry,
        how: &MountRequest,
    ) -> Result<()> {
        let name = active.pool.name_of(entry.id)?;
        refuse_volume(entry, &name, "mounted")?;
        active.let_end(entry.id)?;
        if let Some(state) = active.mounts.lock().get(&entry.id) {
            return Err(Failure::new(
                FailureKind::Busy,
                format!("'{name}' is mounted already, at {}", state.dir().display()),
            ));
        }
        active.check_mount_limit(entry)?;
        let counted = MountCount::new();
        let place = mountpoints::find(active, entry, &name, how.dir.as_deref(), how.hiding)?;
        let dataset = self.open_files(active, entry, how)?;
        let read_only = entry.is_snapshot() || how.read_only || active.pool.is_read_only();
        let (mut fs, mounted) = self.files_to_mount(active, entry, &dataset)?;
        let is_refreshed = active.reader.get().is_some();
        let refreshed = is_refreshed.then(|| Arc::new(RefreshedFiles::new(Arc::clone(&fs))));
        if let Some(refreshed) = &refreshed {
            fs = Arc::clone(refreshed) as Arc<dyn vfs::FileSystem>;
        }
        let options = fuse::Options {
            fs_name: name.clone(),
            allow_other: rustix::process::geteuid().is_root(),
            lasting_handles: true,
            idmapped: true,
            ..active.restrictions(entry, read_only, &how.allowed)?
        };
        let meter = Arc::new(FilesMeter::default());
        let fs = Arc::new(MeteredFiles::new(fs, Arc::clone(&meter)));
        let mount = fuse::FuseMount::at(fs, &place, &options)?;
        let guids = (active.pool.guid(), entry.guid);
        let record = self.mount_records.add(mount.number(), guids, &place.path());
        self.watch(active, entry.id, &mount);
        tracing::info!(dataset = name, dir = %place.path().display(), "mounted");
        let (dirs, lease) = active.enter_mount(entry.id, &place, &mount, mounted.as_ref());
        let state = MountState {
            mount,
            dataset,
            mounted,
            refreshed,
            meter,
            place,
            read_only,
            kernel_cache: options.kernel_cache,
            by_property: how.dir.is_none(),
            hiding: how.hiding,
            allowed: how.allowed,
            shared: None,
            _record: record,
            _dirs: dirs,
            _counted: counted,
            _lease: lease,
        };
        active.mounts.lock().insert(entry.id, state);
        active.awaited_mounts.end(entry.id);
        if !entry.is_snapshot() {
            let below = active.heads_below(entry)?;
            active.close_unmounted(below.iter().map(|entry| entry.id));
        }
        active.share_again(entry.id);
        Ok(())
    }

    /// The files of a mount of a dataset or snapshot.
    pub(in crate::ops) fn files_to_mount(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entry: &Entry,
        dataset: &Arc<Dataset>,
    ) -> Result<MountableFiles> {
        if entry.is_snapshot() {
            return Ok((Arc::clone(dataset) as Arc<dyn vfs::FileSystem>, None));
        }
        let mounted = Arc::new(self.with_snapshots(active, entry, dataset)?);
        let files = Arc::clone(&mounted) as Arc<dyn vfs::FileSystem>;
        Ok((files, Some(mounted)))
    }

    /// Changes what a mount allows.
    pub(crate) fn remount(
        &self,
        name: &str,
        read_only: Option<bool>,
        allowed: MountPermissions,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let (active, entry) = self.find(name)?;
        let _admin = active.lock(context.decision)?;
        let entry = active.again(&entry, name, context.decision)?;
        let mut mounts = active.mounts.lock();
        let state = mounts.get_mut(&entry.id).ok_or_else(|| {
            let why = format!("'{name}' is not mounted; mount it first: strongroom mount {name}");
            Failure::new(FailureKind::NotFound, why)
        })?;
        let stays = entry.is_snapshot() || active.pool.is_read_only();
        if stays && read_only == Some(false) {
            return Err(Failure::usage(format!(
                "'{name}' stays read-only: it is a snapshot, or its pool is imported read-only"
            )));
        }
        let read_only = read_only.unwrap_or(state.read_only);
        let allowed = allowed.or(state.allowed);
        let settings = active.settings_of(&entry, read_only, &allowed)?;
        let options = active.restrictions(&entry, read_only, &allowed)?;
        state.mount.follow(&options)?;
        state.dataset.set_settings(settings);
        (state.read_only, state.allowed) = (read_only, allowed);
        Ok(())
    }

    fn with_snapshots(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entry: &Entry,
        dataset: &Arc<Dataset>,
    ) -> Result<SnapshotDirFs> {
        let daemon: Weak<Daemon> = Arc::downgrade(self);
        let weak = Arc::downgrade(active);
        let (snapdir, _) = properties::effective(&active.pool, entry, "snapdir")?;
        let open = Box::new(move |snapshot: &Entry| {
            let gone = || dataset::Error::from(vfs::Error::Stale);
            let (daemon, active) = daemon.upgrade().zip(weak.upgrade()).ok_or_else(gone)?;
            let how = MountRequest {
                gives_up_log: false,
                dir: None,
                read_only: true,
                hiding: HidingPolicy::Refused,
                allowed: MountPermissions::default(),
                owner: Caller::default(),
            };
            daemon
                .open_files(&active, snapshot, &how)
                .map_err(|failure| {
                    let name = active.pool.name_of(snapshot.id).unwrap_or_default();
                    tracing::error!(
                        reason = failure.message,
                        snapshot = name,
                        "could not be opened"
                    );
                    vfs::Error::Io.into()
                })
        });
        Ok(SnapshotDirFs::new(
            Arc::clone(dataset),
            open,
            snapdir == "visible",
        ))
    }

    /// Cleans up when another process unmounts.
    pub(in crate::ops) fn watch(&self, active: &Arc<ActivePool>, id: u64, mount: &fuse::FuseMount) {
        let weak = Arc::downgrade(active);
        mount.on_end(move |_| {
            let Some(active) = weak.upgrade() else {
                return;
            };
            // Not on the thread that reports the end: that thread is still part of the mount.
            let cleanup = move || {
                if let Ok(_admin) = active.lock(&Internal) {
                    active.clean_up(id);
                }
            };
            if let Err(error) = threads::start("unmounted", cleanup) {
                tracing::error!(%error, "a dead mount could not be removed; remove it with 'strongroom unmount'");
            }
        });
    }
}

impl ActivePool {
    /// Enters the directories of a mount, the path of the property and the one without links, and its use of the dataset.
    pub(in crate::ops) fn enter_mount(
        &self,
        id: u64,
        place: &MountDirectory,
        mount: &fuse::FuseMount,
        mounted: Option<&Arc<SnapshotDirFs>>,
    ) -> (Vec<MountedDir>, Lease<LeasedObject>) {
        let user = format!("the mount at {}", place.path().display());
        let lease = self.leases.take(LeasedObject::Dataset(id), user);
        let mut dirs = vec![place.path(), mount.path().to_owned()];
        dirs.dedup();
        let enter = |dir| self.dirs.add(dir, mounted);
        (dirs.into_iter().map(enter).collect(), lease)
    }

    /// Every dataset and snapshot that is mounted.
    pub(crate) fn mounted_ids(&self) -> Vec<u64> {
        self.mounts.lock().keys().copied().collect()
    }

    /// The open dataset, if it is mounted or is a volume in use.
    pub(crate) fn files_of(&self, id: u64) -> Option<Arc<Dataset>> {
        if let Some(state) = self.mounts.lock().get(&id) {
            return Some(Arc::clone(&state.dataset));
        }
        let volumes = self.volumes.lock();
        let volume = volumes.get(&id)?.volume();
        volume.as_ref().map(|volume| Arc::clone(volume.dataset()))
    }

    /// Closes snapshots that programs may be reading, so that they can be destroyed.
    pub(crate) fn close_snapshots(&self, ids: &[u64]) {
        for state in self.mounts.lock().values() {
            if let Some(mounted) = &state.mounted {
                ids.iter().for_each(|id| mounted.close_snapshot(*id));
            }
        }
    }

    /// The dataset that is mounted at a directory.
    pub(crate) fn mounted_at(&self, dir: &Path) -> Option<u64> {
        let mounts = self.mounts.lock();
        mounts
            .iter()
            .find(|(_, state)| state.dir() == dir)
            .map(|(id, _)| *id)
    }

    /// The datasets below this one that are mounted in its directory, which they have by their properties.
    ///
    /// # Errors
    /// Another dataset of the pool is mounted there.
    fn mounted_inside(&self, entry: &Entry) -> Result<Vec<u64>> {
        let Some(dir) = self.own_path(entry.id) else {
            return Ok(Vec::new());
        };
        let mounts = self.mounts.lock();
        let inside = { mounts.iter() }
            .filter(|(_, state)| state.dir() != dir && state.dir().starts_with(&dir))
            .map(|(id, state)| (*id, (state.dir(), state.by_property)));
        let inside: BTreeMap<u64, (PathBuf, bool)> = inside.collect();
        drop(mounts);
        if inside.is_empty() {
            return Ok(Vec::new());
        }
        let below = self.heads_below(entry)?;
        for (id, (inner, by_property)) in &inside {
            if !by_property || !below.iter().any(|entry| entry.id == *id) {
                let why = format!(
                    "cannot mount '{}' at {}: {} is mounted in it; unmount that first",
                    self.pool.name_of(entry.id)?,
                    dir.display(),
                    inner.display()
                );
                return Err(Failure::new(FailureKind::Busy, why));
            }
        }
        Ok(inside.into_keys().collect())
    }

    /// The directory where a dataset is to be mounted automatically, if it is not, and whether its key is there.
    fn automatic_mount(&self, entry: &Entry) -> Result<Option<(PathBuf, bool)>> {
        let canmount = entry.props.get("canmount").map_or("on", String::as_str);
        let is_file_system = !entry.is_snapshot() && entry.volume().is_none();
        if !is_file_system || canmount != "on" || self.mounts.lock().contains_key(&entry.id) {
            return Ok(None);
        }
        let has_key = entry.suite == 0 || self.keys.has(entry.key_root);
        Ok(match properties::mountpoint(self, entry)? {
            (Mountpoint::Path(place), _) => Some((place.path(), has_key)),
            _ => None,
        })
    }

    /// Adds the directories of the datasets above this one that are not mounted because their keys are missing.
    fn add_locked_above(&self, entry: &Entry, locked: &mut BTreeMap<PathBuf, u64>) {
        let mut above = self.pool.entry(entry.parent).ok();
        while let Some(entry) = above {
            if let Ok(Some((dir, false))) = self.automatic_mount(&entry) {
                locked.insert(dir, entry.id);
            }
            above = self.pool.entry(entry.parent).ok();
        }
    }

    /// The rows of all mounts, for a listing.
    pub(crate) fn mount_rows(&self) -> Result<Vec<MountRow>> {
        let mounts = self.mounts.lock();
        mounts
            .iter()
            .map(|(id, state)| {
                Ok(MountRow {
                    name: self.pool.name_of(*id)?,
                    dir: state.dir().display().to_string(),
                    read_only: state.read_only || state.dataset.settings().read_only,
                    device: state.mount.number(),
                })
            })
            .collect()
    }
}

impl Daemon {
    /// Mounts those of these datasets that mount automatically and are not mounted, parents first, and those that waited
    /// for them. A dataset whose directory lies in that of one without its key waits: it would be hidden, or keep that one
    /// from being mounted. It continues after a failure, and returns all failures.
    pub(crate) fn mount_automatic(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entries: &[Arc<Entry>],
        owner: Caller,
    ) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut wanted: Vec<(PathBuf, &Arc<Entry>)> = Vec::new();
        // The directories of datasets that are not mounted because their keys are missing.
        let mut locked: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let waited = active.awaited_mounts.take_below_locked();
        let waited = waited.filter_map(|id| active.pool.entry(id).ok());
        let all: BTreeMap<u64, Arc<Entry>> = { entries.iter().cloned() }
            .chain(waited)
            .map(|entry| (entry.id, entry))
            .collect();
        for entry in all.values() {
            match active.automatic_mount(entry) {
                Ok(Some((dir, true))) => wanted.push((dir, entry)),
                Ok(Some((dir, false))) => drop(locked.insert(dir, entry.id)),
                Ok(None) => {}
                Err(failure) => failures.push(failure),
            }
        }
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, entry) in &wanted {
            active.add_locked_above(entry, &mut locked);
        }
        for (dir, entry) in wanted {
            let is_inside = |above: &&PathBuf| dir != **above && dir.starts_with(above);
            if let Some(above) = locked.keys().find(is_inside) {
                active.awaited_mounts.wait_for(entry.id, locked[above]);
                continue;
            }
            let how = MountRequest {
                gives_up_log: false,
                dir: None,
                read_only: false,
                hiding: HidingPolicy::Refused,
                allowed: MountPermissions::default(),
                owner,
            };
            failures.extend(self.mount(active, entry, &how).err());
        }
        active.close_unmounted(all.keys().copied());
        failures
    }
}
