//! The mountpoint of a dataset that is not mounted: nothing is written there in the clear.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{BUSY, PERMISSION, Place, can_mount, is_root, lacks, needs, set_immutable};

const NOBODY: u32 = 65534;
const SECRET: &str = "correct horse battery staple";

/// Returns whether directories can be made immutable here. Prints the reason if not.
fn can_guard(place: &Place) -> bool {
    let dir = place.path("flag");
    fs::create_dir(&dir).unwrap();
    let possible = set_immutable(&dir, true).and_then(|()| set_immutable(&dir, false));
    if let Err(error) = &possible {
        eprintln!("skipped: no directory can be made immutable: {error}");
    }
    can_mount() && possible.is_ok()
}

fn refuses_root(dir: &Path) {
    let file = dir.join("in the clear");
    let refused = fs::write(&file, b"secret").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{dir:?}");
    let made = fs::create_dir(dir.join("x")).unwrap_err();
    assert_eq!(made.kind(), ErrorKind::PermissionDenied, "{dir:?}");
}

/// Returns whether a script of the shell succeeds there for an ordinary user.
fn as_nobody(dir: &Path, words: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", words]).current_dir("/").env("D", dir);
    shell.uid(NOBODY).gid(NOBODY);
    shell.output().unwrap().status.success()
}

/// A pool with an encrypted dataset at `tank`, and another one in it.
fn two_datasets(place: &Place) {
    // The directory of a test is its owner's alone.
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o711)).unwrap();
    let (dir, file) = (place.arg("tank"), place.arg("tank.pool"));
    place.ok_with(
        &format!("pool create -s 64M -O encryption=on -m {dir} tank {file}"),
        SECRET,
    );
    place.ok("create tank/a");
}

#[test]
fn nothing_is_written_to_the_mountpoint_of_an_unmounted_dataset() {
    let mut place = Place::new();
    needs!(can_guard(&place));
    two_datasets(&place);
    let dir = place.path("tank");
    fs::write(dir.join("a/file"), b"encrypted").unwrap();
    place.ok("unmount -a");
    refuses_root(&dir);
    assert!(!as_nobody(&dir, "ls $D") && !as_nobody(&dir, "touch $D/x"));
    place.ok("mount -a");
    assert_eq!(fs::read(dir.join("a/file")).unwrap(), b"encrypted");
    assert!(as_nobody(&dir, "ls $D"));
    // After a crash, and a start without the key.
    place.kill();
    place.start();
    // Commands wait until what was imported before is imported again.
    place.ok("list");
    refuses_root(&dir);
    place.ok_with("mount -a -l", SECRET);
    assert_eq!(fs::read(dir.join("a/file")).unwrap(), b"encrypted");
    assert!(place.terminate());
    refuses_root(&dir);
}

#[test]
fn the_directory_goes_with_the_dataset() {
    let place = Place::new();
    needs!(can_guard(&place));
    two_datasets(&place);
    let (dir, other) = (place.path("tank"), place.path("other"));
    place.ok("set canmount=noauto tank");
    // Whether they are mounted or not.
    for unmount in [false, true] {
        let pause = || {
            if unmount {
                place.ok("unmount tank/b");
            }
        };
        place.ok(&format!("create -o mountpoint={} tank/b", other.display()));
        pause();
        place.ok("rename tank/b tank/c");
        assert!(other.exists(), "its directory is its own");
        place.ok("rename tank/c tank/b");
        place.ok(&format!("set mountpoint={}2 tank/b", other.display()));
        assert!(!other.exists(), "{unmount}");
        let moved = place.path("other2");
        if unmount {
            place.ok("mount tank/b");
        }
        assert!(moved.exists());
        pause();
        place.ok("destroy -f tank/b");
        assert!(!moved.exists(), "{unmount}");
    }
    place.ok("unmount -a");
    refuses_root(&dir);
    place.ok("pool export tank");
    assert!(!dir.exists());
    place.ok(&format!("pool import -d {} tank", place.root().display()));
    place.ok_with("mount -l tank", SECRET);
    place.ok("pool destroy -f tank");
    assert!(!dir.exists());
}

#[test]
fn a_dataset_mounts_in_the_directory_of_one_that_is_not_mounted() {
    let place = Place::new();
    needs!(can_guard(&place));
    two_datasets(&place);
    let dir = place.path("tank");
    place.ok("unmount -a");
    place.ok("mount tank/a");
    assert!(as_nobody(&dir, "ls $D/a"));
    refuses_root(&dir);
    place.ok("unmount tank/a");
    refuses_root(&dir);
    refuses_root(&dir.join("a"));
    place.ok("destroy -f tank/a");
    assert!(!dir.join("a").exists());
    place.ok("mount tank");
    place.ok("unmount tank");
    refuses_root(&dir);
}

