//! Groups with parity: what a pool does with them that it does not do with mirrors.

use std::sync::Arc;

use crate::common::model::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use pool::{ArrayKind, DeviceState, Error, Pool};

use DeviceState::{Faulted, Missing, Online};

const SHAPES: [(usize, usize); 6] = [(3, 1), (5, 1), (4, 2), (6, 2), (7, 3), (4, 3)];

fn filled(devices: &[Arc<FaultDevice>], shape: (usize, usize), seed: u64) -> Workload {
    let mut workload = Workload::new(create_groups(devices, &[shape]), seed);
    workload.run(60);
    workload
}

#[test]
fn as_many_may_be_missing_as_there_is_parity() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let devices = fault_devices(shape.0, &FaultClock::new());
        let (pool, model) = filled(&devices, shape, seed as u64).close();
        assert_clean(&pool);
        assert_sound(&pool, "");
        export(pool);
        let there: Vec<_> = devices[shape.1..].iter().map(|d| copy_of(d)).collect();
        let pool = open_on(&there).unwrap();
        assert_eq!(states(&pool)[..shape.1], vec![Missing; shape.1]);
        assert_eq!(read_pool(&pool), normal(model.clone()));
        assert_clean(&pool);
        drop(pool);
        let refused = open_on(&there[1..]).err().unwrap().to_string();
        let reason = match there.len() {
            1 => "there are none",
            _ => "missing devices",
        };
        assert!(refused.contains(reason), "{refused}");
    }
}

/// Whichever three are missing, nothing is.
#[test]
fn any_three_may_be_missing_of_triple_parity() {
    let devices = fault_devices(6, &FaultClock::new());
    let (pool, model) = filled(&devices, (6, 3), 5).close();
    export(pool);
    for lost in 0..1_u32 << 6 {
        if lost.count_ones() != 3 {
            continue;
        }
        let there = (0..6).filter(|n| lost & 1 << n == 0);
        let there: Vec<_> = there.map(|n| copy_of(&devices[n])).collect();
        let pool = open_on(&there).unwrap();
        assert_eq!(read_pool(&pool), normal(model.clone()), "{lost:b}");
        assert_clean(&pool);
    }
}

#[test]
fn as_many_may_die_as_there_is_parity_and_one_more_suspends_the_pool() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let clock = FaultClock::new();
        let devices = fault_devices(shape.0, &clock);
        let mut workload = filled(&devices, shape, seed as u64);
        for device in &devices[..shape.1] {
            device.inject(Fault::DeadFrom(clock.now() + seed as u64 * 5));
        }
        workload.run(60);
        assert_eq!(states(&workload.pool)[..shape.1], vec![Faulted; shape.1]);
        let (pool, model) = workload.close();
        assert_eq!(read_pool(&pool), normal(model));
        assert_clean(&pool);
        devices[shape.1].inject(Fault::DeadFrom(clock.now()));
        let dataset = pool.open_dataset(1).unwrap();
        let _ = put(&pool, &dataset, ArrayKind::Data, 7, 7);
        assert!(pool.commit().is_err());
        assert!(pool.suspended().is_some());
    }
}

/// Bits of as many columns as there is parity are wrong, of each record other ones.
#[test]
fn wrong_columns_are_found_and_mended() {
    // With one column of data it is always the last device, and a read finds nothing wrong on the others.
    let shapes = SHAPES.into_iter().filter(|(all, parity)| all - parity > 1);
    for (seed, shape) in shapes.enumerate() {
        let devices = fault_devices(shape.0, &FaultClock::new());
        let (pool, model) = filled(&devices, shape, 20 + seed as u64).close();
        let mut dice = Dice(seed as u64);
        for device in &devices[..shape.1] {
            for _ in 0..2000 {
                let at = (320 << 10) + dice.below(5 << 20);
                device.flip(at, 1 << dice.below(8));
            }
        }
        assert_eq!(read_pool(&pool), normal(model.clone()));
        pool.scrubber().heal().unwrap();
        let counts: Vec<u64> = pool.devices().iter().map(|d| d.errors.checksum).collect();
        assert!(
            counts[..shape.1].iter().all(|count| *count > 0),
            "{counts:?}"
        );
        assert!(
            counts[shape.1..].iter().all(|count| *count == 0),
            "{counts:?}"
        );
        assert_eq!(scrub_all(&pool).errors, 0);
        assert_sound(&pool, "");
        drop(pool);
        // Those that were wrong are enough to do without others.
        let there: Vec<_> = devices[..shape.0 - shape.1]
            .iter()
            .map(|d| copy_of(d))
            .collect();
        assert_eq!(read_pool(&open_on(&there).unwrap()), normal(model));
    }
}

