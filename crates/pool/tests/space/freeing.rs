//! Space of destroyed data is given back also if a device fails to read for a while.

use std::sync::Arc;

use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use pool::{ArrayKind, DeviceState, Finding, OpenDataset, Pool, RecordLocation, ScrubPhase};
use zerocopy::FromBytes;

const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

/// Returns the offsets of the copies of a record on the first device.
fn offsets_of(place: &RecordLocation) -> impl Iterator<Item = u64> {
    let offset = |addr: pool::Addr| {
        HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset())
    };
    place.copies().map(offset)
}

/// Reads of all copies of a place fail.
fn fail_reads(device: &FaultDevice, place: &RecordLocation) {
    for offset in offsets_of(place) {
        device.inject(Fault::BadBytes { offset, len: 4096 });
    }
}

/// A pool with a dataset `tank/a` that has many records, opened anew so that nothing is in memory.
fn with_dataset(devices: &[Arc<FaultDevice>]) -> (Pool, u64) {
    let pool = create_on(devices);
    let made = pool.create_dataset("tank/a", new_dataset(7), &origin());
    let id = made.unwrap().id;
    let dataset = pool.open_dataset(id).unwrap();
    for slot in 0..300 {
        put(&pool, &dataset, ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    drop(dataset);
    export(pool);
    (open_on(devices).unwrap(), id)
}

fn destroy(pool: &Pool, name: &str) {
    pool.destroy_dataset(name, false, &origin()).unwrap();
}

fn settle(pool: &Pool) {
    pool.commit().unwrap();
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
}

/// Lets so many seconds pass.
fn wait(pool: &Pool, seconds: u64) {
    let until = pool.now() + seconds;
    while pool.now() < until {}
}

/// The root of the records of a dataset.
fn root_of(pool: &Pool, id: u64) -> RecordLocation {
    pool.entry(id).unwrap().roots[1].place
}

#[test]
fn what_a_device_fails_to_read_is_freed_later() {
    for reopened in [false, true] {
        let devices = fault_devices(1, &FaultClock::new());
        let (pool, id) = with_dataset(&devices);
        let free = pool.space().free;
        fail_reads(&devices[0], &root_of(&pool, id));
        destroy(&pool, "tank/a");
        settle(&pool);
        let space = pool.space();
        assert_eq!((space.freeing, space.freeing_waits), (0, 1));
        // Without anything to do no commit is made.
        let txg = pool.committed_txg();
        pool.commit().unwrap();
        assert_eq!(pool.committed_txg(), txg);
        wait(&pool, 100);
        settle(&pool);
        assert_eq!(pool.space().freeing_waits, 1, "it fails still");
        devices[0].heal();
        let pool = match reopened {
            false => pool,
            true => {
                export(pool);
                open_on(&devices).unwrap()
            }
        };
        wait(&pool, 100);
        settle(&pool);
        assert_eq!(pool.space().freeing_waits, 0);
        assert!(pool.space().free > free + (1 << 20));
        assert_clean(&pool);
    }
}

#[test]
fn one_job_that_waits_does_not_hold_up_others() {
    let devices = fault_devices(1, &FaultClock::new());
    let (pool, id) = with_dataset(&devices);
    let made = pool.create_dataset("tank/b", new_dataset(8), &origin());
    let other = pool.open_dataset(made.unwrap().id).unwrap();
    for slot in 0..300 {
        put(&pool, &other, ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    drop(other);
    fail_reads(&devices[0], &root_of(&pool, id));
    destroy(&pool, "tank/a");
    let free = pool.space().free;
    destroy(&pool, "tank/b");
    settle(&pool);
    assert_eq!(pool.space().freeing_waits, 1);
    assert!(pool.space().free > free + (1 << 20));
}

/// The child with this number of the root of the records of a dataset.
fn node_of(pool: &Pool, device: &FaultDevice, id: u64, child: usize) -> RecordLocation {
    let root = offsets_of(&root_of(pool, id)).next().unwrap() as usize;
    let bytes = device.to_bytes();
    RecordLocation::read_from_bytes(&bytes[root + child * 128..][..64]).unwrap()
}

#[test]
fn a_lost_node_costs_only_the_space_below_it() {
    let devices = fault_devices(2, &FaultClock::new());
    let (pool, id) = with_dataset(&devices[..1]);
    let dataset = pool.open_dataset(id).unwrap();
    let size = |slot| {
        let record = dataset.get(ArrayKind::Data, slot).unwrap();
        record.place.allocated() / 4096
    };
    let below: u64 = (96..128).chain(160..192).map(size).sum();
    drop(dataset);
    export(pool);
    let pool = open_on(&devices[..1]).unwrap();
    let damaged = node_of(&pool, &devices[0], id, 3);
    let unreadable = node_of(&pool, &devices[0], id, 5);
    for offset in offsets_of(&damaged) {
        devices[0].flip(offset, 1);
    }
    fail_reads(&devices[0], &unreadable);
    destroy(&pool, "tank/a");
    settle(&pool);
    assert_eq!(pool.space().freeing_waits, 1);
    // A resilver cannot wait for ever.
    let old = pool.devices()[0].guid;
    pool.attach_device(old, &new_member(&devices[1], 50), true, &origin())
        .unwrap();
    for _ in 0..20 {
        wait(&pool, 70);
        resilver(&pool);
    }
    assert_eq!(pool.space().freeing_waits, 0);
    let found = pool.check().unwrap().findings;
    let leaked = found.iter().map(|finding| match finding {
        Finding::Leaked { units, .. } => *units as u64,
        other => panic!("{other:?}"),
    });
    assert_eq!(leaked.sum::<u64>(), below);
}

#[test]
fn a_resilver_waits_for_it_and_goes_on() {
    for heals in [true, false] {
        let devices = fault_devices(2, &FaultClock::new());
        let (pool, id) = with_dataset(&devices[..1]);
        fail_reads(&devices[0], &root_of(&pool, id));
        destroy(&pool, "tank/a");
        settle(&pool);
        let old = pool.devices()[0].guid;
        pool.attach_device(old, &new_member(&devices[1], 50), true, &origin())
            .unwrap();
        resilver(&pool);
        let waits = pool.resilverer().status().waits.unwrap();
        assert!(waits.contains("fails to read"), "{waits}");
        assert_eq!(
            states(&pool),
            [DeviceState::Online, DeviceState::Resilvering]
        );
        if heals {
            devices[0].heal();
        }
        // It comes to an end also if the device does not get better: then the space is given up.
        for _ in 0..20 {
            wait(&pool, 70);
            resilver(&pool);
        }
        let status = pool.resilverer().status();
        assert_eq!((status.waits, status.progress.errors), (None, 0));
        assert_eq!(status.progress.phase, ScrubPhase::Finished);
        assert_eq!(states(&pool), [DeviceState::Online]);
        assert_eq!(pool.space().freeing_waits, 0);
        assert_eq!(pool.check().unwrap().is_clean(), heals);
    }
}

/// A pool in which a record was freed that lies in pieces, and the device fails to read where they are.
fn with_lost_map(devices: &[Arc<FaultDevice>]) -> (Pool, Arc<OpenDataset>) {
    let pool = create_on(devices);
    let dataset = pool.open_dataset(1).unwrap();
    fragment(&pool, &dataset);
    // Until one lies in pieces.
    let mut slots = 0..100;
    let slot = slots.find(|slot| {
        put_reserved(&pool, &dataset, ArrayKind::Data, *slot, sized(*slot, 60)).unwrap();
        pool.commit().unwrap();
        dataset.get(ArrayKind::Data, *slot).unwrap().place.is_gang()
    });
    let slot = slot.unwrap();
    drop(dataset);
    export(pool);
    let pool = open_on(devices).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    let place = dataset.get(ArrayKind::Data, slot).unwrap().place;
    fail_reads(&devices[0], &place);
    punch(&pool, &dataset, ArrayKind::Data, slot).unwrap();
    (pool, dataset)
}

/// A replacement ends, although it needs space freed, also if the device never gets better.
#[test]
fn a_resilver_does_not_wait_for_ever_for_a_map() {
    for heals in [true, false] {
        let devices = fault_devices(2, &FaultClock::new());
        let (pool, dataset) = with_lost_map(&devices[..1]);
        settle(&pool);
        drop(dataset);
        let old = pool.devices()[0].guid;
        pool.attach_device(old, &new_member(&devices[1], 50), true, &origin())
            .unwrap();
        resilver(&pool);
        assert!(pool.resilverer().status().waits.is_some());
        wait(&pool, 70);
        resilver(&pool);
        assert!(pool.resilverer().status().waits.is_some(), "it fails still");
        if heals {
            devices[0].heal();
        }
        for _ in 0..20 {
            wait(&pool, 70);
            resilver(&pool);
        }
        assert_eq!(pool.resilverer().status().waits, None);
        assert_eq!(states(&pool), [DeviceState::Online]);
        assert_eq!(pool.space().freeing_waits, 0);
        assert_eq!(pool.check().unwrap().is_clean(), heals);
    }
}

/// No power cut loses what a commit could not free: the same commit lists it.
#[test]
fn what_could_not_be_freed_is_listed_at_once() {
    for retried in [false, true] {
        let devices = fault_devices(1, &FaultClock::new());
        let (pool, dataset) = with_lost_map(&devices);
        pool.commit().unwrap();
        if retried {
            wait(&pool, 100);
            pool.commit().unwrap();
        }
        drop((dataset, pool));
        devices[0].heal();
        let pool = open_on(&devices).unwrap();
        assert_eq!(pool.space().freeing, 1);
        settle(&pool);
        assert_clean(&pool);
    }
}

#[test]
fn a_record_whose_map_cannot_be_read_is_freed_later() {
    for reopened in [false, true] {
        let devices = fault_devices(1, &FaultClock::new());
        let (pool, dataset) = with_lost_map(&devices);
        settle(&pool);
        assert_eq!(pool.space().freeing_waits, 1);
        let free = pool.space().free;
        wait(&pool, 100);
        settle(&pool);
        assert_eq!(pool.space().freeing_waits, 1, "it fails still");
        devices[0].heal();
        drop(dataset);
        let pool = match reopened {
            false => pool,
            true => {
                export(pool);
                open_on(&devices).unwrap()
            }
        };
        wait(&pool, 100);
        settle(&pool);
        assert_eq!(pool.space().freeing_waits, 0);
        assert!(pool.space().free >= free + 60 * 4096, "{free}");
        assert_clean(&pool);
    }
}
