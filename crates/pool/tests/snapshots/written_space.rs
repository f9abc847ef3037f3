//! Counters and deadlists say the same as the trees about the space since an earlier state, and before compression.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use block::fault::FaultClock;
use pool::ArrayKind::Data;
use pool::{DatasetListing, Pool};

/// In some pools there are more sublists than may be held in memory.
fn limit(pool: &Pool, seed: u64) {
    if let Some(sublists) = [None, Some(0), Some(3)][(seed % 3) as usize] {
        pool.limit_sums(sublists);
    }
}

/// In histories with clones, promotions, rollbacks and frees.
#[test]
fn counters_and_births_say_the_same() {
    let (mut since_one, mut since_many) = (0, 0);
    for seed in seeds(40, 6) {
        let devices = fault_devices(2, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        limit(&workload.pool, seed);
        for _ in 0..4 {
            workload.run(40);
            let pool = &workload.pool;
            let all = pool.list(pool.top().unwrap().id).unwrap();
            for listed in all.iter().filter(|listed| listed.entry.is_snapshot()) {
                let name = &listed.name;
                let _ = pool.bookmark(name, &name.replace('@', "#"), &origin());
                let own = pool.written_since(listed.entry.id, name).unwrap();
                assert_eq!(own, Some(0), "{seed} {name}");
            }
            for (at, listed) in all.iter().enumerate() {
                let id = listed.entry.id;
                let head = listed.name.split('@').next().unwrap();
                let older = all.iter().filter(|older| {
                    older.entry.is_snapshot() && older.name.starts_with(&format!("{head}@"))
                });
                for older in older {
                    let last = older.entry.name.as_str();
                    let counted = pool.written_since(id, last).unwrap();
                    let is_later = all[..at]
                        .iter()
                        .any(|before| before.entry.id == older.entry.id);
                    // A dataset is listed before its snapshots.
                    let is_before = is_later || !listed.entry.is_snapshot() || older.entry.id == id;
                    assert_eq!(
                        counted.is_some(),
                        is_before,
                        "{seed} {} {last}",
                        listed.name
                    );
                    let born = pool.written_since_bookmark(id, last).unwrap();
                    if let (Some(born), Some(counted)) = (born, counted) {
                        assert_eq!(born, counted, "{seed} {} {last}", listed.name);
                        match older.entry.id == listed.entry.prev_snap {
                            true => {
                                assert_eq!(counted, listed.written);
                                since_one += 1;
                            }
                            false => since_many += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(
        since_one > 50 && since_many > 50,
        "{since_one} {since_many}"
    );
}

#[test]
fn what_is_not_earlier_is_no_answer() {
    let pool = with_history();
    let id = |name: &str| pool.find(name).unwrap().id;
    pool.clone_snapshot("tank/a@two", "tank/c", new_clone(60), &origin())
        .unwrap();
    fill(&pool, "tank/c", Data, &[(3, 3)]);
    let clone = id("tank/c");
    let own = pool.listed_one(clone).unwrap().written;
    assert!(own > 0);
    assert_eq!(pool.written_since(clone, "tank/a@two").unwrap(), Some(own));
    assert!(pool.written_since(clone, "tank/a@one").unwrap() > Some(own));
    // Neither is what comes after it, nor what is not there.
    for other in [
        "two",
        "tank/a@three",
        "tank/a@none",
        "none",
        "@",
        "",
        "//@x",
    ] {
        assert_eq!(pool.written_since(clone, other).unwrap(), None, "{other}");
    }
    assert_eq!(pool.written_since(id("tank/a@one"), "two").unwrap(), None);
    pool.bookmark("tank/a@two", "tank/a#two", &origin())
        .unwrap();
    assert_eq!(
        pool.written_since_bookmark(id("tank/a@one"), "two")
            .unwrap(),
        None
    );
    assert_eq!(pool.written_since_bookmark(clone, "two").unwrap(), None);
    assert_eq!(
        pool.written_since_bookmark(id("tank/a@two"), "two")
            .unwrap(),
        Some(0)
    );
}

/// Bytes before compression of the records of a dataset and its snapshots that its origin does not have.
fn distinct(pool: &Pool, head: &DatasetListing, snapshots: &[&DatasetListing]) -> u64 {
    let mut records = HashMap::new();
    let mut visit = |entry: &pool::Entry, found: bool| {
        for (array, root) in entry.roots.iter().enumerate() {
            pool.each_record(root, &mut |slot, ptr| {
                let key = (array, slot, format!("{ptr:?}"));
                match found {
                    true => drop(records.insert(key, u64::from(ptr.identity.logical_size()))),
                    false => drop(records.remove(&key)),
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        }
    };
    visit(&head.entry, true);
    snapshots
        .iter()
        .for_each(|snapshot| visit(&snapshot.entry, true));
    if head.entry.origin != 0 {
        visit(&pool.entry(head.entry.origin).unwrap(), false);
    }
    records.values().sum()
}

/// In histories with clones, promotions, rollbacks and destroyed snapshots.
#[test]
fn bytes_before_compression_are_those_of_all_records() {
    let mut with_snapshots = 0;
    for seed in seeds(30, 3) {
        let devices = fault_devices(2, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        limit(&workload.pool, seed);
        for _ in 0..5 {
            workload.run(60);
            let pool = &workload.pool;
            let all = pool.list(pool.top().unwrap().id).unwrap();
            let (snapshots, heads): (Vec<_>, Vec<_>) =
                all.iter().partition(|listed| listed.entry.is_snapshot());
            let own: Vec<(&str, u64)> = heads
                .iter()
                .map(|head| {
                    let parent = |listed: &&&DatasetListing| listed.entry.parent == head.entry.id;
                    let of_head: Vec<_> = snapshots.iter().filter(parent).copied().collect();
                    with_snapshots += usize::from(of_head.len() > 1);
                    (head.name.as_str(), distinct(pool, head, &of_head))
                })
                .collect();
            for head in &heads {
                let is_in =
                    |name: &str| name == head.name || name.starts_with(&format!("{}/", head.name));
                let below = own.iter().filter(|(name, _)| is_in(name));
                let sum: u64 = below.map(|(_, bytes)| bytes).sum();
                let counted = pool.logical_used(head.entry.id).unwrap();
                assert_eq!(counted, Some(sum), "{seed} {}", head.name);
            }
            assert_clean(pool);
        }
    }
    assert!(with_snapshots > 10, "{with_snapshots}");
}

#[test]
fn a_snapshot_counts_what_only_it_has() {
    let pool = with_history();
    let id = pool.find("tank/a").unwrap().id;
    let all = || pool.logical_used(id).unwrap().unwrap();
    snapshot(&pool, "tank/a@five");
    let before = all();
    fill(&pool, "tank/a", Data, &[(3, 3), (4, 4)]);
    let only = pool.find("tank/a@five").unwrap().id;
    let only = pool.logical_used(only).unwrap().unwrap();
    assert!(all() > before);
    let with = all();
    pool.destroy_dataset("tank/a@five", false, &origin())
        .unwrap();
    assert_eq!(all(), with - only);
    settle(&pool);
    assert_clean(&pool);
}
