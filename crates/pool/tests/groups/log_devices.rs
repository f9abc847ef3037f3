//! Devices for logs: what was synced is there after a power cut at any write, whichever devices come,
//! fail and go meanwhile; and where it is lost with its device, that is reported. No key is needed.

use std::sync::Arc;

use crate::common::logs::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{
    ArrayKind, DeviceState, Error, LOG_HEADER, LogEnd, LogHead, OpenDataset, Pool, Purpose,
    ScrubPhase,
};

/// An append that returned, and where the log was then.
struct Appended {
    time: u64,
    chain: u64,
    sequence: u64,
    payload: Vec<u8>,
}

fn top_log(pool: &Pool) -> LogHead {
    pool.top().unwrap().log.clone()
}

/// The groups that a log lies in.
fn groups(log: &LogHead) -> Vec<u32> {
    let mut groups: Vec<u32> = log.chunks().iter().map(|c| c.segment().group()).collect();
    groups.dedup();
    groups
}

fn waiting(pool: &Pool) -> Vec<u8> {
    let dataset = open_top(pool);
    let head = dataset.waiting_log().expect("a log waits");
    let (found, end) = entries(&dataset, &head);
    assert!(matches!(end, LogEnd::Whole { .. }));
    found.iter().map(|(_, payload)| payload[0]).collect()
}

fn add_logs(pool: &Pool, devices: &[&Arc<FaultDevice>], guid: u64) {
    let new = devices.iter().zip(guid..);
    let new: Vec<_> = new.map(|(device, guid)| new_member(device, guid)).collect();
    pool.log_devices().add(&new, &origin()).unwrap();
}

/// A pool on the first device, with a log on the others, in which there are five entries.
fn pool_with_logs(devices: &[Arc<FaultDevice>]) -> (Pool, Arc<OpenDataset>) {
    let pool = create_on(&devices[..1]);
    add_logs(&pool, &devices[1..].iter().collect::<Vec<_>>(), 50);
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    for n in 0..5 {
        append(&dataset, entry(n)).unwrap();
    }
    (pool, dataset)
}

#[test]
fn logs_go_to_their_devices_and_records_never() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let before = pool.space();
    add_logs(&pool, &[&devices[1]], 50);
    assert_eq!(pool.space().total, before.total);
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    assert_eq!(groups(&top_log(&pool)), [1]);
    let free = pool.space().free;
    // As many records as there is space for.
    let mut slot = 2;
    while put_reserved(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 8)).is_ok() {
        let ptr = dataset.get(ArrayKind::Data, slot).unwrap();
        assert!(ptr.place.copies().all(|addr| addr.segment().group() == 0));
        slot += 1;
    }
    assert!((slot - 2) * 8 * 4096 < free);
    pool.commit().unwrap();
    assert_clean(&pool);
    assert_eq!(pool.devices()[1].purpose, Purpose::Logs);
    assert!(append(&dataset, entry(1)).is_some());
}

#[test]
fn a_log_moves_to_a_device_that_joins_and_back_when_it_is_removed() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    let dataset = open_top(&pool);
    dataset.want_log(512 << 10, 7);
    let settle = |n: u8| {
        for slot in 0..12 {
            // Enough to pass on from each chunk to the next.
            while append(&dataset, vec![n; 65536 - LOG_HEADER]).is_some() {}
            change(&pool, &dataset, slot);
            pool.commit().unwrap();
        }
    };
    settle(0);
    assert_eq!(groups(&top_log(&pool)), [0]);
    add_logs(&pool, &[&devices[1]], 50);
    settle(1);
    assert_eq!(groups(&top_log(&pool)), [1]);
    append(&dataset, entry(2)).unwrap();
    pool.log_devices().remove(1, &origin()).unwrap();
    assert_eq!(groups(&top_log(&pool)), [0]);
    assert_eq!(pool.devices().len(), 1);
    assert!(devices[1].to_bytes()[..4096].iter().all(|byte| *byte == 0));
    append(&dataset, entry(3)).unwrap();
    assert_clean(&pool);
    drop((dataset, pool));
    let pool = open_on(&devices[..1]).unwrap();
    assert_eq!(waiting(&pool), [3], "a commit took over what came before");
    // Its number is free again, as nothing lies behind it.
    add_logs(&pool, &[&devices[1]], 60);
    assert_eq!(pool.devices()[1].group, Some(1));
    assert_clean(&pool);
}

