//! Records on a pool without long free runs: they lie in pieces, and nothing else changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use pool::{ArrayKind, Error, OpenDataset, Pool, RecordPtr, ReserveFor, ScrubPhase};

const DATA: ArrayKind = ArrayKind::Data;
const PAGES: ArrayKind = ArrayKind::Pages;
const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

fn scrub(pool: &Pool) -> pool::ScrubStatus {
    pool.scrubber().start().unwrap();
    while pool.scrubber().step(1 << 20).unwrap() {}
    let status = pool.scrubber().status();
    assert_eq!(status.phase, ScrubPhase::Finished);
    status
}

/// Writes long records until there is no free space for them.
fn fill_with_long(
    pool: &Pool,
    dataset: &OpenDataset,
    array: ArrayKind,
    seed: u64,
) -> BTreeMap<u64, u64> {
    let mut dice = Dice(seed);
    let mut written = BTreeMap::new();
    loop {
        let slot = written.len() as u64;
        let units = match array {
            ArrayKind::Data => 32 + dice.below(225),
            ArrayKind::Pages => 2 + dice.below(100),
        };
        let number = sized(seed << 16 | slot, units);
        match put_reserved(pool, dataset, array, slot, number) {
            Ok(()) => written.insert(slot, number),
            Err(Error::NoSpace) => return written,
            Err(error) => panic!("{error}"),
        };
    }
}

#[test]
fn no_commit_fails_for_fragments() {
    for (seed, array) in [(1, DATA), (2, PAGES), (3, DATA), (4, PAGES)] {
        let devices = fault_devices(1 + seed as usize % 2, &FaultClock::new());
        let pool = create_on(&devices);
        pool.commit().unwrap();
        let free = pool.space().free;
        let dataset = pool.open_dataset(1).unwrap();
        let mut model = [fragment(&pool, &dataset), BTreeMap::new()];
        let long = fill_with_long(&pool, &dataset, array, seed);
        assert!(long.len() > 3, "{}", long.len());
        pool.commit().unwrap();
        assert_eq!(pool.suspended(), None);
        let scattered = long
            .keys()
            .filter(|slot| dataset.get(array, **slot).unwrap().place.is_gang());
        assert!(scattered.count() > 1);
        model[usize::from(array == PAGES)].extend(long);
        for (array, model) in [DATA, PAGES].into_iter().zip(&model) {
            assert_eq!(read_all(&dataset, array).unwrap(), *model);
        }
        assert_clean(&pool);
        assert_eq!((scrub(&pool).errors, scrub(&pool).repaired), (0, 0));
        drop((dataset, pool));

        let pool = open_on(&devices).unwrap();
        let dataset = pool.open_dataset(1).unwrap();
        for (array, model) in [DATA, PAGES].into_iter().zip(&model) {
            assert_eq!(read_all(&dataset, array).unwrap(), *model);
            for slot in model.keys() {
                punch(&pool, &dataset, array, *slot).unwrap();
            }
        }
        pool.commit().unwrap();
        assert_clean(&pool);
        let entry = pool.entry(1).unwrap();
        assert_eq!((entry.referenced, entry.used), (0, 0));
        let after = pool.space().free;
        assert!(free - after < 256 << 10, "{free} before, {after} after");
    }
}

/// A pool with a long record in pieces, and its pointer.
fn with_one(array: ArrayKind) -> (Vec<Arc<FaultDevice>>, Pool, Arc<OpenDataset>, RecordPtr) {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    fragment(&pool, &dataset);
    // What is left of longer runs goes first.
    for slot in 0..1000 {
        put_reserved(&pool, &dataset, array, slot, sized(slot, 20)).unwrap();
        pool.commit().unwrap();
        let ptr = dataset.get(array, slot).unwrap();
        let copies = ptr.place.copies().count();
        if ptr.place.is_gang()
            && pieces(&devices[0], &ptr)[..copies]
                .iter()
                .all(|pieces| pieces.len() > 1)
        {
            return (devices, pool, dataset, ptr);
        }
    }
    panic!("no record was scattered");
}

fn map_at(ptr: &RecordPtr, copy: usize) -> u64 {
    let addr = ptr.place.addr[copy];
    HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset())
}

/// Returns the offsets of the pieces of both copies, as the map on the device says.
fn pieces(device: &FaultDevice, ptr: &RecordPtr) -> [Vec<u64>; 2] {
    let bytes = device.to_bytes();
    let map = &bytes[map_at(ptr, 0) as usize..][..4096];
    let count = |at: usize| usize::from(u16::from_le_bytes([map[at], map[at + 1]]));
    let (first, second) = (count(12), count(14));
    let piece = |n: usize| {
        let packed = u64::from_le_bytes(map[16 + 8 * n..][..8].try_into().unwrap());
        HEADER + ((packed >> 8) & ((1 << 40) - 1)) * 4096
    };
    [
        (0..first).map(piece).collect(),
        (first..first + second).map(piece).collect(),
    ]
}

#[test]
fn scrub_mends_maps_and_pieces_from_the_other_copy() {
    let (devices, pool, dataset, ptr) = with_one(PAGES);
    let [first, second] = pieces(&devices[0], &ptr);
    let before = read_all(&dataset, PAGES).unwrap();
    drop((dataset, pool));
    devices[0].flip(map_at(&ptr, 0) + 20, 1);
    devices[0].flip(second[1] + 100, 0x80);
    let pool = open_on(&devices).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    assert_eq!(read_all(&dataset, PAGES).unwrap(), before);
    assert_clean(&pool);
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (0, 2));
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (0, 0));
    drop((dataset, pool));

    // The other way round: now only what was repaired is whole.
    devices[0].flip(map_at(&ptr, 1) + 20, 1);
    devices[0].flip(first[0] + 100, 0x80);
    let pool = open_on(&devices).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    assert_eq!(read_all(&dataset, PAGES).unwrap(), before);
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (0, 2));
}

