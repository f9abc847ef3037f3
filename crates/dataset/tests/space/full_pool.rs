//! A full pool with a snapshot that keeps everything: whatever is deleted, no delete finds it full.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Dataset, Settings};
use pool::Pool;
use vfs::{Error, FileSystem, ROOT};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);

fn write_one(files: &Dataset, dice: &mut Dice, name: &str, size: usize) -> vfs::Result<()> {
    let data: Vec<u8> = (0..size.div_ceil(8))
        .flat_map(|_| dice.below(u64::MAX).to_le_bytes())
        .collect();
    let ino = create_file(files, name)?;
    for (at, piece) in data[..size].chunks(128 << 10).enumerate() {
        files.write(ino, (at * (128 << 10)) as u64, piece, false)?;
    }
    Ok(())
}

/// Writes files of a size until there is no free space, and returns their names.
fn fill(files: &Dataset, dice: &mut Dice, prefix: &str, size: usize) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let name = format!("{prefix}{}", names.len());
        match write_one(files, dice, &name, size) {
            Ok(()) => names.push(name),
            Err(Error::NoSpace) => {
                // It may be there without its contents.
                if let Ok(attr) = files.lookup(ROOT, name.as_bytes()) {
                    files.forget(attr.ino, 1);
                    names.push(name);
                }
                return names;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// The work that goes on beside the deletes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Another program takes whatever becomes free.
    Writer,
}

/// Fills a pool, makes a snapshot, and deletes everything in an order that touches as much metadata as it can.
fn delete_everything(pool: &Pool, files: &Dataset, size: usize, threads: usize, beside: Beside) {
    let mut dice = Dice(1);
    let mut names = fill(files, &mut dice, "a", size);
    names.extend(fill(files, &mut dice, "b", 100));
    names.extend(fill(files, &mut dice, "c", 0));
    files.sync_all().unwrap();
    assert!(!names.is_empty());
    snapshot(pool, "tank@kept");
    for n in (1..names.len()).rev() {
        names.swap(n, dice.below(n as u64 + 1) as usize);
    }
    let is_over = AtomicBool::new(false);
    let write = || {
        let mut dice = Dice(77);
        for n in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
            let written = write_one(files, &mut dice, &format!("more{n}"), 5000);
            assert!(matches!(written, Ok(()) | Err(Error::NoSpace)));
        }
    };
    // As the daemon's thread does it.
    let tend = || {
        while !is_over.load(Ordering::Relaxed) {
            pool.commit().unwrap();
            files.free_dead_slots().unwrap();
        }
    };
    let delete = |names: &[String]| {
        for name in names {
            // As a kernel does it: the file goes when its inode is let go of.
            let ino = files.lookup(ROOT, name.as_bytes()).unwrap().ino;
            files.unlink(ROOT, name.as_bytes()).unwrap();
            files.forget(ino, 1);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(tend);
        if beside == Beside::Writer {
            scope.spawn(write);
        }
        let parts = names.chunks(names.len().div_ceil(threads));
        let deletes: Vec<_> = parts.map(|part| scope.spawn(|| delete(part))).collect();
        let results: Vec<_> = deletes.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    let stat = files.statfs().unwrap();
    let named = look::list(files, ROOT).unwrap().len() as u64;
    assert_eq!(
        stat.files - stat.files_free,
        1 + named,
        "inodes went with their names"
    );
    assert_eq!(pool.suspended(), None);
}

#[test]
fn every_file_can_be_deleted_one_by_one() {
    let (_device, pool, files) = opened(32 << 20, SUITE, 2);
    delete_everything(&pool, &files, 16 << 10, 1, Beside::Nothing);
    files.close().unwrap();
    assert_clean(&pool);
}

/// The metadata of small files is large, and the reserve grows with it.
#[test]
fn small_files_can_be_deleted_by_many_threads_while_another_writes() {
    let (_device, pool, files) = opened(32 << 20, SUITE, 2);
    delete_everything(&pool, &files, 4 << 10, 8, Beside::Writer);
    files.close().unwrap();
    assert_clean(&pool);
}

#[test]
fn a_pool_with_parity_is_no_different() {
    let clock = FaultClock::new();
    let devices: Vec<_> = (0..3).map(|_| fault_device(16 << 20, &clock)).collect();
    let pool = create_pool_of(&devices, 1, SUITE);
    let files = open_files(&pool, SUITE, Settings::default(), 2);
    delete_everything(&pool, &files, 16 << 10, 4, Beside::Writer);
    files.close().unwrap();
    assert_clean(&pool);
}

/// The free space that a full pool shows can be written, and no more.
#[test]
fn what_is_shown_as_free_can_be_used() {
    let (_device, pool, files) = opened(32 << 20, SUITE, 2);
    let mut dice = Dice(3);
    let shown = pool.space().available;
    let piece = 128 << 10;
    let names = fill(&files, &mut dice, "a", piece);
    let written = (names.len() * piece) as u64;
    assert!(
        written <= shown && written > shown * 9 / 10,
        "{written} of {shown}"
    );
    files.sync_all().unwrap();
    assert!(pool.space().available < 1 << 20, "{:?}", pool.space());
    files.close().unwrap();
}

/// Quotas bind what is written. Who is over a quota can delete, truncate and punch holes.
#[test]
fn a_dataset_over_its_quota_deletes() {
    let (_device, pool, files) = opened(32 << 20, SUITE, 2);
    let mut dice = Dice(4);
    let names: Vec<String> = (0..40).map(|n| format!("a{n}")).collect();
    for name in &names {
        write_one(&files, &mut dice, name, 128 << 10).unwrap();
    }
    files.sync_all().unwrap();
    snapshot(&pool, "tank@kept");
    let quota = ("quota".to_owned(), Some((6 << 20).to_string()));
    pool.set_props(&["tank".into()], &[quota], &origin())
        .unwrap();
    files.close().unwrap();
    drop(files);
    let settings = Settings {
        limited: true,
        ..Settings::default()
    };
    let files = open_files(&pool, SUITE, settings, 2);
    let more = |n: u64| write_one(&files, &mut Dice(n), &format!("more{n}"), 128 << 10);
    let refused = (0..1000).find_map(|n| more(n).err());
    assert_eq!(refused, Some(Error::Quota));
    for (n, name) in names.iter().enumerate() {
        let ino = files.lookup(ROOT, name.as_bytes()).unwrap().ino;
        match n % 3 {
            0 => files.unlink(ROOT, name.as_bytes()).unwrap(),
            1 => {
                let size = vfs::SetAttr {
                    size: Some(70_000),
                    ..Default::default()
                };
                files.setattr(&ROOT_USER, ino, &size).unwrap();
            }
            _ => files
                .fallocate(ino, 5000, 100_000, vfs::Fallocate::Punch)
                .unwrap(),
        }
        files.forget(ino, 1);
    }
    files.close().unwrap();
    assert_clean(&pool);
}
