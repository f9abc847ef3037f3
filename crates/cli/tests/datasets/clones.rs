//! Clones: what they share and what they write, with keys of their own or inherited, for each owner of the
//! snapshots and whatever is destroyed.

use std::fs;

use crate::common::bench::Bench;
use crate::common::*;

/// A pool with an encrypted dataset `tank/a`, mounted, with a snapshot.
fn bench() -> Option<Bench> {
    needs!(can_mount());
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.ok(&format!("keygen {}", place.arg(name)));
    }
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    let bench = Bench { place };
    let key = bench.key("a");
    bench.ok(&format!("create -o encryption=on -o {key} tank/a"));
    bench.write("a", "shared", &"s".repeat(200_000));
    bench.write("a", "gone", &"g".repeat(100_000));
    bench.ok("snapshot tank/a@1");
    fs::remove_file(bench.file("a", "gone")).unwrap();
    bench.write("a", "later", "later");
    Some(bench)
}

/// Asserts that a clone begins with the contents of the snapshot.
fn begins_as_the_snapshot(bench: &Bench, clone: &str) {
    assert_eq!(bench.read(clone, "shared"), Some("s".repeat(200_000)));
    assert_eq!(bench.read(clone, "gone"), Some("g".repeat(100_000)));
    assert_eq!(bench.read(clone, "later"), None);
}

#[test]
fn each_writes_for_itself() {
    let bench = needs!(bench());
    bench.ok(&format!("clone -o {} tank/a@1 tank/b", bench.key("b")));
    bench.ok("clone -K tank/a@1 tank/a/c");
    for clone in ["b", "a/c"] {
        begins_as_the_snapshot(&bench, clone);
        bench.write(clone, "own", clone);
        let file = bench.file(clone, "shared");
        let file = fs::File::options().write(true).open(file).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 150_000).unwrap();
    }
    bench.open_again("tank");
    assert_eq!(bench.read("a", "shared"), Some("s".repeat(200_000)));
    assert_eq!(bench.read("a", "own"), None);
    for clone in ["b", "a/c"] {
        assert_eq!(bench.read(clone, "own"), Some(clone.into()));
        let shared = bench.read(clone, "shared").unwrap();
        assert_eq!(&shared[149_999..150_008], "schangeds");
        assert_eq!(bench.read(clone, "later"), None);
    }
    // A clone of a clone; and only its own key is needed.
    bench.ok("snapshot tank/b@2");
    bench.ok(&format!("clone -o {} tank/b@2 tank/d", bench.key("c")));
    bench.ok("unmount -a");
    bench.ok("key unload -a");
    bench.ok("key load tank/d");
    bench.ok("mount tank/d");
    assert_eq!(bench.read("d", "own"), Some("b".into()));
    // What it was made of cannot go, and all goes with it.
    for (line, clone) in [
        ("destroy -f tank/a@1", "tank/b"),
        ("destroy -f -r tank/b", "tank/d"),
        ("destroy -f -r tank/a", "tank/b"),
    ] {
        let said = bench.place.fails(line, BUSY);
        assert!(said.contains(clone), "{said}");
    }
    bench.ok("destroy -f -R tank/a@1");
    assert_eq!(bench.ok("list -H -o name -t all"), "tank\ntank/a\n");
    bench.ok("inspect --check tank");
}

/// The data keys of a dataset, as its wrapping key in the file opens them: the generation, whether it seals, and its
/// keys.
fn opened(bench: &Bench, dataset: &str, file: &str) -> Vec<(u32, bool, Vec<u8>)> {
    let copy = bench.place.path("copy.keys");
    bench.ok(&format!("key backup {dataset} {}", copy.display()));
    let bytes = fs::read(&copy).unwrap();
    fs::remove_file(&copy).unwrap();
    let at = bytes
        .windows(8)
        .position(|part| part == b"SRKEYRNG")
        .unwrap();
    let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
    let ring = keys::Keyring::decode(&bytes[at..at + len as usize]).unwrap();
    let key = fs::read(bench.place.path(file)).unwrap();
    let key = secret::Key::from_bytes(&key.try_into().unwrap()).unwrap();
    let key = ring.unlock(&keys::KeyMaterial::Key(key)).unwrap();
    let data = ring.open(&key).unwrap();
    let row = |k: &keys::DataKeys| {
        let secret = [&k.data.expose()[..], k.dedup.expose()].concat();
        (k.generation, k.seal.is_some(), secret)
    };
    data.iter().map(row).collect()
}

