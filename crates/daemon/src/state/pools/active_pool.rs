//! An imported pool: its keys, its mounts and its pool worker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dataset::{Dataset, SnapshotDirFs};
use fuse::MountDirectory;
use parking_lot::{Condvar, Mutex, MutexGuard};
use pool::{Entry, Pool};
use protocol::api::{FailureKind, MountPermissions};

use crate::failure::{Failure, Result};
use crate::host::pool_lock::PoolLock;
use crate::host::process::huge_pages::MountCount;
use crate::host::process::wakeup::Wakeup;
use crate::state::callers::channel::DataChannel;
use crate::state::callers::decision::Decide;
use crate::state::callers::verifications::PoolVerifications;
use crate::state::datasets::seen_states::ComparedStates;
use crate::state::datasets::snapshot_schedule::ScheduleChecks;
use crate::state::datasets::volume_state::VolumeInUse;
use crate::state::devices::leases::{Lease, LeasedObject, Leases};
use crate::state::keys::acceptances::Acceptances;
use crate::state::keys::idle_keys::IdleKeys;
use crate::state::keys::key_uses::{KeyUse, KeyUses};
use crate::state::keys::loaded_keys::LoadedKeys;
use crate::state::keys::wrong_tries::WrongTries;
use crate::state::memory::{KnownDevice, KnownPool};
use crate::state::mounts::awaited_mounts::AwaitedMounts;
use crate::state::mounts::metered_files::FilesMeter;
use crate::state::mounts::mount_options::HidingPolicy;
use crate::state::mounts::mount_records::MountRecord;
use crate::state::mounts::mounted_dirs::{MountedDir, MountedDirs};
use crate::state::mounts::nfs_share::NfsShare;
use crate::state::mounts::refreshed_files::RefreshedFiles;
use crate::state::pools::events::{EventLog, PoolObservation};
use crate::state::pools::images::image_follower::{COPY_AT_EXPORT, ImageFollower};
use crate::state::pools::last_end::VolumeLosses;
use crate::state::pools::last_report::LastReport;
use crate::state::pools::schedule::Schedule;
use crate::state::pools::store_reader::StoreReader;
use crate::state::pools::watcher::PoolThreads;

/// Threads that still use an exported pool end within this time.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// An imported pool.
pub(crate) struct ActivePool {
    pub(crate) pool: Pool,
    /// The places of keys that may be read.
    pub(crate) accepted: Arc<Acceptances>,
    /// Commands that change the pool run one after the other. True once the pool is exported.
    admin: Mutex<bool>,
    pub(crate) keys: LoadedKeys,
    /// The loaded keys that no program uses, where `autolock` asks for it.
    pub(crate) idle_keys: IdleKeys,
    /// Wrong keys that users tried.
    pub(crate) wrong_tries: WrongTries,
    /// Commands that have data keys now.
    pub(crate) key_uses: Arc<KeyUses>,
    /// Commands that read snapshots without a key now.
    pub(crate) verifications: PoolVerifications,
    /// The mounts, by the id of the dataset or snapshot.
    pub(crate) mounts: Mutex<BTreeMap<u64, MountState>>,
    /// Lines about mounts in use that the present command has ended.
    pub(crate) cuts: Mutex<Vec<String>>,
    pub(crate) awaited_mounts: AwaitedMounts,
    /// Volumes in use, by id.
    pub(crate) volumes: Mutex<BTreeMap<u64, Arc<VolumeInUse>>>,
    /// The losses that clients of volumes have to be told of.
    pub(crate) losses: VolumeLosses,
    /// True if the last daemon of this machine was killed, and no other program has used the pool since.
    pub(crate) goes_on: AtomicBool,
    /// The datasets whose states are noted for the next import.
    pub(crate) compared: ComparedStates,
    /// The leases of datasets, volumes and keys.
    pub(crate) leases: Leases<LeasedObject>,
    /// The reasons why re-encryptions wait, by the id of the dataset.
    pub(crate) reencryption_waits: Mutex<BTreeMap<u64, String>>,
    /// The time when the schedules of snapshots were last checked.
    pub(crate) snapshots_looked_at: ScheduleChecks,
    /// The state that is read, if another host may write to the pool meanwhile.
    pub(crate) reader: OnceLock<StoreReader>,
    pub(crate) events: Arc<EventLog>,
    /// The directories of the mounts of all pools.
    pub(crate) dirs: Arc<MountedDirs>,
    /// The directory below which all mountpoints are.
    pub(crate) altroot: Option<PathBuf>,
    /// The state of the pool at the last search for events.
    pub(super) observed: Mutex<PoolObservation>,
    /// The devices that did not answer when that was last looked for.
    stalled: Mutex<BTreeSet<String>>,
    pub(crate) last_report: LastReport,
    pub(crate) scrubs: Schedule,
    /// The work on the image of the pool in an object store.
    pub(crate) image: ImageFollower,
    pub(super) threads: PoolThreads,
    /// Keeps other processes of this host from using the pool. It is dropped after the devices are closed.
    _lock: PoolLock,
    /// The last field, so that it is dropped after the devices are closed.
    open: OpenDevices,
}

