//! `fsync` through the intent log: more than it can hold, and many threads at once. What becomes of it
//! after a power cut at any write is in `simulate`.

mod common;

use std::sync::Arc;

use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::Suite;
use common::look::{list, read_all};
use common::*;
use dataset::{Files, Settings};
use pool::Pool;
use vfs::{FileSystem, Kind};

/// A dataset in use whose log is set up, on a device that was flushed just now.
fn files_with_log(device: &Arc<FaultDevice>, suite: Option<Suite>) -> (Pool, Arc<Files>) {
    let pool = create_pool(device, suite);
    let files = open_files(&pool, suite, Settings::default(), 2);
    make(&files, "first");
    files.fsync(vfs::ROOT, false).unwrap();
    (pool, files)
}

fn make(files: &Files, name: &str) -> vfs::Ino {
    let node = vfs::NewNode {
        kind: Kind::File,
        mode: 0o600,
        umask: 0,
        rdev: 0,
    };
    let made = files.mknod(&ROOT_USER, vfs::ROOT, name.as_bytes(), &node);
    made.unwrap().ino
}

fn after_power_cut(device: &FaultDevice, suite: Option<Suite>) -> (Pool, Arc<Files>) {
    let image = device.take_journal().image(u64::MAX, Survival::None);
    let pool = open_image(image).unwrap();
    let files = open_files(&pool, suite, Settings::default(), 0);
    (pool, files)
}

#[test]
fn more_than_an_entry_holds_is_durable_too() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let (pool, files) = files_with_log(&device, suite);
    for count in [10, 3000] {
        for n in 0..count {
            make(&files, &format!("{count}-{n:0>200}"));
        }
        files.fsync(vfs::ROOT, false).unwrap();
    }
    drop((files, pool));
    let (_pool, files) = after_power_cut(&device, suite);
    assert_eq!(
        list(files.as_ref(), vfs::ROOT).unwrap().len(),
        1 + 10 + 3000
    );
}

#[test]
fn many_threads_sync_what_they_wrote_and_no_more_is_needed() {
    let device = fault_device(96 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let (pool, files) = files_with_log(&device, suite);
    let inos: Vec<_> = (0..6).map(|n| make(&files, &format!("file-{n}"))).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = inos
            .iter()
            .map(|ino| {
                let files = &files;
                scope.spawn(move || {
                    for n in 0..150u64 {
                        let offset = n * 37 % 50 * 4096;
                        files.write(*ino, offset, &[n as u8; 4096], false).unwrap();
                        files.fsync(*ino, false).unwrap();
                    }
                })
            })
            .collect();
        let keeper = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                pool.commit().unwrap();
                std::thread::yield_now();
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        keeper.join().unwrap();
        // No commit takes over what these leave in the log.
        for ino in &inos {
            files.write(*ino, 0, b"the last word", false).unwrap();
            files.fsync(*ino, false).unwrap();
        }
    });
    let before: Vec<_> = inos
        .iter()
        .map(|ino| read_all(files.as_ref(), *ino, 0, 1 << 20).unwrap())
        .collect();
    drop((files, pool));
    let (pool, files) = after_power_cut(&device, suite);
    for (ino, before) in inos.iter().zip(&before) {
        assert!(before.starts_with(b"the last word"));
        assert!(read_all(files.as_ref(), *ino, 0, 1 << 20).unwrap() == *before);
    }
    assert_clean(&pool);
}
