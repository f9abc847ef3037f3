//! Resilvers that find no good copy of something: what is replaced stays until all of it is copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, DeviceState, OpenDataset, Pool, RecordPtr, ScrubPhase};

use DeviceState::{Faulted, Missing, Online, Resilvering, Spare};

const RECORDS: u64 = 40;

/// Records in a dataset.
fn fill(pool: &Pool) -> (Arc<OpenDataset>, BTreeMap<u64, u64>) {
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..RECORDS {
        put(pool, &dataset, ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    (dataset, (0..RECORDS).map(|slot| (slot, slot)).collect())
}

/// Returns the offset of a record on the members of its group.
fn offset_of(dataset: &OpenDataset, slot: u64) -> u64 {
    let addr = dataset.get(ArrayKind::Data, slot).unwrap().place.addr[0];
    let header = (65 * 4096_u64).next_multiple_of(64 << 10);
    header + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset())
}

fn fail_reads(device: &FaultDevice, dataset: &OpenDataset, slot: u64) {
    let offset = offset_of(dataset, slot);
    device.inject(Fault::BadBytes { offset, len: 4096 });
}

/// Returns the records that a pool holds that consists of these devices only.
fn held_by(devices: &[&Arc<FaultDevice>]) -> BTreeMap<u64, u64> {
    let copies: Vec<_> = devices.iter().map(|device| copy_of(device)).collect();
    let pool = open_on(&copies).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    read_all(&dataset, ArrayKind::Data).unwrap()
}

fn replace(pool: &Pool, old: usize, new: &Arc<FaultDevice>, guid: u64) {
    let old = pool.devices()[old].guid;
    pool.attach_device(old, &new_member(new, guid), true, &origin())
        .unwrap();
}

#[track_caller]
fn assert_errors(pool: &Pool, errors: u64, unreadable: u64) {
    let status = pool.resilverer().status().progress;
    let found = (status.phase, status.errors, status.unreadable);
    assert_eq!(found, (ScrubPhase::Finished, errors, unreadable));
}

#[test]
fn a_device_stays_until_all_of_it_is_copied() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (dataset, all) = fill(&pool);
    replace(&pool, 0, &devices[1], 50);
    fail_reads(&devices[0], &dataset, 7);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering]);
    assert_errors(&pool, 1, 1);
    pool.commit().unwrap();
    assert!(
        !pool.resilverer().step(1 << 20).unwrap(),
        "it does not spin"
    );
    let line = pool.history().unwrap().pop().unwrap().text;
    assert_eq!(line, "resilver, 1 records were not copied");
    // It cannot be taken out, and no other device can take its place.
    let old = pool.devices()[0].guid;
    let refused = pool.detach_device(old, &origin()).unwrap_err();
    assert!(refused.to_string().contains("only device"), "{refused}");
    let third = new_member(&devices[2], 60);
    let refused = pool.attach_device(old, &third, true, &origin());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("detach it first"), "{refused}");
    // It has everything still.
    assert_eq!(held_by(&[&devices[0]]), all);
    // It can be read again: what was not copied is, and then it goes.
    devices[0].heal();
    pool.clear_device_errors(None, &origin()).unwrap();
    resilver(&pool);
    assert_errors(&pool, 0, 0);
    assert_eq!(states(&pool), [Online]);
    assert_eq!(pool.devices()[0].guid, 50);
    assert_eq!(held_by(&[&devices[1]]), all);
    assert!(open_on(&devices[..1]).is_err(), "it was let go");
    assert_sound(&pool, "");
}

#[test]
fn what_is_lacking_can_be_given_up() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (dataset, _) = fill(&pool);
    let old = pool.devices()[0].guid;
    let refused = pool.give_up_device(old, &origin()).unwrap_err();
    assert!(refused.to_string().contains("no INCOMPLETE"), "{refused}");
    replace(&pool, 0, &devices[1], 50);
    let refused = pool.give_up_device(old, &origin()).unwrap_err();
    assert!(refused.to_string().contains("no INCOMPLETE"), "{refused}");
    fail_reads(&devices[0], &dataset, 7);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering]);
    pool.give_up_device(old, &origin()).unwrap();
    assert_eq!(states(&pool), [Online]);
    assert_eq!(pool.devices()[0].guid, 50);
    drop((dataset, pool));
    assert!(open_on(&devices[..1]).is_err(), "it was let go");
    let pool = open_on(&devices[1..2]).unwrap();
    assert!(!pool.resilverer().status().is_running());
    let dataset = pool.open_dataset(1).unwrap();
    let is_lost = |slot: &u64| {
        let mut is_good = |ptr: &RecordPtr, bytes: &[u8]| dataset.is_undamaged(ptr, bytes);
        let read = dataset.read(ArrayKind::Data, *slot, &mut Vec::new(), &mut is_good);
        matches!(read, Err(pool::Error::Damaged { .. }))
    };
    let lost: Vec<u64> = (0..RECORDS).filter(is_lost).collect();
    assert_eq!(lost, [7]);
    assert_eq!(scrub_all(&pool).errors, 1);
}

