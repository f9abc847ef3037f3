//! A power cut at any write leaves the pool as one of its commits left it: at least the last one
//! that had returned.

use std::io::Read;
use std::sync::Arc;

use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use ArrayKind::{Data, Pages};
use block::fault::{FaultClock, FaultDevice, Journal, Survival};
use pool::{ArrayKind, DeviceState, ReceiveInto, SweepKind};

/// The model at each durable moment, with the number of the first event after it.
struct Timeline {
    journals: Vec<Journal>,
    durable: Vec<(u64, Model)>,
    end: u64,
}

fn record(seed: u64, devices: usize, steps: usize) -> Timeline {
    let clock = FaultClock::new();
    let devices = fault_devices(devices, &clock);
    let workload = Workload::new(create_on(&devices), seed);
    follow(workload, &devices, &clock, steps)
}

fn follow(
    mut workload: Workload,
    devices: &[Arc<FaultDevice>],
    clock: &FaultClock,
    steps: usize,
) -> Timeline {
    for device in devices {
        device.take_journal();
    }
    let mut durable = vec![(clock.now(), workload.model.clone())];
    for _ in 0..steps {
        if workload.step() {
            durable.push((clock.now(), normal(workload.model.clone())));
        }
    }
    Timeline::of(devices, durable, clock)
}

impl Timeline {
    fn of(
        devices: &[Arc<FaultDevice>],
        durable: Vec<(u64, Model)>,
        clock: &FaultClock,
    ) -> Timeline {
        let journals = devices.iter().map(|device| device.take_journal());
        Timeline {
            journals: journals.collect(),
            durable,
            end: clock.now(),
        }
    }

    /// About `count` of the cuts, since most of those between the writes of a record are alike, each with a
    /// fate of what was not flushed.
    fn some_cuts(&self, seed: u64, count: u64) -> Vec<(u64, Survival)> {
        let mut dice = Dice(seed);
        let first = self.durable[0].0;
        let of = 1 + (self.end - first) / count;
        let mut chosen = Vec::new();
        for cut in first..=self.end {
            if dice.below(of) == 0 {
                chosen.push((cut, Survival::Seeded(dice.below(u64::MAX))));
            }
        }
        chosen
    }

    fn check(&self, seed: u64, cut: u64, survival: Survival) {
        let pool = open_on(&self.devices(cut, survival))
            .unwrap_or_else(|error| panic!("seed {seed}, cut {cut}, {survival:?}: {error}"));
        self.check_pool(&pool, seed, cut, survival);
        // And it goes on from there.
        let dataset = pool.open_dataset(1).unwrap();
        put(&pool, &dataset, pool::ArrayKind::Data, 7, 7).unwrap();
        pool.commit().unwrap();
        assert_clean(&pool);
    }

    /// The devices as the power cut leaves them.
    fn devices(&self, cut: u64, survival: Survival) -> Vec<Arc<FaultDevice>> {
        after_cut(&self.journals, cut, survival)
    }

    /// A pool holds the last durable state or the next.
    fn check_pool(&self, pool: &pool::Pool, seed: u64, cut: u64, survival: Survival) {
        assert_clean(pool);
        let found = read_pool(pool);
        let last = self
            .durable
            .iter()
            .rposition(|(time, _)| *time <= cut)
            .unwrap();
        let allowed = &self.durable[last..(last + 2).min(self.durable.len())];
        assert!(
            allowed.iter().any(|(_, model)| *model == found),
            "seed {seed}, cut {cut}, {survival:?}: neither the last durable state nor the next"
        );
    }

    /// The pool is whole after a resilver, and so it is with any `needed` members that follow each
    /// other.
    fn check_group(&self, seed: u64, cut: u64, survival: Survival, needed: usize) {
        let devices = self.devices(cut, survival);
        let pool = open_on(&devices)
            .unwrap_or_else(|error| panic!("seed {seed}, cut {cut}, {survival:?}: {error}"));
        self.check_pool(&pool, seed, cut, survival);
        resilver(&pool);
        assert_sound(&pool, format_args!("seed {seed}, cut {cut}, {survival:?}"));
        // One that was taken offline stays what it was.
        let states = states(&pool);
        drop(pool);
        let online = devices.iter().zip(states);
        let online = online.filter(|(_, state)| *state == DeviceState::Online);
        let online: Vec<_> = online.map(|(device, _)| device).collect();
        for few in online.windows(needed) {
            let pool = open_on(&copies(few.iter().copied())).unwrap();
            self.check_pool(&pool, seed, cut, survival);
        }
    }
}

#[test]
fn at_every_write() {
    for seed in seeds(1, 2) {
        let devices = 1 + (seed + 1) as usize % 2;
        let timeline = record(seed, devices, 40);
        let first = timeline.durable[0].0;
        for cut in first..=timeline.end {
            let survival = Survival::in_turn(cut, seed * 1_000_003 + cut);
            timeline.check(seed, cut, survival);
        }
    }
}

