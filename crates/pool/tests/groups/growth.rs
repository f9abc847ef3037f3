//! Devices that become larger: the pool uses them whole, and a power cut or a failure leaves the old size
//! or the new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::model::*;
use crate::common::*;
use block::BlockDevice;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, DeviceState, Pool};
use store::layout::{KEY_BLOCK_MAGIC, LABEL_MAGIC, Label, SUPERBLOCK_MAGIC};

/// The size of the devices in the end.
const LARGER: usize = 20 << 20;

/// The size of a header on a device of [`DEVICE_SIZE`].
const HEADER: usize = 320 << 10;

/// Pools, and the group whose devices grow.
const SHAPES: [(&[(usize, usize)], u16); 5] = [
    (&[(1, 0)], 0),
    (&[(1, 0), (1, 0)], 0),
    (&[(2, 0), (1, 0)], 0),
    (&[(3, 1)], 0),
    (&[(1, 0), (4, 2), (1, 0)], 1),
];

struct Growing {
    clock: FaultClock,
    devices: Vec<Arc<FaultDevice>>,
    workload: Workload,
    /// The devices that grow, and their guids.
    larger: Vec<(usize, u64)>,
}

fn growing(seed: u64) -> Growing {
    let clock = FaultClock::new();
    let (groups, group) = SHAPES[seed as usize % SHAPES.len()];
    let count = groups.iter().map(|(width, _)| width).sum();
    let devices = fault_devices(count, &clock);
    let mut workload = Workload::new(create_groups(&devices, groups), seed);
    workload.run(12);
    let all = workload.devices().into_iter().enumerate();
    let own = all.filter(|(_, device)| device.group == Some(group));
    let larger = own.map(|(n, device)| (n, device.guid)).collect();
    Growing {
        clock,
        devices,
        workload,
        larger,
    }
}

impl Growing {
    fn resize(&self, size: usize) {
        for (n, _) in &self.larger {
            self.devices[*n].resize(size);
        }
    }

    /// Has the pool use the devices whole, and says what it gained.
    fn expand(&self, pool: &Pool) -> pool::Result<u64> {
        let guids = self.larger.iter().map(|(_, guid)| *guid);
        let gained: pool::Result<Vec<u64>> = guids
            .map(|guid| Ok(pool.expand_device(guid, &origin())?.records))
            .collect();
        Ok(gained?.into_iter().sum())
    }
}

/// Returns the offsets of blocks with a magic on a device.
fn blocks(image: &[u8], magic: &[u8; 8]) -> Vec<usize> {
    let units = image.chunks(4096).enumerate();
    units
        .filter(|(_, unit)| unit.starts_with(magic))
        .map(|(n, _)| n * 4096)
        .collect()
}

/// A device has its labels, superblocks and keys at its ends and nowhere else.
fn assert_headers_at_ends(image: &[u8], size: usize) {
    let mut labels = blocks(image, &LABEL_MAGIC);
    labels.retain(|at| Label::decode(image[*at..][..4096].try_into().unwrap()).is_ok());
    assert_eq!(labels, [0, size - 4096]);
    for magic in [SUPERBLOCK_MAGIC, KEY_BLOCK_MAGIC] {
        for at in blocks(image, &magic) {
            assert!(at < HEADER || (size - HEADER..size).contains(&at), "{at}");
        }
    }
}

/// Fills a pool until it is full, and returns how many records of 64 KiB that took.
fn fill(pool: &Pool) -> u64 {
    let dataset = pool.open_dataset(1).unwrap();
    let put = |n| put_reserved(pool, &dataset, ArrayKind::Data, (1 << 30) + n, sized(n, 16));
    let count = (0..).take_while(|n| put(*n).is_ok()).count() as u64;
    pool.commit().unwrap();
    count
}

