//! Many threads in one dataset, with commits, snapshots and sealing threads between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Dataset, Settings};
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT, RenameMode};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);
const FILES: u64 = 24;

fn node(kind: Kind) -> NewNode {
    NewNode::new(kind, 0o755)
}

/// Contents that say whose they are, and of which version.
fn contents(thread: u64, file: u64, version: u64, len: usize) -> Vec<u8> {
    let word = (thread << 48 | file << 32 | version).to_le_bytes();
    word.iter().copied().cycle().take(len).collect()
}

fn read_all(files: &Dataset, ino: Ino) -> Vec<u8> {
    let size = files.getattr(ino).unwrap().size;
    crate::common::look::read_all(files, ino, 0, size).unwrap()
}

/// A thread's work in a directory of its own, and a file that all rename over each other.
fn work(files: &Dataset, thread: u64) -> Vec<(u64, u64, usize)> {
    let mut dice = Dice(thread);
    let name = format!("dir{thread}");
    let dir = files
        .mkdir(&ROOT_USER, ROOT, name.as_bytes(), &node(Kind::Directory))
        .unwrap()
        .ino;
    let mut state = vec![(0, 0, 0); FILES as usize];
    for version in 1..=200 {
        let file = dice.below(FILES);
        let name = format!("f{file}");
        let attr = match files.lookup(dir, name.as_bytes()) {
            Ok(attr) => attr,
            Err(_) => files
                .create(&ROOT_USER, dir, name.as_bytes(), &node(Kind::File))
                .unwrap(),
        };
        let known = &mut state[file as usize];
        let expected = contents(thread, known.0, known.1, known.2);
        assert!(
            read_all(files, attr.ino) == expected,
            "thread {thread}, file {file}"
        );
        if dice.below(5) == 0 {
            files.unlink(dir, name.as_bytes()).unwrap();
            *known = (0, 0, 0);
        } else {
            // Grows only, so that all of it is of this version.
            let len = known.2.max(dice.below(300_000) as usize);
            for (n, piece) in contents(thread, file, version, len)
                .chunks(50_000)
                .enumerate()
            {
                files
                    .write(attr.ino, n as u64 * 50_000, piece, false)
                    .unwrap();
            }
            *known = (file, version, len);
        }
        files.forget(attr.ino, 1);
        let shared = format!("s{thread}");
        let attr = files
            .create(&ROOT_USER, ROOT, shared.as_bytes(), &node(Kind::File))
            .unwrap();
        files.forget(attr.ino, 1);
        files
            .rename(
                ROOT,
                shared.as_bytes(),
                ROOT,
                b"shared",
                RenameMode::Replace,
            )
            .unwrap();
        if dice.below(20) == 0 {
            files.fsync(attr.ino, false).ok();
        }
    }
    state
}

#[test]
fn threads_do_not_disturb_each_other() {
    for seed in seeds(400, 2) {
        let device = fault_device(200 << 20, &FaultClock::new());
        let pool = create_pool(&device, SUITE);
        let files = open_files(&pool, SUITE, Settings::default(), 2);
        let done = AtomicBool::new(false);
        let states: Vec<_> = std::thread::scope(|scope| {
            let committer = scope.spawn(|| {
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    pool.commit().unwrap();
                    let name = format!("tank@s{}", n % 3);
                    if n % 4 == 0 {
                        let _ = pool.destroy_dataset(&name, false, &origin());
                        pool.snapshot(&[name], false, &origin()).unwrap();
                    }
                    files.free_dead_slots().unwrap();
                }
            });
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    let files = Arc::clone(&files);
                    scope.spawn(move || work(&files, seed * 10 + n))
                })
                .collect();
            let states = threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect();
            done.store(true, Ordering::Relaxed);
            committer.join().unwrap();
            states
        });
        files.close().unwrap();
        drop(files);
        assert_clean(&pool);
        drop(pool);

        let pool = open_pool(device).unwrap();
        let files = open_files(&pool, SUITE, Settings::default(), 2);
        for (n, state) in states.iter().enumerate() {
            let thread = seed * 10 + n as u64;
            let dir = files
                .lookup(ROOT, format!("dir{thread}").as_bytes())
                .unwrap()
                .ino;
            for (name, ino) in look::list(files.as_ref(), dir).unwrap() {
                let file: usize = std::str::from_utf8(&name[1..]).unwrap().parse().unwrap();
                let known: (u64, u64, usize) = state[file];
                let expected = contents(thread, known.0, known.1, known.2);
                assert!(
                    read_all(&files, ino) == expected,
                    "thread {thread}, file {file}"
                );
            }
        }
        files.close().unwrap();
        assert_clean(&pool);
    }
}
