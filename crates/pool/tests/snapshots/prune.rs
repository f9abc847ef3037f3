//! Pruning many snapshots: what is kept, and what it costs.

use std::sync::Arc;

use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use pool::{ArrayKind, Entry, Pool};

const DATASETS: u64 = 200;

/// A pool of datasets that each have so many snapshots, each with a record of its own.
fn pool_with(snapshots: u64, device: &Arc<FaultDevice>) -> Pool {
    let pool = create_on(std::slice::from_ref(device));
    let names: Vec<String> = (0..DATASETS)
        .map(|number| format!("tank/d{number}"))
        .collect();
    let new = names.iter().enumerate();
    let new = new.map(|(at, name)| (name.clone(), new_dataset(1000 + at as u64)));
    pool.create_datasets(new.collect(), &origin()).unwrap();
    for snapshot in 0..snapshots {
        let id = pool.find("tank/d0").unwrap().id;
        let dataset = pool.open_dataset(id).unwrap();
        put(&pool, &dataset, ArrayKind::Data, 0, sized(snapshot, 1)).unwrap();
        drop(dataset);
        let wanted: Vec<String> = names
            .iter()
            .map(|name| format!("{name}@{snapshot:05}"))
            .collect();
        pool.snapshot(&wanted, false, &origin()).unwrap();
        device.take_journal();
    }
    pool
}

fn snapshots(pool: &Pool, name: &str) -> Vec<Arc<Entry>> {
    pool.snapshots(pool.find(name).unwrap().id).unwrap()
}

/// Bytes that pruning the oldest snapshot of the first dataset writes.
fn written_by_pruning_one(pool: &Pool, device: &FaultDevice) -> u64 {
    pool.commit().unwrap();
    let before = device.written();
    let oldest = &snapshots(pool, "tank/d0")[..1];
    let gone = pool.prune(oldest, &origin()).unwrap();
    assert_eq!(gone.len(), 1);
    device.written() - before
}

#[test]
fn pruning_costs_what_it_frees_and_not_what_there_is() {
    let clock = FaultClock::new();
    let device = |size: usize| Arc::new(FaultDevice::new(size, &clock));
    let (small, large) = (device(128 << 20), device(128 << 20));
    let few = pool_with(2, &small);
    let many = pool_with(50, &large);
    assert_eq!(many.datasets_with("x").unwrap().len(), 0);
    let change = ("x".to_owned(), Some("1".to_owned()));
    many.set_props(&["tank".to_owned()], &[change], &origin())
        .unwrap();
    assert_eq!(many.datasets_with("x").unwrap().len() as u64, DATASETS + 1);
    let own = many.datasets_that_set("x").unwrap();
    assert_eq!((own.len(), own[0].name.as_str()), (1, "tank"));
    let (of_few, of_many) = (
        written_by_pruning_one(&few, &small),
        written_by_pruning_one(&many, &large),
    );
    // The table of 10,000 entries, which takes 40 MiB, is one node deeper.
    assert!(of_many < 2 * of_few, "{of_few} {of_many}");

    // Many at once are one commit.
    let before = many.committed_txg();
    let old: Vec<Arc<Entry>> = (0..DATASETS)
        .flat_map(|number| snapshots(&many, &format!("tank/d{number}"))[..5].to_vec())
        .collect();
    let gone = many.prune(&old, &origin()).unwrap();
    assert_eq!(gone.len(), old.len());
    assert_eq!(many.committed_txg(), before + 1);
    assert_eq!(snapshots(&many, "tank/d0").len(), 44);
    assert_eq!(snapshots(&many, "tank/d1").len(), 45);
    while many.space().freeing > 0 {
        many.commit().unwrap();
    }
    assert!(many.check().unwrap().findings.is_empty());
    // What is gone is gone, and costs no commit.
    assert!(many.prune(&old, &origin()).unwrap().is_empty());
    export(many);
    let again = open_on(&[large]).unwrap();
    assert_eq!(snapshots(&again, "tank/d1").len(), 45);
}
