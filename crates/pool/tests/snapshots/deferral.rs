//! Snapshots that are destroyed as soon as no hold and no clone keeps them.

use std::sync::Arc;

use crate::common::*;
use block::fault::{FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, Error, Pool, Reach};

fn create(pool: &Pool, name: &str, guid: u64) {
    pool.create_dataset(name, new_dataset(guid), &origin())
        .unwrap();
}

fn clone(pool: &Pool, snapshot: &str, name: &str, guid: u64) {
    pool.clone_snapshot(snapshot, name, new_clone(guid), &origin())
        .unwrap();
}

fn hold(pool: &Pool, name: &str) {
    pool.hold(&[name.into()], "tag", false, &origin()).unwrap();
}

fn release(pool: &Pool, name: &str) {
    pool.release(&[name.into()], "tag", false, &origin())
        .unwrap();
}

/// The names of those that went.
fn defer(pool: &Pool, name: &str) -> Vec<String> {
    pool.destroy_or_defer(name, false, &origin()).unwrap()
}

fn is_there(pool: &Pool, name: &str) -> bool {
    pool.find(name).is_ok()
}

/// `tank/a` with three snapshots, each of which has a record of its own.
fn pool() -> (Vec<Arc<FaultDevice>>, Pool) {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    create(&pool, "tank/a", 100);
    let id = pool.find("tank/a").unwrap().id;
    for (number, name) in [(1, "tank/a@1"), (2, "tank/a@2"), (3, "tank/a@3")] {
        let dataset = pool.open_dataset(id).unwrap();
        put(&pool, &dataset, ArrayKind::Data, 0, number).unwrap();
        pool.commit().unwrap();
        drop(dataset);
        snapshot(&pool, name);
    }
    (devices, pool)
}

#[test]
fn the_last_hold_or_clone_takes_it_along() {
    let (devices, pool) = pool();
    hold(&pool, "tank/a@1");
    clone(&pool, "tank/a@1", "tank/b", 101);
    clone(&pool, "tank/a@2", "tank/c", 102);
    let split = pool.deferral("tank/a@1%3", false).unwrap();
    assert_eq!((split.now.len(), split.later.len()), (1, 2));
    assert_eq!(defer(&pool, "tank/a@1%3"), ["tank/a@3"]);
    // Once more changes nothing.
    assert!(defer(&pool, "tank/a@%").is_empty());
    assert!(pool.find("tank/a@1").unwrap().is_deferred());
    assert!(matches!(
        pool.destroy_dataset("tank/a@1", false, &origin()),
        Err(Error::Held { .. })
    ));

    // A clone keeps it as well.
    release(&pool, "tank/a@1");
    assert!(is_there(&pool, "tank/a@1"));
    // The snapshot moves to the clone. The owner of the other dataset, who asked for its destruction, does not own it any
    // more, so the request ends.
    pool.promote("tank/b", None, &origin()).unwrap();
    assert!(!pool.find("tank/b@1").unwrap().is_deferred());
    defer(&pool, "tank/b@1");
    pool.rename("tank/b@1", "@first", &origin()).unwrap();

    // It is not forgotten by an import.
    export(pool);
    let pool = open_on(&devices).unwrap();
    assert!(is_there(&pool, "tank/b@first") && is_there(&pool, "tank/a@2"));
    let gone = pool.destroy_dataset("tank/c", false, &origin()).unwrap();
    assert_eq!(gone, ["tank/c", "tank/a@2"]);
    let gone = pool.destroy_dataset("tank/a", false, &origin()).unwrap();
    assert_eq!(gone, ["tank/a", "tank/b@first"]);
    assert_eq!(
        pool.snapshots(pool.find("tank/b").unwrap().id)
            .unwrap()
            .len(),
        0
    );
    assert!(pool.deferred().is_empty());
    model::settle(&pool);
    assert_clean(&pool);
}

#[test]
fn what_is_open_goes_later() {
    let (_devices, pool) = pool();
    hold(&pool, "tank/a@2");
    defer(&pool, "tank/a@2");
    let id = pool.find("tank/a@2").unwrap().id;
    let open = pool.open_dataset(id).unwrap();
    release(&pool, "tank/a@2");
    pool.destroy_due().unwrap();
    assert!(is_there(&pool, "tank/a@2"));
    drop(open);
    pool.destroy_due().unwrap();
    assert!(!is_there(&pool, "tank/a@2"));
    // What nothing keeps goes at once, or not at all.
    let open = pool.open_dataset(pool.find("tank/a@1").unwrap().id);
    assert!(matches!(
        pool.destroy_or_defer("tank/a@1%3", false, &origin()),
        Err(Error::Busy { .. })
    ));
    assert!(is_there(&pool, "tank/a@3"));
    drop(open);
    assert_clean(&pool);
}

