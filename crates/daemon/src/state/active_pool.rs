//! A pool that this daemon has imported: its keys, its mounts, and the thread that looks after it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use dataset::{Files, Mounted};
use fuse::Place;
use keys::WrappingKey;
use parking_lot::{Condvar, Mutex, MutexGuard};
use pool::Pool;
use protocol::api::{Allowed, FailureKind};

use crate::failure::{Failure, Result};
use crate::host::huge_pages::Counted;
use crate::host::wakeup::Alarm;
use crate::state::acceptances::Acceptances;
use crate::state::keyuses::KeyUses;
use crate::state::memory::{KnownDevice, KnownPool};
use crate::state::metered_files::FilesMeter;
use crate::state::volume_state::VolumeState;

/// A transaction group stays open no longer than this.
pub(crate) const COMMIT_INTERVAL: Duration = Duration::from_secs(5);
/// Who looks at a pool that was let go is done within this time.
const DEPARTURE_MAX: Duration = Duration::from_secs(2);
/// A scrub reads this much at a time.
const SCRUB_STEP: u64 = 32 << 20;

/// An imported pool.
pub(crate) struct Imported {
    pub(crate) pool: Pool,
    /// The places of keys that may be read.
    pub(crate) accepted: Arc<Acceptances>,
    /// Commands that change the pool run one after the other. True once the pool was let go.
    admin: Mutex<bool>,
    /// Wrapping keys that are loaded, by the id of the dataset whose slots unwrap them.
    pub(crate) keys: Mutex<HashMap<u64, WrappingKey>>,
    /// Commands that have data keys now.
    pub(crate) key_uses: Arc<KeyUses>,
    /// What is mounted, by the id of the dataset or snapshot.
    pub(crate) mounts: Mutex<BTreeMap<u64, MountState>>,
    /// What a command had mounted before a crash, and what lacked its key then.
    pub(crate) not_mounted_again: Mutex<BTreeSet<u64>>,
    /// Volumes in use, by id.
    pub(crate) volumes: Mutex<BTreeMap<u64, VolumeState>>,
    /// What re-encryptions wait for, by the id of the dataset.
    pub(crate) reencryption_waits: Mutex<BTreeMap<u64, String>>,
    alarm: Arc<Alarm>,
    leaving: AtomicBool,
    keeper: Mutex<Option<JoinHandle<()>>>,
    /// The last field, so that it goes when the devices are closed.
    open: Open,
}

/// Exists as long as the devices of a pool are open.
#[derive(Default)]
struct Open(Arc<Departure>);

impl Drop for Open {
    fn drop(&mut self) {
        *self.0.gone.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Tells when the devices of a pool that was let go are closed: whoever still looked at it, such as
/// a thread that cleans up after a mount, may be a moment later than the command.
#[derive(Default)]
pub(crate) struct Departure {
    gone: Mutex<bool>,
    changed: Condvar,
}

impl Departure {
    /// Waits until they are. False if something keeps them open: a command that waits for somebody
    /// to type a key.
    pub(crate) fn wait(&self) -> bool {
        let mut gone = self.gone.lock();
        let is_open = |gone: &mut bool| !*gone;
        self.changed
            .wait_while_for(&mut gone, is_open, DEPARTURE_MAX);
        *gone
    }
}

/// The right to change a pool, and what is loaded and mounted of it.
pub(crate) struct Admin<'a>(MutexGuard<'a, bool>);

impl Admin<'_> {
    /// Whoever waits for this right does not get it any more: the pool is not imported.
    pub(crate) fn let_go(&mut self) {
        *self.0 = true;
    }
}

/// Something that is mounted.
pub(crate) struct MountState {
    pub(crate) mount: fuse::Mount,
    pub(crate) files: Arc<Files>,
    /// With its snapshots, unless it is one.
    pub(crate) mounted: Option<Arc<Mounted>>,
    /// What was asked of it.
    pub(crate) meter: Arc<FilesMeter>,
    pub(crate) place: Place,
    pub(crate) read_only: bool,
    /// Whether that is where the property says, rather than where the command did.
    pub(crate) by_property: bool,
    /// Whether it may be mounted over a directory that is not empty.
    pub(crate) overlay: bool,
    /// What the command that mounted it said of what it allows.
    pub(crate) allowed: Allowed,
    /// For as long as it is mounted.
    pub(crate) _counted: Counted,
}

impl MountState {
    /// Where it is mounted.
    pub(crate) fn dir(&self) -> PathBuf {
        self.place.path()
    }
}

impl Imported {
    /// Looks after a pool from now on.
    pub(crate) fn new(
        pool: Pool,
        accepted: &Arc<Acceptances>,
        alarm: &Arc<Alarm>,
    ) -> Arc<Imported> {
        let imported = Arc::new(Imported {
            pool,
            accepted: Arc::clone(accepted),
            admin: Mutex::default(),
            keys: Mutex::default(),
            key_uses: Arc::default(),
            mounts: Mutex::default(),
            not_mounted_again: Mutex::default(),
            volumes: Mutex::default(),
            reencryption_waits: Mutex::default(),
            alarm: Arc::clone(alarm),
            leaving: AtomicBool::new(false),
            keeper: Mutex::default(),
            open: Open::default(),
        });
        imported.hire_keeper();
        imported
    }

