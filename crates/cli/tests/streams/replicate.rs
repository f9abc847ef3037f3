//! `send -R`: a dataset with those below it, as a whole and what is new since then.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::bench::Bench;
use crate::common::*;

/// All files below a directory, and what they hold.
fn files(dir: &Path) -> BTreeMap<String, blake3::Hash> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => {
                let below = files(&path).into_iter();
                all.extend(below.map(|(file, hash)| (format!("{name}/{file}"), hash)));
            }
            false => drop(all.insert(name, blake3::hash(&fs::read(&path).unwrap()))),
        }
    }
    all
}

/// A tree with children, a volume and clones, all with the snapshots 1 and 2.
fn tree(bench: &Bench) {
    bench.ok("set org:note=kept tank/a");
    bench.ok("create tank/a/b");
    bench.ok("create -o compression=zstd tank/a/b/c");
    bench.ok("create -s -V 1M tank/a/disk");
    bench.write("tank/a/b", "early", "e");
    bench.ok("snapshot tank/a/b@0");
    // A clone whose name comes before that of its origin's dataset, and one of a dataset above it.
    bench.ok("clone tank/a/b@0 tank/a/aa");
    bench.ok("clone tank/a@1 tank/a/b/of-top");
    bench.write("tank/a/aa", "own", "o");
    bench.write("tank/a/b/c", "file", &"c".repeat(200_000));
    for name in ["b", "b/c", "disk", "aa", "b/of-top"] {
        bench.ok(&format!("snapshot tank/a/{name}@1"));
    }
    bench.write("tank/a", "second", "2");
    fs::remove_file(bench.file("tank/a/b", "early")).unwrap();
    bench.ok("snapshot -r tank/a@2");
}

fn snapshots(bench: &Bench, top: &str) -> Vec<String> {
    let all = bench.ok(&format!("list -H -r -t all -o name,guid {top}"));
    let below = all.lines().map(|line| {
        let (name, guid) = line.split_once('\t').unwrap();
        let rest = name.strip_prefix(top).unwrap();
        // A dataset gets a guid of its own.
        match rest.contains('@') {
            true => format!("{rest} {guid}"),
            false => rest.to_owned(),
        }
    });
    below.collect()
}

/// Compares all files of all datasets of a copy, which is mounted by hand, with those that were sent.
fn same(bench: &Bench, copy: &str) {
    for name in ["", "/aa", "/b", "/b/c", "/b/of-top"] {
        bench.ok(&format!("mount {copy}{name}"));
    }
    let held = |top: &str| files(&bench.place.path("mnt").join(top));
    assert_eq!(held("tank/a"), held(copy), "{copy}");
}

#[test]
fn a_tree_arrives_with_its_snapshots_and_clones() {
    let bench = needs!(Bench::new());
    tree(&bench);
    bench.send("-R tank/a@2", "sealed");
    assert!(bench.sends("send -R tank/a@2", "plain"));
    let told = bench.ok("send -n -P -R -w tank/a@2");
    has(&told, &format!("size\t{}\n", bench.stream("sealed").len()));
    has(&told, "incremental\ttank/a/b@0\ttank/a/aa@1\t");
    bench.ok("create -p safe/top/deep");
    let dry = bench.receive_bytes("-n -v safe/b", &bench.stream("sealed"));
    assert_eq!(dry.code, 0, "{dry:?}");
    has(&dry.err, "would receive safe/b/b/c@2");
    bench.ok(&format!(
        "create -o encryption=on -o {} safe/keys",
        bench.key("b")
    ));
    for (line, file, copy) in [
        ("safe/b", "sealed", "safe/b"),
        ("-d safe/top", "sealed", "safe/top/a"),
        ("-e safe/top/deep", "sealed", "safe/top/deep/a"),
    ] {
        let done = bench.receive_bytes(line, &bench.stream(file));
        assert_eq!(done.code, 0, "{line}: {done:?}\n{}", bench.place.log());
        assert_eq!(
            snapshots(&bench, copy),
            snapshots(&bench, "tank/a"),
            "{line}"
        );
        let value = |property: &str, name: &str| {
            let line = format!("get -H -o value {property} {copy}{name}");
            bench.ok(&line).trim().to_owned()
        };
        assert_eq!(value("org:note", ""), "kept");
        assert_eq!(value("compression", "/b/c"), "zstd");
        assert_eq!(value("canmount", "/b/c"), "noauto");
        assert_eq!(value("origin", "/aa"), format!("{copy}/b@0"));
        assert_eq!(value("origin", "/b/of-top"), format!("{copy}@1"));
        assert_eq!(value("type", "/disk"), "volume");
    }
    // In the clear a clone of an encrypted dataset cannot share its records.
    let done = bench.receive_bytes("safe/keys/b", &bench.stream("plain"));
    assert_eq!(done.code, USAGE, "{done:?}");
    has(&done.err, "in the clear");
    bench.ok("key accept -r safe");
    bench.ok("key load -r safe/b");
    same(&bench, "safe/b");
    bench.ok("inspect --check safe");
    bench.ok("pool scrub -w safe");
}

