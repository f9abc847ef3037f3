//! Scrubs by commands and by schedule, and the report of a late scrub.

use pool::{Origin, Pool, ScrubPhase};
use protocol::api::{ScrubEstimate, StoreIo};

use crate::failure::Result;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::ops::devices::stores::store_prices::priced;
use crate::ops::pools::background::BackgroundWork;
use crate::state::callers::context::CallerContext;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::schedule::DAY;

/// Without a schedule, a scrub is late after this time.
const LATE_WITHOUT: u64 = 90 * DAY;

const SCRUB: BackgroundWork = BackgroundWork {
    noun: "scrub",
    end: "pool scrub -s",
    ended: "stopped",
};

/// The most bytes of an object: a scrub of a pool on an object store takes a request for each, if nothing is small.
const BYTES_PER_REQUEST: u64 = 8 << 20;

impl ActivePool {
    /// Starts a scrub, or stops or pauses the one that runs. If requests have to be paid, it first tells the caller how
    /// many there will be.
    pub(crate) fn scrub(
        &self,
        stop: bool,
        pause: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let pool = &self.pool;
        let _admin = self.lock(context.decision)?;
        let name = pool.name();
        let phase = pool.scrubber().status().phase;
        SCRUB.check(phase, (stop, pause), &name)?;
        pool.record(&context.origin())?;
        if stop {
            pool.scrubber().stop()?;
        } else if pause {
            pool.scrubber().pause()?;
        } else {
            let estimate = self.scrub_estimate();
            if estimate.store.is_some() {
                context.channel.notice(estimate.to_string());
            }
            pool.scrubber().start()?;
            self.wake();
        }
        Ok(())
    }

    /// The amount that a scrub would read, or has still to read if it is paused.
    pub(crate) fn scrub_estimate(&self) -> ScrubEstimate {
        let scrub = self.pool.scrubber().status();
        let bytes = match scrub.phase {
            ScrubPhase::Running | ScrubPhase::Paused => scrub.total.saturating_sub(scrub.examined),
            _ => {
                let space = self.pool.space();
                space.total.saturating_sub(space.free)
            }
        };
        let mut paths = self.pool.devices().into_iter().map(|device| device.path);
        let store = paths.find(is_on_store);
        let requests = store
            .as_ref()
            .map_or(0, |_| bytes.div_ceil(BYTES_PER_REQUEST));
        let io = StoreIo {
            gets: requests,
            received: bytes,
            ..StoreIo::default()
        };
        let io = store.as_ref().map(|path| priced(io, path));
        ScrubEstimate {
            pool: self.pool.name(),
            bytes,
            store,
            requests,
            cost: io.as_ref().and_then(|io| io.cost),
            currency: io.and_then(|io| io.currency),
        }
    }

    /// Starts a scrub if it is due by the property. A paused scrub continues then.
    pub(crate) fn scrub_by_schedule(&self) -> pool::Result<()> {
        let pool = &self.pool;
        let Some((word, every)) = period(pool)? else {
            return Ok(());
        };
        let is_running = pool.scrubber().status().phase == ScrubPhase::Running;
        if is_running || !self.scrubs.is_due(last(pool), every, pool.now()) {
            return Ok(());
        }
        let Some(_admin) = self.try_lock().filter(|_| pool.suspended().is_none()) else {
            return Ok(());
        };
        pool.record(&Origin {
            who: "strongroom".into(),
            text: format!("pool scrub {}, by scrub-schedule={word}", pool.name()),
            uid: None,
        })?;
        tracing::info!("a scrub starts by its schedule");
        pool.scrubber().start()
    }
}

/// The value of the property, and its period in seconds.
fn period(pool: &Pool) -> pool::Result<Option<(&'static str, u64)>> {
    let top = pool.top()?;
    Ok(match top.props.get("scrub-schedule").map(String::as_str) {
        Some("weekly") => Some(("weekly", 7 * DAY)),
        Some("monthly") => Some(("monthly", 30 * DAY)),
        _ => None,
    })
}

/// The time when the last scrub began. Before the first scrub it is the time when the pool was made.
fn last(pool: &Pool) -> u64 {
    match pool.scrubber().status() {
        scrub if scrub.phase == ScrubPhase::None => pool.superblock().created,
        scrub => scrub.started,
    }
}

/// The message about a scrub that is late.
pub(crate) fn late(pool: &Pool) -> Option<String> {
    let limit = match period(pool).ok()? {
        Some((_, every)) => 2 * every,
        None => LATE_WITHOUT,
    };
    let scrub = pool.scrubber().status();
    let age = pool.now().saturating_sub(last(pool));
    if age <= limit || scrub.phase == ScrubPhase::Running {
        return None;
    }
    let (days, name) = (age / DAY, pool.name());
    Some(match scrub.phase {
        ScrubPhase::None => {
            format!("no scrub ran in {days} days: strongroom pool scrub {name}")
        }
        _ => format!("the last scrub began {days} days ago: strongroom pool scrub {name}"),
    })
}

