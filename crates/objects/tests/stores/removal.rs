//! The removal of devices, beside machines that take them.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess};
use objects::store::executor;
use objects::{Error, ObjectDevice, OutageObserver, StorePatience};

use crate::folder;

const SIZE: u64 = 64 << 20;
const HEADER: u64 = 1 << 20;

fn open(path: &Path, access: DeviceAccess) -> ObjectDevice {
    let waits: (_, OutageObserver) = (&Arc::new(StorePatience::default()), Arc::new(|| ()));
    let store = folder::client(path).store;
    ObjectDevice::open(store, executor(), access, waits).unwrap()
}

/// A machine that takes the device and writes. It ends with what this returns.
fn write(path: &Path) -> ObjectDevice {
    let device = open(path, DeviceAccess::Exclusive);
    device
        .write_at(HEADER, &[IoSlice::new(&[7; 4096])])
        .unwrap();
    device.flush().unwrap();
    device
}

#[test]
fn a_device_that_another_machine_has_taken_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let client = folder::client(path);
    let names = || client.list("", None, 1000).unwrap();
    ObjectDevice::create(&client.store, &executor(), SIZE, HEADER).unwrap();
    drop(write(path));
    let stays = |seen: ObjectDevice| {
        let before = names();
        let refused = seen.remove_unchanged();
        assert!(matches!(refused, Err(Error::Changed { .. })), "{refused:?}");
        assert_eq!(names(), before);
    };
    // Taken and given back, or taken, after it was looked at.
    let seen = open(path, DeviceAccess::ReadOnly);
    drop(write(path));
    stays(seen);
    let seen = open(path, DeviceAccess::ReadOnly);
    let writer = write(path);
    stays(seen);
    // Taken before that. The other machine has perhaps written nothing yet.
    stays(open(path, DeviceAccess::ReadOnly));
    writer
        .write_at(HEADER, &[IoSlice::new(&[8; 4096])])
        .unwrap();
    writer.flush().unwrap();
    drop(writer);
    let before = names().len() as u64;
    let seen = open(path, DeviceAccess::ReadOnly);
    // All that was there, and the object that took the line.
    assert_eq!(seen.remove_unchanged().unwrap(), before + 1);
    assert!(names().is_empty());
}
