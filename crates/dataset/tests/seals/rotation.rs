//! New data keys: a power cut at any write leaves the old keyring or the new one, and records that it
//! opens; and of the old one nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::driver::Driver;
use crate::common::look::look;
use crate::common::model::assert_same;
use crate::common::*;
use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::{SeededRandom, Suite};
use dataset::{Dataset, Error, NewGeneration, Resealer, Settings};
use keys::{Argon2Params, KeyGeneration, KeyMaterial, Keyring, WrappingKey, WrappingKeyAccess};
use pool::{ArrayKind, Entry, NewDataset, NewKeyring, NewKeys, Pool, RecordPtr, SealInput};
use secret::Key;
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
    let (wrapping, key) = WrappingKeyAccess::create(&material(), &params, 0, &random).unwrap();
    let own = key.try_clone().unwrap();
    let new = NewDataset {
        keyring: Some(Box::new(move |txg| {
            let made = KeyGeneration::create(&key, FAMILY, 1, txg, SUITE, 0, &random);
            let keyring = Keyring::new(FAMILY, wrapping, vec![made.unwrap().0]);
            Ok(keyring.unwrap().encode())
        })),
        ..new_dataset(FAMILY, Some(SUITE))
    };
    let entry = pool.create_dataset("tank/a", new, &origin()).unwrap();
    (entry, own)
}

type Opened = (Pool, Arc<Entry>, WrappingKey, Arc<Dataset>);

/// A pool on a device, with an open dataset that has files of these names, which are durable.
fn pool_on(device: &Arc<FaultDevice>, names: &[impl AsRef<str>]) -> Opened {
    let pool = create_pool(device, None);
    let (entry, key) = with_keyring(&pool);
    let files = open(&pool, &entry);
    if !names.is_empty() {
        names.iter().for_each(|name| write(&files, name.as_ref()));
        files.sync_all().unwrap();
    }
    (pool, entry, key, files)
}

fn pool_of(size: usize, names: &[impl AsRef<str>]) -> Opened {
    pool_on(&fault_device(size, &FaultClock::new()), names)
}

/// Takes the snapshot `s` of the dataset.
fn snapshot(pool: &Pool) {
    let names = ["tank/a@s".into()];
    pool.snapshot(&names, false, &origin()).unwrap();
}

/// Returns the contents of a file of this name.
fn contents(name: &str) -> Option<Vec<u8>> {
    Some(name.as_bytes().repeat(5000))
}

fn keyring(pool: &Pool, entry: &Entry) -> Keyring {
    Keyring::decode(&pool.keyring(entry.id).unwrap()).unwrap()
}

fn open(pool: &Pool, entry: &Entry) -> Arc<Dataset> {
    try_open(pool, entry, Settings::default()).unwrap()
}

fn try_open(pool: &Pool, entry: &Entry, settings: Settings) -> dataset::Result<Arc<Dataset>> {
    let ring = keyring(pool, entry);
    let key = ring.unlock(&material()).unwrap();
    let keys = Some(ring.open(&key).unwrap());
    Dataset::open(&engine(7, 0), pool, entry.id, keys, settings, &ROOT_USER)
}

fn rotate(pool: &Pool, entry: &Entry, key: &WrappingKey, files: &Arc<Dataset>) {
    files
        .with_log_held(|| try_rotate(pool, entry, key, Some(files)))
        .unwrap();
}

fn try_rotate(
    pool: &Pool,
    entry: &Entry,
    key: &WrappingKey,
    files: Option<&Arc<Dataset>>,
) -> pool::Result<()> {
    let mut ring = keyring(pool, entry);
    let key = key.try_clone().unwrap();
    let before = Resealer::new(FAMILY, ring.open(&key).unwrap()).unwrap();
    let (sender, made) = std::sync::mpsc::channel();
    let (to_reseal, resealers) = std::sync::mpsc::channel();
    let (guid, user) = (entry.guid, files.cloned());
    let rotation = NewKeys {
        make: Box::new(move |txg| {
            let keys = ring.rotate(&key, txg, SUITE, 1, &SeededRandom::new(txg));
            sender
                .send(NewGeneration::new(keys.unwrap()).unwrap())
                .unwrap();
            let after = Resealer::new(FAMILY, ring.open(&key).unwrap());
            to_reseal.send(after.unwrap()).unwrap();
            Ok(ring.encode())
        }),
        reseal: Box::new(move |entry, input| {
            let was = SealInput::of(entry, guid);
            let after = resealers.recv().unwrap();
            let seal = after.reseal_head(&was, &entry.seal, input);
            seal.filter(|_| before.seals_head(&was, &entry.seal))
                .ok_or_else(|| "not its own".into())
        }),
        done: Box::new(move || {
            if let Some(files) = user {
                files.use_generation(made.recv().unwrap());
            }
        }),
    };
    pool.rotate_keyring(entry.id, rotation, &origin())
}

