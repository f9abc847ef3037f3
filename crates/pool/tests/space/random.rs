//! Random workloads against a model.

use std::sync::Arc;

use crate::common::model::*;
use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use pool::Reach;

fn run(seed: u64, devices: usize, steps: usize) {
    let devices = fault_devices(devices, &FaultClock::new());
    let workload = Workload::new(create_on(&devices), seed);
    drive(workload, &devices, seed, steps);
}

fn drive(mut workload: Workload, devices: &[Arc<FaultDevice>], seed: u64, steps: usize) {
    for step in 0..steps {
        workload.step();
        if step % 50 == 49 {
            workload.commit().unwrap();
            assert_clean(&workload.pool);
        }
    }
    let (pool, model) = workload.close();
    settle(&pool);
    assert_clean(&pool);
    assert_eq!(read_pool(&pool), normal(model.clone()), "seed {seed}");
    export(pool);

    let pool = open_on(devices).unwrap();
    assert_eq!(
        read_pool(&pool),
        normal(model),
        "seed {seed}, imported again"
    );
    assert_clean(&pool);
    counts_add_up(&pool);

    // Destroying everything gives everything back.
    let top = pool.top().unwrap();
    destroy_others(&pool);
    while pool.top().unwrap().origin != 0 {
        pool.promote("tank", None, &origin()).unwrap();
    }
    destroy_others(&pool);
    assert_eq!(pool.list(top.id).unwrap().len(), 1);
    settle(&pool);
    assert_clean(&pool);
    let root = pool.listed_one(top.id).unwrap();
    assert_eq!(root.used, root.entry.referenced);
    assert_eq!(root.used_by_snapshots, 0);
}

/// Destroys all but the root dataset, and what that was cloned from.
fn destroy_others(pool: &pool::Pool) {
    let top = pool.top().unwrap().id;
    for listed in pool.list(top).unwrap().iter().rev() {
        if listed.entry.id == top || pool.find(&listed.name).is_err() {
            continue;
        }
        let destroyed = pool.destroy_dataset(&listed.name, Reach::Clones, &origin());
        let is_root = |error: &pool::Error| error.to_string().contains("root of its pool");
        assert!(destroyed.is_ok() || is_root(&destroyed.unwrap_err()));
    }
    settle(pool);
}

/// The counters of datasets and snapshots are the sums over their trees.
fn counts_add_up(pool: &pool::Pool) {
    for listed in pool.list(pool.top().unwrap().id).unwrap() {
        if listed.entry.is_snapshot() {
            continue;
        }
        assert_eq!(
            listed.used_by_dataset + listed.used_by_snapshots + listed.used_by_children,
            listed.used,
            "{listed:?}"
        );
        if listed.entry.prev_snap == 0 {
            assert_eq!(listed.used_by_snapshots, 0, "{listed:?}");
        }
        // What each of the line has and the one before it has not.
        let mut before = match listed.entry.origin {
            0 => 0,
            origin => pool.entry(origin).unwrap().referenced,
        };
        let mut line = pool.snapshots(listed.entry.id).unwrap();
        line.push(Arc::clone(&listed.entry));
        let mut own = 0;
        for entry in line {
            own += entry.referenced - (before - entry.dead_bytes);
            before = entry.referenced;
        }
        assert_eq!(listed.entry.used, own, "{listed:?}");
    }
}

#[test]
fn one_device() {
    for seed in seeds(0, 12) {
        run(seed, 1, 300);
    }
}

#[test]
fn three_devices() {
    for seed in seeds(100, 8) {
        run(seed, 3, 300);
    }
}

#[test]
fn fragmented() {
    for seed in seeds(200, 4) {
        let devices = fault_devices(1 + seed as usize % 2, &FaultClock::new());
        let workload = Workload::on_fragments(create_on(&devices), seed);
        drive(workload, &devices, seed, 150);
    }
}
