//! An image of a pool in an object store, here a folder: it follows the pool, and takes its place when the disks are lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::*;

/// A pool on a file with an encrypted dataset that is mounted in `m`, and its image.
fn followed(place: &Place) -> String {
    fs::create_dir(place.path("bucket")).unwrap();
    let image = format!("file://{}/tank", place.arg("bucket"));
    let key = place.path("raw");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    place.ok("pool create -m none -s 64M tank {DIR}/disk");
    place.ok(
        "create -o encryption=on -o keysource=raw,file://{DIR}/raw -o mountpoint={DIR}/m tank/fs",
    );
    place.ok(&format!(
        "pool attach -o follow=1s tank {{DIR}}/disk {image}"
    ));
    has(&place.ok("pool status tank"), &format!("follows: {image}"));
    image
}

/// Waits until the status of the pool has a text.
fn await_status(place: &Place, wanted: &str) {
    while !place.ok("pool status tank").contains(wanted) {}
}

/// Commits, and waits until the image has the commit.
fn await_image(place: &Place) {
    place.ok("pool sync tank");
    await_status(place, "has the newest state");
}

/// The files of a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn a_pool_whose_disk_is_lost_goes_on_from_its_image() {
    needs!(can_mount());
    let mut place = Place::new();
    let image = followed(&place);
    let dir = place.path("m");
    write_numbered(&dir, 0..6);
    await_image(&place);
    // Another commit, of which the image perhaps has nothing.
    write_numbered(&dir, 6..9);
    place.crash();
    fs::remove_file(place.path("disk")).unwrap();
    place.start();
    let import = place.words(&format!("pool import -l --accept {image} tank"));
    let done = place.run(&import);
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.err, "imported from its image");
    has_numbered(&dir, 0..6);
    place.ok("pool scrub -w tank");
    let status = place.ok("pool status tank");
    has(&status, "with 0 errors");
    lacks(&status, "follows:");
    // It goes on there, and then on a new disk.
    write_numbered(&dir, 9..12);
    place.ok("pool export tank");
    place.ok(&format!("pool import -l {image} tank"));
    fs::File::create(place.path("new"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    place.ok(&format!("pool replace -w tank {image} {{DIR}}/new"));
    lacks(&place.ok("pool status tank"), &image);
    has_numbered(&dir, 0..6);
    has_numbered(&dir, 9..12);
    place.ok("pool export tank");
    place.ok("pool import -l -d {DIR}/new tank");
    has_numbered(&dir, 9..12);
}

#[test]
fn a_store_that_is_away_does_no_harm() {
    needs!(can_mount());
    let mut place = Place::new();
    let image = followed(&place);
    let dir = place.path("m");
    write_numbered(&dir, 0..2);
    await_image(&place);
    let log = place.path("bucket/tank/log");
    fs::rename(&log, place.path("away")).unwrap();
    fs::write(&log, "").unwrap();
    write_numbered(&dir, 2..8);
    place.ok("pool sync tank");
    await_status(&place, "it does not follow now");
    write_numbered(&dir, 8..10);
    place.ok("snapshot tank/fs@a");
    has(&place.ok("pool status tank"), "state: ONLINE");
    // Also through a restart.
    place.kill();
    place.start();
    place.ok("pool list");
    await_status(&place, "it does not follow now");
    let done = place.run(&place.words("destroy --shred -r -f tank/fs"));
    assert_eq!(done.code, DEVICE, "{done:?}");
    has(&done.err, "not proven");
    fs::remove_file(&log).unwrap();
    fs::rename(place.path("away"), &log).unwrap();
    await_image(&place);
    place.ok("pool export tank");
    place.ok(&format!("pool import {image} tank"));
    lacks(&place.ok("list -H -o name -r tank"), "tank/fs");
}

/// The magic number of a block with wrapped keys.
const KEY_BLOCK: &[u8] = b"SR-KEYBL";

#[test]
fn destroyed_keys_are_gone_from_the_image() {
    needs!(can_mount());
    let place = Place::new();
    followed(&place);
    write_numbered(&place.path("m"), 0..2);
    await_image(&place);
    let with_keys = || {
        let all = files(&place.path("bucket"));
        let has_keys = |path: &&PathBuf| find_in_file(path, KEY_BLOCK).is_some();
        all.iter().filter(has_keys).count()
    };
    assert!(with_keys() > 0);
    place.ok("destroy --shred -f tank/fs");
    assert_eq!(with_keys(), 0);
}

#[test]
fn an_image_is_attached_and_detached() {
    let place = Place::new();
    fs::create_dir(place.path("bucket")).unwrap();
    let image = format!("file://{}/tank", place.arg("bucket"));
    place.ok("pool create -m none -s 64M tank {DIR}/disk");
    let attach = format!("pool attach tank {{DIR}}/disk {image}");
    place.ok(&attach);
    // It has one image.
    has(
        &place.fails(&attach.replace("/tank", "/other"), USAGE),
        "detach",
    );
    await_image(&place);
    has(
        &place.ok("--json pool status tank"),
        "\"state\": \"current\"",
    );
    place.fails(&format!("pool labelclear -f {image}"), BUSY);
    place.ok(&format!("pool detach tank {image}"));
    lacks(&place.ok("pool status tank"), "follows:");
    has(&place.fails(&attach, EXISTS), "labelclear -f");
    place.ok(&format!("pool labelclear -f {image}"));
    place.ok(&attach);
    await_image(&place);
    place.warns("pool destroy -f tank", "objects were removed");
    assert!(files(&place.path("bucket")).is_empty());
    // Pools with several groups, and disks that are to follow.
    place.ok("pool create -m none -s 64M two {DIR}/a {DIR}/b");
    let refused = place.fails(&format!("pool attach two {{DIR}}/a {image}"), USAGE);
    has(&refused, "one disk or one mirror");
    fs::File::create(place.path("c"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    place.fails("pool attach -o follow=3s two {DIR}/a {DIR}/c", USAGE);
}

#[test]
fn the_image_that_another_host_uses_outlives_the_pool_before() {
    let (mut place, other) = (Place::new(), Place::new());
    fs::create_dir(place.path("bucket")).unwrap();
    let image = format!("file://{}/tank", place.arg("bucket"));
    place.ok("pool create -m none -s 64M tank {DIR}/disk");
    place.ok(&format!(
        "pool attach -o follow=1s tank {{DIR}}/disk {image}"
    ));
    place.ok("create tank/fs");
    await_image(&place);
    // One machine has a pool only once, so the hosts run one after the other.
    place.kill();
    other.ok(&format!("pool import -f --accept {image} tank"));
    other.ok("create tank/later");
    other.ok("pool export tank");
    place.start();
    let done = place.run(&place.words("pool destroy -f tank"));
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.err, "objects of the pool stay");
    has(&done.err, "labelclear -f");
    other.ok(&format!("pool import {image} tank"));
    let names = other.ok("list -H -o name -r tank");
    has(&names, "tank/fs");
    has(&names, "tank/later");
    other.ok("pool scrub -w tank");
    has(&other.ok("pool status tank"), "with 0 errors");
}
