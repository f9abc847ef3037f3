//! Random operations on files against a model, with commits, reopening and power cuts between them.

mod common;

use block::fault::{FaultClock, Survival};
use cipher::Suite;
use common::model::*;
use common::*;
use dataset::{Compression, Settings};

fn settings(seed: u64) -> Settings {
    Settings {
        compression: [Compression::Lz4, Compression::Off, Compression::Zstd(1)][seed as usize % 3],
        record_size: [4096, 131_072, 1 << 20, 16_384][seed as usize % 4],
        ..Settings::default()
    }
}

fn suite(seed: u64) -> Option<Suite> {
    [Some(Suite::Xaes256Gcm), None, Some(Suite::Aes128Ccm)][seed as usize % 3]
}

fn assert_same(found: &Picture, expected: &Picture, context: &str) {
    let paths: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    for path in paths {
        let (a, b) = (found.get(path), expected.get(path));
        if a != b {
            let name = String::from_utf8_lossy(path);
            let brief = |s: Option<&Seen>| {
                s.map(|s| {
                    (
                        s.kind,
                        s.mode,
                        s.nlink,
                        s.contents.len(),
                        s.xattrs.keys().cloned().collect::<Vec<_>>(),
                    )
                })
            };
            let differ = a
                .zip(b)
                .and_then(|(a, b)| a.contents.iter().zip(&b.contents).position(|(a, b)| a != b));
            panic!(
                "{context}: {name}: found {:?}, expected {:?}, first difference at {differ:?}",
                brief(a),
                brief(b)
            );
        }
    }
}

/// For finding which operation it was.
const CHECK_EACH: bool = false;

fn run(seed: u64, threads: usize, steps: usize) {
    let _ = tracing_subscriber::fmt().with_test_writer().try_init();
    let clock = FaultClock::new();
    let device = fault_device(96 << 20, &clock);
    let mut pool = create_pool(&device, suite(seed));
    let mut files = open_files(&pool, suite(seed), settings(seed), threads);
    let mut driver = Driver::new(seed);
    for step in 0..steps {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            driver.step(files.as_ref());
            if CHECK_EACH {
                let context = format!("seed {seed}, step {step}");
                assert_same(&look(files.as_ref()), &driver.model.picture(), &context);
            }
        }));
        if let Err(panic) = outcome {
            eprintln!(
                "seed {seed}, step {step}; the last operations:\n{}",
                driver.log()
            );
            std::panic::resume_unwind(panic);
        }
        match driver.dice.below(60) {
            0..=3 => pool.commit().unwrap(),
            4 => files.reap_dead().unwrap(),
            5 => {
                files.close().unwrap();
                drop((files, pool));
                pool = open_pool(device.clone()).unwrap();
                files = open_files(&pool, suite(seed), settings(seed), threads);
            }
            _ => {}
        }
        if step % 100 == 99 {
            assert_same(
                &look(files.as_ref()),
                &driver.model.picture(),
                &format!("seed {seed}, step {step}"),
            );
            device.take_journal();
        }
    }
    files.close().unwrap();
    assert_clean(&pool);
    drop((files, pool));

    let pool = open_pool(device.clone()).unwrap();
    let files = open_files(&pool, suite(seed), settings(seed), threads);
    assert_same(
        &look(files.as_ref()),
        &driver.model.picture(),
        &format!("seed {seed}, at the end"),
    );
    pool.commit().unwrap();
    assert_clean(&pool);
}

#[test]
fn without_threads() {
    for seed in seeds(0, 8) {
        run(seed, 0, 500);
    }
}

#[test]
fn with_threads() {
    for seed in seeds(20, 8) {
        run(seed, 3, 500);
    }
}

#[test]
fn deleting_everything_gives_everything_back() {
    let device = fault_device(96 << 20, &FaultClock::new());
    let pool = create_pool(&device, None);
    let files = open_files(&pool, None, settings(1), 0);
    files.sync_all().unwrap();
    pool.commit().unwrap();
    let empty = pool.entry(1).unwrap().referenced;
    let mut driver = Driver::new(77);
    for _ in 0..400 {
        driver.step(files.as_ref());
    }
    remove_all(files.as_ref(), vfs::ROOT);
    for name in vfs::FileSystem::listxattr(files.as_ref(), vfs::ROOT).unwrap() {
        vfs::FileSystem::removexattr(files.as_ref(), vfs::ROOT, &name).unwrap();
    }
    pool.commit().unwrap();
    files.reap_dead().unwrap();
    pool.commit().unwrap();
    assert_clean(&pool);
    assert!(!files.has_dead());
    let left = pool.entry(1).unwrap().referenced;
    assert!(
        left <= empty + 2 * 16_384 + 8 * 4096,
        "{left} bytes are left of {empty} at first"
    );
}

fn remove_all(fs: &dyn vfs::FileSystem, dir: vfs::Ino) {
    for (name, ino) in list(fs, dir) {
        if fs.getattr(ino).unwrap().kind == vfs::Kind::Directory {
            remove_all(fs, ino);
            fs.rmdir(dir, &name).unwrap();
        } else {
            fs.unlink(dir, &name).unwrap();
        }
    }
}

#[test]
fn a_power_cut_leaves_a_moment_after_the_last_sync() {
    for seed in seeds(40, 6) {
        let clock = FaultClock::new();
        let device = fault_device(24 << 20, &clock);
        let pool = create_pool(&device, suite(seed));
        let files = open_files(&pool, suite(seed), settings(seed), 0);
        files.sync_all().unwrap();
        device.take_journal();
        let mut driver = Driver::new(seed);
        driver.size_max = 200_000;
        // The picture after each operation, and when it was; the synced ones are marked.
        let mut moments = vec![(clock.now(), true, driver.model.picture())];
        for _ in 0..60 {
            driver.step(files.as_ref());
            moments.push((clock.now(), false, driver.model.picture()));
            if driver.dice.below(8) == 0 {
                files.sync_all().unwrap();
                moments.push((clock.now(), true, driver.model.picture()));
            }
            if driver.dice.below(20) == 0 {
                files.reap_dead().unwrap();
            }
        }
        let journal = device.take_journal();
        let first = moments[0].0;
        let end = clock.now();
        let mut dice = Dice(seed);
        for n in 0..40 {
            let cut = first + dice.below(end - first + 1);
            let survival = match n % 4 {
                0 => Survival::None,
                1 => Survival::All,
                _ => Survival::Seeded(dice.below(u64::MAX)),
            };
            let context = format!("seed {seed}, cut {cut}, {survival:?}");
            let pool = open_image(journal.image(cut, survival))
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_clean(&pool);
            let files = open_files(&pool, suite(seed), settings(seed), 0);
            let found = look(files.as_ref());
            let synced = moments
                .iter()
                .rposition(|(time, synced, _)| *synced && *time <= cut)
                .unwrap();
            // An operation that the cut interrupted may have happened.
            let last = moments.iter().position(|(time, ..)| *time > cut);
            let possible = &moments[synced..=last.unwrap_or(moments.len() - 1)];
            assert!(
                possible.iter().any(|(_, _, picture)| *picture == found),
                "{context}: no moment since the last sync looked like this"
            );
            files.sync_all().unwrap();
            assert_clean(&pool);
        }
    }
}