fn write(files: &Dataset, name: &str) {
    let node = NewNode::new(Kind::File, 0o644);
    let ino = files
        .create(&ROOT_USER, ROOT, name.as_bytes(), &node)
        .unwrap()
        .ino;
    files
        .write(ino, 0, &name.as_bytes().repeat(5000), false)
        .unwrap();
}

fn read(files: &Dataset, name: &str) -> Option<Vec<u8>> {
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
    let (pool, entry, key, files) = pool_on(&device, &["one"]);
    let old = pool.keyring(entry.id).unwrap();
    device.take_journal();
    let first = clock.now();
    // What waits to be written goes with the commit that rotates.
    write(&files, "two");
    rotate(&pool, &entry, &key, &files);
    let rotated = clock.now();
    write(&files, "three");
    snapshot(&pool);
    rotate(&pool, &entry, &key, &files);
    write(&files, "four");
    files.sync_all().unwrap();
    let end = clock.now();
    let journal = device.take_journal();
    let mut seen = BTreeSet::new();
    for cut in first..=end {
        for survival in [Survival::None, Survival::All, Survival::Seeded(cut)] {
            let device = block::fault::after_cut([&journal], cut, survival).remove(0);
            let pool = open_pool(Arc::clone(&device)).unwrap();
            pool.claim("here").unwrap();
            let ring = keyring(&pool, &entry);
            let count = ring.generations().len();
            seen.insert(count);
            assert!(cut < rotated || count > 1, "cut {cut}");
            let files = open(&pool, &entry);
            assert_eq!(read(&files, "one"), contents("one"), "cut {cut}");
            for name in ["two", "three", "four"] {
                let found = read(&files, name);
                assert!(found.is_none() || found == contents(name), "cut {cut}");
            }
            // The keys and the seal come with one commit.
            let sealed_by = files.sealed_by(&pool, entry.id).unwrap();
            assert_eq!(sealed_by, Some(count as u32), "cut {cut}");
            if count > 1 {
                assert!(read(&files, "two").is_some(), "cut {cut}");
                let bytes = device.to_bytes();
                // Slots stay as they are; the checksum does not.
                let part = &old[old.len() - 32..];
                let mut blocks = bytes.chunks_exact(4096);
                let is_there = |block: &[u8]| block.windows(part.len()).any(|w| w == part);
                assert!(!blocks.any(is_there), "cut {cut}: the old keyring is there");
            }
            if let Ok(snapshot) = pool.find("tank/a@s") {
                assert_eq!(read(&open(&pool, &snapshot), "three"), contents("three"));
            }
            // And it goes on from there.
            write(&files, "five");
            files.sync_all().unwrap();
            assert_eq!(read(&files, "five"), contents("five"));
        }
    }
    assert_eq!(Vec::from_iter(seen), [1, 2, 3]);
}

#[test]
fn records_are_sealed_with_the_newest_keys() {
    let (pool, entry, key, files) = pool_of(16 << 20, &["one"]);
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

/// Brings everything to the newest keys, and says in how many steps.
fn reencrypt(pool: &Pool, files: &Dataset, budget: u64) -> usize {
    for steps in 1.. {
        let progress = files.reencrypt_step(budget).unwrap();
        pool.commit().unwrap();
        assert_eq!(progress.damaged, 0);
        if progress.is_done {
            return steps;
        }
    }
    unreachable!()
}

fn generations(pool: &Pool, id: u64) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for array in ArrayKind::ALL {
        let mut each = |ptr: &RecordPtr| {
            found.insert(ptr.identity.generation());
        };
        pool.each_record_of(id, array, &mut each, &mut || Ok(()))
            .unwrap();
    }
    found
}

