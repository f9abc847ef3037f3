//! A device with little space: writers are told, and what is deleted comes back.

use std::sync::Arc;

use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Dataset, Settings};
use vfs::{Error, FileSystem, Kind, ROOT};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);
const PIECE: usize = 128 << 10;

fn random(dice: &mut Dice, len: usize) -> Vec<u8> {
    (0..len / 8)
        .flat_map(|_| dice.below(u64::MAX).to_le_bytes())
        .collect()
}

/// Writes files of a size until there is no free space; how many are whole.
fn fill(files: &Dataset, dice: &mut Dice, prefix: &str, size: usize) -> usize {
    for n in 0.. {
        let mut write = || -> vfs::Result<()> {
            let ino = create_file(files, &format!("{prefix}{n}"))?;
            let data = random(dice, size);
            for (at, piece) in data.chunks(PIECE).enumerate() {
                files.write(ino, (at * PIECE) as u64, piece, false)?;
            }
            Ok(())
        };
        match write() {
            Ok(()) => {}
            Err(Error::NoSpace) => return n,
            Err(error) => panic!("file {n}: {error:?}"),
        }
    }
    unreachable!()
}

/// Removes every so many files. With a snapshot that keeps them, there may be no free space even for that.
fn remove(files: &Dataset, prefix: &str, every: usize) -> bool {
    for (name, _) in look::list(files, ROOT).unwrap() {
        let text = String::from_utf8(name.clone()).unwrap();
        let number = text
            .strip_prefix(prefix)
            .and_then(|n| n.parse::<usize>().ok());
        if number.is_some_and(|n| n % every == 0) {
            match files.unlink(ROOT, &name) {
                Ok(()) => {}
                Err(Error::NoSpace) => return false,
                Err(error) => panic!("{text}: {error:?}"),
            }
        }
    }
    true
}

fn free(files: &Dataset) -> u64 {
    let stat = files.statfs().unwrap();
    stat.blocks_available * u64::from(stat.block_size)
}

#[test]
fn a_full_pool_says_so_and_deleting_frees_space() {
    let (_device, pool, files) = opened(48 << 20, SUITE, 0);
    let mut dice = Dice(1);
    let first = fill(&files, &mut dice, "a", 1 << 20);
    assert!(first > 30, "{first}");
    assert!(free(&files) < 4 << 20);
    // Full again and again, and never for good.
    for round in 0..4 {
        assert!(remove(&files, "a", 1));
        let again = fill(&files, &mut dice, "a", 1 << 20);
        assert!(
            again + 1 >= first,
            "round {round}: {again} files, at first {first}"
        );
        assert_eq!(pool.suspended(), None);
    }
    files.close().unwrap();
    assert_clean(&pool);
}

#[test]
fn what_was_copied_before_the_pool_was_full_counts() {
    let (_device, _pool, files) = opened(48 << 20, SUITE, 0);
    let mut dice = Dice(4);
    let from = create_file(&files, "from").unwrap();
    let data = random(&mut dice, 6 << 20);
    for (piece, n) in data.chunks(PIECE).zip(0..) {
        files.write(from, n * PIECE as u64, piece, false).unwrap();
    }
    fill(&files, &mut dice, "a", 1 << 20);
    let to = create_file(&files, "to").unwrap();
    for name in ["a1", "a2", "a3"] {
        files.unlink(ROOT, name.as_bytes()).unwrap();
    }
    // Nothing is shared at such an offset.
    let copy = |at: u64| files.copy_range(from, 1 + at, to, at, 5 << 20);
    let done = copy(0).unwrap();
    assert!(done > 1 << 20 && done < 5 << 20, "{done}");
    assert_eq!(copy(done), Err(Error::NoSpace));
    let copied = look::read_all(files.as_ref(), to, 0, done).unwrap();
    assert!(copied == data[1..][..done as usize]);
    files.close().unwrap();
}

