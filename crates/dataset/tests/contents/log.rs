//! `fsync` through the intent log: more than it can hold, and many threads at once. What becomes of it
//! after a power cut at any write is in `simulate`.

use std::sync::Arc;

use crate::common::look::{list, read_all};
use crate::common::*;
use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::Suite;
use dataset::{Dataset, Settings};
use pool::Pool;
use vfs::{FileSystem, Kind};

/// A dataset in use whose log is set up, on a device that was flushed just now.
fn files_with_log(device: &Arc<FaultDevice>, suite: Option<Suite>) -> (Pool, Arc<Dataset>) {
    let pool = create_pool(device, suite);
    let files = open_files(&pool, suite, Settings::default(), 2);
    make(&files, "first");
    files.fsync(vfs::ROOT, false).unwrap();
    (pool, files)
}

fn make(files: &Dataset, name: &str) -> vfs::Ino {
    let node = vfs::NewNode::new(Kind::File, 0o600);
    let made = files.mknod(&ROOT_USER, vfs::ROOT, name.as_bytes(), &node);
    made.unwrap().ino
}

fn after_power_cut(device: &FaultDevice, suite: Option<Suite>) -> (Pool, Arc<Dataset>) {
    let image = device.take_journal().image(u64::MAX, Survival::None);
    let pool = open_image(image).unwrap();
    let files = open_files(&pool, suite, Settings::default(), 0);
    (pool, files)
}

