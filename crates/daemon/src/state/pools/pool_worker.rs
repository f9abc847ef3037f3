//! The pool worker: the thread of a pool that commits and does the background work.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dataset::Dataset;
use pool::{Pool, SweepKind};
use protocol::property::Property;

use crate::host::identity::this_claimant;
use crate::host::process::wakeup::Wakeup;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::events::{PoolObservation, changes};
use crate::state::pools::images::image_copies;

/// The longest time that a transaction group stays open.
pub(crate) const COMMIT_INTERVAL: Duration = Duration::from_secs(5);
/// The sleep of the thread for heartbeats while there are none, and of the one for reservations. A change of the
/// property wakes them.
const IDLE: Duration = Duration::from_secs(3600);
/// The bytes that a scrub reads at a time.
const SCRUB_STEP: u64 = 32 << 20;
/// The bytes that a trim discards at a time.
const TRIM_STEP: u64 = 128 << 20;

impl ActivePool {
    /// Starts the worker, and the threads for heartbeats and reservations.
    ///
    /// # Errors
    /// A thread cannot be started. The worker may run then: [`ActivePool::stop_worker`] ends it.
    pub(crate) fn start_worker(self: &Arc<Self>) -> io::Result<()> {
        if self.pool.is_read_only() {
            return Ok(());
        }
        let (wakeup, leaving) = self.threads.begin();
        let all = || {
            (
                Arc::downgrade(self),
                Arc::clone(&wakeup),
                Arc::clone(&leaving),
            )
        };
        let (weak, wakeup, leaving) = all();
        let work = move || run(&weak, &wakeup, &leaving);
        self.threads.start_worker(work)?;
        let (weak, wakeup, leaving) = all();
        let follow = move || image_copies::run(&weak, &wakeup, &leaving);
        self.threads.start_watcher("pool-follower", true, follow)?;
        for watch in [&HEARTBEATS, &RESERVATIONS] {
            let (weak, wakeup, leaving) = all();
            let work = move || watch.run(&weak, &wakeup, &leaving);
            self.threads
                .start_watcher(watch.thread, watch.may_stay, work)?;
        }
        Ok(())
    }

    /// Starts the worker again, of a pool that stays imported because it could not be exported or destroyed.
    pub(crate) fn restart_worker(self: &Arc<Self>) {
        if let Err(error) = self.start_worker() {
            let pool = self.pool.name();
            tracing::error!(%error, pool, "a thread of the pool could not be started: export the pool, and import it again");
        }
    }

