//! A pool gets another guid. A power cut at any write leaves it with the old one or the new one, and with all devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::model::*;
use crate::common::pools::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice, Journal, Survival};
use pool::{ArrayKind, DeviceState, Pool};
use store::{Store, probe};

fn renumber(devices: &[Arc<FaultDevice>]) {
    let store = Store::open(dynamic(devices)).unwrap();
    let guids: Vec<u64> = store.members().iter().map(|member| member.guid).collect();
    store.renumber(NEW, &guids).unwrap();
}

fn labels(devices: &[Arc<FaultDevice>]) -> Vec<(u64, u64)> {
    let found = devices.iter().map(|d| probe(d.as_ref()).unwrap());
    found.map(|it| (it.pool_guid, it.other_guid)).collect()
}

#[test]
fn at_every_write() {
    for (seed, shape) in seeds(1, 3).zip([(2, 0), (3, 1), (1, 0)]) {
        let clock = FaultClock::new();
        let devices = fault_devices(shape.0 + 1, &clock);
        // The last one is a spare.
        let mut workload = Workload::new(create_groups(&devices, &[shape]), seed);
        workload.run(25);
        let (pool, model) = workload.close();
        let expected = normal(model);
        let keyring = vec![9; 9000];
        let stored = keyring.clone();
        let mut new = new_dataset(40);
        new.keyring = Some(Box::new(move |_| Ok(stored)));
        (new.is_key_root, new.suite) = (true, 1);
        pool.create_dataset("tank/keys", new, &origin()).unwrap();
        export(pool);
        devices
            .iter()
            .for_each(|device| drop(device.take_journal()));
        let first = clock.now();
        renumber(&devices);
        drop(import(&pools(&devices)[&NEW]));
        let end = clock.now();
        assert_eq!(labels(&devices), vec![(NEW, 0); devices.len()]);
        let journals: Vec<Journal> = devices.iter().map(|d| d.take_journal()).collect();
        let mut guids = BTreeMap::new();
        for cut in first..=end {
            let survival = Survival::in_turn(cut, seed * 1_000_003 + cut);
            let devices = after_cut(&journals, cut, survival);
            let found = pools(&devices);
            let when = format!("seed {seed}, cut {cut} of {first} to {end}");
            assert_eq!(found.len(), 1, "{when}");
            let (guid, found) = found.first_key_value().unwrap();
            assert_eq!(found.len(), devices.len(), "{when}");
            let pool = import(found);
            assert_eq!(pool.guid(), *guid, "{when}");
            *guids.entry(*guid).or_insert(0) += 1;
            assert!(
                states(&pool)
                    .iter()
                    .all(|state| matches!(state, DeviceState::Online | DeviceState::Spare)),
                "{when}"
            );
            assert_eq!(labels(&devices), vec![(*guid, 0); devices.len()], "{when}");
            assert_clean(&pool);
            let entry = pool.find("tank/keys").unwrap();
            assert_eq!(pool.keyring(entry.id).unwrap(), keyring, "{when}");
            let mut model = read_pool(&pool);
            model.datasets.remove("tank/keys");
            assert_eq!(model, expected, "{when}");
            export(pool);
            export(import(&devices));
        }
        assert_eq!(guids.keys().copied().collect::<Vec<_>>(), [OLD, NEW]);
    }
}

/// Each device in the state of a power cut, without the ones that were lost.
fn images(journals: &[Journal], cut: u64, lost: &[usize]) -> Vec<Arc<FaultDevice>> {
    let left = journals.iter().enumerate();
    let left = left.filter(|(index, _)| !lost.contains(index));
    after_cut(left.map(|(_, journal)| journal), cut, Survival::All)
}

fn commit_often(pool: &Pool) {
    let dataset = pool.open_dataset(1).unwrap();
    for number in 1..40 {
        put(pool, &dataset, ArrayKind::Data, 7, number).unwrap();
        pool.commit().unwrap();
    }
}

#[test]
fn a_device_is_lost_after_a_power_cut_and_a_spare_is_away() {
    let clock = FaultClock::new();
    let devices = fault_devices(3, &clock);
    export(create_groups(&devices, &[(2, 0)]));
    devices.iter().for_each(|d| drop(d.take_journal()));
    let first = clock.now();
    renumber(&devices);
    let journals: Vec<Journal> = devices.iter().map(|d| d.take_journal()).collect();
    for cut in first..=clock.now() {
        // The last one is the spare.
        let devices = images(&journals, cut, &[2]);
        let (guid, found) = pools(&devices).pop_first().unwrap();
        let pool = import(&found);
        commit_often(&pool);
        let expected = read_pool(&pool);
        drop(pool);
        for left in &devices {
            let pool = import(&[copy_of(left)]);
            assert_eq!(pool.guid(), guid, "cut {cut}");
            assert_eq!(read_pool(&pool), expected, "cut {cut}");
            assert_clean(&pool);
        }
    }
}

#[test]
fn a_scrub_leaves_the_label_of_a_spare() {
    let clock = FaultClock::new();
    let devices = fault_devices(3, &clock);
    export(create_groups(&devices, &[(2, 0)]));
    renumber(&devices);
    let pool = import(&devices);
    assert_sound(&pool, "after the import");
    assert_eq!(labels(&devices), [(NEW, 0); 3]);
}