/// With a device in the middle of a row of replacements, the one before it would leave too.
#[test]
fn only_the_named_device_is_given_up() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (dataset, _) = fill(&pool);
    replace(&pool, 0, &devices[1], 50);
    fail_reads(&devices[0], &dataset, 7);
    resilver(&pool);
    replace(&pool, 1, &devices[2], 60);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering, Resilvering]);
    let refused = pool.give_up_device(50, &origin()).unwrap_err();
    assert!(refused.to_string().contains("without -f"), "{refused}");
    assert_eq!(states(&pool), [Online, Resilvering, Resilvering]);
    pool.detach_device(50, &origin()).unwrap();
    assert_eq!(states(&pool), [Online, Resilvering]);
    let old = pool.devices()[0].guid;
    pool.give_up_device(old, &origin()).unwrap();
    assert_eq!(states(&pool), [Online]);
    assert_eq!(pool.devices()[0].guid, 60);
}

#[test]
fn an_import_tries_again() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (dataset, all) = fill(&pool);
    replace(&pool, 0, &devices[1], 50);
    fail_reads(&devices[0], &dataset, 7);
    resilver(&pool);
    drop((dataset, pool));
    // It fails still, and then does not.
    let pool = open_on(&devices).unwrap();
    assert!(pool.resilverer().status().is_running());
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering]);
    assert_errors(&pool, 1, 1);
    export(pool);
    devices[0].heal();
    let pool = open_on(&devices).unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [Online]);
    assert_eq!(held_by(&[&devices[1]]), all);
}

#[test]
fn what_one_device_fails_to_read_comes_from_another_that_is_back() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = create_mirrors(&devices[..2], &[2]);
    let (dataset, all) = fill(&pool);
    drop(dataset);
    export(pool);
    let pool = open_on(&devices[..1]).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    replace(&pool, 0, &devices[2], 50);
    fail_reads(&devices[0], &dataset, 7);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Missing, Resilvering]);
    assert_errors(&pool, 1, 1);
    let other = pool.devices()[1].guid;
    pool.online_device(other, dynamic(&devices).remove(1), &origin())
        .unwrap();
    resilver(&pool);
    assert_errors(&pool, 0, 0);
    assert_eq!(states(&pool), [Online; 2]);
    assert_eq!(held_by(&[&devices[2]]), all);
    assert_eq!(held_by(&[&devices[1]]), all);
}

#[test]
fn what_is_damaged_in_every_copy_is_deleted_first() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (dataset, mut all) = fill(&pool);
    devices[0].flip(offset_of(&dataset, 7), 1);
    replace(&pool, 0, &devices[1], 50);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering]);
    assert_errors(&pool, 1, 0);
    assert_eq!(pool.resilverer().status().progress.damage[0].slot, 7);
    // Trying again helps only after that.
    pool.clear_device_errors(None, &origin()).unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering]);
    punch(&pool, &dataset, ArrayKind::Data, 7).unwrap();
    all.remove(&7);
    pool.commit().unwrap();
    pool.clear_device_errors(None, &origin()).unwrap();
    resilver(&pool);
    assert_errors(&pool, 0, 0);
    assert_eq!(states(&pool), [Online]);
    assert_eq!(held_by(&[&devices[1]]), all);
}

#[test]
fn a_replacement_can_be_given_up_or_be_replaced() {
    for replaced in [false, true] {
        let devices = fault_devices(3, &FaultClock::new());
        let pool = create_on(&devices[..1]);
        let (dataset, all) = fill(&pool);
        replace(&pool, 0, &devices[1], 50);
        fail_reads(&devices[0], &dataset, 7);
        resilver(&pool);
        if replaced {
            devices[0].heal();
            replace(&pool, 1, &devices[2], 60);
            resilver(&pool);
            assert_eq!(states(&pool), [Online]);
            assert_eq!(held_by(&[&devices[2]]), all);
        } else {
            pool.detach_device(50, &origin()).unwrap();
            assert_eq!(states(&pool), [Online]);
            assert_eq!(held_by(&[&devices[0]]), all);
        }
    }
}

