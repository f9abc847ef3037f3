//! An anchor tells a pool or dataset that was put back from one that went on, and proves it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::*;

/// A pool with an encrypted dataset of files, mounted at `home`, whose key is in a file.
fn pool(place: &Place) -> PathBuf {
    let pool = place.path("tank.pool");
    place.ok("keygen {DIR}/key");
    place.ok(&format!(
        "pool create -s 32M -m none tank {}",
        pool.display()
    ));
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key -o mountpoint={DIR}/home tank/home");
    pool
}

/// Does something to the dataset, and makes it durable.
fn write(place: &Place, name: &str) {
    fs::write(place.path("home").join(name), name).unwrap();
    place.ok("pool sync tank");
}

/// Prints the anchors of the pool, which change whenever something is written.
fn keep(place: &Place) -> String {
    let text = place.ok("anchor tank");
    fs::write(place.path("anchor"), &text).unwrap();
    text
}

fn verify(place: &Place) -> Done {
    place.run(&["anchor", "verify", &place.arg("anchor")])
}

/// The answer to the kept anchors of one dataset.
fn says(place: &Place, code: i32, state: &str) {
    let done = verify(place);
    assert_eq!(done.code, code, "{done:?}");
    has(&done.out, state);
}

fn import(place: &Place) {
    place.ok("pool import -l -d {DIR}/tank.pool tank");
}

#[test]
fn what_was_put_back_is_told_from_what_went_on() {
    needs!(can_mount());
    let place = Place::new();
    let (pool, old) = (pool(&place), place.path("old.pool"));
    write(&place, "one");
    let first = keep(&place);
    assert_eq!(first.lines().count(), 1, "{first}");
    says(&place, 0, "same");
    write(&place, "two");
    says(&place, 0, "later");
    place.ok("pool export tank");
    fs::copy(&pool, &old).unwrap();
    import(&place);
    write(&place, "three");
    keep(&place);

    // Without the key there is no proof, and this is no success.
    write(&place, "four");
    place.ok("key unload -f tank/home");
    says(&place, NO_KEY, "unknown");
    has(&verify(&place).out, "its key is not loaded");

    // An attacker puts the pool back.
    place.ok("pool export tank");
    fs::copy(&old, &pool).unwrap();
    import(&place);
    place.run(&["mount", "--accept-rollback", "tank/home"]);
    says(&place, DAMAGED, "rolled-back");

    // It goes on from there, and passes the count of the anchor.
    for n in 0..30 {
        write(&place, &format!("other {n}"));
    }
    says(&place, DAMAGED, "forked");
    // What both states grew from is proved still.
    fs::write(place.path("anchor"), first).unwrap();
    says(&place, 0, "later");

    place.ok("destroy -f tank/home");
    says(&place, DAMAGED, "missing");
    place.ok("pool export tank");
    assert_eq!(verify(&place).code, NOT_FOUND);
}

/// Changes the seal in an anchor to one that never was, with the right check.
fn invented(anchor: &str) -> String {
    let mut anchor = daemon::anchor_line::read(anchor).unwrap();
    anchor.sequence -= 1;
    anchor.seal = "ab".repeat(32);
    daemon::anchor_line::write(&anchor)
}

#[test]
fn an_invented_anchor_is_forked() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    for n in 0..5 {
        write(&place, &format!("file {n}"));
    }
    let text = keep(&place);
    fs::write(place.path("anchor"), invented(&text)).unwrap();
    says(&place, DAMAGED, "forked");
    let done = place.run(&["--json", "anchor", "verify", &place.arg("anchor")]);
    assert_eq!(done.code, DAMAGED);
    has(&done.out, "\"outcome\": \"forked\"");
    has(&done.out, "\"doubt\": null");
}

#[test]
fn commands_that_seal_again_keep_the_proof() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    write(&place, "one");
    let first = keep(&place);
    let check = |anchor: &str| {
        fs::write(place.path("anchor"), anchor).unwrap();
        says(&place, 0, "later");
    };
    place.ok("snapshot tank/home@a");
    place.ok("key rotate tank/home");
    check(&first);
    let rotated = keep(&place);
    place.ok("key rotate tank/home");
    check(&first);
    check(&rotated);
    write(&place, "two");
    check(&rotated);

    // A clone has the history of its origin, and an anchor of its own.
    place.ok(
        "clone -o keysource=raw,file://{DIR}/key -o mountpoint={DIR}/copy tank/home@a tank/copy",
    );
    let both = keep(&place);
    fs::write(place.path("copy/new"), "new").unwrap();
    place.ok("promote tank/copy");
    write(&place, "three");
    check(&first);
    check(&both);

    // A rollback drops states, and an anchor of these says so.
    place.ok("snapshot tank/home@b");
    write(&place, "four");
    let dropped = keep(&place);
    place.ok("unmount tank/home");
    place.ok("rollback tank/home@b");
    place.ok("mount tank/home");
    check(&rotated);
    for n in 0..9 {
        write(&place, &format!("file {n}"));
    }
    fs::write(place.path("anchor"), dropped).unwrap();
    says(&place, DAMAGED, "forked");
}

