//! `strongroom replicate`: jobs that copy datasets by themselves.

use std::io::{Read, Write};

use crate::common::bench::Bench;
use crate::common::*;

/// The snapshots of a dataset, and of those below it, without its name.
fn snapshots(bench: &Bench, top: &str) -> Vec<String> {
    let all = bench.ok(&format!("list -H -r -t snapshot -o name,guid {top}"));
    let below = all.lines().map(|line| line.strip_prefix(top).unwrap());
    below.map(str::to_owned).collect()
}

/// A field of the job, as `replicate status` shows it.
fn field(bench: &Bench, name: &str) -> serde_json::Value {
    let told = bench.ok("--json replicate status copy");
    let row: serde_json::Value = serde_json::from_str(&told).unwrap();
    row[name].clone()
}

/// The page of metrics.
fn metrics(bench: &Bench) -> String {
    let socket = bench.place.path("metrics.sock");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// Adds the job `copy` of `tank/a`, paused, so that it runs only when the test says so.
fn add(bench: &Bench, options: &str) {
    bench.ok(&format!(
        "replicate add copy tank/a safe/a --window {} {options}",
        closed_window()
    ));
}

/// Hours that are not now, in the time of this machine: a job with these does not run by itself in a test.
fn closed_window() -> &'static str {
    let told = std::process::Command::new("date").arg("+%H").output();
    let hour = String::from_utf8(told.unwrap().stdout).unwrap();
    match hour.trim().parse::<u32>().unwrap() {
        0..12 => "23:58-23:59",
        _ => "11:58-11:59",
    }
}

#[test]
fn a_job_copies_what_is_new_and_the_source_may_prune() {
    let bench = needs!(Bench::new());
    bench.write_for("tank/a@2", "second", "2");
    add(&bench, "");
    has(&bench.ok("replicate list"), "copy");
    let would = bench.ok("replicate run -n copy");
    has(&would, "would send tank/a@1: ");
    has(&would, "would send tank/a@2 since tank/a@1: ");
    bench.ok("replicate run copy");
    assert_eq!(snapshots(&bench, "safe/a"), snapshots(&bench, "tank/a"));
    has(&bench.ok("replicate run -n copy"), "nothing to send");
    assert_eq!(field(&bench, "lag"), 0);
    let metrics = metrics(&bench);
    let sample = r#"{dataset="tank/a",name="copy"}"#;
    has(
        &metrics,
        &format!("strongroom_replication_lag_seconds{sample} 0\n"),
    );
    has(
        &metrics,
        &format!("strongroom_replication_interval_seconds{sample} 3600\n"),
    );
    // The keys came with it.
    bench.ok("key accept safe/a");
    bench.ok("key load safe/a");
    bench.ok("mount -o ro safe/a");
    assert_eq!(bench.read("safe/a", "second"), Some("2".into()));
    // Only the bookmark is left of what both sides had.
    bench.ok("destroy -f tank/a@1");
    bench.ok("destroy -f tank/a@2");
    bench.write_for("tank/a@3", "third", "3");
    bench.write_for("tank/a@4", "fourth", "4");
    let would = bench.ok("replicate run -n copy");
    has(&would, "would send tank/a@3 since tank/a#replicate.copy.");
    has(&would, "would send tank/a@4 since tank/a@3: ");
    bench.ok("replicate run copy");
    let marks = bench.ok("list -H -t bookmark -o name -r tank/a");
    assert_eq!(marks.lines().count(), 1, "{marks}");
    let names = bench.ok("list -H -r -t snapshot -o name safe/a");
    assert_eq!(names, "safe/a@1\nsafe/a@2\nsafe/a@3\nsafe/a@4\n");
    assert_eq!(bench.read("safe/a", "fourth"), Some("4".into()));
    // A copy that was changed is not taken back by itself.
    bench.ok("unmount safe/a");
    bench.ok("mount safe/a");
    bench.write("safe/a", "mine", "m");
    bench.write_for("tank/a@5", "fifth", "5");
    let said = bench.place.fails("replicate run copy", USAGE);
    has(&said, "strongroom rollback 'safe/a@SNAPSHOT'");
    assert_eq!(bench.read("safe/a", "mine"), Some("m".into()));
    bench.ok("replicate remove copy");
    assert_eq!(bench.ok("list -H -t bookmark -o name -r tank/a"), "");
    bench.place.fails("replicate run copy", NOT_FOUND);
}