    /// Reserves the devices before a property says that they are.
    pub(crate) fn claim_for(
        &self,
        changes: &[(String, Option<String>)],
    ) -> pool::Result<ClaimsInAccord<'_>> {
        let is_wish = |(key, value): &(String, Option<String>)| {
            key == "reservations" && value.as_deref() == Some("on")
        };
        if changes.iter().any(is_wish) && !self.pool.multihost().is_claimed() {
            let by = this_claimant(self.pool.guid());
            self.pool.multihost().claim_devices(&by)?;
        }
        Ok(ClaimsInAccord(self))
    }

    /// Applies a change of the property `multihost` to the heartbeats.
    pub(crate) fn follow_multihost<'a>(
        &self,
        mut changed: impl Iterator<Item = &'a str>,
    ) -> pool::Result<()> {
        if !changed.any(|key| matches!(key, "multihost" | "reservations")) {
            return Ok(());
        }
        self.pool.multihost().beat()?;
        // The thread that goes on sleeps long.
        self.wake();
        Ok(())
    }

    /// Applies the property `devicedeadline`: how long a write waits for a device that the pool can do without.
    pub(crate) fn follow_deadline(&self) {
        const NAME: &str = "devicedeadline";
        let Ok(top) = self.pool.top() else { return };
        let word = top.props.get(NAME).map(String::as_str);
        let word = word.or_else(|| Property::find(NAME).map(|property| property.default));
        let word = word.unwrap_or_default();
        let seconds = word
            .strip_suffix('s')
            .and_then(|number| number.parse().ok());
        self.pool
            .set_device_deadline(seconds.map_or(Duration::MAX, Duration::from_secs));
    }

    /// Wakes the worker, because there may be new work.
    pub(crate) fn wake(&self) {
        self.threads.wake();
    }

    /// The open datasets that can be changed. Only in these can space be freed.
    fn open_files(&self) -> Vec<Arc<Dataset>> {
        let dataset = self
            .used_ids()
            .into_iter()
            .filter_map(|id| self.files_of(id));
        dataset
            .filter(|dataset| dataset.is_writable() && !dataset.settings().read_only)
            .collect()
    }

    /// Does periodic work. Returns whether there is more work now, and a failure. A failure does not stop other work.
    fn tend(&self) -> (bool, pool::Result<()>) {
        let pool = &self.pool;
        if let Err(error) = pool.commit() {
            return (false, Err(error));
        }
        self.note_seen_in_time();
        let mut more = self.give_space_back();
        more |= self.tend_reencryption(&self.open_files());
        more |= pool.space().freeing > 0;
        let jobs = [
            pool.resilverer().use_spares().map(|_| false),
            pool.scrubber().heal().map(|_| false),
            self.expand_by_itself().map(|()| false),
            self.snapshots_by_schedule().map(|()| false),
            self.destroy_due().map(|()| false),
            self.scrub_by_schedule().map(|()| false),
            pool.resilverer().step(SCRUB_STEP),
            pool.removal().step(SCRUB_STEP),
            pool.scrubber().step(SCRUB_STEP),
            pool.sweeper().step(SweepKind::Trim, TRIM_STEP),
            pool.sweeper().step(SweepKind::Initialize, SCRUB_STEP),
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

    /// Destroys the snapshots that wait for it, unless a command works on the pool. That one wakes the worker again, or it
    /// comes again by itself.
    fn destroy_due(&self) -> pool::Result<()> {
        match self.try_lock() {
            None => Ok(()),
            Some(_admin) => self.pool.destroy_due(),
        }
    }

    /// Frees the space of deleted data. True if more waits for the next commit.
    fn give_space_back(&self) -> bool {
        let mut more = false;
        for dataset in self.open_files() {
            if dataset.has_dead() {
                let emptied = dataset.free_dead_slots();
                if let Err(error) = emptied.and_then(|()| Ok(self.pool.commit()?)) {
                    tracing::warn!(%error, dataset = dataset.name(), "space could not be given back yet");
                }
            }
            // What was added to the list since waits for the next commit.
            more |= dataset.has_dead();
        }
        more
    }

    /// Adds the events since the last call.
    pub(crate) fn observe(&self) {
        // Held until the events are told, so that they are told once and in order.
        let mut before = self.observed.lock();
        let now = PoolObservation::of(&self.pool, self.keys.roots()).after(&before);
        for (class, text) in changes(&before, &now) {
            self.events.add(class, &self.pool.name(), &text);
        }
        *before = now;
    }

    /// Returns whether the worker runs.
    #[cfg(test)]
    pub(crate) fn has_worker(&self) -> bool {
        self.threads.has_worker()
    }

    /// Ends the threads of the pool, and waits for them.
    pub(crate) fn stop_worker(&self) {
        self.threads.tell_to_end();
        self.image.end();
        if !self.threads.join() {
            tracing::error!(
                pool = self.pool.name(),
                "a thread of the pool had died; this is a defect of the program"
            );
        }
        self.pool.follower().disconnect();
    }
}

/// Ends the reservations when this is dropped, if no property asks for them.
pub(crate) struct ClaimsInAccord<'a>(&'a ActivePool);

impl Drop for ClaimsInAccord<'_> {
    fn drop(&mut self) {
        let pool = &self.0.pool;
        if pool.multihost().is_claimed() && matches!(pool.multihost().wants_claims(), Ok(false)) {
            pool.multihost().release_devices();
        }
    }
}

/// A thread that shows, or makes sure, that the pool is this host's own. It waits for no other work on the pool, and one
/// such thread does not wait for another: a disk may take long to answer.
struct WatchThread {
    thread: &'static str,
    step: fn(&Pool) -> pool::Result<()>,
    /// Returns whether the properties of the pool ask for the thread.
    is_wanted: fn(&Pool) -> bool,
    /// True if the pool can be exported while the thread waits for a disk: it writes nothing.
    may_stay: bool,
}

const HEARTBEATS: WatchThread = WatchThread {
    thread: "pool-heartbeat",
    step: |pool| pool.multihost().beat(),
    is_wanted: |pool| pool.multihost().is_on().unwrap_or(false),
    may_stay: false,
};

const RESERVATIONS: WatchThread = WatchThread {
    thread: "pool-claims",
    step: |pool| pool.multihost().check_claims(),
    is_wanted: |pool| pool.multihost().is_claimed(),
    may_stay: true,
};

impl WatchThread {
    fn run(&self, active: &Weak<ActivePool>, wakeup: &Wakeup, leaving: &AtomicBool) {
        let mut woken = 0;
        let mut trouble = None;
        loop {
            let time = match active.upgrade() {
                None => return,
                Some(_) if leaving.load(Ordering::Acquire) => return,
                Some(active) => {
                    let error = (self.step)(&active.pool).err();
                    let error = error.map(|error| error.to_string());
                    if let Some(error) = error.as_ref().filter(|it| trouble.as_ref() != Some(*it)) {
                        let pool = active.pool.name();
                        tracing::error!(
                            pool,
                            error,
                            "this host cannot show that the pool is its own"
                        );
                    }
                    trouble = error;
                    match (self.is_wanted)(&active.pool) {
                        true => pool::HEARTBEAT_INTERVAL,
                        false => IDLE,
                    }
                }
            };
            woken = wakeup.wait(woken, time);
        }
    }
}

