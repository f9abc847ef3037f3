//! Pools whose devices become larger.

use crate::common::{DEVICE, NOT_FOUND, Place, USAGE, has, lacks, words};

/// A column of `pool list` in bytes.
fn column(place: &Place, pool: &str, column: &str) -> u64 {
    let shown = place.ok(&format!("pool list -H -p -o {column} {pool}"));
    shown.trim().parse().expect("a number")
}

fn resize(place: &Place, file: &str, size: u64) {
    let file = std::fs::File::options().write(true).open(place.path(file));
    file.and_then(|file| file.set_len(size)).expect("a file");
}

#[test]
fn a_file_that_became_larger_is_used_whole() {
    let place = Place::new();
    let file = place.pool("tank");
    let file = file.display();
    let before = column(&place, "tank", "size");
    assert_eq!(column(&place, "tank", "expandsz"), 0);
    resize(&place, "tank.pool", 200 << 20);
    let gain = column(&place, "tank", "expandsz");
    assert!(gain >= 130 << 20, "{gain}");
    let status = place.ok("pool status tank");
    has(&status, "became larger");
    has(&status, &format!("pool online -e tank {file}"));
    place.ok(&format!("pool online -e tank {file}"));
    assert_eq!(column(&place, "tank", "size"), before + gain);
    assert_eq!(column(&place, "tank", "expandsz"), 0);
    lacks(&place.ok("pool status tank"), "became larger");
    let upgraded = place.ok("pool upgrade tank");
    assert!(!upgraded.is_empty());
    place.ok(&format!("pool online -e tank {file}"));
    place.fails("pool online -e tank /dev/null", NOT_FOUND);
    // It is found as it is now.
    place.ok("pool export tank");
    place.ok(&format!("pool import -d {file} tank"));
    assert_eq!(column(&place, "tank", "size"), before + gain);
    place.ok("pool scrub -w tank");
}

#[test]
fn a_file_that_became_smaller_is_refused() {
    let place = Place::new();
    let file = place.pool("tank");
    let file = file.display();
    // Half of the last ring of superblocks is beyond the end, and no record.
    resize(&place, "tank.pool", (64 << 20) - (324 << 10));
    let refusal = place.fails(&format!("pool online -e tank {file}"), USAGE);
    has(&refusal, "a pool does not shrink");
    has(&refusal, &format!("make it {} bytes", 64 << 20));
    // Some commit writes to the last label. It fails, and the file does not grow by it.
    let failed = (0..64).any(|n| place.run(&["create", &format!("tank/d{n}")]).code == DEVICE);
    assert!(failed, "no commit wrote to the last label");
    place.fails("pool clear tank", DEVICE);
    resize(&place, "tank.pool", 64 << 20);
    place.ok("pool clear tank");
    place.ok("create tank/later");
}

#[test]
fn the_property_has_a_pool_grow_by_itself() {
    let place = Place::new();
    place.pool("tank");
    let before = column(&place, "tank", "size");
    place.ok("set autoexpand=on tank");
    resize(&place, "tank.pool", 128 << 20);
    // Any change of the pool's devices has its thread look.
    let file = place.arg("tank.pool");
    while column(&place, "tank", "size") == before {
        place.ok(&format!("pool online tank {file}"));
    }
    place.says("pool history tank", "by autoexpand=on");
    let refusal = place.fails("create -o autoexpand=on tank/home", USAGE);
    has(&refusal, "set it on 'tank'");
    place.ok("create tank/home");
    place.fails("set autoexpand=on tank/home", USAGE);
    let shown = place.ok("get -H -o value autoexpand tank tank/home");
    assert_eq!(
        words(shown.trim_end().replace('\n', " ").as_str()),
        ["on", "-"]
    );
}

#[test]
fn a_pool_on_a_volume_grows_with_it() {
    let place = Place::new();
    let file = place.arg("outer.pool");
    place.ok(&format!("pool create -s 400M -m none outer {file}"));
    place.ok("create -V 64M outer/vol");
    place.ok("pool create -m none inner volume:outer/vol");
    let before = column(&place, "inner", "size");
    place.ok("set volsize=160M outer/vol");
    let gain = column(&place, "inner", "expandsz");
    assert!(gain >= 90 << 20, "{gain}");
    place.ok("pool online -e inner volume:outer/vol");
    assert_eq!(column(&place, "inner", "size"), before + gain);
    place.ok("pool scrub -w inner");
    place.ok("pool export inner");
}