#[test]
fn damage_of_a_single_copy_is_reported() {
    for in_map in [false, true] {
        let (devices, pool, dataset, ptr) = with_one(DATA);
        let [first, second] = pieces(&devices[0], &ptr);
        assert!(second.is_empty());
        drop((dataset, pool));
        let at = if in_map { map_at(&ptr, 0) } else { first[1] };
        devices[0].flip(at + 30, 4);
        let pool = open_on(&devices).unwrap();
        let status = scrub(&pool);
        assert_eq!((status.errors, status.repaired), (1, 0));
        assert_eq!(status.damage[0].array, Some(DATA));
        let slot = status.damage[0].slot;
        // Without its map it is not known which units are the record's.
        assert_eq!(pool.check().unwrap().is_clean(), !in_map);

        // Deleting it frees what is known to be its own, and leaks the rest.
        let free = pool.space().free;
        let dataset = pool.open_dataset(1).unwrap();
        punch(&pool, &dataset, DATA, slot).unwrap();
        pool.commit().unwrap();
        pool.commit().unwrap();
        let freed = pool.space().free as i64 - free as i64;
        let report = pool.check().unwrap();
        let is_leak = |finding: &pool::Finding| matches!(finding, pool::Finding::Leaked { .. });
        assert_eq!(report.is_clean(), !in_map);
        assert!(report.findings.iter().all(is_leak), "{report:?}");
        assert_eq!(freed > 8 * 4096, !in_map, "{freed}");
        // The pool goes on.
        put(&pool, &dataset, DATA, slot, 3).unwrap();
        pool.commit().unwrap();
    }
}

#[test]
fn a_map_that_leads_elsewhere_is_not_followed() {
    let (devices, pool, dataset, ptr) = with_one(DATA);
    drop((dataset, pool));
    // A map that is whole, but not this one: another length, and a right checksum.
    let mut bytes = devices[0].to_bytes();
    let at = map_at(&ptr, 0) as usize;
    bytes[at + 16..at + 24].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0]);
    let sum = blake3::hash(&bytes[at..at + 4064]);
    bytes[at + 4064..at + 4096].copy_from_slice(sum.as_bytes());
    let pool = open_images(vec![bytes]).unwrap();
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (1, 0));
}

#[test]
fn a_dropped_reserve_frees_its_pieces() {
    let (_devices, pool, dataset, _) = with_one(DATA);
    pool.commit().unwrap();
    let free = pool.space().free;
    let number = sized(9, 200);
    let placed = dataset
        .place(DATA, identity(number), &contents(number))
        .unwrap();
    assert_eq!(pool.space().free, free - 201 * 4096);
    drop(placed);
    assert_eq!(pool.space().free, free);
    assert_clean(&pool);
    let bytes = dataset.record_space(DATA, 200 * 4096);
    assert!(pool.reserve(bytes, ReserveFor::Writing).is_ok());
}

#[test]
fn freed_space_goes_back_to_the_host() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..64 {
        put_reserved(&pool, &dataset, DATA, slot, sized(slot, 16)).unwrap();
    }
    pool.commit().unwrap();
    let kept = BTreeMap::from([(63, sized(63, 16))]);
    for slot in 0..63 {
        punch(&pool, &dataset, DATA, slot).unwrap();
    }
    pool.commit().unwrap();
    assert_eq!(
        devices[0].discarded(),
        0,
        "the superblock before reaches it"
    );
    let free = pool.space().free;
    pool.record(&origin()).unwrap();
    assert!(devices[0].discarded() >= 63 * 16 * 4096);
    assert!(pool.space().free + (64 << 10) >= free);
    assert_eq!(read_all(&dataset, DATA).unwrap(), kept);
    assert_clean(&pool);
    drop((dataset, pool));
    let pool = open_on(&devices).unwrap();
    assert_clean(&pool);
    assert_eq!(scrub(&pool).errors, 0);
}

#[test]
fn emptying_far_slots_reserves_space_for_every_node() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    let slots: Vec<u64> = (0..60).map(|n| n * 1024 + 5).collect();
    for slot in &slots {
        put(&pool, &dataset, DATA, *slot, sized(1, 1)).unwrap();
        // Something stays in each node.
        put(&pool, &dataset, DATA, slot + 1, sized(2, 1)).unwrap();
    }
    pool.commit().unwrap();
    let wanted = dataset.punch_space(DATA, &slots);
    assert!(wanted >= 2 * 60 * 2 * 4096, "two nodes for each: {wanted}");
    let before = pool.space().available;
    for slot in &slots {
        punch(&pool, &dataset, DATA, *slot).unwrap();
    }
    assert_eq!(before - pool.space().available, wanted);
    let written = devices[0].written();
    pool.commit().unwrap();
    let written = devices[0].written() - written;
    assert!(written >= wanted, "{written} of {wanted}");
    assert!(written < wanted + (256 << 10), "{written} of {wanted}");
    assert_eq!(pool.suspended(), None);
    assert!(pool.space().available >= before, "all of it is given back");
}
