//! Everything at once, from one seed: programs that change files and sync them, commands on datasets,
//! snapshots, clones, streams, keys and devices, on devices that fail, rot, come back late and lose their power at any
//! write; beside a model of what must be there after all of it.
//!
//! `scripts/simulate` runs more seeds than the tests do, or one of them again.

#![allow(unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;

mod caches;
mod checkpoints;
mod clones;
mod commands;
mod device;
mod files;
mod growth;
mod guids;
mod members;
mod runner;
mod secrets;
mod shapes;
mod sim;
mod taker;
mod transfer;
mod verify;
mod volumes;
mod world;

use std::collections::BTreeSet;

use runner::{Run, STEPS, run_all};

#[test]
fn whatever_happens() {
    run_all(0, 150);
}

#[test]
fn a_seed_does_the_same_each_time() {
    for seed in common::seeds(1000, 7) {
        let run = Run {
            seed,
            steps: (0..STEPS).collect::<BTreeSet<u64>>(),
        };
        assert_eq!(run.go(), run.go(), "seed {seed}");
    }
}
