//! Devices of readers over outages of their store.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use block::{BlockDevice, DeviceAccess};
use bytes::Bytes;

use super::damage::exported;
use super::ledger::{BLOCK, DURABLE, FACTS, ORDERED, offset_of};
use super::simulation::LIMITS;
use super::store::FrozenStore;
use super::world::{InstantExecutor, at_once};
use crate::device::block_device::ObjectDevice;
use crate::device::line::Line;
use crate::line::names;
use crate::store::{Creation, ListedObject, ObjectStore, Part, RequestFuture, executor};
use crate::{Error, OutageObserver, Result, StorePatience};

/// A store that answers, or does not.
struct FickleStore {
    store: FrozenStore,
    is_away: Arc<AtomicBool>,
    /// The number of the first requests that have no answer.
    lost: AtomicUsize,
}

impl FickleStore {
    fn answer<'a, T: Send + 'a>(
        &self,
        object: &str,
        answer: RequestFuture<'a, Result<T>>,
    ) -> RequestFuture<'a, Result<T>> {
        let one_less = |lost: usize| lost.checked_sub(1);
        let is_lost = self
            .lost
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok();
        if !is_lost && !self.is_away.load(Ordering::Relaxed) {
            return answer;
        }
        let error = Error::Unanswered {
            store: self.address(),
            operation: "get",
            object: object.into(),
            reason: "simulated".into(),
        };
        Box::pin(async { Err(error) })
    }
}

impl ObjectStore for FickleStore {
    fn address(&self) -> String {
        self.store.address()
    }

    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>> {
        self.store.create(name, bytes)
    }

    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>> {
        self.store.replace(name, bytes)
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        self.answer(name, self.store.get(name, range))
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        self.answer(prefix, self.store.list(prefix, after, limit))
    }

    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>> {
        self.store.delete(name)
    }
}

/// Lets a request of a device end because its store does not answer.
fn give_up(device: &ObjectDevice) {
    let monitor = device.monitor();
    let listed = thread::scope(|scope| {
        let list = scope.spawn(|| device.is_current());
        while monitor.outage().is_none() && !list.is_finished() {
            thread::yield_now();
        }
        monitor.give_up();
        list.join().expect("a request")
    });
    assert!(listed.is_err(), "the store does not answer");
}

/// A reader looks at the line to explain an object that is missing, while other threads ask whether its state is the newest.
#[test]
fn a_look_at_the_line_leaves_the_state_of_a_reader() {
    let schedule = exported();
    let store = Arc::new(FrozenStore {
        world: Arc::clone(&schedule.stage.world),
        has_checkpoints: true,
    });
    let line = Line::new(store, Arc::new(InstantExecutor), FACTS, (LIMITS, [9; 16]));
    at_once(line.open(None)).expect("the pool is whole");
    assert!(at_once(line.is_current()).expect("a list"));
    let writer = schedule.take(1);
    let written = schedule.finish(1, async move { writer.write_durably(DURABLE.start).await });
    written.expect("no other machine takes the line");
    let scan = at_once(line.scan(None)).expect("the pool is whole");
    assert!(scan.history.last > line.state().history.last);
    assert!(!at_once(line.is_current()).expect("a list"));
}

/// A pool that was exported, on a store that does not answer the first requests.
fn fickle(is_away: &Arc<AtomicBool>, lost: usize) -> Arc<FickleStore> {
    let schedule = exported();
    let world = &schedule.stage.world;
    let pool = (names::POOL.to_owned(), Bytes::from(FACTS.encode()));
    world.state().shelf.objects.extend([pool]);
    Arc::new(FickleStore {
        store: FrozenStore {
            world: Arc::clone(world),
            has_checkpoints: true,
        },
        is_away: Arc::clone(is_away),
        lost: lost.into(),
    })
}

#[test]
fn the_first_requests_of_a_device_are_repeated() {
    let store = fickle(&Arc::default(), 4);
    let waits: (_, OutageObserver) = (&Arc::default(), Arc::new(|| ()));
    let opened = ObjectDevice::open(store, executor(), DeviceAccess::ReadOnly, waits);
    opened.expect("the store answers soon");
}

#[test]
fn a_reader_that_was_given_up_is_opened_again_and_waits_as_before() {
    let is_away = Arc::new(AtomicBool::new(false));
    let store = fickle(&is_away, 0);
    let patience = Arc::new(StorePatience::default());
    let is_told = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_told);
    let observer: OutageObserver = Arc::new(move || told.store(true, Ordering::Relaxed));
    let waits = || (&patience, Arc::clone(&observer));
    let access = DeviceAccess::ReadOnly;
    let opened = ObjectDevice::open(store, executor(), access, waits());
    let mut device = opened.expect("the pool is whole");
    for _ in 0..3 {
        let newer = device.open_newer(waits());
        assert!(newer.expect("the store answers").is_none());
        is_away.store(true, Ordering::Relaxed);
        give_up(&device);
        assert!(is_told.swap(false, Ordering::Relaxed));
        assert!(device.open_newer(waits()).is_err());
        is_away.store(false, Ordering::Relaxed);
        let newer = device.open_newer(waits()).expect("the store answers");
        device = newer.expect("the older device has ended");
        let mut bytes = [0; BLOCK as usize];
        let read = device.read_at(offset_of(ORDERED.start), &mut bytes);
        read.expect("the store answers");
    }
}
