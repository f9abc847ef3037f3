//! A pool has one owner on a machine, whatever paths its devices have.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::recorder::{Image, Recorder};
use common::*;

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

/// The daemon of a place, in messages.
fn process(place: &Place) -> String {
    format!("process {} (", place.pid())
}

/// The daemon itself does not use a device of its pool for something else, and says who has it.
fn is_not_taken_for_something_else(place: &Place, path: &str, holder: &str) {
    for line in [
        "pool create -f new",
        "pool add -f tank",
        "pool add -f tank spare",
        "pool labelclear -f",
    ] {
        has(&place.fails(&format!("{line} {path}"), BUSY), holder);
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
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    for multihost in ["off", "on"] {
        let mut place = Place::new();
        let file = place.path("image");
        fs::File::create(&file).unwrap().set_len(SIZE).unwrap();
        if multihost == "on" && !Path::new("/etc/hostid").exists() {
            eprintln!("skipped: this machine has no hostid");
            continue;
        }
        let written = fill(&place, file.to_str().unwrap(), multihost);
        let Some(over) = Loop::over(&file) else {
            return;
        };
        let path = over.0.to_str().unwrap().to_owned();
        // The lock of the file below is in the way.
        is_not_taken_for_something_else(&place, &path, &process(&place));
        second_daemon_is_refused(&mut place, written, &path);
    }
}

#[test]
fn a_second_daemon_is_refused_through_a_second_loop_device() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
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
    if !can_mount() {
        return;
    }
    let mut place = Place::new();
    let server = Recorder::new(vec![Image::default()], SIZE);
    let written = fill(&place, &server.uri(0), "off");
    // No lock of a file is in the way, only the guid of the pool.
    is_not_taken_for_something_else(&place, &server.uri(0), "'tank'");
    second_daemon_is_refused(&mut place, written, &server.uri(0));
}

#[test]
fn a_restarted_daemon_leaves_the_dead_mounts_of_another_one() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
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
