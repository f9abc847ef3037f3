//! Facts about a stream before it is sent or received, and the names that its datasets get.

use crate::common::bench::Bench;
use crate::common::*;

/// Sizes in the lines of `send -n -P`, without the sum, which is compared.
fn sizes(lines: &str) -> Vec<u64> {
    let number = |line: &str| line.rsplit('\t').next().unwrap().parse::<u64>().unwrap();
    let (rows, sum): (Vec<_>, Vec<_>) = lines.lines().partition(|line| !line.starts_with("size\t"));
    let sizes: Vec<u64> = rows.into_iter().map(number).collect();
    assert_eq!(number(sum[0]), sizes.iter().sum::<u64>(), "{lines}");
    sizes
}

/// All state that a receive could change.
fn state(bench: &Bench) -> String {
    bench.ok("list -H -r -t all -o name,guid,mounted,referenced safe/top")
        + &bench.ok("list -H -r -t all -o name,guid,mounted safe")
        + &bench.ok("get -H all safe/top")
}

#[test]
fn the_sizes_are_those_of_the_streams() {
    let bench = needs!(Bench::new());
    bench.ok("set compression=zstd tank/a");
    bench.write_for("tank/a@2", "second", &"2".repeat(700_000));
    std::fs::remove_file(bench.file("tank/a", "first")).unwrap();
    bench.write_for("tank/a@3", "third", "3");
    bench.ok("create -V 1M tank/disk");
    bench.ok("snapshot tank/disk@1");
    for what in [
        "tank/a@1",
        "-p tank/a@2",
        "-i @1 tank/a@2",
        "-i @1 tank/a@3",
        "-I @1 tank/a@3",
        "tank/disk@1",
    ] {
        for raw in ["", "-w "] {
            let what = format!("{raw}{what}");
            let told = bench.ok(&format!("send -n -P {what}"));
            assert!(bench.sends(&format!("send {what}"), "stream"), "{what}");
            let bytes = bench.stream("stream").len() as u64;
            assert_eq!(sizes(&told).iter().sum::<u64>(), bytes, "{what}: {told}");
        }
    }
    let told = bench.ok("send -nP -w -I @1 tank/a@3");
    let rows: Vec<&str> = told.lines().collect();
    assert!(rows[0].starts_with("incremental\t1\ttank/a@2\t"), "{told}");
    assert!(rows[1].starts_with("incremental\t2\ttank/a@3\t"), "{told}");
    has(
        &bench.ok("send -n -v -w tank/a@1"),
        "full send of tank/a@1 estimated size is ",
    );
    assert_eq!(bench.ok("send -n -w tank/a@1"), "");
    has(
        &bench.ok("--json send -n -w -i @1 tank/a@2"),
        "\"from\": \"tank/a@1\"",
    );
    // With the stream they go to the standard error.
    let mut command = bench.place.command();
    command.args(words("send -P -w -i @1 tank/a@2"));
    let sent = command.output().unwrap();
    let told = String::from_utf8(sent.stderr).unwrap();
    assert_eq!(sizes(&told), [sent.stdout.len() as u64]);
    // What cannot be sent has no size.
    bench.ok("unmount tank/a");
    bench.ok("key unload tank/a");
    bench.place.fails("send -n tank/a@1", NO_KEY);
    bench.place.fails("send -n -w -i @3 tank/a@1", USAGE);
}