/// A dataset that syncs rarely takes little space, and waits for few bytes. One that syncs much gets a larger ring.
#[test]
fn a_log_begins_small_and_grows() {
    let device = fault_device(512 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let pool = create_pool(&device, suite);
    let files = open_files(&pool, suite, Settings::default(), 2);
    let ino = make(&files, "file");
    let before = device.written();
    files.fsync(ino, false).unwrap();
    let first = device.written() - before;
    assert!(first < 6 << 20, "{first} bytes for the first fsync");

    // 24 MiB of entries. A ring of 4 MiB would need a commit for each time that it is full.
    let before = pool.committed_txg();
    for round in 0..3072_u64 {
        let bytes = contents(round, 6000);
        files.write(ino, round * 6000, &bytes, false).unwrap();
        files.fsync(ino, false).unwrap();
    }
    let commits = pool.committed_txg() - before;
    assert!((1..6).contains(&commits), "{commits} commits");
    drop((files, pool));
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
        let committer = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                pool.commit().unwrap();
                std::thread::yield_now();
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        committer.join().unwrap();
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

/// On a device far away each commit takes a round trip.
#[test]
fn files_that_replaced_each_other_are_found_again_with_few_commits() {
    const ROUNDS: u64 = 40;
    let device = fault_device(96 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let (pool, files) = files_with_log(&device, suite);
    for round in 0..ROUNDS {
        let new = make(&files, "new");
        files
            .write(new, 0, &contents(round, 70_000), false)
            .unwrap();
        files.fsync(new, false).unwrap();
        let root = vfs::ROOT;
        let renamed = files.rename(root, b"new", root, b"name", vfs::RenameMode::Replace);
        renamed.unwrap();
        files.fsync(root, false).unwrap();
    }
    drop((files, pool));
    let image = device.take_journal().image(u64::MAX, Survival::None);
    let pool = open_image(image).unwrap();
    let before = pool.committed_txg();
    let files = open_files(&pool, suite, Settings::default(), 2);
    let commits = pool.committed_txg() - before;
    assert!(commits < ROUNDS / 4, "{commits} commits");
    let found = files.lookup(vfs::ROOT, b"name").unwrap().ino;
    let read = read_all(files.as_ref(), found, 0, 1 << 20).unwrap();
    assert!(read == contents(ROUNDS - 1, 70_000));
    assert_clean(&pool);
}

fn free_dead(files: &Dataset) {
    while files.has_dead() {
        files.free_dead_slots().unwrap();
    }
}

/// With random-looking contents, so that a record does not become a small one.
fn contents(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice(seed);
    (0..len).map(|_| dice.below(256) as u8).collect()
}

/// A copy shares what the source has now, also what was written over shared records and is in no log.
#[test]
fn a_synced_copy_has_what_its_source_had() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let pool = create_pool(&device, suite);
    // Without threads, records that are written whole are sealed at once.
    let files = open_files(&pool, suite, Settings::default(), 0);
    let len = 512 << 10;
    let source = make(&files, "source");
    files.write(source, 0, &contents(1, len), false).unwrap();
    let second = make(&files, "second");
    files.write(second, 0, &contents(3, len), false).unwrap();
    let first = make(&files, "first");
    let copied = files.copy_range(source, 0, first, 0, len as u64);
    assert_eq!(copied.unwrap(), len as u64);
    files.fsync(vfs::ROOT, false).unwrap();
    files.unlink(vfs::ROOT, b"first").unwrap();
    files.forget(first, 1);
    free_dead(&files);
    files.sync_all().unwrap();
    files.fsync(vfs::ROOT, false).unwrap();

    let new = contents(2, len);
    files.write(source, 0, &new, false).unwrap();
    files.copy_range(source, 0, second, 0, len as u64).unwrap();
    files.fsync(second, false).unwrap();
    drop((files, pool));
    let (pool, files) = after_power_cut(&device, suite);
    let second = files.lookup(vfs::ROOT, b"second").unwrap().ino;
    assert!(read_all(files.as_ref(), second, 0, len as u64).unwrap() == new);
    drop(files);
    assert_clean(&pool);
}

/// A file is cut off, and then it goes: what was cut off goes too.
#[test]
fn what_was_cut_off_a_file_that_is_gone_is_freed() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let (pool, files) = files_with_log(&device, suite);
    let gone = make(&files, "gone");
    files.write(gone, 0, &contents(1, 1 << 20), false).unwrap();
    files.sync_all().unwrap();
    files.fsync(vfs::ROOT, false).unwrap();
    files.unlink(vfs::ROOT, b"gone").unwrap();
    let cut = vfs::SetAttr {
        size: Some(0),
        ..vfs::SetAttr::default()
    };
    files.setattr(&ROOT_USER, gone, &cut).unwrap();
    files.forget(gone, 1);
    make(&files, "other");
    files.fsync(vfs::ROOT, false).unwrap();
    drop((files, pool));
    let (pool, files) = after_power_cut(&device, suite);
    files.lookup(vfs::ROOT, b"other").unwrap();
    free_dead(&files);
    files.sync_all().unwrap();
    let id = files.id();
    drop(files);
    let mut left = 0;
    let root = pool.entry(id).unwrap().roots[1];
    pool.each_record(&root, &mut |_, _| {
        left += 1;
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(left, 0, "records of a file that is gone");
    assert_clean(&pool);
}

/// Makes a dataset beside it that is full of something else, but for a little space.
fn fill_rest(pool: &Pool) {
    let other = new_dataset(77, None);
    let other = pool.create_dataset("tank/other", other, &origin());
    let id = other.unwrap().id;
    let files = Dataset::open(
        &engine(8, 0),
        pool,
        id,
        None,
        Settings::default(),
        &ROOT_USER,
    );
    let files = files.unwrap();
    let spare = make(&files, "spare");
    files.write(spare, 0, &contents(8, 8 << 20), false).unwrap();
    let filler = make(&files, "filler");
    let record = contents(9, 128 << 10);
    let write = |n: u64| files.write(filler, n << 17, &record, false);
    assert!((0..1000).any(|n| write(n) == Err(vfs::Error::NoSpace)));
    files.unlink(vfs::ROOT, b"spare").unwrap();
    files.forget(spare, 1);
    free_dead(&files);
    files.sync_all().unwrap();
}

/// Large contents are stored once, and no commit has them; until the log is replayed nothing takes their place.
#[test]
fn large_contents_go_where_they_stay_and_the_log_points_there() {
    for (suite, threads) in [
        (Some(Suite::Xaes256Gcm), 0),
        (None, 0),
        (Some(Suite::Xaes256Gcm), 2),
    ] {
        let device = fault_device(64 << 20, &FaultClock::new());
        let pool = create_pool(&device, suite);
        let files = open_files(&pool, suite, Settings::default(), threads);
        let (large, changed) = (make(&files, "large"), make(&files, "changed"));
        files
            .write(changed, 0, &contents(5, 1 << 20), false)
            .unwrap();
        files.fsync(vfs::ROOT, false).unwrap();
        let committed = pool.committed_txg();
        let (first, second) = (contents(6, (1 << 20) + 5000), contents(7, 300 << 10));
        files.write(large, 0, &first, false).unwrap();
        files.fsync(large, false).unwrap();
        // Over a part of what is committed, and twice over a part of that.
        files.write(changed, 100_000, &second, false).unwrap();
        files.fsync(changed, false).unwrap();
        files.write(changed, 200_000, &second, false).unwrap();
        files.fsync(changed, false).unwrap();
        assert_eq!(pool.committed_txg(), committed, "without a commit");
        drop((files, pool));
        let image = device.take_journal().image(u64::MAX, Survival::None);
        // Others come and go before it is replayed.
        let device = Arc::new(FaultDevice::from_bytes(image, &FaultClock::new()));
        fill_rest(&open_pool(Arc::clone(&device)).unwrap());
        let pool = open_pool(device).unwrap();
        assert_clean(&pool);
        let files = open_files(&pool, suite, Settings::default(), 0);
        let whole = |ino| read_all(files.as_ref(), ino, 0, 2 << 20).unwrap();
        assert!(whole(large) == first);
        let mut expected = contents(5, 1 << 20);
        expected[100_000..][..second.len()].copy_from_slice(&second);
        expected[200_000..][..second.len()].copy_from_slice(&second);
        assert!(whole(changed) == expected);
        files.sync_all().unwrap();
        drop(files);
        assert_clean(&pool);
    }
}
