//! Mirrors: members that fail, are wrong, vanish and come back. None of this has a key: there is none
//! in a process of these tests, since the crate cannot even link to what makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::model::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use pool::{ArrayKind, DeviceState, Error, Pool};
use store::Store;

use DeviceState::{Faulted, Missing, Offline, Online, Resilvering};

fn filled(devices: &[Arc<FaultDevice>], widths: &[usize], seed: u64) -> Workload {
    let mut workload = Workload::new(create_mirrors(devices, widths), seed);
    workload.run(60);
    workload
}

/// Checks that everything is as the model says, on every member: none is needed to help another.
fn assert_whole(pool: &Pool, devices: &[Arc<FaultDevice>], model: &Model) {
    assert_clean(pool);
    assert_eq!(read_pool(pool), normal(model.clone()));
    assert_sound(pool, "");
    pool.commit().unwrap();
    for device in devices {
        let pool = open_on(&[copy_of(device)]).unwrap();
        assert_eq!(read_pool(&pool), normal(model.clone()));
    }
}

#[test]
fn a_member_that_dies_is_done_without() {
    for seed in seeds(0, 4) {
        let clock = FaultClock::new();
        let devices = fault_devices(2, &clock);
        let mut workload = filled(&devices, &[2], seed);
        devices[1].inject(Fault::DeadFrom(clock.now() + seed * 7));
        workload.run(80);
        assert_eq!(workload.suspended(), None);
        assert_eq!(states(&workload.pool), [Online, Faulted]);
        let (pool, model) = workload.close();
        settle(&pool);
        let errors = pool.devices()[1].errors;
        assert!(errors.write > 0, "{errors:?}");
        let history = pool.history().unwrap();
        assert!(
            history
                .iter()
                .any(|line| line.internal && line.text.starts_with("fault "))
        );
        assert_clean(&pool);
        drop(pool);
        // Without it, and with it.
        let pool = open_on(&devices[..1]).unwrap();
        assert_eq!(read_pool(&pool), normal(model.clone()));
        drop(pool);
        devices[1].heal();
        let pool = open_on(&devices).unwrap();
        assert_eq!(
            states(&pool),
            [Online, Faulted],
            "it was not declared good again"
        );
        assert_eq!(read_pool(&pool), normal(model.clone()));
        let guid = pool.devices()[1].guid;
        pool.release_device(guid).unwrap();
        pool.online_device(guid, dynamic(&devices).remove(1), &origin())
            .unwrap();
        assert_eq!(states(&pool), [Online, Resilvering]);
        resilver(&pool);
        assert_eq!(states(&pool), [Online, Online]);
        assert_whole(&pool, &devices, &model);
    }
}

#[test]
fn the_last_member_of_a_group_suspends_the_pool() {
    let clock = FaultClock::new();
    let devices = fault_devices(4, &clock);
    let mut workload = filled(&devices, &[2, 2], 3);
    devices[0].inject(Fault::DeadFrom(clock.now()));
    devices[2].inject(Fault::DeadFrom(clock.now()));
    workload.run(20);
    assert_eq!(states(&workload.pool), [Faulted, Online, Faulted, Online]);
    let durable = normal(workload.model.clone());
    let dataset = workload.open_dataset(1);
    drop(dataset);
    devices[3].inject(Fault::DeadFrom(clock.now()));
    let (pool, _) = workload.close();
    assert!(pool.record(&origin()).is_err());
    assert!(matches!(
        pool.record(&origin()),
        Err(Error::Suspended { .. })
    ));
    drop(pool);
    devices.iter().for_each(|device| device.heal());
    let pool = open_on(&devices).unwrap();
    assert_eq!(read_pool(&pool), durable);
    assert_clean(&pool);
}

#[test]
fn a_group_without_a_member_that_is_whole_is_refused_by_name() {
    let devices = fault_devices(4, &FaultClock::new());
    let (pool, model) = filled(&devices, &[2, 2], 4).close();
    drop(pool);
    let error = open_on(&devices[..2]).err().unwrap().to_string();
    assert!(error.contains("fault device or fault device"), "{error}");
    let one_of_each = [Arc::clone(&devices[1]), Arc::clone(&devices[2])];
    let pool = open_on(&one_of_each).unwrap();
    assert_eq!(states(&pool), [Missing, Online, Online, Missing]);
    assert_eq!(read_pool(&pool), normal(model));
    pool.commit().unwrap();
    pool.record(&origin()).unwrap();
    pool.record(&origin()).unwrap();
    drop(pool);
    // One that missed something does not stand in for one that is gone.
    let stale = [Arc::clone(&devices[0]), Arc::clone(&devices[2])];
    let error = open_on(&stale).err().unwrap();
    assert!(
        matches!(error, Error::Store(store::Error::MissingDevices { .. })),
        "{error}"
    );
}

