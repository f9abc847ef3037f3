//! A group of devices that holds data is removed: what it held lies on the others afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::model::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use pool::{DeviceState, Pool, Purpose, RemovalPhase};

/// Pools of two groups or more, and which of them goes.
const SHAPES: [(&[(usize, usize)], u16); 6] = [
    (&[(1, 0), (1, 0)], 1),
    (&[(1, 0), (1, 0), (1, 0)], 0),
    (&[(2, 0), (2, 0)], 0),
    (&[(3, 1), (3, 1)], 1),
    (&[(1, 0), (3, 1)], 1),
    (&[(4, 2), (2, 0), (1, 0)], 1),
];

fn create(shape: usize, clock: &FaultClock) -> (Vec<Arc<FaultDevice>>, Pool, u16) {
    let (groups, leaving) = SHAPES[shape % SHAPES.len()];
    let count = groups.iter().map(|(width, _)| width).sum();
    let devices = fault_devices(count, clock);
    let pool = create_groups(&devices, groups);
    (devices, pool, leaving)
}

/// Goes on with a removal until it is done or waits.
fn remove(pool: &Pool) {
    while pool.removal().step(64 << 10).unwrap() {}
}

fn phase(pool: &Pool) -> RemovalPhase {
    pool.removal().status().unwrap().phase
}

/// The devices that are in the pool, of those in the order of its groups.
fn members(pool: &Pool, devices: &[Arc<FaultDevice>]) -> Vec<Arc<FaultDevice>> {
    let all = pool.devices();
    let guids = (0..devices.len() as u64).map(|n| 10 + n);
    let listed = devices.iter().zip(guids);
    let listed = listed.filter(|(_, guid)| all.iter().any(|device| device.guid == *guid));
    listed.map(|(device, _)| Arc::clone(device)).collect()
}

#[test]
fn what_it_held_is_read_from_the_others() {
    for seed in seeds(1, 12) {
        let clock = FaultClock::new();
        let (devices, pool, leaving) = create(seed as usize, &clock);
        let mut workload = Workload::new(pool, seed);
        workload.steps(60);
        workload.removal().begin(leaving, &origin()).unwrap();
        let mut left = u64::MAX;
        while workload.removal().step(64 << 10).unwrap() {
            workload.run(2);
            assert_clean(&workload.pool);
            left = left.min(workload.removal().status().unwrap().left);
        }
        let status = workload.removal().status().unwrap();
        assert_eq!(
            (status.phase, status.waits),
            (RemovalPhase::Finished, None),
            "seed {seed}"
        );
        assert!(workload.devices().iter().all(|d| d.group != Some(leaving)));
        let gone = devices.len() - members(&workload.pool, &devices).len();
        assert!(gone > 0);
        assert_clean(&workload.pool);
        assert_sound(&workload.pool, seed);
        workload.run(40);

        // The same without the devices that are gone, which belong to no pool.
        let rest = members(&workload.pool, &devices);
        for device in &devices {
            let is_gone = !rest.iter().any(|member| Arc::ptr_eq(member, device));
            assert_eq!(
                device.to_bytes()[..4096].iter().all(|byte| *byte == 0),
                is_gone
            );
        }
        workload.reopened(|| open_on(&rest).unwrap());
        assert_clean(&workload.pool);
        workload.run(60);
        assert_clean(&workload.pool);
        workload.reopened(|| open_on(&rest).unwrap());
    }
}

