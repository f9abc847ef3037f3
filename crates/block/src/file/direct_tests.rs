//! Transfers past the cache of the system, on a file system of a disk, on one in memory, and on a disk.

use std::process::Command;

use super::*;
use crate::ownership::loop_device::{Loop, no_starts, run};

/// Returns the bytes that a test writes.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 4096) as u8).collect()
}

fn write(device: &FileDevice, offset: u64, data: &[u8]) -> Result<()> {
    device.write_at(offset, &[IoSlice::new(data)])
}

fn read(device: &FileDevice, offset: u64, len: usize) -> Vec<u8> {
    // Memory that is aligned to nothing.
    let mut buf = vec![0xaa; len + 1];
    device.read_at(offset, &mut buf[1..]).unwrap();
    buf.split_off(1)
}

/// A file whose file system allows it; none, with a reason, if there is none.
fn file(size: u64) -> Option<(tempfile::TempDir, FileDevice)> {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let device = FileDevice::create(&dir.path().join("device"), size).unwrap();
    if Alignment::begin(&device.file).is_none() {
        eprintln!("skipped: the file system of /var/tmp has no direct I/O");
        return None;
    }
    Some((dir, device.past_cache()))
}

/// A file system in memory, until it is dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(size: &str) -> Option<Tmpfs> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        let mounted = run(mount.arg(dir.path()));
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Tmpfs(dir));
        }
        eprintln!("skipped: only root may mount a file system");
        None
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        let _ = run(umount.arg("-l").arg(self.0.path()));
    }
}

#[test]
fn a_file_system_in_memory_has_none() {
    let Some(dir) = Tmpfs::new("1m") else { return };
    let device = FileDevice::create(&dir.0.path().join("device"), 8192).unwrap();
    let device = device.past_cache();
    assert_eq!(device.io_mode(), Some(IoMode::Buffered));
    assert_eq!(device.sector_sizes(), SectorSizes::COMMON);
    assert!(!device.waits_on_write());
    write(&device, 1, b"x").unwrap();
    assert_eq!(read(&device, 0, 3), b"\0x\0");
}

#[test]
fn whole_blocks_are_written_and_any_range_is_read() {
    // It ends in a block, and some writes are longer than a buffer.
    const SIZE: usize = (3 << 20) + 1000;
    let Some((_dir, device)) = file(SIZE as u64) else {
        return;
    };
    assert_eq!(device.io_mode(), Some(IoMode::Direct));
    assert!(device.waits_on_write());
    let block = device.sector_sizes().logical as usize;
    let whole = SIZE / block * block;
    let mut data = pattern(SIZE);
    data[whole..].fill(0);
    // Pieces of odd lengths, and memory that is not aligned.
    let pieces: Vec<&[u8]> = data[..whole].chunks(100_003).collect();
    let pieces: Vec<IoSlice<'_>> = pieces.into_iter().map(IoSlice::new).collect();
    device.write_at(0, &pieces).unwrap();
    for (offset, len) in [
        (0, SIZE),
        (0, 1),
        (1, 1),
        (block - 1, 2),
        (block, block),
        (511, 4097),
        (whole - 1, SIZE - whole + 1),
        (SIZE - 1, 1),
        (1, SIZE - 1),
        ((1 << 20) - 3, 1 << 20),
        (SIZE, 0),
    ] {
        let back = read(&device, offset as u64, len);
        assert!(back == data[offset..offset + len], "{offset}+{len}");
    }
    // The rest of the block is not read and written again.
    for (offset, len) in [(1, block), (0, block - 1), (block / 2, block), (whole, 1)] {
        let refused = write(&device, offset as u64, &vec![9; len]);
        assert!(
            matches!(refused, Err(Error::Misaligned { sector, .. }) if sector as usize == block),
            "{offset}+{len}: {refused:?}"
        );
    }
    assert!(matches!(
        device.write_durably_at(3, &[IoSlice::new(&vec![9; block])]),
        Err(Error::Misaligned { .. })
    ));
    assert!(matches!(
        device.read_at(1, &mut vec![0; SIZE]),
        Err(Error::OutOfRange { .. })
    ));
    assert!(read(&device, 0, SIZE) == data);
    device.flush().unwrap();
}

