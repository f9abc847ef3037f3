//! Stores that refuse, are full, or were changed behind the back of a pool: each is named, and nothing is changed.

use crate::bucket::TestBucket;
use crate::common::*;

const TANK: &str = "s3://bucket/tank";

fn daemon(bucket: &TestBucket) -> Place {
    let mut place = Place::without_daemon();
    let mut words = vec!["env".to_owned(), "STRONGROOM_STORE_WAIT=2".to_owned()];
    words.extend(bucket.variables());
    place.start_within(&words);
    place
}

/// The verbs, and the right that each one needs.
const RIGHTS: [(&str, &str); 4] = [
    ("PUT", "s3:PutObject"),
    ("GET", "s3:GetObject"),
    ("LIST", "s3:ListBucket"),
    ("DELETE", "s3:DeleteObject"),
];

#[test]
fn a_missing_right_is_named_and_no_pool_is_made() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    let line = format!("pool create -m none tank {TANK}");
    for (verb, right) in RIGHTS {
        bucket.forbid(Some(verb));
        has(&place.fails(&line, PERMISSION), right);
        assert_eq!(place.ok("pool list -H"), "");
        bucket.forbid(None);
        let left = bucket.objects();
        // Without the right to read and delete, objects of the attempt stay.
        assert!(
            left.is_empty() || ["GET", "DELETE"].contains(&verb),
            "{verb}: {:?}",
            left.keys()
        );
        if !left.is_empty() {
            place.ok(&format!("pool labelclear -f {TANK}"));
            bucket.change(|objects| objects.clear());
        }
    }
    place.ok(&line);
}

#[test]
fn a_missing_right_suspends_the_pool_until_it_is_there_again() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    place.ok(&format!("pool create -m none tank {TANK}"));
    place.ok("create tank/fs");
    bucket.forbid(Some("PUT"));
    has(&place.fails("snapshot tank/fs@a", DEVICE), "s3:PutObject");
    let status = place.ok("pool status tank");
    has(&status, "SUSPENDED");
    has(&status, "s3:PutObject");
    bucket.forbid(None);
    place.ok("pool clear tank");
    has(&place.ok("pool status tank"), "ONLINE");
    place.ok("pool export tank");
    for (verb, right) in RIGHTS {
        bucket.forbid(Some(verb));
        let before = bucket.objects();
        let done = place.run(&place.words(&format!("pool import {TANK}")));
        // Nothing is deleted by an import.
        assert_eq!(done.code == 0, verb == "DELETE", "{verb}: {done:?}");
        if done.code == 0 {
            place.ok("pool export tank");
        } else {
            has(&done.err, right);
            assert!(bucket.objects() == before, "{verb}: something changed");
        }
    }
    bucket.forbid(None);
    place.ok(&format!("pool import {TANK}"));
    has(
        &place.ok("list -H -t snapshot -o name -r tank"),
        "tank/fs@a",
    );
}

#[test]
fn a_bucket_that_is_missing_is_named() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    for line in ["pool create -m none tank", "pool import"] {
        let refused = place.run(&place.words(&format!("{line} s3://other/tank")));
        assert_ne!(refused.code, 0);
        has(&refused.err, "s3://other/tank");
        has(&refused.err, "there is no such bucket");
    }
}

/// The names of the objects of the log, in order.
fn log_of(bucket: &TestBucket) -> Vec<String> {
    let objects = bucket.objects();
    let names = objects.keys().filter(|name| name.contains("/log/"));
    names.cloned().collect()
}

