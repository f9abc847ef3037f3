//! Changes of a dataset without its key are told to the holder of the key.

use std::fs;

use crate::common::*;

const TOLD: &str = "changed without the key of";

/// A pool with an encrypted dataset that has files and two snapshots. Its key is in a file.
fn pool(place: &Place) {
    place.ok("keygen {DIR}/key");
    place.ok("pool create -s 32M -m none tank {DIR}/tank.pool");
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key -o mountpoint={DIR}/home tank/home");
    fs::write(place.path("home/file"), "contents").unwrap();
    place.ok("snapshot tank/home@one");
    place.ok("snapshot tank/home@two");
    place.ok("pool sync tank");
}

/// Loads the key, and returns what it tells about changes.
fn load(place: &Place) -> String {
    let done = place.run(&["key", "load", "tank/home"]);
    assert_eq!(done.code, 0, "{done:?}");
    let told = done.err.lines().chain(done.out.lines());
    let told: Vec<&str> = told.filter(|line| line.contains(TOLD)).collect();
    told.join("\n")
}

fn unload(place: &Place) {
    place.ok("key unload -f tank/home");
}

#[test]
fn changes_with_the_key_are_sealed_and_others_are_told() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    fs::write(place.path("anchor"), place.ok("anchor tank")).unwrap();

    place.ok("set setuid=off tank/home");
    place.ok("destroy -f tank/home@one");
    place.ok("snapshot tank/home@three");
    unload(&place);
    assert_eq!(load(&place), "");
    let verified = place.ok("anchor verify {DIR}/anchor");
    has(&verified, "later");
    lacks(&verified, "changed without");

    unload(&place);
    place.ok("set setuid=on tank/home");
    place.ok("set exec=off tank");
    place.ok("rename tank/home@two tank/home@2");
    let told = load(&place);
    has(&told, "'tank/home'");
    has(&told, ": snapshots, setuid, exec");
    has(
        &place.ok("anchor verify {DIR}/anchor"),
        "changed without its key: snapshots, setuid, exec",
    );
    place.says("pool events", "dataset_changed");

    // The holder of the key has been told, and goes on.
    place.ok("mount tank/home");
    assert_eq!(
        fs::read_to_string(place.path("home/file")).unwrap(),
        "contents"
    );
    unload(&place);
    assert_eq!(load(&place), "");
}

#[test]
fn a_snapshot_that_is_made_without_the_key_is_no_change_of_those_before() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    unload(&place);
    place.ok("snapshot tank/home@later");
    assert_eq!(load(&place), "");
    unload(&place);
    place.ok("destroy -f tank/home@later");
    has(&load(&place), ": snapshots");
}

#[test]
fn an_old_keyring_is_told() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    place.ok("keygen {DIR}/second");
    place.ok("key add -o keysource=raw,file://{DIR}/second tank/home");
    place.ok("key backup tank/home {DIR}/backup");
    place.ok("key remove tank/home 1");
    unload(&place);
    assert_eq!(load(&place), "");
    unload(&place);
    // The slot that was taken away is there again.
    place.ok("key restore -f tank/home {DIR}/backup");
    has(&load(&place), ": keyring");
}

#[test]
fn a_raw_stream_has_what_its_seal_covers() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    place.ok("snapshot tank/home@sent");
    place.ok("pool create -s 32M -m none other {DIR}/other.pool");
    let stream = place
        .command()
        .args(words("send -w tank/home@sent"))
        .output();
    let received = place.run_with(&["receive", "other/copy"], &stream.unwrap().stdout);
    assert_eq!(received.code, 0, "{received:?}");
    place.ok("key accept other/copy");
    let loaded = place.run(&["key", "load", "other/copy"]);
    assert_eq!(loaded.code, 0, "{loaded:?}");
    lacks(&loaded.err, TOLD);
    fs::create_dir(place.path("copy")).unwrap();
    place.ok("mount other/copy {DIR}/copy");
    assert_eq!(
        fs::read_to_string(place.path("copy/file")).unwrap(),
        "contents"
    );
}

#[test]
fn a_rotation_and_a_rollback_keep_a_right_seal() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    place.ok("key rotate tank/home");
    place.ok("snapshot tank/home@rotated");
    fs::write(place.path("home/file"), "later").unwrap();
    place.ok("set readonly=on tank/home");
    unload(&place);
    place.ok("rollback tank/home@rotated");
    // The seal of the snapshot covers what was set when it was made.
    has(&load(&place), ": readonly");
    unload(&place);
    assert_eq!(load(&place), "");
    place.ok("mount tank/home");
    assert_eq!(
        fs::read_to_string(place.path("home/file")).unwrap(),
        "contents"
    );
}