/// Exists as long as the devices of a pool are open.
#[derive(Default)]
struct OpenDevices(Arc<CloseNotifier>);

impl Drop for OpenDevices {
    fn drop(&mut self) {
        *self.0.gone.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Notifies when the devices of an exported pool are closed. A thread that still uses the pool, such as one that cleans
/// up after a mount, may end a moment after the command.
#[derive(Default)]
pub(crate) struct CloseNotifier {
    gone: Mutex<bool>,
    changed: Condvar,
}

impl CloseNotifier {
    /// Waits until they are closed. False if something keeps them open: a command that waits for the user to type a
    /// key.
    pub(crate) fn wait(&self) -> bool {
        let mut gone = self.gone.lock();
        let is_open = |gone: &mut bool| !*gone;
        self.changed.wait_while_for(&mut gone, is_open, CLOSE_MAX);
        *gone
    }
}

/// The right to change a pool, its loaded keys and its mounts.
pub(crate) struct Admin<'a>(MutexGuard<'a, bool>);

impl Admin<'_> {
    /// Makes waiting commands fail: the pool is no longer imported.
    pub(crate) fn let_go(&mut self) {
        *self.0 = true;
    }
}

pub(crate) struct MountState {
    pub(crate) mount: fuse::FuseMount,
    pub(crate) dataset: Arc<Dataset>,
    /// The dataset with its snapshots; `None` for the mount of a snapshot.
    pub(crate) mounted: Option<Arc<SnapshotDirFs>>,
    /// The files of the newest state, in the mount of a reader.
    pub(crate) refreshed: Option<Arc<RefreshedFiles>>,
    /// The counts of its operations.
    pub(crate) meter: Arc<FilesMeter>,
    pub(crate) place: MountDirectory,
    pub(crate) read_only: bool,
    /// The caching by the kernel, from the property as it was at the mount.
    pub(crate) kernel_cache: fuse::KernelCache,
    /// True if the property chose the directory, and not the command.
    pub(crate) by_property: bool,
    pub(crate) hiding: HidingPolicy,
    /// The options of the command that mounted it.
    pub(crate) allowed: MountPermissions,
    /// The export of the mount by the kernel's NFS server.
    pub(crate) shared: Option<NfsShare>,
    /// Tells the start after a crash of the mount.
    pub(crate) _record: MountRecord,
    /// Finds the mount by its directories.
    pub(crate) _dirs: Vec<MountedDir>,
    /// Counts the mount for huge pages.
    pub(crate) _counted: MountCount,
    pub(crate) _lease: Lease<LeasedObject>,
}

impl MountState {
    /// The directory of the mount.
    pub(crate) fn dir(&self) -> PathBuf {
        self.place.path()
    }
}

impl ActivePool {
    /// Takes over an imported pool, with its lock on this host.
    ///
    /// # Errors
    /// The threads of the pool cannot be started.
    pub(crate) fn new(
        (pool, lock): (Pool, PoolLock),
        accepted: &Arc<Acceptances>,
        wakeup: &Arc<Wakeup>,
        events: &Arc<EventLog>,
        dirs: &Arc<MountedDirs>,
        altroot: Option<PathBuf>,
    ) -> Result<Arc<ActivePool>> {
        let active = Arc::new(ActivePool {
            pool,
            accepted: Arc::clone(accepted),
            admin: Mutex::default(),
            keys: LoadedKeys::default(),
            idle_keys: IdleKeys::default(),
            wrong_tries: WrongTries::default(),
            key_uses: Arc::default(),
            verifications: PoolVerifications::default(),
            mounts: Mutex::default(),
            cuts: Mutex::default(),
            awaited_mounts: AwaitedMounts::default(),
            volumes: Mutex::default(),
            losses: VolumeLosses::default(),
            goes_on: AtomicBool::new(false),
            compared: ComparedStates::default(),
            leases: Leases::default(),
            reencryption_waits: Mutex::default(),
            snapshots_looked_at: ScheduleChecks::default(),
            reader: OnceLock::new(),
            events: Arc::clone(events),
            dirs: Arc::clone(dirs),
            altroot,
            observed: Mutex::default(),
            stalled: Mutex::default(),
            last_report: LastReport::default(),
            scrubs: Schedule::default(),
            image: ImageFollower::default(),
            threads: PoolThreads::new(wakeup),
            _lock: lock,
            open: OpenDevices::default(),
        });
        *active.observed.lock() = PoolObservation::of(&active.pool, []);
        active.follow_deadline();
        let failed = |error| Failure::other(format!("the pool worker cannot be started: {error}"));
        // A worker that did start would keep the lock of the pool.
        let started = active.start_worker().inspect_err(|_| active.stop_worker());
        started.map_err(failed)?;
        Ok(active)
    }