#[test]
fn what_was_gained_is_used() {
    for seed in seeds(0, 5) {
        let mut growing = growing(seed);
        let before = growing.workload.space();
        assert_eq!(growing.workload.expandable(), []);
        growing.resize(LARGER);
        let expandable = growing.workload.expandable();
        assert_eq!(expandable.len(), growing.larger.len());
        let gained = growing.expand(&growing.workload.pool).unwrap();
        assert_eq!(expandable[0].gain, gained);
        assert!(gained >= 7 << 20, "{gained}");
        assert_eq!(growing.workload.expandable(), []);
        let space = growing.workload.space();
        assert!(space.total > before.total + gained - (2 << 20));
        assert!(space.available > before.available + gained - (3 << 20));
        let again = growing.expand(&growing.workload.pool);
        assert_eq!(again.unwrap(), 0, "nothing is left to gain");
        growing.workload.run(40);
        assert_clean(&growing.workload.pool);
        for (n, _) in &growing.larger {
            assert_headers_at_ends(&growing.devices[*n].to_bytes(), LARGER);
        }
        let devices = growing.devices.clone();
        growing.workload.reopened(|| open_on(&devices).unwrap());
        growing.workload.run(20);
        assert_clean(&growing.workload.pool);
        // Once more, by a little and by something.
        growing.resize(LARGER + HEADER - 4096);
        assert_eq!(growing.workload.expandable(), []);
        assert_eq!(growing.expand(&growing.workload.pool).unwrap(), 0);
        growing.resize(2 * LARGER);
        assert!(growing.expand(&growing.workload.pool).unwrap() >= 19 << 20);
        let (pool, _) = growing.workload.close();
        assert!(fill(&pool) * (64 << 10) > gained + (19 << 20));
        assert_clean(&pool);
        assert_sound(&pool, seed);
        drop(pool);
        assert_clean(&open_on(&devices).unwrap());
    }
}

#[test]
fn a_power_cut_at_every_write_leaves_the_old_size_or_the_new() {
    for seed in seeds(10, 5) {
        let growing = growing(seed);
        let model = normal(growing.workload.model.clone());
        growing.resize(LARGER);
        let others = growing.devices.iter().enumerate();
        for (_, device) in others.filter(|(n, _)| growing.larger.iter().all(|(m, _)| m != n)) {
            device.take_journal();
        }
        let first = growing.clock.now();
        let before = growing.workload.space().total;
        growing.expand(&growing.workload.pool).unwrap();
        let after = growing.workload.space().total;
        let end = growing.clock.now();
        let journals: Vec<_> = growing.devices.iter().map(|d| d.take_journal()).collect();
        let mut seen = std::collections::BTreeSet::new();
        let mut dice = Dice(seed);
        for cut in first..=end {
            // A device alone at every write, the others at some.
            if seed != 10 && dice.below(1 + (end - first) / 30) > 0 {
                continue;
            }
            let survivals = match cut % 3 {
                0 => [Survival::None, Survival::Seeded(cut)],
                1 => [Survival::All, Survival::Seeded(cut)],
                _ => [Survival::Seeded(cut), Survival::Seeded(seed + cut)],
            };
            for survival in survivals.into_iter().take(1 + usize::from(seed == 10)) {
                let devices = after_cut(&journals, cut, survival);
                let case = format!("seed {seed}, cut {cut}, {survival:?}");
                let pool = open_on(&devices).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_clean(&pool);
                assert_eq!(read_pool(&pool), model, "{case}");
                let total = pool.space().total;
                assert!(total == before || total == after, "{case}");
                seen.insert(total);
                assert_eq!(states(&pool), vec![DeviceState::Online; devices.len()]);
                pool.commit().unwrap();
                // What is left of the attempt holds no keys and no superblocks.
                for (device, info) in devices.iter().zip(pool.devices()) {
                    assert_headers_at_ends(&device.to_bytes(), info.size as usize);
                }
                growing.expand(&pool).unwrap();
                assert_eq!(pool.space().total, after, "{case}");
                assert_clean(&pool);
                drop(pool);
                let pool = open_on(&devices).unwrap();
                assert_eq!(read_pool(&pool), model, "{case}");
            }
        }
        assert_eq!(seen.len(), 2, "seed {seed}: both sizes are found");
    }
}

#[test]
fn a_device_that_fails_at_any_event_loses_nothing() {
    for seed in seeds(20, 5) {
        let events = {
            let growing = growing(seed);
            growing.resize(LARGER);
            let first = growing.clock.now();
            growing.expand(&growing.workload.pool).unwrap();
            first..growing.clock.now()
        };
        for event in events.step_by(5) {
            let growing = growing(seed);
            let model = normal(growing.workload.model.clone());
            growing.resize(LARGER);
            let failing = &growing.devices[growing.larger[0].0];
            failing.inject(match event % 3 {
                0 => Fault::DeadFrom(event),
                1 => Fault::ShortWrite {
                    event,
                    written: 512,
                },
                _ => Fault::FailFlush(event),
            });
            let _ = growing.expand(&growing.workload.pool);
            let Growing {
                devices, workload, ..
            } = growing;
            let _ = workload.commit();
            drop(workload);
            devices.iter().for_each(|device| device.heal());
            // As a file does that is opened again.
            devices
                .iter()
                .for_each(|device| device.begin_anew().unwrap());
            let pool = open_on(&devices)
                .unwrap_or_else(|error| panic!("seed {seed}, event {event}: {error}"));
            assert_clean(&pool);
            assert_eq!(read_pool(&pool), model, "seed {seed}, event {event}");
        }
    }
}

