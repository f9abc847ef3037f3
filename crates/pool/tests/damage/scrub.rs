//! Scrub finds every damaged copy, repairs what it can, and needs no key.

use crate::common::model::*;
use crate::common::*;
use block::fault::{Fault, FaultClock};
use pool::{ArrayKind, RecordPtr, ScrubPhase};

const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

/// Returns the offset of a copy of a record on the device.
fn at(ptr: &RecordPtr, copy: usize) -> u64 {
    let addr = ptr.place.addr[copy];
    HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset())
}

fn scrub(pool: &pool::Pool) -> pool::ScrubStatus {
    pool.scrubber().start().unwrap();
    while pool.scrubber().step(64 << 10).unwrap() {}
    pool.scrubber().status()
}

#[test]
fn a_healthy_pool_has_no_errors() {
    let devices = fault_devices(1, &FaultClock::new());
    let mut workload = Workload::new(create_on(&devices), 3);
    workload.steps(150);
    let (pool, _) = workload.close();
    settle(&pool);
    let status = scrub(&pool);
    assert_eq!(
        (status.phase, status.errors, status.repaired),
        (ScrubPhase::Finished, 0, 0)
    );
    let space = pool.space();
    let allocated = space.total - space.free;
    // Everything but the bitmaps is counted as allocated, and those are read too.
    assert!(
        status.examined >= allocated / 2 && status.examined <= 2 * allocated,
        "{status:?}"
    );
}

#[test]
fn damage_is_mended_from_the_other_copy_or_reported() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..100 {
        put(&pool, &dataset, ArrayKind::Data, slot, slot).unwrap();
        put(&pool, &dataset, ArrayKind::Pages, slot, slot + 1000).unwrap();
    }
    pool.commit().unwrap();
    let data = dataset.get(ArrayKind::Data, 40).unwrap();
    let page = dataset.get(ArrayKind::Pages, 50).unwrap();
    let root = pool.entry(1).unwrap().roots[1];
    let table = pool.superblock().datasets;
    drop((dataset, pool));

    devices[0].flip(at(&data, 0) + 5, 1);
    devices[0].flip(at(&page, 1) + 4000, 0x80);
    devices[0].flip(at(&root, 0), 2);
    devices[0].flip(at(&table, 0) + 100, 4);
    let pool = open_on(&devices).unwrap();
    let status = scrub(&pool);
    assert_eq!(status.errors, 1);
    assert_eq!(status.repaired, 3, "{status:?}");
    let damage = &status.damage[0];
    assert_eq!(
        (damage.dataset, damage.array, damage.slot),
        (1, Some(ArrayKind::Data), 40)
    );

    // What was repaired is whole in both copies now.
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (1, 0));
    assert_clean(&pool);
}

#[test]
fn a_lost_node_hides_its_records_but_no_others() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..400 {
        put(&pool, &dataset, ArrayKind::Data, slot, slot % 5).unwrap();
    }
    pool.commit().unwrap();
    let entry = pool.entry(1).unwrap();
    let mut nodes = Vec::new();
    pool.each_record(&entry.roots[1], &mut |slot, ptr| {
        nodes.push((slot, *ptr));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(nodes.len(), 400);
    let root = entry.roots[1];
    // The root has its copies at two places; damage a record behind the middle, and the root's first.
    drop((dataset, pool));
    devices[0].flip(at(&root, 0) + 9, 1);
    devices[0].flip(at(&root, 1) + 9, 1);
    devices[0].flip(at(&nodes[300].1, 0), 1);
    let pool = open_on(&devices).unwrap();
    let status = scrub(&pool);
    assert_eq!(status.phase, ScrubPhase::Finished);
    assert_eq!(
        status.errors, 1,
        "below a lost root nothing can be seen: {status:?}"
    );
    assert_eq!(status.damage[0].level, root.level());
}

#[test]
fn a_scrub_goes_on_after_an_import_and_beside_writers() {
    let devices = fault_devices(1, &FaultClock::new());
    let mut workload = Workload::new(create_on(&devices), 9);
    workload.steps(80);
    workload.scrubber().start().unwrap();
    let mut steps = 0;
    for _ in 0..40 {
        workload.scrubber().step(8 << 10).unwrap();
        workload.step();
        workload.commit().unwrap();
        steps += 1;
    }
    let (pool, model) = workload.close();
    let examined = pool.scrubber().status().examined;
    assert!(steps == 40 && examined > 0);
    pool.commit().unwrap();
    drop(pool);
    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.scrubber().status().phase, ScrubPhase::Running);
    while pool.scrubber().step(8 << 10).unwrap() {}
    let status = pool.scrubber().status();
    assert_eq!((status.phase, status.errors), (ScrubPhase::Finished, 0));
    assert_eq!(read_pool(&pool), normal(model));
}