#[test]
fn a_job_leaves_the_bookmarks_of_other_jobs() {
    let bench = needs!(Bench::new());
    bench.ok("create tank/a/b");
    bench.ok("snapshot tank/a/b@1");
    bench.ok("snapshot tank/a/b@forged");
    let marks = || bench.ok("list -H -t bookmark -o name tank/a/b");
    // Jobs of other datasets may have the same name.
    bench.ok("replicate add copy tank/a/b safe/b --every 365d");
    bench.ok("replicate run copy tank/a/b");
    let own = marks();
    assert_eq!(own.lines().count(), 1, "{own}");
    bench.ok("replicate add copy tank/a safe/a --every 365d");
    bench.ok("replicate run copy tank/a");
    bench.ok("replicate remove copy tank/a");
    assert_eq!(marks(), own);
    bench.ok("replicate add copy -R tank/a safe/tree --every 365d");
    bench.ok("replicate run copy tank/a");
    let both = marks();
    assert!(both.contains(&own) && both.lines().count() == 2, "{both}");
    bench.ok("replicate remove copy tank/a");
    assert_eq!(marks(), own);
    // A bookmark with the name of the job's own is not taken for it.
    let name = own.trim();
    bench.ok(&format!("destroy -f {name}"));
    bench.ok(&format!("bookmark tank/a/b@1 {name}"));
    bench.ok("replicate run copy tank/a/b");
    for snapshot in ["1", "forged"] {
        bench.ok(&format!("destroy -f tank/a/b@{snapshot}"));
    }
    bench.ok("snapshot tank/a/b@2");
    bench.ok("replicate run copy tank/a/b");
    assert_eq!(snapshots(&bench, "safe/b").len(), 3);
}

#[test]
fn a_tree_is_copied_with_its_clones_and_renames() {
    let bench = needs!(Bench::new());
    bench.ok("create tank/a/b");
    bench.write_for("tank/a/b@0", "early", "e");
    // Its name comes before that of its origin's dataset.
    bench.ok("clone tank/a/b@0 tank/a/aa");
    bench.ok("create -s -V 1M tank/a/disk");
    bench.ok("snapshot -r tank/a@2");
    add(&bench, "-R");
    bench.ok("replicate run copy");
    assert_eq!(snapshots(&bench, "safe/a"), snapshots(&bench, "tank/a"));
    let origin = bench.ok("get -H -o value origin safe/a/aa");
    assert_eq!(origin.trim(), "safe/a/b@0");
    bench.write("tank/a/aa", "own", "o");
    bench.ok("create tank/a/c");
    bench.ok("snapshot -r tank/a@3");
    bench.ok("replicate run copy");
    assert_eq!(snapshots(&bench, "safe/a"), snapshots(&bench, "tank/a"));
    // The copy follows a rename, and is not made again.
    let guid = || bench.ok("get -H -o value guid safe/a/moved");
    bench.ok("rename tank/a/b tank/a/moved");
    bench.ok("snapshot -r tank/a@4");
    let before = bench.ok("get -H -o value guid safe/a/b");
    bench.ok("replicate run copy");
    assert_eq!(snapshots(&bench, "safe/a"), snapshots(&bench, "tank/a"));
    assert_eq!(guid(), before);
    bench.ok("inspect --check safe");
}

#[test]
fn a_job_stays_with_its_dataset() {
    let mut bench = needs!(Bench::new());
    add(&bench, "--keep daily:7 --limit 10M --every 2h");
    bench.ok("unmount -a");
    bench.ok("rename tank/a tank/renamed");
    bench.place.fails("create tank/renamed", EXISTS);
    bench.place.terminate();
    bench.place.start();
    for (name, value) in [
        ("source", "tank/renamed"),
        ("target", "safe/a"),
        ("keep", "daily:7"),
    ] {
        assert_eq!(field(&bench, name), value);
    }
    assert_eq!(field(&bench, "limit"), 10 << 20);
    assert_eq!(field(&bench, "every"), 7200);
    bench.ok("replicate run copy");
    assert_eq!(
        snapshots(&bench, "safe/a"),
        snapshots(&bench, "tank/renamed")
    );
    let file = bench.place.arg("tank.pool");
    bench.ok("pool export tank");
    lacks(&bench.ok("replicate list"), "copy");
    bench.ok(&format!("pool import -N -d {file} tank"));
    bench.ok("replicate run copy");
    // Another machine does not run what came with the pool.
    bench.place.crash();
    bench.place.start();
    for pool in ["tank", "safe"] {
        let file = bench.place.arg(&format!("{pool}.pool"));
        bench.ok(&format!("pool import -f -N -d {file} {pool}"));
    }
    assert_eq!(field(&bench, "state"), "not-accepted");
    bench.place.fails("replicate run copy", PERMISSION);
    bench.ok("replicate resume copy");
    bench.ok("replicate run copy");
}

#[test]
fn a_target_that_has_diverged_is_named_with_the_way_out() {
    let bench = needs!(Bench::new());
    add(&bench, "");
    bench.ok("replicate run copy");
    bench.ok("snapshot safe/a@mine");
    bench.write_for("tank/a@2", "second", "2");
    let said = bench.place.fails("replicate run copy", USAGE);
    has(&said, "strongroom rollback -r 'safe/a@1'");
    assert_eq!(field(&bench, "state"), "failed");
    has(&bench.ok("pool events"), "replicate_fail");
    bench.ok("rollback -r safe/a@1");
    bench.ok("replicate run copy");
    assert_eq!(field(&bench, "state"), "waiting");
    // Another dataset of this name.
    bench.ok("destroy -f -r safe/a");
    bench.ok("create safe/a");
    let said = bench.place.fails("replicate run copy", USAGE);
    has(&said, "is no copy of 'tank/a'");
}