#[test]
fn it_goes_on_after_an_import_and_can_be_stopped() {
    for seed in seeds(20, 6) {
        let clock = FaultClock::new();
        let (devices, pool, leaving) = create(seed as usize, &clock);
        let mut workload = Workload::new(pool, seed);
        workload.steps(60);
        workload.removal().begin(leaving, &origin()).unwrap();
        for _ in 0..4 {
            workload.removal().step(16 << 10).unwrap();
        }
        workload.run(5);
        workload.reopened(|| open_on(&devices).unwrap());
        assert_eq!(phase(&workload.pool), RemovalPhase::Running);
        assert_clean(&workload.pool);
        workload.removal().step(16 << 10).unwrap();
        workload.removal().stop(&origin()).unwrap();
        assert_eq!(phase(&workload.pool), RemovalPhase::Stopped);
        assert_clean(&workload.pool);
        workload.run(60);
        assert_clean(&workload.pool);
        workload.reopened(|| open_on(&devices).unwrap());
        assert!(workload.removal().stop(&origin()).is_err());

        workload.removal().begin(leaving, &origin()).unwrap();
        remove(&workload.pool);
        assert_eq!(phase(&workload.pool), RemovalPhase::Finished, "seed {seed}");
        assert_clean(&workload.pool);
        let rest = members(&workload.pool, &devices);
        workload.reopened(|| open_on(&rest).unwrap());
    }
}

#[test]
fn groups_are_removed_one_after_the_other() {
    for seed in seeds(40, 4) {
        let clock = FaultClock::new();
        let devices = fault_devices(4, &clock);
        let mut workload = Workload::new(create_on(&devices), seed);
        workload.steps(50);
        for leaving in [3, 0, 2] {
            workload.removal().begin(leaving, &origin()).unwrap();
            remove(&workload.pool);
            assert_eq!(phase(&workload.pool), RemovalPhase::Finished, "seed {seed}");
            assert_clean(&workload.pool);
            let rest = members(&workload.pool, &devices);
            workload.commit().unwrap();
            workload.reopened(|| open_on(&rest).unwrap());
            workload.run(10);
        }
        assert_sound(&workload.pool, seed);
        assert_clean(&workload.pool);
    }
}