/// A snapshot as it is stored.
fn sent(bench: &Bench, snapshot: &str) -> Vec<u8> {
    let mut command = bench.place.command();
    let sent = command.args(["send", "-w", snapshot]).output().unwrap();
    assert!(sent.status.success());
    sent.stdout
}

/// Receives a stream as `tank/copy`, and loads its key.
fn received(bench: &Bench, stream: &[u8]) {
    let done = bench
        .place
        .run_with(&["receive", "-x", "canmount", "tank/copy"], stream);
    assert_eq!(done.code, 0, "{done:?}");
    bench.ok("key accept -r tank/copy");
    bench.ok("key load tank/copy");
}

/// The key of a clone opens what the clone shares, seals nothing of the origin, and opens nothing that is written there
/// later.
#[test]
fn a_clone_under_another_key_is_apart_from_its_origin() {
    let bench = needs!(bench());
    bench.ok(&format!("clone -o {} tank/a@1 tank/b", bench.key("b")));
    let numbers = |rows: &[(u32, bool, Vec<u8>)]| -> Vec<(u32, bool)> {
        rows.iter().map(|row| (row.0, row.1)).collect()
    };
    let (origin, clone) = (opened(&bench, "tank/a", "a"), opened(&bench, "tank/b", "b"));
    assert_eq!(numbers(&origin), [(1, true), (2, true)]);
    assert_eq!(numbers(&clone), [(1, false), (3, true)]);
    assert_eq!(origin[0].2, clone[0].2, "what they share");
    assert!(
        clone.iter().all(|row| row.2 != origin[1].2),
        "what the origin writes"
    );
    let features = bench.place.json("--json pool upgrade tank");
    let mut features = features[0]["features"].as_array().unwrap().iter();
    assert!(features.any(|f| f["name"] == "split-keys" && f["active"] == true));
    bench.write("a", "secret", "only here");
    bench.write("b", "own", "own");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "b");
    assert_eq!(bench.read("a", "secret"), Some("only here".into()));

    // A stream of the clone has no more than the clone.
    bench.ok("snapshot tank/b@2");
    bench.ok("snapshot tank/a@2");
    let stream = sent(&bench, "tank/b@2");
    bench.ok("unmount -a");
    bench.ok("key unload -a");
    received(&bench, &stream);
    assert_eq!(numbers(&opened(&bench, "tank/copy", "b")), numbers(&clone));
    bench.ok("mount tank/copy");
    assert_eq!(bench.read("copy", "own"), Some("own".into()));
    bench.ok("destroy -rf tank/copy");

    // A promotion needs both keys: one to check, one to seal.
    bench.ok("key load tank/b");
    bench.place.refuses("promote tank/b", NO_KEY, "tank/a");
    bench.ok("mount -a -l");
    for _ in 0..2 {
        bench.ok("promote tank/b");
        bench.open_again("tank");
        let gone = bench.read("b", ".snapshot/1/gone");
        assert_eq!(gone, Some("g".repeat(100_000)));
        assert_eq!(numbers(&opened(&bench, "tank/b", "b")), numbers(&clone));
        // A stream of what came from the origin has the generation that sealed it again.
        received(&bench, &sent(&bench, "tank/b@1"));
        bench.ok("rollback tank/copy@1");
        bench.ok("mount tank/copy");
        begins_as_the_snapshot(&bench, "copy");
        bench.ok("destroy -rf tank/copy");
        bench.ok("promote tank/a");
        bench.open_again("tank");
        let gone = bench.read("a", ".snapshot/1/gone");
        assert_eq!(gone, Some("g".repeat(100_000)));
    }
    // The origin goes back to the snapshot, and on with the new keys.
    bench.ok("rollback -r tank/a@1");
    bench.write("a", "after", "after");
    for (dataset, key) in [("a", "c"), ("b", "a")] {
        bench.ok(&format!("key change -o {} tank/{dataset}", bench.key(key)));
    }
    bench.open_again("tank");
    assert_eq!(bench.read("a", "after"), Some("after".into()));
    assert_eq!(bench.read("b", "own"), Some("own".into()));
    assert_eq!(numbers(&opened(&bench, "tank/a", "c")), numbers(&origin));
    assert_eq!(numbers(&opened(&bench, "tank/b", "a")), numbers(&clone));
    bench.ok("destroy -f -r tank/b");
    bench.open_again("tank");
    assert_eq!(bench.read("a", "after"), Some("after".into()));
    bench.ok("inspect --check tank");
}