    /// Adds an event, and a line to the log, for each device that does not answer any more, or answers again. `now` are
    /// those that do not answer. Those that are not used any more have not answered.
    pub(crate) fn note_stalled(&self, now: BTreeSet<String>, is_used: impl Fn(&str) -> bool) {
        let name = self.pool.name();
        let mut before = self.stalled.lock();
        for path in now.difference(&before) {
            tracing::warn!(pool = name, device = path, "a device does not answer");
            let text = format!("{path} does not answer");
            self.events.add("device_stall", &name, &text);
        }
        for path in before.difference(&now).filter(|path| is_used(path)) {
            tracing::info!(pool = name, device = path, "the device answers again");
            let text = format!("{path} answers again");
            self.events.add("device_answer", &name, &text);
        }
        *before = now;
    }

    /// Returns whether the calling thread could take the lock of the pool. The pool worker holds it for a moment only.
    #[cfg(test)]
    pub(crate) fn is_lockable(&self) -> bool {
        self.admin.try_lock_for(Duration::from_secs(10)).is_some()
    }

    /// Waits until no other command changes the pool, and decides again then. The decision stays true as long as the
    /// lock is held. Do not ask the user while holding it.
    pub(crate) fn lock(&self, decision: &dyn Decide) -> Result<Admin<'_>> {
        #[cfg(test)]
        waits::pass();
        let gone = self.admin.lock();
        if *gone {
            let end = match self.reader.get() {
                Some(_) => "exported or refreshed",
                None => "exported",
            };
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("pool '{}' was {end} meanwhile", self.pool.name()),
            ));
        }
        decision.again()?;
        // Those of a command that failed before it told them.
        self.cuts.lock().clear();
        Ok(Admin(gone))
    }

    /// Takes the lock of the pool without waiting: `None` while another command works on the pool. The pool worker
    /// uses it, because a command that exports the pool waits for the worker.
    pub(crate) fn try_lock(&self) -> Option<Admin<'_>> {
        self.admin.try_lock().filter(|gone| !**gone).map(Admin)
    }

    /// Exports the pool, and forgets its keys. Nothing of it may be mounted. If this fails, the pool stays imported.
    pub(crate) fn export(self: &Arc<Self>, admin: &mut Admin<'_>) -> Result<()> {
        if let Err(why) = self.copy_now(COPY_AT_EXPORT) {
            tracing::warn!(
                pool = self.pool.name(),
                why,
                "the image of the pool does not have its last state"
            );
        }
        self.stop_worker();
        self.seal_before_export();
        match self.pool.export() {
            Err(error) if self.pool.suspended().is_none() => {
                self.restart_worker();
                Err(error.into())
            }
            // Of a suspended pool nothing can be written any more; what was synced is there.
            _ => {
                self.note_seen();
                self.keys.clear();
                admin.let_go();
                Ok(())
            }
        }
    }

    /// The whole names of datasets and snapshots.
    pub(crate) fn names_of(&self, entries: &[Arc<Entry>]) -> Result<Vec<String>> {
        let names = entries.iter().map(|entry| self.pool.name_of(entry.id));
        Ok(names.collect::<pool::Result<_>>()?)
    }

    /// Lines about the mounts in use that the present command has ended. The caller has the lock of the pool.
    pub(crate) fn take_cuts(&self) -> Vec<String> {
        std::mem::take(&mut *self.cuts.lock())
    }

    /// Every dataset and snapshot in use, by id.
    pub(crate) fn used_ids(&self) -> Vec<u64> {
        let things = self.leases.things().into_iter();
        let ids = things.filter_map(|thing| match thing {
            LeasedObject::Dataset(id) => Some(id),
            LeasedObject::Key(_) => None,
        });
        ids.collect()
    }

    /// See [`KeyUses::begin`]. `user` is the command, in messages.
    pub(crate) fn use_key(
        &self,
        root: u64,
        user: &str,
        data: Option<&Arc<dyn DataChannel>>,
    ) -> KeyUse {
        let lease = self.leases.take(LeasedObject::Key(root), user);
        self.key_uses.begin(root, lease, data)
    }

    /// The facts that the state directory remembers.
    pub(crate) fn known(&self) -> KnownPool {
        let devices = self.pool.devices().into_iter();
        KnownPool {
            guid: Some(self.pool.guid()),
            becomes: None,
            devices: devices
                .map(|device| KnownDevice {
                    path: device.path.into(),
                    guid: Some(device.guid),
                })
                .collect(),
            read_only: self.pool.is_read_only(),
            altroot: self.altroot.clone(),
            refresh: self.reader.get().map(|reader| reader.interval),
            reason: None,
        }
    }

    /// The notifier for the end of its devices.
    pub(crate) fn close_notifier(&self) -> Arc<CloseNotifier> {
        Arc::clone(&self.open.0)
    }
}

/// Work of a test at the moments when a command begins to wait for the lock of a pool.
#[cfg(test)]
pub(crate) mod waits {
    use std::cell::RefCell;
    use std::sync::Arc;

    type Work = Arc<dyn Fn()>;

    thread_local! {
        static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
    }

    /// Does this at each wait of this thread.
    pub(crate) fn meanwhile(work: Work) {
        WORK.with(|place| *place.borrow_mut() = Some(work));
    }

    pub(super) fn pass() {
        if let Some(work) = WORK.with(|place| place.borrow().clone()) {
            work();
        }
    }
}
