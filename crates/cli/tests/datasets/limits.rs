//! Limits for how many datasets and snapshots there may be, and `create -n`.

use crate::common::*;

fn value(place: &Place, property: &str, name: &str) -> String {
    let text = place.ok(&format!("get -Hp -o value {property} {name}"));
    text.trim().to_owned()
}

#[test]
fn limits_count_everything_below_and_bind_every_command() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -o filesystem_limit=2 -o snapshot_limit=3 tank/a");
    place.ok("create tank/a/b");
    place.ok("create -s -V 1M tank/a/b/disk");
    let said = place.fails("create tank/a/c", NO_SPACE);
    has(
        &said,
        "tank/a: there would be 3 below it, which is more than the filesystem_limit of 2",
    );
    place.fails("create -p tank/a/c/d", NO_SPACE);
    place.ok("create tank/other");
    place.fails("rename tank/other tank/a/other", NO_SPACE);
    assert_eq!(value(&place, "filesystem_count", "tank/a"), "2");
    assert_eq!(value(&place, "filesystem_count", "tank"), "4");
    assert_eq!(value(&place, "fslimit", "tank/a"), "2");
    assert_eq!(value(&place, "fslimit", "tank"), "none");

    // All or none: this would make a third and a fourth.
    place.ok("snapshot tank/a@1 tank/a/b@1");
    place.fails("snapshot -r tank/a@2", NO_SPACE);
    assert_eq!(value(&place, "snapshot_count", "tank/a"), "2");
    place.ok("snapshot tank/a/b/disk@2");
    place.fails("snapshot tank/a@2", NO_SPACE);
    place.fails("clone tank/a@1 tank/a/clone", NO_SPACE);

    // A stream, too.
    place.ok("create tank/from");
    place.ok("snapshot tank/from@1");
    let stream = place
        .command()
        .args(["send", "tank/from@1"])
        .output()
        .unwrap();
    assert!(stream.status.success());
    let received = place.run_with(&["receive", "tank/a/got"], &stream.stdout);
    assert_eq!(received.code, NO_SPACE, "{}", received.err);
    place.fails("get all tank/a/got", NOT_FOUND);

    // Less than there is: nothing more, and nothing goes.
    place.ok("set snapshot_limit=1 filesystem_limit=0 tank/a");
    assert_eq!(value(&place, "snapshot_count", "tank/a"), "3");
    place.ok("destroy -f tank/a@1");
    place.fails("snapshot tank/a@3", NO_SPACE);
    place.ok("set snapshot_limit=none filesystem_limit=none tank/a");
    place.ok("snapshot -r tank/a@4");
    place.ok("create tank/a/c");
    assert_eq!(value(&place, "snapcount", "tank/a"), "5");
    place.fails("set snapshot_limit=1K tank/a", USAGE);
    place.fails("set filesystem_limit=1 tank/a/b/disk", USAGE);
    place.fails("set snapshot_count=1 tank/a", USAGE);
}

#[test]
fn create_n_checks_and_makes_nothing() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -o filesystem_limit=1 tank/a");
    assert_eq!(
        place.ok("create -n -v -p -o atime=off tank/x/y"),
        "would create tank/x\nwould create tank/x/y\n\tatime=off\n"
    );
    assert_eq!(
        place.ok("create -n -P -o atime=off tank/x"),
        "create\ttank/x\nproperty\tatime\toff\n"
    );
    assert_eq!(place.ok("create -n tank/x"), "");
    // It would ask for a passphrase.
    assert_eq!(
        place.ok("create -nv -o encryption=on tank/x"),
        "would create tank/x\n\tencryption=on\n"
    );
    let names: Vec<String> = serde_json::from_str(&place.ok("--json create -n tank/x")).unwrap();
    assert_eq!(names, ["tank/x"]);
    place.fails("create -n tank/a", EXISTS);
    place.fails("create -n tank/x/y", NOT_FOUND);
    place.fails("create -n -o atime=maybe tank/x", USAGE);
    place.fails("create -n -o keysource=passphrase,prompt tank/x", USAGE);
    place.fails("create -n tank/bad:@name", USAGE);
    place.fails("create -n -p tank/a/b/c", NO_SPACE);
    place.fails("create -n -V 5 tank/x", USAGE);
    assert_eq!(place.ok("list -H -o name"), "tank\ntank/a\n");
    assert_eq!(place.ok("create -v tank/x"), "create tank/x\n");
}

#[test]
fn properties_tags_and_bookmarks_have_a_limit() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -o property_limit=4K tank/a");
    place.ok("create tank/a/b");
    place.ok("snapshot tank/a/b@1");
    let long = "x".repeat(3000);
    place.ok(&format!("set a:b={long} tank/a/b"));
    let said = place.fails(&format!("set a:c={long} tank/a"), NO_SPACE);
    has(&said, "more than the property_limit of 4096");
    place.fails(&format!("set a:c={long} tank/a/b@1"), NO_SPACE);
    place.fails(&format!("create -o a:c={long} tank/a/c"), NO_SPACE);
    let tags: Vec<String> = (0..8).map(|at| format!("{at:0200}")).collect();
    let held = |tag: &String| place.run(&["hold", tag, "tank/a/b@1"]).code;
    assert!(tags.iter().map(held).any(|code| code == NO_SPACE));
    place.fails("bookmark tank/a/b@1 tank/a/b#1", NO_SPACE);
    // Fewer are possible always.
    place.ok("inherit a:b tank/a/b");
    place.ok(&format!("set a:c={long} tank/a"));
}

#[test]
fn mounts_have_a_limit() {
    let place = Place::new();
    needs!(can_mount());
    place.pool("tank");
    let dir = place.path("mounts");
    place.ok(&format!(
        "create -o mount_limit=2 -o mountpoint={} tank/a",
        dir.display()
    ));
    place.ok("create tank/a/b");
    let said = place.fails("create tank/a/c", NO_SPACE);
    has(&said, "tank/a: 2 mounts are the mount_limit there");
    assert_eq!(value(&place, "mounted", "tank/a/c"), "no");
    place.ok("unmount tank/a/b");
    place.ok("mount tank/a/c");
    place.fails("mount tank/a/b", NO_SPACE);
    place.ok("set mount_limit=none tank/a");
    place.ok("mount tank/a/b");
}

/// Each part that stays is a dataset in the memory of the daemon.
#[test]
fn interrupted_receives_count_as_datasets() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -o filesystem_limit=2 tank/a");
    place.ok("create -s -V 8M tank/from");
    place.ok("snapshot tank/from@1");
    let send = place.command().args(["send", "tank/from@1"]).output();
    let stream = send.unwrap().stdout;
    let cut = &stream[..stream.len() - 1];
    let receive = |name: &str| place.run_with(&["receive", "-s", name], cut);
    for name in ["tank/a/1", "tank/a/2"] {
        let done = receive(name);
        assert_ne!(done.code, NO_SPACE, "{}", done.err);
        let token = value(&place, "receive_resume_token", name);
        assert_ne!(token, "-");
    }
    let done = receive("tank/a/3");
    assert_eq!(done.code, NO_SPACE, "{}", done.err);
    has(&done.err, "filesystem_limit of 2");
    place.ok("receive -A tank/a/1");
    assert_ne!(receive("tank/a/3").code, NO_SPACE);
}