#[test]
fn a_member_that_was_away_is_resilvered() {
    for seed in seeds(0, 6) {
        let devices = fault_devices(3, &FaultClock::new());
        let mut workload = filled(&devices, &[2, 1], seed);
        let stale = devices[0].to_bytes();
        // The others go on without it.
        let there = [Arc::clone(&devices[1]), Arc::clone(&devices[2])];
        workload.reopened(|| open_on(&there).unwrap());
        assert_eq!(states(&workload.pool), [Missing, Online, Online]);
        workload.run(100);
        let (pool, model) = workload.close();
        settle(&pool);
        export(pool);
        assert_eq!(devices[0].to_bytes(), stale);
        let before = devices[0].written();
        let pool = open_on(&devices).unwrap();
        assert_eq!(states(&pool), [Resilvering, Online, Online]);
        assert_eq!(read_pool(&pool), normal(model.clone()));
        resilver(&pool);
        assert_eq!(states(&pool), [Online; 3]);
        let status = pool.resilverer().status().progress;
        assert_eq!(
            (status.phase, status.errors),
            (pool::ScrubPhase::Finished, 0)
        );
        assert_clean(&pool);
        assert_sound(&pool, "");
        assert!(devices[0].written() > before);
        drop(pool);
        let pool = open_on(&[Arc::clone(&devices[0]), Arc::clone(&devices[2])]).unwrap();
        assert_eq!(read_pool(&pool), normal(model));
    }
}

#[test]
fn a_resilver_copies_only_what_is_new() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_mirrors(&devices, &[2]);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..400 {
        put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 4)).unwrap();
    }
    pool.commit().unwrap();
    let guid = pool.devices()[1].guid;
    pool.offline_device(guid, false, &origin()).unwrap();
    assert_eq!(states(&pool), [Online, Offline]);
    let away = devices[1].written();
    put(&pool, &dataset, ArrayKind::Data, 7, sized(7, 4)).unwrap();
    pool.commit().unwrap();
    assert_eq!(devices[1].written(), away, "it is left alone");
    pool.online_device(guid, dynamic(&devices).remove(1), &origin())
        .unwrap();
    resilver(&pool);
    let copied = devices[1].written() - away;
    // 400 records are 6.4 MiB; labels, keys and the pool's own records are some hundred KiB.
    assert!(copied < 2 << 20, "{copied}");
    assert_eq!(states(&pool), [Online; 2]);
    assert_sound(&pool, "");
}

#[test]
fn bad_copies_are_repaired_by_reads_and_by_scrub() {
    let devices = fault_devices(2, &FaultClock::new());
    let workload = filled(&devices, &[2], 5);
    let (pool, model) = workload.close();
    settle(&pool);
    drop(pool);
    let start: u64 = 576 << 10;
    let rot = |device: &FaultDevice, seed: u64| {
        let mut dice = Dice(seed);
        for _ in 0..3000 {
            let at = start + dice.below((DEVICE_SIZE as u64 - 2 * start) / 4) * 4;
            device.flip(at, 1);
        }
    };
    rot(&devices[0], 1);
    let pool = open_on(&devices).unwrap();
    assert_eq!(read_pool(&pool), normal(model.clone()));
    assert!(pool.scrubber().heal().unwrap() > 0);
    assert_eq!(pool.scrubber().heal().unwrap(), 0);
    let [first, second] = [0, 1].map(|n| pool.devices()[n].errors.checksum);
    assert!(first > 0 && second == 0, "{first} {second}");
    let status = scrub_all(&pool);
    assert_eq!(status.errors, 0);
    assert!(status.repaired > 0, "readers ask one member only");
    pool.commit().unwrap();
    assert_sound(&pool, "");
    drop(pool);
    let pool = open_on(&devices[..1]).unwrap();
    assert_eq!(read_pool(&pool), normal(model));
}

