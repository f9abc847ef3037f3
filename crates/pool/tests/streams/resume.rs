//! A pool that was suspended goes on where it is once its devices work again, or says why it cannot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use ArrayKind::{Data, Pages};
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, Error, OpenDataset, Pool, SuspensionEnd};

type Records = BTreeMap<u64, u64>;

/// Two numbers for the same slots: before the failure and after it.
fn numbers(shift: u64) -> Records {
    (0..12).map(|slot| (slot, slot + 100 * shift)).collect()
}

fn put_all(pool: &Pool, dataset: &OpenDataset, records: &Records) -> pool::Result<()> {
    for (slot, number) in records {
        put(pool, dataset, Data, *slot, *number)?;
        put(pool, dataset, Pages, *slot, *number)?;
    }
    Ok(())
}

fn read_both(dataset: &OpenDataset) -> [Records; 2] {
    [Data, Pages].map(|array| read_all(dataset, array).unwrap())
}

fn both(records: &Records) -> [Records; 2] {
    [records.clone(), records.clone()]
}

/// A pool with one commit, its dataset, and the event that comes next.
fn begin(devices: &[Arc<FaultDevice>], groups: &[(usize, usize)]) -> (Pool, Arc<OpenDataset>) {
    let pool = create_groups(devices, groups);
    let dataset = pool.open_dataset(1).unwrap();
    put_all(&pool, &dataset, &numbers(1)).unwrap();
    pool.commit().unwrap();
    (pool, dataset)
}

fn assert_opens_with(devices: &[Arc<FaultDevice>], records: &Records) {
    let pool = open_on(devices).unwrap();
    assert_clean(&pool);
    assert_eq!(read_both(&pool.open_dataset(1).unwrap()), both(records));
}

/// Some events of what is tried to fail, with all of the last ones: flushes, the superblock, flushes.
fn events(groups: &[(usize, usize)]) -> Vec<u64> {
    let clock = FaultClock::new();
    let width = groups.iter().map(|(width, _)| width).sum();
    let devices = fault_devices(width, &clock);
    let (pool, dataset) = begin(&devices, groups);
    let start = clock.now();
    put_all(&pool, &dataset, &numbers(2)).unwrap();
    pool.commit().unwrap();
    let count = clock.now() - start;
    let last = count - 6 * width as u64;
    let early = (0..last).step_by(last as usize / 8);
    early.chain(last..count).collect()
}

/// Has something fail at some events of a commit in turn, on the devices from the one named on, and counts how
/// often the pool went on.
fn fail_at_each_event(
    groups: &[(usize, usize)],
    fault: impl Fn(u64) -> Vec<Fault>,
    failing: std::ops::Range<usize>,
) -> (usize, usize) {
    let width = groups.iter().map(|(width, _)| width).sum();
    let (mut resumed, mut refused) = (0, 0);
    for event in events(groups) {
        let clock = FaultClock::new();
        let devices = fault_devices(width, &clock);
        let (pool, dataset) = begin(&devices, groups);
        let start = clock.now();
        for device in &devices[failing.clone()] {
            fault(start + event)
                .into_iter()
                .for_each(|fault| device.inject(fault));
        }
        let written = put_all(&pool, &dataset, &numbers(2));
        if written.and_then(|()| pool.commit()).is_ok() {
            continue;
        }
        assert!(pool.suspended().is_some());
        assert!(matches!(pool.enter().err(), Some(Error::Suspended { .. })));
        devices.iter().for_each(|device| device.heal());
        match pool.resume(&origin()) {
            Ok(()) => {
                assert_eq!(pool.suspended(), None, "event {event}");
                put_all(&pool, &dataset, &numbers(2)).unwrap();
                put_all(&pool, &dataset, &BTreeMap::from([(50, 50)])).unwrap();
                pool.commit().unwrap();
                let mut expected = numbers(2);
                expected.insert(50, 50);
                assert_eq!(read_both(&dataset), both(&expected), "event {event}");
                drop((dataset, pool));
                assert_opens_with(&devices, &expected);
                resumed += 1;
            }
            Err(error) => {
                let until = SuspensionEnd::Imported;
                assert_eq!(
                    pool.suspended_until(),
                    Some(until),
                    "event {event}: {error}"
                );
                assert!(pool.resume(&origin()).is_err());
                drop((dataset, pool));
                assert_opens_with(&devices, &numbers(1));
                refused += 1;
            }
        }
    }
    (resumed, refused)
}

