//! Tests which plaintext stays in memory once it is in the pool: changes here and there do,
//! what was streamed through does not.

use std::sync::Arc;

use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use cipher::Suite;
use dataset::{Dataset, PrimaryCache, Settings};
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT};

const SIZE: usize = 16 << 20;
const UNREADABLE: Fault = Fault::BadBytes {
    offset: 0,
    len: SIZE as u64,
};
const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);
const RECORD: usize = 128 << 10;
const PART: usize = RECORD / 4;

struct Bench {
    device: Arc<FaultDevice>,
    files: Arc<Dataset>,
    ino: Ino,
}

fn bench(threads: usize) -> Bench {
    let device = fault_device(SIZE, &FaultClock::new());
    let pool = create_pool(&device, SUITE);
    let files = open_files(&pool, SUITE, Settings::default(), threads);
    let node = NewNode::new(Kind::File, 0o644);
    let ino = files.create(&ROOT_USER, ROOT, b"file", &node).unwrap().ino;
    Bench { device, files, ino }
}

impl Bench {
    /// Writes these quarters of the first record, each full of its number and `salt`.
    fn write(&self, parts: &[usize], salt: u8) {
        for part in parts {
            let data = vec![*part as u8 ^ salt; PART];
            let offset = (part * PART) as u64;
            self.files.write(self.ino, offset, &data, false).unwrap();
        }
    }

    /// The first byte of a quarter, if that can be read.
    fn read(&self, part: usize) -> vfs::Result<u8> {
        let pieces = self.files.read(self.ino, (part * PART) as u64, 1)?;
        Ok(pieces[0][0])
    }

    /// The same, while nothing can be read from the device.
    fn read_from_memory(&self, part: usize) -> vfs::Result<u8> {
        self.device.inject(UNREADABLE);
        let result = self.read(part);
        self.device.heal();
        result
    }
}

#[test]
fn what_was_streamed_is_not_kept() {
    for (threads, parts) in [
        (0, &[0, 1, 2, 3][..]),
        (2, &[0, 1, 2, 3]),
        (0, &[2, 0, 1, 2, 3]),
    ] {
        let bench = bench(threads);
        bench.write(parts, 0x40);
        bench.files.sync_all().unwrap();
        bench.read_from_memory(1).unwrap_err();
        assert_eq!(bench.read(1).unwrap(), 0x41);
        assert_eq!(bench.read_from_memory(1).unwrap(), 0x41, "read in part");
    }
}

#[test]
fn what_was_changed_here_and_there_is_kept() {
    for parts in [
        &[0, 2, 1, 3][..],
        &[0, 1, 2],
        &[1, 2, 3, 0],
        &[0, 1, 1, 2, 3],
    ] {
        let bench = bench(2);
        bench.write(parts, 0x40);
        bench.files.sync_all().unwrap();
        assert_eq!(bench.read_from_memory(1).unwrap(), 0x41, "{parts:?}");
    }
}

#[test]
fn a_change_uses_what_was_kept() {
    let bench = bench(0);
    bench.write(&[3, 2, 1, 0], 0x40);
    bench.files.sync_all().unwrap();
    bench.device.inject(UNREADABLE);
    bench.write(&[2], 0x80);
    assert_eq!(bench.read(1).unwrap(), 0x41);
    assert_eq!(bench.read(2).unwrap(), 0x82);
    bench.device.heal();
    bench.files.sync_all().unwrap();
    for (part, byte) in [0x40, 0x41, 0x82, 0x43].into_iter().enumerate() {
        assert_eq!(bench.read_from_memory(part).unwrap(), byte);
    }
}

#[test]
fn a_record_that_is_written_in_small_pieces_is_streamed() {
    let bench = bench(0);
    for at in (0..2 * RECORD).step_by(4096) {
        let data = vec![(at / 4096) as u8; 4096];
        bench
            .files
            .write(bench.ino, at as u64, &data, false)
            .unwrap();
    }
    bench.files.sync_all().unwrap();
    bench.read_from_memory(0).unwrap_err();
    for part in 0..8 {
        assert_eq!(usize::from(bench.read(part).unwrap()), part * PART / 4096);
    }
}

/// With `primarycache` all, metadata or none: whether contents, and whether names and attributes, can be had
/// from memory once they were read and are not used any more.
#[test]
fn properties_say_what_stays_in_memory() {
    for (primary_cache, contents, metadata) in [
        (PrimaryCache::All, true, true),
        (PrimaryCache::Metadata, false, true),
        (PrimaryCache::None, false, false),
    ] {
        let bench = bench(2);
        bench.write(&[0, 1, 2], 0x40);
        let settings = bench.files.settings();
        bench.files.set_settings(Settings {
            primary_cache,
            ..settings
        });
        bench.files.sync_all().unwrap();
        assert_eq!(bench.read(1).unwrap(), 0x41);
        assert_eq!(
            bench.read_from_memory(1).is_ok(),
            contents,
            "{primary_cache:?}"
        );
        // Reading has changed when it was read last.
        bench.files.sync_all().unwrap();
        bench.files.getattr(bench.ino).unwrap();
        bench.device.inject(UNREADABLE);
        let looked_up = bench.files.lookup(ROOT, b"file");
        assert_eq!(looked_up.is_ok(), metadata, "{primary_cache:?}");
        bench.device.heal();
        // What is not in the pool yet is in memory all the same.
        bench.write(&[1], 0);
        assert_eq!(bench.read(1).unwrap(), 1);
        bench.files.sync_all().unwrap();
        bench.files.set_settings(settings);
        assert_eq!(bench.read(1).unwrap(), 1);
        assert_eq!(bench.read_from_memory(1).unwrap(), 1);
    }
}
