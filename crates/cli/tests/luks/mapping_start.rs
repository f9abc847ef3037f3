//! Mappings that the daemon opens at its start, and the pools on them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::containers::{CHEAP, PASSPHRASE, ends, format};
use crate::common::*;

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const EXISTS: i32 = 4;
const BUSY: i32 = 5;
const NO_KEY: i32 = 8;

/// A key file that only its owner can read.
fn key_file(place: &Place) {
    fs::write(place.path("key"), "correct horse").unwrap();
    fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
}

/// A pool `rpool` with a container on its volume `rpool/pvol`.
fn container_on_volume(place: &Place) {
    key_file(place);
    place.ok("pool create -s 300M -m none rpool {DIR}/rpool.pool");
    place.ok("create -V 100M rpool/pvol");
    format_with_key(place, "volume:rpool/pvol");
}

fn format_with_key(place: &Place, device: &str) {
    let line = format!("format -q {CHEAP} --sector-size 512 --key-file {{DIR}}/key {device}");
    ends(place, 0, &line, "");
}

const OPEN: &str = "open --persistent-open --key-file {DIR}/key volume:rpool/pvol lofi1";

/// Waits until the daemon has imported its pools again.
fn restart(place: &mut Place, by_kill: bool) {
    match by_kill {
        true => place.kill(),
        false => {
            place.ok("daemon stop");
            place.wait_for_end();
        }
    }
    place.start();
    place.ok("list");
}

fn is_online(place: &Place, pool: &str) {
    let line = place.ok(&format!("pool list -H -o health {pool}"));
    assert_eq!(line, "ONLINE\n", "{}", place.ok("luks status"));
}

/// The daemon is killed and stopped after each step.
#[test]
fn a_pool_on_a_container_on_a_volume_comes_back() {
    let mut place = Place::new();
    container_on_volume(&place);
    place.fails("pool create -m none darrenm luks:lofi1", NOT_FOUND);
    ends(&place, 0, OPEN, "");
    for by_kill in [true, false] {
        restart(&mut place, by_kill);
        place.says("luks status lofi1", "at each start of the daemon");
    }
    place.ok("pool create -m none darrenm luks:lofi1");
    place.ok("create darrenm/Documents");
    for by_kill in [true, false] {
        restart(&mut place, by_kill);
        is_online(&place, "darrenm");
        place.says("list -H -o name", "darrenm/Documents");
    }
    // Each is in use by the next one.
    place.refuses("pool export rpool", BUSY, "the mapping 'lofi1'");
    place.refuses("luks close lofi1", BUSY, "the pool 'darrenm'");
    place.fails("nbd export luks:lofi1", BUSY);
    place.fails("luks suspend lofi1", BUSY);
    // The volume grows, and so do the mapping and the pool.
    let size = |place: &Place| place.ok("pool list -H -p -o size darrenm");
    let before: u64 = size(&place).trim().parse().unwrap();
    place.ok("set volsize=150M rpool/pvol");
    place.ok("pool online -e darrenm luks:lofi1");
    let after: u64 = size(&place).trim().parse().unwrap();
    assert!(after > before + (32 << 20), "{before} {after}");
    restart(&mut place, true);
    is_online(&place, "darrenm");
    place.ok("pool scrub -w darrenm");
    place.says("pool status darrenm", "with 0 errors");
    // What is closed is forgotten.
    place.ok("pool export darrenm");
    place.ok("luks close lofi1");
    restart(&mut place, true);
    place.fails("luks status lofi1", NOT_FOUND);
    place.ok("pool export rpool");
    place.ok("pool import -d {DIR}/rpool.pool rpool");
    // As it is typed after a reboot, where the daemon does not open it.
    ends(
        &place,
        0,
        "open --key-file {DIR}/key volume:rpool/pvol lofi1",
        "",
    );
    place.ok("pool import -d luks:lofi1 darrenm");
    is_online(&place, "darrenm");
    // The key of such a mapping is not lost by a stop.
    place.refuses("daemon stop", BUSY, "the mapping 'lofi1'");
    is_online(&place, "darrenm");
    // A signal closes it in the right order.
    assert!(place.terminate());
    place.start();
    place.says("pool status darrenm", "there is no mapping 'lofi1'");
    ends(
        &place,
        0,
        "open --key-file {DIR}/key volume:rpool/pvol lofi1",
        "",
    );
    place.ok("pool import darrenm -d luks:lofi1");
    place.ok("pool scrub -w darrenm");
    place.says("pool status darrenm", "with 0 errors");
}

