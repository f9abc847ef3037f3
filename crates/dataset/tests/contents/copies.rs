//! Contents that are stored twice: where they are, what that survives, and what it takes.

use std::sync::Arc;

use crate::common::look::read_all;
use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use dataset::{Compression, Dataset, Settings};
use pool::Pool;
use vfs::{Error, FileSystem, Ino, ROOT};

const SIZE: usize = 16 << 20;

fn settings(copies: u8) -> Settings {
    Settings {
        copies,
        compression: Compression::Off,
        record_size: 16 << 10,
        ..Settings::default()
    }
}

/// Returns the contents of the record of this number, which are found nowhere else.
fn contents(number: u8) -> Vec<u8> {
    (0..16u32 << 10)
        .map(|at| (at * 7 / 3) as u8 ^ number)
        .collect()
}

fn write(files: &Dataset, name: &str, records: std::ops::Range<u8>) -> Ino {
    let ino = create_file(files, name).unwrap();
    for (at, number) in records.enumerate() {
        files
            .write(ino, at as u64 * 16_384, &contents(number), false)
            .unwrap();
    }
    ino
}

/// Returns the addresses of the contents of a record on the device.
fn places(device: &FaultDevice, number: u8) -> Vec<u64> {
    let (bytes, wanted) = (device.to_bytes(), contents(number));
    let units = (0..bytes.len() as u64).step_by(4096);
    units
        .filter(|at| bytes[*at as usize..].starts_with(&wanted))
        .collect()
}

fn referenced(pool: &Pool) -> u64 {
    pool.entry(pool.top().unwrap().id).unwrap().referenced
}

/// Opens the present contents of a device anew.
fn reopened(device: &FaultDevice) -> (Arc<FaultDevice>, Pool, Arc<Dataset>) {
    let device = Arc::new(device.copy(&FaultClock::new()));
    let pool = open_pool(Arc::clone(&device)).unwrap();
    let files = open_files(&pool, None, settings(2), 0);
    (device, pool, files)
}

#[test]
fn a_record_is_where_it_was_asked_to_be_and_one_good_copy_is_enough() {
    let device = fault_device(SIZE, &FaultClock::new());
    let pool = create_pool(&device, None);
    let files = open_files(&pool, None, settings(1), 0);
    write(&files, "once", 1..2);
    pool.commit().unwrap();
    let before = referenced(&pool);
    files.set_settings(settings(2));
    let twice = write(&files, "twice", 2..4);
    pool.commit().unwrap();
    // Two records more, twice, and some metadata.
    let grown = referenced(&pool) - before;
    assert!((4 * 16_384..5 * 16_384).contains(&grown), "{grown}");
    assert_eq!(
        [1, 2, 3].map(|number| places(&device, number).len()),
        [1, 2, 2]
    );
    files.close().unwrap();
    drop((files, pool));

    for bad in 0..2 {
        let (device, pool, files) = reopened(&device);
        device.flip(places(&device, 2)[bad] + 5000, 1);
        assert!(
            read_all(files.as_ref(), twice, 0, 16_384)
                .unwrap()
                .starts_with(&contents(2))
        );
        drop((files, pool));
        // A scrub repairs it from the other.
        let (device, pool, files) = reopened(&device);
        assert_eq!(places(&device, 2).len(), 1);
        pool.scrubber().start().unwrap();
        while pool.scrubber().step(1 << 30).unwrap() {}
        assert_eq!(places(&device, 2).len(), 2);
        assert_clean(&pool);
        drop(files);
    }
    let (device, _pool, files) = reopened(&device);
    places(&device, 2)
        .into_iter()
        .for_each(|at| device.flip(at, 1));
    device.flip(places(&device, 1)[0], 1);
    let once = files.lookup(ROOT, b"once").unwrap().ino;
    assert_eq!(files.read(once, 0, 10).unwrap_err(), Error::Io);
    assert_eq!(files.read(twice, 0, 10).unwrap_err(), Error::Io);
}

#[test]
fn what_is_written_again_follows_the_setting_and_what_is_freed_is_free() {
    let device = fault_device(SIZE, &FaultClock::new());
    let pool = create_pool(&device, None);
    let files = open_files(&pool, None, settings(1), 0);
    pool.commit().unwrap();
    let empty = referenced(&pool);
    let ino = write(&files, "file", 1..3);
    // It waits in memory with space for one copy, and then gets space for two.
    files.set_settings(settings(2));
    files.write(ino, 0, &contents(5), false).unwrap();
    pool.commit().unwrap();
    assert_eq!([5, 2].map(|number| places(&device, number).len()), [2, 1]);
    files.set_settings(settings(1));
    files.write(ino, 0, &contents(6), false).unwrap();
    pool.commit().unwrap();
    assert_eq!(places(&device, 6).len(), 1);
    // A part of a record, and what becomes of a truncated one.
    files.set_settings(settings(2));
    files.write(ino, 20_000, b"changed", false).unwrap();
    let size = vfs::SetAttr {
        size: Some(30_000),
        ..vfs::SetAttr::default()
    };
    files.setattr(&ROOT_USER, ino, &size).unwrap();
    pool.commit().unwrap();
    let before = referenced(&pool);
    files.unlink(ROOT, b"file").unwrap();
    for _ in 0..4 {
        files.free_dead_slots().unwrap();
        pool.commit().unwrap();
    }
    assert!(before - referenced(&pool) >= 3 * 16_384 - 8192);
    assert!(referenced(&pool) <= empty + 16_384);
    assert_clean(&pool);
}

#[test]
fn a_full_pool_refuses_writes_and_no_commit_fails() {
    let device = fault_device(SIZE, &FaultClock::new());
    let pool = create_pool(&device, None);
    let files = open_files(&pool, None, settings(2), 0);
    let ino = create_file(&files, "file").unwrap();
    let mut written = 0u64;
    loop {
        match files.write(ino, written * 16_384, &contents(written as u8), false) {
            Ok(()) => written += 1,
            Err(error) => break assert_eq!(error, Error::NoSpace),
        }
        if written.is_multiple_of(16) {
            pool.commit().unwrap();
        }
    }
    pool.commit().unwrap();
    assert!(written * 2 * 16_384 > SIZE as u64 / 2 && written * 2 * 16_384 < SIZE as u64);
    assert_eq!(pool.suspended(), None);
    assert_eq!(
        read_all(files.as_ref(), ino, 0, 1 << 30).unwrap().len() as u64,
        written * 16_384
    );
    assert_clean(&pool);
}
