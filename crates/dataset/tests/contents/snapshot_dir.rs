//! The directory of snapshots: which snapshots are open, and what inodes of theirs are called.

use std::sync::Arc;

use crate::common::*;
use block::fault::FaultClock;
use dataset::{Dataset, Settings, SnapshotDirFs};
use pool::{Entry, Pool};
use vfs::{Attr, Error, FileSystem, Ino, Kind, NewNode, ROOT, SNAPSHOT_DIR};

/// More than there are numbers for open snapshots.
const OFTEN: usize = 40_000;

/// A dataset with a file in each of two snapshots.
fn mounted() -> (Pool, SnapshotDirFs) {
    let pool = create_pool(&fault_device(32 << 20, &FaultClock::new()), None);
    let engine = engine(7, 0);
    let id = pool.top().unwrap().id;
    let files = Dataset::open(&engine, &pool, id, None, Settings::default(), &ROOT_USER).unwrap();
    for name in ["a", "b"] {
        let node = NewNode::new(Kind::File, 0o644);
        files
            .create(&ROOT_USER, ROOT, name.as_bytes(), &node)
            .unwrap();
        snapshot(&pool, &format!("tank@{name}"));
    }
    let opener = pool.clone();
    let open = move |entry: &Entry| {
        let settings = Settings {
            read_only: true,
            ..Settings::default()
        };
        Dataset::open(&engine, &opener, entry.id, None, settings, &ROOT_USER)
    };
    (pool, SnapshotDirFs::new(files, Box::new(open), true))
}

fn look_up(mounted: &SnapshotDirFs, snapshot: &str) -> Ino {
    let dir = mounted.lookup(ROOT, SNAPSHOT_DIR).unwrap().ino;
    mounted.lookup(dir, snapshot.as_bytes()).unwrap().ino
}

#[test]
fn a_snapshot_is_closed_when_the_kernel_has_forgotten_it() {
    let (pool, mounted) = mounted();
    for _ in 0..OFTEN {
        let root = look_up(&mounted, "a");
        let file = mounted.lookup(root, b"a").unwrap().ino;
        mounted.forget(root, 1);
        // The file is still known, so the snapshot is open.
        assert_eq!(mounted.getattr(file).unwrap().kind, Kind::File);
        mounted.forget(file, 1);
        assert_eq!(mounted.getattr(file).unwrap_err(), Error::Stale);
    }
    // None is in use.
    for name in ["tank@a", "tank@b"] {
        pool.destroy_dataset(name, false, &origin()).unwrap();
    }
}

#[test]
fn the_number_of_a_destroyed_snapshot_waits_for_the_kernel() {
    let (pool, mounted) = mounted();
    let old = look_up(&mounted, "a");
    let id = pool.find("tank@a").unwrap().id;
    mounted.close_snapshot(id);
    pool.destroy_dataset("tank@a", false, &origin()).unwrap();
    assert_eq!(mounted.getattr(old).unwrap_err(), Error::Stale);
    assert_ne!(look_up(&mounted, "b"), old);
    assert_eq!(mounted.getattr(old).unwrap_err(), Error::Stale);
    mounted.forget(old, 1);
    snapshot(&pool, "tank@c");
    assert_eq!(look_up(&mounted, "c"), old);
}

/// Threads that look up and forget at once find the snapshot each time.
#[test]
fn looking_up_and_forgetting_do_not_disturb_each_other() {
    let (_pool, mounted) = mounted();
    let mounted = Arc::new(mounted);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mounted = Arc::clone(&mounted);
            scope.spawn(move || {
                for _ in 0..500 {
                    let root = look_up(&mounted, "b");
                    assert_eq!(mounted.getattr(root).unwrap().kind, Kind::Directory);
                    mounted.forget(root, 1);
                }
            });
        }
    });
}

/// File handles name an inode, and tell apart the earlier uses of its number.
#[test]
fn inodes_are_found_by_number_and_generations_tell_them_apart() {
    let (pool, mounted) = mounted();
    let found = mounted.lookup(ROOT, b"a").unwrap();
    assert_eq!(mounted.lookup(found.ino, b"."), Ok(found));
    let in_snapshot = |name| {
        let root = look_up(&mounted, name);
        mounted.lookup(root, b"a").unwrap()
    };
    let (a, b) = (in_snapshot("a"), in_snapshot("b"));
    assert_eq!(a.btime, b.btime);
    assert_eq!(mounted.lookup(b.ino, b"."), Ok(b));
    let generations = [found, a, b].map(|attr| mounted.generation(&attr) as u32);
    assert!(generations[0] != generations[1] && generations[1] != generations[2]);
    // It is in use and has no name any more.
    mounted.unlink(ROOT, b"a").unwrap();
    assert_eq!(mounted.lookup(found.ino, b"."), Err(Error::Stale));
    mounted.forget(found.ino, 2);
    assert_eq!(mounted.lookup(found.ino, b"."), Err(Error::Stale));
    assert_eq!(mounted.lookup(9999, b"."), Err(Error::Stale));
    // A number that is given out again, as after a rollback, is another inode by its time of birth.
    let again = Attr {
        btime: mounted.head().getattr(ROOT).unwrap().btime,
        ..found
    };
    assert_ne!(mounted.generation(&again) as u32, generations[0]);
    drop(mounted);
    assert_clean(&pool);
}