#[test]
fn a_device_that_takes_no_label_keeps_no_pool() {
    for failing in [1, 2] {
        let clock = FaultClock::new();
        let devices = fault_devices(3, &clock);
        export(create_groups(&devices, &[(2, 0)]));
        renumber(&devices);
        // The last one is the spare.
        devices[failing].inject(Fault::FullAfter(0));
        for _ in 0..2 {
            let pool = import(&devices);
            commit_often(&pool);
            assert_clean(&pool);
            let expected = match failing {
                1 => DeviceState::Faulted,
                _ => DeviceState::Online,
            };
            assert_eq!(states(&pool)[1], expected);
            assert_eq!(labels(&devices), [(NEW, OLD); 3]);
        }
        devices[failing].heal();
        let pool = import(&devices);
        if failing == 1 {
            let device = dynamic(&devices).swap_remove(1);
            pool.online_device(11, device, &origin()).unwrap();
            resilver(&pool);
        }
        drop(pool);
        let pool = import(&devices);
        assert_eq!(states(&pool)[..2], [DeviceState::Online; 2]);
        assert_eq!(labels(&devices), [(NEW, 0); 3]);
    }
}

#[test]
fn a_device_of_no_pool_gives_none_another_guid() {
    let clock = FaultClock::new();
    let mut devices = fault_devices(2, &clock);
    devices.push(forge(99));
    let (own, forged) = (&devices[..2], &devices[2..]);
    export(create_mirrors(own, &[2]));
    // One that is listed and away, of which only the guid is known.
    let absent = [copy_of(&own[0]), forge(11)];
    let pool = import(&absent);
    assert_eq!((pool.guid(), states(&pool)[1]), (OLD, DeviceState::Missing));
    drop(pool);
    assert_eq!(labels(&absent), [(OLD, 0), (NEW, OLD)]);
    let before = forged[0].to_bytes();
    let pool = import(&devices);
    assert_eq!(
        (pool.guid(), states(&pool)),
        (OLD, vec![DeviceState::Online; 2])
    );
    commit_often(&pool);
    drop(pool);
    assert_eq!(labels(&devices), [(OLD, 0), (OLD, 0), (NEW, OLD)]);
    assert!(forged[0].to_bytes() == before);
    // What devices of the pool say counts beside it.
    renumber(&own[..1]);
    let found = Arc::new(Store::open(dynamic(own)).unwrap());
    assert!(pool::strangers(&found).is_empty());
    assert_eq!(import(own).guid(), NEW);
}

/// A device that nobody took from a pool, and whose label says that the pool gets another guid.
fn forge(guid: u64) -> Arc<FaultDevice> {
    let device = fault_devices(1, &FaultClock::new()).remove(0);
    let options = store::CreateOptions {
        pool_guid: OLD,
        device_guids: vec![guid],
        created: 1,
        force: false,
    };
    let other = Store::create(dynamic(&[Arc::clone(&device)]), &options).unwrap();
    other.commit_labels().unwrap();
    other.renumber(NEW, &[guid]).unwrap();
    device
}

/// A label is all that a spare has of its pool, and easily forged.
#[test]
fn a_spare_gives_no_other_device_another_guid() {
    let clock = FaultClock::new();
    let devices = fault_devices(3, &clock);
    export(create_groups(&devices, &[(2, 0)]));
    let spare = Store::open(dynamic(&devices)).unwrap().members();
    let spare = spare.iter().find(|member| member.is_spare).unwrap().guid;
    let store = Store::open(dynamic(&devices)).unwrap();
    store.renumber(NEW, &[spare]).unwrap();
    drop(store);
    let found = pools(&devices);
    assert_eq!((found[&OLD].len(), found[&NEW].len()), (2, 1));
    let pool = import(&devices[..2]);
    assert_eq!((pool.guid(), states(&pool).len()), (OLD, 3));
    commit_often(&pool);
    drop(pool);
    assert_eq!(labels(&devices), [(OLD, 0), (OLD, 0), (NEW, OLD)]);
}

#[test]
fn a_device_that_missed_it_is_taken_back() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    export(create_mirrors(&devices, &[2]));
    // Not while it is known to be missing.
    let store = Store::open(dynamic(&devices[..1])).unwrap();
    store.renumber(NEW, &[10, 11]).unwrap_err();
    drop(store);
    assert_eq!(labels(&devices), [(OLD, 0); 2]);
    // The power fails after the first label.
    renumber(&devices[..1]);
    let pool = import(&devices[..1]);
    let back = dynamic(&devices).swap_remove(1);
    pool.online_device(11, back, &origin()).unwrap();
    assert_eq!(labels(&devices), [(NEW, OLD); 2]);
    resilver(&pool);
    commit_often(&pool);
    drop(pool);
    let pool = import(&devices);
    assert_eq!(states(&pool), [DeviceState::Online; 2]);
    assert_eq!(labels(&devices), [(NEW, 0); 2]);
    assert_sound(&pool, "with both");
}

#[test]
fn a_copy_gets_a_guid_of_its_own() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    export(pool);
    let copies: Vec<_> = devices.iter().map(|device| copy_of(device)).collect();
    renumber(&copies);
    let own = import(&copies);
    let old = import(&devices);
    assert_eq!((own.guid(), old.guid()), (NEW, OLD));
    // A device of the one is none of the other.
    let all: Vec<_> = devices.iter().chain(&copies).cloned().collect();
    let found = pools(&all);
    assert_eq!((found[&OLD].len(), found[&NEW].len()), (2, 2));
}

#[test]
fn labels_change_only_when_all_devices_are_there() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    export(create_mirrors(&devices, &[2]));
    renumber(&devices);
    // One is missing at the first import.
    drop(import(&devices[..1]));
    assert_eq!(labels(&devices), [(NEW, OLD), (NEW, OLD)]);
    let pool = import(&devices);
    assert_eq!(labels(&devices), [(NEW, 0), (NEW, 0)]);
    resilver(&pool);
    assert_sound(&pool, "with both");
    assert_eq!(states(&pool), [DeviceState::Online; 2]);
}
