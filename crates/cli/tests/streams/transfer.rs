//! Sending and receiving without keys: the copy opens with the sender's key, whatever was done to keys
//! before and after on either side, and no key is ever lost.

use std::fs;

use crate::common::bench::Bench;
use crate::common::*;

#[test]
fn no_key_is_needed_and_the_senders_opens_the_copy() {
    let bench = needs!(Bench::new());
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("unmount tank/a");
    bench.ok("key unload tank/a");
    bench.place.fails("send tank/a@1", NO_KEY);
    assert!(!bench.sends("send -w -i @2 tank/a@1", "none"));
    bench.send("tank/a@1", "full");
    bench.send("-i @1 tank/a@2", "next");
    let held = bench.stream("full");
    assert_eq!(find(&held, b"11111111"), None);
    assert_eq!(find(&held, b"first"), None);
    bench.receive("safe/b", "full");
    bench.refused("safe/b", "full", "exists already");
    bench.receive("safe/b", "next");
    assert_eq!(
        bench.ok("list -H -o name -t all -r safe"),
        "safe\nsafe/b\nsafe/b@1\nsafe/b@2\n"
    );
    for (property, value) in [("encryption", "on"), ("keystatus", "unavailable")] {
        let found = bench.ok(&format!("get -H -o value {property} safe/b"));
        assert_eq!(found.trim(), value);
    }
    let guid = |name: &str| bench.ok(&format!("get -H -o value guid {name}"));
    assert_eq!(guid("tank/a@2"), guid("safe/b@2"));
    assert_ne!(guid("tank/a"), guid("safe/b"));
    bench.open_again("safe");
    assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));
    assert_eq!(bench.read("safe/b", "second"), Some("2".into()));
    assert_eq!(bench.read("safe/b/.snapshot/1", "second"), None);
    bench.ok("pool scrub -w safe");
}

#[test]
fn a_copy_goes_on_by_itself() {
    let bench = needs!(Bench::new());
    bench.ok("key rotate tank/a");
    bench.write_for("tank/a@2", "rotated", "r");
    bench.ok("key rotate tank/a");
    bench.copy("-p tank/a@2", "full", "-o org:copy=yes safe/b");
    bench.ok("key load safe/b");
    // Its seal is from before the last rotation.
    bench.place.fails("mount safe/b", OTHER);
    bench.ok("rollback safe/b@2");
    // Rotations, snapshots, clones and promotions of what has other transaction groups.
    bench.ok(&format!("clone -o {} safe/b@2 safe/early", bench.key("b")));
    bench.ok("mount safe/b");
    bench.write_for("safe/b@mine", "mine", "m");
    bench.ok("key rotate safe/b");
    bench.write_for("safe/b@more", "more", "n");
    bench.ok(&format!(
        "clone -K -o {} safe/b@more safe/c",
        bench.key("b")
    ));
    bench.ok(&format!("clone -o {} safe/b@mine safe/d", bench.key("b")));
    bench.ok("key rotate safe/c");
    bench.write("safe/c", "own", "o");
    bench.open_again("safe");
    bench.ok("promote safe/c");
    bench.ok("key rotate safe/d");
    bench.write("safe/d", "late", "l");
    bench.open_again("safe");
    for (dataset, names) in [
        ("safe/b", "first rotated mine more"),
        ("safe/c", "first rotated mine more own"),
        ("safe/d", "first rotated mine late"),
        ("safe/early", "first rotated"),
        ("safe/c/.snapshot/2", "first rotated"),
        ("safe/c/.snapshot/more", "first rotated mine more"),
    ] {
        let found = fs::read_dir(bench.place.path("mnt").join(dataset)).unwrap();
        let mut found: Vec<_> = found
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut wanted: Vec<_> = words(names).into_iter().map(String::from).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{dataset}");
        for name in found {
            bench.read(dataset, &name).expect("it can be read");
        }
    }
    assert_eq!(bench.ok("get -H -o value org:copy safe/b").trim(), "yes");
    // It is sent on as anything else, and comes back beside what it was.
    bench.copy("safe/c@more", "on", "tank/back");
    bench.ok("key load tank/back");
    bench.ok("rollback tank/back@more");
    bench.open_again("tank");
    assert_eq!(bench.read("tank/back", "first"), Some("1".repeat(300_000)));
    assert_eq!(bench.read("tank/back", "more"), Some("n".into()));
}