    /// Waits until no other command works on the pool. Nobody is asked anything while this is held.
    pub(crate) fn lock(&self) -> Result<Admin<'_>> {
        let gone = self.admin.lock();
        match *gone {
            false => Ok(Admin(gone)),
            true => Err(Failure::new(
                FailureKind::NotFound,
                format!("pool '{}' was exported meanwhile", self.pool.name()),
            )),
        }
    }

    /// The same, unless another command works on the pool now: for the pool's thread, which a command that
    /// exports the pool waits for.
    pub(crate) fn try_lock(&self) -> Option<Admin<'_>> {
        self.admin.try_lock().filter(|gone| !**gone).map(Admin)
    }

    /// Starts the pool's thread.
    pub(crate) fn hire_keeper(self: &Arc<Self>) {
        if self.pool.is_read_only() {
            return;
        }
        self.leaving.store(false, Ordering::Release);
        let weak = Arc::downgrade(self);
        let alarm = Arc::clone(&self.alarm);
        let keeper = std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || keep(&weak, &alarm))
            .expect("threads can be started");
        *self.keeper.lock() = Some(keeper);
    }

    /// Exports the pool, of which nothing is mounted any more, and forgets its keys. If that fails,
    /// it is looked after as before.
    pub(crate) fn export(self: &Arc<Self>, admin: &mut Admin<'_>) -> Result<()> {
        self.dismiss_keeper();
        match self.pool.export() {
            Err(error) if self.pool.suspended().is_none() => {
                self.hire_keeper();
                Err(error.into())
            }
            // Of a suspended pool nothing can be written any more; what was synced is there.
            _ => {
                self.keys.lock().clear();
                admin.let_go();
                Ok(())
            }
        }
    }

    /// What is remembered of it.
    pub(crate) fn known(&self) -> KnownPool {
        let devices = self.pool.devices().into_iter();
        KnownPool {
            guid: Some(self.pool.guid()),
            devices: devices
                .map(|device| KnownDevice {
                    path: device.path.into(),
                    guid: Some(device.guid),
                })
                .collect(),
            read_only: self.pool.is_read_only(),
        }
    }

    /// Tells when its devices are closed.
    pub(crate) fn departure(&self) -> Arc<Departure> {
        Arc::clone(&self.open.0)
    }

    /// Wakes the pool's thread, for work that it may not know of.
    pub(crate) fn wake(&self) {
        self.alarm.ring();
    }

    /// What is open for changes: in the rest nothing can be given back.
    fn open_files(&self) -> Vec<Arc<Files>> {
        let files = self
            .used_ids()
            .into_iter()
            .filter_map(|id| self.files_of(id));
        files
            .filter(|files| files.is_writable() && !files.settings().read_only)
            .collect()
    }

    /// Does what has to be done from time to time: whether there is more to do at once, and what could not be
    /// done. One thing that cannot be done holds up no other.
    fn tend(&self) -> (bool, pool::Result<()>) {
        let pool = &self.pool;
        if let Err(error) = pool.commit() {
            return (false, Err(error));
        }
        let mut more = self.give_space_back();
        more |= self.tend_reencryption(&self.open_files());
        more |= pool.space().freeing > 0;
        let jobs = [
            pool.use_spares().map(|_| false),
            pool.heal().map(|_| false),
            self.expand_by_itself().map(|()| false),
            pool.resilver_step(SCRUB_STEP),
            pool.removal_step(SCRUB_STEP),
            pool.scrub_step(SCRUB_STEP),
        ];
        let mut outcome = Ok(());
        for job in jobs {
            match job {
                Ok(has_more) => more |= has_more,
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        (more, outcome)
    }

    /// Empties what nothing refers to any more. True if more of that waits for the next commit.
    fn give_space_back(&self) -> bool {
        let mut more = false;
        for files in self.open_files() {
            if files.has_dead() {
                let emptied = files.reap_dead();
                if let Err(error) = emptied.and_then(|()| Ok(self.pool.commit()?)) {
                    tracing::warn!(%error, dataset = files.name(), "space could not be given back yet");
                }
            }
            // What was added to the list since waits for the next commit.
            more |= files.has_dead();
        }
        more
    }

    /// Whether the pool's thread runs.
    #[cfg(test)]
    pub(crate) fn has_keeper(&self) -> bool {
        self.keeper
            .lock()
            .as_ref()
            .is_some_and(|keeper| !keeper.is_finished())
    }

    /// Ends the pool's thread, and waits for it.
    pub(crate) fn dismiss_keeper(&self) {
        self.leaving.store(true, Ordering::Release);
        self.alarm.ring();
        if let Some(keeper) = self.keeper.lock().take()
            && keeper.join().is_err()
        {
            tracing::error!(
                pool = self.pool.name(),
                "the pool's thread had died; this is a defect of the program"
            );
        }
    }
}

fn keep(imported: &Weak<Imported>, alarm: &Alarm) {
    let Some(name) = imported.upgrade().map(|imported| imported.pool.name()) else {
        return;
    };
    // What the layers below say is about this pool.
    let _span = tracing::error_span!("keeper", pool = name).entered();
    let mut rung = 0;
    let mut trouble = None;
    loop {
        let more = match imported.upgrade() {
            None => return,
            Some(imported) if imported.leaving.load(Ordering::Acquire) => return,
            Some(imported) => {
                let (more, outcome) = imported.tend();
                let error = outcome.err().map(|error| error.to_string());
                // It comes again every few seconds; it is said once.
                if let Some(error) = error
                    .as_ref()
                    .filter(|error| trouble.as_ref() != Some(*error))
                {
                    tracing::error!(error, "the pool needs attention: strongroom pool status");
                }
                trouble = error;
                more
            }
        };
        if !more {
            rung = alarm.wait(rung, COMMIT_INTERVAL);
        }
    }
}
