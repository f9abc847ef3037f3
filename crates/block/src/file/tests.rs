use std::os::unix::fs::MetadataExt;

use super::create::{create_in_place, create_whole};
use super::pieces::write_rest;
use super::*;

fn temp(size: u64) -> (tempfile::TempDir, FileDevice) {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::create(&dir.path().join("device"), size).unwrap();
    (dir, device)
}

#[test]
fn pieces_land_one_after_the_other() {
    let (_dir, device) = temp(8192);
    let pieces: Vec<Vec<u8>> = (0..2000u32).map(|i| vec![i as u8; 3]).collect();
    let slices: Vec<IoSlice> = pieces.iter().map(|p| IoSlice::new(p)).collect();
    device.write_at(100, &slices).unwrap();
    let mut back = vec![0; 6000];
    device.read_at(100, &mut back).unwrap();
    assert_eq!(back, pieces.concat());
}

#[test]
fn a_short_vectored_write_is_finished() {
    let (_dir, device) = temp(4096);
    let group = [
        IoSlice::new(b"abc"),
        IoSlice::new(b""),
        IoSlice::new(b"defg"),
    ];
    for written in 0..=7 {
        device.zero(0, 4096).unwrap();
        device
            .write_at(10, &[IoSlice::new(&b"abcdefg"[..written])])
            .unwrap();
        write_rest(&device.file, 10, &group, written).unwrap();
        let mut back = [0; 8];
        device.read_at(10, &mut back).unwrap();
        assert_eq!(&back, b"abcdefg\0");
    }
}

#[test]
fn zeroing_works_where_holes_do_not() {
    use rustix::io::Errno;
    for refusal in [Errno::OPNOTSUPP, Errno::NODEV, Errno::NOSPC] {
        let (_dir, device) = temp(3 << 20);
        device.write_at(0, &[IoSlice::new(&[7; 3 << 20])]).unwrap();
        *device.refuses_holes.lock().unwrap() = Some(refusal);
        let zeroed = device.zero(100, 2 << 20);
        let discarded = device.discard(0, 4096);
        if refusal == Errno::NOSPC {
            assert!(zeroed.unwrap_err().is_no_space());
            assert!(discarded.is_err(), "a failure is not taken for a refusal");
            continue;
        }
        zeroed.unwrap();
        discarded.unwrap();
        let mut back = vec![1; 3 << 20];
        device.read_at(0, &mut back).unwrap();
        let end = 100 + (2 << 20);
        assert!(back[..100].iter().chain(&back[end..]).all(|b| *b == 7));
        assert!(back[100..end].iter().all(|b| *b == 0));
        assert!(device.zero(3 << 20, 1).is_err(), "out of range");
    }
}

#[test]
fn holes_are_told_from_data() {
    let (_dir, device) = temp(1 << 20);
    device
        .write_durably_at(256 << 10, &[IoSlice::new(&[7; 128 << 10])])
        .unwrap();
    let hole = |len| RangeStatus {
        len,
        is_hole: true,
        is_zero: true,
    };
    let data = |len| RangeStatus {
        len,
        is_hole: false,
        is_zero: false,
    };
    let status = |offset, len| device.status_at(offset, len).unwrap();
    assert_eq!(status(0, 1 << 20), hole(256 << 10));
    assert_eq!(status(4096, 4096), hole(4096));
    assert_eq!(status(256 << 10, 1 << 19), data(128 << 10));
    assert_eq!(status(300 << 10, 512), data(512));
    assert_eq!(status(384 << 10, 640 << 10), hole(640 << 10));
    assert!(device.status_at(1 << 20, 1).is_err());
    assert!(device.zero_fast(256 << 10, 128 << 10).unwrap());
    assert_eq!(status(0, 1 << 20), hole(1 << 20));
    *device.refuses_holes.lock().unwrap() = Some(Errno::OPNOTSUPP);
    device.write_at(0, &[IoSlice::new(b"kept")]).unwrap();
    assert!(!device.zero_fast(0, 4).unwrap());
    let mut back = [0; 4];
    device.read_at(0, &mut back).unwrap();
    assert_eq!(&back, b"kept", "nothing is done where it would be slow");
}

#[test]
fn a_file_that_grows_is_longer_once_its_size_is_asked_for() {
    let (_dir, device) = temp(4096);
    let other = OpenOptions::new().write(true).open(device.path()).unwrap();
    other.set_len(8192).unwrap();
    assert_eq!(device.size(), 4096);
    assert_eq!(device.refresh_size().unwrap(), 8192);
    device.read_at(4096, &mut [0; 4096]).unwrap();
}

