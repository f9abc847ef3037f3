//! Readers of pools on object stores, beside the host that writes: their import, and newer states.
//!
//! A newer state is a pool of its own. It takes the place of the older one, with its keys and mounts. Streams that began
//! before go on with the older one.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use block::{BlockDevice, DeviceAccess};
use objects::ObjectDevice;
use pool::{Pool, PoolState};
use protocol::api::{CheckpointUse, FailureKind, PoolStateRow, ReaderRow, RefreshReport, command};
use store::Store;

use crate::failure::{Failure, Result};
use crate::host::pool_lock::PoolLock;
use crate::host::process::system::System;
use crate::ops::devices::meters::{metered, pool_user};
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::ops::imports::scan::FoundPool;
use crate::state::callers::channel::NonInteractive;
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::store_reader::StoreReader;

/// The seconds between refreshes, if the import says nothing: half of the time for which objects stay.
const INTERVAL: u64 = 300;

impl Daemon {
    /// Opens the devices of a pool that is imported read-only. One on an object store has a reader, which can go to newer
    /// states.
    ///
    /// # Errors
    /// The pool lies on several object stores and another host may write to it: no state of all of them is whole.
    pub(crate) fn open_to_read(
        &self,
        candidate: &FoundPool,
        import: &command::PoolImport,
        name: &str,
    ) -> Result<(Store, Option<StoreReader>)> {
        let is_live = candidate
            .superblock
            .as_ref()
            .is_ok_and(|superblock| superblock.state == PoolState::Active);
        let places = candidate.paths.iter().filter(|path| is_on_store(*path));
        let places: Vec<&PathBuf> = places.collect();
        match &places[..] {
            // Beside it can be log and cache devices, of which a reader needs nothing.
            [path] if import.checkpoint == CheckpointUse::Keep => {
                let device = self.open_object_reader(path)?;
                let store = store_on(&device)?;
                let interval = import.refresh.unwrap_or(INTERVAL);
                let reader = StoreReader::new(path.to_path_buf(), device, interval);
                Ok((store, Some(reader)))
            }
            [_, _, ..] if is_live && !import.force => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "pool '{name}' lies on several object stores and was not exported; no state of all of them is whole \
                     while another host writes. Export it there, or import it with -f if that host is lost"
                ),
            )),
            _ => {
                let paths = &candidate.paths;
                let store = self.open_store(paths, DeviceAccess::ReadOnly, &pool_user(name))?;
                Ok((store, None))
            }
        }
    }

    /// Begins to refresh a state by itself from time to time, if its import wants that. The pool table has the state
    /// already, because the thread ends when the pool has another one.
    pub(crate) fn start_refreshes(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        context: &mut CallerContext<'_>,
    ) {
        let interval = active.reader.get().map_or(0, |reader| reader.interval);
        if interval == 0 {
            return;
        }
        let (daemon, weak) = (Arc::downgrade(self), Arc::downgrade(active));
        let work = move || refresh_in_time(&daemon, &weak, Duration::from_secs(interval));
        if let Err(error) = threads::start("pool-reader", work) {
            context.channel.notice(format!(
                "a thread for refreshes cannot be started: {error}; to read newer states: strongroom pool refresh {}",
                active.pool.name()
            ));
        }
    }

    /// Goes to the newest state of a pool that another host writes.
    ///
    /// # Errors
    /// The pool has no reader, a volume of it is in use, or the store does not answer. The older state stays then.
    pub(crate) fn refresh_pool(
        self: &Arc<Self>,
        name: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<RefreshReport> {
        loop {
            let active = self.pool(name)?;
            let reader = active.reader.get().ok_or_else(|| {
                Failure::usage(format!(
                    "'{name}' is not imported with -o readonly=on from an object store, so no other host writes newer states"
                ))
            })?;
            // Another command may be faster, and then this is not the state of the pool any more.
            let _alone = reader.refreshing.lock();
            if Arc::ptr_eq(&active, &self.pool(name)?) {
                return self.refresh_state(&active, reader, context);
            }
        }
    }

    fn refresh_state(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        reader: &StoreReader,
        context: &mut CallerContext<'_>,
    ) -> Result<RefreshReport> {
        let name = active.pool.name();
        let from = active.state_row();
        let report = |to| RefreshReport {
            pool: name.clone(),
            from,
            to,
        };
        let Some(device) = self.open_newer_reader(&reader.path, &reader.device)? else {
            reader.note_newest();
            return Ok(report(from));
        };
        let monitor = device.monitor();
        let newer = self.open_newer(active, reader, device)?;
        let to = newer.state_row();
        self.exchange(active, &newer, context)?;
        // Until here the older state stays if the store does not answer.
        monitor.set_patience(None);
        if !newer.mounts.lock().is_empty() {
            // Until then the kernel may have names of the older state.
            std::thread::sleep(fuse::NAMES_KEPT);
        }
        tracing::info!(
            pool = name,
            from = from.txg,
            to = to.txg,
            "a newer state is read"
        );
        Ok(report(to))
    }

    /// Opens the pool on a device with its newest state.
    fn open_newer(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        reader: &StoreReader,
        device: Arc<ObjectDevice>,
    ) -> Result<Arc<ActivePool>> {
        let pool = Pool::open(Arc::new(store_on(&device)?), Arc::new(System), true)?;
        let name = active.pool.name();
        if pool.guid() != active.pool.guid() {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!(
                    "{} has another pool now; export '{name}' here, and import the other one",
                    reader.path.display()
                ),
            ));
        }
        if pool.name() != name {
            pool.name_temporarily(&name)?;
        }
        let newer = ActivePool::new(
            (pool, PoolLock::none()),
            &self.accepted,
            &self.wakeup,
            &self.events,
            &self.mounted_dirs,
            active.altroot.clone(),
        )?;
        let reader = StoreReader::new(reader.path.clone(), device, reader.interval);
        newer.read_by(reader);
        Ok(newer)
    }

    /// Puts a newer state in the place of an older one, with keys and mounts.
    fn exchange(
        self: &Arc<Self>,
        older: &Arc<ActivePool>,
        newer: &Arc<ActivePool>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let mut admin = older.lock(context.decision)?;
        if let Some(volume) = older.volumes_in_use().first() {
            let name = older.pool.name_of(*volume)?;
            return Err(Failure::new(
                FailureKind::Busy,
                format!("the volume '{name}' is in use; withdraw or detach it, and refresh then"),
            ));
        }
        let before: Vec<u64> = older.all_heads()?.iter().map(|head| head.id).collect();
        // No other thread knows the newer state before the exchange.
        let moved = newer
            .take_keys_of(older, context)
            .and_then(|()| self.move_mounts(older, newer, context));
        let gone = moved.inspect_err(|_| {
            // The older state stays.
            newer.keys.move_to(&older.keys);
        })?;
        self.pool_table.exchange(newer);
        self.start_refreshes(newer, context);
        admin.let_go();
        let _newer = newer.lock(context.decision)?;
        let heads = newer.all_heads()?.into_iter();
        let added = heads.filter(|head| !before.contains(&head.id) || gone.contains(&head.id));
        let added: Vec<_> = added.collect();
        context.tell(self.mount_automatic(newer, &added, vfs::Caller::default()));
        Ok(())
    }
}