#[test]
fn a_node_that_cannot_be_read_keeps_all_that_is_replaced() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let (dataset, all) = fill(&pool);
    drop(dataset);
    export(pool);
    // Without a node in memory.
    let pool = open_on(&devices[..1]).unwrap();
    let root = pool.entry(1).unwrap().roots[1];
    for addr in root.place.copies() {
        let header = (65 * 4096_u64).next_multiple_of(64 << 10);
        let offset = header + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset());
        devices[0].inject(Fault::BadBytes { offset, len: 4096 });
    }
    replace(&pool, 0, &devices[1], 50);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Resilvering]);
    let status = pool.resilverer().status().progress;
    assert!(status.unreadable > 0, "{status:?}");
    assert_eq!(held_by(&[&devices[0]]), all);
}

#[test]
fn only_members_that_lack_something_stay() {
    let devices = fault_devices(4, &FaultClock::new());
    let pool = create_mirrors(&devices[..2], &[1, 1]);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..400 {
        put(&pool, &dataset, ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
    let group_of = |slot| {
        let ptr = dataset.get(ArrayKind::Data, slot).unwrap();
        ptr.place.addr[0].segment().group() as usize
    };
    let slot = (0..400).find(|slot| group_of(*slot) == 1).unwrap();
    replace(&pool, 0, &devices[2], 50);
    let second = pool.devices().pop().unwrap().guid;
    pool.attach_device(second, &new_member(&devices[3], 60), true, &origin())
        .unwrap();
    fail_reads(&devices[1], &dataset, slot);
    resilver(&pool);
    assert_errors(&pool, 1, 1);
    let now: Vec<_> = pool.devices().iter().map(|d| (d.guid, d.state)).collect();
    assert_eq!(now, [(50, Online), (second, Online), (60, Resilvering)]);
}

#[test]
fn a_spare_that_lacks_something_stays_and_goes_when_the_other_is_back() {
    let clock = FaultClock::new();
    let devices = fault_devices(3, &clock);
    let pool = create_mirrors(&devices, &[2]);
    let (dataset, all) = fill(&pool);
    devices[1].inject(Fault::DeadFrom(clock.now()));
    put(&pool, &dataset, ArrayKind::Pages, 1, 1).unwrap();
    pool.commit().unwrap();
    pool.commit().unwrap();
    fail_reads(&devices[0], &dataset, 7);
    assert!(pool.resilverer().use_spares().unwrap());
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Faulted, Resilvering]);
    assert_errors(&pool, 1, 1);
    assert!(!pool.resilverer().use_spares().unwrap());
    devices[1].heal();
    let guid = pool.devices()[1].guid;
    pool.release_device(guid).unwrap();
    pool.online_device(guid, dynamic(&devices).remove(1), &origin())
        .unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Online, Spare]);
    assert_eq!(held_by(&[&devices[1]]), all);
}

/// Whenever the power fails, the device that could not be copied in full has all of it.
#[test]
fn a_power_cut_takes_nothing() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_on(&devices[..1]);
    let (dataset, all) = fill(&pool);
    for device in &devices {
        device.take_journal();
    }
    let start = clock.now();
    fail_reads(&devices[0], &dataset, 7);
    replace(&pool, 0, &devices[1], 50);
    resilver(&pool);
    pool.clear_device_errors(None, &origin()).unwrap();
    resilver(&pool);
    let failed = clock.now();
    devices[0].heal();
    pool.clear_device_errors(None, &origin()).unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [Online]);
    let journals: Vec<_> = devices.iter().map(|device| device.take_journal()).collect();
    let mut dice = Dice(5);
    let of = 1 + (clock.now() - start) / 50;
    for cut in (start..=clock.now()).filter(|_| dice.below(of) == 0) {
        let survival = Survival::Seeded(cut);
        let devices = after_cut(&journals, cut, survival);
        if cut <= failed {
            let is_pool = open_on(&copies(&devices[..1])).is_ok();
            assert!(is_pool, "cut {cut}: the old one is needed");
        }
        let pool = open_on(&devices).unwrap_or_else(|error| panic!("{cut}: {error}"));
        resilver(&pool);
        let dataset = pool.open_dataset(1).unwrap();
        let found = read_all(&dataset, ArrayKind::Data).unwrap();
        assert_eq!(found, all, "cut {cut}");
        assert_sound(&pool, cut);
    }
}
