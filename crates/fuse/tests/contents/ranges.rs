//! Holes, allocation, copies of ranges, and making things durable.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex};

use fuse::Options;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use crate::common;
use crate::mounted_or_skip;

fn open(mounted: &common::Mounted, name: &str) -> File {
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(mounted.path(name))
        .unwrap()
}

#[test]
fn holes_are_found() {
    let mounted = mounted_or_skip!();
    let file = open(&mounted, "file");
    file.write_all_at(b"data", 10 << 20).unwrap();
    file.set_len(20 << 20).unwrap();
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(10 << 20));
    assert_eq!(seek(SeekFrom::Data((10 << 20) + 2)), Ok((10 << 20) + 2));
    assert_eq!(seek(SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(SeekFrom::Hole(10 << 20)), Ok((10 << 20) + 4096));
    assert_eq!(seek(SeekFrom::Data(11 << 20)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(20 << 20)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::End(-1)), Ok((20 << 20) - 1));
    assert_eq!(file.metadata().unwrap().blocks(), 8);
}

#[test]
fn data_that_only_the_kernel_has_is_no_hole() {
    let mounted = mounted_or_skip!(&Options {
        writeback_cache: true,
        ..Options::default()
    });
    let file = open(&mounted, "file");
    file.set_len(1 << 20).unwrap();
    file.write_all_at(b"data", 500_000).unwrap();
    assert_eq!(
        mounted.count("WRITE"),
        0,
        "the kernel should have kept this"
    );
    let found = rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap();
    assert_eq!(found, 500_000 / 4096 * 4096);
    file.write_all_at(b"more", 1 << 20).unwrap();
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Data(600_000)),
        Ok(1 << 20)
    );
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Data(2 << 20)),
        Err(Errno::NXIO)
    );
}

#[test]
fn many_searches_for_data_at_the_same_time() {
    let mounted = mounted_or_skip!(&Options {
        writeback_cache: true,
        threads: std::num::NonZeroUsize::new(1),
        ..Options::default()
    });
    std::thread::scope(|scope| {
        for number in 0..8 {
            let mounted = &mounted;
            scope.spawn(move || {
                let file = open(mounted, &format!("{number}"));
                for round in 1..50 {
                    let at = round * 1_000_000;
                    file.write_all_at(b"data", at).unwrap();
                    let found = rustix::fs::seek(&file, SeekFrom::Data(at - 900_000)).unwrap();
                    assert_eq!(found, at / 4096 * 4096);
                }
            });
        }
    });
}

#[test]
fn allocating_punching_and_zeroing() {
    let mounted = mounted_or_skip!();
    let file = open(&mounted, "file");
    let allocate = |flags, at, len| rustix::fs::fallocate(&file, flags, at, len);
    allocate(FallocateFlags::empty(), 0, 40_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 40_000);
    assert_eq!(file.metadata().unwrap().blocks(), 80);
    allocate(FallocateFlags::KEEP_SIZE, 40_000, 40_960).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 40_000);
    file.write_all_at(&[7; 40_000], 0).unwrap();
    allocate(
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        5000,
        10_000,
    )
    .unwrap();
    let mut expected = [7; 40_000];
    expected[5000..15_000].fill(0);
    assert_eq!(fs::read(mounted.path("file")).unwrap(), expected);
    allocate(FallocateFlags::ZERO_RANGE, 39_000, 3000).unwrap();
    expected[39_000..].fill(0);
    let all = fs::read(mounted.path("file")).unwrap();
    assert_eq!(all.len(), 42_000);
    assert_eq!(all[..40_000], expected);
    let shift = allocate(FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(shift, Err(Errno::OPNOTSUPP));
}

#[test]
fn ranges_are_copied_by_the_file_system() {
    for writeback_cache in [false, true] {
        let mounted = mounted_or_skip!(&Options {
            writeback_cache,
            ..Options::default()
        });
        let from = open(&mounted, "from");
        let to = open(&mounted, "to");
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        from.write_all_at(&data, 0).unwrap();
        to.write_all_at(b"before", 0).unwrap();
        let (mut at, mut to_at) = (1000, 3);
        let mut left = 2_000_000;
        while left > 0 {
            let copied =
                rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), left);
            left -= copied.unwrap();
        }
        let copy = fs::read(mounted.path("to")).unwrap();
        assert_eq!(copy[..3], *b"bef");
        assert!(copy[3..] == data[1000..2_001_000], "{writeback_cache}");
        let narrow = mounted.count("COPY_FILE_RANGE");
        assert!(narrow + mounted.count("COPY_FILE_RANGE_64") > 0);
    }
}

#[test]
fn fsync_reaches_the_file_system() {
    let mounted = mounted_or_skip!();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    mounted
        .fs
        .set_hook(move |what, _| noted.lock().unwrap().push(what));
    let file = open(&mounted, "file");
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(mounted.dir.path()).unwrap().sync_all().unwrap();
    assert_eq!(*seen.lock().unwrap(), ["write", "fsync", "fsync", "fsync"]);
}