/// A kernel lets go of what was unlinked some time after it was, and writers do not know that.
#[test]
fn an_unlinked_file_is_free_space_at_its_last_close() {
    let (_device, pool, files) = opened(48 << 20, SUITE, 0);
    let mut dice = Dice(3);
    let count = fill(&files, &mut dice, "a", 1 << 20);
    let ino = files.lookup(ROOT, b"a0").unwrap().ino;
    files.unlink(ROOT, b"a0").unwrap();
    let before = pool.committed_txg();
    let other = Arc::clone(&files);
    let forgetful = std::thread::spawn(move || {
        while pool.committed_txg() == before {
            std::thread::yield_now();
        }
        other.forget(ino, 1);
    });
    // One that is in use all the time is not waited for again and again, and there is no free space after all.
    files.lookup(ROOT, b"a1").unwrap();
    files.unlink(ROOT, b"a1").unwrap();
    let again = fill(&files, &mut dice, "b", 1 << 20);
    assert_eq!((again, count > 2), (1, true));
    assert_eq!(fill(&files, &mut dice, "c", 1 << 20), 0);
    forgetful.join().unwrap();
    files.close().unwrap();
}

#[test]
fn deleting_what_a_snapshot_keeps_works_on_a_full_pool() {
    let (device, pool, files) = opened(48 << 20, SUITE, 0);
    let mut dice = Dice(2);
    let count = fill(&files, &mut dice, "a", 256 << 10);
    assert!(remove(&files, "a", 8));
    files.sync_all().unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@kept");
    fill(&files, &mut dice, "b", 4096);
    // Nothing of this gives space back, and it has to go on until nothing is left or say why.
    assert!(remove(&files, "a", 1));
    assert!(remove(&files, "b", 1));
    fill(&files, &mut dice, "c", 100_000);
    for round in 0..3 {
        assert!(remove(&files, "c", 1));
        fill(&files, &mut dice, "c", 8192 << round);
        assert_eq!(pool.suspended(), None);
    }
    files.close().unwrap();
    drop(files);
    pool.destroy_dataset("tank@kept", false, &origin()).unwrap();
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
    drop(pool);
    let pool = open_pool(device).unwrap();
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    assert!(remove(&files, "c", 1));
    let again = fill(&files, &mut dice, "d", 256 << 10);
    assert!(again + 4 >= count, "{again} files, at first {count}");
    files.close().unwrap();
    assert_clean(&pool);
}

#[test]
fn large_files_find_space_between_small_ones() {
    for seed in seeds(500, 3) {
        let (device, pool, files) = opened(40 << 20, SUITE, 0);
        let mut dice = Dice(seed);
        let small = fill(&files, &mut dice, "small", 4096);
        assert!(remove(&files, "small", 2));
        files.sync_all().unwrap();
        // There is hardly a run of two units left, and half of the space.
        let large = fill(&files, &mut dice, "large", 1 << 20);
        assert!(large > 8, "seed {seed}: {large} files among {small}");
        snapshot(&pool, "tank@kept");
        for round in 0..6 {
            remove(&files, "large", 2 + round);
            remove(&files, "small", 3 + round);
            fill(&files, &mut dice, "more", 8192 << round);
            remove(&files, "more", 2);
            assert_eq!(pool.suspended(), None, "seed {seed}");
        }
        files.close().unwrap();
        assert_clean(&pool);
        drop((files, pool));
        let pool = open_pool(device).unwrap();
        pool.scrubber().start().unwrap();
        while pool.scrubber().step(1 << 20).unwrap() {}
        assert_eq!(pool.scrubber().status().errors, 0);
        let files = open_files(&pool, SUITE, Settings::default(), 0);
        pool.destroy_dataset("tank@kept", false, &origin()).unwrap();
        for all in ["small", "large", "more"] {
            assert!(remove(&files, all, 1), "seed {seed}");
        }
        files.close().unwrap();
        assert_clean(&pool);
        assert_eq!(pool.suspended(), None, "seed {seed}");
    }
}

#[test]
fn an_empty_dataset_that_refuses_changes_can_be_opened() {
    let device = fault_device(16 << 20, &FaultClock::new());
    let pool = create_pool(&device, SUITE);
    let settings = Settings {
        read_only: true,
        ..Settings::default()
    };
    let files = open_files(&pool, SUITE, settings, 0);
    assert_eq!(files.getattr(ROOT).unwrap().kind, Kind::Directory);
    assert_eq!(create_file(&files, "a"), Err(Error::ReadOnly));
}