#[test]
fn with_many_fates_of_unflushed_writes() {
    for seed in seeds(10, 4) {
        let timeline = record(seed, 1, 60);
        let mut dice = Dice(seed);
        let first = timeline.durable[0].0;
        for _ in 0..60 {
            let cut = first + dice.below(timeline.end - first + 1);
            timeline.check(seed, cut, Survival::Seeded(dice.below(u64::MAX)));
        }
    }
}

#[test]
fn among_scattered_records() {
    for seed in seeds(20, 2) {
        let clock = FaultClock::new();
        let devices = fault_devices(1, &clock);
        let workload = Workload::on_fragments(create_on(&devices), seed);
        let timeline = follow(workload, &devices, &clock, 14);
        for (cut, survival) in timeline.some_cuts(seed, 60) {
            timeline.check(seed, cut, survival);
        }
    }
}

#[test]
fn while_a_member_is_brought_back() {
    for seed in seeds(40, 3) {
        let clock = FaultClock::new();
        let shape = [(2, 0), (3, 1), (4, 2), (5, 1), (3, 2)][seed as usize % 5];
        let devices = fault_devices(shape.0, &clock);
        let mut workload = Workload::new(create_groups(&devices, &[shape]), seed);
        workload.run(20);
        let guid = workload.devices()[1].guid;
        workload.offline_device(guid, false, &origin()).unwrap();
        workload.run(30);
        for device in &devices {
            device.take_journal();
        }
        let mut durable = vec![(clock.now(), normal(workload.model.clone()))];
        let back = dynamic(&devices).remove(1);
        workload.online_device(guid, back, &origin()).unwrap();
        while workload.resilverer().status().is_running() {
            workload.step();
            workload.resilverer().step(40 << 10).unwrap();
            workload.commit().unwrap();
            durable.push((clock.now(), normal(workload.model.clone())));
        }
        workload.run(1);
        durable.push((clock.now(), normal(workload.model.clone())));
        let timeline = Timeline::of(&devices, durable, &clock);
        for (cut, survival) in timeline.some_cuts(seed, 30) {
            timeline.check_group(seed, cut, survival, needed(shape));
        }
    }
}

/// The pool has two groups until the cut, and goes on to one, or back to two if that is wanted.
#[test]
fn while_a_group_is_removed() {
    for seed in seeds(70, 4) {
        let clock = FaultClock::new();
        let groups: [&[(usize, usize)]; 3] =
            [&[(1, 0), (1, 0)], &[(2, 0), (2, 0)], &[(3, 1), (1, 0)]];
        let groups = groups[seed as usize % 3];
        let count = groups.iter().map(|(width, _)| width).sum();
        let devices = fault_devices(count, &clock);
        let mut workload = Workload::new(create_groups(&devices, groups), seed);
        workload.run(40);
        for device in &devices {
            device.take_journal();
        }
        let mut durable = vec![(clock.now(), normal(workload.model.clone()))];
        let is_stopped = seed % 2 == 0;
        workload.removal().begin(0, &origin()).unwrap();
        for step in 0.. {
            let more = workload.removal().step(40 << 10).unwrap();
            workload.step();
            workload.commit().unwrap();
            durable.push((clock.now(), normal(workload.model.clone())));
            if is_stopped && step == 4 {
                workload.removal().stop(&origin()).unwrap();
            }
            if !more {
                break;
            }
        }
        durable.push((clock.now(), normal(workload.model.clone())));
        let timeline = Timeline::of(&devices, durable, &clock);
        for (cut, survival) in timeline.some_cuts(seed, 30) {
            timeline.check(seed, cut, survival);
            let devices = timeline.devices(cut, survival);
            let pool = open_on(&devices).unwrap();
            while pool.removal().step(1 << 20).unwrap() {}
            timeline.check_pool(&pool, seed, cut, survival);
            assert_sound(&pool, cut);
        }
    }
}

/// Sends to a pool what it holds, with commits on the way.
struct Interrupted<'a> {
    rest: &'a [u8],
    pool: &'a pool::Pool,
}

impl Read for Interrupted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.len().is_multiple_of(5) {
            self.pool.commit().unwrap();
        }
        let len = buf.len().min(10_007);
        self.rest.read(&mut buf[..len])
    }
}

fn receive_clone(pool: &pool::Pool, bytes: &[u8], how: How) -> pool::Result<()> {
    let into = ReceiveInto {
        target: "tank/b",
        force: false,
        resumable: how == How::Sealed,
        is_open: false,
    };
    let mut input = Interrupted { rest: bytes, pool };
    pool.receive(&mut input, &into, &AsItIs, &origin())
}