#[test]
fn programs_that_use_the_cache_see_the_same() {
    let Some((_dir, device)) = file(64 << 10) else {
        return;
    };
    let looks = FileDevice::open(device.path(), DeviceAccess::ReadOnly).unwrap();
    assert_eq!(looks.io_mode(), Some(IoMode::Buffered));
    for round in 1..=3u8 {
        write(&device, 4096, &[round; 8192]).unwrap();
        assert_eq!(read(&looks, 4000, 100)[96..], [round; 4]);
        device
            .write_durably_at(8192, &[IoSlice::new(&[round + 10; 4096])])
            .unwrap();
        assert_eq!(read(&looks, 8191, 2), [round, round + 10]);
        // And the other way round, before anything is flushed.
        let other = OpenOptions::new().write(true).open(device.path()).unwrap();
        other.write_all_at(&[round + 20; 3], 4097).unwrap();
        assert_eq!(read(&device, 4096, 2), [round, round + 20]);
        // What the cache has still to write is not lost below what is written past it.
        write(&device, 8192, &[0; 4096]).unwrap();
        assert_eq!(read(&device, 4097, 3), [round + 20; 3]);
    }
}

#[test]
fn a_file_grows_and_has_holes() {
    let Some((_dir, device)) = file(64 << 10) else {
        return;
    };
    write(&device, 0, &[7; 64 << 10]).unwrap();
    device.zero(4096, 8192).unwrap();
    device.discard(32 << 10, 4096).unwrap();
    assert!(device.status_at(4096, 4096).unwrap().is_hole);
    assert_eq!(read(&device, 4095, 2), [7, 0]);
    assert_eq!(read(&device, 12287, 2), [0, 7]);
    let other = OpenOptions::new().write(true).open(device.path()).unwrap();
    other.set_len((128 << 10) + 100).unwrap();
    assert_eq!(device.refresh_size().unwrap(), (128 << 10) + 100);
    write(&device, 124 << 10, &[8; 4096]).unwrap();
    let mut end = vec![8; 4096];
    end.extend([0; 100]);
    assert_eq!(read(&device, 124 << 10, 4196), end);
    // One that became smaller behind the device's back.
    other.set_len(4096 + 100).unwrap();
    for (offset, len) in [(4096, 4096), (4000, 200), (64 << 10, 1)] {
        let failed = device.read_at(offset, &mut vec![0; len]);
        assert!(
            matches!(&failed, Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::UnexpectedEof),
            "{offset}+{len}: {failed:?}"
        );
    }
    assert_eq!(read(&device, 4090, 106)[..6], [7; 6]);
}

#[test]
fn a_disk_says_how_large_its_blocks_are() {
    for sector in [512, 4096] {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("disk");
        drop(FileDevice::create(&path, 4 << 20).unwrap());
        let Some(disk) = Loop::new(&path, &["--sector-size", &sector.to_string()]) else {
            return;
        };
        let device = FileDevice::open(&disk.0, DeviceAccess::Exclusive).unwrap();
        let device = device.past_cache();
        assert!(device.lies_in_a_file());
        if device.io_mode() == Some(IoMode::Buffered) {
            eprintln!("skipped: the system does not say how direct I/O is aligned");
            return;
        }
        assert_eq!(device.sector_sizes().logical, sector);
        let data = pattern((2 << 20) + 4096);
        let at = (2 << 20) - 4096;
        write(&device, at, &data).unwrap();
        assert!(read(&device, at, data.len()) == data);
        assert_eq!(read(&device, at + 5, 7), data[5..12]);
        assert_eq!(write(&device, 512, &[1; 512]).is_ok(), sector == 512);
        device.flush().unwrap();
        device.zero(at, 8192).unwrap();
        assert!(read(&device, at, 8192) == [0; 8192]);
        let looks = FileDevice::open(&disk.0, DeviceAccess::ReadOnly).unwrap();
        assert_eq!(read(&looks, at + 8192, 9), data[8192..8201]);
        drop(device);
        drop(looks);
    }
}

