//! Devices that do not answer: a pool with other copies goes on without them, and loses nothing by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::logs::*;
use crate::common::*;
use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice, images};
use block::gate::{DeviceGate, GatedDevice};
use pool::{ArrayKind, DeviceState, Error, NewDataset, NewKeyring, Pool, SweepKind};

/// Long enough for devices that answer.
const DEADLINE: Duration = Duration::from_secs(1);

fn gated(devices: &[Arc<FaultDevice>]) -> (Vec<Arc<dyn BlockDevice>>, Vec<Arc<DeviceGate>>) {
    let gated = devices.iter().map(GatedDevice::new);
    let (devices, gates): (Vec<_>, Vec<_>) = gated.unzip();
    let devices = devices.into_iter();
    (
        devices
            .map(|it| Arc::new(it) as Arc<dyn BlockDevice>)
            .collect(),
        gates,
    )
}

fn data(pool: &Pool) -> BTreeMap<u64, u64> {
    let dataset = pool.open_dataset(pool.top().unwrap().id).unwrap();
    read_all(&dataset, ArrayKind::Data).unwrap()
}

fn put_and_commit(pool: &Pool, slot: u64) {
    let dataset = open_top(pool);
    put(pool, &dataset, ArrayKind::Data, slot, sized(slot, 2)).unwrap();
    pool.commit().unwrap();
}

/// A pool with one record, on a group of which a device does not answer any more.
fn held_up(
    width: usize,
    parity: usize,
    nth: usize,
) -> (Pool, Vec<Arc<FaultDevice>>, Arc<DeviceGate>) {
    let clock = FaultClock::new();
    let devices = fault_devices(width, &clock);
    let (dynamic, mut gates) = gated(&devices);
    let pool = create_groups_on(dynamic, &[(width, parity)]);
    pool.set_device_deadline(DEADLINE);
    put_and_commit(&pool, 1);
    let gate = gates.remove(nth);
    gate.close();
    (pool, devices, gate)
}

fn answered(pool: &Pool, nth: usize, gate: &DeviceGate) {
    gate.open();
    while pool.devices()[nth].is_slow {
        std::thread::yield_now();
    }
}

#[test]
fn a_commit_without_a_device_that_hangs_is_a_degraded_one() {
    for (width, parity, nth) in [(2, 0, 0), (2, 0, 1), (3, 1, 0), (3, 1, 2)] {
        let (pool, devices, gate) = held_up(width, parity, nth);
        put_and_commit(&pool, 2);
        let device = pool.devices().remove(nth);
        assert_eq!(device.state, DeviceState::Faulted);
        assert!(device.is_slow && device.errors.write > 0);
        assert_eq!(data(&pool).len(), 2);
        // It does not come back while a late write may land on it.
        let refused = pool.release_device(device.guid).unwrap_err();
        assert!(refused.to_string().contains("did not answer"), "{refused}");
        answered(&pool, nth, &gate);
        put_and_commit(&pool, 3);
        pool.release_device(device.guid).unwrap();
        let back = dynamic(&devices).remove(nth);
        pool.online_device(device.guid, back, &origin()).unwrap();
        resilver(&pool);
        assert!(
            states(&pool)
                .iter()
                .all(|state| *state == DeviceState::Online)
        );
        assert_sound(&pool, "after it came back");
        assert_eq!(data(&pool).len(), 3);
    }
}

#[test]
fn after_a_power_cut_the_pool_has_the_old_or_the_new_state() {
    for nth in 0..2 {
        let (pool, devices, gate) = held_up(2, 0, nth);
        let other = 1 - nth;
        let _ = devices[other].take_journal();
        put_and_commit(&pool, 2);
        let journal = devices[other].take_journal();
        let stale = devices[nth].to_bytes();
        let times = journal.times();
        let end = times.last().map_or(0, |last| last + 1);
        for cut in times.into_iter().chain([end]) {
            for image in images(&journal, cut, 0..3) {
                let alone = data(&open_images(vec![image.clone()]).unwrap());
                assert!(alone.len() == 2 || cut < end && alone.len() == 1);
                let mut both = vec![image];
                both.insert(nth, stale.clone());
                let pool = open_images(both).unwrap();
                assert_eq!(data(&pool), alone, "cut {cut}");
                resilver(&pool);
                assert_sound(&pool, cut);
            }
        }
        gate.open();
        drop(pool);
    }
}

