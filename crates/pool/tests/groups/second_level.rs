//! The second-level cache: what it holds is what the pool holds or nothing, whatever becomes of its
//! devices, and reads only become slower.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use block::BlockDevice;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use block::gate::GatedDevice;
use pool::{ArrayKind, CacheState, OpenDataset, Pool, SecondaryCache};

const CACHE_SIZE: usize = 4 << 20;
const GUID: u64 = 70;
const ALL: Fault = Fault::BadBytes {
    offset: 0,
    len: u64::MAX / 2,
};

struct Bench {
    device: Arc<FaultDevice>,
    cache: Arc<FaultDevice>,
    pool: Pool,
    dataset: Arc<OpenDataset>,
    data: BTreeMap<u64, u64>,
}

/// A pool with a hundred records of data, four pages, and a cache device that has read nothing yet.
fn bench() -> Bench {
    let clock = FaultClock::new();
    let device = fault_devices(1, &clock).remove(0);
    let cache = Arc::new(FaultDevice::new(CACHE_SIZE, &clock));
    let pool = create_on(std::slice::from_ref(&device));
    pool.cache_devices()
        .add(&new_member(&cache, GUID), &origin())
        .unwrap();
    let dataset = open_top(&pool);
    let data: BTreeMap<u64, u64> = (0..100).map(|n| (n * 7, sized(n, 1 + n % 6))).collect();
    for (slot, number) in &data {
        put(&pool, &dataset, ArrayKind::Data, *slot, *number).unwrap();
    }
    for slot in 0..4 {
        put(&pool, &dataset, ArrayKind::Pages, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    Bench {
        device,
        cache,
        pool,
        dataset,
        data,
    }
}

impl Bench {
    fn read_data(&self) -> pool::Result<BTreeMap<u64, u64>> {
        read_all(&self.dataset, ArrayKind::Data)
    }

    fn check_data(&self) {
        assert_eq!(self.read_data().unwrap(), self.data);
    }

    /// Reads everything, and waits until it is in the cache.
    fn warm_up(&self) {
        self.check_data();
        read_all(&self.dataset, ArrayKind::Pages).unwrap();
        self.pool.cache_devices().drain();
    }

    fn state(&self) -> CacheState {
        self.pool.cache_devices().list()[0].state
    }
}

fn open_top(pool: &Pool) -> Arc<OpenDataset> {
    pool.open_dataset(pool.top().unwrap().id).unwrap()
}

fn dynamic_one(device: &Arc<FaultDevice>) -> Arc<dyn BlockDevice> {
    Arc::clone(device) as Arc<dyn BlockDevice>
}

#[test]
fn what_was_read_once_is_read_from_the_cache() {
    let bench = bench();
    bench.warm_up();
    bench.device.inject(ALL);
    bench.check_data();
    read_all(&bench.dataset, ArrayKind::Pages).unwrap();
    let totals = bench.pool.cache_devices().totals();
    assert!(totals.hits >= 104, "{totals:?}");
    assert_eq!(totals.bytes, bench.pool.cache_devices().list()[0].held);
    // Without it nothing could have been read.
    bench.pool.cache_devices().take_offline(GUID);
    assert!(bench.read_data().is_err());
    assert_eq!(bench.state(), CacheState::Away);
}

#[test]
fn only_readers_of_open_datasets_look_there() {
    let bench = bench();
    bench.warm_up();
    let wanted = contents(bench.data[&350]);
    let bytes = bench.device.to_bytes();
    let at = bytes
        .windows(wanted.len())
        .step_by(4096)
        .position(|w| w == wanted);
    bench.device.flip(at.expect("it is there") as u64 * 4096, 1);
    bench.check_data();
    // A scrub says what the devices of the pool hold.
    assert_eq!(scrub_all(&bench.pool).errors, 1);
    bench.device.flip(at.unwrap() as u64 * 4096, 1);
    let before = bench.pool.cache_devices().totals();
    assert_eq!(scrub_all(&bench.pool).errors, 0);
    assert_clean(&bench.pool);
    assert_eq!(bench.pool.cache_devices().totals(), before);
}

#[test]
fn what_is_damaged_there_is_read_from_the_pool() {
    let bench = bench();
    bench.warm_up();
    for at in (128 << 10..CACHE_SIZE).step_by(4096) {
        bench.cache.flip(at as u64, 1 << (at / 4096 % 8));
    }
    bench.check_data();
    let cache = &bench.pool.cache_devices().list()[0];
    assert_eq!(cache.errors.checksum, 100);
    assert_eq!(cache.state, CacheState::Online);
    assert!(bench.pool.suspended().is_none());
    // It was replaced.
    bench.pool.cache_devices().drain();
    bench.device.inject(ALL);
    bench.check_data();
    assert_eq!(bench.pool.cache_devices().list()[0].errors.checksum, 100);
}

#[test]
fn a_device_that_cannot_be_read_is_done_without() {
    let bench = bench();
    bench.warm_up();
    bench.cache.inject(ALL);
    bench.check_data();
    assert_eq!(bench.state(), CacheState::Faulted);
    let errors = bench.pool.cache_devices().list()[0].errors;
    assert!((2..100).contains(&errors.read), "{errors:?}");
    put(&bench.pool, &bench.dataset, ArrayKind::Data, 1, 1).unwrap();
    bench.pool.commit().unwrap();
    assert_eq!(bench.pool.cache_devices().list()[0].held, 0);
}

#[test]
fn a_device_that_cannot_be_written_is_done_without() {
    for fault in [Fault::DeadFrom(0), Fault::FullAfter(0)] {
        let bench = bench();
        bench.cache.inject(fault);
        bench.warm_up();
        assert_eq!(bench.state(), CacheState::Faulted);
        assert_eq!(bench.pool.cache_devices().list()[0].errors.write, 1);
        bench.check_data();
        put(&bench.pool, &bench.dataset, ArrayKind::Data, 1, 1).unwrap();
        bench.pool.commit().unwrap();
        // It works again, and is used again after a command.
        bench.cache.heal();
        bench
            .pool
            .cache_devices()
            .bring_online(GUID, &dynamic_one(&bench.cache))
            .unwrap();
        assert_eq!(bench.state(), CacheState::Online);
        bench.read_data().unwrap();
        bench.pool.cache_devices().drain();
        assert!(bench.pool.cache_devices().list()[0].held > 0);
    }
}

#[test]
fn properties_say_what_goes_there() {
    for (secondary, data, pages) in [
        (SecondaryCache::All, true, true),
        (SecondaryCache::Metadata, false, true),
        (SecondaryCache::None, false, false),
    ] {
        let bench = bench();
        bench.dataset.set_keeping(true, secondary);
        bench.warm_up();
        bench.device.inject(ALL);
        assert_eq!(bench.read_data().is_ok(), data, "{secondary:?}");
        let read = read_all(&bench.dataset, ArrayKind::Pages);
        assert_eq!(read.is_ok(), pages, "{secondary:?}");
    }
}

#[test]
fn after_a_crash_it_is_known_and_after_a_clean_end_it_has_its_records() {
    let bench = bench();
    bench.warm_up();
    let Bench { device, cache, .. } = &bench;
    bench.pool.commit().unwrap();
    let reopened = open_on(&[copy_of(device)]).unwrap();
    let [info] = &reopened.cache_devices().list()[..] else {
        panic!("it is listed");
    };
    assert_eq!((info.guid, info.state), (GUID, CacheState::Away));
    let clock = FaultClock::new();
    let other: Arc<dyn BlockDevice> = Arc::new(FaultDevice::new(CACHE_SIZE, &clock));
    assert!(reopened.cache_devices().bring_online(GUID, &other).is_err());
    let same: Arc<dyn BlockDevice> = Arc::new(cache.copy(&clock));
    assert!(
        reopened
            .cache_devices()
            .bring_online(GUID + 1, &same)
            .is_err()
    );
    reopened.cache_devices().bring_online(GUID, &same).unwrap();
    let info = &reopened.cache_devices().list()[0];
    assert_eq!((info.held, info.state), (0, CacheState::Online));
    let dataset = open_top(&reopened);
    assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap(), bench.data);
    assert_eq!(reopened.cache_devices().totals().hits, 0);
    // Closed, it keeps its index.
    let held = bench.pool.cache_devices().list()[0].held;
    bench.pool.cache_devices().take_offline(GUID);
    let closed: Arc<dyn BlockDevice> = Arc::new(FaultDevice::from_bytes(cache.to_bytes(), &clock));
    reopened.cache_devices().take_offline(GUID);
    reopened
        .cache_devices()
        .bring_online(GUID, &closed)
        .unwrap();
    reopened.cache_devices().drain();
    assert_eq!(reopened.cache_devices().list()[0].held, held);
    assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap(), bench.data);
    assert!(reopened.cache_devices().totals().hits >= 100);
    assert_eq!(
        reopened.cache_devices().list()[0].errors,
        Default::default()
    );
}

