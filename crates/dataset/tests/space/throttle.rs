//! Writers wait for a commit when too much waits to be written; and only then, and only for their own pool.

use std::sync::Arc;

use crate::common::*;
use block::fault::{Fault, FaultClock};
use cipher::Suite;
use dataset::{Atime, Dataset, Engine, Settings};
use pool::Pool;
use vfs::{Fallocate, FileSystem, Kind, NewNode, ROOT, RenameMode, SetAttr, SetXattr};

const SUITE: Option<Suite> = Some(Suite::Aes256Gcm);
const RECORD: u64 = 128 << 10;
/// The limit of the engine of these tests, in bytes.
const DIRTY_MAX: u64 = 4 << 20;

fn open(engine: &Arc<Engine>, pool: &Pool, settings: Settings) -> Arc<Dataset> {
    let id = pool.top().unwrap().id;
    let keys = SUITE.map(data_keys);
    Dataset::open(engine, pool, id, keys, settings, &ROOT_USER).unwrap()
}

fn create(files: &Dataset, name: &[u8]) -> u64 {
    try_create(files, name).unwrap()
}

fn try_create(files: &Dataset, name: &[u8]) -> vfs::Result<u64> {
    let node = NewNode::new(Kind::File, 0o644);
    Ok(files.create(&ROOT_USER, ROOT, name, &node)?.ino)
}

/// Writes parts of records, which stay in memory until a commit, until writers have to wait.
fn fill(engine: &Engine, files: &Dataset, ino: u64) {
    let mut at = 0;
    while engine.dirty_bytes() <= DIRTY_MAX {
        files.write(ino, at, &[1; 100 << 10], false).unwrap();
        at += RECORD;
    }
}

#[test]
fn every_change_waits_when_too_much_is_dirty() {
    let pool = create_pool(&fault_device(64 << 20, &FaultClock::new()), SUITE);
    let engine = engine(7, 0);
    let files = open(&engine, &pool, Settings::default());
    let (big, other) = (create(&files, b"big"), create(&files, b"other"));
    let end = 100 * RECORD;
    files.write(other, 0, &[3; 300 << 10], false).unwrap();
    let set = |name: &[u8]| files.setxattr(other, name, b"value", SetXattr::default());
    set(b"user.gone").unwrap();
    let mode = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    let changes: [(&str, &dyn Fn() -> vfs::Result<()>); 9] = [
        ("write", &|| files.write(other, end, &[4], false)),
        ("link", &|| files.link(other, ROOT, b"link").map(drop)),
        ("rename", &|| {
            files.rename(ROOT, b"link", ROOT, b"name", RenameMode::Replace)
        }),
        ("unlink", &|| files.unlink(ROOT, b"name")),
        ("chmod", &|| {
            files.setattr(&ROOT_USER, other, &mode).map(drop)
        }),
        ("setxattr", &|| set(b"user.new")),
        ("removexattr", &|| files.removexattr(other, b"user.gone")),
        ("zeros", &|| {
            files.fallocate(other, 0, RECORD, Fallocate::Punch)
        }),
        ("copy", &|| {
            files.copy_range(other, RECORD, big, end, RECORD).map(drop)
        }),
    ];
    for (name, change) in changes {
        fill(&engine, &files, big);
        let before = pool.committed_txg();
        change().unwrap();
        assert!(pool.committed_txg() > before, "{name} did not wait");
    }
}

/// A pool that is suspended keeps what is dirty in memory. Writers of another pool do not pay for it.
#[test]
fn writes_to_another_pool_do_not_become_commits() {
    let clock = FaultClock::new();
    let devices = [
        fault_device(64 << 20, &clock),
        fault_device(64 << 20, &clock),
    ];
    let pools = [1, 2].map(|n: usize| {
        let device = std::slice::from_ref(&devices[n - 1]);
        create_pool_with_guid(n as u64, device, 0, SUITE)
    });
    let engine = engine(7, 0);
    let [stuck, works] = pools
        .each_ref()
        .map(|pool| open(&engine, pool, Settings::default()));
    let (big, small) = (create(&stuck, b"big"), create(&works, b"small"));
    for pool in &pools {
        pool.commit().unwrap();
    }
    fill(&engine, &stuck, big);
    devices[0].inject(Fault::FullAfter(devices[0].written()));
    assert!(pools[0].commit().is_err());
    assert!(engine.dirty_bytes() > DIRTY_MAX);

    let before = pools[1].committed_txg();
    for record in 0..8 {
        works
            .write(small, record * RECORD, &[2; 4096], false)
            .unwrap();
    }
    assert_eq!(pools[1].committed_txg(), before);
    // What this pool itself has dirty stays bounded.
    for record in 0..64 {
        works
            .write(small, record * RECORD, &[2; 100 << 10], false)
            .unwrap();
    }
    assert!(pools[1].committed_txg() > before);
}

/// An access time is worth no commit.
#[test]
fn reading_in_a_full_pool_commits_nothing() {
    let pool = create_pool(&fault_device(16 << 20, &FaultClock::new()), SUITE);
    let settings = Settings {
        atime: Atime::On,
        ..Settings::default()
    };
    let files = open(&engine(7, 0), &pool, settings);
    let ino = create(&files, b"file");
    let random: Vec<u8> = {
        let mut dice = Dice(5);
        (0..RECORD).map(|_| dice.below(256) as u8).collect()
    };
    let mut at = 0;
    while files.write(ino, at, &random, false).is_ok() {
        at += RECORD;
    }
    files.sync_all().unwrap();
    // Until nothing more fits, however small.
    let mut n = 0;
    while try_create(&files, format!("more {n}").as_bytes()).is_ok() {
        n += 1;
    }
    // There is something that a commit would write, and it would make space.
    files.unlink(ROOT, b"more 0").unwrap();
    let before = pool.committed_txg();
    let read = look::read_all(files.as_ref(), ino, 0, RECORD).unwrap();
    assert!(read == random);
    assert_eq!(pool.committed_txg(), before);
}