#[test]
fn overwriting_does_not_make_holes() {
    use std::os::unix::fs::MetadataExt;
    let (_dir, device) = temp(1 << 20);
    device.write_at(0, &[IoSlice::new(&[7; 1 << 20])]).unwrap();
    device.overwrite(0, 1 << 20).unwrap();
    device.flush().unwrap();
    assert!(device.file.metadata().unwrap().blocks() * 512 >= 1 << 20);
    let mut back = vec![1; 1 << 20];
    device.read_at(0, &mut back).unwrap();
    assert!(back.iter().all(|b| *b == 0));
}

#[test]
fn a_new_file_is_there_whole_and_never_replaces_another() {
    let dir = tempfile::tempdir().unwrap();
    for make in [create_whole, create_in_place] {
        let path = dir.path().join("new");
        let file = make(&path, 1 << 20).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (1 << 20, 0o600));
        let error = make(&path, 1 << 21).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        std::fs::remove_file(&path).unwrap();
    }
    let missing = FileDevice::create(&dir.path().join("no/where"), 1 << 20);
    assert!(matches!(missing, Err(Error::Open { source, .. })
        if source.kind() == io::ErrorKind::NotFound));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_size_that_the_file_system_refuses_names_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    // No file system of Linux has files of 2^63 bytes.
    for make in [FileDevice::create, FileDevice::rehearse] {
        let error = make(&path, 1 << 63).map(drop).unwrap_err();
        let Error::TooLarge { limit, .. } = &error else {
            panic!("{error}");
        };
        let limit = limit.unwrap();
        assert!(error.to_string().contains(&limit.to_string()), "{error}");
        if limit < 1 << 62 {
            // A file of this size is possible, and of one byte more is not.
            drop(FileDevice::rehearse(&path, limit).unwrap());
            let more = FileDevice::rehearse(&path, limit + 1).map(drop);
            assert!(matches!(more, Err(Error::TooLarge { .. })), "{more:?}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn one_owner_at_a_time() {
    let (_dir, device) = temp(4096);
    let path = device.path().to_owned();
    let refused = FileDevice::open(&path, DeviceAccess::Exclusive)
        .err()
        .unwrap();
    assert!(matches!(refused, Error::Busy { .. }));
    let own = format!("in use by process {} (", std::process::id());
    let listed = std::fs::read_to_string("/proc/locks").unwrap();
    let inode = std::fs::metadata(&path).unwrap().ino();
    // Some file systems show other numbers there.
    if listed.contains(&format!(":{inode} ")) {
        assert!(refused.to_string().contains(&own), "{refused}");
    }
    FileDevice::open(&path, DeviceAccess::ReadOnly).unwrap();
    drop(device);
    FileDevice::open(&path, DeviceAccess::Exclusive).unwrap();
}

#[test]
fn refuses_what_is_not_a_device() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        FileDevice::open(path, DeviceAccess::Exclusive)
            .err()
            .unwrap()
    };
    assert!(open(dir.path()).to_string().contains("directory"));
    assert!(matches!(
        open(Path::new("/dev/null")),
        Error::NotADevice {
            what: "a character device",
            ..
        }
    ));
    assert!(matches!(open(&dir.path().join("none")), Error::Open { .. }));
    let (_dir, device) = temp(4096);
    assert!(matches!(
        FileDevice::create(device.path(), 1),
        Err(Error::Open { .. })
    ));
}

#[test]
fn read_only_refuses_changes() {
    let (_dir, device) = temp(4096);
    let device = FileDevice::open(device.path(), DeviceAccess::ReadOnly).unwrap();
    assert!(matches!(
        device.write_at(0, &[IoSlice::new(b"x")]),
        Err(Error::ReadOnly { .. })
    ));
    assert!(matches!(
        device.discard(0, 512),
        Err(Error::ReadOnly { .. })
    ));
}

#[test]
fn a_file_cut_short_behind_our_back_is_an_error() {
    let (_dir, device) = temp(8192);
    std::fs::OpenOptions::new()
        .write(true)
        .open(device.path())
        .unwrap()
        .set_len(4096)
        .unwrap();
    assert!(matches!(
        device.read_at(4000, &mut [0; 200]),
        Err(Error::Io { .. })
    ));
}

/// A read of the medium alone does not forgive a failed flush.
#[test]
fn a_failed_flush_is_forgiven_only_by_beginning_anew() {
    let (_dir, device) = temp(8192);
    let fails = || Err::<(), _>(io::Error::other("lost"));
    device.flushes.write_durably(fails).unwrap_err();
    device.drop_cached().unwrap();
    device.flush().unwrap_err();
    device.begin_anew().unwrap();
    device.flush().unwrap();
}
