//! States from before a rotation of keys: they are refused as the present state of a dataset until their owner
//! accepts them, and nothing else is lost by that.

use crate::common::bench::Bench;
use crate::common::*;

/// A mount of a dataset whose seal is too old fails, and says what to do.
#[track_caller]
fn is_refused(bench: &Bench, dataset: &str) {
    for command in ["mount", "key rotate"] {
        let error = bench.place.fails(&format!("{command} {dataset}"), OTHER);
        has(&error, "old seal of key generation 1");
        has(&error, &format!("rollback {dataset}@SNAPSHOT"));
    }
}

fn unload(bench: &Bench, dataset: &str) {
    bench.ok(&format!("unmount {dataset}"));
    bench.ok(&format!("key unload {dataset}"));
}

#[test]
fn a_rollback_without_the_key_is_accepted_with_it() {
    let bench = needs!(Bench::new());
    bench.copy("tank/a@1", "full", "safe/b");
    bench.ok("key rotate tank/a");
    bench.write("tank/a", "second", "2");
    unload(&bench, "tank/a");
    bench.ok("rollback tank/a@1");
    bench.ok("key load tank/a");
    is_refused(&bench, "tank/a");

    // The snapshot is as good as it was.
    let dir = bench.place.arg("old");
    bench.ok(&format!("mount tank/a@1 {dir}"));
    assert_eq!(
        std::fs::read_to_string(bench.place.path("old").join("first")).ok(),
        Some("1".repeat(300_000))
    );
    bench.ok(&format!("unmount {dir}"));

    bench.ok("rollback tank/a@1");
    bench.open_again("tank");
    assert_eq!(bench.read("tank/a", "first"), Some("1".repeat(300_000)));
    assert_eq!(bench.read("tank/a", "second"), None);
    bench.write_for("tank/a@3", "third", "3");
    // With the key loaded a rollback accepts at once.
    bench.ok("rollback -r tank/a@1");
    assert_eq!(bench.read("tank/a", "third"), None);
    bench.write("tank/a", "third", "3");
    bench.ok("key rotate tank/a");
    bench.ok("snapshot tank/a@3");
    bench.copy("-i @1 tank/a@3", "next", "safe/b");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/b", "third"), Some("3".into()));
    assert_eq!(bench.read("safe/b/.snapshot/1", "third"), None);
}

/// README's backup: a snapshot each day, sent as it is stored to where no key is.
#[test]
fn daily_copies_go_on_across_a_rotation() {
    let bench = needs!(Bench::new());
    bench.copy("tank/a@1", "first", "safe/b");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("key rotate tank/a");
    // The last snapshot from before comes after the rotation.
    bench.copy("-i @1 tank/a@2", "second", "safe/b");
    bench.ok("set atime=off safe");
    bench.open("safe/b");
    assert_eq!(bench.read("safe/b", "second"), Some("2".into()));
    unload(&bench, "safe/b");
    bench.write_for("tank/a@3", "third", "3");
    bench.copy("-i @2 tank/a@3", "third", "safe/b");
    bench.open("safe/b");
    assert_eq!(bench.read("safe/b", "third"), Some("3".into()));
    // And with the key, into a dataset that is in use.
    bench.ok("key rotate tank/a");
    bench.write_for("tank/a@4", "fourth", "4");
    bench.copy("-i @3 tank/a@4", "fourth", "safe/b");
    assert_eq!(bench.read("safe/b", "fourth"), Some("4".into()));

    // A copy that begins with a snapshot from before a rotation has to be accepted to be used.
    bench.copy("tank/a@2", "late", "safe/c");
    bench.ok("key load safe/c");
    is_refused(&bench, "safe/c");
    // Also where nothing but that state is left.
    bench.ok("snapshot safe/c@own");
    bench.ok("destroy -f safe/c@2");
    bench.ok("rollback safe/c@own");
    bench.ok("mount safe/c");
    unload(&bench, "safe/c");
    bench.ok("destroy -rf safe/c");

    bench.receive("safe/c", "late");
    bench.ok("key load safe/c");
    bench.ok("rollback safe/c@2");
    bench.ok("mount safe/c");
    assert_eq!(bench.read("safe/c", "second"), Some("2".into()));
    unload(&bench, "safe/c");
    for stream in ["third", "fourth"] {
        bench.receive("safe/c", stream);
    }
    bench.open_again("safe");
    for dataset in ["safe/b", "safe/c"] {
        for (name, text) in [("second", "2"), ("third", "3"), ("fourth", "4")] {
            assert_eq!(bench.read(dataset, name), Some(text.into()), "{dataset}");
        }
    }
}

/// A write to a clone is not sealed with keys that were given up.
#[test]
fn clones_of_older_snapshots_have_keys_of_their_own() {
    let bench = needs!(Bench::new());
    bench.ok("key rotate tank/a");
    bench.write_for("tank/a@2", "second", "2");
    let count = |name: &str| {
        bench
            .ok(&format!("key generations -H {name}"))
            .lines()
            .count()
    };
    for (snapshot, clone, generations) in [("1", "tank/a/old", 2), ("2", "tank/a/new", 2)] {
        bench.ok(&format!("clone tank/a@{snapshot} {clone}"));
        assert_eq!(count(clone), generations);
        bench.write(clone, "own", "o");
    }
    bench.ok("promote tank/a/old");
    bench.ok("key rotate tank/a/old");
    bench.open_again("tank");
    assert_eq!(bench.read("tank/a/old", "own"), Some("o".into()));
    assert_eq!(bench.read("tank/a/new", "own"), Some("o".into()));
    assert_eq!(bench.read("tank/a/new", "second"), Some("2".into()));
    assert_eq!(bench.read("tank/a", "first"), Some("1".repeat(300_000)));
}
