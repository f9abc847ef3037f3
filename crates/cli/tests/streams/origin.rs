//! A stream from elsewhere decides nothing for its receiver: not where it mounts, not what it allows, and not what the
//! daemon reads.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::bench::Bench;
use crate::common::*;

fn values(bench: &Bench, props: &str, dataset: &str) -> Vec<String> {
    let found = bench.ok(&format!("get -H -o value {props} {dataset}"));
    found.lines().map(String::from).collect()
}

/// A clear dataset `tank/c` with a program that changes who runs it, and what its sender says of it.
fn sends_a_trap() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.ok("create -o recordsize=8K -o compression=zstd-3 -o quota=32M tank/c");
    bench.write("tank/c", "program", "#!");
    let program = bench.file("tank/c", "program");
    fs::set_permissions(program, fs::Permissions::from_mode(0o4755)).unwrap();
    let trap = bench.place.arg("trap");
    bench.ok("unmount tank/c");
    bench.ok(&format!(
        "set mountpoint={trap} setuid=on devices=on exec=on canmount=on org:note=x tank/c"
    ));
    bench.ok("snapshot tank/c@1");
    assert!(bench.sends("send -p tank/c@1", "clear"));
    Some(bench)
}

#[test]
fn a_stream_says_not_where_it_mounts_and_what_it_allows() {
    let bench = needs!(sends_a_trap());
    let done = bench.receive_bytes("safe/c", &bench.stream("clear"));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        values(&bench, "canmount,setuid,devices,exec,mountpoint", "safe/c"),
        ["noauto", "off", "off", "on", &bench.place.arg("mnt/safe/c")]
    );
    // What belongs to the content comes with it.
    assert_eq!(
        values(&bench, "recordsize,compression,quota,org:note", "safe/c"),
        ["8K", "zstd-3", "32M", "x"]
    );
    let file = bench.place.arg("safe.pool");
    bench.ok("pool export safe");
    bench.ok(&format!("pool import -d {file} safe"));
    assert!(!bench.place.path("trap/program").exists());
    assert_eq!(bench.read("safe/c", "program"), None);
    bench.ok("mount safe/c");
    let options = |dir: &str| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let dir = bench.place.arg(dir);
        let line = mounts
            .lines()
            .find(|line| line.contains(&format!(" {dir} ")));
        line.unwrap_or_else(|| panic!("{dir} is not mounted"))
            .to_owned()
    };
    for option in ["nosuid", "nodev"] {
        assert!(options("mnt/safe/c").contains(option));
    }

    // The receiver says so of what is trusted, once and for all.
    let trusted = "-x setuid -x canmount -o devices=on safe/trusted";
    let done = bench.receive_bytes(trusted, &bench.stream("clear"));
    assert_eq!(done.code, 0, "{done:?}");
    let of_trust = "setuid,canmount,devices";
    assert_eq!(values(&bench, of_trust, "safe/trusted"), ["on", "on", "on"]);

    // Increments leave all of it as it is.
    bench.ok("set exec=off safe/c");
    bench.ok("unmount safe/c");
    bench.ok("snapshot tank/c@2");
    assert!(bench.sends("send -p -i @1 tank/c@2", "next"));
    for (name, expected) in [
        ("c", ["off", "noauto", "off"]),
        ("trusted", ["on", "on", "on"]),
    ] {
        let done = bench.receive_bytes(&format!("safe/{name}"), &bench.stream("next"));
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(values(&bench, of_trust, &format!("safe/{name}")), expected);
    }
    assert_eq!(values(&bench, "exec", "safe/c"), ["off"]);
}

