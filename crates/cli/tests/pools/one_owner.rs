//! A pool has one owner on a machine, whatever paths its devices have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::recorder::{Image, Recorder};
use crate::common::*;

const SIZE: u64 = 64 << 20;

/// A loop device that lies in a file.
struct Loop(PathBuf);

impl Loop {
    /// `None`, with a reason, if this machine has no loop devices.
    fn over(file: &Path) -> Option<Loop> {
        let done = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output();
        let made = done.ok().filter(|it| it.status.success());
        if made.is_none() {
            eprintln!("skipped: no loop device can be made");
        }
        let path = String::from_utf8(made?.stdout).expect("a path");
        Some(Loop(path.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
    }
}

/// Makes a pool on a device, with a mounted dataset whose files are synced.
fn fill(place: &Place, device: &str, multihost: &str) -> Vec<Vec<u8>> {
    let line = format!("pool create -m none -O multihost={multihost} tank {device}");
    place.ok(&line);
    place.ok("create -o mountpoint={DIR}/m tank/files");
    write_files(place, 0..30)
}

fn write_files(place: &Place, range: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let write = |number| {
        let bytes = contents(number + 1, 5000);
        write_synced(&place.path(&format!("m/{number}")), &bytes).unwrap();
        bytes
    };
    range.map(write).collect()
}

fn has_hostid() -> bool {
    let files = ["/etc/hostid", "/etc/machine-id"];
    let is_known = files.iter().any(|file| Path::new(file).exists());
    if !is_known {
        eprintln!("skipped: this machine has no hostid");
    }
    is_known
}

/// The daemon of a place, in messages.
fn process(place: &Place) -> String {
    format!("process {} (", place.pid())
}

/// The daemon itself does not use a device of its pool for something else, and says who has it.
fn is_not_taken_for_something_else(place: &Place, path: &str, holder: &str) {
    for (line, why) in [
        ("pool create -f new", holder),
        ("pool add -f tank", "of the pool 'tank' itself"),
        ("pool add -f tank spare", "of the pool 'tank' itself"),
        ("pool labelclear -f", holder),
    ] {
        has(&place.fails(&format!("{line} {path}"), BUSY), why);
    }
}

/// A second daemon is refused at another path, and all files are there in the end.
fn second_daemon_is_refused(place: &mut Place, written: Vec<Vec<u8>>, path: &str) {
    let other = Place::new();
    let own = process(place);
    for import in ["import", "import -f"] {
        let refused = other.fails(&format!("pool {import} -d {path} tank"), BUSY);
        has(&refused, &own);
    }
    for line in ["pool create -f new", "pool labelclear -f"] {
        has(&other.fails(&format!("{line} {path}"), BUSY), &own);
    }
    let mut all = written;
    all.extend(write_files(place, 30..62));
    place.kill();
    // The lock ended with its owner.
    other.ok(&format!("pool import -d {path} tank -R {{DIR}}/r"));
    let dir = other.path(&format!("r{}/m", place.root().display()));
    for (number, bytes) in all.iter().enumerate() {
        let found = fs::read(dir.join(number.to_string())).unwrap();
        assert!(found == *bytes, "{number}");
    }
    other.ok("pool export tank");
}

#[test]
fn a_second_daemon_is_refused_through_a_loop_device() {
    needs!(can_mount() && is_root(), "not root");
    for multihost in ["off", "on"] {
        let mut place = Place::new();
        let file = place.path("image");
        fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
        if multihost == "on" && !has_hostid() {
            continue;
        }
        let written = fill(&place, file.to_str().unwrap(), multihost);
        let over = needs!(Loop::over(&file));
        let path = over.0.to_str().unwrap().to_owned();
        // The lock of the file below is in the way.
        is_not_taken_for_something_else(&place, &path, &process(&place));
        second_daemon_is_refused(&mut place, written, &path);
    }
}

#[test]
fn a_second_daemon_is_refused_through_a_second_loop_device() {
    needs!(can_mount() && is_root(), "not root");
    let mut place = Place::new();
    let file = place.path("image");
    fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
    let (Some(one), Some(two)) = (Loop::over(&file), Loop::over(&file)) else {
        return;
    };
    let written = fill(&place, one.0.to_str().unwrap(), "off");
    second_daemon_is_refused(&mut place, written, two.0.to_str().unwrap());
}

#[test]
fn a_second_daemon_is_refused_at_the_same_export() {
    needs!(can_mount());
    let mut place = Place::new();
    let server = Recorder::new(vec![Image::default()], SIZE);
    let written = fill(&place, &server.uri(0), "off");
    // No lock of a file is in the way, only the guid of the pool.
    is_not_taken_for_something_else(&place, &server.uri(0), "'tank'");
    second_daemon_is_refused(&mut place, written, &server.uri(0));
}

/// A daemon that shares no names of sockets with others. `None` if this machine cannot have one.
fn isolated() -> Option<Place> {
    needs!(
        can_mount() && is_root() && is_installed("unshare"),
        "not root, or no unshare"
    );
    let mut place = Place::without_daemon();
    place.start_within(&["unshare", "--net"].map(String::from));
    Some(place)
}

/// Only the lock of the file below is in the way: the pool is idle, and the daemons do not see each other.
#[test]
fn the_lock_below_a_loop_device_is_enough() {
    let other = needs!(isolated());
    let place = Place::new();
    let file = place.path("image");
    fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
    let (Some(one), Some(two)) = (Loop::over(&file), Loop::over(&file)) else {
        return;
    };
    let written = fill(&place, one.0.to_str().unwrap(), "off");
    for import in ["import", "import -f"] {
        let path = two.0.display();
        let refused = other.fails(&format!("pool {import} -d {path} tank"), BUSY);
        lacks(&refused, "while this import looked");
    }
    are_there(&place, &written);
}

/// Only the heartbeats are in the way: no lock is in common.
#[test]
fn heartbeats_are_enough() {
    let other = needs!(isolated());
    needs!(has_hostid());
    let place = Place::new();
    let server = Recorder::new(vec![Image::default()], SIZE);
    let written = fill(&place, &server.uri(0), "on");
    for import in ["import", "import -f"] {
        let refused = other.fails(&format!("pool {import} -d {} tank", server.uri(0)), BUSY);
        has(&refused, "while this import looked");
    }
    are_there(&place, &written);
}

/// Neither locks nor heartbeats are in the way, only that the owner writes.
#[test]
fn an_owner_that_writes_is_seen_without_heartbeats() {
    let other = needs!(isolated());
    let place = Place::new();
    let server = Recorder::new(vec![Image::default()], SIZE);
    let written = fill(&place, &server.uri(0), "off");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                place.ok(&format!("set test:number={number} tank"));
            }
        });
        for import in ["import", "import -f"] {
            let import = format!("pool {import} -d {} tank", server.uri(0));
            let done = other.run_with(&other.words(&import), b"");
            is_over.store(
                done.code != BUSY || import.contains("-f"),
                Ordering::Relaxed,
            );
            assert_eq!(done.code, BUSY, "{done:?}");
            has(&done.err, "while this import looked");
        }
    });
    are_there(&place, &written);
}