#[test]
fn what_is_stored_is_brought_to_the_newest_keys() {
    let names: Vec<String> = (0..40).map(|n| format!("file {n}")).collect();
    let (pool, entry, key, files) = pool_of(32 << 20, &names);
    snapshot(&pool);
    rotate(&pool, &entry, &key, &files);
    rotate(&pool, &entry, &key, &files);
    write(&files, "new");
    files.sync_all().unwrap();
    assert_eq!(generations(&pool, entry.id), BTreeSet::from([1, 3]));
    assert!(reencrypt(&pool, &files, 16 << 10) > 5);
    assert_eq!(generations(&pool, entry.id), BTreeSet::from([3]));
    assert_clean(&pool);
    let snapshot = pool.find("tank/a@s").unwrap();
    assert_eq!(generations(&pool, snapshot.id), BTreeSet::from([1]));
    assert_eq!(files.sealed_by(&pool, entry.id).unwrap(), Some(3));
    assert_eq!(files.sealed_by(&pool, snapshot.id).unwrap(), Some(1));
    // Without the old ones: not even in memory.
    files.forget_generation(1);
    files.forget_generation(2);
    files.forget_generation(3);
    drop(files);
    pool.destroy_dataset("tank/a@s", false, &origin()).unwrap();
    let mut ring = keyring(&pool, &entry);
    ring.retire(1).unwrap();
    ring.retire(2).unwrap();
    let change = NewKeyring {
        id: entry.id,
        keyring: ring.encode(),
        key_root: entry.id,
        props: Vec::new(),
        done: "destroyed".into(),
    };
    pool.replace_keyrings(&[change], &origin()).unwrap();
    let files = open(&pool, &entry);
    for name in names.iter().map(String::as_str).chain(["new"]) {
        assert_eq!(read(&files, name), contents(name));
    }
}

/// A snapshot keeps the old records. So all of it would be there twice, and there is no space for that.
#[test]
fn it_leaves_free_space_to_those_who_write_and_waits() {
    let (pool, entry, key, files) = pool_of(32 << 20, &[""; 0]);
    let write_large = |name: &str, len: usize| {
        let node = NewNode::new(Kind::File, 0o644);
        let ino = files.create(&ROOT_USER, ROOT, name.as_bytes(), &node)?.ino;
        let mut dice = Dice(len as u64);
        let data: Vec<u8> = (0..len).map(|_| dice.below(256) as u8).collect();
        let mut pieces = data.chunks(128 << 10).zip(0..);
        pieces.try_for_each(|(piece, n)| files.write(ino, n * (128 << 10), piece, false))
    };
    write_large("large", 17 << 20).unwrap();
    files.sync_all().unwrap();
    snapshot(&pool);
    rotate(&pool, &entry, &key, &files);
    let step = || {
        let progress = files.reencrypt_step(1 << 20).unwrap();
        pool.commit().unwrap();
        progress
    };
    let waits = (0..100).map(|_| step()).find(|progress| progress.waits);
    let waits = waits.expect("there is not enough for all");
    assert!(waits.seen > 1 << 20 && !waits.is_done, "{waits:?}");
    let share = pool.space().total / 16;
    assert!(pool.space().available > share * 3 / 4, "{:?}", pool.space());
    write_large("more", share as usize / 2).unwrap();
    assert!(step().waits && step().waits);
    // It goes on by itself.
    pool.destroy_dataset("tank/a@s", false, &origin()).unwrap();
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
    reencrypt(&pool, &files, 1 << 20);
    assert!(!files.reencrypted().waits);
    assert_eq!(generations(&pool, entry.id), BTreeSet::from([2]));
    assert_clean(&pool);
}

#[test]
fn a_power_cut_while_it_goes_on_costs_nothing() {
    let names: Vec<String> = (0..6).map(|n| format!("file {n}")).collect();
    let clock = FaultClock::new();
    let device = fault_device(16 << 20, &clock);
    let (pool, entry, key, files) = pool_on(&device, &names);
    rotate(&pool, &entry, &key, &files);
    device.take_journal();
    let first = clock.now();
    reencrypt(&pool, &files, 40 << 10);
    let end = clock.now();
    let journal = device.take_journal();
    for cut in first..=end {
        for survival in [Survival::None, Survival::Seeded(cut)] {
            let pool = open_cut(&journal, cut, survival).unwrap();
            assert_clean(&pool);
            let files = open(&pool, &entry);
            let look = || {
                for name in &names {
                    let expected = contents(name);
                    assert_eq!(read(&files, name), expected, "cut {cut}");
                }
            };
            look();
            if cut % 7 == 0 {
                // It goes on.
                reencrypt(&pool, &files, 1 << 20);
                assert_eq!(generations(&pool, entry.id), BTreeSet::from([2]));
                look();
            }
        }
    }
}

