//! Checkpoints of whole pools: keep, show, go back, discard; and what is refused meanwhile.

use std::fs;

use crate::common::*;

#[test]
fn the_whole_pool_comes_back_as_it_was() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank {DIR}/a");
    place.ok("create -u tank/home");
    place.ok("create -u tank/gone");
    place.ok("snapshot tank/home@one");
    place.ok("set quota=40M tank/home");
    place.fails("pool checkpoint -d tank", NOT_FOUND);
    assert_eq!(place.ok("pool get -H -o value checkpoint tank"), "-\n");
    place.fails("pool export nowhere", NOT_FOUND);
    let usage = "pool checkpoint -w tank";
    assert_eq!(place.run(&words(usage)).code, USAGE, "-w is for -d");

    assert_eq!(place.ok("pool checkpoint tank"), "");
    let twice = place.fails("pool checkpoint tank", EXISTS);
    has(&twice, "strongroom pool checkpoint -d tank");
    place.says("pool status tank", "checkpoint: created on ");
    place.ok("pool list -o name,ckpoint tank");
    place.ok("destroy -f -r tank/gone");
    place.ok("rename tank/home tank/house");
    place.ok("destroy -f tank/house@one");
    place.ok("set quota=none tank/house");
    place.ok("create -u tank/new");
    place.says("pool history tank", "pool checkpoint tank");

    // Seen first, then gone back to.
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR}/a --rewind-to-checkpoint -o readonly=on tank");
    place.says("list -r tank", "tank/gone");
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR}/a tank");
    lacks(&place.ok("list -r tank"), "tank/gone");
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR}/a --rewind-to-checkpoint tank");
    let list = place.ok("list -r -t all tank");
    for name in ["tank/home", "tank/gone", "tank/home@one"] {
        has(&list, name);
    }
    lacks(&list, "tank/new");
    lacks(&list, "tank/house");
    assert_eq!(place.ok("get -H -p -o value quota tank/home"), "41943040\n");
    lacks(&place.ok("pool status tank"), "checkpoint:");
    let history = place.ok("pool history -i tank");
    has(&history, "--rewind-to-checkpoint");
    has(&history, "went back to the checkpoint");
    place.ok("pool scrub -w tank");
    place.says("inspect --check tank", "belongs to exactly one thing");

    // There is no way back from that.
    place.ok("pool export tank");
    let none = place.fails(
        "pool import -d {DIR}/a --rewind-to-checkpoint tank",
        NOT_FOUND,
    );
    has(&none, "no checkpoint");
    place.ok("pool import -N -d {DIR}/a tank");
    place.ok("pool checkpoint tank");
    place.ok("pool checkpoint -d -w tank");
    place.ok("pool wait -t discard tank");
    place.says("pool history tank", "pool checkpoint -d tank");
}

#[test]
fn devices_and_keys_stay_as_they_are() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank mirror {DIR}/a {DIR}/b");
    place.ok("keygen {DIR}/key");
    let encrypted = "-o encryption=on -o keysource=raw,file://{DIR}/key";
    place.ok(&format!("create -u {encrypted} tank/secret"));
    place.ok("pool checkpoint tank");
    place.ok(&format!("create -u {encrypted} tank/later"));
    for file in ["c", "d"] {
        let file = fs::File::create(place.path(file)).unwrap();
        file.set_len(128 << 20).unwrap();
    }
    for refused in [
        "pool add -f tank {DIR}/c",
        "pool attach tank {DIR}/a {DIR}/c",
        "pool replace tank {DIR}/a {DIR}/c",
        "pool detach tank {DIR}/a",
        "pool split tank other",
        "pool reguid tank",
        "key rotate tank/secret",
        "destroy -f --shred tank/secret",
    ] {
        let outcome = place.run(&place.words(refused));
        assert_ne!(outcome.code, 0, "{refused}");
        has(&outcome.err, "pool checkpoint -d tank");
    }
    place.ok("key rotate tank/later");
    place.ok("destroy -f --shred tank/later");
    place.ok("pool offline tank {DIR}/a");
    place.ok("pool online tank {DIR}/a");
    place.ok("pool wait tank");
    // Destroyed, it comes back with its keys.
    place.ok("destroy -f tank/secret");
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR} --rewind-to-checkpoint tank");
    place.ok("key load tank/secret");
    place.ok("destroy -f --shred tank/secret");
}
