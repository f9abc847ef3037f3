//! A bit of a small closed pool flipped, for each bit there is: the data as it was, or an error;
//! never anything else. And a scrub repairs it, or names the damage.
//!
//! A bit that is not read changes nothing, since all else is the same in each attempt. So the bits
//! to try are those that an attempt on the whole image reads. Of these a sample is tried, another one
//! for each seed; `STRONGROOM_EVERY_BIT=1` tries all, for a quarter of an hour:
//!
//! ```sh
//! STRONGROOM_EVERY_BIT=1 cargo test --profile checked -p strongroom-dataset --test every_bit -- --nocapture
//! ```

use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::compare::{Outcome, compare};
use crate::common::driver::Driver;
use crate::common::model::Picture;
use crate::common::*;
use block::{BlockDevice, MemoryDevice, SectorSizes};
use cipher::{SeededRandom, Suite};
use dataset::{Dataset, Settings};
use keys::{Argon2Params, DataKeys, KeyGeneration, KeyMaterial, Keyring, WrappingKeyAccess};
use pool::{NewDataset, Pool, ScrubPhase};
use secret::Key;
use store::Store;
use vfs::ROOT;

const SUITE: Suite = Suite::Xaes256Gcm;
/// Labels, key areas and eight segments: no pool is smaller.
const SIZE: usize = 8832 << 10;
/// The dataset's own guid.
const FAMILY: u64 = 2;

/// A device that cannot be written, with one bit flipped, that may note what is read.
struct Flipped {
    image: Arc<Vec<u8>>,
    at: usize,
    mask: u8,
    seen: Option<Mutex<Vec<bool>>>,
}

impl BlockDevice for Flipped {
    block::plain_device!();