#[test]
fn the_owner_of_the_snapshots_opens_them() {
    let bench = needs!(bench());
    bench.ok("key rotate tank/a");
    bench.ok("snapshot tank/a@2");
    bench.ok(&format!("clone -K -o {} tank/a@2 tank/b", bench.key("b")));
    bench.write("b", "own", "own");
    bench.write("a", "later", "even later");
    bench.ok("snapshot tank/a@3");
    bench.ok("snapshot tank/b@own");
    // While both are mounted and one is looked into.
    let then = |dataset: &str, snapshot: &str, name: &str| {
        bench.read(dataset, &format!(".snapshot/{snapshot}/{name}"))
    };
    assert!(then("a", "1", "gone").is_some());
    for _ in 0..2 {
        bench.ok("promote tank/b");
        assert_eq!(
            bench.ok("list -H -o name,origin -t all -r tank"),
            "tank\t-\ntank/a\ttank/b@2\ntank/a@3\t-\ntank/b\t-\ntank/b@1\t-\ntank/b@2\t-\n\
             tank/b@own\t-\n"
        );
        assert_eq!(then("b", "1", "gone"), Some("g".repeat(100_000)));
        assert_eq!(then("b", "2", "later"), Some("later".into()));
        assert_eq!(then("b", "own", "own"), Some("own".into()));
        assert_eq!(then("a", "3", "later"), Some("even later".into()));
        assert_eq!(then("a", "1", "gone"), None);
        bench.open_again("tank");
        assert_eq!(bench.read("a", "shared"), Some("s".repeat(200_000)));
        assert_eq!(then("b", "1", "gone"), Some("g".repeat(100_000)));
        bench.ok("promote tank/a");
        assert_eq!(then("a", "1", "gone"), Some("g".repeat(100_000)));
        bench.open_again("tank");
        assert_eq!(then("a", "2", "later"), Some("later".into()));
        assert_eq!(bench.read("b", "own"), Some("own".into()));
    }
    // The one that it came from can go, and with it the key of that.
    bench.ok("promote tank/b");
    bench.ok("destroy -f -r tank/a");
    fs::remove_file(bench.place.path("a")).unwrap();
    bench.open_again("tank");
    assert_eq!(then("b", "1", "gone"), Some("g".repeat(100_000)));
    bench.ok("rollback -r tank/b@1");
    begins_as_the_snapshot(&bench, "b");
    bench.write("b", "after", "after");
    bench.open_again("tank");
    assert_eq!(bench.read("b", "after"), Some("after".into()));
    // What is left of the key that encrypted the shared part, in the keyring of the clone, is enough.
    bench.ok("destroy -f tank/b@1");
    bench.ok("inspect --check tank");
}

/// A clone that has destroyed the keys of what it shared cannot own what still needs them.
#[test]
fn keys_that_are_gone_are_not_promised() {
    let bench = needs!(bench());
    bench.ok(&format!("clone -o {} tank/a@1 tank/b", bench.key("b")));
    bench.ok("key rotate --reencrypt tank/b");
    while bench.ok("get -H -o value reencryption tank/b") != "-\n" {
        bench.ok("pool sync");
    }
    bench
        .place
        .refuses("promote tank/b", BUSY, "does not have generation 1");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "b");
    assert_eq!(bench.read("a", "shared"), Some("s".repeat(200_000)));
    // It shares nothing any more.
    bench.ok("key generations tank/b");
    bench.ok("inspect --check tank");
}

