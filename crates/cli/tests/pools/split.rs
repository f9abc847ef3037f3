//! `pool split`: one device of each mirror becomes a pool of its own, also while programs write.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::*;

fn mirrors(place: &Place) {
    place.ok("pool create -s 96M -m none tank mirror {DIR}/a {DIR}/b mirror {DIR}/c {DIR}/d");
}

#[test]
fn a_split_is_planned_made_and_imported() {
    let place = Place::new();
    mirrors(&place);
    place.ok("create tank/data");
    place.ok("snapshot tank/data@s");
    let would = place.ok("pool split -n tank half {DIR}/a");
    assert_eq!(
        would,
        format!(
            "would create 'half' with the following layout:\n\n\thalf\n\t  {}\n\t  {}\n",
            place.arg("a"),
            place.arg("d")
        )
    );
    place.fails("pool split tank tank", EXISTS);
    place.fails("pool split tank half {DIR}/a {DIR}/b", USAGE);
    place.fails("pool split tank half {DIR}/nowhere", NOT_FOUND);
    place.fails("pool split nowhere half", NOT_FOUND);
    place.fails("pool split -R mnt tank half", USAGE);
    assert_eq!(place.run(&words("pool split -l tank half")).code, USAGE);
    place.fails("pool split tank a/b", USAGE);
    place.ok("pool split tank half {DIR}/a");
    assert_eq!(place.ok("pool list -H -o name,health"), "tank\tONLINE\n");
    let status = place.ok("pool status tank");
    has(&status, &place.arg("b"));
    lacks(&status, &place.arg("a"));
    // It is found where its devices were, by its own name.
    place.says("pool import", "   pool: half\n");
    place.ok("pool import -N half");
    place.prints("list -H -o name -t snapshot", "half/data@s\ntank/data@s\n");
    for pool in ["half", "tank"] {
        place.says(&format!("pool history {pool}"), "pool split tank half");
        place.ok(&format!("pool scrub -w {pool}"));
        has(
            &place.ok(&format!("inspect --check {pool}")),
            "belongs to exactly one thing",
        );
        place.ok(&format!("create {pool}/own"));
    }
    let guid = |pool: &str| place.ok(&format!("pool get -H -o value guid {pool}"));
    assert_ne!(guid("half"), guid("tank"));
    place.fails("pool split half quarter", USAGE);
}

#[test]
fn both_pools_come_back_after_a_restart() {
    let mut place = Place::new();
    mirrors(&place);
    place.ok("create tank/data");
    place.ok("pool split -R {DIR}/root tank half");
    place.kill();
    place.start();
    assert_eq!(
        place.ok("pool list -H -o name,health"),
        "half\tONLINE\ntank\tONLINE\n"
    );
    has(
        &place.ok("pool get -H -o value altroot half"),
        &place.arg("root"),
    );
    // The devices that are free again can be mirrors of the old pool.
    place.ok("pool destroy -f half");
    place.ok("pool attach -w tank {DIR}/a {DIR}/b");
    place.ok("pool attach -w tank {DIR}/c {DIR}/d");
    place.ok("pool scrub -w tank");
}

fn contents(n: u64) -> Vec<u8> {
    let len = (n * 7919) % 90_000 + 1;
    let byte = |at: u64| (at.wrapping_mul(n + 3) >> 3) as u8;
    (0..len).map(byte).collect()
}