/// An increment becomes a clone of the snapshot that it goes on from. A power cut leaves all of it, or what it
/// can go on from, or nothing.
#[test]
fn while_a_clone_is_received() {
    for how in [How::Sealed, How::Plain] {
        let clock = FaultClock::new();
        let devices = fault_devices(1, &clock);
        let pool = create_on(&devices);
        pool.create_dataset("tank/a", new_dataset(50), &origin())
            .unwrap();
        let records = |from: u64| (0..6).map(move |n| (n * 5, sized(from + n, 1 + n % 4)));
        fill(&pool, "tank/a", Data, &Vec::from_iter(records(1)));
        fill(&pool, "tank/a", Pages, &[(0, 1), (3, 2)]);
        snapshot(&pool, "tank/a@one");
        fill(&pool, "tank/a", Data, &Vec::from_iter(records(30).skip(2)));
        fill(&pool, "tank/a", Pages, &[(3, 4), (9, 5)]);
        fill(&pool, "tank/a", Data, &[(0, 0), (5, 0)]);
        snapshot(&pool, "tank/a@two");
        let (one, two) = (holds(&pool, "tank/a@one"), holds(&pool, "tank/a@two"));
        let bytes = stream_as(how, &pool, "tank/a@two", Some("tank/a@one"));
        devices[0].take_journal();
        let first = clock.now();
        receive_clone(&pool, &bytes, how).unwrap();
        let end = clock.now();
        let journal = devices[0].take_journal();
        drop(pool);
        let mut waited = 0;
        for cut in first..=end {
            let survival = Survival::in_turn(cut, cut);
            let pool = open_on(&after_cut([&journal], cut, survival)).unwrap();
            assert_clean(&pool);
            if pool.find("tank/b").is_err() {
                assert_ne!(cut, end, "it was received");
                let token = pool.resume_token("tank/b").unwrap();
                let rest = token.map(|token| {
                    waited += 1;
                    // What it goes on from cannot go.
                    let gone = pool.destroy_dataset("tank/a@one", false, &origin());
                    assert!(gone.is_err(), "{cut}");
                    stream_from(&pool, "tank/a@two", Some("tank/a@one"), token.next).unwrap()
                });
                receive_clone(&pool, rest.as_ref().unwrap_or(&bytes), how).unwrap();
            }
            for name in ["tank/b@two", "tank/b", "tank/a", "tank/a@two"] {
                assert_eq!(holds(&pool, name), two, "{name}, cut {cut}, {survival:?}");
            }
            assert_eq!(holds(&pool, "tank/a@one"), one);
            assert_clean(&pool);
            // It shares records, and keeps those that it shares.
            if cut % 4 > 0 {
                continue;
            }
            let gone = pool.destroy_dataset("tank/a", true, &origin());
            assert!(gone.is_err(), "{cut}");
            pool.promote("tank/b", None, &origin()).unwrap();
            pool.destroy_dataset("tank/a", true, &origin()).unwrap();
            while pool.space().freeing > 0 {
                pool.commit().unwrap();
            }
            assert_clean(&pool);
            assert_eq!(holds(&pool, "tank/b"), two);
            assert_eq!(holds(&pool, "tank/b@one"), one);
        }
        assert_eq!(waited > 0, how == How::Sealed);
    }
}

/// Returns how many members of a group hold all of it.
fn needed((members, parity): (usize, usize)) -> usize {
    match parity {
        0 => 1,
        parity => members - parity,
    }
}

#[test]
fn of_a_group_at_every_write() {
    for seed in seeds(50, 3) {
        let clock = FaultClock::new();
        let shape = [(3, 1), (4, 2), (2, 0), (5, 1), (3, 2)][seed as usize % 5];
        let devices = fault_devices(shape.0, &clock);
        let workload = Workload::new(create_groups(&devices, &[shape]), seed);
        let timeline = follow(workload, &devices, &clock, 25);
        for (cut, survival) in timeline.some_cuts(seed, 100) {
            timeline.check_group(seed, cut, survival, needed(shape));
        }
    }
}

#[test]
fn while_free_space_is_trimmed_and_initialized() {
    for seed in seeds(90, 2) {
        let clock = FaultClock::new();
        let devices = fault_devices(1, &clock);
        let mut workload = Workload::new(create_on(&devices), seed);
        workload.run(20);
        for device in &devices {
            device.take_journal();
        }
        let mut durable = vec![(clock.now(), normal(workload.model.clone()))];
        for _ in 0..30 {
            if workload.step() {
                durable.push((clock.now(), normal(workload.model.clone())));
            }
            for what in [SweepKind::Trim, SweepKind::Initialize] {
                workload.sweeper().start(what, None);
                workload.sweeper().step(what, 1 << 20).unwrap();
            }
        }
        let timeline = Timeline::of(&devices, durable, &clock);
        for (cut, survival) in timeline.some_cuts(seed, 60) {
            timeline.check(seed, cut, survival);
        }
    }
}