#[test]
fn a_receive_replaces_no_key() {
    let bench = needs!(Bench::new());
    bench.copy("tank/a@1", "full", "safe/b");
    bench.receive("safe/c", "full");
    bench.receive("safe/d", "full");
    bench.ok("key load safe/b");
    bench.ok(&format!("key change -o {} safe/b", bench.key("b")));
    let own = bench.ok("key slots -H safe/b");

    // Data that needs no new key of data: all of them take it, and keep what opens them.
    bench.write_for("tank/a@2", "second", "2");
    bench.send("-i @1 tank/a@2", "next");
    for name in ["b", "c", "d"] {
        bench.receive(&format!("safe/{name}"), "next");
    }
    assert_eq!(bench.ok("key slots -H safe/b"), own);

    // A new one comes to those that have the key which wraps it.
    bench.ok("key rotate tank/a");
    bench.write_for("tank/a@3", "third", "3");
    bench.send("-i @2 tank/a@3", "rotated");
    let before = bench.ok("inspect -dddd safe");
    bench.refused("safe/b", "rotated", "wrapped by another wrapping key");
    assert_eq!(
        before.split_once("Datasets").map(|(_, rest)| rest),
        bench
            .ok("inspect -dddd safe")
            .split_once("Datasets")
            .map(|(_, rest)| rest)
    );
    bench.receive("safe/c", "rotated");

    // One that was rotated apart is refused as well.
    bench.ok("key load safe/d");
    bench.ok("key rotate safe/d");
    bench.refused(
        "-F safe/d",
        "rotated",
        "rotated here and at the sender separately",
    );

    // The sender gets another key, and then another one for data.
    let slots = bench.ok("key slots -H safe/c");
    bench.ok(&format!("key change -o {} tank/a", bench.key("b")));
    bench.ok("snapshot tank/a@4");
    bench.copy("-i @3 tank/a@4", "changed", "safe/c");
    assert_eq!(bench.ok("key slots -H safe/c"), slots);
    bench.ok("key rotate tank/a");
    bench.ok("snapshot tank/a@5");
    bench.send("-i @4 tank/a@5", "both");
    bench.refused("safe/c", "both", "wrapped by another wrapping key");

    bench.open_again("safe");
    for name in ["b", "c", "d"] {
        let dataset = format!("safe/{name}");
        assert_eq!(bench.read(&dataset, "first"), Some("1".repeat(300_000)));
        assert_eq!(bench.read(&dataset, "second"), Some("2".into()));
    }
    assert_eq!(bench.read("safe/c", "third"), Some("3".into()));
}

#[test]
fn inherited_keys_travel_with_their_slots() {
    let bench = needs!(Bench::new());
    bench.ok("create tank/a/below");
    bench.write_for("tank/a/below@1", "deep", "d");
    bench.copy("tank/a/below@1", "below", "safe/below");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/below", "deep"), Some("d".into()));
    // It can have the key of what is above it, as any dataset.
    bench.ok(&format!(
        "create -o encryption=on -o {} safe/top",
        bench.key("b")
    ));
    bench.ok("rename safe/below safe/top/below");
    bench.ok("key change -i safe/top/below");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/top/below", "deep"), Some("d".into()));
}