#[test]
fn changed_objects_are_named_and_left_alone() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    place.ok(&format!("pool create -m none tank {TANK}"));
    place.ok("create tank/fs");
    place.ok("pool export tank");
    let good = bucket.objects();
    let log = log_of(&bucket);
    // The last objects of a line may be missing: a power failure looks like that. So it is one of the first ones.
    let large = { log.iter() }
        .filter(|name| good[*name].len() > 8_192)
        .max_by_key(|name| good[*name].len());
    let large = large.expect("an object with data").clone();
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 3] = [
        ("shortened", |object| object.truncate(object.len() / 2)),
        ("changed", |object| object[20] ^= 1),
        ("empty", Vec::clear),
    ];
    for (what, change) in changes {
        bucket.change(|objects| change(objects.get_mut("tank/pool").expect("it is there")));
        let before = bucket.objects();
        let done = place.run(&place.words(&format!("pool import {TANK}")));
        assert_ne!(done.code, 0, "{what}");
        has(&done.err, "'pool' is damaged");
        assert!(bucket.objects() == before, "{what}: something changed");
        bucket.change(|objects| *objects = good.clone());
    }
    for is_missing in [false, true] {
        bucket.change(|objects| {
            match is_missing {
                true => drop(objects.remove(&large)),
                false => objects
                    .get_mut(&large)
                    .expect("it is there")
                    .truncate(4_096),
            };
        });
        let mut said = place.run(&place.words(&format!("pool import {TANK}")));
        if said.code == 0 {
            place.ok("pool scrub -w tank");
            said = place.run(&place.words("pool status -v tank"));
            lacks(&said.out, "with 0 errors");
            place.ok("pool export -f tank");
        } else {
            has(&said.err, large.trim_start_matches("tank/"));
        }
        bucket.change(|objects| *objects = good.clone());
    }
    // Another pool beside it, and strange objects below its prefix.
    bucket.change(|objects| {
        let foreign = objects
            .iter()
            .map(|(name, object)| (name.replace("tank/", "other/"), object.clone()));
        let foreign: Vec<_> = foreign.collect();
        objects.extend(foreign);
        objects.insert("tank/photo".into(), b"photo".to_vec());
        objects.insert("tank/log/photo".into(), b"photo".to_vec());
    });
    let strange = place.fails(&format!("pool import {TANK}"), DAMAGED);
    has(&strange, "'log/photo'");
    bucket.change(|objects| drop(objects.remove("tank/log/photo")));
    place.ok(&format!("pool import {TANK}"));
    place.ok("pool scrub -w tank");
    has(&place.ok("pool status tank"), "with 0 errors");
    // The copy has the same guid, and is not taken for it.
    place.ok("pool import s3://bucket/other");
    assert_eq!(place.ok("pool list -H -o name"), "tank\n");
    for prefix in ["", "/tank/log"] {
        let line = format!("pool create -m none new s3://bucket{prefix}");
        place.fails(&line, EXISTS);
    }
    place.ok("pool destroy -f tank");
    assert_eq!(bucket.objects()["tank/photo"], b"photo");
}

#[test]
fn writes_to_a_full_store_wait_until_there_is_space() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    place.ok(&format!("pool create -m none tank {TANK}"));
    bucket.limit(0);
    let mut command = place.command();
    let mut waiting = command
        .args(["create", "tank/fs"])
        .spawn()
        .expect("the program");
    let mut status = String::new();
    while !status.contains("STALLED") {
        status = place.ok("pool status tank");
    }
    has(&status, "the store is full");
    bucket.limit(usize::MAX);
    assert!(waiting.wait().expect("it ends").success());
    has(&place.ok("list -H -o name -r tank"), "tank/fs");
}

#[test]
fn a_second_daemon_is_kept_out() {
    let bucket = TestBucket::start();
    let (one, two) = (daemon(&bucket), daemon(&bucket));
    one.ok(&format!("pool create -m none tank {TANK}"));
    let before = bucket.objects();
    has(&two.fails(&format!("pool import {TANK}"), BUSY), "tank");
    two.fails(&format!("pool create -m none tank {TANK}"), EXISTS);
    assert!(bucket.objects() == before, "something changed");
    one.ok("create tank/fs");
}

/// A store that keeps its promises, and one that makes objects although they exist.
#[test]
fn a_probe_tells_a_safe_store_from_an_unsafe_one() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    let before = bucket.objects();
    let probed = place.ok(&format!("objects probe {TANK}"));
    for guarantee in ["create-once", "one-winner", "ordered-list"] {
        has(&probed, guarantee);
    }
    let json = place.ok(&format!("objects probe --json {TANK}"));
    has(&json, "\"safe\": true");
    lacks(&json, "\"holds\": false");
    assert!(bucket.objects() == before, "objects are left");
    bucket.overwrite();
    let done = place.run(&place.words(&format!("objects probe {TANK}")));
    assert_eq!(done.code, DEVICE, "{done:?}");
    has(&done.out, "the store ignores If-None-Match");
    has(&done.err, "cannot rely on this store");
    let refused = place.fails(&format!("pool create -m none tank {TANK}"), DEVICE);
    has(&refused, "two machines");
    assert!(bucket.objects() == before, "objects are left");
    place.fails("objects probe s3://Bucket/tank", USAGE);
    has(
        &place.fails("objects probe s3://other/tank", PERMISSION),
        "there is no such bucket",
    );
}
