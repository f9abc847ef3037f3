//! Snapshots that no command of any user destroys before a time: attacks as root, delegate and tenant.

use std::fs;
use std::os::unix::fs::FileExt as _;

use crate::common::*;

/// Far enough away for every test, and less than 30 years.
const UNTIL: &str = "2050-01-01T00:00Z";
const UNTIL_SECS: u64 = 2_524_608_000;

/// Refused with the exit code for things in use, and the reason.
#[track_caller]
fn retained(place: &Place, line: &str) {
    let said = place.fails(line, BUSY);
    has(&said, "is retained until 2050-01-01 00:00 UTC");
    has(&said, "the time of the pool is 20");
}

/// `tank/a` with the snapshots `@1` to `@3`, of which `@2` is retained.
fn fill(place: &Place) {
    place.pool("tank");
    place.ok("create -u tank/a");
    for name in ["1", "2", "3"] {
        place.ok(&format!("snapshot tank/a@{name}"));
    }
    place.ok(&format!("hold --until {UNTIL} keep tank/a@2"));
}

#[test]
fn root_cannot_destroy_it() {
    let place = Place::new();
    fill(&place);
    for line in [
        "destroy -f tank/a@2",
        "destroy -f -r tank/a@2",
        "destroy -f tank/a@1%3",
        "destroy -f -r tank/a",
        "destroy -f -R tank/a",
        "destroy -f -d tank/a@2",
        "rollback -f -r tank/a@1",
        "rollback -f -R tank/a@1",
        "release keep tank/a@2",
        "hold --until 2049-12-31T23:59Z keep tank/a@2",
        "pool destroy -f tank",
    ] {
        retained(&place, line);
    }
    place.fails("hold keep tank/a@2", EXISTS);
    place.fails("hold --until 2020-01-01 more tank/a@2", USAGE);
    place.fails("hold --until 2999-01-01 more tank/a@2", USAGE);
    assert_eq!(
        place.run(&words("hold --until soon more tank/a@2")).code,
        USAGE
    );

    // The retention stays with a new name, and with a promotion.
    place.ok("clone -u tank/a@3 tank/b");
    place.ok("promote tank/b");
    place.ok("rename tank/b@2 @two");
    place.ok("rename tank/b tank/c");
    place.ok("destroy -f tank/a");
    retained(&place, "destroy -f -r tank/c");
    retained(&place, "destroy -f tank/c@two");

    // Nor a state before it.
    place.ok("pool checkpoint tank");
    place.ok("snapshot tank/c@later");
    place.ok(&format!("hold --until {UNTIL} keep tank/c@later"));
    place.ok("pool export tank");
    retained(
        &place,
        "pool import -N -d {DIR} --rewind-to-checkpoint tank",
    );
    for line in [
        "pool labelclear {DIR}/tank.pool",
        "pool labelclear -f {DIR}/tank.pool",
        "pool create -f -m none other {DIR}/tank.pool",
        "pool create -f -n -m none other {DIR}/tank.pool",
    ] {
        retained(&place, line);
    }
    place.ok("pool create -s 64M -m none other {DIR}/other");
    for line in [
        "pool add -f other {DIR}/tank.pool",
        "pool add -f other spare {DIR}/tank.pool",
        "pool add -f other cache {DIR}/tank.pool",
        "pool add -f other log {DIR}/tank.pool",
        "pool attach -f other {DIR}/other {DIR}/tank.pool",
        "pool replace -f other {DIR}/other {DIR}/tank.pool",
    ] {
        retained(&place, line);
    }
    place.ok("pool import -N -d {DIR} tank");
    place.says("list -H -r -t snapshot -o name tank", "tank/c@two");
    place.ok("pool scrub -w tank");
}

/// An older copy of the pool, imported, lets devices go as the pool would.
#[test]
fn a_copy_gives_no_right_to_the_devices_of_the_pool() {
    let place = Place::new();
    place.ok("pool create -m none -s 64M tank mirror {DIR}/a {DIR}/b");
    place.ok("pool export tank");
    fs::create_dir(place.path("old")).unwrap();
    fs::copy(place.path("a"), place.path("old/a")).unwrap();
    place.ok("pool import -N -d {DIR} tank");
    place.ok("snapshot tank@1");
    place.ok(&format!("hold --until {UNTIL} keep tank@1"));
    place.ok("pool export tank");
    place.ok("pool import -f -N -d {DIR}/old tank");
    place.ok("pool detach tank {DIR}/b");
    place.ok("pool create -s 64M -m none other {DIR}/c");
    for line in [
        "pool labelclear -f {DIR}/b",
        "pool create -f -m none new {DIR}/b",
        "pool add -f other {DIR}/b",
        "pool add -f tank {DIR}/b",
        "pool attach -f tank {DIR}/old/a {DIR}/b",
    ] {
        retained(&place, line);
    }
    place.ok("pool export tank");
    fs::remove_file(place.path("old/a")).unwrap();

    // The pool itself has the snapshot, and lets go a device that was away.
    fs::rename(place.path("b"), place.path("old/b")).unwrap();
    place.ok("pool import -N -d {DIR} tank");
    place.ok("pool detach tank {DIR}/b");
    place.ok("pool labelclear -f {DIR}/old/b");
}

