//! Scrub finds every damaged copy, mends what it can, and needs no key.

mod common;

use block::fault::FaultClock;
use common::model::*;
use common::*;
use pool::{ArrayKind, RecordPtr, ScrubPhase};

const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

/// Where a copy of a record lies on the device.
fn at(ptr: &RecordPtr, copy: usize) -> u64 {
    let addr = ptr.place.addr[copy];
    HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset())
}

fn scrub(pool: &pool::Pool) -> pool::ScrubStatus {
    pool.scrub_start().unwrap();
    while pool.scrub_step(64 << 10).unwrap() {}
    pool.scrub_status()
}

#[test]
fn a_healthy_pool_has_no_errors() {
    let devices = fault_devices(1, &FaultClock::new());
    let mut workload = Workload::new(create_on(&devices), 3);
    for _ in 0..150 {
        workload.step();
    }
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

    // What was mended is whole in both copies now.
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
    for _ in 0..80 {
        workload.step();
    }
    workload.pool.scrub_start().unwrap();
    let mut steps = 0;
    for _ in 0..40 {
        workload.pool.scrub_step(8 << 10).unwrap();
        workload.step();
        workload.pool.commit().unwrap();
        steps += 1;
    }
    let (pool, model) = workload.close();
    let examined = pool.scrub_status().examined;
    assert!(steps == 40 && examined > 0);
    pool.commit().unwrap();
    drop(pool);
    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.scrub_status().phase, ScrubPhase::Running);
    while pool.scrub_step(8 << 10).unwrap() {}
    let status = pool.scrub_status();
    assert_eq!((status.phase, status.errors), (ScrubPhase::Finished, 0));
    assert_eq!(read_pool(&pool), normal(model));
    pool.scrub_start().unwrap();
    pool.scrub_stop().unwrap();
    assert!(!pool.scrub_step(8 << 10).unwrap());
    assert_eq!(pool.scrub_status().phase, ScrubPhase::Stopped);
}
