//! Imports of pools on object stores at the start. A store that does not answer, or refuses, is asked again until it answers.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use protocol::api::FailureKind;

use crate::ops::devices::layers::Carrier;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::state::daemon::Daemon;
use crate::state::memory::KnownPool;
use crate::state::pools::late_imports::FirstAttempt;

/// The first pause before a store is asked again. Each one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time that a late import has for the keys of its pool. A later key is used when it arrives.
const KEY_TIME: Duration = Duration::from_secs(20);

/// A pool of the last run that lies on an object store.
pub(super) struct StorePool {
    pub(super) name: String,
    pub(super) known: KnownPool,
    /// The devices of all pools of the last run.
    pub(super) places: Vec<PathBuf>,
}

/// Returns whether a pool lies on an object store.
pub(super) fn lies_on_store(known: &KnownPool) -> bool {
    known.devices.iter().any(|device| is_on_store(&device.path))
}

impl Daemon {
    /// Begins to import a pool in another thread, and goes on there until its store has answered.
    pub(super) fn begin_import(
        self: &Arc<Self>,
        pool: StorePool,
        keys_until: Instant,
    ) -> Arc<FirstAttempt> {
        let first = Arc::new(FirstAttempt::default());
        self.late_imports.begin(&pool.name);
        self.pool_table
            .note_absent(&pool.name, "its store has not answered yet");
        let (daemon, attempt) = (Arc::downgrade(self), Arc::clone(&first));
        let name = pool.name.clone();
        let work = move || {
            import_patiently(&daemon, &pool, keys_until, &attempt);
            if let Some(daemon) = daemon.upgrade() {
                daemon.late_imports.end(&pool.name);
            }
        };
        if let Err(error) = threads::start("late-import", work) {
            tracing::error!(pool = name, %error, "the pool is not imported: a thread cannot be started");
            self.late_imports.end(&name);
            first.end();
        }
        first
    }

    /// The reason why a store of a pool does not answer or refuses.
    fn trouble_of(&self, known: &KnownPool) -> Option<String> {
        let paths = known.paths().into_iter().filter(is_on_store);
        paths
            .filter_map(|path| self.store_trouble(&path.to_string_lossy()))
            .next()
    }

    /// Returns whether the pool still waits for its import.
    fn waits_for_import(&self, pool: &StorePool) -> bool {
        let absent = self.pool_table.absent().remove(&pool.name);
        !self.pool_table.is_stopping() && absent.is_some_and(|known| known.guid == pool.known.guid)
    }
}

/// Imports a pool as soon as its store answers. It ends too when the pool cannot be imported for a reason that is none of the
/// store, or is forgotten or imported by a command.
fn import_patiently(
    daemon: &Weak<Daemon>,
    pool: &StorePool,
    keys_until: Instant,
    first: &FirstAttempt,
) {
    let attempt = |keys_until| {
        let daemon = daemon.upgrade()?;
        Some(daemon.import_again(&pool.name, &pool.known, &pool.places, keys_until))
    };
    let mut outcome = attempt(keys_until);
    let is_late = first.end();
    if matches!(outcome, Some(Ok(()))) && !is_late {
        return;
    }
    let mut pause = FIRST_PAUSE;
    while let Some(Err(failure)) = outcome {
        let Some(waiting) = daemon.upgrade().filter(|it| it.waits_for_import(pool)) else {
            return;
        };
        match waiting.trouble_of(&pool.known) {
            Some(reason) => waiting.pool_table.note_absent(&pool.name, &reason),
            None if failure.kind == FailureKind::Device => {}
            // The store may have answered only after the attempt. Otherwise the failure is none of the store.
            None if pause == FIRST_PAUSE && is_doubtful(failure.kind) => {}
            None => return,
        }
        drop(waiting);
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
        // A command may have forgotten the pool, or imported it, during the pause.
        let Some(waiting) = daemon.upgrade().filter(|it| it.waits_for_import(pool)) else {
            return;
        };
        let trouble = waiting.trouble_of(&pool.known);
        drop(waiting);
        outcome = match trouble {
            Some(_) => Some(Err(failure)),
            None => attempt(Instant::now() + KEY_TIME),
        };
    }
    if let Some(daemon) = daemon.upgrade() {
        daemon.late_imports.end(&pool.name);
        daemon.import_above(&Carrier::Pool(pool.name.clone()));
        daemon.restore_offers();
    }
}

/// Returns whether a failure may have come from the store: it was away, or refused. Another pool at the address, or none, has
/// the same kinds of failures.
fn is_doubtful(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::NotFound | FailureKind::Permission)
}