#[test]
fn clones_and_promotions_inherit_the_distrust() {
    let bench = needs!(sends_a_trap());
    let done = bench.receive_bytes("safe/c", &bench.stream("clear"));
    assert_eq!(done.code, 0, "{done:?}");
    let allowed = |name: &str| values(&bench, "setuid,devices", name);
    bench.ok("clone safe/c@1 safe/clone");
    assert_eq!(allowed("safe/clone"), ["off", "off"]);
    bench.ok("clone -o setuid=on safe/c@1 safe/trusted");
    assert_eq!(allowed("safe/trusted"), ["on", "off"]);

    // What an older clone allows goes with the promotion, unless it was said of the clone itself.
    bench.ok("inherit setuid safe/clone");
    bench.ok("set devices=on safe/clone");
    assert_eq!(allowed("safe/clone"), ["on", "on"]);
    bench.ok("promote safe/clone");
    assert_eq!(allowed("safe/clone"), ["off", "on"]);

    // What is off above all of them stays to be said there.
    bench.ok("create safe/off");
    bench.ok("set setuid=off safe/off");
    bench.ok("create safe/off/a");
    bench.ok("snapshot safe/off/a@1");
    bench.ok("clone safe/off/a@1 safe/off/b");
    let source = bench.ok("get -H -o source setuid safe/off/b");
    assert_eq!(source.trim(), "inherited from safe/off");
    bench.ok("clone safe/off/a@1 safe/b");
    assert_eq!(allowed("safe/b"), ["off", "on"]);
}