/// A command takes only what it has freed itself.
#[test]
fn each_takes_its_own() {
    let (_devices, pool) = pool();
    for name in ["tank/a@1", "tank/a@2", "tank/a@3"] {
        hold(&pool, name);
        defer(&pool, name);
    }
    // It was read while its hold was released.
    let id = |name: &str| pool.find(name).unwrap().id;
    let open = pool.open_dataset(id("tank/a@1")).unwrap();
    release(&pool, "tank/a@1");
    drop(open);
    create(&pool, "tank/b", 101);
    let gone = pool.destroy_dataset("tank/b", false, &origin()).unwrap();
    assert_eq!(gone, ["tank/b"]);
    let freed = |tag: &str| {
        let names = ["tank/a@2".to_owned()];
        pool.freed_by_release(&names, tag, false).unwrap()
    };
    assert_eq!(freed("tag"), [id("tank/a@2")]);
    assert!(freed("other").is_empty());
    clone(&pool, "tank/a@2", "tank/c", 102);
    assert!(freed("tag").is_empty());
    let head = || vec![pool.find("tank/c").unwrap()];
    assert!(pool.freed_by(&head()).is_empty());
    release(&pool, "tank/a@2");
    assert!(is_there(&pool, "tank/a@1"));
    assert_eq!(pool.freed_by(&head()), [id("tank/a@2")]);
    clone(&pool, "tank/a@2", "tank/d", 103);
    assert!(pool.freed_by(&head()).is_empty());
    pool.destroy_due().unwrap();
    assert!(!is_there(&pool, "tank/a@1"));
    assert!(is_there(&pool, "tank/a@2") && is_there(&pool, "tank/a@3"));
}

#[test]
fn only_snapshots_are_deferred() {
    let (_devices, pool) = pool();
    for name in ["tank/a", "tank/a@none", "tank/none@1", "tank/a@2%1"] {
        pool.destroy_or_defer(name, true, &origin()).unwrap_err();
    }
    assert!(pool.deferred().is_empty());
}

#[test]
fn a_rollback_to_one_destroys_it_afterwards() {
    let (_devices, pool) = pool();
    // The clone of the target is below a clone of a later snapshot.
    clone(&pool, "tank/a@2", "tank/b", 101);
    clone(&pool, "tank/a@1", "tank/b/c", 102);
    assert!(defer(&pool, "tank/a@1").is_empty());
    let mut gone = pool.rollback("tank/a@1", Reach::Clones, &origin()).unwrap();
    gone.sort();
    assert_eq!(
        gone,
        ["tank/a@1", "tank/a@2", "tank/a@3", "tank/b", "tank/b/c"]
    );
    let dataset = pool.open_dataset(pool.find("tank/a").unwrap().id).unwrap();
    assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap()[&0], 1);
    drop(dataset);
    model::settle(&pool);
    assert_clean(&pool);
}

/// A power cut at any write leaves the mark there or not, and the snapshot with the clone or neither.
#[test]
fn a_power_cut_leaves_one_state_or_the_next() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    create(&pool, "tank/a", 100);
    snapshot(&pool, "tank/a@1");
    clone(&pool, "tank/a@1", "tank/b", 101);
    let state = |pool: &Pool| {
        let marked = pool.find("tank/a@1").map(|entry| entry.is_deferred());
        (marked.ok(), is_there(pool, "tank/b"))
    };
    devices[0].take_journal();
    let mut states = vec![(clock.now(), state(&pool))];
    defer(&pool, "tank/a@1");
    states.push((clock.now(), state(&pool)));
    pool.destroy_dataset("tank/b", false, &origin()).unwrap();
    states.push((clock.now(), state(&pool)));
    assert_eq!(
        states.iter().map(|(_, state)| *state).collect::<Vec<_>>(),
        [(Some(false), true), (Some(true), true), (None, false)]
    );
    let journal = devices[0].take_journal();
    for cut in states[0].0..=clock.now() {
        for survival in [Survival::None, Survival::All, Survival::Seeded(cut)] {
            let image = journal.image(cut, survival);
            let device = Arc::new(FaultDevice::from_bytes(image, &FaultClock::new()));
            let pool = open_on(&[device]).unwrap();
            let last = states.iter().rposition(|(time, _)| *time <= cut).unwrap();
            let allowed = &states[last..(last + 2).min(states.len())];
            let found = state(&pool);
            assert!(
                allowed.iter().any(|(_, state)| *state == found),
                "cut {cut}: {found:?}"
            );
            assert_clean(&pool);
        }
    }
}