/// While others write, cut, remove and commit.
#[test]
fn nothing_that_is_written_meanwhile_is_lost() {
    for seed in seeds(0, 6) {
        let (pool, entry, key, files) = pool_of(96 << 20, &[""; 0]);
        let mut driver = Driver::new(seed);
        driver.size_max = 300_000;
        for round in 0..3 {
            for _ in 0..80 {
                driver.step(files.as_ref()).unwrap();
            }
            rotate(&pool, &entry, &key, &files);
            std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    while !files.reencrypt_step(256 << 10).unwrap().is_done {
                        pool.commit().unwrap();
                    }
                });
                while !worker.is_finished() {
                    driver.step(files.as_ref()).unwrap();
                }
                worker.join().unwrap();
            });
            files.sync_all().unwrap();
            let context = format!("seed {seed}, round {round}");
            let expected = driver.model.picture();
            assert_same(&look(files.as_ref()).unwrap(), &expected, &context);
            reencrypt(&pool, &files, 1 << 20);
            let newest = keyring(&pool, &entry).newest().number();
            assert_eq!(
                generations(&pool, entry.id),
                BTreeSet::from([newest]),
                "{context}"
            );
            assert_clean(&pool);
        }
        files.close().unwrap();
        drop(files);
        let files = open(&pool, &entry);
        let expected = driver.model.picture();
        assert_same(&look(files.as_ref()).unwrap(), &expected, "opened again");
    }
}

#[test]
fn a_full_pool_is_no_reason_to_stop_for_ever() {
    let (pool, entry, key, files) = pool_of(16 << 20, &[""; 0]);
    files.set_settings(Settings {
        compression: dataset::Compression::Off,
        ..Settings::default()
    });
    let mut names = Vec::new();
    while files.sync_all().is_ok() && pool.space().available > 1 << 20 {
        let name = format!("file {}", names.len());
        write(&files, &name);
        names.push(name);
    }
    rotate(&pool, &entry, &key, &files);
    // More than there is space for beside the old records at once.
    reencrypt(&pool, &files, 1 << 30);
    assert_eq!(generations(&pool, entry.id), BTreeSet::from([2]));
    for name in &names {
        assert_eq!(read(&files, name), contents(name));
    }
    assert_clean(&pool);
}

/// Takes the dataset back to a snapshot, and seals that with the newest keys of a keyring.
fn accept(pool: &Pool, entry: &Entry, ring: &Keyring, snapshot: &str) {
    let key = ring.unlock(&material()).unwrap();
    let resealer = Resealer::new(FAMILY, ring.open(&key).unwrap()).unwrap();
    let guid = entry.guid;
    let accept = Box::new(move |snapshot: &Entry, input: &SealInput| {
        let was = SealInput::of(snapshot, guid);
        let seal = resealer.reseal_head(&was, &snapshot.seal, input);
        seal.ok_or_else(|| "not its own".into())
    });
    pool.rollback_and_accept(snapshot, true, accept, &origin())
        .unwrap();
}

#[test]
fn an_older_seal_is_refused_until_it_is_accepted() {
    let (pool, entry, key, files) = pool_of(16 << 20, &["one"]);
    snapshot(&pool);
    let old = keyring(&pool, &entry);
    rotate(&pool, &entry, &key, &files);
    drop(files);
    let sealed = |name: &str| pool.find(name).unwrap().seal;
    assert_ne!(sealed("tank/a"), sealed("tank/a@s"));
    drop(open(&pool, &entry));

    // Without the key no other seal can be made.
    pool.rollback("tank/a@s", false, &origin()).unwrap();
    assert_eq!(sealed("tank/a"), sealed("tank/a@s"));
    let refused = || match try_open(&pool, &entry, Settings::default()).map(drop) {
        Err(dataset::Error::OldSeal {
            generation, floor, ..
        }) => (generation, floor),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(), (1, 2));
    let snapshot = pool.find("tank/a@s").unwrap();
    assert!(read(&open(&pool, &snapshot), "one").is_some());
    // A rotation accepts nothing.
    try_rotate(&pool, &entry, &key, None).unwrap_err();
    assert_eq!(keyring(&pool, &entry).generations().len(), 2);
    assert_eq!(refused(), (1, 2));

    let before = pool.find("tank/a").unwrap();
    // Nor does a seal over another state that is made with the old keys.
    accept(&pool, &entry, &old, "tank/a@s");
    assert_ne!(sealed("tank/a"), sealed("tank/a@s"));
    assert_eq!(refused(), (1, 2));

    accept(&pool, &entry, &keyring(&pool, &entry), "tank/a@s");
    let after = pool.find("tank/a").unwrap();
    assert!(after.sequence > before.sequence.max(before.sequence_past));
    assert!(read(&open(&pool, &entry), "one").is_some());
    try_rotate(&pool, &entry, &key, None).unwrap();
    let files = open(&pool, &entry);
    assert_eq!(files.sealed_by(&pool, entry.id).unwrap(), Some(3));
    assert_clean(&pool);
}