#[test]
fn halves_that_went_different_ways_are_not_mixed() {
    let devices = fault_devices(2, &FaultClock::new());
    let (pool, _) = filled(&devices, &[2], 6).close();
    export(pool);
    let alone = |device: &Arc<FaultDevice>, seed: u64, commits: usize| {
        let store = store::Store::open(dynamic(std::slice::from_ref(device))).unwrap();
        let pool = Pool::open(Arc::new(store), TestEnv::new(seed), false).unwrap();
        for _ in 0..commits {
            pool.record(&origin()).unwrap();
        }
        pool.export().unwrap();
    };
    for (first, second) in [(3, 3), (2, 9), (9, 2)] {
        let split = [copy_of(&devices[0]), copy_of(&devices[1])];
        alone(&split[0], 20, first);
        alone(&split[1], 30, second);
        let error = open_on(&split).err().unwrap();
        assert!(matches!(error, Error::OtherHistory { .. }), "{error}");
        // Each is a pool, and does not take the other back.
        let pool = open_on(&split[..1]).unwrap();
        let other = pool.devices()[1].guid;
        let back = pool.online_device(other, dynamic(&split).remove(1), &origin());
        assert!(matches!(back, Err(Error::OtherHistory { .. })), "{back:?}");
        assert_eq!(states(&pool), [Online, Missing]);
    }
    // One that was only left behind is no other way.
    alone(&devices[0], 20, 5);
    let pool = open_on(&devices).unwrap();
    assert_eq!(states(&pool), [Online, Resilvering]);
}

#[test]
fn a_device_that_was_taken_out_is_not_used() {
    let devices = fault_devices(2, &FaultClock::new());
    let (pool, model) = filled(&devices, &[2], 7).close();
    let before = copy_of(&devices[1]);
    let guid = pool.devices()[1].guid;
    pool.detach_device(guid, &origin()).unwrap();
    assert_eq!(states(&pool), [Online]);
    let error = pool.detach_device(pool.devices()[0].guid, &origin());
    assert!(matches!(error, Err(Error::Device { .. })), "{error:?}");
    let gone = open_on(&devices[1..]).err().unwrap().to_string();
    assert!(gone.contains("holds no Strongroom pool"), "{gone}");
    drop(pool);
    // A copy of it from before is left aside.
    let pool = open_on(&[Arc::clone(&devices[0]), Arc::clone(&before)]).unwrap();
    assert_eq!(states(&pool), [Online]);
    let written = before.written();
    pool.record(&origin()).unwrap();
    assert_eq!(before.written(), written);
    assert_eq!(read_pool(&pool), normal(model));
}

#[test]
fn a_plain_pool_becomes_a_mirror_and_moves_to_another_device() {
    let devices = fault_devices(3, &FaultClock::new());
    let mut workload = filled(&devices[..1], &[1], 8);
    let features = |device: &FaultDevice| {
        let bytes = device.to_bytes();
        (0..32).any(|slot| bytes[(1 + slot) * 4096 + 32] & 8 != 0)
    };
    assert!(
        !features(&devices[0]),
        "programs that know no mirrors can open it"
    );
    let first = workload.devices()[0].guid;
    workload
        .attach_device(first, &new_member(&devices[1], 20), false, &origin())
        .unwrap();
    assert!(features(&devices[0]) && features(&devices[1]));
    assert_eq!(states(&workload.pool), [Online, Resilvering]);
    for _ in 0..20 {
        workload.step();
        workload.resilverer().step(20 << 10).unwrap();
    }
    resilver(&workload.pool);
    workload.commit().unwrap();
    settle(&workload.pool);
    assert_whole_copy(&workload, &devices[1]);
    // Replace the first by the third.
    workload
        .attach_device(first, &new_member(&devices[2], 30), true, &origin())
        .unwrap();
    let again = workload.attach_device(first, &new_member(&devices[2], 31), true, &origin());
    assert!(matches!(again, Err(Error::Device { .. })), "{again:?}");
    resilver(&workload.pool);
    let guids: Vec<u64> = workload.devices().iter().map(|d| d.guid).collect();
    assert_eq!(
        (guids, states(&workload.pool)),
        (vec![20, 30], vec![Online; 2])
    );
    workload.commit().unwrap();
    assert_whole_copy(&workload, &devices[2]);
    let gone = open_on(&devices[..1]).err().unwrap().to_string();
    assert!(gone.contains("holds no Strongroom pool"), "{gone}");
}

/// A device alone holds what the workload has made durable.
fn assert_whole_copy(workload: &Workload, device: &FaultDevice) {
    let pool = open_on(&[copy_of(device)]).unwrap();
    assert_eq!(read_pool(&pool), normal(workload.model.clone()));
    assert_clean(&pool);
}