#[test]
fn what_is_interrupted_goes_on_or_is_gone() {
    let mut bench = needs!(Bench::new());
    bench.send("tank/a@1", "full");
    let full = bench.stream("full");
    let cut = &full[..full.len() - 5000];
    let done = bench.receive_bytes("safe/b", cut);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "ends too early");
    bench.place.fails("receive -A safe/b", USAGE);
    assert_eq!(bench.ok("list -H -o name -r safe"), "safe\n");

    let done = bench.receive_bytes("-s safe/b", cut);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "the received part is kept");
    assert_eq!(bench.ok("list -H -o name -r safe"), "safe\nsafe/b\n");
    let value = |property: &str, name: &str| -> u64 {
        let value = bench.ok(&format!("get -H -p -o value {property} {name}"));
        value.trim().parse().unwrap()
    };
    assert!(value("used", "safe/b") > 0);
    assert!(value("used", "safe") > value("used", "safe/b"));
    bench.place.fails("mount safe/b", NOT_FOUND);
    let token = || bench.ok("get -H -o value receive_resume_token safe/b");
    let before = token();
    // Through the end of the daemon, and an export.
    bench.ok("pool export safe");
    bench.place.kill();
    bench.place.start();
    bench.ok(&format!(
        "pool import -N -d {} safe",
        bench.place.arg("safe.pool")
    ));
    bench.ok("inspect --check safe");
    let token = || bench.ok("get -H -o value receive_resume_token safe/b");
    assert_eq!(token(), before);
    assert!(!bench.sends("send -w -t 0102", "none"));
    bench.send(&format!("-t {}", before.trim()), "rest");
    assert!(bench.stream("rest").len() < full.len());
    bench.receive("safe/b", "rest");
    assert_eq!(token().trim(), "-");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));

    let done = bench.receive_bytes("-s safe/c", cut);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    bench.ok("receive -A safe/c");
    let done = bench.receive_bytes("-s safe/d", cut);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    let used = bench.ok("list -H -o used safe/d");
    assert_eq!(
        bench.ok("destroy -n -v safe/d"),
        format!("would destroy safe/d\nwould free {used}")
    );
    assert_eq!(bench.ok("destroy -f -v safe/d"), "destroyed safe/d\n");
    bench.place.fails("list safe/d", NOT_FOUND);
    bench
        .place
        .fails("get receive_resume_token safe/c", NOT_FOUND);
    bench.ok("inspect --check safe");
}

#[test]
fn what_does_not_fit_is_refused() {
    let bench = needs!(Bench::new());
    bench.send("tank/a@1", "full");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("snapshot tank/a@3");
    bench.send("-I @1 tank/a@3", "all");
    bench.receive("safe/b", "full");
    bench.open("safe/b");
    bench.write("safe/b", "mine", "m");
    bench.refused("safe/b", "all", "was changed since @1");
    bench.ok("unmount safe/b");
    bench.refused("safe/b", "all", "was changed since @1");
    let done = bench.receive_bytes("-F -v safe/b", &bench.stream("all"));
    assert_eq!(done.code, 0, "{done:?}");
    assert!(
        done.err
            .starts_with("received safe/b@2\nreceived safe/b@3\n"),
        "{done:?}"
    );
    bench.ok("mount safe/b");
    assert_eq!(bench.read("safe/b", "second"), Some("2".into()));
    assert_eq!(bench.read("safe/b", "mine"), None);
    let done = bench.receive_bytes("safe/c", b"what is this, then?");
    assert_eq!(done.code, DAMAGED, "{done:?}");
    let done = bench.receive_bytes("safe/c", b"");
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "is empty");
    bench.refused(
        "-o encryption=off safe/c",
        "full",
        "the stream was sent with -w",
    );
    // Clear datasets need no keys, and no -w.
    bench.ok("create tank/clear");
    bench.write_for("tank/clear@1", "file", "c");
    assert!(bench.sends("send tank/clear@1", "clear"));
    bench.receive("safe/clear", "clear");
    bench.ok("mount safe/clear");
    assert_eq!(bench.read("safe/clear", "file"), Some("c".into()));
}