/// The inherited keys of clones, after whatever moves (as those that OpenZFS lost, issues 12000 and 12614).
#[test]
fn inherited_keys_of_clones_stay_with_a_dataset_above() {
    let bench = needs!(bench());
    bench.ok(&format!(
        "create -o encryption=on -o {} tank/b",
        bench.key("b")
    ));
    bench.ok("clone tank/a@1 tank/a/c");
    bench.ok("clone tank/a@1 tank/b/c");
    for name in ["a/c", "b/c"] {
        begins_as_the_snapshot(&bench, name);
    }
    // The clone owns the snapshots, and is below the dataset that has its key.
    bench.ok("promote tank/a/c");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "a/c");
    bench.ok("promote tank/b/c");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "b/c");
    bench.place.fails("destroy -f tank/a", BUSY);
    bench.place.fails("rename tank/b/c tank/c", USAGE);
    // From one key to the other, and back.
    bench.ok(&format!("key change -o {} tank/b/c", bench.key("c")));
    bench.ok("rename tank/b/c tank/a/moved");
    bench.ok("key change -i tank/a/moved");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "a/moved");
    bench.ok("promote tank/a");
    bench.ok("promote tank/a/c");
    bench.ok(&format!("key change -o {} tank/a", bench.key("c")));
    bench.open_again("tank");
    for name in ["a/moved", "a/c"] {
        begins_as_the_snapshot(&bench, name);
    }
    // Everything but one, which goes on with a key of its own.
    bench.ok(&format!("key change -o {} tank/a/c", bench.key("b")));
    bench.ok("rename tank/a/c tank/c");
    bench.ok("destroy -f -r tank/a");
    bench.ok("destroy -f -r tank/b");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "c");
}

/// The procedure of Solaris: what is unique to a clone goes with its key, and the origin stays.
#[test]
fn a_clone_with_keys_of_its_own_is_made_unreadable_alone() {
    let bench = needs!(bench());
    for line in ["set readonly=on tank/a", "snapshot tank/a@2"] {
        bench.ok(line);
    }
    bench.ok(&format!("clone -K -o {} tank/a@2 tank/b", bench.key("b")));
    bench.ok("set readonly=off tank/b");
    // The origin has new keys since the same commit.
    bench.ok("set readonly=off tank/a");
    bench.write("b", "secret", &"x".repeat(50_000));
    bench.ok("pool sync");
    let used = |dataset: &str| -> Vec<u64> {
        let shown = bench.ok("inspect -dddd tank");
        let of = format!("Dataset {dataset} [");
        let lines = shown.lines().skip_while(|line| !line.starts_with(&of));
        let lines = lines
            .skip(1)
            .take_while(|line| !line.starts_with("Dataset "));
        let txgs = lines.filter_map(|line| line.trim().strip_prefix("txg ")?.split_once(' '));
        txgs.map(|(txg, _)| txg.parse().unwrap()).collect()
    };
    let (origin, clone) = (used("tank/a"), used("tank/b"));
    assert_eq!((origin.len(), clone.len()), (2, 2));
    assert_eq!(
        origin[0], clone[0],
        "what was there is under the shared key"
    );
    // A random key that is not kept, and the dataset is destroyed.
    bench.ok("key -c -o keysource=raw,file:///dev/urandom tank/b");
    bench.ok("unmount tank/b");
    bench.ok("key -u tank/b");
    bench.place.fails("key -l tank/b", WRONG_KEY);
    bench.ok(&format!("key load -n {}", "tank/a"));
    bench.ok("destroy -f tank/b");
    bench.open_again("tank");
    assert_eq!(bench.read("a", "later"), Some("later".into()));
}