#[test]
fn a_dry_run_checks_and_changes_nothing() {
    let bench = needs!(Bench::new());
    bench.write_for("tank/a@2", "second", "2");
    bench.write_for("tank/a@3", "third", "3");
    bench.send("tank/a@1", "full");
    bench.send("-I @1 tank/a@3", "all");
    bench.send("-i @2 tank/a@3", "last");
    assert!(bench.sends("send tank/a@1", "plain"));
    let both = [bench.stream("full"), bench.stream("all")].concat();
    bench.ok("create safe/top");
    bench.ok("snapshot safe/top@1");
    let before = state(&bench);
    let would = |line: &str, bytes: &[u8]| {
        let done = bench.receive_bytes(&format!("-n -v {line}"), bytes);
        assert_eq!(done.code, 0, "{done:?}");
        let names = done
            .err
            .lines()
            .filter_map(|line| line.strip_prefix("would receive "));
        names.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(would("safe/b", &bench.stream("full")), "safe/b@1");
    assert_eq!(would("safe/b", &both), "safe/b@1 safe/b@2 safe/b@3");
    assert_eq!(would("-e safe", &both), "safe/a@1 safe/a@2 safe/a@3");
    let off = "-o encryption=off safe/b@x";
    assert_eq!(would(off, &bench.stream("plain")), "safe/b@x");
    // What a receive refuses.
    let refused = |line: &str, bytes: &[u8], code: i32| {
        let dry = bench.receive_bytes(&format!("-n {line}"), bytes);
        let real = bench.receive_bytes(line, bytes);
        assert_eq!(
            (dry.code, real.code),
            (code, code),
            "{line}: {dry:?} {real:?}"
        );
    };
    refused("safe/b", &bench.stream("last"), USAGE);
    refused("safe/b", &bench.stream("plain"), USAGE);
    refused("safe/none/b", &bench.stream("full"), NOT_FOUND);
    refused("safe", &bench.stream("full"), USAGE);
    refused("safe/b", b"", DAMAGED);
    let whole = bench.stream("full");
    refused("safe/b", &whole[..whole.len() - 1], DAMAGED);
    let mut bad = whole.clone();
    bad[whole.len() / 2] ^= 1;
    refused("safe/b", &bad, DAMAGED);
    // The second stream goes on from what the first would make, and from nothing else.
    let gap = [bench.stream("full"), bench.stream("last")].concat();
    let dry = bench.receive_bytes("-n safe/b", &gap);
    assert_eq!(dry.code, USAGE, "{dry:?}");
    assert_eq!(state(&bench), before);
    // It is true of a dataset that is there, too.
    bench.receive("safe/b", "full");
    let before = state(&bench);
    assert_eq!(would("safe/b", &bench.stream("all")), "safe/b@2 safe/b@3");
    refused("safe/b", &bench.stream("full"), USAGE);
    assert_eq!(state(&bench), before);
}

#[test]
fn names_come_with_the_stream_and_stay_below_the_target() {
    let bench = needs!(Bench::new());
    bench.ok("create -p tank/x/y");
    bench.ok("snapshot tank/x/y@1");
    bench.ok("snapshot tank@1");
    bench.send("tank/x/y@1", "deep");
    bench.send("tank/a@1", "a");
    bench.send("tank@1", "root");
    let names = || bench.ok("list -H -r -o name safe");
    let none = names();
    bench.ok("create safe/top");
    let dry = bench.receive_bytes("-n -v -d safe/top", &bench.stream("deep"));
    has(&dry.err, "would receive safe/top/x/y@1");
    let both = [bench.stream("deep"), bench.stream("a")].concat();
    let done = bench.receive_bytes("-v -d safe/top", &both);
    assert_eq!(done.code, 0, "{done:?}");
    has(&done.err, "received safe/top/x/y@1");
    has(&done.err, "received safe/top/a@1");
    bench.receive("-e safe/top", "deep");
    let found = "safe\nsafe/top\nsafe/top/a\nsafe/top/x\nsafe/top/x/y\nsafe/top/y\n";
    assert_eq!(names(), found);
    // The root dataset of the sender is the target itself, which is there; its last part is a name like others.
    bench.refused("-d safe/top", "root", "exists already");
    bench.receive("-e safe/top", "root");
    has(&names(), "safe/top/tank\n");
    bench.refused("-d safe/top@x", "a", "'safe/top@x' is a snapshot");
    bench.refused(
        "-d -o encryption=off safe",
        "a",
        "stays encrypted as at the sender",
    );
    assert!(bench.sends("send tank/a@1", "plain"));
    let other = "-d -o encryption=on -o keysource=passphrase,prompt safe";
    bench.refused(other, "plain", "cannot be asked for");
    let done = bench.receive_bytes("-d safe/none", &bench.stream("a"));
    assert_eq!(done.code, NOT_FOUND, "{done:?}");
    // A name that is too long as a whole.
    let (long, top) = ("l".repeat(150), "t".repeat(150));
    bench.ok(&format!("create tank/{long}"));
    bench.ok(&format!("snapshot tank/{long}@1"));
    bench.send(&format!("tank/{long}@1"), "long");
    bench.ok(&format!("create safe/{top}"));
    let before = names();
    bench.refused(&format!("-d safe/{top}"), "long", "longer than 255 bytes");
    assert_eq!(names(), before);
    assert_ne!(before, none);
    bench.ok("inspect --check safe");
}

#[test]
fn what_was_mounted_stays_unmounted_with_u() {
    let bench = needs!(Bench::new());
    bench.write_for("tank/a@2", "second", "2");
    bench.write_for("tank/a@3", "third", "3");
    bench.copy("tank/a@1", "full", "safe/b");
    bench.send("-i @1 tank/a@2", "next");
    bench.send("-i @2 tank/a@3", "last");
    bench.open("safe/b");
    bench.receive("-F safe/b", "next");
    let mounted = || bench.ok("get -H -o value mounted safe/b").trim().to_owned();
    assert_eq!(mounted(), "yes");
    bench.receive("-F -u safe/b", "last");
    assert_eq!(mounted(), "no");
    bench.ok("mount safe/b");
    assert_eq!(bench.read("safe/b", "third"), Some("3".into()));
}

/// Each name is decided on when it comes: the permission to receive below a dataset gives none to what others have there.
#[test]
fn a_delegate_receives_only_where_it_is_allowed() {
    let place = needs!(shared_place());
    place.pool("tank");
    for name in ["src", "src/a", "src/b", "to", "to/b"] {
        place.ok(&format!("create tank/{name}"));
    }
    place.ok("snapshot -r tank/src@1");
    place.ok(&format!("allow {ANN} send,key tank/src"));
    let socket = place.path("socket");
    let pipe = |rest: &str| {
        let mut stream = place.command();
        let sent = stream.args(words("send -w tank/src/a@1")).output().unwrap();
        let mut command = place.command();
        command
            .args(place.words(&format!("receive {rest}")))
            .env("STRONGROOM_SOCKET", &socket);
        std::os::unix::process::CommandExt::uid(&mut command, ANN);
        std::os::unix::process::CommandExt::gid(&mut command, ANN);
        command
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.current_dir("/").spawn().unwrap();
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), &sent.stdout);
        let output = child.wait_with_output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let names = place.ok("list -H -r -o name tank");
    for line in ["-e tank/to", "-n -e tank/to", "-d tank/to"] {
        assert_eq!(pipe(line).0, PERMISSION, "a stranger: {line}");
    }
    place.ok(&format!("allow -l {ANN} receive tank/to"));
    let (code, err) = pipe("-e tank/to");
    assert_eq!(code, PERMISSION);
    has(&err, "you do not have the permission 'create' on it");
    place.ok(&format!("allow -l {ANN} create,mount tank/to"));
    // What is between is for root to make.
    assert_eq!(pipe("-d tank/to").0, PERMISSION);
    assert_eq!(place.ok("list -H -r -o name tank"), names);
    let (code, err) = pipe("-e tank/to");
    assert_eq!((code, err.as_str()), (0, ""));
    place.says("list -H -r -o name tank", "tank/to/a\n");
}