#[test]
fn a_plain_tree_is_encrypted_by_the_receiver() {
    let bench = needs!(Bench::new());
    bench.ok("create tank/p");
    bench.ok("create tank/p/q");
    bench.write("tank/p", "one", "1");
    bench.write_for("tank/p/q@0", "two", &"2".repeat(100_000));
    bench.ok("snapshot -r tank/p@1");
    assert!(bench.sends("send -R tank/p@1", "plain"));
    bench.ok(&format!(
        "create -o encryption=on -o {} safe/keys",
        bench.key("b")
    ));
    let done = bench.receive_bytes("safe/keys/p", &bench.stream("plain"));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        snapshots(&bench, "safe/keys/p"),
        snapshots(&bench, "tank/p")
    );
    for (name, file) in [("safe/keys/p", "one"), ("safe/keys/p/q", "two")] {
        has(
            &bench.ok(&format!("get -H -o value suite {name}")),
            "xaes-256-gcm",
        );
        bench.ok(&format!("mount {name}"));
        assert!(bench.read(name, file).is_some());
    }
    // One that is new, and one that went on.
    bench.ok("create tank/p/q/r");
    bench.write("tank/p/q", "three", "3");
    bench.ok("snapshot -r tank/p@2");
    assert!(bench.sends("send -R -i @1 tank/p@2", "next"));
    let done = bench.receive_bytes("-F safe/keys/p", &bench.stream("next"));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        snapshots(&bench, "safe/keys/p"),
        snapshots(&bench, "tank/p")
    );
    assert_eq!(bench.read("safe/keys/p/q", "three"), Some("3".into()));
}

#[test]
fn what_is_new_follows_what_the_sender_did() {
    let bench = needs!(Bench::new());
    tree(&bench);
    bench.send("-R tank/a@2", "full");
    let done = bench.receive_bytes("safe/b", &bench.stream("full"));
    assert_eq!(done.code, 0, "{done:?}");
    let held = snapshots(&bench, "safe/b");
    bench.ok("create tank/a/new");
    bench.ok("create tank/a/late");
    bench.ok("snapshot -r tank/a@3");
    bench.ok("destroy -f tank/a/b/c@1");
    bench.ok("rename tank/a/disk@1 @first");
    bench.write("tank/a/aa", "own", "changed");
    bench.ok("snapshot -r tank/a@4");
    bench.ok("destroy -f -r tank/a/late");
    bench.ok("create tank/a/without");
    let mut command = bench.place.command();
    command.args(words("send -R -w -I @2 tank/a@4"));
    let sent = command.output().unwrap();
    has(
        &String::from_utf8(sent.stderr).unwrap(),
        "'tank/a/without' has no such snapshot",
    );
    // Without -F nothing is destroyed, and only what is new comes.
    let done = bench.receive_bytes("safe/b", &sent.stdout);
    assert_eq!(done.code, 0, "{done:?}");
    let now = snapshots(&bench, "safe/b");
    assert!(held.iter().all(|name| now.contains(name)), "{now:?}");
    bench.ok("snapshot tank/a@5");
    bench.ok("snapshot tank/a/b@5");
    let rest = ["aa", "b/c", "b/of-top", "disk", "new"];
    rest.iter()
        .for_each(|name| drop(bench.ok(&format!("snapshot tank/a/{name}@5"))));
    // Two have each other's names since then.
    bench.ok("rename tank/a/disk@3 @x");
    bench.ok("rename tank/a/disk@2 @3");
    bench.ok("rename tank/a/disk@x @2");
    bench.ok("snapshot safe/b@mine");
    bench.send("-R -i @4 tank/a@5", "next");
    let done = bench.receive_bytes("-F safe/b", &bench.stream("next"));
    assert_eq!(done.code, 0, "{done:?}\n{}", bench.place.log());
    bench.ok("destroy -f tank/a/without");
    assert_eq!(snapshots(&bench, "safe/b"), snapshots(&bench, "tank/a"));
    bench.ok("key accept -r safe");
    bench.ok("key load -r safe/b");
    same(&bench, "safe/b");
    bench.ok("inspect --check safe");
}