/// Writes records until there is no free space, and returns how many bytes that were.
fn fill(pool: &Pool, units: u64) -> u64 {
    let dataset = pool.open_dataset(1).unwrap();
    let mut bytes = 0;
    for slot in 0.. {
        let number = sized(slot, units);
        match put_reserved(pool, &dataset, ArrayKind::Data, slot, number) {
            Ok(()) => bytes += units * 4096,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    pool.commit().unwrap();
    bytes
}

/// However small the records are, no commit finds the pool full, and sizes say what they take.
#[test]
fn a_full_pool_goes_on() {
    for (shape, sizes) in [
        ((3, 1), &[1, 8][..]),
        ((4, 2), &[1, 3]),
        ((6, 2), &[8]),
        ((5, 3), &[1, 3]),
    ] {
        for units in sizes.iter().copied() {
            let devices = fault_devices(shape.0, &FaultClock::new());
            let pool = create_groups(&devices, &[shape]);
            let empty = pool.space();
            let raw = (shape.0 as u64) * (11 << 20);
            let usable = raw * (shape.0 - shape.1) as u64 / shape.0 as u64;
            assert!(
                empty.total < usable && empty.total > usable / 2,
                "{empty:?}"
            );
            let bytes = fill(&pool, units);
            assert_clean(&pool);
            let full = pool.space();
            assert!(full.available < 1 << 20, "{full:?}");
            if units == 8 {
                assert!(bytes > empty.available / 2, "{bytes} of {empty:?}");
            }
            let dataset = pool.open_dataset(1).unwrap();
            let mut slot = 0;
            while let Some(next) = dataset.next(ArrayKind::Data, slot, u64::MAX).unwrap() {
                if next % 3 > 0 {
                    punch(&pool, &dataset, ArrayKind::Data, next).unwrap();
                }
                slot = next + 1;
            }
            settle(&pool);
            drop(dataset);
            assert_clean(&pool);
            let now = pool.space();
            assert!(now.free > full.free, "{shape:?} {units} {full:?} {now:?}");
            // What is free now lies in pieces.
            fill(&pool, 8);
            assert_clean(&pool);
            assert_eq!(pool.suspended(), None);
        }
    }
}

#[test]
fn records_in_pieces_survive_missing_and_wrong_columns() {
    for shape in SHAPES {
        let devices = fault_devices(shape.0, &FaultClock::new());
        let mut workload = Workload::on_fragments(create_groups(&devices, &[shape]), 5);
        workload.run(20);
        let (pool, model) = workload.close();
        for at in ((320 << 10)..(8 << 20)).step_by(4096) {
            devices[1].flip(at, 1);
        }
        assert_eq!(read_pool(&pool), normal(model.clone()));
        assert_eq!(scrub_all(&pool).errors, 0);
        drop(pool);
        let there: Vec<_> = devices[shape.1..].iter().map(|d| copy_of(d)).collect();
        assert_eq!(read_pool(&open_on(&there).unwrap()), normal(model));
    }
}

#[test]
fn a_member_is_replaced_but_neither_attached_nor_detached() {
    let devices = fault_devices(4, &FaultClock::new());
    let (pool, model) = filled(&devices[..3], (3, 1), 9).close();
    let guid = pool.devices()[1].guid;
    let new = new_member(&devices[3], 50);
    for refused in [
        pool.attach_device(guid, &new, false, &origin()),
        pool.detach_device(guid, &origin()),
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("replace"), "{text}");
    }
    pool.attach_device(guid, &new, true, &origin()).unwrap();
    // The device that is to take its place may be let go.
    pool.detach_device(50, &origin()).unwrap();
    assert_eq!(states(&pool), [Online; 3]);
    let new = new_member(&devices[3], 51);
    pool.attach_device(guid, &new, true, &origin()).unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [Online; 3]);
    assert!(pool.devices().iter().all(|device| device.guid != guid));
    assert_sound(&pool, "");
    export(pool);
    let there = [copy_of(&devices[3]), copy_of(&devices[2])];
    assert_eq!(read_pool(&open_on(&there).unwrap()), normal(model));
}

#[test]
fn a_plain_pool_gets_a_group_with_parity() {
    let devices = fault_devices(5, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let before = pool.space();
    let new: Vec<_> = (1..5)
        .map(|n| new_member(&devices[n], 20 + n as u64))
        .collect();
    pool.add_group(&new, 2, &origin()).unwrap();
    let after = pool.space();
    assert!(after.total > before.total + (14 << 20), "{after:?}");
    let more = (after.total - after.free) - (before.total - before.free);
    assert!(more < 64 << 10, "an empty group takes nothing: {more}");
    let bytes = fill(&pool, 8);
    assert!(bytes > 16 << 20, "{bytes}");
    assert_clean(&pool);
    drop(pool);
    let there = [&devices[0], &devices[2], &devices[4]].map(|device| copy_of(device));
    let pool = open_on(&there).unwrap();
    assert_eq!(pool.space().total, after.total);
    assert_eq!(scrub_all(&pool).errors, 0);
}

#[test]
fn a_spare_takes_the_column_of_a_member_that_failed() {
    let clock = FaultClock::new();
    let devices = fault_devices(5, &clock);
    let mut workload = Workload::new(create_groups(&devices, &[(4, 1)]), 3);
    devices[2].inject(Fault::DeadFrom(clock.now() + 30));
    workload.run(60);
    assert!(workload.resilverer().use_spares().unwrap());
    resilver(&workload.pool);
    workload.commit().unwrap();
    let (pool, model) = workload.close();
    export(pool);
    let there = [0, 3, 4].map(|n: usize| copy_of(&devices[n]));
    let pool = open_on(&there).unwrap();
    assert_eq!(read_pool(&pool), normal(model));
    assert_eq!(scrub_all(&pool).errors, 0);
}