/// A number that a later group gets is that of a group which is gone, with all that it held.
#[test]
fn it_is_forgotten_with_what_it_held() {
    let clock = FaultClock::new();
    let devices = fault_devices(3, &clock);
    let mut workload = Workload::new(create_on(&devices[..2]), 7);
    workload.steps(50);
    workload.removal().begin(1, &origin()).unwrap();
    remove(&workload.pool);
    workload.commit().unwrap();
    let (pool, model) = workload.close();
    for name in model.datasets.keys().rev().filter(|name| *name != "tank") {
        let _ = pool.destroy_dataset(name, true, &origin());
    }
    settle(&pool);
    assert_clean(&pool);
    pool.add_group(&[new_member(&devices[2], 77)], 0, &origin())
        .unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..200 {
        put(&pool, &dataset, pool::ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    assert_clean(&pool);
}

fn refusal(pool: &Pool, group: u16) -> String {
    pool.removal()
        .begin(group, &origin())
        .unwrap_err()
        .to_string()
}

#[test]
fn what_cannot_be_is_refused() {
    let clock = FaultClock::new();
    let devices = fault_devices(4, &clock);
    let pool = create_mirrors(&devices, &[2, 1, 1]);
    assert!(refusal(&pool, 7).contains("no such group"));
    let guid = pool.devices()[0].guid;
    pool.offline_device(guid, false, &origin()).unwrap();
    assert!(refusal(&pool, 0).contains("does not hold everything"));
    pool.removal().begin(1, &origin()).unwrap();
    assert!(refusal(&pool, 2).contains("another group is being removed"));
    assert!(refusal(&pool, 1).contains("another group is being removed"));
    let beside = pool.devices()[2].guid;
    let spare = FaultDevice::new(DEVICE_SIZE, &clock);
    let new = new_member(&Arc::new(spare), 99);
    let attached = pool.attach_device(beside, &new, false, &origin());
    assert!(
        attached
            .unwrap_err()
            .to_string()
            .contains("is being removed")
    );
    remove(&pool);
    assert_eq!(phase(&pool), RemovalPhase::Finished);
    assert!(refusal(&pool, 1).contains("no such group"));

    let pool = create_on(&fault_devices(1, &clock));
    assert!(refusal(&pool, 0).contains("the last that holds data"));
}

#[test]
fn what_does_not_fit_is_refused_and_goes_on_as_before() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    let mut slot = 0;
    while put_reserved(
        &pool,
        &dataset,
        pool::ArrayKind::Data,
        slot,
        sized(slot, 30),
    )
    .is_ok()
    {
        slot += 1;
    }
    pool.commit().unwrap();
    assert!(refusal(&pool, 0).contains("does not fit"));
    assert_clean(&pool);
    assert_eq!(pool.devices()[0].purpose, Purpose::Data);
    for slot in (0..slot).filter(|slot| slot % 4 > 0) {
        punch(&pool, &dataset, pool::ArrayKind::Data, slot).unwrap();
    }
    pool.commit().unwrap();
    pool.removal().begin(0, &origin()).unwrap();
    remove(&pool);
    assert_eq!(phase(&pool), RemovalPhase::Finished);
    assert_clean(&pool);
    for slot in (0..slot).filter(|slot| slot % 4 == 0) {
        let ptr = dataset.get(pool::ArrayKind::Data, slot).unwrap();
        assert!(!ptr.is_empty());
    }
    assert_eq!(
        read_all(&dataset, pool::ArrayKind::Data).unwrap().len() as u64,
        slot.div_ceil(4)
    );
}

/// A member that was away while copies were made gets them, though what they are copies of is old.
#[test]
fn a_member_that_comes_back_gets_the_copies() {
    for seed in seeds(60, 6) {
        let clock = FaultClock::new();
        let devices = fault_devices(3, &clock);
        let pool = create_mirrors(&devices, &[2, 1]);
        let mut workload = Workload::new(pool, seed);
        workload.run(50);
        workload.removal().begin(1, &origin()).unwrap();
        let guid = workload.devices()[0].guid;
        workload.removal().step(8 << 10).unwrap();
        workload.offline_device(guid, false, &origin()).unwrap();
        if seed % 2 == 0 {
            remove(&workload.pool);
            assert_eq!(phase(&workload.pool), RemovalPhase::Finished);
        } else {
            for _ in 0..4 {
                workload.removal().step(8 << 10).unwrap();
            }
        }
        let back = dynamic(&devices).remove(0);
        workload.online_device(guid, back, &origin()).unwrap();
        resilver(&workload.pool);
        assert_eq!(workload.devices()[0].state, DeviceState::Online);
        assert_sound(&workload.pool, seed);
        remove(&workload.pool);
        workload.commit().unwrap();
        assert_eq!(phase(&workload.pool), RemovalPhase::Finished);
        workload.reopened(|| open_on(&devices[..1]).unwrap());
    }
}

/// A device of any group fails at any event of a removal: the group goes all the same, and no data is lost.
#[test]
fn a_device_that_fails_at_any_event_loses_nothing() {
    for (shape, leaving) in [(&[(2, 0), (2, 0)], 0), (&[(3, 1), (2, 0)], 1)] {
        let count = shape.iter().map(|(width, _)| width).sum();
        let devices = fault_devices(count, &FaultClock::new());
        let mut workload = Workload::new(create_groups(&devices, shape), 80);
        workload.run(50);
        let (pool, model) = workload.close();
        drop(pool);
        let (before, model) = (copies(&devices), normal(model));

        let mut failures = 0;
        let mut removed = |failing: usize, fault: &dyn Fn(u64) -> Option<Fault>| {
            let clock = FaultClock::new();
            let copy = |device: &Arc<FaultDevice>| Arc::new(device.copy(&clock));
            let devices: Vec<_> = before.iter().map(copy).collect();
            let pool = open_on(&devices).unwrap();
            let begin = clock.now();
            if let Some(fault) = fault(begin) {
                devices[failing].inject(fault);
            }
            pool.removal().begin(leaving, &origin()).unwrap();
            while pool.removal().step(32 << 10).unwrap() {}
            assert_eq!(phase(&pool), RemovalPhase::Finished);
            pool.commit().unwrap();
            assert_clean(&pool);
            assert_eq!(read_pool(&pool), model);
            let rest = members(&pool, &devices);
            failures += usize::from(states(&pool).contains(&DeviceState::Faulted));
            (clock.now() - begin, rest, Arc::clone(&devices[failing]))
        };
        let (events, ..) = removed(0, &|_| None);
        for failing in 0..count {
            for event in (failing as u64..events).step_by(events as usize / 24) {
                let (_, mut rest, failed) = removed(failing, &|begin| {
                    Some(match event % 3 {
                        0 => Fault::DeadFrom(begin + event),
                        1 => Fault::FailFlush(begin + event),
                        _ => Fault::ShortWrite {
                            event: begin + event,
                            written: 700,
                        },
                    })
                });
                rest.retain(|device| !Arc::ptr_eq(device, &failed));
                assert_eq!(
                    read_pool(&open_on(&rest).unwrap()),
                    model,
                    "{failing} {event}"
                );
            }
        }
        assert!(failures > 20, "{failures}: they hardly ever failed");
    }
}

/// Records that cannot be read are not copied, so the group stays.
#[test]
fn a_group_with_a_record_that_is_lost_stays() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..200 {
        put(&pool, &dataset, pool::ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    let in_group = |slot: &u64| {
        let ptr = dataset.get(pool::ArrayKind::Data, *slot).unwrap();
        ptr.place.addr[0].segment().group() == 1
    };
    let lost = (0..200).find(in_group).unwrap();
    let addr = dataset.get(pool::ArrayKind::Data, lost).unwrap().place.addr[0];
    let (image, wanted) = (devices[1].to_bytes(), contents(lost));
    let at = image
        .windows(64)
        .position(|bytes| *bytes == wanted[..64] && lost > 0);
    let at = at.unwrap_or_else(|| panic!("{addr:?}"));
    devices[1].flip(at as u64, 0xff);
    pool.removal().begin(1, &origin()).unwrap();
    remove(&pool);
    let status = pool.removal().status().unwrap();
    assert_eq!(status.phase, RemovalPhase::Running);
    assert!(status.waits.unwrap().contains("cannot be read"));
    assert_clean(&pool);
    punch(&pool, &dataset, pool::ArrayKind::Data, lost).unwrap();
    pool.commit().unwrap();
    for _ in 0..100 {
        remove(&pool);
    }
    assert_eq!(phase(&pool), RemovalPhase::Finished);
    assert_clean(&pool);
    assert_eq!(
        read_all(&dataset, pool::ArrayKind::Data).unwrap().len(),
        199
    );
}

/// Returns the offsets of pages of the remap table on a device.
fn pages_on(device: &FaultDevice) -> Vec<u64> {
    let image = device.to_bytes();
    let units = image.chunks(4096).zip(0..);
    let pages = units.filter(|(unit, _)| unit.starts_with(b"RMAP"));
    pages.map(|(_, unit)| unit * 4096).collect()
}

fn with_table(clock: &FaultClock) -> (Arc<FaultDevice>, Model) {
    let devices = fault_devices(2, clock);
    let mut workload = Workload::new(create_on(&devices), 5);
    workload.steps(80);
    workload.removal().begin(1, &origin()).unwrap();
    remove(&workload.pool);
    assert_eq!(phase(&workload.pool), RemovalPhase::Finished);
    let (pool, model) = workload.close();
    pool.commit().unwrap();
    (Arc::clone(&devices[0]), normal(model))
}

#[test]
fn a_bad_copy_of_the_table_is_mended() {
    let clock = FaultClock::new();
    let (device, model) = with_table(&clock);
    // Of those that there are twice.
    let image = device.to_bytes();
    let mut once = BTreeSet::new();
    let mut pages = pages_on(&device);
    pages.retain(|at| !once.insert(image[*at as usize..][..4096].to_vec()));
    assert!(!pages.is_empty());
    for page in pages {
        for at in 0..40 {
            device.flip(page + at, 1 << (at % 8));
        }
    }
    let pool = open_on(&[Arc::clone(&device)]).unwrap();
    assert_eq!(read_pool(&pool), model);
    scrub_all(&pool);
    assert_sound(&pool, "");
    assert_clean(&pool);
    assert_eq!(read_pool(&pool), model);
}

/// A replacement ends, although it needs space freed, also if pages of the table can never be read.
#[test]
fn a_resilver_does_not_wait_for_ever_for_the_table() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = create_on(&devices[..2]);
    let dataset = pool.open_dataset(1).unwrap();
    let data = pool::ArrayKind::Data;
    for slot in 0..300 {
        put(&pool, &dataset, data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    pool.removal().begin(1, &origin()).unwrap();
    remove(&pool);
    drop(dataset);
    export(pool);
    let pool = open_on(&devices[..1]).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    let is_moved = |slot: &u64| {
        let addr = dataset.get(data, *slot).unwrap().place.addr[0];
        addr.segment().group() == 1
    };
    let moved: Vec<u64> = (0..300).filter(is_moved).collect();
    assert!(!moved.is_empty());
    for offset in pages_on(&devices[0]) {
        devices[0].inject(Fault::BadBytes { offset, len: 4096 });
    }
    for slot in moved {
        punch(&pool, &dataset, data, slot).unwrap();
    }
    pool.commit().unwrap();
    pool.commit().unwrap();
    assert_eq!(pool.space().freeing_waits, 1);
    let old = pool.devices()[0].guid;
    pool.attach_device(old, &new_member(&devices[2], 50), true, &origin())
        .unwrap();
    for _ in 0..20 {
        let until = pool.now() + 70;
        while pool.now() < until {}
        resilver(&pool);
    }
    assert_eq!(pool.resilverer().status().waits, None);
    assert_eq!(pool.space().freeing_waits, 0);
}

/// Whatever is there instead of the table: what is read is right, or an error.
#[test]
fn a_table_that_is_lost_is_an_error_and_no_more() {
    for seed in seeds(80, 20) {
        let clock = FaultClock::new();
        let (device, model) = with_table(&clock);
        let mut dice = Dice(seed);
        for page in pages_on(&device) {
            if dice.below(3) > 0 {
                device.flip(page + dice.below(200), 1 << dice.below(8));
            }
        }
        let Ok(pool) = open_on(&[device]) else {
            continue;
        };
        drop(pool.check());
        scrub_all(&pool);
        let top = model.datasets["tank"].clone();
        let dataset = pool.open_dataset(1).unwrap();
        for array in pool::ArrayKind::ALL {
            if let Ok(found) = read_all(&dataset, array) {
                assert_eq!(found, top[array as usize]);
            }
        }
        drop(put(&pool, &dataset, pool::ArrayKind::Data, 7, 7));
        drop(pool.commit());
    }
}

/// Someone reads all the time, through the moment in which the group goes.
#[test]
fn readers_notice_nothing() {
    let clock = FaultClock::new();
    for round in 0..4 {
        let devices = fault_devices(2, &clock);
        let pool = create_on(&devices);
        let dataset = pool.open_dataset(1).unwrap();
        for slot in 0..300 {
            put(&pool, &dataset, pool::ArrayKind::Data, slot, slot).unwrap();
        }
        pool.commit().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let found = read_all(&dataset, pool::ArrayKind::Data).unwrap();
                    assert_eq!(found.len(), 300);
                }
            });
            pool.removal().begin(round % 2, &origin()).unwrap();
            remove(&pool);
            is_over.store(true, Ordering::Release);
            reader.join().unwrap();
        });
        assert_eq!(phase(&pool), RemovalPhase::Finished);
    }
}
