//! A pool whose object store is away: nothing else waits for it, it goes on by itself, and every wait can be ended.

use std::process::{Child, Stdio};

use crate::bucket::{StoreMood, TestBucket};
use crate::common::*;
use crate::full::metrics;

/// The seconds that the daemons of these tests wait for a store when they end.
const WAIT: &str = "2";

fn start(place: &mut Place, bucket: &TestBucket) {
    let mut words = vec!["env".to_owned(), format!("STRONGROOM_STORE_WAIT={WAIT}")];
    words.extend(bucket.variables());
    place.start_within(&words);
}

/// A daemon with a pool in a file and a pool on a store.
fn two_pools() -> (Place, TestBucket) {
    let bucket = TestBucket::start();
    let mut place = Place::without_daemon();
    start(&mut place, &bucket);
    place.ok("pool create -s 64M -m none disks {DIR}/disks");
    place.ok("pool create -m none tank s3://bucket/tank");
    place.ok("create tank/fs");
    (place, bucket)
}

/// Starts a command that waits for the store.
fn begin(place: &Place, line: &str) -> Child {
    let mut command = place.command();
    command.args(place.words(line));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the program")
}

/// Asks until the answer has these words.
#[track_caller]
fn await_words(place: &Place, line: &str, wanted: &str) -> String {
    for _ in 0..3_000 {
        let done = place.run(&place.words(line));
        if done.code == 0 && done.out.contains(wanted) {
            return done.out;
        }
    }
    panic!("{line}: {:?}", place.run(&place.words(line)));
}

#[track_caller]
fn is_whole(place: &Place) {
    has(&place.ok("list -H -o name -r tank"), "tank/fs\n");
    place.ok("pool scrub -w tank");
    has(&place.ok("pool status tank"), "with 0 errors");
}

/// The commands of other pools, and those that look at all pools.
#[test]
fn nothing_else_waits_for_a_store_that_is_away() {
    let (place, bucket) = two_pools();
    for mood in [StoreMood::Away, StoreMood::Silent] {
        bucket.be(mood);
        let mut waiting = begin(&place, "snapshot tank/fs@a");
        let status = await_words(&place, "pool status tank", "STALLED");
        for words in [
            "s3://bucket/tank has not answered for",
            "wait for it",
            "goes on by itself",
        ] {
            has(&status, words);
        }
        has(&place.ok("pool list"), "STALLED");
        has(&place.ok("pool list --json"), "\"STALLED\"");
        has(&place.ok("pool status"), "STALLED");
        has(
            &metrics(&place),
            "strongroom_pool_state{pool=\"tank\",state=\"STALLED\"} 1",
        );
        await_words(&place, "pool events", "device_stall");
        for line in [
            "create -V 8M disks/disk",
            "nbd export disks/disk",
            "nbd unexport disks/disk",
            "snapshot disks/disk@a",
            "destroy -r -f disks/disk",
            "list -r disks",
            "pool iostat",
            "pool sync disks",
            "pool scrub -w disks",
            "pool export disks",
            "pool import -d {DIR}/disks disks",
            "pool import",
        ] {
            place.ok(line);
        }
        has(&place.ok("pool status disks"), "ONLINE");
        bucket.be(StoreMood::Well);
        assert!(waiting.wait().expect("it ends").success());
        await_words(&place, "pool status tank", "ONLINE");
        await_words(&place, "pool events", "device_answer");
        place.ok("destroy -f tank/fs@a");
        place.ok("pool events -c");
    }
    is_whole(&place);
}

/// A signal ends the daemon in bounded time, also if nothing knew yet that the store is away.
#[test]
fn a_signal_ends_a_daemon_whose_store_is_away() {
    let (mut place, bucket) = two_pools();
    for is_waiting in [false, true] {
        bucket.be(StoreMood::Away);
        let waiting = is_waiting.then(|| {
            let waiting = begin(&place, "snapshot tank/fs@a");
            await_words(&place, "pool status tank", "STALLED");
            waiting
        });
        let before = place.log().len();
        assert!(place.terminate(), "{}", place.log());
        let log = place.log().split_off(before);
        has(
            &log,
            "the pool 'tank' ends without its store s3://bucket/tank",
        );
        has(&log, "may be lost");
        waiting.map(|mut command| command.wait());
        bucket.be(StoreMood::Well);
        start(&mut place, &bucket);
        has(&place.ok("pool status disks"), "ONLINE");
        is_whole(&place);
    }
}