/// A package in which the root, or a name of a stream, was replaced does not get out of the target.
#[test]
fn a_forged_package_stays_below_its_target() {
    let bench = needs!(Bench::new());
    bench.ok("create tank/a/b");
    bench.ok("snapshot tank/a/b@1");
    bench.send("-R tank/a@1", "tree");
    let stream = bench.stream("tree");
    bench.ok("create safe/top");
    let names = bench.ok("list -H -r -o name safe");
    for (what, with) in [
        ("tank/a", "tank/x"),
        ("tank/a", "tank/."),
        ("tank/a", "t..k/a"),
    ] {
        // The first frame names the root.
        let bad = replaced(&stream, 0, what, with);
        let done = bench.receive_bytes("safe/top/c", &bad);
        assert_eq!(done.code, DAMAGED, "{with}: {done:?}");
    }
    // The beginning of the second stream.
    let begins = [(1, "tank/a@1", "tank/x@1"), (1, "tank/a@1", "tank/.@1")];
    for (frame, what, with) in begins {
        let done = bench.receive_bytes("safe/top/c", &replaced(&stream, frame, what, with));
        assert_eq!(done.code, DAMAGED, "{with}: {done:?}");
    }
    // A second package, and one without streams.
    let first = 160 + u32::from_le_bytes(stream[24..28].try_into().unwrap()) as usize;
    let twice = [&stream[..first], &stream].concat();
    assert_eq!(bench.receive_bytes("safe/top/c", &twice).code, DAMAGED);
    assert_eq!(
        bench.receive_bytes("safe/top/c", &stream[..first]).code,
        DAMAGED
    );
    let done = bench.receive_bytes("safe/top/c@x", &stream);
    assert_eq!(done.code, USAGE, "{done:?}");
    assert_eq!(bench.ok("list -H -r -o name safe"), names);
    let done = bench.receive_bytes("safe/top/c", &stream);
    assert_eq!(done.code, 0, "{done:?}");
}

/// A stream in which a text of one frame is another of the same length, and all hashes fit.
fn replaced(stream: &[u8], wanted: usize, what: &str, with: &str) -> Vec<u8> {
    let (mut out, mut chain, mut rest) = (Vec::new(), [0; 32], stream);
    for frame in 0.. {
        if rest.is_empty() {
            break;
        }
        let (head, more) = rest.split_at(160);
        let len = u32::from_le_bytes(head[24..28].try_into().unwrap());
        let (payload, more) = more.split_at(len as usize);
        let (mut head, mut payload) = (head.to_vec(), payload.to_vec());
        if frame == wanted {
            let at = find(&payload, what.as_bytes()).unwrap();
            payload[at..at + with.len()].copy_from_slice(with.as_bytes());
        }
        head[96..128].copy_from_slice(blake3::hash(&payload).as_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&chain).update(&head[..128]);
        let link = *hasher.finalize().as_bytes();
        head[128..].copy_from_slice(&link);
        // The end of a stream, and a package, end the chain.
        chain = if [4, 6].contains(&head[4]) {
            [0; 32]
        } else {
            link
        };
        out.extend_from_slice(&head);
        out.extend_from_slice(&payload);
        rest = more;
    }
    out
}

/// A thousand snapshots, half of them in clones.
#[test]
fn a_thousand_snapshots_with_clones() {
    let place = Place::new();
    for pool in ["tank", "safe"] {
        place.ok(&format!(
            "pool create -s 256M -m none {pool} {{DIR}}/{pool}.pool"
        ));
    }
    place.ok("create tank/a");
    place.ok("snapshot tank/a@first");
    for n in 0..4 {
        place.ok(&format!("create tank/a/fs{n}"));
        place.ok(&format!("clone tank/a@first tank/a/clone{n}"));
    }
    for n in 0..112 {
        place.ok(&format!("snapshot -r tank/a@{n}"));
    }
    let send = |line: &str| {
        let mut command = place.command();
        let sent = command.args(words(line)).output().unwrap();
        assert!(sent.status.success(), "{sent:?}");
        sent.stdout
    };
    let done = place.run_with(&["receive", "safe/b"], &send("send -R -w tank/a@111"));
    assert_eq!(done.code, 0, "{done:?}");
    let count = |top: &str| {
        place
            .ok(&format!("list -H -r -t snapshot -o name {top}"))
            .lines()
            .count()
    };
    assert_eq!(count("safe/b"), 1009);
    assert_eq!(count("tank/a"), 1009);
    place.prints("get -H -o value origin safe/b/clone3", "safe/b@first\n");
    place.ok("snapshot -r tank/a@last");
    let done = place.run_with(
        &["receive", "-F", "safe/b"],
        &send("send -R -w -i @111 tank/a@last"),
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(count("safe/b"), 1018);
    place.ok("inspect --check safe");
}
