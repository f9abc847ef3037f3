//! Streams in the clear: the copy holds the same under keys of the receiver's, and no secrets get out by
//! mistake.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use crate::common::bench::Bench;
use crate::common::terminal::Terminal;
use crate::common::*;

/// A dataset with files of all kinds; it goes from `@1` to `@2` and `@3`.
fn histories(bench: &Bench) {
    let at = |name: &str| bench.file("tank/a", name);
    fs::create_dir(at("dir")).unwrap();
    bench.write("tank/a", "dir/small", "small");
    fs::hard_link(at("dir/small"), at("link")).unwrap();
    symlink("dir/small", at("symlink")).unwrap();
    let sparse = fs::File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"end", 5_000_000).unwrap();
    fs::set_permissions(at("sparse"), fs::Permissions::from_mode(0o640)).unwrap();
    rustix::fs::setxattr(
        at("sparse"),
        "user.long",
        &[7; 3000],
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    bench.ok("snapshot tank/a@2");
    fs::remove_file(at("first")).unwrap();
    fs::rename(at("link"), at("dir/moved")).unwrap();
    sparse.set_len(1_000_000).unwrap();
    bench.write("tank/a", "third", &"3".repeat(200_000));
    bench.ok("snapshot tank/a@3");
}

/// All that can be seen of a tree, file by file.
fn seen(bench: &Bench, dataset: &str, below: &str) -> Vec<String> {
    let dir = bench.place.path("mnt").join(dataset).join(below);
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        let meta = entry.metadata().unwrap();
        let contents = match (meta.is_file(), meta.is_dir()) {
            (true, _) => blake3::hash(&fs::read(entry.path()).unwrap()).to_string(),
            (_, true) => String::new(),
            _ => fs::read_link(entry.path()).unwrap().display().to_string(),
        };
        let mut long = vec![0; 4000];
        let long = rustix::fs::lgetxattr(entry.path(), "user.long", &mut long);
        all.push(format!(
            "{name} {:o} {} {} {} {} {}.{} {} {contents} {long:?}",
            meta.mode(),
            meta.uid(),
            meta.nlink(),
            meta.len(),
            meta.blocks(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ino()
        ));
        if meta.is_dir() {
            all.extend(seen(bench, dataset, &format!("{name}/")));
        }
    }
    all.sort();
    all
}

fn sends(bench: &Bench, what: &str, file: &str) {
    assert!(bench.sends(&format!("send {what}"), file), "{what}");
}

fn value(bench: &Bench, property: &str, dataset: &str) -> String {
    let line = format!("get -H -o value {property} {dataset}");
    bench.ok(&line).trim().to_owned()
}

/// Asserts that the copy holds the same as the original, snapshot by snapshot.
fn same(bench: &Bench, copy: &str) {
    for snapshot in ["1", "2", "3"] {
        let below = format!(".snapshot/{snapshot}/");
        let (sent, got) = (seen(bench, "tank/a", &below), seen(bench, copy, &below));
        // The number of a snapshot is in the numbers of its files.
        let own = |all: Vec<String>| -> Vec<String> {
            let strip = |line: String| {
                let mut parts: Vec<String> = line.split(' ').map(String::from).collect();
                let ino: u64 = parts[7].parse().unwrap();
                parts[7] = (ino & ((1 << 48) - 1)).to_string();
                parts.join(" ")
            };
            all.into_iter().map(strip).collect()
        };
        assert_eq!(own(sent), own(got), "{copy}@{snapshot}");
    }
}

#[test]
fn the_copy_holds_the_same_under_keys_of_its_own() {
    let bench = needs!(Bench::new());
    histories(&bench);
    bench.ok(&format!(
        "create -o encryption=aes-128-gcm -o compression=zstd -o {} safe/top",
        bench.key("b")
    ));
    sends(&bench, "tank/a@1", "full");
    sends(&bench, "-I @1 tank/a@3", "all");
    assert!(
        find(&bench.stream("full"), b"first").is_some(),
        "plain text"
    );
    // Below something encrypted, with a key of its own, and from clear to sealed.
    bench.receive("safe/top/b", "full");
    bench.receive("safe/top/b", "all");
    let own = format!("-o encryption=on -o {} safe/own", bench.key("a"));
    bench.receive(&own, "full");
    bench.receive("-x encryption safe/own", "all");
    bench.receive("-o encryption=off safe/clear", "full");
    bench.receive("safe/clear", "all");
    sends(&bench, "safe/clear@1", "again");
    sends(&bench, "-I @1 safe/clear@3", "rest");
    bench.receive("safe/top/c", "again");
    bench.receive("safe/top/c", "rest");
    for (dataset, encryption, source) in [
        ("safe/top/b", "aes-128-gcm", "file"),
        ("safe/own", "on", "file"),
        ("safe/clear", "off", "none"),
        ("safe/top/c", "aes-128-gcm", "file"),
    ] {
        assert_eq!(value(&bench, "encryption", dataset), encryption);
        assert!(value(&bench, "keysource", dataset).contains(source));
    }
    assert_eq!(
        value(&bench, "guid", "tank/a@3"),
        value(&bench, "guid", "safe/own@3")
    );
    let pool = bench.place.path("safe.pool");
    bench.ok("destroy -rf safe/clear");
    bench.open_again("safe");
    for copy in ["safe/top/b", "safe/own", "safe/top/c"] {
        same(&bench, copy);
        // It lives.
        bench.write(copy, "dir/new", "n");
        fs::remove_file(bench.file(copy, "sparse")).unwrap();
        bench.ok(&format!("key rotate {copy}"));
        bench.ok(&format!("snapshot {copy}@own"));
    }
    bench.open_again("safe");
    bench.ok("pool scrub -w safe");
    assert!(
        find_in_file(&pool, b"moved").is_none(),
        "a name of a file is on the device"
    );
}

