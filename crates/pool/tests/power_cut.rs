//! A power cut at any write leaves the pool as one of its commits left it: at least the last one
//! that had returned.

mod common;

use std::sync::Arc;

use block::fault::{FaultClock, FaultDevice, Journal, Survival};
use common::model::*;
use common::*;

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
    Timeline {
        journals: devices
            .iter()
            .map(|device: &Arc<FaultDevice>| device.take_journal())
            .collect(),
        durable,
        end: clock.now(),
    }
}

impl Timeline {
    fn check(&self, seed: u64, cut: u64, survival: Survival) {
        let images = self
            .journals
            .iter()
            .map(|j| j.image(cut, survival))
            .collect();
        let pool = open_images(images)
            .unwrap_or_else(|error| panic!("seed {seed}, cut {cut}, {survival:?}: {error}"));
        assert_clean(&pool);
        let found = read_pool(&pool);
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
        // And it goes on from there.
        let dataset = pool.open_dataset(1).unwrap();
        put(&pool, &dataset, pool::ArrayKind::Data, 7, 7).unwrap();
        pool.commit().unwrap();
        assert_clean(&pool);
    }
}

#[test]
fn at_every_write() {
    for seed in seeds(1, 2) {
        let devices = 1 + (seed + 1) as usize % 2;
        let timeline = record(seed, devices, 40);
        let first = timeline.durable[0].0;
        for cut in first..=timeline.end {
            let survival = match cut % 3 {
                0 => Survival::None,
                1 => Survival::All,
                _ => Survival::Seeded(seed * 1_000_003 + cut),
            };
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
        let mut dice = Dice(seed);
        let first = timeline.durable[0].0;
        for cut in first..=timeline.end {
            // Each record is many writes; most of the cuts between them are alike.
            if dice.below(1 + (timeline.end - first) / 120) > 0 {
                continue;
            }
            timeline.check(seed, cut, Survival::Seeded(dice.below(u64::MAX)));
        }
    }
}
