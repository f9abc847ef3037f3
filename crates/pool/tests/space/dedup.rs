//! Records with the same contents are stored once, and freed with their last pointer.

use crate::common::model::settle;
use crate::common::*;
use block::fault::FaultClock;
use pool::{ArrayKind, DedupInfo, Pool, Reach};

const DATA: ArrayKind = ArrayKind::Data;

fn used(pool: &Pool) -> u64 {
    let space = pool.space();
    space.total - space.free
}

#[test]
fn equal_records_are_stored_once_and_freed_with_the_last_pointer() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let top = pool.top().unwrap().id;
    let dataset = pool.open_dataset(top).unwrap();
    let number = EQUAL | sized(1, 64);
    put(&pool, &dataset, DATA, 0, number).unwrap();
    pool.commit().unwrap();
    let with_one = used(&pool);
    for slot in 1..32 {
        put(&pool, &dataset, DATA, slot, number).unwrap();
    }
    pool.commit().unwrap();
    assert!(
        used(&pool) < with_one + (64 << 12),
        "they are not stored again"
    );
    let bytes = 64 << 12;
    let shared = DedupInfo {
        records: 1,
        stored: bytes,
        referenced: 32 * bytes,
    };
    assert_eq!(pool.dedup_info(), shared);
    assert_clean(&pool);

    // Another, in the same group as its only pointer goes.
    put(&pool, &dataset, DATA, 40, number + 1).unwrap();
    punch(&pool, &dataset, DATA, 40).unwrap();
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info(), shared);
    assert_clean(&pool);

    // One that is placed, and goes nowhere.
    let placed = dataset.place_shared(identity_of_contents(number + 2), &contents(number + 2));
    drop(placed.unwrap());
    drop(
        dataset
            .place_shared(identity_of_contents(number), &contents(number))
            .unwrap(),
    );
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info(), shared);
    assert_clean(&pool);

    // A snapshot keeps it, though the dataset lost all.
    let names = ["tank@s".to_owned()];
    pool.snapshot(&names, false, &origin()).unwrap();
    for slot in 0..32 {
        punch(&pool, &dataset, DATA, slot).unwrap();
    }
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info(), shared);
    put(&pool, &dataset, DATA, 7, number).unwrap();
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info().referenced, 33 * bytes);
    drop(dataset);
    export(pool);

    // No key is here, and the last pointer frees it.
    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.dedup_info().referenced, 33 * bytes);
    pool.destroy_dataset("tank@s", Reach::Named, &origin())
        .unwrap();
    settle(&pool);
    assert_eq!(pool.dedup_info().referenced, bytes);
    let before = used(&pool);
    let dataset = pool.open_dataset(top).unwrap();
    punch(&pool, &dataset, DATA, 7).unwrap();
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info(), DedupInfo::default());
    assert!(used(&pool) + bytes <= before);
    assert_clean(&pool);
}

#[test]
fn the_table_grows_and_finds_everything() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices);
    let top = pool.top().unwrap().id;
    let dataset = pool.open_dataset(top).unwrap();
    let number = |n: u64| EQUAL | sized(n, 1);
    for n in 0..1500 {
        put(&pool, &dataset, DATA, n, number(n)).unwrap();
        if n % 200 == 0 {
            pool.commit().unwrap();
        }
    }
    pool.commit().unwrap();
    assert_clean(&pool);
    drop(dataset);
    drop(pool);
    let pool = open_on(&devices).unwrap();
    let dataset = pool.open_dataset(top).unwrap();
    for n in 0..1500 {
        put(&pool, &dataset, DATA, 5000 + n, number(n)).unwrap();
    }
    pool.commit().unwrap();
    let info = pool.dedup_info();
    assert_eq!((info.records, info.stored), (1500, 1500 << 12));
    assert_eq!(info.referenced, 2 * info.stored);
    assert_clean(&pool);
    for n in 0..1500 {
        punch(&pool, &dataset, DATA, n).unwrap();
        punch(&pool, &dataset, DATA, 5000 + n).unwrap();
    }
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info(), DedupInfo::default());
    assert_clean(&pool);
}

#[test]
fn many_threads_share() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(pool.top().unwrap().id).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, dataset) = (&pool, &dataset);
            scope.spawn(move || {
                for n in 0..400 {
                    let number = EQUAL | sized(n % 20, 2);
                    put(pool, dataset, DATA, 1000 * thread + n % 50, number).unwrap();
                    if n % 40 == thread {
                        pool.commit().unwrap();
                    }
                }
            });
        }
    });
    pool.commit().unwrap();
    assert_clean(&pool);
    let info = pool.dedup_info();
    assert_eq!(info.referenced, 4 * 50 * (2 << 12));
    assert!(info.records <= 20);
}

/// Walks are bounded by what the pool has space for; what is shared may be more.
#[test]
fn there_may_be_more_pointers_than_units() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(pool.top().unwrap().id).unwrap();
    let count = 2 * DEVICE_SIZE as u64 / 4096;
    let number = EQUAL | sized(1, 1);
    for slot in 0..count {
        put(&pool, &dataset, DATA, slot, number).unwrap();
    }
    pool.commit().unwrap();
    assert_eq!(pool.dedup_info().referenced, count << 12);
    assert_clean(&pool);
    assert_eq!(scrub_all(&pool).errors, 0);
    snapshot(&pool, "tank@s");
    for slot in 0..count {
        punch(&pool, &dataset, DATA, slot).unwrap();
    }
    pool.commit().unwrap();
    assert_clean(&pool);
    drop(dataset);
    pool.destroy_dataset("tank@s", Reach::Named, &origin())
        .unwrap();
    settle(&pool);
    assert_eq!(pool.dedup_info(), DedupInfo::default());
    assert_clean(&pool);
}