#[test]
fn a_spare_steps_in_and_goes_back() {
    let clock = FaultClock::new();
    let devices = fault_devices(3, &clock);
    let mut workload = filled(&devices, &[2], 9);
    assert_eq!(states(&workload.pool), [Online, Online, DeviceState::Spare]);
    assert!(!workload.resilverer().use_spares().unwrap());
    devices[0].inject(Fault::DeadFrom(clock.now()));
    workload.step();
    workload.record(&origin()).unwrap();
    workload.commit().unwrap();
    assert!(workload.resilverer().use_spares().unwrap());
    assert!(!workload.resilverer().use_spares().unwrap());
    resilver(&workload.pool);
    assert_eq!(states(&workload.pool), [Faulted, Online, Online]);
    workload.commit().unwrap();
    assert_whole_copy(&workload, &devices[2]);
    // The one that had failed is good again.
    devices[0].heal();
    let guid = workload.devices()[0].guid;
    workload.release_device(guid).unwrap();
    workload
        .online_device(guid, dynamic(&devices).remove(0), &origin())
        .unwrap();
    resilver(&workload.pool);
    assert_eq!(states(&workload.pool), [Online, Online, DeviceState::Spare]);
    workload
        .remove_spare(workload.devices()[2].guid, &origin())
        .unwrap();
    let (pool, model) = workload.close();
    drop(pool);
    let pool = open_on(&devices[..2]).unwrap();
    assert_eq!(states(&pool), [Online, Online]);
    assert_eq!(read_pool(&pool), normal(model));
}

/// A mirror whose first two devices are members and the third a spare, which has stepped in for the
/// second while that was away.
fn spare_has_stepped_in(devices: &[Arc<FaultDevice>]) -> Pool {
    let (pool, _) = filled(devices, &[2], 9).close();
    export(pool);
    let there = [0, 2].map(|i| Arc::clone(&devices[i]));
    let pool = imported(&there).unwrap();
    assert!(pool.resilverer().use_spares().unwrap());
    pool
}

/// Each import draws other numbers.
fn imported(devices: &[Arc<FaultDevice>]) -> pool::Result<Pool> {
    static IMPORTS: AtomicU64 = AtomicU64::new(100);
    let env = TestEnv::new(IMPORTS.fetch_add(1, Ordering::Relaxed));
    let store = Store::open(dynamic(devices))?;
    let pool = Pool::open(Arc::new(store), env, false)?;
    pool.claim("here")?;
    Ok(pool)
}

/// Devices that are imported by themselves, changed and exported, some times.
fn go_on_with(devices: &[Arc<FaultDevice>], times: usize) {
    for _ in 0..times {
        let pool = imported(devices).unwrap();
        resilver(&pool);
        pool.record(&origin()).unwrap();
        pool.export().unwrap();
    }
}

#[test]
fn a_spare_that_was_let_go_while_it_was_away_is_a_spare_when_it_comes_back() {
    for imports_without_it in [1, 4] {
        let devices = fault_devices(3, &FaultClock::new());
        let pool = spare_has_stepped_in(&devices);
        export(pool);
        go_on_with(&devices[..2], imports_without_it);
        let superblocks = |device: &FaultDevice| {
            let bytes = device.to_bytes();
            let blocks = bytes.chunks_exact(4096);
            blocks
                .filter(|block| block.starts_with(b"SR-SUPER"))
                .count()
        };
        assert!(superblocks(&devices[2]) > 0);
        let pool = imported(&devices).unwrap();
        assert_eq!(states(&pool), [Online, Online, DeviceState::Spare]);
        assert_eq!(superblocks(&devices[2]), 0, "it has nothing of the pool's");
        export(pool);
        go_on_with(&devices, 3);
        let pool = imported(&[0, 2].map(|i| Arc::clone(&devices[i]))).unwrap();
        assert!(pool.resilverer().use_spares().unwrap());
        resilver(&pool);
        assert_eq!(states(&pool), [Online, Missing, Online]);
    }
}

#[test]
fn a_spare_that_went_another_way_while_it_held_everything_is_refused() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = spare_has_stepped_in(&devices);
    resilver(&pool);
    assert_eq!(states(&pool), [Online, Missing, Online]);
    export(pool);
    go_on_with(&devices[2..], 1);
    go_on_with(&devices[..2], 6);
    let together = imported(&devices).map(|_| ());
    assert!(
        matches!(together, Err(Error::OtherHistory { .. })),
        "{together:?}"
    );
}