/// Fills both headers of a device with a byte, all but the labels.
fn fill_headers(place: &Place, device: &str, byte: u8) {
    let file = fs::OpenOptions::new().write(true).open(place.path(device));
    let file = file.unwrap();
    let size = file.metadata().unwrap().len();
    let headers = vec![byte; (1 << 20) - 4096];
    for at in [4096, size - (1 << 20)] {
        file.write_all_at(&headers, at).unwrap();
    }
}

/// A `pool attach` that was cut after the label leaves a device without a superblock.
#[test]
fn a_device_that_was_only_labelled_is_taken_by_its_pool() {
    let place = Place::new();
    place.ok("pool create -m none -s 64M tank mirror {DIR}/a {DIR}/b {DIR}/c");
    fs::copy(place.path("c"), place.path("copy")).unwrap();
    place.ok("pool detach tank {DIR}/c");
    place.ok("snapshot tank@1");
    place.ok(&format!("hold --until {UNTIL} keep tank@1"));

    // Other bytes may have been superblocks.
    fill_headers(&place, "copy", 7);
    let said = place.fails("pool attach -f tank {DIR}/a {DIR}/copy", BUSY);
    has(&said, "its state cannot be read");

    fill_headers(&place, "copy", 0);
    place.ok("pool attach -f tank {DIR}/a {DIR}/copy");
}

/// A device whose superblocks cannot be read may have retained snapshots.
#[test]
fn a_device_without_a_readable_superblock_is_not_taken() {
    let place = Place::new();
    place.pool("tank");
    place.ok("pool export tank");
    fill_headers(&place, "tank.pool", 0);
    for line in [
        "pool labelclear -f {DIR}/tank.pool",
        "pool create -f -m none new {DIR}/tank.pool",
    ] {
        let said = place.fails(line, BUSY);
        has(&said, "its state cannot be read");
        has(&said, "wipefs --all");
    }
}

#[test]
fn it_is_shown() {
    let place = Place::new();
    fill(&place);
    assert_eq!(
        place.ok("get -H -p -o value retained-until tank/a@2"),
        format!("{UNTIL_SECS}\n")
    );
    assert_eq!(place.ok("get -H -o value retained-until tank/a@1"), "-\n");
    place.says(
        "list -H -p -t snapshot -o retained-until -r tank",
        &UNTIL_SECS.to_string(),
    );
    place.says("--json holds tank/a@2", &format!("\"until\": {UNTIL_SECS}"));
    place.ok("hold forever tank/a@1");
    place.says("--json holds tank/a@1", "\"until\": null");
    place.says("pool status tank", "retained: snapshots until ");
    let status = place.ok("--json pool status tank");
    has(&status, &format!("\"until\": {UNTIL_SECS}"));
    has(&status, "\"pool_time\": ");
    place.says("pool history tank", "hold --until");
}

#[test]
fn the_property_retains_what_comes() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -u tank/a");
    place.fails("set retention=31y tank", USAGE);
    place.ok("snapshot tank/a@before");
    place.ok("set retention=30d tank");
    place.ok("snapshot tank/a@new");
    place.says("holds tank/a@new", "retention");
    place.ok("set retention=off tank");
    place.fails("destroy -f tank/a@new", BUSY);
    place.ok("destroy -f tank/a@before");
    // A stream does not bring it, and cannot turn off the one of the target.
    place.ok("set retention=1d tank/a");
    place.ok("create -u -o retention=20d tank/copies");
    let copied = place.shell(&format!(
        "{PROGRAM} send -p tank/a@new | {PROGRAM} receive -u tank/copies/a"
    ));
    assert_eq!(copied.code, 0, "{copied:?}");
    assert_eq!(
        place.ok("get -H -o value,source retention tank/copies/a"),
        "20d\tinherited from tank/copies\n"
    );
    place.fails("destroy -f -r tank/copies/a", BUSY);
    place.ok("snapshot tank/copies/a@more");
    place.ok("snapshot tank/a@next");
    // It would destroy what is retained here.
    let copied = place.shell(&format!(
        "{PROGRAM} send -i @new tank/a@next | {PROGRAM} receive -F tank/copies/a"
    ));
    assert_eq!(copied.code, BUSY, "{copied:?}");
    has(&copied.err, "tank/copies/a@more is retained until");
}