#[test]
fn a_device_that_was_removed_belongs_to_no_pool() {
    let bench = bench();
    bench.warm_up();
    bench.pool.cache_devices().remove(GUID, &origin()).unwrap();
    assert!(bench.pool.cache_devices().list().is_empty());
    bench.check_data();
    assert!(bench.cache.to_bytes()[..128 << 10].iter().all(|b| *b == 0));
    // It is taken without force.
    let mut new = new_member(&bench.cache, GUID + 1);
    new.force = false;
    bench.pool.cache_devices().add(&new, &origin()).unwrap();
    assert_eq!(bench.pool.cache_devices().list().len(), 1);
    assert!(bench.pool.cache_devices().add(&new, &origin()).is_err());
    // One that is away can be removed too.
    bench.pool.cache_devices().take_offline(GUID + 1);
    bench
        .pool
        .cache_devices()
        .remove(GUID + 1, &origin())
        .unwrap();
    assert!(bench.pool.cache_devices().list().is_empty());
}

#[test]
fn what_is_overwritten_while_it_is_read_is_a_miss() {
    let clock = FaultClock::new();
    let device = fault_devices(1, &clock).remove(0);
    // For a few dozen records.
    let caches = [(); 2].map(|()| Arc::new(FaultDevice::new(1200 << 10, &clock)));
    let pool = create_on(std::slice::from_ref(&device));
    for (cache, guid) in caches.iter().zip(GUID..) {
        pool.cache_devices()
            .add(&new_member(cache, guid), &origin())
            .unwrap();
    }
    let dataset = open_top(&pool);
    for slot in 0..150 {
        put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 8)).unwrap();
    }
    pool.commit().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (dataset, pool) = (&dataset, &pool);
            scope.spawn(move || {
                let mut dice = Dice(thread);
                let mut buf = Vec::new();
                for round in 0..2000 {
                    let slot = dice.below(if round % 2 == 0 { 150 } else { 20 });
                    let mut is_whole = |ptr: &_, bytes: &[u8]| dataset.is_undamaged(ptr, bytes);
                    dataset
                        .read(ArrayKind::Data, slot, &mut buf, &mut is_whole)
                        .unwrap();
                    assert_eq!(buf, contents(sized(slot, 8)));
                    if round == 1000 && thread == 0 {
                        pool.cache_devices().take_offline(GUID);
                    }
                }
            });
        }
    });
    pool.cache_devices().drain();
    let totals = pool.cache_devices().totals();
    assert!(totals.hits > 0 && totals.misses > 0);
    assert!(totals.bytes <= totals.capacity);
    for cache in pool.cache_devices().list() {
        assert_eq!(cache.errors, Default::default());
    }
}