#[test]
fn a_paused_scrub_goes_on_and_a_stopped_one_does_not() {
    let devices = fault_devices(1, &FaultClock::new());
    let mut workload = Workload::new(create_on(&devices), 9);
    workload.steps(80);
    let (pool, _) = workload.close();
    let again = |pool: pool::Pool| {
        pool.commit().unwrap();
        drop(pool);
        open_on(&devices).unwrap()
    };
    // Paused before it read anything, and later: both go on.
    pool.scrubber().start().unwrap();
    pool.scrubber().pause().unwrap();
    let pool = again(pool);
    assert_eq!(pool.scrubber().status().phase, ScrubPhase::Paused);
    pool.scrubber().start().unwrap();
    let started = pool.scrubber().status().started;
    for _ in 0..3 {
        assert!(pool.scrubber().step(8 << 10).unwrap());
    }
    pool.scrubber().pause().unwrap();
    let pool = again(pool);
    let paused = pool.scrubber().status();
    assert_eq!(
        (paused.phase, paused.started),
        (ScrubPhase::Paused, started)
    );
    assert!(!pool.scrubber().step(8 << 10).unwrap());
    pool.scrubber().start().unwrap();
    assert!(pool.scrubber().step(8 << 10).unwrap());
    let on = pool.scrubber().status();
    assert!(
        on.started == started && on.examined > paused.examined,
        "{on:?}"
    );
    // Stopped: the next one begins from the start.
    pool.scrubber().pause().unwrap();
    pool.scrubber().stop().unwrap();
    let pool = again(pool);
    assert_eq!(pool.scrubber().status().phase, ScrubPhase::Stopped);
    assert!(!pool.scrubber().step(8 << 10).unwrap());
    pool.scrubber().start().unwrap();
    let anew = pool.scrubber().status();
    assert_eq!((anew.phase, anew.examined), (ScrubPhase::Running, 0));
    while pool.scrubber().step(8 << 10).unwrap() {}
    let status = pool.scrubber().status();
    assert_eq!((status.phase, status.errors), (ScrubPhase::Finished, 0));
    assert!(
        status.examined > on.examined,
        "it read everything: {status:?}"
    );
}

#[test]
fn headers_are_mended_from_their_other_copies() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices);
    let keyring = || -> pool::MakeKeyring { Box::new(|_| Ok(vec![9; 100])) };
    let new = pool::NewDataset {
        suite: 1,
        keyring: Some(keyring()),
        is_key_root: true,
        ..new_dataset(77)
    };
    let id = pool.create_dataset("tank/k", new, &origin()).unwrap().id;
    pool.scrubber().start().unwrap();
    let end = DEVICE_SIZE as u64;
    let slot = pool.superblock().txg % 32;
    // The front label of one, the back label of the other, a superblock, a key block.
    devices[0].flip(70, 1);
    devices[1].flip(end - 1, 1);
    devices[1].flip((1 + slot) * 4096 + 50, 1);
    devices[0].flip(33 * 4096 + 40, 1);
    assert!(pool.scrubber().step(u64::MAX).is_ok());
    while pool.scrubber().step(u64::MAX).unwrap() {}
    let status = pool.scrubber().status();
    assert_eq!((status.errors, status.repaired), (0, 4), "{status:?}");
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (0, 0));

    // No copy of the key block is left.
    for device in &devices {
        device.flip(33 * 4096 + 40, 1);
        device.flip(end - 65 * 4096 + 32 * 4096 + 40, 1);
    }
    assert!(pool.keyring(id).is_err());
    let status = scrub(&pool);
    assert_eq!((status.errors, status.repaired), (1, 0));
}

#[test]
fn damage_of_the_pools_own_records_is_found_beside_commits() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    for n in 0..3 {
        let name = format!("tank/d{n}");
        pool.create_dataset(&name, new_dataset(100 + n), &origin())
            .unwrap();
    }
    pool.scrubber().start().unwrap();
    // Both copies of a node that no commit below replaces. In memory it is whole.
    let table = pool.superblock().datasets;
    devices[0].flip(at(&table, 0) + 9, 1);
    devices[0].flip(at(&table, 1) + 9, 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                pool.record(&origin()).unwrap();
            }
        });
        let first = pool.committed_txg();
        while pool.committed_txg() < first + 20 {
            std::thread::yield_now();
        }
        while pool.scrubber().step(1 << 20).unwrap() {}
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let status = pool.scrubber().status();
    assert_eq!((status.errors, status.repaired), (1, 0), "{status:?}");
    assert_eq!((status.damage[0].dataset, status.damage[0].level), (0, 1));
}

/// Records that a device fails to read are counted as that, and not as damage: the copy there may be good.
#[test]
fn what_cannot_be_read_is_told_from_damage() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_mirrors(&devices, &[2]);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..20 {
        put(&pool, &dataset, ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    let [one, two] = [3, 9].map(|slot| at(&dataset.get(ArrayKind::Data, slot).unwrap(), 0));
    let unreadable = |offset| Fault::BadBytes { offset, len: 4096 };
    // Of one record a copy is bad and the other is unreadable; of another the other copy is good.
    devices[0].flip(one, 1);
    devices[1].inject(unreadable(one));
    devices[1].inject(unreadable(two));
    let status = scrub(&pool);
    assert_eq!((status.errors, status.unreadable), (1, 1), "{status:?}");
    assert_eq!(status.repaired, 1, "{status:?}");
    assert!(status.damage[0].is_unreadable && status.damage[0].slot == 3);
    let errors = |n: usize| pool.devices()[n].errors;
    assert_eq!((errors(0).read, errors(0).checksum), (0, 0));
    assert!(
        errors(1).read > 1 && errors(1).checksum == 0,
        "{:?}",
        errors(1)
    );
    // The next import knows it.
    drop((dataset, pool));
    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.scrubber().status().unreadable, 1);
    // The device is good again, and the record is repaired.
    devices[1].heal();
    let status = scrub(&pool);
    let counts = (status.errors, status.unreadable, status.repaired);
    assert_eq!(counts, (0, 0, 1), "{status:?}");
    assert_eq!(pool.devices()[0].errors.checksum, 1);
    // Both copies are bad: that is damage.
    devices.iter().for_each(|device| device.flip(one, 1));
    let status = scrub(&pool);
    assert_eq!((status.errors, status.unreadable), (1, 0), "{status:?}");
    assert_eq!(pool.devices()[1].errors.checksum, 1);
}