/// The front label, and the header that was at the end, are not what they were.
#[test]
fn a_flipped_bit_in_a_header_brings_nothing_old_back() {
    for seed in seeds(30, 5) {
        let growing = growing(seed);
        let model = normal(growing.workload.model.clone());
        growing.resize(LARGER);
        growing.expand(&growing.workload.pool).unwrap();
        growing.workload.commit().unwrap();
        let after = growing.workload.space().total;
        drop(growing.workload);
        let (flipped, _) = growing.larger[0];
        let old_end = DEVICE_SIZE - 4096;
        for at in [
            0,
            24,
            63,
            4095,
            5000,
            LARGER - 1,
            LARGER - HEADER,
            old_end,
            old_end + 24,
        ] {
            let devices = copies(&growing.devices);
            devices[flipped].flip(at as u64, 4);
            let pool = open_on(&devices).unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(read_pool(&pool), model, "{at}");
            assert_eq!(pool.space().total, after, "{at}");
            assert_clean(&pool);
        }
    }
}

#[test]
fn a_pool_does_not_shrink() {
    let growing = growing(1);
    growing.resize(LARGER);
    growing.expand(&growing.workload.pool).unwrap();
    growing.workload.commit().unwrap();
    growing.resize(DEVICE_SIZE);
    let refusal = growing.expand(&growing.workload.pool).unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains("a pool does not shrink"), "{text}");
    assert!(text.contains(&format!("make it {LARGER} bytes")), "{text}");
    drop(growing.workload);
    let refusal = open_on(&growing.devices).err().unwrap().to_string();
    assert!(refusal.contains("missing"), "{refusal}");
}

/// Else it would look as new as the others at the next import.
#[test]
fn a_device_that_failed_a_moment_ago_does_not_grow() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_groups(&devices, &[(2, 0)]);
    devices.iter().for_each(|device| device.resize(LARGER));
    let guids: Vec<u64> = pool.devices().iter().map(|d| d.guid).collect();
    devices[0].inject(Fault::DeadFrom(clock.now()));
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 1, sized(1, 16)).unwrap();
    assert_eq!(states(&pool)[0], DeviceState::Faulted);
    devices[0].heal();
    let refused = pool.expand_device(guids[0], &origin()).unwrap_err();
    assert!(refused.to_string().contains("not in use"), "{refused}");
    assert!(pool.expandable().iter().all(|found| found.guid != guids[0]));
    assert_eq!(devices[0].to_bytes()[LARGER - HEADER..], vec![0; HEADER]);
}

#[test]
fn a_group_grows_when_all_of_its_devices_have() {
    for shape in [(2, 0), (3, 1)] {
        let clock = FaultClock::new();
        let devices = fault_devices(shape.0, &clock);
        let mut workload = Workload::new(create_groups(&devices, &[shape]), 7);
        workload.run(30);
        let before = workload.space().total;
        let guids: Vec<u64> = workload.devices().iter().map(|d| d.guid).collect();
        let mut larger = Vec::new();
        for (n, guid) in guids.iter().enumerate() {
            let device = Arc::new(FaultDevice::new(LARGER, &clock));
            let new = new_member(&device, 100 + n as u64);
            workload
                .attach_device(*guid, &new, true, &origin())
                .unwrap();
            let refusal = workload.expand_device(100 + n as u64, &origin());
            assert!(refusal.unwrap_err().to_string().contains("resilvered"));
            workload.run(10);
            resilver(&workload.pool);
            larger.push(device);
            let gain = workload.expandable().first().map_or(0, |e| e.gain);
            assert_eq!(gain > 0, n + 1 == guids.len());
            assert_eq!(workload.space().total, before);
        }
        let gained = workload.expand_device(100, &origin()).unwrap();
        assert!(gained.records >= 7 << 20, "{gained:?}");
        workload.run(30);
        assert_clean(&workload.pool);
        // A device that has space for what the group had before has none for what it has now.
        let small = Arc::new(FaultDevice::new(DEVICE_SIZE, &clock));
        let refused = workload.attach_device(100, &new_member(&small, 200), true, &origin());
        assert!(refused.unwrap_err().to_string().contains("at least"));
        workload.reopened(|| open_on(&larger).unwrap());
        // One that was away while the pool was written comes back.
        workload.offline_device(101, false, &origin()).unwrap();
        workload.run(20);
        let back = dynamic(&larger).remove(1);
        workload.online_device(101, back, &origin()).unwrap();
        resilver(&workload.pool);
        assert_sound(&workload.pool, "");
    }
}

