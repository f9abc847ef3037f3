//! The directories of datasets that are not mounted, inside the mount of a dataset above: they stay where they are, and
//! datasets are still mounted in them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::common::{BUSY, Place, can_mount, has, is_root, needs, set_immutable};

const PASSPHRASE: &str = "correct horse battery staple";

/// A clear pool with an encrypted dataset `tank/home` in it, which has a file; none without mounts.
fn place() -> Option<Place> {
    needs!(can_mount() && is_root(), "not root");
    let place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/tank tank {DIR}/tank.pool");
    place.ok_with("create -o encryption=on tank/home", PASSPHRASE);
    fs::write(place.path("tank/home/file"), b"own").unwrap();
    Some(place)
}

fn has_its_file(place: &Place, dir: &str) {
    let file = place.path(dir).join("file");
    assert_eq!(fs::read(&file).unwrap(), b"own", "{file:?}");
}

fn refuses_files(dir: &Path) {
    let done = fs::write(dir.join("clear"), b"secret");
    let refused = done.map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::PermissionDenied), "{dir:?}");
}

#[test]
fn no_other_directory_takes_the_place_of_a_closed_one() {
    let place = needs!(place());
    let (top, home) = (place.path("tank"), place.path("tank/home"));
    let (empty, away) = (top.join("empty"), top.join("away"));
    fs::create_dir(&empty).unwrap();
    place.ok("key unload -f tank/home");
    for refused in [
        fs::remove_dir(&home),
        fs::rename(&home, &away),
        fs::rename(&empty, &home),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ResourceBusy);
    }
    let here = rustix::fs::CWD;
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    for (from, to) in [(&empty, &home), (&home, &empty)] {
        let refused = rustix::fs::renameat_with(here, from, here, to, exchange);
        assert_eq!(refused.unwrap_err(), rustix::io::Errno::BUSY);
    }
    refuses_files(&home);
    // The daemon takes its directory away.
    place.ok("set canmount=noauto tank/home");
    place.ok_with("mount -l tank/home", PASSPHRASE);
    has_its_file(&place, "tank/home");
    place.ok("rename tank/home tank/casa");
    assert!(!home.exists() && top.join("casa").exists());
    place.ok("unmount tank/casa");
    place.ok("set mountpoint=none tank/casa");
    fs::remove_dir(top.join("casa")).unwrap();
}

#[test]
fn a_dataset_is_mounted_in_a_closed_directory() {
    let place = needs!(place());
    fs::write(place.path("key"), [7; 32]).unwrap();
    let home = place.path("tank/home");
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key tank/home/ann");
    fs::write(home.join("ann/file"), b"own").unwrap();
    place.ok("key unload -f tank/home");
    // A command asks for it, though the dataset above is not there.
    place.ok("mount tank/home/ann");
    has_its_file(&place, "tank/home/ann");
    refuses_files(&home);
    place.ok("unmount tank/home/ann");
    refuses_files(&home);
    refuses_files(&home.join("ann"));
    // What was mounted in it comes into the mount of the dataset above, and its directory is in no one's way.
    place.ok("mount tank/home/ann");
    let held = fs::File::open(home.join("ann/file")).unwrap();
    has(
        &place.fails_with("mount -l tank/home", PASSPHRASE, BUSY),
        "in use",
    );
    has_its_file(&place, "tank/home/ann");
    drop(held);
    place.ok_with("mount -l tank/home", PASSPHRASE);
    has_its_file(&place, "tank/home");
    has_its_file(&place, "tank/home/ann");
    // One that only a command mounts.
    place.ok("create -o canmount=noauto tank/rare");
    place.ok("mount tank/rare");
    place.ok("unmount tank/rare");
    place.ok("create tank/rare/x");
    fs::write(place.path("tank/rare/x/file"), b"own").unwrap();
}

