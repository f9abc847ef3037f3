//! Names: making, finding, moving, listing and removing them.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// `O_NOFOLLOW`
const O_NOFOLLOW: i32 = 0o400000;

fn listing(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn directories_come_and_go() {
    let mounted = mounted_or_skip!();
    fs::create_dir_all(mounted.path("a/b/c")).unwrap();
    assert_eq!(fs::metadata(mounted.path("a")).unwrap().nlink(), 3);
    let error = fs::remove_dir(mounted.path("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    let error = fs::create_dir(mounted.path("a/b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    fs::write(mounted.path("a/b/file"), b"x").unwrap();
    fs::remove_dir_all(mounted.path("a")).unwrap();
    assert!(mounted.fs.wait_for_inodes(1));
    assert!(mounted.fs.wait_for_no_lookups());
}

#[test]
fn links() {
    let mounted = mounted_or_skip!();
    fs::write(mounted.path("one"), b"contents").unwrap();
    fs::hard_link(mounted.path("one"), mounted.path("two")).unwrap();
    assert_eq!(fs::metadata(mounted.path("one")).unwrap().nlink(), 2);
    fs::remove_file(mounted.path("one")).unwrap();
    assert_eq!(fs::metadata(mounted.path("two")).unwrap().nlink(), 1);
    assert_eq!(fs::read(mounted.path("two")).unwrap(), b"contents");
    symlink("two", mounted.path("sym")).unwrap();
    assert_eq!(
        fs::read_link(mounted.path("sym")).unwrap(),
        Path::new("two")
    );
    assert_eq!(fs::read(mounted.path("sym")).unwrap(), b"contents");
    assert_eq!(fs::symlink_metadata(mounted.path("sym")).unwrap().len(), 3);
    let mut options = fs::OpenOptions::new();
    let error = options
        .read(true)
        .custom_flags(O_NOFOLLOW)
        .open(mounted.path("sym"))
        .unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    let long = "x".repeat(4095);
    symlink(&long, mounted.path("long")).unwrap();
    assert_eq!(
        fs::read_link(mounted.path("long")).unwrap(),
        Path::new(&long)
    );
}

#[test]
fn special_files() {
    let mounted = mounted_or_skip!();
    let mode = Mode::from_raw_mode(0o640);
    let make =
        |name, kind, device| rustix::fs::mknodat(CWD, mounted.path(name), kind, mode, device);
    make("fifo", FileType::Fifo, 0).unwrap();
    assert!(
        fs::symlink_metadata(mounted.path("fifo"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    make("plain", FileType::RegularFile, 0).unwrap();
    assert!(fs::metadata(mounted.path("plain")).unwrap().is_file());
    let socket = mounted.path("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(
        fs::symlink_metadata(&socket)
            .unwrap()
            .file_type()
            .is_socket()
    );
    if rustix::process::geteuid().is_root() {
        let number = rustix::fs::makedev(0x123, 0x45678);
        make("device", FileType::CharacterDevice, number).unwrap();
        let found = fs::symlink_metadata(mounted.path("device")).unwrap();
        assert!(found.file_type().is_char_device());
        assert_eq!(found.rdev(), number);
        // The same through `STATX`, which writes it differently.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
        let mask = rustix::fs::StatxFlags::BASIC_STATS | rustix::fs::StatxFlags::BTIME;
        let found = rustix::fs::statx(CWD, mounted.path("device"), flags, mask).unwrap();
        assert_eq!(
            (found.stx_rdev_major, found.stx_rdev_minor),
            (0x123, 0x45678)
        );
    }
}

#[test]
fn the_umask_is_applied() {
    let mounted = mounted_or_skip!();
    let mode = |name: &str| {
        fs::metadata(mounted.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    let before = rustix::process::umask(Mode::from_raw_mode(0o027));
    let mut options = fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .mode(0o666)
        .open(mounted.path("file"))
        .unwrap();
    fs::create_dir(mounted.path("dir")).unwrap();
    rustix::process::umask(before);
    assert_eq!(mode("file"), 0o640);
    assert_eq!(mode("dir"), 0o750);
}

#[test]
fn renames_with_conditions() {
    let mounted = mounted_or_skip!();
    let rename = |old: &str, new: &str, flags| {
        rustix::fs::renameat_with(CWD, mounted.path(old), CWD, mounted.path(new), flags)
    };
    let read = |name: &str| fs::read_to_string(mounted.path(name)).unwrap();
    fs::write(mounted.path("a"), "a").unwrap();
    fs::write(mounted.path("b"), "b").unwrap();
    assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename("a", "c", RenameFlags::NOREPLACE).unwrap();
    rename("b", "c", RenameFlags::EXCHANGE).unwrap();
    assert_eq!((read("b"), read("c")), ("a".to_owned(), "b".to_owned()));
    fs::create_dir(mounted.path("dir")).unwrap();
    rename("dir", "c", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(read("dir"), "b");
    assert_eq!(
        rename("b", "nothing", RenameFlags::EXCHANGE),
        Err(Errno::NOENT)
    );
    rename("b", "d", RenameFlags::WHITEOUT).unwrap();
    let whiteout = fs::metadata(mounted.path("b")).unwrap();
    assert!(whiteout.file_type().is_char_device());
    assert_eq!((whiteout.rdev(), whiteout.mode() & 0o7777), (0, 0));
    rename("d", "b", RenameFlags::empty()).unwrap();
    assert_eq!(
        fs::metadata(mounted.path("d")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    fs::rename(mounted.path("b"), mounted.path("c/b")).unwrap();
    assert_eq!(read("c/b"), "a");
    let error = fs::rename(mounted.path("c"), mounted.path("c/b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn names_have_limits() {
    let mounted = mounted_or_skip!();
    let name = "ä".repeat(127);
    fs::write(mounted.path(&name), b"x").unwrap();
    assert_eq!(listing(mounted.dir.path()), set(&[&name]));
    let error = fs::write(mounted.path(&"x".repeat(256)), b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFilename);
}

#[test]
fn names_that_do_not_exist_are_remembered() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("nothing");
    assert!(!path.exists());
    let asked = mounted.count("LOOKUP");
    (0..100).for_each(|_| assert!(!path.exists()));
    assert_eq!(mounted.count("LOOKUP"), asked);
    fs::write(&path, b"something").unwrap();
    assert!(path.exists());
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_listing_is_never_stale() {
    let mounted = mounted_or_skip!();
    let root = mounted.dir.path();
    fs::create_dir(mounted.path("sub")).unwrap();
    for round in 0..3 {
        // Twice, so that the second comes from the kernel's cache.
        assert_eq!(listing(root), set(&["sub"]), "{round}");
        assert_eq!(listing(root), set(&["sub"]));
        fs::write(mounted.path("file"), b"x").unwrap();
        assert_eq!(listing(root), set(&["file", "sub"]));
        fs::rename(mounted.path("file"), mounted.path("renamed")).unwrap();
        assert_eq!(listing(root), set(&["renamed", "sub"]));
        fs::rename(mounted.path("renamed"), mounted.path("sub/moved")).unwrap();
        assert_eq!(listing(root), set(&["sub"]));
        assert_eq!(listing(&mounted.path("sub")), set(&["moved"]));
        fs::hard_link(mounted.path("sub/moved"), mounted.path("link")).unwrap();
        symlink("link", mounted.path("sym")).unwrap();
        fs::create_dir(mounted.path("dir")).unwrap();
        assert_eq!(listing(root), set(&["dir", "link", "sub", "sym"]));
        fs::remove_dir(mounted.path("dir")).unwrap();
        fs::remove_file(mounted.path("link")).unwrap();
        fs::remove_file(mounted.path("sym")).unwrap();
        fs::remove_file(mounted.path("sub/moved")).unwrap();
        assert_eq!(listing(&mounted.path("sub")), set(&[]));
    }
}

#[test]
fn a_listing_that_is_repeated_costs_nothing() {
    let mounted = mounted_or_skip!();
    (0..1000).for_each(|i| drop(File::create(mounted.path(&format!("{i}"))).unwrap()));
    assert_eq!(listing(mounted.dir.path()).len(), 1000);
    let asked = |mounted: &common::Mounted| {
        mounted.count("READDIR") + mounted.count("READDIRPLUS") + mounted.count("OPENDIR")
    };
    // The first may have been disturbed by attributes that were still to be fetched.
    assert_eq!(listing(mounted.dir.path()).len(), 1000);
    let before = asked(&mounted);
    assert_eq!(listing(mounted.dir.path()).len(), 1000);
    assert_eq!(asked(&mounted), before);
}

#[test]
fn a_directory_can_be_emptied_while_it_is_listed() {
    let mounted = mounted_or_skip!();
    (0..3000).for_each(|i| drop(File::create(mounted.path(&format!("{i}"))).unwrap()));
    let mut seen = 0;
    for entry in fs::read_dir(mounted.dir.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        seen += 1;
    }
    assert_eq!(seen, 3000);
    assert!(listing(mounted.dir.path()).is_empty());
    assert!(mounted.fs.wait_for_inodes(1));
}

#[test]
fn what_appears_during_a_listing_does_not_disturb_it() {
    let mounted = mounted_or_skip!();
    (0..2000).for_each(|i| drop(File::create(mounted.path(&format!("old-{i}"))).unwrap()));
    let mut names = BTreeSet::new();
    for (i, entry) in fs::read_dir(mounted.dir.path()).unwrap().enumerate() {
        if i % 10 == 0 && i < 2000 {
            drop(File::create(mounted.path(&format!("new-{i}"))).unwrap());
            // Lists the directory from the start in between.
            assert!(listing(mounted.dir.path()).contains(&format!("new-{i}")));
        }
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.insert(name.clone()), "{name} twice");
    }
    assert_eq!(
        names.iter().filter(|name| name.starts_with("old")).count(),
        2000
    );
}

#[test]
fn listing_with_attributes_gives_back_what_it_looks_up() {
    let mounted = mounted_or_skip!();
    (0..500).for_each(|i| drop(File::create(mounted.path(&format!("{i}"))).unwrap()));
    for entry in fs::read_dir(mounted.dir.path()).unwrap() {
        assert!(entry.unwrap().metadata().unwrap().is_file());
    }
    assert!(mounted.count("READDIRPLUS") > 0);
    for i in 0..500 {
        fs::remove_file(mounted.path(&format!("{i}"))).unwrap();
    }
    assert!(mounted.fs.wait_for_no_lookups());
    assert!(mounted.fs.wait_for_inodes(1));
}

#[test]
fn a_file_without_a_name_gets_one() {
    let mounted = mounted_or_skip!();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o600);
    let file = rustix::fs::open(mounted.dir.path(), flags, mode).unwrap();
    rustix::io::write(&file, b"nameless").unwrap();
    assert!(listing(mounted.dir.path()).is_empty());
    let proc = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let target = mounted.path("named");
    rustix::fs::linkat(CWD, proc, CWD, &target, AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(file);
    assert_eq!(fs::read(&target).unwrap(), b"nameless");
    assert_eq!(fs::metadata(&target).unwrap().nlink(), 1);
    drop(rustix::fs::open(mounted.dir.path(), flags, mode).unwrap());
    assert!(
        mounted.fs.wait_for_inodes(2),
        "one is named, the other is gone"
    );
}

#[test]
fn locks_work_without_asking_the_file_system() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    let one = File::create(&path).unwrap();
    let two = File::open(&path).unwrap();
    one.lock().unwrap();
    assert!(two.try_lock().is_err());
    one.unlock().unwrap();
    two.try_lock().unwrap();
    assert_eq!(mounted.count("OTHER"), 0);
}