    fn size(&self) -> u64 {
        self.image.len() as u64
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        "flipped".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let range = offset as usize..offset as usize + buf.len();
        buf.copy_from_slice(&self.image[range.clone()]);
        if range.contains(&self.at) {
            buf[self.at - range.start] ^= self.mask;
        }
        if let Some(seen) = &self.seen {
            seen.lock().unwrap()[range].fill(true);
        }
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[IoSlice<'_>]) -> block::Result<()> {
        panic!("a write to a pool that is open read-only")
    }

    fn flush(&self) -> block::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> block::Result<()> {
        panic!("a discard in a pool that is open read-only")
    }
}

fn key() -> KeyMaterial {
    KeyMaterial::Key(Key::from_bytes(&[3; 32]).unwrap())
}

/// A pool with an encrypted dataset, its keyring and a snapshot, closed; and what is in its files.
fn closed_pool(seed: u64) -> (Vec<u8>, Picture) {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let random = SeededRandom::new(seed);
    let params = Argon2Params::insecure_for_tests();
    let (wrapping, key) = WrappingKeyAccess::create(&key(), &params, 0, &random).unwrap();
    let (generation, keys) = KeyGeneration::create(&key, FAMILY, 1, 1, SUITE, 0, &random).unwrap();
    let keyring = Keyring::new(FAMILY, wrapping, vec![generation]).unwrap();
    let bytes = keyring.encode();
    let top = NewDataset {
        keyring: Some(Box::new(move |_| Ok(bytes))),
        ..new_dataset(FAMILY, Some(SUITE))
    };
    let pool = create_pool_on(1, vec![device.clone()], 0, top);
    let engine = engine(seed, 0);
    let id = pool.top().unwrap().id;
    let settings = Settings::default();
    let files = Dataset::open(&engine, &pool, id, Some(vec![keys]), settings, &ROOT_USER).unwrap();
    let mut driver = Driver::new(seed);
    driver.size_max = 140_000;
    for step in 0..80 {
        if step == 50 {
            snapshot(&pool, "tank@snap");
        }
        driver.step(files.as_ref()).unwrap();
    }
    files.close().unwrap();
    drop(files);
    pool.export().unwrap();
    drop(pool);
    (device.to_bytes(), driver.model.picture())
}

fn load(pool: &Pool) -> keys::Result<Vec<DataKeys>> {
    let id = pool.top().unwrap().id;
    let bytes = pool.keyring(id).expect("key blocks are there twice");
    let keyring = Keyring::decode(&bytes)?;
    keyring.open(&keyring.unlock(&key())?)
}

/// Opens everything and reads it. With one bit flipped nothing may fail but what is there once, the
/// contents of files: all else has another copy.
fn read(device: Arc<dyn BlockDevice>, expected: &Picture) -> Outcome {
    let store = Store::open(vec![device]).expect("a label");
    let pool = Pool::open(Arc::new(store), env(3), true).expect("a pool");
    let keys = load(&pool).expect("a keyring");
    let mut outcome = Outcome::default();
    let entries = pool.list(pool.top().unwrap().id).unwrap();
    assert_eq!(entries.len(), 2, "the dataset and its snapshot");
    let head = &entries[0].entry;
    let settings = Settings::default();
    let files = Dataset::open(
        &engine(7, 0),
        &pool,
        head.id,
        Some(keys),
        settings,
        &ROOT_USER,
    );
    let files = files.expect("metadata is there twice");
    compare(files.as_ref(), ROOT, b"", expected, &mut outcome);
    assert_eq!(outcome.visited, expected.len(), "{outcome:?}");
    let check = pool.check().expect("nodes are there twice");
    assert!(check.is_clean(), "{:?}", check.findings);
    outcome
}

/// Returns the numbers of faults that a scrub finds, repairs and leaves.
fn scrub(mut image: Vec<u8>, at: usize, mask: u8) -> (u64, u64) {
    image[at] ^= mask;
    let device = Arc::new(MemoryDevice::from_bytes(image));
    let open = || {
        let store = Store::open(vec![Arc::clone(&device) as Arc<dyn BlockDevice>]);
        Pool::open(Arc::new(store.expect("a label")), env(3), false).expect("a pool")
    };
    let run = |pool: &Pool| {
        pool.scrubber().start().unwrap();
        while pool.scrubber().step(1 << 30).unwrap() {}
        let status = pool.scrubber().status();
        assert_eq!(status.phase, ScrubPhase::Finished);
        assert_eq!(
            status.damage.len() as u64,
            status.errors,
            "what is hurt is named"
        );
        (status.repaired, status.errors)
    };
    let first = run(&open());
    let again = run(&open());
    assert_eq!(again, (0, first.1), "what was repaired stays so");
    first
}

/// The bytes that reading the whole image reads.
fn bytes_read(image: &Arc<Vec<u8>>, expected: &Picture) -> Vec<usize> {
    let device = Arc::new(Flipped {
        image: Arc::clone(image),
        at: 0,
        mask: 0,
        seen: Some(Mutex::new(vec![false; image.len()])),
    });
    let whole = read(Arc::clone(&device) as Arc<dyn BlockDevice>, expected);
    assert_eq!((whole.whole, whole.failed), (expected.len(), 0));
    let seen = device.seen.as_ref().unwrap().lock().unwrap();
    (0..image.len()).filter(|at| seen[*at]).collect()
}

/// Tries each of `count` cases on all processors, and panics with the first that panics.
fn try_all(what: &str, count: usize, attempt: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let case = next.fetch_add(1, Ordering::Relaxed);
            if case >= count {
                return;
            }
            if case.is_multiple_of(200_000) {
                eprintln!("{what}: {case} of {count}");
            }
            if catch_unwind(AssertUnwindSafe(|| attempt(case))).is_err() {
                failed.store(true, Ordering::Relaxed);
                panic!("{what}: case {case} of {count}");
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

fn every_bit() -> bool {
    std::env::var_os("STRONGROOM_EVERY_BIT").is_some_and(|value| value == "1")
}

/// All numbers below `all`; or about `some` of them, others for another seed.
fn sample(all: usize, some: usize, seed: u64) -> Vec<usize> {
    let stride = if every_bit() { 1 } else { (all / some).max(1) };
    let first = Dice(seed).below(stride as u64) as usize;
    (first..all).step_by(stride).collect()
}

#[test]
fn any_bit_leaves_the_data_or_an_error() {
    for seed in seeds(330, 1) {
        let (image, expected) = closed_pool(seed);
        let image = Arc::new(image);
        let bytes = bytes_read(&image, &expected);
        let bits = sample(bytes.len() * 8, 4000, seed);
        let hurt = AtomicUsize::new(0);
        try_all(&format!("seed {seed}, reading"), bits.len(), |case| {
            let (at, bit) = (bytes[bits[case] / 8], bits[case] % 8);
            let device = Arc::new(Flipped {
                image: Arc::clone(&image),
                at,
                mask: 1 << bit,
                seen: None,
            });
            let outcome = catch_unwind(AssertUnwindSafe(|| read(device, &expected)));
            let outcome = outcome.unwrap_or_else(|_| panic!("bit {bit} of byte {at}"));
            hurt.fetch_add(usize::from(outcome.failed > 0), Ordering::Relaxed);
        });
        let hurt = hurt.into_inner();
        eprintln!(
            "seed {seed}: {} bits read, {} tried, {hurt} hurt a file",
            bytes.len() * 8,
            bits.len()
        );
        assert!(hurt > 0 && hurt < bits.len(), "{hurt} of {}", bits.len());
    }
}

/// Every byte, with one of its bits: a scrub writes, and takes its time.
#[test]
fn any_byte_is_mended_or_named() {
    for seed in seeds(340, 1) {
        let (image, _) = closed_pool(seed);
        // What has never been written is not read.
        let blocks = image.chunks(4096).enumerate();
        let used = blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0));
        let bytes: Vec<usize> = used.flat_map(|(n, _)| n * 4096..(n + 1) * 4096).collect();
        let cases = sample(bytes.len(), 1000, seed);
        let (repaired, named) = (AtomicUsize::new(0), AtomicUsize::new(0));
        try_all(&format!("seed {seed}, scrubbing"), cases.len(), |case| {
            let at = bytes[cases[case]];
            let mask = 1 << (at % 8);
            let outcome = catch_unwind(AssertUnwindSafe(|| scrub(image.clone(), at, mask)));
            match outcome.unwrap_or_else(|_| panic!("byte {at}, bits {mask:#x}")) {
                (0, 0) => {}
                (_, 0) => drop(repaired.fetch_add(1, Ordering::Relaxed)),
                _ => drop(named.fetch_add(1, Ordering::Relaxed)),
            }
        });
        let (repaired, named) = (repaired.into_inner(), named.into_inner());
        eprintln!(
            "seed {seed}: {} bytes tried, {repaired} repaired, {named} named",
            cases.len()
        );
        assert!(
            repaired > 0 && named > 0,
            "{repaired} repaired, {named} named"
        );
    }
}
