//! Free space is given back to the devices, and nothing that any superblock needs.

mod common;

use std::sync::Arc;

use block::fault::{Fault, FaultClock, FaultDevice};
use common::model::*;
use common::*;
use pool::{ArrayKind, Pool, ScrubPhase};

/// Trims to the end.
fn trim(pool: &Pool, device: Option<u64>) {
    pool.trim_start(device);
    while pool.trim_step(1 << 20).unwrap() {}
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
    let status = pool.trim_status();
    assert_eq!((status.phase, status.failures), (ScrubPhase::Finished, 0));
    assert_eq!(status.examined, status.total);
    let space = pool.space();
    assert!(
        status.trimmed > space.free - (1 << 20),
        "{status:?} {space:?}"
    );
    for (device, before) in devices.iter().zip(before) {
        assert_eq!(device.discarded() - before, status.trimmed);
    }
    // One device only.
    let before = devices[1].discarded();
    trim(&pool, Some(pool.devices()[0].guid));
    assert_eq!(devices[1].discarded(), before);
    assert!(pool.trim_status().trimmed > 0);
    assert_sound(&pool, "");
    assert_clean(&pool);
}

#[test]
fn a_trim_is_paused_and_ended() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    pool.commit().unwrap();
    assert!(!pool.trim_step(1).unwrap(), "none runs");
    pool.trim_start(None);
    assert!(pool.trim_step(1).unwrap());
    pool.trim_pause();
    let paused = pool.trim_status();
    assert_eq!(paused.phase, ScrubPhase::Paused);
    assert!(!pool.trim_step(1 << 30).unwrap());
    pool.trim_start(None);
    assert_eq!(pool.trim_status().examined, paused.examined);
    pool.trim_stop();
    assert_eq!(pool.trim_status().phase, ScrubPhase::Stopped);
    pool.trim_start(None);
    assert_eq!(pool.trim_status().examined, 0);
}

#[test]
fn a_device_that_fails_is_left_alone() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    pool.record(&origin()).unwrap();
    devices[0].inject(Fault::DeadFrom(clock.now()));
    trim(&pool, None);
    let status = pool.trim_status();
    assert!(status.failures > 0 && status.error.is_some(), "{status:?}");
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

/// The superblock before the newest leads to a whole pool, whatever was trimmed.
#[test]
fn the_superblock_before_is_of_use() {
    for seed in seeds(3, 3) {
        let devices = fault_devices(1, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        for step in 0..40 {
            workload.step();
            workload.record(&origin()).unwrap();
            let txg = workload.committed_txg();
            trim(&workload.pool, None);
            assert_eq!(workload.committed_txg(), txg);
            if step % 4 == 0 {
                let pool = open_on(&[without_newest(&devices[0], txg)]).unwrap();
                // Before its first commit nothing is known of what the last one freed.
                trim(&pool, None);
                assert_eq!(pool.trim_status().trimmed, 0);
                assert_clean(&pool);
                assert_sound(&pool, format_args!("seed {seed}, step {step}"));
                read_pool(&pool);
            }
        }
        let (pool, model) = workload.close();
        assert_eq!(read_pool(&pool), normal(model));
    }
}