#[cfg(test)]
mod tests {
    use crate::host::pool_lock::PoolLock;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use block::FileDevice;
    use pool::{DatasetKind, Env, NewDataset};
    use protocol::api::FailureKind;
    use store::{CreateOptions, Store};

    use super::*;
    use crate::host::process::wakeup::Wakeup;
    use crate::ops::pools::report::report;
    use crate::state::keys::acceptances::Acceptances;
    use crate::state::memory::StateDir;
    use crate::tests::command;

    const BEGIN: u64 = 1_700_000_000;

    /// A clock that is set by hand.
    struct Clock(AtomicU64);

    impl Env for Clock {
        fn now(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn guid(&self) -> u64 {
            crate::host::process::system::new_guid()
        }
    }

    /// A pool with a schedule whose clock is set by hand.
    fn pool(dir: &std::path::Path, clock: &Arc<Clock>, schedule: &str) -> Arc<ActivePool> {
        let device = FileDevice::create(&dir.join("pool"), 64 << 20).unwrap();
        let options = CreateOptions {
            pool_guid: 7,
            device_guids: vec![8],
            created: BEGIN,
            force: false,
        };
        let store = Arc::new(Store::create(vec![Arc::new(device)], &options).unwrap());
        let top = NewDataset {
            kind: DatasetKind::FileSystem,
            guid: 9,
            suite: 0,
            keyring: None,
            is_key_root: false,
            props: [("scrub-schedule".to_owned(), schedule.to_owned())].into(),
        };
        let env: Arc<dyn Env> = Arc::clone(clock) as Arc<dyn Env>;
        let pool = Pool::create(Arc::clone(&store), env, "tank", top).unwrap();
        store.commit_labels().unwrap();
        let accepted = Acceptances::new(&Arc::new(StateDir::new(dir)));
        let wakeup = Arc::new(Wakeup::default());
        let active = ActivePool::new(
            (pool, PoolLock::none()),
            &accepted,
            &wakeup,
            &Arc::default(),
            &Arc::default(),
            None,
        )
        .unwrap();
        // Only the test does what there is to do.
        active.stop_worker();
        active
    }

    fn starts(active: &ActivePool) -> usize {
        let history = active.pool.history().unwrap();
        let by_schedule = history
            .iter()
            .filter(|line| line.text.contains(", by scrub-schedule="));
        by_schedule.count()
    }

    fn tend(active: &ActivePool) {
        active.scrub_by_schedule().unwrap();
        while active.pool.scrubber().step(32 << 20).unwrap() {}
    }

    #[test]
    fn scrubs_follow_the_schedule_and_not_the_changes_of_the_clock() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock(AtomicU64::new(BEGIN)));
        let active = pool(dir.path(), &clock, "weekly");
        let at = |days: u64| {
            clock.0.store(BEGIN + days * DAY, Ordering::Relaxed);
            tend(&active);
            starts(&active)
        };
        assert_eq!((at(0), at(6)), (0, 0));
        assert_eq!((at(7), at(8), at(13)), (1, 1, 1));
        assert_eq!(at(14), 2);
        // The daemon was off: one scrub, soon.
        assert_eq!((at(100), at(101)), (3, 3));
        // The clock is set forward by a year and back.
        assert_eq!((at(465), at(102), at(103)), (4, 4, 4));
        assert_eq!((at(109), at(110)), (5, 5));
    }

    #[test]
    fn a_scrub_is_paused_continued_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock(AtomicU64::new(BEGIN)));
        let active = pool(dir.path(), &clock, "off");
        let scrub = |stop: bool, pause: bool| {
            let done = command(|context| active.scrub(stop, pause, context));
            done.map_err(|failure| failure.kind)
        };
        let state = || report(&active, false).unwrap().scrub.state;
        assert_eq!(scrub(false, true), Err(FailureKind::NotFound));
        assert_eq!(scrub(true, false), Err(FailureKind::NotFound));
        assert_eq!(scrub(false, false), Ok(()));
        assert_eq!(scrub(false, false), Err(FailureKind::Busy));
        assert_eq!(scrub(false, true), Ok(()));
        assert_eq!(state(), "paused");
        assert_eq!(scrub(false, true), Err(FailureKind::NotFound));
        assert_eq!(scrub(false, false), Ok(()));
        assert_eq!(state(), "running");
        assert_eq!((scrub(false, true), scrub(true, false)), (Ok(()), Ok(())));
        assert_eq!(state(), "stopped");
    }

    #[test]
    fn a_late_scrub_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock(AtomicU64::new(BEGIN)));
        let active = pool(dir.path(), &clock, "off");
        let late_at = |days: u64| {
            clock.0.store(BEGIN + days * DAY, Ordering::Relaxed);
            late(&active.pool)
        };
        assert_eq!(late_at(89), None);
        assert!(late_at(91).unwrap().contains("no scrub ran in 91 days"));
        active.pool.scrubber().start().unwrap();
        assert_eq!(late_at(300), None, "it runs");
        tend(&active);
        assert!(late_at(301).unwrap().contains("began 210 days ago"));
        assert_eq!(starts(&active), 0, "there is no schedule");
    }
}