#[test]
fn keys_of_retained_data_are_not_shredded() {
    let place = Place::new();
    place.pool("tank");
    fs::write(place.path("key"), "correct horse").unwrap();
    place.ok("create -u -o encryption=on -o keysource=passphrase,file://{DIR}/key tank/a");
    place.ok("snapshot tank/a@2");
    place.ok(&format!("hold --until {UNTIL} keep tank/a@2"));
    retained(&place, "destroy --shred -f -r tank/a");
    // A new passphrase is possible, and opens it.
    fs::write(place.path("key2"), "battery staple").unwrap();
    place.ok("key change -o keysource=passphrase,file://{DIR}/key2 tank/a");
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
    retained(&place, "destroy -f -r tank/a");

    // A backup elsewhere is better than a passphrase that nobody knows.
    place.ok("key backup tank/a {DIR}/a.keys");
    fs::write(place.path("forgotten"), "who knows").unwrap();
    place.ok("key change -o keysource=passphrase,file://{DIR}/forgotten tank/a");
    fs::remove_file(place.path("forgotten")).unwrap();
    place.ok("key unload tank/a");
    place.fails("key load tank/a", NO_KEY);
    place.ok("key restore -f -o keysource=passphrase,file://{DIR}/key2 tank/a {DIR}/a.keys");
    place.ok("key load tank/a");
}

#[test]
fn neither_a_delegate_nor_a_tenant_destroys_it_or_retains_more() {
    let place = needs!(shared_place());
    fill(&place);
    place.ok("allow 12345 destroy,mount,release,hold,rollback,snapshot,receive,create tank/a");
    place.ok("snapshot tank/a@4");
    let ann = |line: &str| {
        let done = place.run_as((ANN, ANN), &place.socket(), line);
        (done.code, done.out + &done.err)
    };
    for line in [
        "destroy -f tank/a@2",
        "rollback -f -r tank/a@1",
        "release keep tank/a@2",
        "destroy -f -d tank/a@2",
    ] {
        let (code, said) = ann(line);
        assert_eq!(code, BUSY, "{line}: {said}");
        has(&said, "retained until");
    }
    // Space that nobody gets back is given by root only.
    let (code, said) = ann(&format!("hold --until {UNTIL} more tank/a@4"));
    assert_eq!(code, PERMISSION, "{said}");
    has(&said, "the permission 'retention'");
    assert_eq!(ann("set retention=1d tank/a").0, PERMISSION);
    place.ok("allow 12345 retention tank/a");
    let (code, said) = ann(&format!("hold --until {UNTIL} more tank/a@4"));
    assert_eq!(code, 0, "{said}");

    place.ok("zone create z --dataset tank/a --alias own --owner 12345");
    let tenant = |line: &str| {
        let done = place.run_as((ANN, ANN), &place.path("zones/z"), line);
        (done.code, done.out + &done.err)
    };
    for line in ["destroy -f own@2", "release keep own@2"] {
        let (code, said) = tenant(line);
        assert_eq!(code, BUSY, "{line}: {said}");
        has(&said, "own@2 is retained until");
    }
    let (code, said) = tenant(&format!("hold --until {UNTIL} more own@1"));
    assert_eq!(code, PERMISSION, "{said}");
    let (code, said) = tenant("set retention=1d own");
    assert_eq!(code, PERMISSION, "{said}");
}

/// Root of the source has all keys there, and sends what it wants. The copy opens with the key that it came with.
#[test]
fn a_copy_survives_root_of_its_source() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.pool("backup");
    fs::write(place.path("key"), "correct horse").unwrap();
    fs::write(place.path("forgotten"), "who knows").unwrap();
    place.ok("create -u -o encryption=on -o keysource=passphrase,file://{DIR}/key tank/home");
    place.ok("snapshot tank/home@1");
    place.ok("create -u -o retention=30d backup/copies");
    place.ok("allow 12345 receive,create,mount backup/copies");
    let copy = |what: &str, options: &str| {
        place.shell(&format!(
            "{PROGRAM} send -w {what} | {PROGRAM} receive -u {options} backup/copies/home"
        ))
    };
    let first = copy("tank/home@1", "");
    assert_eq!(first.code, 0, "{first:?}");

    place.ok("key change -o keysource=passphrase,file://{DIR}/forgotten tank/home");
    place.ok("key rotate tank/home");
    place.ok("snapshot tank/home@2");
    let rekeyed = copy("-i @1 tank/home@2", "-F");
    assert_ne!(rekeyed.code, 0, "{rekeyed:?}");
    has(&rekeyed.err, "A receive replaces no key");
    place.ok("create -u tank/forged");
    place.ok("snapshot tank/forged@1");
    let forged = copy("tank/forged@1", "-F");
    assert_ne!(forged.code, 0, "{forged:?}");
    for line in [
        "destroy -f -r backup/copies/home",
        "destroy -f backup/copies/home@1",
        "release retention backup/copies/home@1",
        "set retention=off backup/copies",
        "rollback -f backup/copies/home@1",
        "key change backup/copies/home",
        "rename backup/copies/home backup/copies/other",
    ] {
        let done = place.run_as((ANN, ANN), &place.socket(), line);
        assert_eq!(done.code, PERMISSION, "{line}: {done:?}");
    }
    place.ok("key load -o keysource=passphrase,file://{DIR}/key backup/copies/home");
    place.says("holds backup/copies/home@1", "retention");
    place.fails("destroy -f -r backup/copies/home", BUSY);
}