#[test]
fn directories_are_closed_whatever_led_to_them() {
    let mut place = needs!(place());
    let (top, home) = (place.path("tank"), place.path("tank/home"));
    // A command mounted it, and none does after a start.
    place.ok("set canmount=noauto tank/home");
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    place.ok("pool list");
    refuses_files(&home);
    // The dataset above is mounted anew.
    place.ok("snapshot tank@now");
    place.ok("rollback tank@now");
    refuses_files(&home);
    // It gets another directory, which is there.
    let moves = [
        ("other", "set mountpoint={DIR}/tank/other tank/home"),
        ("home", "inherit mountpoint tank/home"),
        ("casa", "rename tank/home tank/casa"),
    ];
    for (dir, line) in moves {
        let dir = top.join(dir);
        fs::create_dir_all(&dir).unwrap();
        place.ok(line);
        refuses_files(&dir);
    }
    fs::write(home.join("clear"), b"of the dataset above").unwrap();
    // It is the directory of the dataset above, where nothing is mounted any more.
    let casa = top.join("casa");
    place.ok("set canmount=off tank/casa");
    fs::write(casa.join("clear"), b"of the dataset above").unwrap();
    place.ok("set canmount=on tank/casa");
    fs::remove_file(casa.join("clear")).unwrap();
    refuses_files(&casa);
    place.ok_with("mount -l tank/casa", PASSPHRASE);
    has_its_file(&place, "tank/casa");
}

#[test]
fn directories_of_mountpoints_block_no_mount() {
    let place = needs!(place());
    // Neither is above the other by its name.
    place.ok("create -o mountpoint={DIR}/srv/a/b tank/inner");
    let inside = place.fails("create -o mountpoint={DIR}/srv tank/outer", BUSY);
    has(&inside, "srv/a/b is mounted in it; unmount that first");
    place.ok("unmount tank/inner");
    place.ok("mount tank/outer");
    place.ok("mount tank/inner");
    fs::write(place.path("srv/a/b/file"), b"own").unwrap();
    place.ok("unmount -a");
    // What another program made is.
    let foreign = place.path("srv/foreign");
    // Where there is such a flag.
    let _ = set_immutable(&place.path("srv"), false);
    fs::create_dir(&foreign).unwrap();
    place.refuses("mount tank/outer", BUSY, "is not empty: it has 'foreign'");
    fs::remove_dir(&foreign).unwrap();
    place.ok("mount -a");
    has_its_file(&place, "srv/a/b");
}

/// The directory of a dataset lies in the mount of one that is not above it by its name, of the same pool or another one.
#[test]
fn directories_are_closed_inside_any_dataset() {
    let mut place = needs!(place());
    place.pool("safe");
    let vault = place.path("tank/vault");
    place.ok_with(
        "create -o encryption=on -o mountpoint={DIR}/tank/vault safe/vault",
        PASSPHRASE,
    );
    place.ok("create tank/outer");
    let inner = place.path("tank/outer/x/inner");
    place.ok_with(
        "create -o encryption=on -o mountpoint={DIR}/tank/outer/x/inner tank/inner",
        PASSPHRASE,
    );
    for dir in [&vault, &inner] {
        fs::write(dir.join("file"), b"own").unwrap();
    }
    place.ok("key unload -f safe/vault tank/inner");
    let are_closed = || {
        for dir in [&vault, &inner] {
            refuses_files(dir);
            let refused = fs::remove_dir(dir).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ResourceBusy, "{dir:?}");
        }
    };
    are_closed();
    // The outer ones are mounted anew, and after a start and a crash.
    place.ok("unmount -a");
    place.ok("mount tank");
    place.ok("mount tank/outer");
    are_closed();
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    place.ok("pool list");
    are_closed();
    place.kill();
    place.start();
    place.ok("pool list");
    are_closed();
    // Its directory keeps no one from mounting there.
    place.ok("unmount tank/outer");
    place.ok("unmount tank");
    place.ok("mount tank");
    for name in ["safe/vault", "tank/inner"] {
        place.ok_with(&format!("mount -l {name}"), PASSPHRASE);
    }
    has_its_file(&place, "tank/vault");
    has_its_file(&place, "tank/outer/x/inner");
    place.ok("key unload -f safe/vault");
    refuses_files(&vault);
    // No dataset mounts there any more.
    place.ok("pool export safe");
    fs::create_dir_all(&vault).unwrap();
    fs::write(vault.join("clear"), b"of the dataset above").unwrap();
}
