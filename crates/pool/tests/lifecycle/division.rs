//! A member of each mirror becomes a pool of its own. A power cut at any write leaves the old pool whole and no new
//! one, or both; and no device belongs to both or to none.

use std::sync::Arc;

use crate::common::logs::*;
use crate::common::model::*;
use crate::common::pools::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice, Journal, Survival};
use pool::{ArrayKind, DeviceState, NewPool, Pool, PoolState, Purpose};
use store::{Store, probe};

fn split(pool: &Pool, named: &[u64]) -> pool::Result<Vec<u64>> {
    let members = pool.split_members(named)?;
    let new = NewPool {
        guid: NEW,
        name: "half",
    };
    assert!(pool.split(new, &members, &origin())?.is_none());
    Ok(members)
}

/// Imports the new pool. What is in it is named as in the old one.
fn import_new(devices: &[Arc<FaultDevice>]) -> Pool {
    let pool = import(devices);
    assert_eq!((pool.name().as_str(), pool.guid()), ("half", NEW));
    pool.name_temporarily("tank").unwrap();
    pool
}

fn fate(cut: u64, seed: u64) -> Survival {
    Survival::in_turn(cut, seed * 1_000_003 + cut)
}

fn go_on(pool: &Pool) {
    let dataset = pool.open_dataset(1).unwrap();
    put(pool, &dataset, ArrayKind::Data, 7, 7).unwrap();
    drop(dataset);
    pool.commit().unwrap();
    assert_clean(pool);
    // A power cut may have left one of two labels behind.
    assert_eq!(scrub_all(pool).errors, 0);
    assert_sound(pool, "it goes on");
}

#[test]
fn both_pools_hold_the_same_and_go_on() {
    let clock = FaultClock::new();
    let devices = fault_devices(5, &clock);
    let mut workload = Workload::new(create_mirrors(&devices, &[3, 2]), 1);
    workload.run(40);
    let expected = normal(workload.model.clone());
    workload.commit().unwrap();
    // The first mirror's second member, and the last one of the other.
    assert_eq!(split(&workload, &[11]).unwrap(), [11, 14]);
    assert_eq!(states(&workload), [DeviceState::Online; 3]);
    workload.run(20);
    let by_guid = pools(&devices);
    let [new, old] = [NEW, OLD].map(|guid| by_guid[&guid].len());
    assert_eq!((new, old), (2, 3));
    let half = import_new(&by_guid[&NEW]);
    assert_eq!(states(&half), [DeviceState::Online; 2]);
    assert_clean(&half);
    assert_eq!(read_pool(&half), expected);
    go_on(&half);
    // The labels name the new pool only, and a second import finds everything.
    drop(half);
    for device in &by_guid[&NEW] {
        let found = probe(device.as_ref()).unwrap();
        assert_eq!((found.pool_guid, found.other_guid), (NEW, 0));
    }
    go_on(&import_new(&by_guid[&NEW]));
    let (pool, model) = workload.close();
    assert_clean(&pool);
    assert_eq!(read_pool(&pool), normal(model));
    drop(pool);
    let pool = import(&by_guid[&OLD]);
    assert_eq!((pool.name().as_str(), pool.guid()), ("tank", OLD));
    go_on(&pool);
}

#[test]
fn a_power_cut_at_any_write_leaves_one_pool_or_two() {
    for seed in seeds(1, 2) {
        let clock = FaultClock::new();
        let devices = fault_devices(4, &clock);
        let mut workload = Workload::new(create_mirrors(&devices, &[2, 2]), seed);
        workload.run(25);
        workload.commit().unwrap();
        let expected = normal(workload.model.clone());
        devices
            .iter()
            .for_each(|device| drop(device.take_journal()));
        let first = clock.now();
        split(&workload, &[]).unwrap();
        let end = clock.now();
        let journals: Vec<Journal> = devices.iter().map(|d| d.take_journal()).collect();
        let mut seen = [0; 3];
        for cut in first..=end {
            let when = format!("seed {seed}, cut {cut} of {first} to {end}");
            let devices = after_cut(&journals, cut, fate(cut, seed));
            let before = pools(&devices);
            // Where a device says that it is split off, the new pool can be imported without the old one.
            let is_new = before.contains_key(&NEW);
            if is_new {
                let half = import_new(&before[&NEW]);
                assert_eq!(read_pool(&half), expected, "{when}");
                assert_clean(&half);
            }
            let old = import(&before[&OLD]);
            assert_clean(&old);
            assert_eq!(read_pool(&old), expected, "{when}");
            let members = states(&old).len();
            resilver(&old);
            go_on(&old);
            drop(old);
            let after = pools(&devices);
            let counts = (after[&OLD].len(), after.get(&NEW).map_or(0, Vec::len));
            match members {
                4 => assert_eq!((counts, is_new), ((4, 0), false), "{when}"),
                _ => assert_eq!((members, counts), (2, (2, 2)), "{when}"),
            }
            seen[usize::from(members == 2) + usize::from(is_new)] += 1;
            if members == 2 && !is_new {
                // The import of the old pool completed it.
                let half = import_new(&after[&NEW]);
                assert_eq!(read_pool(&half), expected, "{when}");
                go_on(&half);
            }
        }
        assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
    }
}