fn run(active: &Weak<ActivePool>, wakeup: &Wakeup, leaving: &AtomicBool) {
    let Some(name) = active.upgrade().map(|active| active.pool.name()) else {
        return;
    };
    // What the layers below say is about this pool.
    let _span = tracing::error_span!("pool-worker", pool = name).entered();
    let mut woken = 0;
    let mut trouble = None;
    loop {
        let more = match active.upgrade() {
            None => return,
            Some(_) if leaving.load(Ordering::Acquire) => return,
            Some(active) => {
                // Where it may not, the thread of the device has said so.
                let _ = threads::be_flusher();
                let tend = AssertUnwindSafe(|| active.tend());
                // Without its worker the pool would look sound, and nothing would become durable by itself.
                let (more, outcome) = catch_unwind(tend).unwrap_or_else(|_| {
                    active
                        .pool
                        .suspend_after_panic("the work in the background");
                    (false, active.pool.check_writable())
                });
                active.observe();
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
            woken = wakeup.wait(woken, COMMIT_INTERVAL);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::host::pool_lock::PoolLock;
    use std::path::Path;

    use block::{BlockDevice, MemoryDevice};
    use pool::{DatasetKind, Host, NewDataset, Origin, SuspensionEnd};
    use store::{CreateOptions, Store};

    use super::*;
    use crate::host::process::system::System;
    use crate::state::keys::acceptances::Acceptances;
    use crate::state::memory::StateDir;

    /// A device whose discards end in a panic.
    struct PanickingDevice(MemoryDevice);

    impl BlockDevice for PanickingDevice {
        block::delegate!(self => self.0; size refresh_size sector_sizes name claim check_unreserved read_at write_at
            write_durably_at write_in_place waits_on_write would_wait io_mode settle flush order drop_cached begin_anew
            zero zero_fast is_blank status_at overwrite);

        fn discard(&self, _: u64, _: u64) -> block::Result<()> {
            panic!("a fault for a test");
        }
    }

    #[test]
    fn a_panic_suspends_the_pool() {
        let dir = tempfile::tempdir().unwrap();
        let device = Arc::new(PanickingDevice(MemoryDevice::new(64 << 20)));
        let active = active_pool(dir.path(), device).1;
        assert_eq!(active.pool.suspended(), None);
        active.pool.sweeper().start(SweepKind::Trim, None);
        active.wake();
        while active.pool.suspended().is_none() {
            std::thread::yield_now();
        }
        let reason = active.pool.suspended().unwrap();
        assert!(reason.contains("a fault of the program"), "{reason}");
        assert_eq!(active.pool.suspended_until(), Some(SuspensionEnd::Imported));
        active.stop_worker();
    }

    #[test]
    fn heartbeats_follow_each_other_once_they_are_switched_on() {
        let dir = tempfile::tempdir().unwrap();
        let device = Arc::new(MemoryDevice::new(64 << 20));
        let (store, active) = active_pool(dir.path(), device);
        let last = || store.heartbeats().unwrap().into_iter().map(|it| it.0).max();
        assert_eq!(last(), None);
        let origin = Origin {
            who: "test".into(),
            text: "test".into(),
            uid: None,
        };
        let on = ("multihost".to_owned(), Some("on".to_owned()));
        active
            .pool
            .set_props(&["tank".into()], &[on], &origin)
            .unwrap();
        active.follow_multihost(["multihost"].into_iter()).unwrap();
        assert!(last().is_some());
        while last() < Some(3) {
            std::thread::yield_now();
        }
        // And by which time a device has to answer.
        assert_eq!(store.deadline(), Duration::from_secs(10));
        for (word, deadline) in [("30s", Duration::from_secs(30)), ("off", Duration::MAX)] {
            let change = ("devicedeadline".to_owned(), Some(word.to_owned()));
            let set = active.pool.set_props(&["tank".into()], &[change], &origin);
            set.unwrap();
            active.follow_deadline();
            assert!(store.deadline() >= deadline.min(Duration::from_millis(u64::MAX)));
        }
        active.stop_worker();
    }

    /// A new pool on a device, which is not in the table.
    pub(in crate::state::pools) fn active_pool(
        dir: &Path,
        device: Arc<dyn BlockDevice>,
    ) -> (Arc<Store>, Arc<ActivePool>) {
        let options = CreateOptions {
            pool_guid: 7,
            device_guids: vec![8],
            created: 1,
            force: false,
        };
        let store = Arc::new(Store::create(vec![device], &options).unwrap());
        let top = NewDataset {
            kind: DatasetKind::FileSystem,
            guid: 9,
            suite: 0,
            keyring: None,
            is_key_root: false,
            props: [].into(),
        };
        let pool = Pool::create(Arc::clone(&store), Arc::new(System), "tank", top).unwrap();
        let host = Host {
            id: 1,
            name: "a".into(),
        };
        pool.claim(host).unwrap();
        store.commit_labels().unwrap();
        let accepted = Acceptances::new(&Arc::new(StateDir::new(dir)));
        let active = ActivePool::new(
            (pool, PoolLock::none()),
            &accepted,
            &Arc::default(),
            &Arc::default(),
            &Arc::default(),
            None,
        )
        .unwrap();
        (store, active)
    }
}