#[test]
fn a_mounted_dataset_shows_what_is_added_to_it() {
    let bench = needs!(Bench::new());
    // What is mounted in it goes aside and comes back.
    fs::create_dir(bench.file("tank/a", "below")).unwrap();
    bench.ok("snapshot tank/a@dir");
    bench.copy("tank/a@dir", "full", "safe/b");
    // Reading changes nothing.
    bench.ok("set atime=off safe");
    bench.open("safe/b");
    bench.ok("create safe/b/below");
    bench.write("safe/b/below", "own", "o");
    bench.write("tank/a", "first", "2");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("snapshot tank/a@3");
    bench.send("-I @dir tank/a@3", "all");

    // A file that is open holds it up: an open file does not change its contents.
    let held = fs::File::open(bench.file("safe/b", "first")).unwrap();
    let done = bench.receive_bytes("safe/b", &bench.stream("all"));
    assert_eq!(done.code, BUSY, "{done:?}");
    has(&done.err, "-F");
    assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));
    assert_eq!(bench.read("safe/b/below", "own"), Some("o".into()));
    drop(held);
    bench.receive("safe/b", "all");
    for name in ["first", "second"] {
        assert_eq!(bench.read("safe/b", name), Some("2".into()));
    }
    assert_eq!(bench.read("safe/b/below", "own"), Some("o".into()));
    let mounted = bench.ok("get -H -o value mounted safe/b safe/b/below");
    assert_eq!(mounted, "yes\nyes\n");

    // With -F the file gives errors, and what was changed goes.
    bench.write("safe/b", "mine", "m");
    bench.ok("snapshot tank/a@4");
    bench.send("-i @3 tank/a@4", "next");
    bench.refused("safe/b", "next", "was changed since @3");
    let held = fs::File::open(bench.file("safe/b", "")).unwrap();
    bench.receive("-F safe/b", "next");
    let flags = rustix::fs::OFlags::RDONLY;
    let found = rustix::fs::openat(&held, "absent", flags, rustix::fs::Mode::empty());
    assert_ne!(
        found.unwrap_err(),
        rustix::io::Errno::NOENT,
        "its file system is gone"
    );
    assert_eq!(bench.read("safe/b", "mine"), None);
    assert_eq!(bench.read("safe/b", "second"), Some("2".into()));
    bench.ok("unmount safe/b/below");
    bench.ok("inspect --check safe");
}

#[test]
fn what_goes_on_from_an_origin_becomes_a_clone() {
    let bench = needs!(Bench::new());
    bench.ok(&format!("clone -o {} tank/a@1 tank/c", bench.key("b")));
    bench.write("tank/c", "own", "c");
    bench.ok("key rotate tank/c");
    bench.write_for("tank/c@2", "rotated", "r");
    bench.send("-i tank/a@1 tank/c@2", "clone");
    // Without the origin there is nothing that it could be a clone of.
    bench.refused("safe/c", "clone", "receive a full stream first");
    bench.copy("tank/a@1", "full", "safe/b");
    // The clone took new keys for its origin, and this state has the older ones.
    bench.ok("key load safe/b");
    bench.ok("rollback safe/b@1");
    bench.receive("safe/c", "clone");
    bench.write_for("tank/c@3", "more", "m");
    bench.copy("-i @2 tank/c@3", "next", "safe/c");
    let value = |line: &str| {
        bench
            .ok(&format!("get -Hp -o value {line}"))
            .trim()
            .to_owned()
    };
    assert_eq!(value("origin safe/c"), "safe/b@1");
    // It holds what it does not share alone.
    let used: u64 = value("used safe/c").parse().unwrap();
    assert!(used < 300_000, "{used}");
    bench.open_again("safe");
    for (name, text) in [("own", "c"), ("rotated", "r"), ("more", "m")] {
        assert_eq!(bench.read("safe/c", name), Some(text.into()));
        assert_eq!(bench.read("safe/b", name), None);
    }
    assert_eq!(bench.read("safe/c", "first"), Some("1".repeat(300_000)));
    bench.place.fails("destroy -r -f safe/b", BUSY);
    bench.ok("promote safe/c");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/c", "first"), Some("1".repeat(300_000)));
    assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));
    bench.ok("unmount safe/b");
    bench.ok("destroy -r -f safe/b");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/c", "first"), Some("1".repeat(300_000)));

    // In the clear, where both are.
    bench.ok("create tank/clear");
    bench.write_for("tank/clear@1", "first", "1");
    bench.ok("clone tank/clear@1 tank/e");
    bench.write_for("tank/e@2", "own", "e");
    assert!(bench.sends("send tank/clear@1", "full"));
    assert!(bench.sends("send -i tank/clear@1 tank/e@2", "clone"));
    bench.receive("safe/clear", "full");
    bench.receive("safe/e", "clone");
    assert_eq!(value("origin safe/e"), "safe/clear@1");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/e", "first"), Some("1".into()));
    assert_eq!(bench.read("safe/e", "own"), Some("e".into()));
    bench.ok("unmount safe/e");
    bench.ok("destroy -r -f safe/e");
    bench.ok("inspect --check safe");

    // Plain text brings no keys for what it would share.
    assert!(bench.sends("send -i tank/a@1 tank/c@2", "plain"));
    bench.receive("safe/a", "full");
    bench.refused("safe/x", "plain", "whose keys do not come");
}