#[test]
fn the_copy_keeps_what_the_job_says() {
    let bench = needs!(Bench::new());
    let name = |day: u32| format!("auto-daily-2026-11-{day:02}-0000Z");
    for day in 1..=5 {
        bench.ok(&format!("snapshot tank/a@{}", name(day)));
    }
    add(&bench, "--keep daily:2");
    bench.ok("replicate run copy");
    let kept = bench.ok("list -H -r -t snapshot -o name safe/a");
    let wanted = ["1".to_owned(), name(4), name(5)];
    let wanted: Vec<String> = wanted.iter().map(|name| format!("safe/a@{name}")).collect();
    assert_eq!(kept.lines().collect::<Vec<_>>(), wanted);
    assert_eq!(snapshots(&bench, "tank/a").len(), 6);
    // What was pruned does not come again.
    has(&bench.ok("replicate run -n copy"), "nothing to send");
}

#[test]
fn wrong_jobs_are_refused() {
    let bench = needs!(Bench::new());
    for (line, code) in [
        ("copy tank/a@1 safe/a", USAGE),
        ("copy tank/a tank/a/below", USAGE),
        ("copy tank/a safe/a@1", USAGE),
        ("copy tank/a ftp://host/safe", USAGE),
        ("a.b tank/a safe/a", USAGE),
        ("copy tank/a safe/a --keep often:3", USAGE),
        ("copy tank/a safe/a --window night", USAGE),
        ("copy tank/none safe/a", NOT_FOUND),
    ] {
        bench.place.fails(&format!("replicate add {line}"), code);
    }
    add(&bench, "");
    bench
        .place
        .fails("replicate add copy tank/a safe/other", EXISTS);
    let said = bench
        .place
        .fails("replicate add second tank/a safe/a", EXISTS);
    has(&said, "the job 'copy' copies 'tank/a' to 'safe/a' already");
    // A pool that is away may come later.
    let absent = bench
        .place
        .run(&words("replicate add later tank/a gone/a --every 365d"));
    assert_eq!(absent.code, 0, "{absent:?}");
    has(&absent.err, "'gone/a' is not imported here");
    bench.ok("replicate remove later");
    // A failed run tells the reason.
    bench.ok("pool export safe");
    bench.place.fails("replicate run copy", NOT_FOUND);
    has(field(&bench, "error").as_str().unwrap(), "safe");
}

/// The bytes that the next run would send.
fn waiting_bytes(bench: &Bench) -> u64 {
    let told = bench.ok("--json replicate run -n copy");
    let rows: serde_json::Value = serde_json::from_str(&told).unwrap();
    let sizes = rows.as_array().unwrap().iter();
    sizes.map(|row| row["size"].as_u64().unwrap()).sum()
}

#[test]
fn a_killed_daemon_goes_on_where_it_was() {
    let mut bench = needs!(Bench::new());
    let held = contents(7, 6 << 20);
    std::fs::write(bench.file("tank/a", "large"), &held).unwrap();
    bench.ok("snapshot tank/a@2");
    add(&bench, "--limit 1M");
    let full = waiting_bytes(&bench);
    let mut run = bench.place.command();
    let mut run = run.args(["replicate", "run", "copy"]).spawn().unwrap();
    // Until a part of the large snapshot has come to stay.
    while waiting_bytes(&bench) > full - (1 << 20) {
        std::thread::yield_now();
    }
    assert_eq!(field(&bench, "state"), "running");
    bench.ok("pool sync safe");
    bench.place.kill();
    assert!(!run.wait().unwrap().success());
    bench.place.start();
    assert_eq!(
        snapshots(&bench, "safe/a").len(),
        1,
        "{}",
        bench.ok("list -r -t all -o name,receive_resume_token")
    );
    let rest = waiting_bytes(&bench);
    assert!(rest <= full - (1 << 20), "{rest} of {full}");
    // A pause stops it too, and keeps what came.
    let mut run = bench.place.command();
    let mut run = run.args(["replicate", "run", "copy"]).spawn().unwrap();
    while field(&bench, "sent").as_u64().unwrap() == 0 {
        std::thread::yield_now();
    }
    bench.ok("replicate pause copy");
    assert_eq!(field(&bench, "state"), "paused");
    assert!(!run.wait().unwrap().success());
    assert!(waiting_bytes(&bench) <= rest);
    bench.ok("replicate remove copy");
    add(&bench, "");
    bench.ok("replicate run copy");
    assert_eq!(snapshots(&bench, "safe/a"), snapshots(&bench, "tank/a"));
    bench.ok("key accept safe/a");
    bench.open("safe/a");
    assert!(std::fs::read(bench.file("safe/a", "large")).unwrap() == held);
}