/// `daemon stop` says what it waits for, and what may be lost.
#[test]
fn a_stop_tells_of_the_store_and_ends() {
    let (mut place, bucket) = two_pools();
    for (line, is_told) in [("daemon stop", true), ("daemon stop -f", false)] {
        bucket.be(StoreMood::Away);
        let mut waiting = begin(&place, "snapshot tank/fs@a");
        await_words(&place, "pool status tank", "STALLED");
        let done = place.run(&place.words(line));
        assert_eq!(done.code, 0, "{done:?}");
        has(
            &done.err,
            "the pool 'tank' ends without its store s3://bucket/tank",
        );
        if is_told {
            has(&done.err, "s3://bucket/tank has not answered for");
            has(&done.err, "The daemon waits for it up to 2 s");
            has(&done.err, "daemon stop -f");
        }
        place.wait_for_end();
        assert!(!waiting.wait().expect("it ends").success());
        bucket.be(StoreMood::Well);
        start(&mut place, &bucket);
        is_whole(&place);
    }
}

/// An export by force needs no store.
#[test]
fn a_pool_is_exported_by_force_without_its_store() {
    let (place, bucket) = two_pools();
    bucket.be(StoreMood::Away);
    place.ok("pool export -f tank");
    bucket.be(StoreMood::Well);
    place.ok("pool import s3://bucket/tank");
    is_whole(&place);
}

/// The device of a newer state waits for its store as the first one did.
#[test]
fn a_reader_waits_for_its_store_also_after_a_refresh() {
    let (one, bucket) = two_pools();
    let mut two = Place::without_daemon();
    start(&mut two, &bucket);
    two.ok("pool import -o readonly=on -o refresh=off -N --accept s3://bucket/tank tank");
    for name in ["a", "b"] {
        one.ok(&format!("snapshot tank/fs@{name}"));
        one.ok("pool sync tank");
        two.ok("pool refresh tank");
        has(&two.ok("list -t snapshot"), &format!("tank/fs@{name}"));
        has(&metrics(&two), "strongroom_store_requests_total{");
        bucket.be(StoreMood::Away);
        let mut waiting = begin(&two, "pool refresh tank");
        await_words(&two, "pool status tank", "STALLED");
        bucket.be(StoreMood::Well);
        assert!(waiting.wait().expect("it ends").success());
        await_words(&two, "pool status tank", "ONLINE");
    }
    bucket.be(StoreMood::Away);
    let mut waiting = begin(&two, "pool refresh tank");
    await_words(&two, "pool status tank", "STALLED");
    two.ok("pool export -f tank");
    assert!(!waiting.wait().expect("it ends").success());
}

/// A store that is away or refuses at the start is asked again, and its pool comes back by itself, with its mounts.
#[test]
fn a_pool_comes_back_when_its_store_does() {
    let (mut place, bucket) = two_pools();
    for forbidden in [None, Some("GET"), Some("LIST")] {
        place.ok("daemon stop");
        place.wait_for_end();
        match forbidden {
            None => bucket.be(StoreMood::Away),
            verb => bucket.forbid(verb),
        }
        start(&mut place, &bucket);
        has(&place.ok("pool status disks"), "ONLINE");
        let status = place.ok("pool status tank");
        has(&status, "UNAVAIL");
        has(&status, "tries again by itself");
        has(&status, "s3://bucket/tank");
        if forbidden.is_some() {
            has(&status, "need the right");
        }
        bucket.be(StoreMood::Well);
        bucket.forbid(None);
        await_words(&place, "pool status tank", "ONLINE");
        is_whole(&place);
    }
    // A pool that is forgotten is not imported any more.
    place.ok("daemon stop");
    place.wait_for_end();
    bucket.be(StoreMood::Away);
    start(&mut place, &bucket);
    place.ok("pool export tank");
    bucket.be(StoreMood::Well);
    place.fails("pool status tank", NOT_FOUND);
    place.ok("pool import s3://bucket/tank");
    is_whole(&place);
}
