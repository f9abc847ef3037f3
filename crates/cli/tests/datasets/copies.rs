//! Copies inside a mounted dataset: by reference, in short steps, and what is refused.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::common::*;
use rustix::fs::{FallocateFlags, copy_file_range, fallocate};
use rustix::io::Errno;

/// More than one request copies byte by byte, and no whole record at the end.
const LEN: usize = (20 << 20) + 777;

fn contents() -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..LEN).map(|_| next()).collect()
}

/// A pool with two datasets, and a file in the first.
fn place() -> Option<Place> {
    needs!(can_mount());
    let place = Place::new();
    let (pool, dir) = (place.path("tank.pool"), place.path("tank"));
    place.ok(&format!(
        "pool create -s 256M -m {} tank {}",
        dir.display(),
        pool.display()
    ));
    place.ok("create tank/other");
    fs::write(dir.join("file"), contents()).unwrap();
    place.ok("pool sync");
    Some(place)
}

fn used(place: &Place) -> u64 {
    place.ok("pool sync");
    let said = place.ok("get -Hp -o value used tank");
    said.trim().parse().unwrap()
}

#[test]
fn a_copy_shares_its_records() {
    let place = needs!(place());
    let dir = place.path("tank");
    let (file, copy) = (place.arg("tank/file"), place.arg("tank/copy"));
    let before = used(&place);
    place.ok(&format!("cp {file} {copy}"));
    assert!(fs::read(&copy).unwrap() == contents());
    let grown = used(&place) - before;
    assert!(grown < 4 << 20, "{grown} bytes more");
    // Into a directory, and over what is there.
    fs::create_dir(dir.join("below")).unwrap();
    place.ok(&format!("cp {file} {{DIR}}/tank/below"));
    assert!(fs::read(dir.join("below/file")).unwrap() == contents());
    fs::write(&copy, b"short").unwrap();
    place.ok(&format!("cp -f {file} {copy}"));
    assert!(fs::read(&copy).unwrap() == contents());
    // Each is its own from then on.
    let mut changed = File::options().write(true).open(&copy).unwrap();
    changed.write_all(b"changed").unwrap();
    assert!(fs::read(&file).unwrap() == contents());
    // Nothing shorter than a record is shared, and it is copied all the same.
    fs::write(dir.join("small"), b"small").unwrap();
    place.ok("cp {DIR}/tank/small {DIR}/tank/small2");
    assert_eq!(fs::read(dir.join("small2")).unwrap(), b"small");
    // From a snapshot, byte by byte.
    place.ok("snapshot tank@now");
    let old = place.arg("tank/.snapshot/now/file");
    place.ok(&format!("cp {old} {{DIR}}/tank/back"));
    assert!(fs::read(dir.join("back")).unwrap() == contents());
}

#[test]
fn what_cannot_be_copied_by_reference_is_refused_and_leaves_nothing() {
    let place = needs!(place());
    let file = place.arg("tank/file");
    fs::write(place.path("outside"), b"outside").unwrap();
    let outside = place.arg("outside");
    let said = place.fails(&format!("cp {file} {{DIR}}/tank/other/copy"), USAGE);
    has(&said, "same dataset");
    has(&said, "copy it with cp");
    assert!(!place.path("tank/other/copy").exists());
    let said = place.fails(&format!("cp {outside} {{DIR}}/tank/copy"), USAGE);
    has(&said, "not in a mounted dataset");
    assert!(!place.path("tank/copy").exists());
    place.fails(&format!("cp {file} {outside}"), USAGE);
    assert_eq!(fs::read(place.path("outside")).unwrap(), b"outside");
    place.fails("cp {DIR}/tank/none {DIR}/tank/copy", NOT_FOUND);
    place.fails("cp {DIR}/tank/other {DIR}/tank/copy", USAGE);
    fs::write(place.path("tank/there"), b"there").unwrap();
    let there = place.arg("tank/there");
    place.fails(&format!("cp {file} {there}"), EXISTS);
    place.fails(&format!("cp -f {there} {there}"), USAGE);
    std::os::unix::fs::symlink(place.path("outside"), place.path("tank/link")).unwrap();
    place.fails(&format!("cp -f {file} {{DIR}}/tank/link"), USAGE);
    assert_eq!(fs::read(&there).unwrap(), b"there");
    assert_eq!(fs::read(place.path("outside")).unwrap(), b"outside");
}

fn program(name: &str, args: &[&str], from: &Path, to: &Path) -> bool {
    let done = Command::new(name).args(args).arg(from).arg(to).output();
    done.unwrap().status.success()
}

/// The file system answers with less than it was asked for, and programs go on from there.
#[test]
fn programs_cope_with_short_answers() {
    let place = needs!(place());
    let dir = place.path("tank");
    let file = dir.join("file");
    for how in ["--reflink=auto", "--reflink=never", "--sparse=always"] {
        let copy = dir.join(how);
        assert!(program("cp", &[how, "--"], &file, &copy), "{how}");
        assert!(fs::read(&copy).unwrap() == contents(), "{how}");
        fs::remove_file(copy).unwrap();
    }
    // From one dataset to another.
    assert!(program("cp", &[], &file, &dir.join("other/copy")));
    assert!(fs::read(dir.join("other/copy")).unwrap() == contents());
    // The kernel does not pass this request on, and README says so.
    assert!(!program(
        "cp",
        &["--reflink=always"],
        &file,
        &dir.join("no")
    ));

    // Off the bounds of records nothing is shared.
    let (from, to) = (
        File::open(&file).unwrap(),
        File::create(dir.join("off")).unwrap(),
    );
    let (mut at, mut target, mut answers) = (3, 0, 0);
    loop {
        let copied = copy_file_range(&from, Some(&mut at), &to, Some(&mut target), LEN).unwrap();
        if copied == 0 {
            break;
        }
        answers += 1;
    }
    assert!(answers > 1, "no answer was short");
    assert!(fs::read(dir.join("off")).unwrap() == contents()[3..]);
}

#[test]
fn collapsing_and_inserting_are_refused_and_change_nothing() {
    let place = needs!(place());
    let path = place.path("tank/file");
    let file = File::options().write(true).open(&path).unwrap();
    for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        let refused = fallocate(&file, flags, 0, 1 << 20);
        assert_eq!(refused, Err(Errno::OPNOTSUPP), "{flags:?}");
    }
    assert!(fs::read(&path).unwrap() == contents());
}