#[test]
fn a_write_that_failed_is_made_again() {
    let short = |event| {
        vec![Fault::ShortWrite {
            event,
            written: 700,
        }]
    };
    let (resumed, refused) = fail_at_each_event(&[(1, 0)], short, 0..1);
    assert!(resumed > 10 && refused == 0, "{resumed} {refused}");
}

#[test]
fn a_device_that_was_dead_for_a_while_gets_all_it_missed() {
    for (groups, failing) in [
        (&[(1, 0)][..], 0..1),
        (&[(2, 0)], 0..2),
        (&[(3, 1)], 0..3),
        (&[(1, 0), (2, 0)], 1..3),
    ] {
        let dead = |event| vec![Fault::DeadFrom(event)];
        let (resumed, refused) = fail_at_each_event(groups, dead, failing);
        // A commit that cannot read what it is to change has come to no end that memory knows of.
        assert!(
            resumed > 10 && refused < 4,
            "{groups:?} {resumed} {refused}"
        );
    }
}

#[test]
fn a_flush_that_failed_and_lost_nothing_is_made_again() {
    let (resumed, refused) =
        fail_at_each_event(&[(1, 0)], |event| vec![Fault::FailFlush(event)], 0..1);
    assert!(resumed > 1 && refused == 0, "{resumed} {refused}");
}

#[test]
fn what_a_failed_flush_lost_is_missed() {
    // All devices, as far as they flush at all.
    let lose = |event| (event..event + 3).map(Fault::LoseFlush).collect();
    for groups in [&[(1, 0)][..], &[(3, 1)]] {
        let (resumed, refused) = fail_at_each_event(groups, lose, 0..groups[0].0);
        // That of the superblock loses nothing that is not written again.
        assert!(resumed > 0 && refused > 0, "{groups:?} {resumed} {refused}");
    }
}

#[test]
fn a_device_that_fails_still_is_named_and_nothing_changes() {
    let devices = fault_devices(1, &FaultClock::new());
    let (pool, dataset) = begin(&devices, &[(1, 0)]);
    devices[0].inject(Fault::FullAfter(devices[0].written() + 10_000));
    let mut count = 0;
    while put(&pool, &dataset, Data, count, count).is_ok() {
        count += 1;
    }
    for _ in 0..3 {
        let error = pool.resume(&origin()).unwrap_err().to_string();
        assert!(error.contains("fault device"), "{error}");
        assert_eq!(pool.suspended_until(), Some(SuspensionEnd::Cleared));
        let error = pool.commit().unwrap_err().to_string();
        assert!(error.contains("strongroom pool clear"), "{error}");
    }
    devices[0].heal();
    pool.resume(&origin()).unwrap();
    pool.resume(&origin()).unwrap();
    put_all(&pool, &dataset, &numbers(3)).unwrap();
    pool.commit().unwrap();
    drop((dataset, pool));
    assert_opens_with(&devices, &numbers(3));
}

#[test]
fn a_power_cut_while_the_pool_resumes_leaves_a_commit_whole() {
    let seeds = || {
        [Survival::None, Survival::All]
            .into_iter()
            .chain((0..2).map(Survival::Seeded))
    };
    for event in events(&[(1, 0)]).into_iter().step_by(2) {
        let clock = FaultClock::new();
        let devices = fault_devices(1, &clock);
        let (pool, dataset) = begin(&devices, &[(1, 0)]);
        devices[0].take_journal();
        devices[0].inject(Fault::DeadFrom(clock.now() + event));
        let written = put_all(&pool, &dataset, &numbers(2));
        if written.and_then(|()| pool.commit()).is_ok() {
            continue;
        }
        let failed = clock.now();
        devices[0].heal();
        if pool.resume(&origin()).is_err() {
            assert_eq!(pool.suspended_until(), Some(SuspensionEnd::Imported));
            continue;
        }
        let (resumed, found) = (clock.now(), read_both(&dataset));
        drop((dataset, pool));
        let journal = devices[0].take_journal();
        for cut in failed..=resumed {
            for survival in seeds() {
                let pool = open_on(&after_cut([&journal], cut, survival)).unwrap();
                assert_clean(&pool);
                let now = read_both(&pool.open_dataset(1).unwrap());
                let is_old = cut < resumed && now == both(&numbers(1));
                assert!(
                    is_old || now == found,
                    "event {event}, cut {cut}, {survival:?}"
                );
            }
        }
    }
}