/// Sends a stream to a dataset of another pool.
fn travel(place: &Place, send: &str, to: &str) {
    let mut command = place.command();
    let sent = command.arg("send").args(words(send)).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let done = place.run_with(&["receive", to], &sent.stdout);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn received_datasets_prove_their_history() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    place.ok("pool create -s 32M -m none safe {DIR}/safe.pool");
    place.ok(
        "create -o encryption=on -o keysource=raw,file://{DIR}/key -o mountpoint=none safe/clear",
    );
    let keep =
        |dataset: &str| fs::write(place.path("anchor"), place.ok(&format!("anchor {dataset}")));
    write(&place, "one");
    place.ok("snapshot tank/home@a");
    travel(&place, "-w tank/home@a", "safe/raw");
    place.ok("key load -L file://{DIR}/key safe/raw");
    keep("safe/raw").unwrap();
    says(&place, 0, "same");

    place.ok("key rotate tank/home");
    // The seal of this state waits in the entry, and travels.
    place.ok("snapshot tank/home@b");
    write(&place, "two");
    place.ok("snapshot tank/home@c");

    for (from, to) in [("a", "b"), ("b", "c")] {
        travel(&place, &format!("-w -i @{from} tank/home@{to}"), "safe/raw");
        says(&place, 0, "later");
    }
    place.ok("key unload safe/raw");
    says(&place, NO_KEY, "unknown");

    // What is received in the clear gets seals of the receiver.
    travel(&place, "tank/home@a", "safe/clear/home");
    keep("safe/clear/home").unwrap();
    for (from, to) in [("a", "b"), ("b", "c")] {
        travel(
            &place,
            &format!("-i @{from} tank/home@{to}"),
            "safe/clear/home",
        );
        says(&place, 0, "later");
    }
    place.ok("mount safe/clear/home {DIR}/received");
    fs::write(place.path("received/new"), "new").unwrap();
    place.ok("pool sync safe");
    says(&place, 0, "later");
}

#[test]
fn a_volume_proves_its_history() {
    let place = Place::new();
    place.ok("keygen {DIR}/key");
    place.ok("pool create -s 32M -m none tank {DIR}/tank.pool");
    place.ok("create -V 12M -o encryption=on -o keysource=raw,file://{DIR}/key tank/disk");
    place.ok("pool create inner volume:tank/disk");
    place.ok("pool export inner");
    keep(&place);
    place.ok("set volsize=16M tank/disk");
    says(&place, 0, "later");
    place.ok("key rotate tank/disk");
    says(&place, 0, "later");
    place.ok("pool import -d volume:tank/disk inner");
    place.ok("pool export inner");
    says(&place, 0, "later");
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

/// Exports the pool, does something to its device, and imports it without a mount.
fn replaced(place: &Place, change: impl FnOnce()) {
    place.ok("pool export tank");
    change();
    place.ok("pool import -l -N -d {DIR}/tank.pool tank");
}

#[test]
fn a_dataset_that_was_put_back_is_refused_until_it_is_accepted() {
    needs!(can_mount());
    let mut place = Place::new();
    let (pool, old) = (pool(&place), place.path("old.pool"));
    place.ok("create -V 12M -o encryption=on -o keysource=raw,file://{DIR}/key tank/disk");
    place.ok("pool create inner volume:tank/disk");
    place.ok("pool export inner");
    write(&place, "one");
    replaced(&place, || copy(&pool, &old));
    place.ok("mount tank/home");
    place.ok("pool import -d volume:tank/disk inner");
    place.ok("pool export inner");
    write(&place, "two");
    // The file of the daemon is its own.
    replaced(&place, || {
        let seen = fs::metadata(place.path("state/seen.json")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&seen) & 0o777, 0o600);
        copy(&old, &pool);
    });
    let done = place.run(&["mount", "tank/home"]);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "is older than state");
    has(&done.err, "strongroom anchor accept tank/home");
    place.says("pool events", "dataset_rollback");
    assert!(!place.path("home/one").exists());
    let use_volume = words("pool import -d volume:tank/disk inner");
    let done = place.run(&use_volume);
    assert_ne!(done.code, 0, "{done:?}");
    has(&done.err, "is older than state");

    // A restart of the daemon forgets nothing, and no export makes the state the last one.
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    assert_eq!(place.run(&["mount", "tank/home"]).code, DAMAGED);
    replaced(&place, || ());
    assert_eq!(place.run(&["mount", "tank/home"]).code, DAMAGED);

    place.ok("mount --accept-rollback tank/home");
    assert_ne!(place.run(&use_volume).code, 0);
    place.ok("anchor accept tank/disk");
    place.ok("pool import -d volume:tank/disk inner");
    place.ok("pool export inner");
    write(&place, "three");
    replaced(&place, || ());
    place.ok("mount tank/home");
    place.ok("unmount tank/home");
    assert_eq!(
        place.run(&["anchor", "accept", "tank/none"]).code,
        NOT_FOUND
    );
}