/// The power fails at any write while a cache device joins, is filled and leaves.
#[test]
fn a_power_cut_leaves_a_pool_that_has_it_or_not() {
    let bench = bench();
    bench.warm_up();
    bench.pool.cache_devices().remove(GUID, &origin()).unwrap();
    let Bench {
        device,
        cache,
        data,
        ..
    } = &bench;
    let (of_pool, of_cache) = (device.take_journal(), cache.take_journal());
    let first = of_cache.times()[0];
    let mut times = of_pool.times();
    times.extend(of_cache.times());
    times.retain(|time| *time >= first);
    let (mut with, mut without) = (0, 0);
    for cut in times {
        for survival in [Survival::None, Survival::Seeded(cut)] {
            let pool = open_on(&after_cut([&of_pool], cut, survival)).unwrap();
            assert_clean(&pool);
            match &pool.cache_devices().list()[..] {
                [] => without += 1,
                [listed] => {
                    with += 1;
                    let device =
                        after_cut([&of_cache], cut, survival).remove(0) as Arc<dyn BlockDevice>;
                    // Whatever it holds, what is read is what was committed.
                    let _ = pool.cache_devices().bring_online(listed.guid, &device);
                }
                more => panic!("{more:?}"),
            }
            let read = read_all(&open_top(&pool), ArrayKind::Data).unwrap();
            assert!(read.is_empty() || read == *data);
        }
    }
    assert!(with > 0 && without > 0, "{with} {without}");
}

#[test]
fn a_device_that_does_not_answer_is_skipped_until_it_does() {
    let clock = FaultClock::new();
    let device = fault_devices(1, &clock).remove(0);
    let cache = Arc::new(FaultDevice::new(CACHE_SIZE, &clock));
    let (gated, gate) = GatedDevice::new(&cache);
    let pool = create_on(std::slice::from_ref(&device));
    let mut new = new_member(&cache, GUID);
    new.device = Arc::new(gated);
    pool.cache_devices().add(&new, &origin()).unwrap();
    let dataset = open_top(&pool);
    put(&pool, &dataset, ArrayKind::Data, 3, 9).unwrap();
    pool.commit().unwrap();
    let read = || read_all(&dataset, ArrayKind::Data).unwrap();
    let data = read();
    pool.cache_devices().drain();
    let hits = || pool.cache_devices().totals().hits;
    let before = hits();
    assert_eq!(read(), data);
    assert!(hits() > before);

    gate.close();
    let before = hits();
    for _ in 0..3 {
        assert_eq!(read(), data);
    }
    assert_eq!(hits(), before);
    let info = pool.cache_devices().list().remove(0);
    // It was asked once, and has not failed.
    assert!(info.is_slow && info.given_up == 1);
    assert_eq!(info.state, CacheState::Online);
    assert_eq!(info.errors, Default::default());

    gate.open();
    while pool.cache_devices().list()[0].is_slow {
        std::thread::yield_now();
    }
    assert_eq!(read(), data);
    assert!(hits() > before);
}