#[test]
fn groups_behind_one_that_is_gone_stay_where_they_are() {
    let devices = fault_devices(3, &FaultClock::new());
    let pool = create_on(&devices[..1]);
    add_logs(&pool, &[&devices[1]], 50);
    pool.add_group(&[new_member(&devices[2], 60)], 0, &origin())
        .unwrap();
    pool.log_devices().remove(1, &origin()).unwrap();
    let dataset = open_top(&pool);
    for slot in 0..200 {
        put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 8)).unwrap();
    }
    pool.commit().unwrap();
    assert_clean(&pool);
    let before = read_all(&dataset, ArrayKind::Data).unwrap();
    drop((dataset, pool));
    let both = [Arc::clone(&devices[0]), Arc::clone(&devices[2])];
    let pool = open_on(&both).unwrap();
    assert_eq!(read_all(&open_top(&pool), ArrayKind::Data).unwrap(), before);
    assert_eq!(pool.devices()[1].group, Some(2));
    assert_clean(&pool);
    assert_eq!(scrub_all(&pool).errors, 0);
}

#[test]
fn a_log_that_waits_moves_without_its_key() {
    for is_mirror in [false, true] {
        let devices = fault_devices(if is_mirror { 3 } else { 2 }, &FaultClock::new());
        drop(pool_with_logs(&devices));
        let pool = open_on(&devices).unwrap();
        pool.log_devices().remove(1, &origin()).unwrap();
        assert_eq!(groups(&top_log(&pool)), [0]);
        assert_clean(&pool);
        drop(pool);
        assert_eq!(waiting(&open_on(&devices[..1]).unwrap()), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn damage_is_not_forgotten_when_a_log_moves() {
    let devices = fault_devices(2, &FaultClock::new());
    drop(pool_with_logs(&devices));
    let image = devices[1].to_bytes();
    let second = image.windows(3904).step_by(64).position(|w| w == entry(1));
    devices[1].flip(second.unwrap() as u64 * 64 + 5, 1);
    let pool = open_on(&devices).unwrap();
    pool.log_devices().remove(1, &origin()).unwrap();
    let dataset = open_top(&pool);
    let (found, end) = entries(&dataset, &dataset.waiting_log().unwrap());
    assert_eq!((found.len(), end), (1, LogEnd::Damaged { entries: 1 }));
    assert_clean(&pool);
}

#[test]
fn a_lost_log_device_is_no_secret() {
    let devices = fault_devices(2, &FaultClock::new());
    drop(pool_with_logs(&devices));
    let alone = copies(&devices[..1]);
    let error = open_on(&alone).err().expect("it is refused");
    assert!(matches!(&error, Error::LogsLost { datasets, .. } if datasets == "tank"));
    assert!(error.to_string().contains("pool import -m"), "{error}");
    // Nothing was changed by trying.
    assert_eq!(
        waiting(&open_on(&copies(&devices)).unwrap()),
        [0, 1, 2, 3, 4]
    );

    let store = store::Store::open(dynamic(&alone)).unwrap();
    let opened = Pool::open_without_logs(Arc::new(store), TestEnv::new(3));
    let (pool, given_up) = opened.unwrap();
    assert_eq!(given_up.len(), 1);
    assert_eq!(states(&pool), [DeviceState::Online, DeviceState::Missing]);
    let said = pool.history().unwrap();
    assert!(said.iter().any(|l| {
        l.text
            .starts_with("gave up what was synced to tank after txg")
    }));
    assert_clean(&pool);
    let dataset = open_top(&pool);
    assert!(dataset.waiting_log().is_none());
    // It goes on in the other group.
    dataset.want_log(256 << 10, 8);
    change(&pool, &dataset, 2);
    pool.commit().unwrap();
    assert_eq!(groups(&top_log(&pool)), [0]);
    append(&dataset, entry(9)).unwrap();
    pool.log_devices().remove(1, &origin()).unwrap();
    assert_eq!(states(&pool), [DeviceState::Online]);
    drop((dataset, pool));
    assert_eq!(waiting(&open_on(&alone).unwrap()), [9]);
}

/// A place in a log that cannot be read is not its end.
#[test]
fn a_log_that_cannot_be_read_waits_or_is_given_up() {
    let devices = fault_devices(2, &FaultClock::new());
    drop(pool_with_logs(&devices));
    let image = devices[1].to_bytes();
    let fourth = image.windows(64).position(|bytes| bytes == [3; 64]);
    let bad = |devices: &[Arc<FaultDevice>]| {
        devices[1].inject(Fault::BadBytes {
            offset: fourth.unwrap() as u64,
            len: 512,
        });
    };
    let is_lost =
        |error: &Error| matches!(error, Error::LogsLost { datasets, .. } if datasets == "tank");

    let unreadable = copies(&devices);
    bad(&unreadable);
    let error = open_on(&unreadable).err().expect("it is refused");
    assert!(is_lost(&error), "{error}");
    let store = store::Store::open(dynamic(&unreadable)).unwrap();
    let opened = Pool::open_without_logs(Arc::new(store), TestEnv::new(3));
    let (pool, given_up) = opened.unwrap();
    assert_eq!(given_up.len(), 1);
    assert_clean(&pool);
    let dataset = open_top(&pool);
    let (found, end) = entries(&dataset, &dataset.waiting_log().unwrap());
    // The fifth says that the fourth was durable.
    assert_eq!((found.len(), end), (3, LogEnd::Damaged { entries: 3 }));
    drop((dataset, pool));

    let pool = open_on(&devices).unwrap();
    bad(&devices);
    let error = pool
        .log_devices()
        .remove(1, &origin())
        .expect_err("it is refused");
    assert!(is_lost(&error), "{error}");
    let dataset = open_top(&pool);
    let head = dataset.waiting_log().unwrap();
    let mut log = dataset.read_log(&head);
    assert_eq!(log.by_ref().count(), 3);
    assert!(is_lost(&dataset.refuse_unreadable_log(&log).unwrap_err()));
    assert_eq!(log.end(), LogEnd::Unreadable { entries: 3 });
    drop(dataset);
    devices[1].heal();
    pool.log_devices().remove(1, &origin()).unwrap();
    assert_clean(&pool);
    assert_eq!(waiting(&pool), [0, 1, 2, 3, 4]);
}

/// A resilver that may not believe the end of a log waits for it, and holds up no scrub.
#[test]
fn a_resilver_waits_for_a_log_and_a_scrub_does_not() {
    let devices = fault_devices(3, &FaultClock::new());
    let (pool, _dataset) = pool_with_logs(&devices[..2]);
    let fourth = devices[1]
        .to_bytes()
        .windows(64)
        .position(|bytes| bytes == [3; 64]);
    devices[1].inject(Fault::BadBytes {
        offset: fourth.unwrap() as u64,
        len: 512,
    });
    let first = pool.devices()[0].guid;
    pool.attach_device(first, &new_member(&devices[2], 70), false, &origin())
        .unwrap();
    pool.scrubber().start().unwrap();
    assert!(!pool.scrubber().step(u64::MAX).unwrap());
    assert_eq!(pool.scrubber().status().phase, ScrubPhase::Running);
    resilver(&pool);
    let status = pool.resilverer().status();
    let why = status.waits.as_ref().expect("it waits");
    assert!(status.is_running() && why.contains("tank"), "{status:?}");
    while pool.scrubber().step(u64::MAX).unwrap() {}
    assert_eq!(pool.scrubber().status().phase, ScrubPhase::Finished);
    devices[1].heal();
    // It is tried again from time to time.
    while pool.resilverer().status().is_running() {
        pool.resilverer().step(u64::MAX).unwrap();
    }
    assert_eq!(pool.resilverer().status().waits, None);
    assert_eq!(states(&pool), [DeviceState::Online; 3]);
}

/// The same where the header of an entry can be read and the rest of it cannot, which import does not notice.
#[test]
fn an_entry_that_cannot_be_read_whole_can_be_given_up() {
    let devices = fault_devices(2, &FaultClock::new());
    let (pool, dataset) = pool_with_logs(&devices);
    append(&dataset, vec![9; 3 * 4096 - LOG_HEADER]).unwrap();
    drop((dataset, pool));
    let image = devices[1].to_bytes();
    let long = image.windows(64).position(|bytes| bytes == [9; 64]);
    devices[1].inject(Fault::BadBytes {
        offset: long.unwrap() as u64 + 6000,
        len: 512,
    });
    let pool = open_on(&devices).unwrap();
    let dataset = open_top(&pool);
    let (found, end) = entries(&dataset, &dataset.waiting_log().unwrap());
    assert_eq!((found.len(), end), (5, LogEnd::Unreadable { entries: 5 }));
    drop((dataset, pool));
    let store = store::Store::open(dynamic(&devices)).unwrap();
    let (pool, given_up) = Pool::open_without_logs(Arc::new(store), TestEnv::new(3)).unwrap();
    assert_eq!(given_up.len(), 1);
    assert_eq!(waiting(&pool), [0, 1, 2, 3, 4]);
}

#[test]
fn a_lost_log_device_is_no_matter_while_nothing_waits_there() {
    let devices = fault_devices(3, &FaultClock::new());
    let (pool, dataset) = pool_with_logs(&devices[..2]);
    dataset.want_log(0, 0);
    change(&pool, &dataset, 3);
    pool.commit().unwrap();
    drop((dataset, pool));
    let pool = open_on(&devices[..1]).unwrap();
    assert_eq!(states(&pool), [DeviceState::Online, DeviceState::Missing]);
    assert_clean(&pool);
    // Another one takes its place.
    pool.attach_device(50, &new_member(&devices[2], 70), true, &origin())
        .unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [DeviceState::Online; 2]);
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 9);
    change(&pool, &dataset, 4);
    pool.commit().unwrap();
    assert_eq!(groups(&top_log(&pool)), [1]);
    append(&dataset, entry(1)).unwrap();
    drop((dataset, pool));
    let rest = [Arc::clone(&devices[0]), Arc::clone(&devices[2])];
    assert_eq!(waiting(&open_on(&rest).unwrap()), [1]);
}

#[test]
fn one_of_two_that_hold_a_log_is_enough() {
    for lost in 1..3 {
        let mut devices = fault_devices(3, &FaultClock::new());
        drop(pool_with_logs(&devices));
        devices.remove(lost);
        assert_eq!(waiting(&open_on(&devices).unwrap()), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_log_device_is_taken_offline_and_comes_back() {
    let devices = fault_devices(2, &FaultClock::new());
    let (pool, dataset) = pool_with_logs(&devices);
    pool.offline_device(50, false, &origin()).unwrap();
    assert_eq!(groups(&top_log(&pool)), [0]);
    append(&dataset, entry(8)).unwrap();
    assert!(pool.detach_device(50, &origin()).is_err());
    let back = dynamic(&devices).remove(1);
    pool.online_device(50, back, &origin()).unwrap();
    resilver(&pool);
    assert_eq!(states(&pool), [DeviceState::Online; 2]);
    drop((dataset, pool));
    assert_eq!(waiting(&open_on(&devices[..1]).unwrap()), [8]);
}

/// Whatever the log device does at whichever write, nothing is reported as durable that then
/// is not there, or not named as lost.
#[test]
fn a_log_device_that_fails_at_any_event_stops_no_writer() {
    let mut failures = 0;
    for event in 0..60 {
        let fault = event % 3;
        for (joins, stops) in [(false, false), (false, true), (true, false), (true, true)] {
            let clock = FaultClock::new();
            let devices = fault_devices(3, &clock);
            let (pool, dataset) = pool_with_logs(&devices[..2]);
            let at = clock.now() + event;
            devices[1].inject(match fault {
                0 => Fault::DeadFrom(at),
                1 => Fault::FailFlush(at),
                _ => Fault::ShortWrite {
                    event: at,
                    written: 700,
                },
            });
            let mut appended = Vec::new();
            for n in 0..14 {
                if n == 2 {
                    dataset.want_log(512 << 10, 8);
                }
                if joins && n == 1 {
                    // It is not resilvered, so it never holds what the first one holds.
                    let _ = pool.attach_device(50, &new_member(&devices[2], 70), true, &origin());
                }
                if stops && clock.now() > at {
                    break;
                }
                if n % 5 == 4 {
                    change(&pool, &dataset, u64::from(n));
                    pool.commit().unwrap();
                    continue;
                }
                match append(&dataset, entry(100 + n)) {
                    Some((chain, sequence)) => appended.push((chain, sequence, 100 + n)),
                    None => {
                        change(&pool, &dataset, u64::from(n));
                        pool.commit().unwrap();
                    }
                }
            }
            assert!(pool.suspended().is_none(), "event {event}: {fault}");
            assert_clean(&pool);
            failures += usize::from(states(&pool)[1] == DeviceState::Faulted);
            let head = top_log(&pool);
            drop((dataset, pool));
            devices[1].heal();
            let without = match open_on(&copies(&devices[..1])) {
                Err(Error::LogsLost { .. }) => None,
                without => Some(without.unwrap()),
            };
            let all = if joins { &devices } else { &devices[..2] };
            let with = open_on(&copies(all)).unwrap_or_else(|e| panic!("{event}, {joins}: {e}"));
            for pool in [Some(with), without].into_iter().flatten() {
                let dataset = open_top(&pool);
                let (found, end) = entries(&dataset, &head);
                assert!(matches!(end, LogEnd::Whole { .. }));
                for (chain, sequence, byte) in &appended {
                    if *chain == head.chain && *sequence >= head.sequence {
                        let of = found.iter().find(|(found, _)| found == sequence);
                        let of = of.map(|(_, payload)| payload[0]);
                        assert_eq!(of, Some(*byte), "event {event}, fault {fault}");
                    }
                }
            }
        }
    }
    assert!(failures > 20, "{failures}: it hardly ever failed");
}

#[test]
fn what_was_synced_is_found_after_a_power_cut_at_any_event() {
    for seed in seeds(0, 6) {
        let clock = FaultClock::new();
        let base: &[(usize, usize)] = [&[(1, 0)][..], &[(2, 0)], &[(3, 1)]][seed as usize % 3];
        let count: usize = base.iter().map(|(members, _)| members).sum();
        let devices = fault_devices(count + 3, &clock);
        let pool = create_groups(&devices[..count], base);
        let (logs, width) = (&devices[count..], 1 + seed as usize % 2);
        add_logs(&pool, &logs[..width].iter().collect::<Vec<_>>(), 50);
        let dataset = open_top(&pool);
        for device in &devices {
            device.take_journal();
        }
        let first = clock.now();
        let mut dice = Dice(seed);
        let mut guid = 60;
        let mut appended: Vec<Appended> = Vec::new();
        for step in 0..100 {
            let log_group = pool
                .devices()
                .into_iter()
                .find(|d| d.purpose == Purpose::Logs);
            match dice.below(24) {
                0..=1 => {
                    dataset.want_log([0, 256 << 10, 512 << 10][dice.below(3) as usize], step + 1)
                }
                2..=4 => pool.commit().unwrap(),
                5..=6 => change(&pool, &dataset, dice.below(40)),
                7 => match log_group {
                    Some(device) => pool
                        .log_devices()
                        .remove(device.group.unwrap(), &origin())
                        .unwrap(),
                    None => {
                        guid += 10;
                        add_logs(&pool, &logs[..width].iter().collect::<Vec<_>>(), guid);
                    }
                },
                8 => {
                    if let Some(device) = log_group {
                        pool.offline_device(device.guid, false, &origin()).unwrap();
                        let at = (device.guid % 10) as usize;
                        let back = dynamic(logs).remove(at);
                        pool.online_device(device.guid, back, &origin()).unwrap();
                        resilver(&pool);
                    }
                }
                _ => {
                    let fill = dice.below(256) as u8;
                    let payload = vec![fill; (1 + dice.below(8) as usize) * 4096 - LOG_HEADER];
                    match append(&dataset, payload.clone()) {
                        Some((chain, sequence)) => appended.push(Appended {
                            time: clock.now(),
                            chain,
                            sequence,
                            payload,
                        }),
                        None => {
                            change(&pool, &dataset, dice.below(40));
                            pool.commit().unwrap();
                        }
                    }
                }
            }
        }
        assert!(appended.len() > 10, "seed {seed}: the log was hardly used");
        let journals: Vec<_> = devices.iter().map(|device| device.take_journal()).collect();
        let step = 11 * devices.len();
        for cut in (first + seed % 3..=clock.now()).step_by(step) {
            let survival = Survival::in_turn(cut / step as u64, seed ^ cut);
            let context = format!("seed {seed}, cut {cut}, {survival:?}");
            let devices = after_cut(&journals, cut, survival);
            let pool = open_on(&devices).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_clean(&pool);
            let dataset = open_top(&pool);
            let Some(head) = dataset.waiting_log() else {
                continue;
            };
            let (found, end) = entries(&dataset, &head);
            assert!(matches!(end, LogEnd::Whole { .. }), "{context}");
            for was in &appended {
                let is_in_it = was.chain == head.chain && was.sequence >= head.sequence;
                if is_in_it && was.time <= cut {
                    let of = found.iter().find(|(sequence, _)| *sequence == was.sequence);
                    assert_eq!(of.map(|(_, p)| p), Some(&was.payload), "{context}");
                }
            }
        }
    }
}
