//! Owners of files, of loop devices in them, and of parts of both.

use std::process::Command;

use super::*;
use crate::ownership::loop_device::{Loop, no_starts, run};
use crate::{DeviceAccess, Error, FileDevice};

const SIZE: u64 = 8 << 20;
const MIB: u64 = 1 << 20;

/// A loop device over some MiB of a file.
fn loop_over(file: &Path, start: u64, len: u64) -> Option<Loop> {
    let offset = format!("--offset={}", start * MIB);
    let limit = format!("--sizelimit={}", len * MIB);
    Loop::new(file, &[&offset, &limit])
}

fn image() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    drop(FileDevice::create(&path, SIZE).unwrap());
    (dir, path)
}

fn own(path: &Path) -> Result<FileDevice> {
    FileDevice::open(path, DeviceAccess::Exclusive)
}

/// Fails unless the owner of one keeps out that of the other, and is named, until it lets go.
fn exclude(one: &Path, other: &Path) {
    let _starts = no_starts();
    for (one, other) in [(one, other), (other, one)] {
        let owned = own(one).unwrap();
        let Err(Error::Busy { path, holder }) = own(other) else {
            panic!("{} and {} have two owners", one.display(), other.display());
        };
        assert_eq!(path, other.display().to_string());
        let process = format!("process {} (", std::process::id());
        assert!(holder.starts_with(&process), "{holder}");
        // Others may look.
        FileDevice::open(other, DeviceAccess::ReadOnly).unwrap();
        drop(owned);
        drop(own(other).unwrap());
    }
}

/// Fails unless both can have owners.
fn coexist(one: &Path, other: &Path) {
    let _starts = no_starts();
    let _one = own(one).unwrap();
    own(other).unwrap();
}

#[test]
fn a_file_and_its_loop_devices_have_one_owner() {
    let (_dir, file) = image();
    let (Some(one), Some(two)) = (Loop::new(&file, &[]), Loop::new(&file, &[])) else {
        return;
    };
    exclude(&file, &one.0);
    exclude(&one.0, &two.0);
}

#[test]
fn owners_of_parts_of_a_file_exclude_each_other_where_these_overlap() {
    let (_dir, file) = image();
    let parts = [(0, 2), (2, 2), (3, 2)].map(|(start, len)| loop_over(&file, start, len));
    let [Some(first), Some(second), Some(third)] = parts else {
        return;
    };
    coexist(&first.0, &second.0);
    coexist(&first.0, &third.0);
    exclude(&second.0, &third.0);
    exclude(&second.0, &file);
    let Some(tail) = Loop::new(&file, &["--offset=4194304"]) else {
        return;
    };
    coexist(&second.0, &tail.0);
    exclude(&third.0, &tail.0);
}

#[test]
fn what_lies_below_a_loop_device_over_another_one_is_locked_too() {
    let (_dir, file) = image();
    let Some(lower) = Loop::new(&file, &[]) else {
        return;
    };
    let Some(upper) = loop_over(&lower.0, 1, 2) else {
        return;
    };
    let (Some(same), Some(other)) = (loop_over(&file, 2, 2), loop_over(&file, 3, 2)) else {
        return;
    };
    exclude(&upper.0, &lower.0);
    exclude(&upper.0, &file);
    exclude(&upper.0, &same.0);
    coexist(&upper.0, &other.0);
}

#[test]
fn partitions_of_a_loop_device_have_owners_of_their_own() {
    let (_dir, file) = image();
    // The table of a disk with two partitions of 2 MiB.
    let mut table = [0; 512];
    for (at, start) in [(446, 2048u32), (462, 6144)] {
        table[at + 4] = 0x83;
        table[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        table[at + 12..at + 16].copy_from_slice(&4096u32.to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    std::os::unix::fs::FileExt::write_all_at(
        &OpenOptions::new().write(true).open(&file).unwrap(),
        &table,
        0,
    )
    .unwrap();
    let Some(disk) = Loop::new(&file, &["--partscan"]) else {
        return;
    };
    // Not every kernel reads the table.
    let _ = run(Command::new("partx").arg("--add").arg(&disk.0));
    let part = |number| PathBuf::from(format!("{}p{number}", disk.0.display()));
    let (one, two) = (part(1), part(2));
    if !one.exists() || !two.exists() {
        return eprintln!("skipped: the kernel makes no partitions of loop devices here");
    }
    coexist(&one, &two);
    exclude(&one, &file);
    let (Some(same), Some(other)) = (loop_over(&file, 2, 2), loop_over(&file, 5, 2)) else {
        return;
    };
    exclude(&one, &same.0);
    coexist(&one, &other.0);
}

#[test]
fn another_file_at_the_path_of_a_deleted_one_is_not_locked() {
    let (dir, file) = image();
    let Some(one) = Loop::new(&file, &[]) else {
        return;
    };
    let _starts = no_starts();
    std::fs::remove_file(&file).unwrap();
    // The kernel shows this path now.
    let shown = dir.path().join("image (deleted)");
    drop(FileDevice::create(&shown, SIZE).unwrap());
    let _owner = own(&shown).unwrap();
    own(&one.0).unwrap();
    drop(FileDevice::create(&file, SIZE).unwrap());
    let _owner = own(&file).unwrap();
    own(&one.0).unwrap();
}

#[test]
fn an_extent_of_a_part_is_one_of_the_whole() {
    let extent = |start, end| LockExtent { start, end };
    let all = LockExtent::default();
    assert_eq!(all.within(all), all);
    assert_eq!(all.within(extent(5, Some(9))), extent(5, Some(9)));
    assert_eq!(
        extent(1, Some(3)).within(extent(5, None)),
        extent(6, Some(8))
    );
    assert_eq!(
        extent(1, Some(8)).within(extent(5, Some(9))),
        extent(6, Some(9))
    );
    let last = extent(u64::MAX, Some(u64::MAX));
    assert_eq!(last.within(last), last);
}