/// A disk of 16 MiB that has space for one.
fn full_disk() -> Option<(Tmpfs, Loop)> {
    let dir = Tmpfs::new("1m")?;
    let path = dir.0.path().join("disk");
    drop(FileDevice::create(&path, 16 << 20).unwrap());
    let disk = Loop::new(&path, &["--sector-size", "512"])?;
    Some((dir, disk))
}

#[test]
fn what_a_flush_lost_is_not_read_and_not_forgotten() {
    let Some((_dir, disk)) = full_disk() else {
        return;
    };
    let _starts = no_starts();
    let device = FileDevice::open(&disk.0, DeviceAccess::Exclusive).unwrap();
    write(&device, 0, &[7; 8 << 20]).unwrap();
    device.flush().unwrap_err();
    // The system has told it, and would say now that all is well.
    assert!(device.file.sync_data().is_ok());
    let again = device.flush().unwrap_err();
    assert!(again.to_string().contains("open it again"), "{again}");
    write(&device, 0, &[8; 4096]).unwrap();
    device.flush().unwrap_err();
    drop(device);
    let device = FileDevice::open(&disk.0, DeviceAccess::Exclusive).unwrap();
    device.flush().unwrap();
    let mut found = vec![0; 8 << 20];
    // What is not there cannot be read, or is not what was written.
    let is_there = device.read_at(0, &mut found).is_ok() && found[4096..].iter().all(|b| *b == 7);
    assert!(!is_there);
}

#[test]
fn a_disk_that_is_full_says_so_at_once() {
    let Some((_dir, disk)) = full_disk() else {
        return;
    };
    let device = FileDevice::open(&disk.0, DeviceAccess::Exclusive).unwrap();
    let device = device.past_cache();
    if device.io_mode() != Some(IoMode::Direct) {
        eprintln!("skipped: the device is not used past the cache");
        return;
    }
    write(&device, 0, &[7; 8 << 20]).unwrap_err();
}

/// A compressed disk in memory, until it is dropped.
struct Zram(u32);

impl Zram {
    fn new(size: u64) -> Option<Zram> {
        let number = std::fs::read_to_string("/sys/class/zram-control/hot_add");
        let Ok(number) = number else {
            eprintln!("skipped: no zram device can be made here");
            return None;
        };
        let zram = Zram(number.trim_end().parse().unwrap());
        let size_file = format!("/sys/block/zram{}/disksize", zram.0);
        std::fs::write(size_file, size.to_string()).unwrap();
        Some(zram)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", self.0.to_string());
    }
}

/// A part of some memory that is aligned to 512 bytes, and to no more.
fn aligned_to_512(memory: &mut [u8]) -> &mut [u8] {
    let address = memory.as_ptr().addr();
    &mut memory[address.next_multiple_of(4096) - address + 512..]
}

#[test]
fn memory_that_is_aligned_to_less_than_a_page_is_copied() {
    let mut memory = vec![0; 3 * 4096];
    let memory = aligned_to_512(&mut memory);
    for at in [0, 1, 512, 2048, 3583] {
        assert!(!direct::suits(&memory[at..]), "{at}");
    }
    assert!(direct::suits(&memory[4096 - 512..]));
}

#[test]
fn a_compressed_disk_in_memory_keeps_what_it_gets() {
    const LEN: usize = 64 << 10;
    let Some(zram) = Zram::new(16 << 20) else {
        return;
    };
    let path = PathBuf::from(format!("/dev/zram{}", zram.0));
    let device = FileDevice::open(&path, DeviceAccess::Exclusive).unwrap();
    let device = device.past_cache();
    assert_eq!(device.io_mode(), Some(IoMode::Direct));
    let data = pattern(LEN);
    let mut memory = vec![0; LEN + 2 * 4096];
    let memory = &mut aligned_to_512(&mut memory)[..LEN];
    for round in 0..8u64 {
        memory.copy_from_slice(&data);
        write(&device, round * LEN as u64, memory).unwrap();
        memory.fill(0);
        device.read_at(round * LEN as u64, memory).unwrap();
        assert!(memory == data);
        assert!(read(&device, round * LEN as u64, LEN) == data);
    }
    device.flush().unwrap();
    drop(device);
}