#[test]
fn a_rollback_destroys_the_clones_of_later_snapshots() {
    let bench = needs!(bench());
    bench.ok("snapshot tank/a@2");
    bench.write("a", "after", "after");
    let (b, c) = (bench.key("b"), bench.key("c"));
    bench.ok(&format!("clone -o {b} tank/a@2 tank/b"));
    bench.ok("create tank/b/below");
    bench.ok("snapshot -r tank/b@x");
    bench.ok(&format!("clone -o {c} tank/b@x tank/c"));
    let place = &bench.place;
    let said = place.fails("rollback -r tank/a@1", BUSY);
    has(&said, "tank/a@2 has clones: tank/b; use -R");
    place.refuses("rollback tank/a@1", BUSY, "use -r");

    // What is held, or in use, keeps all.
    bench.ok("hold tag tank/b@x");
    place.refuses("rollback -R tank/a@1", BUSY, "is held (tag)");
    bench.ok("release tag tank/b@x");
    let open = fs::File::open(bench.file("b/below", ".")).unwrap();
    place.fails("rollback -R tank/a@1", BUSY);
    drop(open);
    assert!(bench.read("b", "later").is_some() && bench.read("c", "later").is_some());
    assert!(bench.read("a", "after").is_some());

    let open = fs::File::open(bench.file("c", "later")).unwrap();
    bench.ok("rollback -R -f tank/a@1");
    drop(open);
    assert_eq!(
        bench.ok("list -H -o name -t all -r tank"),
        "tank\ntank/a\ntank/a@1\n"
    );
    begins_as_the_snapshot(&bench, "a");
    for gone in ["b", "c"] {
        assert!(!bench.place.path("mnt").join(gone).exists());
    }
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "a");
}

#[test]
fn a_clone_in_use_elsewhere_stops_a_rollback() {
    let bench = needs!(bench());
    bench.ok("create -V 1M tank/disk");
    bench.ok("snapshot tank/disk@1");
    bench.ok("snapshot tank/disk@2");
    bench.ok("clone tank/disk@2 tank/copy");
    bench.ok("nbd export tank/copy");
    bench
        .place
        .refuses("rollback -R tank/disk@1", BUSY, "tank/copy");
    has(&bench.ok("list -H -o name -t all tank/copy"), "tank/copy");
    bench.ok("rollback -R -f tank/disk@1");
    bench.place.fails("list tank/copy", NOT_FOUND);
    lacks(&bench.ok("nbd list"), "copy");
}

/// Without the key the dataset keeps a seal that only this snapshot can renew.
#[test]
fn no_rollback_without_the_key_to_a_snapshot_that_goes() {
    let bench = needs!(bench());
    bench.ok("hold tag tank/a@1");
    bench.ok("destroy -d -f tank/a@1");
    bench.ok("unmount tank/a");
    bench.ok("key unload tank/a");
    bench
        .place
        .refuses("rollback tank/a@1", BUSY, "load the key");
    bench.ok("key load tank/a");
    bench.ok("rollback tank/a@1");
    bench.ok("release tag tank/a@1");
    bench.open_again("tank");
    begins_as_the_snapshot(&bench, "a");
}

/// Commands on other datasets, and on other holds, do not end the reading.
#[test]
fn a_marked_snapshot_is_read_until_it_goes() {
    let bench = needs!(bench());
    bench.ok("create tank/other");
    bench.ok("snapshot tank/other@1");
    bench.ok("hold tag tank/a@1");
    bench.ok("destroy -d -f tank/a@1");
    let mut open = fs::File::open(bench.file("a", ".snapshot/1/shared")).unwrap();
    let mut byte = [0];
    for line in [
        "hold tag tank/other@1",
        "hold another tank/a@1",
        "release tag tank/a@1",
        "release tag tank/other@1",
        "rollback tank/other@1",
        "destroy -f tank/other@1",
    ] {
        bench.ok(line);
        std::io::Read::read_exact(&mut open, &mut byte).expect(line);
    }
    bench.ok("release another tank/a@1");
    bench.place.fails("get name tank/a@1", NOT_FOUND);
}

