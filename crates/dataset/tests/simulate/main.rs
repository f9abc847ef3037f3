//! Simulates everything at once, from one seed: programs that change files and sync them, commands on datasets,
//! snapshots, clones, streams, keys and devices, on devices that fail, rot, come back late and lose their power at any
//! write; beside a model of what must be there after all of it.
//!
//! `scripts/simulate` runs more seeds than the tests do, or one of them again.

#![allow(unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;

mod administration;
mod devices;
mod model;
mod programs;
mod runner;
mod sim;
mod streams;

use std::collections::BTreeSet;

use runner::{Run, STEPS, run_all};

#[test]
fn whatever_happens() {
    run_all(0, 80);
}

#[test]
fn a_seed_does_the_same_each_time() {
    for seed in common::seeds(1000, 4) {
        let run = Run {
            seed,
            steps: (0..STEPS).collect::<BTreeSet<u64>>(),
        };
        assert_eq!(run.go(), run.go(), "seed {seed}");
    }
}