#[test]
fn increments_fit_the_state_that_they_go_on_from() {
    let bench = needs!(Bench::new());
    histories(&bench);
    let key = bench.key("b");
    bench.ok(&format!("create -o encryption=on -o {key} safe/top"));
    sends(&bench, "tank/a@1", "full");
    sends(&bench, "-i @1 tank/a@2", "next");
    sends(&bench, "-i @2 tank/a@3", "last");
    bench.receive("safe/top/b", "full");
    bench.refused("safe/top/b", "full", "exists already");
    bench.refused("safe/top/b", "last", "lacks the snapshot");
    bench.ok("mount safe/top/b");
    bench.write("safe/top/b", "mine", "m");
    bench.ok("unmount safe/top/b");
    bench.refused("safe/top/b", "next", "was changed since");
    bench.receive("-F safe/top/b", "next");
    // What was received sealed takes what comes in the clear, and not the other way.
    bench.copy("tank/a@1", "sealed", "safe/s");
    bench.place.fails("send safe/s@1", NO_KEY);
    let done = bench.receive_bytes("safe/s", &bench.stream("next"));
    assert_eq!(done.code, NO_KEY, "{done:?}");
    has(&done.err, "not loaded");
    bench.ok("key load safe/s");
    bench.receive("safe/s", "next");
    bench.receive("safe/s", "last");
    bench.send("-i @2 tank/a@3", "sealed next");
    bench.refused("safe/top/b", "sealed next", "not sealed as the one");
    // From a copy it goes on to a copy of that, and to one of the first.
    bench.receive("safe/top/b", "last");
    sends(&bench, "safe/top/b@1", "on");
    sends(&bench, "-i @1 safe/top/b@2", "on next");
    bench.receive("safe/top/c", "on");
    bench.receive("safe/top/c", "next");
    bench.receive("safe/top/c", "last");
    bench.receive("safe/top/d", "full");
    bench.receive("safe/top/d", "on next");
    bench.receive("safe/top/d", "last");
    bench.open_again("safe");
    for copy in ["safe/s", "safe/top/b", "safe/top/c", "safe/top/d"] {
        same(&bench, copy);
    }
}

#[test]
fn nothing_is_in_the_clear_by_mistake() {
    let bench = needs!(Bench::new());
    sends(&bench, "tank/a@1", "full");
    bench.refused("safe/b", "full", "would be in the clear");
    let key = bench.key("b");
    bench.ok(&format!("create -o encryption=on -o {key} safe/top"));
    bench.ok("unmount safe/top");
    bench.ok("key unload safe/top");
    let done = bench.receive_bytes("safe/top/b", &bench.stream("full"));
    assert_eq!(done.code, NO_KEY, "{done:?}");
    has(&done.err, "is not loaded");
    bench.ok("key load safe/top");
    let whole = bench.stream("full");
    let done = bench.receive_bytes("safe/top/b", &whole[..whole.len() - 100]);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    assert_eq!(bench.ok("list -H -o name -r safe"), "safe\nsafe/top\n");
    bench.receive("safe/top/b", "full");
    let own = format!("-o {key} safe/top/b");
    bench.refused(&own, "full", "is for a new dataset");
    // What comes says nothing about keys here.
    sends(&bench, "-p tank/a@1", "props");
    bench.receive("safe/top/c", "props");
    assert_eq!(
        value(&bench, "keysource", "safe/top/c"),
        value(&bench, "keysource", "safe/top")
    );
    // Nor does the key of what is above, if it changes, leave anything behind.
    bench.ok(&format!("key change -o {} safe/top", bench.key("a")));
    bench.open_again("safe");
    assert_eq!(bench.read("safe/top/c", "first"), Some("1".repeat(300_000)));
    bench.ok("pool scrub -w safe");
}