/// Writes files until it is told to stop. A file has its name only when it is whole.
fn write_files(dir: &Path, first: u64, is_over: &AtomicBool, written: &AtomicU64) {
    for n in first.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let unfinished = dir.join(format!("unfinished-{first}"));
        fs::write(&unfinished, contents(n)).unwrap();
        if n % 5 == 0 {
            fs::File::open(&unfinished).unwrap().sync_all().unwrap();
        }
        fs::rename(&unfinished, dir.join(n.to_string())).unwrap();
        if n > first + 40 {
            fs::remove_file(dir.join((n - 40).to_string())).unwrap();
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every file in a directory is what its name says. Returns how many there are.
fn check_files(dir: &Path) -> usize {
    let mut found = 0;
    for file in fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        if let Ok(n) = file.file_name().to_str().unwrap().parse() {
            assert_eq!(fs::read(file.path()).unwrap(), contents(n), "{n}");
            found += 1;
        }
    }
    found
}

#[test]
fn a_mirror_is_split_while_programs_write() {
    needs!(can_mount());
    let place = Place::new();
    mirrors(&place);
    fs::write(place.path("key"), [7; 32]).unwrap();
    place.ok(
        "create -o encryption=on -o keysource=raw,file://{DIR}/key -o mountpoint={DIR}/home \
         -o snapdir=visible tank/home",
    );
    let dir = place.path("home");
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let wait_for = |more: u64| {
        let until = written.load(Ordering::Relaxed) + more;
        while written.load(Ordering::Relaxed) < until {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for first in [0, 1_000_000] {
            let (dir, is_over, written) = (&dir, &is_over, &written);
            scope.spawn(move || write_files(dir, first, is_over, written));
        }
        wait_for(200);
        place.ok("snapshot tank/home@before");
        place.ok("pool split -R {DIR}/root -l tank half");
        wait_for(100);
        is_over.store(true, Ordering::Relaxed);
    });
    let other = place.path("root").join(dir.strip_prefix("/").unwrap());
    let of_snapshot = |dir: &Path| {
        let snapshot = dir.join(".snapshot/before");
        let files = fs::read_dir(&snapshot).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        files.sort();
        let read = |name: &std::ffi::OsString| fs::read(snapshot.join(name)).unwrap();
        let contents: Vec<Vec<u8>> = files.iter().map(read).collect();
        (files, contents)
    };
    assert!(of_snapshot(&dir).0.len() > 40);
    assert!(of_snapshot(&dir) == of_snapshot(&other));
    assert!(check_files(&dir) > 40 && check_files(&other) > 40);
    // Each goes on by itself.
    fs::write(dir.join("7000000"), contents(7_000_000)).unwrap();
    fs::write(other.join("8000000"), contents(8_000_000)).unwrap();
    assert!(!other.join("7000000").exists() && !dir.join("8000000").exists());
    for pool in ["tank", "half"] {
        place.ok(&format!("pool scrub -w {pool}"));
        place.ok(&format!("pool export {pool}"));
    }
    place.ok("pool import -l -d {DIR} tank");
    place.ok("pool import -l -R {DIR}/root -d {DIR} half");
    check_files(&dir);
    check_files(&other);
    assert!(dir.join("7000000").exists() && other.join("8000000").exists());
}

#[test]
fn a_copy_of_a_pool_gets_a_guid_of_its_own() {
    let mut place = Place::new();
    fs::write(place.path("key"), [7; 32]).unwrap();
    fs::create_dir(place.path("copy")).unwrap();
    place.ok(
        "pool create -s 64M -m none -O encryption=on -O keysource=raw,file://{DIR}/key tank mirror \
         {DIR}/a {DIR}/b",
    );
    fs::File::create(place.path("k"))
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    place.ok("pool add tank cache {DIR}/k");
    place.ok("create tank/data");
    let anchor = place.ok("anchor tank");
    fs::write(place.path("anchor"), &anchor).unwrap();
    let guid = |pool: &str| place.ok(&format!("pool get -H -o value guid {pool}"));
    let before = guid("tank");
    place.ok("pool export tank");
    for name in ["a", "b"] {
        fs::copy(place.path(name), place.path("copy").join(name)).unwrap();
    }
    place.ok("pool import -l tank");
    // As long as both have one guid, only one is imported.
    place.fails("pool import -N -d {DIR}/copy tank copied", EXISTS);
    place.ok("pool reguid -l tank");
    let after = guid("tank");
    assert_ne!(before, after);
    place.says("key status tank", "available");
    place.says("pool status tank", "ONLINE");
    lacks(&place.ok("pool status tank"), "OFFLINE");
    place.ok("pool import -N -d {DIR}/copy tank copied");
    assert_eq!(guid("copied"), before);
    place.ok("pool scrub -w tank");
    place.says("inspect --check tank", "belongs to exactly one thing");
    // Anchors name the guid.
    place.ok("pool export copied");
    place.refuses("anchor verify {DIR}/anchor", NOT_FOUND, "needs new anchors");
    // It is remembered with its guid, and with what was accepted.
    place.kill();
    place.start();
    assert_eq!(place.ok("pool get -H -o value guid tank"), after);
    place.says("key status tank", "available");
    place.ok("pool offline tank {DIR}/b");
    place.refuses("pool reguid tank", USAGE, "not online");
    assert_eq!(place.ok("pool get -H -o value guid tank"), after);
    place.fails("pool reguid nowhere", NOT_FOUND);
}

#[test]
fn what_knows_a_pool_by_its_guid_keeps_it() {
    let place = Place::new();
    place.ok("pool create -s 96M -m none tank {DIR}/a spare {DIR}/s");
    place.ok("create -V 8M tank/vol");
    place.ok("create tank/z");
    let guid = || place.ok("pool get -H -o value guid tank");
    let before = guid();
    place.ok("nbd export tank/vol");
    place.refuses("pool reguid tank", BUSY, "nbd unexport");
    place.ok("nbd unexport tank/vol");
    place.ok("zone create z --dataset tank/z");
    place.refuses("pool reguid tank", BUSY, "zone destroy z");
    place.ok("zone destroy z");
    // As does a spare that would not get another one.
    fs::rename(place.path("s"), place.path("away")).unwrap();
    place.refuses("pool reguid tank", USAGE, "the spare");
    fs::rename(place.path("away"), place.path("s")).unwrap();
    assert_eq!(guid(), before);
    place.ok("pool reguid tank");
    assert_ne!(guid(), before);
}