impl ActivePool {
    /// Makes a pool that was opened the state of a reader.
    pub(crate) fn read_by(&self, reader: StoreReader) {
        let is_new = self.reader.set(reader).is_ok();
        debug_assert!(is_new, "a state has one reader");
    }

    pub(crate) fn state_row(&self) -> PoolStateRow {
        let superblock = self.pool.superblock();
        PoolStateRow {
            time: superblock.time,
            txg: superblock.txg,
        }
    }

    /// The state that is read, for a report.
    pub(crate) fn reader_row(&self) -> Option<ReaderRow> {
        let reader = self.reader.get()?;
        Some(ReaderRow {
            time: self.state_row().time,
            checked: reader.checked(),
            is_outdated: reader.device.is_outdated(),
            refresh: reader.interval,
        })
    }

    /// The trouble of a state whose objects were removed, and the way out.
    pub(crate) fn advice_on_state(&self) -> (Option<String>, Option<String>) {
        match self.reader.get() {
            Some(reader) if reader.device.is_outdated() => (
                Some("Objects of this state were removed: it is too old.".into()),
                Some(format!(
                    "Read the newest state: strongroom pool refresh {}",
                    self.pool.name()
                )),
            ),
            _ => (None, None),
        }
    }

    /// Takes the loaded keys of an older state that are still those of their datasets. Changed ones are loaded again, if that
    /// needs no typing.
    fn take_keys_of(&self, older: &ActivePool, context: &mut CallerContext<'_>) -> Result<()> {
        older.keys.move_to(&self.keys);
        for root in self.keys.roots() {
            let Ok(entry) = self.pool.entry(root) else {
                self.keys.remove(&[root]);
                continue;
            };
            let opened = self.data_keys(&entry).map(drop);
            if let Err(failure) = opened {
                // The store may answer later.
                if failure.kind == FailureKind::Device {
                    return Err(failure);
                }
                self.keys.remove(&[root]);
                let mut nobody = NonInteractive::default();
                if self.ensure_key(root, &Internal, &mut nobody).is_ok() {
                    continue;
                }
                let name = self.pool.name_of(root)?;
                context.channel.notice(format!(
                    "the key of '{name}' was changed; load it again: strongroom key load {name}"
                ));
            }
        }
        Ok(())
    }
}

fn store_on(device: &Arc<ObjectDevice>) -> Result<Store> {
    let device = Arc::clone(device) as Arc<dyn BlockDevice>;
    Ok(Store::open(vec![metered(device)])?)
}

/// Refreshes a state when it is due, until it is not the one of its pool any more.
fn refresh_in_time(daemon: &Weak<Daemon>, state: &Weak<ActivePool>, interval: Duration) {
    let mut due = Instant::now() + interval;
    let mut woken = 0;
    let mut trouble = None;
    loop {
        let Some((daemon, active)) = daemon.upgrade().zip(state.upgrade()) else {
            return;
        };
        let name = active.pool.name();
        let is_newest = daemon.pool(&name).is_ok_and(|is| Arc::ptr_eq(&is, &active));
        let wait = due.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            if !is_newest {
                return;
            }
            drop(active);
            let mut nobody = NonInteractive::default();
            let mut context = CallerContext::internal("pool refresh", &mut nobody);
            let failed = daemon.refresh_pool(&name, &mut context).err();
            nobody.log();
            let failed = failed.map(|failure| failure.message);
            if let Some(reason) = failed.as_ref().filter(|it| trouble.as_ref() != Some(*it)) {
                tracing::warn!(pool = name, reason, "the newest state cannot be read");
            }
            trouble = failed;
            due = Instant::now() + interval;
            continue;
        }
        let wakeup = Arc::clone(&daemon.wakeup);
        drop((daemon, active));
        woken = wakeup.wait(woken, wait);
    }
}
