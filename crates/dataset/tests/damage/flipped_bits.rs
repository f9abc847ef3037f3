//! Flipped bits anywhere in a closed pool: the data as it was, or an error; never anything else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::common::compare::{Outcome, compare};
use crate::common::driver::Driver;
use crate::common::model::Picture;
use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use cipher::Suite;
use dataset::{Dataset, Settings};
use vfs::ROOT;

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);

/// The largest size of labels, superblocks and key area at either end.
const HEADER: usize = 384 << 10;

/// A pool with a dataset of random files, closed, and what is in it.
fn closed_pool(seed: u64) -> (Vec<u8>, Picture) {
    let device = fault_device(12 << 20, &FaultClock::new());
    let pool = create_pool(&device, SUITE);
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    let mut driver = Driver::new(seed);
    driver.size_max = 150_000;
    for _ in 0..400 {
        driver.step(files.as_ref()).unwrap();
    }
    files.close().unwrap();
    drop((files, pool));
    (device.to_bytes(), driver.model.picture())
}

/// Reads everything that can be read, and compares it.
fn read(image: Vec<u8>, expected: &Picture) -> Outcome {
    let mut outcome = Outcome::default();
    let device = Arc::new(FaultDevice::from_bytes(image, &FaultClock::new()));
    let Ok(pool) = open_pool(device) else {
        outcome.failed += 1;
        return outcome;
    };
    let keys = SUITE.map(data_keys);
    let id = pool.top().unwrap().id;
    let engine = engine(7, 0);
    match Dataset::open(&engine, &pool, id, keys, Settings::default(), &ROOT_USER) {
        Ok(files) => compare(files.as_ref(), ROOT, b"", expected, &mut outcome),
        Err(_) => outcome.failed += 1,
    }
    // What is broken below the files is found as well, and nothing panics over it.
    let _ = pool.check();
    outcome
}

fn try_flips(seed: u64, image: &[u8], expected: &Picture, flips: &[(usize, u8)]) -> Outcome {
    let mut damaged = image.to_vec();
    for (at, mask) in flips {
        damaged[*at] ^= mask;
    }
    catch_unwind(AssertUnwindSafe(|| read(damaged, expected)))
        .unwrap_or_else(|_| panic!("seed {seed}: bits {flips:x?} flipped"))
}

/// Returns the offsets at which the device holds anything.
fn used(image: &[u8]) -> Vec<usize> {
    let blocks = image.chunks(512).enumerate();
    blocks
        .filter(|(_, block)| block.iter().any(|b| *b != 0))
        .map(|(n, _)| n * 512)
        .collect()
}

#[test]
fn one_bit() {
    for seed in seeds(300, 1) {
        let (image, expected) = closed_pool(seed);
        let whole = try_flips(seed, &image, &expected, &[]);
        assert_eq!((whole.whole, whole.failed), (expected.len(), 0));
        let mut dice = Dice(seed);
        let (mut harmless, mut noticed) = (0, 0);
        for block in used(&image) {
            let at = block + dice.below(512) as usize;
            let outcome = try_flips(seed, &image, &expected, &[(at, 1 << dice.below(8))]);
            // Metadata is there twice; contents once, and files may share them.
            assert_eq!(
                outcome.visited,
                expected.len(),
                "seed {seed}: byte {at}: {outcome:?}"
            );
            match outcome.failed {
                0 => harmless += 1,
                _ => noticed += 1,
            }
        }
        assert!(
            harmless > 100 && noticed > 20,
            "{harmless} harmless, {noticed} noticed"
        );
    }
}

#[test]
fn many_bits() {
    for seed in seeds(310, 2) {
        let (image, expected) = closed_pool(seed);
        let mut used = used(&image);
        // Without the newest superblock, of which there are two copies, the one before it counts.
        used.retain(|at| *at >= HEADER && *at < image.len() - HEADER);
        let mut dice = Dice(seed);
        for round in 0..150 {
            let flips: Vec<_> = (0..4 << (round % 6))
                .map(|_| {
                    let block = used[dice.below(used.len() as u64) as usize];
                    (block + dice.below(512) as usize, dice.below(255) as u8 + 1)
                })
                .collect();
            try_flips(seed, &image, &expected, &flips);
        }
    }
}
