//! Random operations on files against a model, with sealing threads, commits and reopening between
//! them. With all the rest, but one thread only, they are in `simulate`.

use crate::common::driver::Driver;
use crate::common::look::{list, look};
use crate::common::model::assert_same;
use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
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

fn run(seed: u64, steps: usize) {
    const THREADS: usize = 3;
    let _ = tracing_subscriber::fmt().with_test_writer().try_init();
    let clock = FaultClock::new();
    let device = fault_device(96 << 20, &clock);
    let mut pool = create_pool(&device, suite(seed));
    let mut files = open_files(&pool, suite(seed), settings(seed), THREADS);
    let mut driver = Driver::new(seed);
    for step in 0..steps {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            driver.step(files.as_ref()).unwrap();
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
            4 => files.free_dead_slots().unwrap(),
            5 => {
                files.close().unwrap();
                drop((files, pool));
                pool = open_pool(device.clone()).unwrap();
                files = open_files(&pool, suite(seed), settings(seed), THREADS);
            }
            _ => {}
        }
        if step % 100 == 99 {
            assert_same(
                &look(files.as_ref()).unwrap(),
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
    let files = open_files(&pool, suite(seed), settings(seed), THREADS);
    assert_same(
        &look(files.as_ref()).unwrap(),
        &driver.model.picture(),
        &format!("seed {seed}, at the end"),
    );
    pool.commit().unwrap();
    assert_clean(&pool);
}

#[test]
fn with_threads() {
    for seed in seeds(20, 8) {
        run(seed, 500);
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
        driver.step(files.as_ref()).unwrap();
    }
    remove_all(files.as_ref(), vfs::ROOT);
    vfs::FileSystem::forget_all(files.as_ref());
    for name in vfs::FileSystem::listxattr(files.as_ref(), vfs::ROOT).unwrap() {
        vfs::FileSystem::removexattr(files.as_ref(), vfs::ROOT, &name).unwrap();
    }
    pool.commit().unwrap();
    files.free_dead_slots().unwrap();
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
    for (name, ino) in list(fs, dir).unwrap() {
        if fs.getattr(ino).unwrap().kind == vfs::Kind::Directory {
            remove_all(fs, ino);
            fs.rmdir(dir, &name).unwrap();
        } else {
            fs.unlink(dir, &name).unwrap();
        }
    }
}
