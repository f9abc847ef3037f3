//! The cost of idle mounted datasets in the daemon: bytes and threads, counted.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::*;

const DATASETS: usize = 200;
/// The number of datasets that are used.
const USED: usize = 40;
/// For each dataset that is made and mounted for the first time. 200 take 54 MB. The first mounts use huge pages, of which
/// threads that run at the same moment take more: up to 88 MB were seen.
const FIRST: usize = 400_000;
/// For each mounted dataset.
const BYTES: usize = 200 << 10;
const THREADS: usize = 2;
/// The difference that is allowed from one moment to the next, whatever is mounted.
const MARGIN: usize = 2 << 20;
/// The share of caches and of the memory that the allocator keeps for the next file. Caches take 32 MiB.
const CACHES: usize = 64 << 20;
/// The rest that may be left when the pool is exported: pages of the allocator that are in use in part.
const LEFT: usize = 28 << 20;

/// Bytes of the daemon that no file has, and its threads.
fn taken(place: &Place) -> (usize, usize) {
    let proc = format!("/proc/{}", place.pid());
    let rollup = fs::read_to_string(format!("{proc}/smaps_rollup")).unwrap();
    let line = rollup.lines().find(|line| line.starts_with("Anonymous:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    let bytes = kib.unwrap().parse::<usize>().unwrap() << 10;
    let threads = fs::read_dir(format!("{proc}/task")).unwrap().count();
    (bytes, threads)
}

/// Waits until no more than this is taken.
fn settles(place: &Place, bytes: usize, threads: usize) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let now = taken(place);
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

#[test]
fn idle_mounts_take_little_and_give_it_back() {
    needs!(can_mount());
    let place = Place::new();
    let (pool, dir) = (place.path("tank.pool"), place.path("tank"));
    // Besides, a pool has threads, and commands have some for a moment.
    let (fresh, threads) = taken(&place);
    let threads = threads + 8;
    place.ok_with(
        &format!(
            "pool create -s 256M -O encryption=on -m {} tank {}",
            dir.display(),
            pool.display()
        ),
        "correct horse battery staple",
    );
    for number in 0..DATASETS {
        place.ok(&format!("create tank/{number}"));
    }
    let use_all = || {
        for number in 0..USED {
            let file = dir.join(format!("{number}/file"));
            fs::write(&file, vec![number as u8; 1 << 20]).unwrap();
            assert_eq!(fs::read(&file).unwrap().len(), 1 << 20);
            fs::write(&file, b"small").unwrap();
        }
        place.ok("pool sync");
    };
    let mounts = DATASETS + 1;
    settles(
        &place,
        fresh + mounts * FIRST + MARGIN,
        threads + mounts * THREADS,
    );
    // The first round fills the caches, which all share and which have a limit of their own.
    use_all();
    settles(&place, usize::MAX, threads + mounts * THREADS);
    place.ok("unmount -a");
    settles(&place, usize::MAX, threads);
    let (bytes, _) = taken(&place);
    place.ok("mount -a");
    settles(
        &place,
        bytes + mounts * BYTES + MARGIN,
        threads + mounts * THREADS,
    );
    use_all();
    settles(
        &place,
        bytes + mounts * BYTES + CACHES,
        threads + mounts * THREADS,
    );
    place.ok("unmount -a");
    settles(&place, bytes + CACHES, threads);
    place.ok("pool export tank");
    settles(&place, fresh + LEFT, threads);
}