#[test]
fn a_passphrase_is_asked_for_beside_the_stream() {
    if Command::new("setsid").arg("--version").output().is_err() {
        eprintln!("skipped: there is no setsid");
        return;
    }
    let bench = needs!(Bench::new());
    sends(&bench, "tank/a@1", "full");
    let args = ["receive", "-o", "encryption=on", "safe/own"];
    let mut terminal = Terminal::run_with_input(&bench.place, &args, &bench.place.arg("full"));
    for question in ["Enter passphrase for 'safe/own': ", "Re-enter passphrase: "] {
        terminal.wait_for(question);
        assert!(!terminal.echoes());
        terminal.types("correct horse\n");
    }
    let (status, last) = terminal.ends();
    assert!(status.success(), "{last}");
    bench.ok("key unload safe/own");
    bench.place.ok_with("key load safe/own", "correct horse\n");
    bench.ok("mount safe/own");
    assert_eq!(bench.read("safe/own", "first"), Some("1".repeat(300_000)));

    // Without a terminal the stream is not taken for one, and nothing comes to be.
    let mut command = Command::new("setsid");
    for (key, value) in bench.place.command().get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    let stream = std::fs::File::open(bench.place.path("full")).unwrap();
    let done = command
        .args([
            "--wait",
            PROGRAM,
            "receive",
            "-o",
            "encryption=on",
            "safe/x",
        ])
        .env_remove("STRONGROOM_LOG")
        .stdin(stream)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(NO_KEY), "{done:?}");
    let said = String::from_utf8_lossy(&done.stderr);
    has(&said, "keysource=raw,file:///");
    bench.place.fails("list safe/x", NOT_FOUND);
}

#[test]
fn an_interrupted_copy_goes_on() {
    let mut bench = needs!(Bench::new());
    histories(&bench);
    let key = bench.key("b");
    bench.ok(&format!(
        "create -o encryption=aes-256-gcm -o {key} safe/top"
    ));
    let import = format!("pool import -N -d {} safe", bench.place.arg("safe.pool"));
    let mut last = None;
    for (snapshot, copy) in [("1", "full"), ("3", "rest")] {
        let what = match last {
            None => format!("tank/a@{snapshot}"),
            Some(last) => format!("-i @{last} tank/a@{snapshot}"),
        };
        last = Some(snapshot);
        sends(&bench, &what, copy);
        let whole = bench.stream(copy);
        let done = bench.receive_bytes("-s safe/top/b", &whole[..whole.len() * 2 / 3]);
        assert_eq!(done.code, DAMAGED, "{done:?}");
        has(&done.err, "receive_resume_token");
        let token = || value(&bench, "receive_resume_token", "safe/top/b");
        let first = token();
        // Only with what belongs to it, and only in the clear.
        let raw = format!("send -w -t {first}");
        bench.place.refuses(&raw, USAGE, "leave out -w");
        assert!(bench.sends(&format!("send -w {what}"), "sealed"));
        bench.refused("-s safe/top/b", "sealed", "sealed");
        // After the daemon has gone, and without the key, nothing goes on.
        bench.place.kill();
        bench.place.start();
        for line in [
            import.as_str(),
            &format!("pool import -d {} tank", bench.place.arg("tank.pool")),
            "mount -l tank/a",
            "unmount safe/top",
            "key unload -f safe/top",
        ] {
            // Some of it is done at the start.
            bench.place.run(&words(line));
        }
        assert_eq!(value(&bench, "keystatus", "tank/a"), "available");
        assert_eq!(value(&bench, "keystatus", "safe/top"), "unavailable");
        bench.ok("inspect --check safe");
        assert_eq!(value(&bench, "receive_resume_token", "safe/top/b"), first);
        assert!(bench.sends(&format!("send -t {first}"), "on"));
        assert!(bench.stream("on").len() < whole.len());
        let done = bench.receive_bytes("-s safe/top/b", &bench.stream("on"));
        assert_eq!(done.code, NO_KEY, "{done:?}");
        assert_eq!(value(&bench, "receive_resume_token", "safe/top/b"), first);
        bench.ok("key load safe/top");
        bench.receive("safe/top/b", "on");
        assert_eq!(value(&bench, "receive_resume_token", "safe/top/b"), "-");
    }
    bench.open_again("safe");
    assert_eq!(bench.read("safe/top/b", "third"), Some("3".repeat(200_000)));
    assert_eq!(
        seen(&bench, "safe/top/b", "").len(),
        seen(&bench, "tank/a", "").len()
    );
    bench.ok("pool scrub -w safe");

    // What has keys that were changed meanwhile is thrown away.
    let whole = bench.stream("full");
    let part = &whole[..whole.len() * 2 / 3];
    let done = bench.receive_bytes("-s safe/top/c", part);
    assert_eq!(done.code, DAMAGED, "{done:?}");
    bench.ok(&format!("key change -o {} safe/top", bench.key("a")));
    bench.refused("-s safe/top/c", "full", "throw it away");
    bench.ok("receive -A safe/top/c");
    bench.receive("-s safe/top/c", "full");
    // A key of its own would be nowhere after an interruption.
    let own = format!("-s -o encryption=on -o {key} safe/own");
    bench.refused(&own, "full", "key of the dataset above");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/top/c", "first"), Some("1".repeat(300_000)));
}