#[test]
fn the_side_that_was_left_behind_is_not_taken_for_the_pool() {
    let (pool, devices, gate) = held_up(2, 0, 0);
    put_and_commit(&pool, 2);
    export(pool);
    let stale = copy_of(&devices[0]);
    gate.open();
    // Used alone it becomes another pool, and the two are not mixed.
    let alone = open_on(std::slice::from_ref(&stale)).unwrap();
    assert_eq!(data(&alone).len(), 1);
    for _ in 0..3 {
        alone.record(&origin()).unwrap();
    }
    export(alone);
    let mixed = open_on(&[stale, Arc::clone(&devices[1])]).err().unwrap();
    assert!(matches!(mixed, Error::OtherHistory { .. }), "{mixed}");
}

#[test]
fn a_log_device_that_hangs_is_done_without() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (log, gate) = GatedDevice::new(&devices[1]);
    let mut new = new_member(&devices[1], 50);
    new.device = Arc::new(log);
    pool.log_devices().add(&[new], &origin()).unwrap();
    pool.set_device_deadline(DEADLINE);
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    append(&dataset, entry(1)).unwrap();
    gate.close();
    // What cannot be logged there needs a commit, and then the log is in the pool itself.
    assert!(append(&dataset, entry(2)).is_none());
    change(&pool, &dataset, 2);
    pool.commit().unwrap();
    assert_eq!(pool.devices()[1].state, DeviceState::Faulted);
    append(&dataset, entry(3)).unwrap();
    pool.commit().unwrap();
    assert_clean(&pool);
    gate.open();
}

/// Returns whether bytes are anywhere on a device.
fn has(device: &FaultDevice, part: &[u8]) -> bool {
    let bytes = device.to_bytes();
    bytes.windows(part.len()).any(|it| it == part)
}

fn keyed(keyring: &'static [u8]) -> NewDataset {
    NewDataset {
        suite: 1,
        keyring: Some(Box::new(|_| Ok(keyring.to_vec()))),
        is_key_root: true,
        ..new_dataset(50)
    }
}

#[test]
fn keys_are_changed_without_a_device_that_hangs() {
    const OLD: &[u8] = b"the old wrapped key, long enough to be found";
    for nth in 0..2 {
        let (pool, devices, gate) = held_up(2, 0, nth);
        gate.open();
        let made = pool.create_dataset("tank/k", keyed(OLD), &origin());
        let id = made.unwrap().id;
        gate.close();
        let change = NewKeyring {
            id,
            keyring: b"another".to_vec(),
            key_root: id,
            props: Vec::new(),
            done: "changed".into(),
        };
        pool.replace_keyrings(&[change], &origin()).unwrap();
        // The command does not pass over the device in silence: it is faulted, and its keys are the old ones.
        let device = pool.devices().remove(nth);
        assert_eq!(device.state, DeviceState::Faulted);
        assert!(has(&devices[nth], OLD) && !has(&devices[1 - nth], OLD));
        answered(&pool, nth, &gate);
        pool.release_device(device.guid).unwrap();
        let back = dynamic(&devices).remove(nth);
        pool.online_device(device.guid, back, &origin()).unwrap();
        resilver(&pool);
        assert!(!has(&devices[nth], OLD));
        assert_eq!(pool.keyring(id).unwrap(), b"another");
        assert_sound(&pool, "after it came back");
    }
}

#[test]
fn a_trim_and_a_scrub_do_without_a_device_that_hangs() {
    for (width, parity, nth) in [(2, 0, 0), (2, 0, 1), (3, 1, 1)] {
        for is_trim in [true, false] {
            let (pool, _devices, gate) = held_up(width, parity, nth);
            match is_trim {
                true => {
                    pool.sweeper().start(SweepKind::Trim, None);
                    while pool.sweeper().step(SweepKind::Trim, 1 << 20).unwrap() {}
                }
                false => drop(scrub_all(&pool)),
            }
            assert_eq!(states(&pool)[nth], DeviceState::Faulted);
            put_and_commit(&pool, 2);
            assert_eq!(data(&pool).len(), 2);
            gate.open();
        }
    }
}