/// The guid by which the daemon remembers a pool.
fn remembered_guid(place: &Place, pool: &str) -> u64 {
    let text = fs::read_to_string(place.path("state/pools.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    all["pools"][pool]["guid"].as_u64().unwrap()
}

fn pools(place: &Place) -> String {
    place.ok("list -H -o name -d 0")
}

#[test]
fn a_device_that_has_only_the_name_is_not_imported() {
    let mut place = Place::new();
    let file = place.pool("tank");
    let guid = remembered_guid(&place, "tank");
    assert!(place.terminate());
    let own = place.path("own");
    fs::rename(&file, &own).unwrap();
    let other = Place::new();
    let foreign = other.pool("tank");
    let foreign_guid = remembered_guid(&other, "tank");
    other.ok("pool export tank");
    fs::copy(foreign, &file).unwrap();

    place.start();
    assert_eq!(pools(&place), "");
    let log = place.log();
    for guid in [guid, foreign_guid] {
        assert!(log.contains(&guid.to_string()), "{guid}: {log}");
    }
    // It is not forgotten, and comes back with its own device.
    assert_eq!(remembered_guid(&place, "tank"), guid);
    assert!(place.terminate());
    fs::rename(&own, &file).unwrap();
    place.start();
    assert_eq!(pools(&place), "tank\n");
    assert_eq!(remembered_guid(&place, "tank"), guid);
}

#[test]
fn devices_that_have_swapped_their_paths_are_found() {
    let mut place = Place::new();
    let (one, two) = (place.pool("one"), place.pool("two"));
    assert!(place.terminate());
    let aside = place.path("aside");
    for (from, to) in [(&one, &aside), (&two, &one), (&aside, &two)] {
        fs::rename(from, to).unwrap();
    }
    place.start();
    assert_eq!(pools(&place), "one\ntwo\n");
}

#[test]
fn lists_of_older_daemons_are_taken_over_and_unreadable_ones_are_kept() {
    let mut place = Place::new();
    let file = place.pool("tank");
    place.ok("keygen {DIR}/k");
    let key = format!("keysource=raw,file://{}", place.arg("k"));
    place.ok(&format!("create -o encryption=on -o {key} tank/a"));
    assert!(place.terminate());
    // As it was before pools were known by their guids, and places of keys accepted.
    let list = place.path("state/pools.json");
    let old = serde_json::json!({"pools": {"tank": [file]}});
    fs::write(&list, old.to_string()).unwrap();
    fs::remove_file(place.path("state/accepted.json")).unwrap();
    place.start();
    let keystatus = |place: &Place| place.ok("get -H -o value keystatus tank/a");
    assert_eq!(keystatus(&place), "available\n");
    assert!(place.terminate());
    place.start();
    assert_eq!(keystatus(&place), "available\n");
    remembered_guid(&place, "tank");

    assert!(place.terminate());
    fs::write(&list, "{\"pools\": ").unwrap();
    place.start();
    assert_eq!(pools(&place), "");
    let kept = place.path("state/pools.json.unreadable");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{\"pools\": ");
    assert!(place.log().contains("pools.json.unreadable"));
    place.ok(&format!("pool import -l -d {} tank", file.display()));
    assert_eq!(keystatus(&place), "available\n");
}

#[test]
fn a_place_of_a_key_that_came_with_a_stream_is_only_proposed() {
    let bench = needs!(Bench::new());
    let place = &bench.place;
    assert!(bench.sends("send -w tank/a@1", "sealed"));
    let sealed = bench.stream("sealed");
    let source = |name: &str| {
        let found = bench.ok(&format!("get -H -o source keysource {name}"));
        found.trim().to_owned()
    };
    for name in ["b", "c", "d"] {
        let done = bench.receive_bytes(&format!("safe/{name}"), &sealed);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(source(&format!("safe/{name}")), "proposed");
    }
    // Nothing reads the file, also at a start.
    for line in ["key load safe/b", "mount -l safe/b", "key load -n safe/b"] {
        place.refuses(line, NO_KEY, "strongroom key accept safe/b");
    }
    let file = place.arg("safe.pool");
    let again = || {
        bench.ok("key unload -a -f");
        bench.ok("pool export safe");
        bench.ok(&format!("pool import -N -l -d {file} safe"));
    };
    again();
    let keystatus = |name: &str| {
        let found = bench.ok(&format!("get -H -o value keystatus {name}"));
        found.trim().to_owned()
    };
    assert_eq!(keystatus("safe/b"), "unavailable");
    bench.ok("key accept safe/b");
    // To name the place is to accept it; another place says nothing of this one.
    fs::copy(place.path("a"), place.path("copy")).unwrap();
    bench.ok("key load -L file://{DIR}/a safe/c");
    bench.ok("key load -L file://{DIR}/copy safe/d");
    bench.ok("rename safe/b safe/moved");
    again();
    for (name, status, from) in [
        ("safe/moved", "available", "local"),
        ("safe/c", "available", "local"),
        ("safe/d", "unavailable", "proposed"),
    ] {
        assert_eq!(
            (&*keystatus(name), &*source(name)),
            (status, from),
            "{name}"
        );
    }
    // What is set here needs no more words: by a clone, by a change.
    bench.ok(&format!("clone -o {} safe/c@1 safe/clone", bench.key("b")));
    again();
    assert_eq!(keystatus("safe/clone"), "available");
}

#[test]
fn a_pool_that_this_machine_has_not_seen_chooses_no_place_of_a_key() {
    let place = Place::new();
    let file = place.pool("tank");
    for name in ["k", "other"] {
        place.ok(&format!("keygen {}", place.arg(name)));
    }
    let key = |name: &str| format!("keysource=raw,file://{}", place.arg(name));
    place.ok(&format!("create -o encryption=on -o {} tank/a", key("k")));
    let keystatus = |place: &Place| {
        let found = place.ok("get -H -o value keystatus tank/a");
        found.trim().to_owned()
    };
    let import = format!("pool import -l -d {} tank", file.display());
    place.ok("pool export tank");
    let mut other = Place::new();
    other.ok(&import);
    assert_eq!(keystatus(&other), "unavailable");
    other.ok("pool export tank");
    other.ok(&import.replace("-l", "-l --accept"));
    assert_eq!(keystatus(&other), "available");
    other.ok(&format!("key change -o {} tank/a", key("other")));
    assert!(other.terminate());
    other.start();
    assert_eq!(keystatus(&other), "available");
    other.ok("pool export tank");

    // Another place than the one that was accepted here is another proposal.
    place.ok(&import);
    assert_eq!(keystatus(&place), "unavailable");
    assert_eq!(
        place.ok("get -H -o value,source keysource tank/a"),
        format!("raw,file://{}\tproposed\n", place.arg("other"))
    );
    place.ok("key accept -r tank");
    place.ok("key load tank/a");
}
