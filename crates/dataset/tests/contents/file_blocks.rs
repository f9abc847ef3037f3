//! The blocks of a file are what its records take on the devices.

use std::sync::Arc;

use crate::common::*;
use block::fault::{FaultClock, FaultDevice};
use dataset::{Compression, Dataset, Settings};
use pool::Pool;
use vfs::{Attr, Caller, Fallocate, FileSystem, Ino, ROOT, SetAttr};

const SIZE: usize = 64 << 20;
const RECORD: u64 = 16 << 10;

fn settings() -> Settings {
    Settings {
        record_size: RECORD as u32,
        compression: Compression::Lz4,
        ..Settings::default()
    }
}

/// Bytes that become a quarter of them when they are compressed, or less.
fn soft(len: u64) -> Vec<u8> {
    let pattern = |at: u64| (at / 2000) as u8;
    (0..len).map(pattern).collect()
}

/// Bytes that do not become less.
fn hard(len: u64) -> Vec<u8> {
    let mut dice = 88172645463325252u64;
    let mut roll = |_| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice as u8
    };
    (0..len).map(&mut roll).collect()
}

struct World {
    device: Arc<FaultDevice>,
    pool: Pool,
    files: Arc<Dataset>,
}

impl World {
    fn new() -> World {
        let device = fault_device(SIZE, &FaultClock::new());
        let pool = create_pool(&device, None);
        let files = open_files(&pool, None, settings(), 0);
        World {
            device,
            pool,
            files,
        }
    }

    fn file(&self, name: &str, contents: &[u8]) -> Ino {
        let ino = create_file(&self.files, name).unwrap();
        self.write(ino, 0, contents);
        ino
    }

    fn write(&self, ino: Ino, offset: u64, contents: &[u8]) {
        for (at, piece) in contents.chunks(1 << 20).enumerate() {
            let at = offset + ((at as u64) << 20);
            self.files.write(ino, at, piece, false).unwrap();
        }
    }

    fn attr(&self, ino: Ino) -> Attr {
        self.files.getattr(ino).unwrap()
    }

    /// Bytes that a file shows as its blocks, after a commit.
    fn settled(&self, ino: Ino) -> u64 {
        self.pool.commit().unwrap();
        let attr = self.attr(ino);
        assert!(!attr.is_passing);
        self.check();
        attr.blocks * 512
    }

    fn check(&self) {
        assert_eq!(self.files.check_blocks().unwrap(), []);
    }

    /// Returns the space of all of it on the devices.
    fn referenced(&self) -> u64 {
        self.pool
            .entry(self.pool.top().unwrap().id)
            .unwrap()
            .referenced
    }

    fn reopened(self) -> World {
        let World {
            device,
            pool,
            files,
        } = self;
        files.close().unwrap();
        let report = pool.check().unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        drop((files, pool));
        let device = Arc::new(device.copy(&FaultClock::new()));
        let pool = open_pool(Arc::clone(&device)).unwrap();
        let files = open_files(&pool, None, settings(), 0);
        World {
            device,
            pool,
            files,
        }
    }
}

fn size(len: u64) -> SetAttr {
    SetAttr {
        size: Some(len),
        ..SetAttr::default()
    }
}

#[test]
fn what_waits_counts_as_it_is_and_then_as_it_is_stored() {
    let world = World::new();
    let before = world.referenced();
    let ino = world.file("soft", &soft(40 * RECORD + 1));
    // The last record waits, the others may be sealed already.
    let fresh = world.attr(ino);
    assert!(fresh.is_passing);
    assert!(fresh.blocks > 0 && fresh.blocks * 512 <= 40 * RECORD + 4096);
    world.check();
    // Each record becomes a unit.
    assert_eq!(world.settled(ino), 41 * 4096);
    let taken = world.referenced() - before;
    // The rest is pages and nodes.
    assert!(
        (41 * 4096..41 * 4096 + 20 * 8192).contains(&taken),
        "{taken}"
    );

    // One record becomes larger. Until then it counts as what it may take.
    world.write(ino, 7 * RECORD, &hard(RECORD - 100));
    assert_eq!(world.attr(ino).blocks * 512, 40 * 4096 + RECORD);
    assert!(world.attr(ino).is_passing);
    assert_eq!(world.settled(ino), 40 * 4096 + RECORD);

    let world = world.reopened();
    assert_eq!(world.settled(ino), 40 * 4096 + RECORD);
}

#[test]
fn every_copy_counts() {
    let world = World::new();
    let once = world.file("once", &soft(8 * RECORD));
    assert_eq!(world.settled(once), 8 * 4096);
    world.files.set_settings(Settings {
        copies: 2,
        ..settings()
    });
    let twice = world.file("twice", &soft(8 * RECORD));
    assert_eq!(world.settled(twice), 16 * 4096);
    world.write(once, 0, &soft(RECORD - 1));
    assert_eq!(world.attr(once).blocks * 512, 7 * 4096 + 2 * RECORD);
    assert_eq!(world.settled(once), 9 * 4096);
}

