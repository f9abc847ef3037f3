//! After the daemon was killed: what it left is cleared away, and what can be is as it was.

use std::fs;
use std::path::Path;

use crate::common::*;

const PASSPHRASE: &str = "correct horse battery staple";

/// The options of the mount at a directory; none if nothing is mounted there.
fn options_at(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let lines = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut found = lines.filter(|fields| Path::new(fields[4]) == dir);
    found
        .next()
        .map_or_else(String::new, |fields| fields[5].to_owned())
}

#[test]
fn mounts_and_exports_come_back_or_are_listed() {
    needs!(can_mount() && is_root(), "not root");
    let mut place = Place::new();
    place.pool("tank");
    fs::write(place.path("key"), [7; 32]).unwrap();
    let key = format!(
        "-o encryption=on -o keysource=raw,file://{}",
        place.arg("key")
    );
    let [own, typed, other] = ["own", "typed", "other"].map(|name| place.path(name));
    place.ok(&format!(
        "create {key} -o mountpoint={} tank/own",
        own.display()
    ));
    let line = format!(
        "create -o encryption=on -o mountpoint={} tank/typed",
        typed.display()
    );
    place.ok_with(&line, PASSPHRASE);
    place.ok_with("create -o encryption=on -V 8M tank/disk", PASSPHRASE);
    place.ok("nbd export --listen unix:{DIR}/nbd tank/disk");
    place.ok_with(
        "create -o encryption=on -o mountpoint=none tank/named",
        PASSPHRASE,
    );
    let named = place.path("named");
    place.ok(&format!("mount tank/named {}", named.display()));
    place.ok("create tank/other");
    fs::write(own.join("file"), b"own").unwrap();
    fs::write(typed.join("file"), b"typed").unwrap();
    fs::create_dir(&other).unwrap();
    place.ok(&format!(
        "mount -o ro,noexec tank/other {}",
        other.display()
    ));
    place.ok("pool sync");

    place.kill();
    for dir in [&own, &typed, &other] {
        assert!(fs::read_dir(dir).is_err(), "{dir:?} has lost its server");
    }
    place.start();
    // It answers when it has imported and mounted what it could.
    let status = place.ok("pool status tank");
    assert_eq!(fs::read(own.join("file")).unwrap(), b"own");
    // Where a command had mounted it, and how.
    let options = options_at(&other);
    assert!(
        options.starts_with("ro,") && options.contains("noexec"),
        "{options}"
    );
    // What waits for a key is no dead mount, and is named.
    assert_eq!(options_at(&typed), "");
    assert_eq!(fs::read_dir(&typed).unwrap().count(), 0);
    has(&status, "  wait: for keys");
    has(&status, "\ttank/disk\n\ttank/named\n\ttank/typed\n");
    lacks(&status, "tank/own");

    place.ok_with("key load tank/disk", PASSPHRASE);
    place.ok_with(
        &format!("mount -l tank/named {}", named.display()),
        PASSPHRASE,
    );
    place.ok_with("mount -l tank/typed", PASSPHRASE);
    assert_eq!(fs::read(typed.join("file")).unwrap(), b"typed");
    let status = place.ok("pool status tank");
    lacks(&status, "wait:");
    let exports = place.ok("nbd list");
    has(&exports, "tank/disk");
    lacks(&exports, "not loaded");
}

/// Puts a directory where a new file would be written. This stops root too, without a full file system.
fn stop_writes(place: &Place, file: &str) -> std::path::PathBuf {
    let dir = place.path("state").join(format!("{file}.new"));
    fs::create_dir(&dir).unwrap();
    dir
}

#[test]
fn a_command_says_what_is_not_saved_in_the_state_directory() {
    let mut place = Place::new();
    let dir = stop_writes(&place, "pools.json");
    stop_writes(&place, "exports.json");
    let create = place.words("pool create -s 64M -m none tank {DIR}/tank.pool");
    let done = place.run(&create);
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.err, "the list of imported pools is not saved");
    has(&done.err, "pools.json cannot be written");
    let again = place.run(&place.words("create -u tank/a"));
    has(&again.err, "'strongroom pool list', which saves it");
    assert_eq!(place.run(&["pool", "list"]).err, "");
    fs::remove_dir(&dir).unwrap();
    place.ok("pool list");
    assert_eq!(place.run(&place.words("create -u tank/b")).err, "");
    place.kill();
    place.start();
    place.says("list -H -o name -r tank", "tank/b");

    // Nothing is lost: the files have the right contents.
    let dir = stop_writes(&place, "pools.json");
    let stopped = place.run(&["daemon", "stop"]);
    assert_eq!((stopped.code, stopped.err.as_str()), (0, ""));
    place.wait_for_end();
    place.start();
    place.ok("list tank/b");
    place.ok("pool create -s 64M -m none late {DIR}/late.pool");
    place.warns("daemon stop", "after a start: strongroom pool import");
    place.wait_for_end();
    fs::remove_dir(dir).unwrap();
    place.start();
    place.ok("list tank/b");
}