/// The files of a mounted dataset.
fn are_there(place: &Place, written: &[Vec<u8>]) {
    place.ok("unmount tank/files");
    place.ok("mount tank/files");
    for (number, bytes) in written.iter().enumerate() {
        let found = fs::read(place.path(&format!("m/{number}"))).unwrap();
        assert!(found == *bytes, "{number}");
    }
}

/// A write that a pool did without may land after its export: the export says so.
#[test]
fn an_export_names_a_device_that_may_still_be_written() {
    let place = Place::new();
    let server = Recorder::new(vec![Image::default(), Image::default()], SIZE);
    let [one, two] = [0, 1].map(|number| server.uri(number));
    place.ok(&format!("pool create -m none tank mirror {one} {two}"));
    place.ok("pool set devicedeadline=1s tank");
    server.hold(1);
    place.ok("set test:x=1 tank");
    place.says("pool status tank", "FAULTED");
    let exported = place.run_with(&place.words("pool export tank"), b"");
    assert_eq!(exported.code, 0, "{exported:?}");
    has(&exported.err, &format!("{two} has not answered writes"));
    server.let_go();
    // What landed late is repaired, and a device that answers in time is not named.
    place.ok(&format!("pool import -d {one} -d {two} tank"));
    assert_eq!(place.ok("get -H -o value test:x tank"), "1\n");
    place.ok("pool scrub -w tank");
    let exported = place.run_with(&place.words("pool export tank"), b"");
    assert_eq!((exported.code, &*exported.err), (0, ""));
}

#[test]
fn a_restarted_daemon_leaves_the_dead_mounts_of_another_one() {
    needs!(can_mount() && is_root(), "not root");
    let (mut one, mut two) = (Place::new(), Place::new());
    for place in [&one, &two] {
        place.pool("tank");
        place.ok("create -o mountpoint=none tank/files");
    }
    // A command chose the directories, which the properties do not have.
    let dirs = [&one, &two].map(|place| place.path("typed"));
    one.ok("mount tank/files {DIR}/typed");
    two.ok("mount tank/files {DIR}/typed");
    fs::write(dirs[0].join("one"), b"one").unwrap();
    one.ok("pool sync");
    one.kill();
    // The other daemon crashes and starts: it has a dataset of the same name.
    two.kill();
    two.start();
    two.ok("pool list");
    assert!(
        fs::read_dir(&dirs[0]).is_err(),
        "the mount of the first one is dead still"
    );
    assert_eq!(fs::read_dir(&dirs[1]).unwrap().count(), 0);
    fs::write(dirs[1].join("two"), b"two").unwrap();
    one.start();
    one.ok("pool list");
    assert_eq!(fs::read(dirs[0].join("one")).unwrap(), b"one");
    assert!(!dirs[0].join("two").exists());
}
