//! New data keys: a power cut at any write leaves the old keyring or the new one, and records that it
//! opens; and of the old one nothing.

mod common;

use std::sync::Arc;

use block::fault::{FaultClock, Survival};
use cipher::{SeededRandom, Suite};
use common::*;
use dataset::{Files, NewGeneration, Settings};
use keys::{Argon2Params, Generation, Key, KeyMaterial, Keyring, Wrapping, WrappingKey};
use pool::{DatasetKind, Entry, NewDataset, Pool};
use vfs::{FileSystem, Kind, NewNode, ROOT};

const SUITE: Suite = Suite::Aes256Gcm;
const FAMILY: u64 = 77;

fn material() -> KeyMaterial {
    KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap())
}

/// A pool with a dataset that has a keyring.
fn with_keyring(pool: &Pool) -> (Arc<Entry>, WrappingKey) {
    let random = SeededRandom::new(5);
    let params = Argon2Params::insecure_for_tests();
    let (wrapping, key) = Wrapping::create(&material(), &params, 0, &random).unwrap();
    let own = key.try_clone().unwrap();
    let new = NewDataset {
        kind: DatasetKind::FileSystem,
        guid: FAMILY,
        suite: SUITE.id(),
        keyring: Some(Box::new(move |txg| {
            let made = Generation::create(&key, FAMILY, 1, txg, SUITE, 0, &random);
            let keyring = Keyring::new(FAMILY, wrapping, vec![made.unwrap().0]);
            Ok(keyring.unwrap().encode())
        })),
        is_key_root: true,
        props: Default::default(),
    };
    let entry = pool.create_dataset("tank/a", new, &origin()).unwrap();
    (entry, own)
}

fn keyring(pool: &Pool, entry: &Entry) -> Keyring {
    Keyring::decode(&pool.keyring(entry.id).unwrap()).unwrap()
}

fn open(pool: &Pool, entry: &Entry) -> Arc<Files> {
    let ring = keyring(pool, entry);
    let key = ring.unlock(&material()).unwrap();
    let keys = Some(ring.open(&key).unwrap());
    let settings = Settings::default();
    Files::open(&engine(7, 0), pool, entry.id, keys, settings, &ROOT_USER).unwrap()
}

fn rotate(pool: &Pool, entry: &Entry, key: &WrappingKey, files: &Files) {
    let mut ring = keyring(pool, entry);
    let key = key.try_clone().unwrap();
    let (sender, made) = std::sync::mpsc::channel();
    let make = Box::new(move |txg| {
        let keys = ring.rotate(&key, txg, SUITE, 1, &SeededRandom::new(txg));
        sender
            .send(NewGeneration::new(keys.unwrap()).unwrap())
            .unwrap();
        Ok(ring.encode())
    });
    pool.rotate_keyring(entry.id, make, &origin()).unwrap();
    files.use_generation(made.recv().unwrap());
}

fn write(files: &Files, name: &str) {
    let node = NewNode {
        kind: Kind::File,
        mode: 0o644,
        umask: 0,
        rdev: 0,
    };
    let ino = files
        .create(&ROOT_USER, ROOT, name.as_bytes(), &node)
        .unwrap()
        .ino;
    files
        .write(ino, 0, &name.as_bytes().repeat(5000), false)
        .unwrap();
}

fn read(files: &Files, name: &str) -> Option<Vec<u8>> {
    let ino = files.lookup(ROOT, name.as_bytes()).ok()?.ino;
    let pieces = files.read(ino, 0, 1 << 20).unwrap();
    Some(
        pieces
            .iter()
            .flat_map(|piece| piece.iter().copied())
            .collect(),
    )
}

#[test]
fn a_power_cut_leaves_the_old_keys_or_the_new_ones() {
    let clock = FaultClock::new();
    let device = fault_device(16 << 20, &clock);
    let pool = create_pool(&device, None);
    let (entry, key) = with_keyring(&pool);
    let files = open(&pool, &entry);
    write(&files, "one");
    files.sync_all().unwrap();
    let old = pool.keyring(entry.id).unwrap();
    device.take_journal();
    let first = clock.now();
    // What waits to be written goes with the commit that rotates.
    write(&files, "two");
    rotate(&pool, &entry, &key, &files);
    let rotated = clock.now();
    write(&files, "three");
    pool.snapshot(&["tank/a@s".into()], false, &origin())
        .unwrap();
    rotate(&pool, &entry, &key, &files);
    write(&files, "four");
    files.sync_all().unwrap();
    let end = clock.now();
    let journal = device.take_journal();
    let mut seen = std::collections::BTreeSet::new();
    for cut in first..=end {
        for survival in [Survival::None, Survival::All, Survival::Seeded(cut)] {
            let image = journal.image(cut, survival);
            let clock = FaultClock::new();
            let device = Arc::new(block::fault::FaultDevice::from_bytes(image, &clock));
            let pool = open_pool(Arc::clone(&device)).unwrap();
            let ring = keyring(&pool, &entry);
            let count = ring.generations().len();
            seen.insert(count);
            assert!(cut < rotated || count > 1, "cut {cut}");
            let files = open(&pool, &entry);
            let expected = |name: &str| Some(name.as_bytes().repeat(5000));
            assert_eq!(read(&files, "one"), expected("one"), "cut {cut}");
            for name in ["two", "three", "four"] {
                let found = read(&files, name);
                assert!(found.is_none() || found == expected(name), "cut {cut}");
            }
            if count > 1 {
                assert!(read(&files, "two").is_some(), "cut {cut}");
                let bytes = device.to_bytes();
                // Slots and older generations stay as they are; the checksum does not.
                let part = &old[old.len() - 32..];
                let mut blocks = bytes.chunks_exact(4096);
                let is_there = |block: &[u8]| block.windows(part.len()).any(|w| w == part);
                assert!(!blocks.any(is_there), "cut {cut}: the old keyring is there");
            }
            if let Ok(snapshot) = pool.find("tank/a@s") {
                assert_eq!(read(&open(&pool, &snapshot), "three"), expected("three"));
            }
            // And it goes on from there.
            write(&files, "five");
            files.sync_all().unwrap();
            assert_eq!(read(&files, "five"), expected("five"));
        }
    }
    assert_eq!(Vec::from_iter(seen), [1, 2, 3]);
}

#[test]
fn records_are_sealed_with_the_newest_keys() {
    let device = fault_device(16 << 20, &FaultClock::new());
    let pool = create_pool(&device, None);
    let (entry, key) = with_keyring(&pool);
    let files = open(&pool, &entry);
    write(&files, "one");
    files.sync_all().unwrap();
    let generations = || {
        let root = pool.entry(entry.id).unwrap().roots[1];
        let mut found = Vec::new();
        pool.each_record(&root, &mut |_, ptr| {
            found.push(ptr.identity.generation());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        found
    };
    assert_eq!(generations(), [1]);
    for number in 2..5 {
        rotate(&pool, &entry, &key, &files);
        write(&files, "more");
        files.sync_all().unwrap();
        let found = generations();
        assert_eq!(*found.last().unwrap(), number);
        files.unlink(ROOT, b"more").unwrap();
    }
}