#[test]
fn holes_count_nothing_and_promises_what_they_promise() {
    let world = World::new();
    let ino = world.file("sparse", b"");
    for record in [0, 1000, 50_000] {
        world.write(ino, record * RECORD, &soft(RECORD));
    }
    assert_eq!(world.settled(ino), 3 * 4096);
    world
        .files
        .fallocate(ino, 1000 * RECORD, RECORD, Fallocate::Punch)
        .unwrap();
    assert_eq!(world.settled(ino), 2 * 4096);
    world
        .files
        .setattr(&Caller::default(), ino, &size(RECORD))
        .unwrap();
    assert_eq!(world.settled(ino), 4096);
    world
        .files
        .setattr(&Caller::default(), ino, &size(1 << 40))
        .unwrap();
    assert_eq!(world.settled(ino), 4096);

    let promised = world.file("promised", b"");
    let allocate = Fallocate::Allocate { keep_size: false };
    world
        .files
        .fallocate(promised, 0, 10 * RECORD, allocate)
        .unwrap();
    assert_eq!(world.settled(promised), 10 * RECORD);
    world.write(promised, 0, &soft(4 * RECORD));
    assert_eq!(world.settled(promised), 4 * 4096 + 6 * RECORD);
    world.write(promised, 4 * RECORD, &soft(6 * RECORD));
    assert_eq!(world.settled(promised), 10 * 4096);

    let empty = world.file("empty", &hard(3 * RECORD));
    assert_eq!(world.settled(empty), 3 * RECORD);
    world
        .files
        .setattr(&Caller::default(), empty, &size(0))
        .unwrap();
    assert_eq!(world.attr(empty).blocks, 0);
    world.write(empty, 0, b"small");
    assert_eq!(world.settled(empty), 512);
}

#[test]
fn files_that_share_records_show_them_both() {
    let world = World::new();
    let one = world.file("one", &soft(100 * RECORD));
    world.pool.commit().unwrap();
    let other = world.file("other", b"");
    let len = 100 * RECORD;
    assert_eq!(world.files.copy_range(one, 0, other, 0, len).unwrap(), len);
    assert_eq!(world.settled(other), 100 * 4096);
    world.write(other, 50 * RECORD, &hard(RECORD));
    assert_eq!(world.settled(other), 99 * 4096 + RECORD);
    assert_eq!(world.settled(one), 100 * 4096);
    // A file that shares records with itself shows them as often as it has them.
    let range = (0, 200 * RECORD, 60 * RECORD);
    let copied = world.files.copy_range(one, range.0, one, range.1, range.2);
    assert_eq!(copied.unwrap(), range.2);
    assert_eq!(world.settled(one), 160 * 4096);
    world.files.unlink(ROOT, b"one").unwrap();
    assert_eq!(world.settled(other), 99 * 4096 + RECORD);
    let world = world.reopened();
    assert_eq!(world.settled(other), 99 * 4096 + RECORD);
}

/// Many files between each other's records, and changes all over them.
#[test]
fn any_changes_keep_the_sums_right() {
    let world = World::new();
    let files: Vec<Ino> = (0..5).map(|n| world.file(&format!("f{n}"), b"")).collect();
    let mut dice = 1u64;
    let mut roll = |bound: u64| {
        dice = dice
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (dice >> 33) % bound
    };
    for step in 0..300 {
        let ino = files[roll(5) as usize];
        let (at, len) = (roll(2000) * RECORD / 2, 1 + roll(4 * RECORD));
        match roll(8) {
            0 => {
                let size = size(at);
                world.files.setattr(&Caller::default(), ino, &size).unwrap();
            }
            1 => {
                let punched = world.files.fallocate(ino, at, len, Fallocate::Punch);
                punched.unwrap();
            }
            2 => world.write(ino, at, &hard(len)),
            3 => {
                let from = files[roll(5) as usize];
                let (from_at, to) = (roll(500) * RECORD, roll(500) * RECORD);
                // What overlaps is refused.
                let _ = world.files.copy_range(from, from_at, ino, to, 50 * RECORD);
            }
            _ => world.write(ino, at, &soft(len)),
        }
        if roll(10) == 0 {
            world.pool.commit().unwrap();
            let report = world.pool.check().unwrap();
            assert!(report.is_clean(), "{:?}", report.findings);
        }
        // Also what an earlier answer is remembered of.
        if roll(2) == 0 {
            assert_eq!(world.files.check_blocks().unwrap(), [], "step {step}");
        }
    }
    world.reopened().check();
}