#[test]
fn a_device_that_was_split_off_and_fails_keeps_no_pool() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    devices.iter().for_each(|d| drop(d.take_journal()));
    let first = clock.now();
    split(&pool, &[]).unwrap();
    let journals: Vec<Journal> = devices.iter().map(|d| d.take_journal()).collect();
    for cut in first..=clock.now() {
        let devices = after_cut(&journals, cut, Survival::All);
        devices[1].inject(Fault::FullAfter(0));
        let old = import(&pools(&devices)[&OLD]);
        assert_clean(&old);
        assert_eq!(states(&old)[0], DeviceState::Online, "cut {cut}");
    }
}

#[test]
fn a_power_cut_while_the_new_pool_is_imported_first() {
    for seed in seeds(5, 2) {
        let clock = FaultClock::new();
        let devices = fault_devices(4, &clock);
        let mut workload = Workload::new(create_mirrors(&devices, &[2, 2]), seed);
        workload.run(25);
        workload.commit().unwrap();
        let expected = normal(workload.model.clone());
        split(&workload, &[]).unwrap();
        let new = pools(&devices).remove(&NEW).unwrap();
        new.iter().for_each(|device| drop(device.take_journal()));
        let first = clock.now();
        drop(import_new(&new));
        let end = clock.now();
        let journals: Vec<Journal> = new.iter().map(|d| d.take_journal()).collect();
        for cut in first..=end {
            let devices = after_cut(&journals, cut, fate(cut, seed));
            let found = pools(&devices);
            assert_eq!(found[&NEW].len(), 2, "cut {cut}");
            let half = import_new(&devices);
            assert_eq!(states(&half), [DeviceState::Online; 2], "cut {cut}");
            assert_eq!(read_pool(&half), expected, "cut {cut}");
            go_on(&half);
        }
    }
}

#[test]
fn keys_are_there_after_a_power_cut() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    let keyring = vec![9; 9000];
    let mut new = new_dataset(40);
    let stored = keyring.clone();
    new.keyring = Some(Box::new(move |_| Ok(stored)));
    new.is_key_root = true;
    new.suite = 1;
    pool.create_dataset("tank/keys", new, &origin()).unwrap();
    let keys = |pool: &Pool| {
        let entry = pool.find("tank/keys").unwrap();
        pool.keyring(entry.id).unwrap()
    };
    split(&pool, &[]).unwrap();
    let new = pools(&devices).remove(&NEW).unwrap();
    drop(new[0].take_journal());
    let first = clock.now();
    drop(import_new(&new));
    let journal = [new[0].take_journal()];
    for cut in first..=clock.now() {
        let half = import_new(&after_cut(&journal, cut, fate(cut, 3)));
        assert_eq!(keys(&half), keyring, "cut {cut}");
    }
    assert_eq!(keys(&pool), keyring);
}

#[test]
fn other_devices_stay_in_the_old_pool() {
    let clock = FaultClock::new();
    let devices = fault_devices(6, &clock);
    let pool = create_groups(&devices[..3], &[(2, 0)]);
    pool.log_devices()
        .add(&[new_member(&devices[3], 50)], &origin())
        .unwrap();
    pool.cache_devices()
        .add(&new_member(&devices[4], 51), &origin())
        .unwrap();
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    append(&dataset, entry(1)).unwrap();
    split(&pool, &[]).unwrap();
    // The log goes on where it was.
    append(&dataset, entry(2)).unwrap();
    pool.commit().unwrap();
    let listed = pool.devices();
    assert_eq!(
        listed.iter().filter(|d| d.purpose == Purpose::Logs).count(),
        1
    );
    assert_eq!((listed.len(), pool.cache_devices().list().len()), (3, 1));
    let half = import_new(&pools(&devices[..4]).remove(&NEW).unwrap());
    assert_eq!(
        (half.devices().len(), half.cache_devices().list().len()),
        (1, 0)
    );
    assert_clean(&half);
    go_on(&half);
    half.export().unwrap();
    assert_eq!(half.superblock().state, PoolState::Exported);
}