/// Segments keep their numbers when a group grows, also those of a group that is removed.
#[test]
fn groups_are_removed_before_and_after_others_grow() {
    for (seed, first) in [(40, 0), (41, 2)] {
        let clock = FaultClock::new();
        let devices = fault_devices(3, &clock);
        let mut workload = Workload::new(create_on(&devices), seed);
        workload.run(60);
        let grow = |workload: &Workload, n: usize, size: usize| {
            devices[n].resize(size);
            let guid = workload.devices();
            let guid = guid
                .iter()
                .find(|d| d.group == Some(n as u16))
                .unwrap()
                .guid;
            let gained = workload.expand_device(guid, &origin()).unwrap();
            assert!(gained.records > 0);
        };
        let remove = |workload: &mut Workload, group: u16| {
            workload.removal().begin(group, &origin()).unwrap();
            while workload.removal().step(64 << 10).unwrap() {
                workload.step();
            }
            workload.commit().unwrap();
        };
        grow(&workload, first, LARGER);
        grow(&workload, 1, LARGER);
        workload.run(60);
        grow(&workload, first, 2 * LARGER);
        remove(&mut workload, 1);
        grow(&workload, 2 - first, LARGER);
        workload.run(60);
        assert_clean(&workload.pool);
        let rest = [Arc::clone(&devices[0]), Arc::clone(&devices[2])];
        workload.reopened(|| open_on(&rest).unwrap());
        workload.run(60);
        assert_clean(&workload.pool);
        let added = Arc::new(FaultDevice::new(DEVICE_SIZE, &clock));
        let new = [new_member(&added, 300)];
        workload.add_group(&new, 0, &origin()).unwrap();
        workload.run(60);
        remove(&mut workload, first as u16);
        let rest = [Arc::clone(&devices[2 - first]), added];
        workload.reopened(|| open_on(&rest).unwrap());
        workload.run(40);
        assert_clean(&workload.pool);
        assert_sound(&workload.pool, "");
    }
}

/// Writers go on while the devices of their pool grow, and what they wrote is there.
#[test]
fn writers_go_on() {
    for shape in [&[(1, 0)][..], &[(2, 0), (1, 0)]] {
        let clock = FaultClock::new();
        let count = shape.iter().map(|(width, _)| width).sum();
        let devices = fault_devices(count, &clock);
        let pool = create_groups(&devices, shape);
        let guids: Vec<u64> = pool.devices().iter().map(|d| d.guid).collect();
        let dataset = pool.open_dataset(1).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let write = |from: u64| {
                let (pool, dataset, is_done) = (&pool, &dataset, &is_done);
                move || {
                    let mut round = 0;
                    while !is_done.load(Ordering::Relaxed) || round == 0 {
                        for n in 0..40 {
                            let (slot, number) = (from + n, sized(from + n + 1000 * round, 4));
                            put_reserved(pool, dataset, ArrayKind::Data, slot, number).unwrap();
                        }
                        round += 1;
                    }
                    round
                }
            };
            let writers: Vec<_> = (0..3).map(|n| scope.spawn(write(n << 20))).collect();
            for size in [16, 20, 24, 32, 40] {
                for (device, guid) in devices.iter().zip(&guids) {
                    device.resize(size << 20);
                    pool.expand_device(*guid, &origin()).unwrap();
                    pool.commit().unwrap();
                }
            }
            is_done.store(true, Ordering::Relaxed);
            let rounds = writers.into_iter().map(|writer| writer.join().unwrap());
            let rounds: Vec<u64> = rounds.collect();
            pool.commit().unwrap();
            let all = read_all(&dataset, ArrayKind::Data).unwrap();
            for (from, rounds) in (0..3).map(|n| n << 20).zip(rounds) {
                for n in 0..40 {
                    let last = sized(from + n + 1000 * (rounds - 1), 4);
                    assert_eq!(all.get(&(from + n)), Some(&last));
                }
            }
        });
        assert_clean(&pool);
        drop((dataset, pool));
        assert_clean(&open_on(&devices).unwrap());
    }
}
