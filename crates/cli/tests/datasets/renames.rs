//! Renaming: snapshots of many datasets at once, below datasets that do not exist yet, and while files are open.

use std::fs;

use crate::common::*;

/// A pool whose datasets are mounted below `mnt`.
fn tank() -> Option<Place> {
    needs!(can_mount());
    let place = Place::new();
    let (mnt, file) = (place.arg("mnt"), place.arg("tank.pool"));
    place.ok(&format!("pool create -s 64M -m {mnt} tank {file}"));
    for name in ["a", "a/b", "c"] {
        place.ok(&format!("create tank/{name}"));
    }
    Some(place)
}

fn names(place: &Place) -> String {
    place.ok("list -H -o name -t all -r tank")
}

#[test]
fn snapshots_of_one_name() {
    let place = needs!(tank());
    place.ok("snapshot -r tank@monday");
    place.ok("snapshot tank/a/b@friday");
    let before = names(&place);
    place.refuses("rename -r tank@monday @friday", EXISTS, "tank/a/b@friday");
    place.refuses("rename -r tank/a tank/d", USAGE, "without -r");
    place.fails("rename -r tank@sunday @new", NOT_FOUND);
    let done = place.run(&words("rename -r -p tank@monday @new"));
    assert_eq!(done.code, USAGE);
    place.fails("rename -r tank@monday tank/a@new", USAGE);
    assert_eq!(names(&place), before);
    place.ok("rename -r tank@monday tank@new");
    assert_eq!(names(&place), before.replace("@monday", "@new"));
    // Only below the named one.
    place.ok("rename -r tank/a@new old");
    has(&names(&place), "tank/a/b@old");
    has(&names(&place), "tank/c@new");
    has(
        &place.ok("pool history tank"),
        "strongroom rename -r tank@monday tank@new",
    );
    // The directory of snapshots shows the new name.
    let shown = place.path("mnt/a/b/.snapshot/old");
    assert!(shown.read_dir().is_ok());
}

#[test]
fn datasets_above_the_new_name() {
    let place = needs!(tank());
    fs::write(place.path("mnt/a/b/file"), "text").unwrap();
    let before = names(&place);
    place.refuses("rename tank/a tank/x/y/a", NOT_FOUND, "tank/x");
    for (line, code) in [
        ("rename -p tank/none tank/x/y/a", NOT_FOUND),
        ("rename -p tank/a tank/c", EXISTS),
        ("rename -p tank/a tank/a/x/y", USAGE),
        ("rename -p tank/a other/x/y", USAGE),
        ("rename -p tank/a@x @y", USAGE),
        ("rename -p tank/a tank/x//a", USAGE),
    ] {
        place.fails(line, code);
        assert_eq!(names(&place), before, "{line}");
    }
    // What was made stays, also if the dataset cannot move: someone may write into it meanwhile.
    let open = fs::File::open(place.path("mnt/a/b/file")).unwrap();
    place.fails("rename -p tank/a tank/x/y/a", BUSY);
    has(&names(&place), "tank/a/b\ntank/c\ntank/x\ntank/x/y\n");
    place.ok("rename -p -f tank/a tank/x/y/a");
    drop(open);
    assert_eq!(
        names(&place),
        "tank\ntank/c\ntank/x\ntank/x/y\ntank/x/y/a\ntank/x/y/a/b\n"
    );
    let read = fs::read_to_string(place.path("mnt/x/y/a/b/file")).unwrap();
    assert_eq!(read, "text");
    assert!(!place.path("mnt/a").exists());
    place.ok("rename -p tank/x/y/a tank/x/a");
    place.ok("unmount -a");
}

#[test]
fn the_key_stays_above() {
    let place = needs!(tank());
    place.ok(&format!("keygen {}", place.arg("key")));
    let key = format!("keysource=raw,file://{}", place.arg("key"));
    place.ok(&format!("create -o encryption=on -o {key} tank/secret"));
    place.ok("create tank/secret/inner");
    let before = names(&place);
    let said = place.fails("rename -p tank/secret/inner tank/x/inner", USAGE);
    has(&said, "key is inherited");
    assert_eq!(names(&place), before + "tank/x\n");
    place.ok("rename -p tank/secret/inner tank/secret/x/inner");
    place.ok("get -H -o value keystatus tank/secret/x");
}

/// A dataset above that was created and cannot be mounted does not stop the rename.
#[test]
fn above_in_a_place_that_is_taken() {
    let place = needs!(tank());
    fs::create_dir(place.path("mnt/x")).unwrap();
    fs::write(place.path("mnt/x/file"), "text").unwrap();
    let done = place.run(&words("rename -p tank/a/b tank/x/b"));
    has(&names(&place), "tank/x\ntank/x/b\n");
    has(&done.err, "'tank/x' was created, but not mounted");
}

/// A rename takes no volume from its user, who would not find it under the new name.
#[test]
fn a_volume_in_use_keeps_its_name() {
    let place = needs!(tank());
    place.ok("create -V 1M tank/a/disk");
    place.ok("nbd export tank/a/disk");
    let before = names(&place);
    for line in ["rename tank/a tank/d", "rename -f tank/a tank/d"] {
        let said = place.fails(line, BUSY);
        has(&said, "tank/a/disk");
        has(&said, "export");
    }
    assert_eq!(names(&place), before);
    place.says("nbd list", "tank/a/disk");
    place.ok("nbd unexport tank/a/disk");
    place.ok("rename -f tank/a tank/d");
}
