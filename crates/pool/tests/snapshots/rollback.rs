//! Going back to a snapshot whose later ones have clones, and renaming the snapshots of many datasets.

use std::sync::Arc;

use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use pool::{ArrayKind, Error, Pool, Reach};

fn pool() -> (Vec<Arc<FaultDevice>>, Pool) {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    (devices, pool)
}

/// All names, sorted.
fn names(pool: &Pool) -> Vec<String> {
    let listed = pool.list(pool.top().unwrap().id).unwrap();
    let mut names: Vec<String> = listed.into_iter().map(|listed| listed.name).collect();
    names.sort();
    names
}

fn create(pool: &Pool, name: &str, guid: u64) {
    pool.create_dataset(name, new_dataset(guid), &origin())
        .unwrap();
}

fn clone(pool: &Pool, snapshot: &str, name: &str, guid: u64) {
    pool.clone_snapshot(snapshot, name, new_clone(guid), &origin())
        .unwrap();
}

/// `tank/a` with two snapshots. The later one has a clone with a snapshot and a clone of that, and something below it.
fn pool_with_clones() -> (Vec<Arc<FaultDevice>>, Pool) {
    let (devices, pool) = pool();
    create(&pool, "tank/a", 100);
    let id = pool.find("tank/a").unwrap().id;
    for (number, name) in [(1, "tank/a@1"), (2, "tank/a@2")] {
        let dataset = pool.open_dataset(id).unwrap();
        put(&pool, &dataset, ArrayKind::Data, 0, number).unwrap();
        pool.commit().unwrap();
        drop(dataset);
        snapshot(&pool, name);
    }
    clone(&pool, "tank/a@2", "tank/clone", 101);
    snapshot(&pool, "tank/clone@x");
    clone(&pool, "tank/clone@x", "tank/second", 102);
    create(&pool, "tank/clone/below", 103);
    (devices, pool)
}

#[test]
fn clones_of_later_snapshots_go_with_them() {
    let (devices, pool) = pool_with_clones();
    let before = names(&pool);
    assert!(matches!(
        pool.rollback("tank/a@1", true, &origin()),
        Err(Error::HasClones { .. })
    ));
    // A hold on a snapshot of a clone keeps all.
    let held = ["tank/clone@x".to_owned()];
    pool.hold(&held, "tag", false, &origin()).unwrap();
    assert!(matches!(
        pool.rollback("tank/a@1", Reach::Clones, &origin()),
        Err(Error::Held { .. })
    ));
    pool.release(&held, "tag", false, &origin()).unwrap();
    let open = pool.open_dataset(pool.find("tank/second").unwrap().id);
    assert!(matches!(
        pool.rollback("tank/a@1", Reach::Clones, &origin()),
        Err(Error::Busy { .. })
    ));
    drop(open);
    assert_eq!(names(&pool), before);
    let mut doomed = pool
        .doomed_by_rollback("tank/a@1", Reach::Clones)
        .unwrap()
        .iter()
        .map(|entry| pool.name_of(entry.id).unwrap())
        .collect::<Vec<_>>();
    let mut gone = pool.rollback("tank/a@1", Reach::Clones, &origin()).unwrap();
    doomed.sort();
    gone.sort();
    assert_eq!(gone, doomed);
    let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
    assert_eq!(
        gone,
        [
            "tank/a@2",
            "tank/clone",
            "tank/clone/below",
            "tank/clone@x",
            "tank/second"
        ]
    );
    assert_eq!(names(&pool), ["tank", "tank/a", "tank/a@1"]);
    let dataset = pool.open_dataset(pool.find("tank/a").unwrap().id).unwrap();
    assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap()[&0], 1);
    drop(dataset);
    crate::common::model::settle(&pool);
    assert_clean(&pool);
    export(pool);
    assert_clean(&open_on(&devices).unwrap());
}

#[test]
fn a_dataset_below_its_own_clone_stays() {
    let (_devices, pool) = pool_with_clones();
    pool.rename("tank/a", "tank/clone/a", &origin()).unwrap();
    let before = names(&pool);
    let refused = pool
        .rollback("tank/clone/a@1", Reach::Clones, &origin())
        .unwrap_err();
    assert!(
        refused.to_string().contains("below a clone of a later"),
        "{refused}"
    );
    assert_eq!(names(&pool), before);
}

#[test]
fn snapshots_of_one_name_are_renamed_together() {
    let (_devices, pool) = pool();
    for (at, name) in ["tank/a", "tank/a/b", "tank/a/c"].into_iter().enumerate() {
        create(&pool, name, 100 + at as u64);
    }
    pool.snapshot(&["tank/a@old".into()], true, &origin())
        .unwrap();
    pool.destroy_dataset("tank/a/c@old", false, &origin())
        .unwrap();
    snapshot(&pool, "tank@old");
    snapshot(&pool, "tank/a/b@taken");
    let before = names(&pool);
    let rename = |from: &str, to: &str| pool.rename_snapshots(from, to, &origin());
    for (from, to) in [
        // Taken below.
        ("tank/a@old", "@taken"),
        ("tank/a@old", "@old"),
        ("tank/a@old", "tank/a/b@new"),
        ("tank/a@old", "@n%w"),
        ("tank/a@none", "@new"),
        ("tank/a", "tank/new"),
    ] {
        rename(from, to).unwrap_err();
        assert_eq!(names(&pool), before, "{from} {to}");
    }
    let long = "x".repeat(255 - "tank/a@".len());
    assert!(matches!(
        rename("tank/a@old", &format!("@{long}")),
        Err(Error::BadName { .. })
    ));
    assert_eq!(names(&pool), before);
    rename("tank/a@old", "@new").unwrap();
    assert_eq!(
        names(&pool),
        [
            "tank",
            "tank/a",
            "tank/a/b",
            "tank/a/b@new",
            "tank/a/b@taken",
            "tank/a/c",
            "tank/a@new",
            "tank@old"
        ]
    );
    assert_clean(&pool);
}
