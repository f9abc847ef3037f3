//! The space that listings and dry runs promise is the space that destroying frees, to the block.

use std::sync::Arc;

use crate::common::model::*;
use crate::common::*;
use block::fault::FaultClock;
use pool::{ArrayKind::Data, DatasetListing, Pool, Reach};

/// The bytes of everything in datasets and snapshots. Equal records count as often as they are written.
fn contents(pool: &Pool) -> u64 {
    settle(pool);
    let report = pool.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    report.contents + pool.dedup_info().referenced
}

fn all(pool: &Pool) -> Vec<DatasetListing> {
    pool.list(pool.top().unwrap().id).unwrap()
}

fn listed(pool: &Pool, name: &str) -> DatasetListing {
    pool.listed_one(pool.find(name).unwrap().id).unwrap()
}

/// Destroys, and compares what a dry run said with what went. Returns the freed bytes, or `None` if it is refused.
fn destroy(pool: &Pool, name: &str, reach: Reach, why: &str) -> Option<u64> {
    pool.doomed(name, reach).ok()?;
    let before = contents(pool);
    let promised = pool.freed_by_destroying(name, reach).unwrap();
    pool.destroy_dataset(name, reach, &origin()).unwrap();
    let freed = before - contents(pool);
    assert_eq!(promised, freed, "{why}: {name} {reach:?}");
    Some(freed)
}

/// The pool after a random history, and its devices to open it again.
fn history(seed: u64) -> (Vec<Arc<block::fault::FaultDevice>>, Pool) {
    let devices = fault_devices(2, &FaultClock::new());
    let mut workload = Workload::new(create_on(&devices), seed);
    for _ in 0..4 {
        workload.run(80);
    }
    let (pool, _) = workload.close();
    settle(&pool);
    (devices, pool)
}

/// Another pool with the same contents.
fn copy(devices: &[Arc<block::fault::FaultDevice>]) -> Pool {
    open_on(&copies(devices)).unwrap()
}

#[test]
fn a_file_that_a_snapshot_shares_is_the_datasets() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(pool.top().unwrap().id).unwrap();
    put(&pool, &dataset, Data, 0, sized(1, 64)).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@1");
    let shares = listed(&pool, "tank");
    assert!(shares.used_by_dataset >= 64 << 12, "{shares:?}");
    assert_eq!(shares.used_by_snapshots, 0);
    punch(&pool, &dataset, Data, 0).unwrap();
    pool.commit().unwrap();
    assert!(listed(&pool, "tank").used_by_snapshots >= 64 << 12);
}

#[test]
fn all_snapshots_free_what_is_theirs_and_the_dataset_the_rest() {
    let (mut with_both, mut clones) = (0, 0);
    for seed in seeds(0, 6) {
        let (devices, pool) = history(seed);
        for head in all(&pool).iter().filter(|it| !it.entry.is_snapshot()) {
            let pool = copy(&devices);
            let why = format!("seed {seed}");
            let snapshots = format!("{}@%", head.name);
            let before = listed(&pool, &head.name);
            let parts = [before.used_by_dataset, before.used_by_snapshots];
            assert_eq!(parts[0] + parts[1], before.entry.used, "{why}: {before:?}");
            if before.entry.prev_snap != 0 {
                match destroy(&pool, &snapshots, Reach::Named, &why) {
                    Some(freed) => assert_eq!(freed, parts[1], "{why}: {before:?}"),
                    None => continue,
                }
                clones += usize::from(before.entry.origin != 0);
                with_both += usize::from(parts.iter().all(|bytes| *bytes > 0));
            }
            assert_eq!(listed(&pool, &head.name).used_by_dataset, parts[0]);
            if let Some(freed) = destroy(&pool, &head.name, Reach::Named, &why) {
                assert_eq!(freed, parts[0], "{why}: {before:?}");
            }
        }
    }
    assert!(with_both > 5 && clones > 0, "{with_both} {clones}");
}

#[test]
fn snapshots_free_what_was_promised_in_any_order() {
    let (mut single, mut several) = (0, 0);
    for seed in seeds(100, 5) {
        let (_, pool) = history(seed);
        let mut dice = Dice(seed);
        let why = format!("seed {seed}");
        loop {
            let mut names = all(&pool);
            names.retain(|it| pool.doomed(&it.name, Reach::Named).is_ok());
            if names.is_empty() {
                break;
            }
            let picked = &names[dice.below(names.len() as u64) as usize];
            let parts = [picked.used, picked.used_by_dataset];
            let freed = match dice.below(3) {
                0 if picked.entry.is_snapshot() => {
                    let newest = pool.snapshots(picked.entry.parent).unwrap();
                    let range = format!("{}%{}", picked.name, newest.last().unwrap().name);
                    let freed = destroy(&pool, &range, Reach::Named, &why);
                    several += usize::from(freed.is_some());
                    freed
                }
                1 => destroy(&pool, &picked.name, Reach::Clones, &why),
                _ => None,
            };
            if freed.is_none() {
                let freed = destroy(&pool, &picked.name, Reach::Named, &why);
                let part = usize::from(!picked.entry.is_snapshot());
                assert_eq!(freed, Some(parts[part]), "{why}: {picked:?}");
                single += 1;
            }
        }
    }
    assert!(single > 20 && several > 2, "{single} {several}");
}

#[test]
fn everything_below_a_dataset_and_its_clones_is_promised() {
    let mut with_clones = 0;
    for seed in seeds(200, 3) {
        let (devices, pool) = history(seed);
        let why = format!("seed {seed}");
        for it in all(&pool) {
            for reach in [Reach::Below, Reach::Clones] {
                let pool = copy(&devices);
                let freed = destroy(&pool, &it.name, reach, &why);
                with_clones += usize::from(freed.is_some() && reach == Reach::Clones);
            }
        }
    }
    assert!(with_clones > 10, "{with_clones}");
}

/// All subsets of a few snapshots.
#[test]
fn every_subset_of_snapshots_frees_what_was_promised() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(pool.top().unwrap().id).unwrap();
    for round in 0..5 {
        for slot in 0..8 {
            if (round >> (slot % 3)) & 1 == slot & 1 {
                put(&pool, &dataset, Data, slot, sized(round * 8 + slot, 3)).unwrap();
            }
        }
        pool.commit().unwrap();
        snapshot(&pool, &format!("tank@{round}"));
    }
    punch(&pool, &dataset, Data, 1).unwrap();
    drop(dataset);
    settle(&pool);
    for subset in 1..32_u32 {
        let pool = copy(&devices);
        let names = (0..5).filter(|round| subset >> round & 1 == 1);
        let names: Vec<String> = names.map(|round| round.to_string()).collect();
        let name = format!("tank@{}", names.join(","));
        assert!(destroy(&pool, &name, Reach::Named, "subset").is_some());
    }
}
