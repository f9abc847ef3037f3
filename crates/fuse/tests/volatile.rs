//! Directories that change behind the kernel.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use common::Mounted;
use rustix::fs::{RawDir, SeekFrom};
use vfs::{Caller, FileSystem, Ino, Kind, NewNode, ROOT, SetAttr, Trust};

/// Makes a directory without the kernel's knowledge.
fn make_behind(mounted: &Mounted, parent: Ino, name: &str) -> Ino {
    let node = NewNode::new(Kind::Directory, 0o755);
    let attr = mounted
        .fs
        .mkdir(&Caller::default(), parent, name.as_bytes(), &node)
        .unwrap();
    mounted.fs.forget(attr.ino, 1);
    attr.ino
}

fn remove_behind(mounted: &Mounted, parent: Ino, name: &str) {
    mounted.fs.rmdir(parent, name.as_bytes()).unwrap();
}

fn volatile(mounted: &Mounted) -> Ino {
    let ino = make_behind(mounted, ROOT, "volatile");
    mounted.fs.set_trust(ino, Trust::Once);
    ino
}

/// Returns the listing of an open directory, from its beginning.
fn list(dir: &File) -> BTreeSet<String> {
    rustix::fs::seek(dir, SeekFrom::Start(0)).unwrap();
    let mut buffer = Vec::with_capacity(8192);
    let mut entries = RawDir::new(dir.as_fd(), buffer.spare_capacity_mut());
    let mut names = BTreeSet::new();
    while let Some(entry) = entries.next() {
        let name = entry.unwrap().file_name().to_str().unwrap().to_owned();
        if name != "." && name != ".." {
            assert!(names.insert(name));
        }
    }
    names
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn names_come_and_go() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    let path = mounted.path("volatile/name");
    for _ in 0..3 {
        let error = fs::metadata(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let first = make_behind(&mounted, ino, "name");
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        // Replaced by another.
        remove_behind(&mounted, ino, "name");
        let second = make_behind(&mounted, ino, "name");
        assert_ne!(first, second);
        assert_eq!(fs::metadata(&path).unwrap().ino(), second);
        remove_behind(&mounted, ino, "name");
    }
}

#[test]
fn names_that_follow_keys_are_kept_for_a_short_time() {
    let mounted = mounted_or_skip!();
    let ino = make_behind(&mounted, ROOT, "keyed");
    mounted.fs.set_trust(ino, Trust::Brief);
    let path = mounted.path("keyed/name");
    let open = File::open(mounted.path("keyed")).unwrap();
    for _ in 0..2 {
        let error = fs::metadata(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let made = make_behind(&mounted, ino, "name");
        assert_eq!(fs::metadata(&path).unwrap().ino(), made);
        // As long as a listing is not read again, it may be an old one.
        assert_eq!(list(&open), names(&["name"]));
        remove_behind(&mounted, ino, "name");
        mounted.mount.outlive_names();
        assert_eq!(list(&open), names(&[]));
    }
}

/// A mount inside a directory stays when names are asked for again.
#[test]
fn a_mount_on_a_directory_that_follows_keys_stays() {
    let mounted = mounted_or_skip!();
    let ino = make_behind(&mounted, ROOT, "keyed");
    make_behind(&mounted, ino, "inside");
    mounted.fs.set_trust(ROOT, Trust::Brief);
    mounted.fs.set_trust(ino, Trust::Brief);
    let inside = mounted.path("keyed/inside");
    let before = fs::metadata(&inside).unwrap().dev();
    rustix::mount::mount(
        "tmpfs",
        &inside,
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        None,
    )
    .unwrap();
    let within = fs::metadata(&inside).unwrap().dev();
    assert_ne!(before, within);
    mounted.mount.outlive_names();
    let after = fs::metadata(&inside).map(|attr| attr.dev());
    rustix::mount::unmount(&inside, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(after.unwrap(), within);
}

#[test]
fn names_that_a_listing_brought_go() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    make_behind(&mounted, ino, "name");
    let dir = mounted.path("volatile");
    // A listing that is followed by questions about its names brings their attributes.
    for _ in 0..2 {
        for entry in fs::read_dir(&dir).unwrap() {
            entry.unwrap().metadata().unwrap();
        }
    }
    remove_behind(&mounted, ino, "name");
    let error = fs::metadata(dir.join("name")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn listings_are_not_kept() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    let path = mounted.path("volatile");
    let open = File::open(&path).unwrap();
    let mut expected = BTreeSet::new();
    for number in 0..10 {
        let name = format!("{number}");
        make_behind(&mounted, ino, &name);
        expected.insert(name);
        assert_eq!(list(&open), expected, "rewound");
        assert_eq!(list(&File::open(&path).unwrap()), expected, "opened again");
    }
    for number in 0..10 {
        let name = format!("{number}");
        remove_behind(&mounted, ino, &name);
        expected.remove(&name);
        assert_eq!(list(&open), expected, "rewound");
        assert_eq!(list(&File::open(&path).unwrap()), expected, "opened again");
    }
}

#[test]
fn listings_of_many_pages_are_not_kept() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    let all: Vec<_> = (0..2000).map(|number| format!("{number:0>40}")).collect();
    for name in &all {
        make_behind(&mounted, ino, name);
    }
    let dir = File::open(mounted.path("volatile")).unwrap();
    let mut expected: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(list(&dir), expected);
    for name in all.iter().step_by(3) {
        remove_behind(&mounted, ino, name);
        expected.remove(name);
    }
    assert_eq!(list(&dir), expected);
}

#[test]
fn attributes_are_not_kept() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    let path = mounted.path("volatile");
    let dir = File::open(&path).unwrap();
    for (count, mode) in [(1, 0o700), (2, 0o755), (3, 0o711)] {
        make_behind(&mounted, ino, &count.to_string());
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        mounted.fs.setattr(&Caller::default(), ino, &set).unwrap();
        for metadata in [fs::metadata(&path).unwrap(), dir.metadata().unwrap()] {
            assert_eq!(metadata.nlink(), 2 + count);
            assert_eq!(metadata.mode() & 0o7777, mode.into());
        }
    }
}

#[test]
fn changes_through_the_mount_are_not_kept_either() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    let path = mounted.path("volatile/made");
    fs::create_dir(&path).unwrap();
    remove_behind(&mounted, ino, "made");
    assert!(!path.exists());
    fs::write(&path, b"x").unwrap();
    mounted.fs.unlink(ino, b"made").unwrap();
    assert!(!path.exists());
    fs::hard_link(mounted.path("file"), &path).unwrap_err();
    fs::write(mounted.path("file"), b"x").unwrap();
    fs::hard_link(mounted.path("file"), &path).unwrap();
    mounted.fs.unlink(ino, b"made").unwrap();
    assert!(!path.exists());
}

#[test]
fn everything_else_is_kept() {
    let mounted = mounted_or_skip!();
    let ino = volatile(&mounted);
    let below = make_behind(&mounted, ino, "below");
    make_behind(&mounted, below, "fixed");
    let fixed = mounted.path("volatile/below/fixed");
    let missing = mounted.path("volatile/below/missing");
    let below = File::open(mounted.path("volatile/below")).unwrap();
    let ask = || {
        assert!(fixed.exists() && !missing.exists());
        assert_eq!(list(&below), names(&["fixed"]));
    };
    ask();
    let counts = || ["LOOKUP", "READDIR", "READDIRPLUS", "OPENDIR"].map(|op| mounted.count(op));
    let before = counts();
    ask();
    let [lookups, rest @ ..] = before;
    // The name in the volatile directory, on each of two ways.
    let [lookups_after, rest_after @ ..] = counts();
    assert_eq!(lookups_after - lookups, 2);
    assert_eq!(rest_after, rest);
}
