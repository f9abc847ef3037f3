//! The cost of idle mounts: bytes and threads, counted.
//!
//! One test, so that it is alone in its process.

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::Mounted;
use fuse::Options;

const MOUNTS: usize = 24;
/// Requests at the same time on one mount.
const AT_ONCE: usize = 8;
/// For each mount, its directory and file system in memory included.
const BYTES: usize = 200 << 10;
const THREADS: usize = 2;
/// A request of the largest size.
const LARGE: usize = 1 << 20;

/// Resident bytes of this process that no file has, and its threads.
fn taken() -> (usize, usize) {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find(|line| line.starts_with("Anonymous:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    let bytes = kib.unwrap().parse::<usize>().unwrap() << 10;
    let threads = fs::read_dir("/proc/self/task").unwrap().count();
    (bytes, threads)
}

/// Waits until no more than this is taken.
fn settles(bytes: usize, threads: usize) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let now = taken();
        if now.0 <= bytes && now.1 <= threads {
            return;
        }
        assert!(
            Instant::now() < patience,
            "{now:?} bytes and threads instead of {:?}",
            (bytes, threads)
        );
        std::thread::yield_now();
    }
}

/// Large requests, and many at the same time.
fn use_it(mounted: &Mounted) {
    for number in 0..AT_ONCE {
        fs::write(mounted.path(&format!("{number}")), b"x").unwrap();
    }
    let barrier = Arc::new(Barrier::new(AT_ONCE));
    let at_read = Arc::clone(&barrier);
    mounted.fs.set_hook(move |what, _| {
        if what == "read" {
            at_read.wait();
        }
    });
    std::thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let path = mounted.path(&format!("{number}"));
            scope.spawn(move || assert_eq!(fs::read(path).unwrap(), b"x"));
        }
    });
    // None of it is stored, since the file system's own memory is not what is counted here.
    mounted
        .fs
        .set_hook(|what, _| assert_ne!(what, "write", "refused"));
    fs::write(mounted.path("large"), vec![1; LARGE]).unwrap_err();
    assert_eq!(mounted.count("WRITE"), AT_ONCE as u64 + 1);
}

#[test]
fn an_idle_mount_takes_two_threads_and_little_memory() {
    let options = Options {
        threads: NonZeroUsize::new(2 * AT_ONCE),
        ..Options::default()
    };
    // A refusal is a panic in a thread that serves; its text is not printed.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("fuse-"))
        {
            usual(info);
        }
    }));
    let round = |(bytes, threads)| {
        let mounts: Vec<_> = (0..MOUNTS)
            .map(|_| common::mounted_with(&options).unwrap())
            .collect();
        let (most_bytes, most_threads) = (bytes + MOUNTS * BYTES, threads + MOUNTS * THREADS);
        settles(most_bytes, most_threads);
        mounts.iter().for_each(use_it);
        settles(most_bytes, most_threads);
        drop(mounts);
    };
    // The first one brings what all share.
    let first = mounted_or_skip!(&options);
    use_it(&first);
    drop(first);
    let (_, threads) = taken();
    round(taken());
    // What the allocator keeps for all threads is there by now, and does not grow.
    settles(usize::MAX, threads);
    let (bytes, _) = taken();
    round((bytes, threads));
    settles(bytes + 4 * BYTES, threads);
}