#[test]
fn an_ordinary_user_writes_to_no_mountpoint_inside_a_dataset() {
    let place = Place::new();
    needs!(can_guard(&place));
    two_datasets(&place);
    let dir = place.path("tank");
    place.ok("unmount tank/a");
    let mode = fs::metadata(dir.join("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0);
    place.ok("destroy -f tank/a");
    place.ok("create tank/a");
    assert!(as_nobody(&dir, "ls $D/a"));
}

#[test]
fn directories_that_others_made_stay_as_they_are() {
    let place = Place::new();
    needs!(can_guard(&place));
    two_datasets(&place);
    let (made, named) = (place.path("made"), place.path("named"));
    fs::create_dir(&made).unwrap();
    place.ok(&format!("create -o mountpoint={} tank/b", made.display()));
    place.ok("unmount tank/b");
    fs::write(made.join("file"), b"").unwrap();
    place.refuses("mount tank/b", BUSY, "is not empty: it has 'file', of root");
    // Nor is one the dataset's that a command names.
    place.ok(&format!("mount tank/b {}", named.display()));
    place.ok("unmount tank/b");
    fs::write(named.join("file"), b"").unwrap();
    // One with the flag of its owner's.
    let held = place.path("held");
    fs::create_dir(&held).unwrap();
    set_immutable(&held, true).unwrap();
    let line = format!("set mountpoint={}/b tank/b", held.display());
    place.ok("unmount -a");
    place.ok("set mountpoint=none tank/b");
    let refused = place.fails(&line, PERMISSION);
    let advice = format!("chattr -i {}", held.display());
    assert!(refused.contains(&advice), "{refused}");
    assert_eq!(place.ok("get -H -o value mountpoint tank/b"), "none\n");
    place.ok(&format!("set mountpoint={} tank/b", held.display()));
    place.ok("destroy -f tank/b");
    assert!(held.exists());
}

#[test]
fn a_dataset_inside_one_that_is_locked_waits_for_it() {
    needs!(can_mount() && is_root(), "not root");
    const PASSPHRASE: &str = "correct horse battery staple";
    let mut place = Place::new();
    place.pool("tank");
    fs::write(place.path("key"), [7; 32]).unwrap();
    place.ok_with(
        "create -o encryption=on -o mountpoint={DIR}/home tank/home",
        PASSPHRASE,
    );
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key tank/home/ann");
    // Its directory lies there, and its name does not.
    place.ok("create -o mountpoint={DIR}/home/shared tank/shared");
    let dirs = ["home", "home/ann", "home/shared"].map(|dir| place.path(dir));
    for dir in &dirs {
        fs::write(dir.join("file"), b"own").unwrap();
    }
    let is_there = |place: &Place| {
        for dir in ["home", "home/ann", "home/shared"] {
            let file = place.path(dir).join("file");
            assert_eq!(fs::read(&file).unwrap(), b"own", "{file:?}");
        }
    };
    let waits = |place: &Place| {
        let status = place.ok("pool status tank");
        for name in ["tank/home", "tank/home/ann", "tank/shared"] {
            assert!(
                status.contains(&format!("\t{name}\n")),
                "{name} in {status}{}",
                place.log()
            );
        }
        let within = fs::read_dir(place.path("home")).into_iter().flatten();
        assert_eq!(within.count(), 0);
    };
    // A start, a crash, and an import.
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    waits(&place);
    place.ok_with("mount -l tank/home", PASSPHRASE);
    is_there(&place);
    place.kill();
    place.start();
    waits(&place);
    place.ok_with("mount -a -l", PASSPHRASE);
    is_there(&place);
    place.ok("pool export tank");
    place.ok("pool import -l --accept -d {DIR}/tank.pool tank");
    waits(&place);
    place.ok_with("key load tank/home", PASSPHRASE);
    place.ok("mount -a");
    is_there(&place);
    lacks(&place.ok("pool status tank"), "wait:");
}

#[test]
fn nothing_is_written_in_the_clear_where_a_locked_dataset_was() {
    needs!(can_mount() && is_root(), "not root");
    const PASSPHRASE: &str = "correct horse battery staple";
    let mut place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/tank tank {DIR}/tank.pool");
    place.ok_with("create -o encryption=on tank/home", PASSPHRASE);
    let (top, home) = (place.path("tank"), place.path("tank/home"));
    let refused = |what: &str| {
        fs::write(top.join("clear"), b"clear").unwrap();
        for done in [
            fs::write(home.join("file"), b"secret"),
            fs::create_dir(home.join("dir")),
            fs::rename(top.join("clear"), home.join("moved")),
            fs::hard_link(top.join("clear"), home.join("linked")),
            std::os::unix::fs::symlink("x", home.join("link")),
        ] {
            let error = done.expect_err(what);
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}");
        }
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "{what}");
    };
    fs::write(home.join("file"), b"own").unwrap();
    place.ok("key unload -f tank/home");
    refused("after its key was unloaded");
    place.ok_with("mount -l tank/home", PASSPHRASE);
    assert_eq!(fs::read(home.join("file")).unwrap(), b"own");
    place.ok("unmount tank/home");
    refused("after it was unmounted");
    place.ok("unmount tank");
    place.ok("mount tank");
    refused("after the one above was mounted again");
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    place.ok("pool list");
    refused("after a start");
    place.kill();
    place.start();
    place.ok("pool list");
    refused("after a crash");
    // It is a directory as others once nothing is mounted there any more.
    place.ok("set mountpoint=none tank/home");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("file"), b"clear").unwrap();
}