/// A start asks no user for a passphrase. Other mappings open nevertheless.
#[test]
fn a_mapping_without_its_key_waits_and_so_does_its_pool() {
    let mut place = Place::new();
    container_on_volume(&place);
    format(&place, CHEAP);
    ends(
        &place,
        0,
        "open --persistent-open volume:rpool/pvol lofi1",
        "correct horse\n",
    );
    ends(
        &place,
        0,
        "open --persistent-open --key-file {DIR}/key {DIR}/image other",
        "",
    );
    place.ok("pool create -m none darrenm luks:lofi1");
    restart(&mut place, true);
    place.says("luks status other", "other is open");
    let status = place.ok("luks status lofi1");
    has(
        &status,
        "lofi1 waits: the passphrase of volume:rpool/pvol was not given",
    );
    let row = place.json("luks status --json lofi1");
    assert_eq!(row[0]["at_start"], true);
    let pool = place.ok("pool status darrenm");
    has(&pool, "waits for the mapping 'lofi1'");
    has(&pool, "strongroom luks open volume:rpool/pvol lofi1");
    place.says("pool events -v", "the mapping 'lofi1' waits");
    // Its name is that of one device.
    ends(&place, EXISTS, "open {DIR}/image lofi1", PASSPHRASE);
    ends(&place, 7, "open volume:rpool/pvol lofi1", "wrong horse\n");
    ends(&place, 0, "open volume:rpool/pvol lofi1", PASSPHRASE);
    is_online(&place, "darrenm");
    // It stays in the table.
    restart(&mut place, false);
    place.says("luks status lofi1", "lofi1 waits");
    place.ok("luks close lofi1");
    place.fails("luks status lofi1", NOT_FOUND);
    place.ok("pool export darrenm");
}

/// A key file is read as at the start already when the mapping is opened.
#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let mut place = Place::new();
    container_on_volume(&place);
    let mode = |mode| {
        fs::set_permissions(place.path("key"), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    has(&ends(&place, NO_KEY, OPEN, "").err, "chmod 600");
    ends(
        &place,
        USAGE,
        "open --persistent-open --key-file - volume:rpool/pvol lofi1",
        PASSPHRASE,
    );
    place.fails("luks status lofi1", NOT_FOUND);
    mode(0o600);
    ends(&place, 0, OPEN, "");
    fs::rename(place.path("key"), place.path("away")).unwrap();
    restart(&mut place, true);
    place.says("luks status lofi1", "does not exist");
    fs::rename(place.path("away"), place.path("key")).unwrap();
    ends(&place, 0, OPEN, "");
    place.says("luks status lofi1", "lofi1 is open");
}

/// A mapping on a volume of a pool on a mapping on a mapping, whose lowest volume waits for its key.
#[test]
fn all_of_a_deep_stack_comes_back_when_the_lowest_key_does() {
    let mut place = Place::new();
    key_file(&place);
    let key = place.arg("raw");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    place.ok("pool create -s 400M -m none zlow {DIR}/zlow.pool");
    place.ok(&format!(
        "create -V 250M -o encryption=on -o keysource=raw,file://{key} zlow/vol"
    ));
    let open = "open --persistent-open --key-file {DIR}/key";
    format_with_key(&place, "volume:zlow/vol");
    ends(&place, 0, &format!("{open} volume:zlow/vol y1"), "");
    format_with_key(&place, "luks:y1");
    ends(&place, 0, &format!("{open} luks:y1 x2"), "");
    place.ok("pool create -m none mid luks:x2");
    place.ok("create -V 100M mid/vol");
    format_with_key(&place, "volume:mid/vol");
    ends(&place, 0, &format!("{open} volume:mid/vol a3"), "");
    place.ok("pool create -m none atop luks:a3");
    // No pool lies on itself.
    place.ok("create -V 40M atop/vol");
    has(
        &place.fails("pool add -f zlow volume:atop/vol", USAGE),
        "lies on the pool 'zlow' itself",
    );
    restart(&mut place, true);
    is_online(&place, "atop");
    restart(&mut place, false);
    is_online(&place, "atop");
    let away = place.path("away");
    fs::rename(&key, &away).unwrap();
    restart(&mut place, true);
    for pool in ["mid", "atop"] {
        place.says(&format!("pool status {pool}"), "waits for the mapping");
    }
    fs::rename(&away, &key).unwrap();
    place.ok("key load zlow/vol");
    is_online(&place, "mid");
    is_online(&place, "atop");
    assert!(place.terminate());
    place.start();
    is_online(&place, "atop");
}