#[test]
fn what_cannot_be_split_is_refused() {
    let refused = |pool: &Pool, named: &[u64], what: &str| {
        let error = split(pool, named).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let clock = FaultClock::new();
    let devices = fault_devices(6, &clock);
    let raidz = create_groups(&devices[..3], &[(3, 1)]);
    refused(&raidz, &[], "has parity");
    drop(raidz);
    let devices = fault_devices(6, &clock);
    let mixed = create_mirrors(&devices[..3], &[2, 1]);
    refused(&mixed, &[], "has no mirror");
    drop(mixed);
    let devices = fault_devices(6, &clock);
    let pool = create_groups(&devices[..5], &[(2, 0), (2, 0)]);
    refused(&pool, &[10, 11], "the second");
    refused(&pool, &[14], "no member");
    refused(&pool, &[99], "no such device");
    pool.scrubber().start().unwrap();
    refused(&pool, &[], "a scrub runs");
    pool.scrubber().stop().unwrap();
    pool.attach_device(10, &new_member(&devices[5], 60), false, &origin())
        .unwrap();
    refused(&pool, &[], "a resilver runs");
    resilver(&pool);
    pool.offline_device(13, false, &origin()).unwrap();
    refused(&pool, &[13], "does not hold all data");
    refused(&pool, &[12], "does not hold all data");
    assert!(
        pool.split(
            NewPool {
                guid: NEW,
                name: "a/b"
            },
            &[],
            &origin()
        )
        .is_err()
    );
    assert_eq!(states(&pool).len(), 6);
    assert_clean(&pool);
}

#[test]
fn the_names_in_the_new_pool_are_not_too_long() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    let name = format!("tank/{}", "x".repeat(250));
    pool.create_dataset(&name, new_dataset(40), &origin())
        .unwrap();
    let members = pool.split_members(&[]).unwrap();
    let named = |name| NewPool { guid: NEW, name };
    let error = pool.split(named("longer"), &members, &origin());
    assert!(matches!(error, Err(pool::Error::BadName { .. })));
    assert_eq!(pools(&devices)[&OLD].len(), 2);
    split(&pool, &[]).unwrap();
    import_new(&pools(&devices)[&NEW]);
}

#[test]
fn a_split_is_done_where_a_device_takes_no_label() {
    let split_on = |limit: Option<u64>| {
        let clock = FaultClock::new();
        let devices = fault_devices(4, &clock);
        let pool = create_mirrors(&devices, &[2, 2]);
        let members = pool.split_members(&[]).unwrap();
        assert_eq!(members, [11, 13]);
        if let Some(limit) = limit {
            devices[3].inject(Fault::FullAfter(limit));
        }
        let new = NewPool {
            guid: NEW,
            name: "half",
        };
        let failed = pool.split(new, &members, &origin()).unwrap();
        (devices, pool, failed.is_some())
    };
    let (devices, _, failed) = split_on(None);
    assert!(!failed);
    // All but the two labels that come after the commit.
    let (devices, pool, failed) = split_on(Some(devices[3].written() - 2 * 4096));
    assert!(failed);
    assert_eq!(states(&pool), [DeviceState::Online; 2]);
    go_on(&pool);
    devices[3].heal();
    let half = import_new(&pools(&devices)[&NEW]);
    assert_eq!(states(&half), [DeviceState::Online; 2]);
    go_on(&half);
}

#[test]
fn a_split_that_fails_changes_nothing() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    let store = Store::open(dynamic(&devices)).unwrap();
    drop(store);
    // Prepared, and then the commit was another one.
    let members = pool.split_members(&[]).unwrap();
    assert_eq!(members, [11]);
    pool.split(
        NewPool {
            guid: NEW,
            name: "",
        },
        &members,
        &origin(),
    )
    .unwrap_err();
    assert_eq!(pools(&devices)[&OLD].len(), 2);
    go_on(&pool);
}

/// A device that was labelled for a split that was cut, and was taken out of the pool while it was away, was not split
/// off.
#[test]
fn a_device_of_a_split_that_did_not_come_to_be_becomes_no_pool() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    devices.iter().for_each(|d| drop(d.take_journal()));
    let first = clock.now();
    split(&pool, &[]).unwrap();
    let end = clock.now();
    let journals: Vec<Journal> = devices.iter().map(|d| d.take_journal()).collect();
    let (mut cut_short, mut split_off) = (0, 0);
    for cut in first..=end {
        let found = after_cut(&journals, cut, Survival::All);
        let is_prepared = probe(found[1].as_ref()).unwrap().other_guid == NEW;
        // The other one is away.
        let old = import(&found[..1]);
        let was_split = states(&old).len() == 1;
        if !was_split {
            old.detach_device(11, &origin()).unwrap();
        }
        go_on(&old);
        drop(old);
        // And back, and away again.
        for _ in 0..3 {
            drop(import(&pools(&found)[&OLD]));
        }
        let is_new = pools(&found).contains_key(&NEW);
        assert_eq!(is_new, was_split, "cut {cut} of {first} to {end}");
        match was_split {
            true => split_off += 1,
            false => cut_short += usize::from(is_prepared),
        }
    }
    assert!(cut_short > 0 && split_off > 0);
}