/// An attacker who can write to the device and has the keys of the old generation takes the newer one away.
#[test]
fn a_keyring_that_was_cut_seals_nothing() {
    let (pool, entry, key, files) = pool_of(16 << 20, &["one"]);
    snapshot(&pool);
    rotate(&pool, &entry, &key, &files);
    drop(files);
    pool.rollback("tank/a@s", false, &origin()).unwrap();
    let ring = keyring(&pool, &entry);
    let oldest = ring.generations()[..1].to_vec();
    let cut = Keyring::new(FAMILY, ring.wrapping().clone(), oldest).unwrap();
    let change = NewKeyring {
        id: entry.id,
        keyring: cut.encode(),
        key_root: entry.id,
        props: Vec::new(),
        done: "cut".into(),
    };
    pool.replace_keyrings(&[change], &origin()).unwrap();
    let opened = try_open(&pool, &entry, Settings::default()).map(drop);
    assert!(
        matches!(opened, Err(dataset::Error::KeyringCut { newest: 1, .. })),
        "{opened:?}"
    );
    let snapshot = pool.find("tank/a@s").unwrap();
    assert!(read(&open(&pool, &snapshot), "one").is_some());
}

/// A log that waits has entries of the old keys, which nothing would tell from what others made with these.
#[test]
fn what_was_synced_is_not_lost_by_a_rotation() {
    let clock = FaultClock::new();
    let device = fault_device(64 << 20, &clock);
    let (pool, entry, key, files) = pool_on(&device, &[""; 0]);
    let sync = |files: &Dataset, name: &str| {
        write(files, name);
        let ino = files.lookup(ROOT, name.as_bytes()).unwrap().ino;
        files.fsync(ino, false).unwrap();
    };
    sync(&files, "one");
    pool.commit().unwrap();
    sync(&files, "two");
    rotate(&pool, &entry, &key, &files);
    let rotated = pool.committed_txg();
    sync(&files, "three");
    assert_eq!(pool.committed_txg(), rotated, "it is in the log alone");

    let pool = as_after_a_power_cut(&device, &clock);
    assert!(pool.entry(entry.id).unwrap().log.exists());
    let refused = try_rotate(&pool, &entry, &key, None).unwrap_err();
    assert!(refused.to_string().contains("log waits"), "{refused}");
    let files = open(&pool, &entry);
    for name in ["one", "two", "three"] {
        assert!(read(&files, name).is_some(), "{name}");
    }
    rotate(&pool, &entry, &key, &files);
}

fn as_after_a_power_cut(device: &FaultDevice, clock: &FaultClock) -> Pool {
    let device = Arc::new(device.copy(clock));
    let pool = open_pool(device).unwrap();
    pool.claim("here").unwrap();
    pool
}

/// Entries that are made with the old keys after a rotation, by an attacker who has these and writes to the device.
#[test]
fn what_is_logged_with_old_keys_is_not_replayed() {
    let clock = FaultClock::new();
    let device = fault_device(64 << 20, &clock);
    let (pool, entry, key, files) = pool_on(&device, &[""; 0]);
    let sync = |name: &str| {
        write(&files, name);
        let ino = files.lookup(ROOT, name.as_bytes()).unwrap().ino;
        files.fsync(ino, false).unwrap();
    };
    sync("one");
    pool.commit().unwrap();
    // The open dataset is not told.
    try_rotate(&pool, &entry, &key, None).unwrap();
    let rotated = pool.committed_txg();
    sync("two");
    assert_eq!(pool.committed_txg(), rotated, "it is in the log alone");

    let pool = as_after_a_power_cut(&device, &clock);
    let refused = try_open(&pool, &entry, Settings::default());
    let is_foreign = |error: &Error| matches!(error, Error::ForeignLog { good: 0, .. });
    assert!(refused.is_err_and(|error| is_foreign(&error)));
    let settings = Settings {
        gives_up_log: true,
        ..Settings::default()
    };
    let files = try_open(&pool, &entry, settings).unwrap();
    assert!(read(&files, "one").is_some());
    assert_eq!(read(&files, "two"), None);
}