#[test]
fn a_snapshot_goes_with_its_last_hold_or_clone() {
    let bench = needs!(bench());
    let place = &bench.place;
    bench.ok("snapshot tank/a@2");
    bench.ok("hold tag tank/a@1");
    let b = bench.key("b");
    bench.ok(&format!("clone -o {b} tank/a@1 tank/b"));
    let deferred = || bench.ok("get -H -o value defer_destroy tank/a@1");
    assert_eq!(
        bench.ok("destroy -d -n tank/a@%"),
        "would destroy tank/a@2\nwould destroy later tank/a@1\n"
    );
    assert_eq!(deferred(), "off\n");
    place.refuses("destroy -d tank/a@1", USAGE, "use -f");
    place.refuses("destroy -d -f tank/a", USAGE, "not a snapshot");
    place.fails("destroy -d -f tank/a#1", USAGE);
    place.fails("destroy -d -f tank/a@none", NOT_FOUND);
    for option in ["-R", "--shred"] {
        let done = place.run(&["destroy", "-d", "-f", option, "tank/a@1"]);
        assert_eq!(done.code, USAGE);
    }
    let said = bench.ok("--json destroy -d -f tank/a@%");
    has(&said, "\"destroyed\": [\n    \"tank/a@2\"\n  ]");
    has(&said, "\"later\": [\n    \"tank/a@1\"\n  ]");
    assert_eq!(deferred(), "on\n");
    // What keeps it still does.
    place.refuses("destroy -f tank/a@1", BUSY, "is held (tag)");
    bench.ok("destroy -d -f tank/a@1");
    bench.open_again("tank");
    assert_eq!(deferred(), "on\n");
    // A program may look into it meanwhile.
    let shown = bench.file("a", ".snapshot/1/shared");
    assert!(fs::read(&shown).is_ok());
    bench.ok("release tag tank/a@1");
    assert_eq!(deferred(), "on\n");
    assert_eq!(
        bench.ok("destroy -f -v tank/b"),
        "destroyed tank/b\ndestroyed tank/a@1\n"
    );
    assert!(fs::read(&shown).is_err());
    place.fails("get name tank/a@1", NOT_FOUND);
    has(&bench.ok("pool history -i tank"), "destroy tank/a@1 (id");
    assert_eq!(bench.read("a", "later"), Some("later".into()));
    bench.open_again("tank");
}

#[test]
fn a_dry_run_says_how_much_would_be_freed() {
    let bench = needs!(bench());
    fs::write(bench.file("a", "big"), contents(3, 2 << 20)).unwrap();
    bench.ok("snapshot tank/a@2");
    let big = fs::File::options().write(true).open(bench.file("a", "big"));
    let other = contents(4, 2 << 20);
    std::os::unix::fs::FileExt::write_all_at(&big.unwrap(), &other, 0).unwrap();
    bench.ok("snapshot tank/a@3");
    let used = |name: &str| bench.ok(&format!("list -H -o used {name}"));
    let dry = bench.ok("destroy -n -v tank/a@2");
    let line = format!("would free {}", used("tank/a@2"));
    assert_eq!(dry, format!("would destroy tank/a@2\n{line}"));
    assert!(line.contains('M'), "{line}");
    // What snapshots share is no snapshot's, and goes with all of them.
    let of_snapshots = bench.ok("list -H -o usedbysnapshots tank/a");
    has(
        &bench.ok("destroy -n -v tank/a@%"),
        &format!("\nwould free {of_snapshots}"),
    );
    let line = format!("\nwould free {}", used("tank/a"));
    has(&bench.ok("destroy -r -n -v tank/a"), &line);
    lacks(&bench.ok("destroy -n tank/a@2"), "free");
    has(&bench.ok("--json destroy -n -v tank/a@2"), "\"freed\": ");
    lacks(&bench.ok("--json destroy -n tank/a@2"), "freed");
}

/// Only the origin gets new keys. A clone under its key goes on with those that the other clone has, and is named.
#[test]
fn a_clone_under_another_key_names_who_shares_its_keys() {
    let bench = needs!(bench());
    bench.ok("clone tank/a@1 tank/a/same");
    let clone = |name: &str| {
        let line = format!("clone -o {} tank/a@1 {name}", bench.key("b"));
        let done = bench.place.run(&bench.place.words(&line));
        assert_eq!(done.code, 0, "{done:?}");
        done.err
    };
    let said = clone("tank/b");
    has(&said, "strongroom key rotate tank/a/same");
    lacks(&said, "'tank/a' goes on");
    bench.ok("key rotate tank/a/same");
    lacks(&clone("tank/c"), "key rotate");
}