#[test]
fn groups_are_added_and_used() {
    for mirrored in [false, true] {
        let devices = fault_devices(4, &FaultClock::new());
        let mut workload = filled(&devices[..1], &[1], 10);
        let before = workload.space();
        let new: Vec<_> = (1..if mirrored { 3 } else { 2 })
            .map(|n| new_member(&devices[n], 20 + n as u64))
            .collect();
        workload.add_group(&new, 0, &origin()).unwrap();
        let after = workload.space();
        assert!(
            after.total > before.total + (7 << 20),
            "{before:?} {after:?}"
        );
        assert_eq!(after.total - after.free, before.total - before.free);
        workload.run(80);
        assert_clean(&workload.pool);
        let members = 1 + new.len();
        workload.reopened(|| open_on(&devices[..members]).unwrap());
        assert_clean(&workload.pool);
        assert_eq!(workload.space().total, after.total);
        // More than the first device had space for.
        let left = fill(&mut workload);
        assert!(left > 8 << 20, "{left}");
        settle(&workload.pool);
        assert_sound(&workload.pool, "");
        let (pool, model) = workload.close();
        drop(pool);
        let there = if mirrored {
            vec![Arc::clone(&devices[0]), Arc::clone(&devices[2])]
        } else {
            devices[..2].to_vec()
        };
        let pool = open_on(&there).unwrap();
        assert_eq!(read_pool(&pool), normal(model));
        assert_clean(&pool);
        drop(pool);
        assert!(open_on(&devices[..1]).is_err());
    }
}

/// Writes until the pool is full, and returns how many bytes that were.
fn fill(workload: &mut Workload) -> u64 {
    let pool = workload.pool.clone();
    let dataset = pool.open_dataset(1).unwrap();
    let mut bytes = 0;
    for slot in 1 << 20.. {
        let number = sized(slot, 8);
        if put_reserved(&pool, &dataset, ArrayKind::Data, slot, number).is_err() {
            break;
        }
        bytes += 8 * 4096;
        let arrays = workload.model.datasets.get_mut("tank").unwrap();
        arrays[ArrayKind::Data as usize].insert(slot, number);
    }
    pool.commit().unwrap();
    bytes
}

#[test]
fn a_group_that_was_not_added_leaves_no_trace() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let (pool, model) = filled(&devices[..1], &[1], 11).close();
    export(pool);
    let store = store::Store::open(dynamic(&devices[..1])).unwrap();
    store::Store::add_group(&store, &[new_member(&devices[1], 20)], 0, u32::MAX).unwrap();
    drop(store);
    // It is labelled, and no commit has listed it.
    let pool = open_on(&devices).unwrap();
    assert_eq!(states(&pool), [Online]);
    assert_eq!(read_pool(&pool), normal(model));
    pool.add_group(&[new_member(&devices[1], 21)], 0, &origin())
        .unwrap();
    assert_eq!(states(&pool), [Online; 2]);
    assert_clean(&pool);
}

/// A device with the superblocks that it had before.
fn with_superblocks_of(device: &FaultDevice, before: &[u8]) -> Arc<FaultDevice> {
    let mut bytes = device.to_bytes();
    let ring = 32 * 4096;
    let back = bytes.len() - (1 + 32 + 32) * 4096;
    for from in [4096, back] {
        bytes[from..from + ring].copy_from_slice(&before[from..from + ring]);
    }
    Arc::new(FaultDevice::from_bytes(bytes, &FaultClock::new()))
}

/// Each time the superblock reaches the first group only.
#[test]
fn the_power_is_cut_while_superblocks_are_written_twice() {
    let mut devices = fault_devices(4, &FaultClock::new());
    let (pool, model) = filled(&devices, &[2, 2], 14).close();
    let mut pool = Some(pool);
    for _ in 0..3 {
        let before: Vec<_> = devices.iter().map(|device| device.to_bytes()).collect();
        let imported = pool.take().unwrap();
        imported.record(&origin()).unwrap();
        drop(imported);
        for n in 2..4 {
            devices[n] = with_superblocks_of(&devices[n], &before[n]);
        }
        devices = devices.iter().map(|device| copy_of(device)).collect();
        let imported = open_on(&devices).unwrap();
        assert_eq!(states(&imported), [Online; 4]);
        assert_eq!(read_pool(&imported), normal(model.clone()));
        pool = Some(imported);
    }
}