#[test]
fn a_dataset_that_went_on_elsewhere_is_later_or_forked() {
    needs!(can_mount());
    let place = Place::new();
    let (pool, old) = (pool(&place), place.path("old.pool"));
    write(&place, "one");
    replaced(&place, || copy(&pool, &old));
    place.ok("mount tank/home");
    write(&place, "two");
    place.ok("pool export tank");

    // Another machine gets the older copy, and writes more often.
    let newer = fs::read(&pool).unwrap();
    elsewhere(&place, &old, 30);
    copy(&old, &pool);
    place.ok("pool import -f -l -N -d {DIR}/tank.pool tank");
    let done = place.run(&["mount", "tank/home"]);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "did not grow from state");
    place.ok("pool export tank");

    // What another machine does with the present state is no rollback.
    fs::write(&old, newer).unwrap();
    elsewhere(&place, &old, 1);
    copy(&old, &pool);
    place.ok("pool import -f -l -N -d {DIR}/tank.pool tank");
    place.ok("mount tank/home");
    assert!(place.path("home/other 0").exists());
}

/// Writes to the dataset on another machine, with so many commits.
fn elsewhere(place: &Place, pool: &Path, commits: usize) {
    let other = Place::new();
    fs::create_dir(other.path("home")).unwrap();
    copy(&place.path("key"), &other.path("key"));
    other.ok(&format!(
        "pool import -N -f -d {} tank",
        pool.to_str().unwrap()
    ));
    other.ok("key load -L file://{DIR}/key tank/home");
    other.ok("mount tank/home {DIR}/home");
    for n in 0..commits {
        write(&other, &format!("other {n}"));
    }
    other.ok("unmount tank/home");
    other.ok("pool export tank");
}

#[test]
fn ways_back_of_the_administrator_need_no_acceptance() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    write(&place, "one");
    place.ok("snapshot tank/home@a");
    place.ok("pool checkpoint tank");
    write(&place, "two");
    // As of the state after, which is noted.
    replaced(&place, || ());
    place.ok("rollback tank/home@a");
    place.ok("mount tank/home");
    write(&place, "three");
    replaced(&place, || ());
    place.ok("mount tank/home");
    place.ok("pool export tank");
    place.ok("pool import --rewind-to-checkpoint -l -N -d {DIR}/tank.pool tank");
    place.ok("mount tank/home");
    write(&place, "four");
    place.ok("unmount tank/home");
    place.ok("pool reguid -l tank");
    assert!(place.path("home/four").exists() && !place.path("home/three").exists());
}

#[test]
fn what_is_no_anchor_is_refused() {
    let place = Place::new();
    for text in [
        "",
        "\n\n",
        "tank 1 2 3",
        "strongroom-anchor-1 pool=1 check=0 name=x",
    ] {
        fs::write(place.path("anchor"), text).unwrap();
        assert_eq!(verify(&place).code, USAGE, "{text}");
    }
    let missing = format!("anchor verify {}", place.arg("nothing"));
    assert_eq!(place.run(&words(&missing)).code, NOT_FOUND);
    assert_eq!(place.run(&["anchor", "nosuch"]).code, NOT_FOUND);
}

#[test]
fn a_destroyed_dataset_is_not_remembered() {
    needs!(can_mount());
    let place = Place::new();
    pool(&place);
    write(&place, "one");
    let seen = || {
        let text = fs::read_to_string(place.path("state/seen.json")).unwrap();
        let seen: serde_json::Value = serde_json::from_str(&text).unwrap();
        seen.as_array().unwrap().len()
    };
    place.ok("pool export tank");
    assert_eq!(seen(), 1);
    import(&place);
    place.ok("destroy -r -f tank/home");
    assert_eq!(seen(), 0);
}
