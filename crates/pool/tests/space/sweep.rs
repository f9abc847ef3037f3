//! Free space is given back to the devices, or gets a pattern, and nothing that any superblock needs.

use std::sync::Arc;

use crate::common::model::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use pool::{ArrayKind, Pool, ScrubPhase, SweepKind};

const BOTH: [SweepKind; 2] = [SweepKind::Trim, SweepKind::Initialize];

/// Sweeps to the end.
fn sweep(pool: &Pool, what: SweepKind, device: Option<u64>) {
    pool.sweeper().start(what, device);
    while pool.sweeper().step(what, 1 << 20).unwrap() {}
}

fn trim(pool: &Pool, device: Option<u64>) {
    sweep(pool, SweepKind::Trim, device);
}

/// Returns the number of units of a device that are full of the pattern.
fn patterned(device: &FaultDevice) -> u64 {
    let pattern = 0xdead_beef_dead_beee_u64.to_le_bytes();
    let bytes = device.to_bytes();
    let units = bytes.chunks(4096);
    let full = units.filter(|unit| unit.chunks(8).all(|word| word == pattern));
    full.count() as u64
}

#[test]
fn all_that_is_free_is_trimmed() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_mirrors(&devices, &[2]);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..100 {
        put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 8)).unwrap();
    }
    pool.commit().unwrap();
    let before = devices.iter().map(|device| device.discarded());
    let before: Vec<u64> = before.collect();
    trim(&pool, None);
    let status = pool.sweeper().status(SweepKind::Trim);
    assert_eq!((status.phase, status.failures), (ScrubPhase::Finished, 0));
    assert_eq!(status.examined, status.total);
    let space = pool.space();
    assert!(
        status.bytes > space.free - (1 << 20),
        "{status:?} {space:?}"
    );
    for (device, before) in devices.iter().zip(before) {
        assert_eq!(device.discarded() - before, status.bytes);
    }
    // One device only.
    let before = devices[1].discarded();
    trim(&pool, Some(pool.devices()[0].guid));
    assert_eq!(devices[1].discarded(), before);
    assert!(pool.sweeper().status(SweepKind::Trim).bytes > 0);
    assert_sound(&pool, "");
    assert_clean(&pool);
}

#[test]
fn a_trim_is_paused_and_ended() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    pool.commit().unwrap();
    assert!(
        !pool.sweeper().step(SweepKind::Trim, 1).unwrap(),
        "none runs"
    );
    pool.sweeper().start(SweepKind::Trim, None);
    assert!(pool.sweeper().step(SweepKind::Trim, 1).unwrap());
    pool.sweeper().pause(SweepKind::Trim);
    let paused = pool.sweeper().status(SweepKind::Trim);
    assert_eq!(paused.phase, ScrubPhase::Paused);
    assert!(!pool.sweeper().step(SweepKind::Trim, 1 << 30).unwrap());
    pool.sweeper().start(SweepKind::Trim, None);
    assert_eq!(
        pool.sweeper().status(SweepKind::Trim).examined,
        paused.examined
    );
    pool.sweeper().stop(SweepKind::Trim);
    assert_eq!(
        pool.sweeper().status(SweepKind::Trim).phase,
        ScrubPhase::Stopped
    );
    pool.sweeper().start(SweepKind::Trim, None);
    assert_eq!(pool.sweeper().status(SweepKind::Trim).examined, 0);
}

#[test]
fn all_that_is_free_gets_the_pattern() {
    for shape in [(2, 0), (3, 1), (4, 2)] {
        let devices = fault_devices(shape.0, &FaultClock::new());
        let pool = create_groups(&devices, &[shape]);
        let dataset = pool.open_dataset(1).unwrap();
        for slot in 0..100 {
            put(
                &pool,
                &dataset,
                ArrayKind::Data,
                slot,
                sized(slot, 1 + slot % 8),
            )
            .unwrap();
        }
        pool.commit().unwrap();
        for slot in 0..50 {
            punch(&pool, &dataset, ArrayKind::Data, slot * 2).unwrap();
        }
        pool.commit().unwrap();
        pool.commit().unwrap();
        sweep(&pool, SweepKind::Initialize, Some(pool.devices()[0].guid));
        assert!(patterned(&devices[0]) > 0);
        assert_eq!(patterned(&devices[1]), 0, "it was not named");
        sweep(&pool, SweepKind::Initialize, None);
        let status = pool.sweeper().status(SweepKind::Initialize);
        assert_eq!((status.phase, status.failures), (ScrubPhase::Finished, 0));
        let units: u64 = devices.iter().map(|device| patterned(device)).sum();
        let copies = if shape.1 == 0 { shape.0 as u64 } else { 1 };
        assert_eq!(units, status.bytes / 4096 * copies, "{shape:?}");
        assert_sound(&pool, format_args!("{shape:?}"));
        assert_clean(&pool);
        let left = read_all(&dataset, ArrayKind::Data).unwrap();
        assert_eq!(left.len(), 50);
        // It goes on with what it wrote over.
        for slot in 0..100 {
            put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 4)).unwrap();
        }
        pool.commit().unwrap();
        assert_sound(&pool, format_args!("{shape:?}, later"));
    }
}

#[test]
fn a_device_that_fails_is_left_alone() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    pool.record(&origin()).unwrap();
    devices[0].inject(Fault::DeadFrom(clock.now()));
    for what in BOTH {
        sweep(&pool, what, None);
        let status = pool.sweeper().status(what);
        assert!(status.failures > 0 && status.error.is_some(), "{status:?}");
    }
    devices[0].heal();
    pool.commit().unwrap();
    assert_clean(&pool);
}

/// A copy of a device without its newest superblock.
fn without_newest(device: &FaultDevice, txg: u64) -> Arc<FaultDevice> {
    let mut bytes = device.to_bytes();
    let back = bytes.len() - (1 + 32 + 32) * 4096;
    for ring in [4096, back] {
        let at = ring + (txg % 32) as usize * 4096;
        assert!(bytes[at..].starts_with(b"SR-SUPER"));
        bytes[at..at + 4096].fill(0);
    }
    Arc::new(FaultDevice::from_bytes(bytes, &FaultClock::new()))
}

/// The superblock before the newest leads to a whole pool, whatever was swept.
#[test]
fn the_superblock_before_is_of_use() {
    for seed in seeds(3, 3) {
        let devices = fault_devices(1, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        for step in 0..40 {
            workload.step();
            workload.record(&origin()).unwrap();
            let txg = workload.committed_txg();
            // What is written is kept by the device, so not each time.
            for what in BOTH.into_iter().take(1 + usize::from(step % 8 == 0)) {
                sweep(&workload.pool, what, None);
            }
            assert_eq!(workload.committed_txg(), txg);
            if step % 4 == 0 {
                let pool = open_on(&[without_newest(&devices[0], txg)]).unwrap();
                // Before its first commit nothing is known of what the last one freed.
                for what in BOTH {
                    sweep(&pool, what, None);
                    assert_eq!(pool.sweeper().status(what).bytes, 0);
                }
                assert_clean(&pool);
                assert_sound(&pool, format_args!("seed {seed}, step {step}"));
                read_pool(&pool);
            }
        }
        let (pool, model) = workload.close();
        assert_eq!(read_pool(&pool), normal(model));
    }
}
