//! The requests to an object store, and what they cost.

use std::collections::BTreeMap;
use std::fs;

use crate::bucket::TestBucket;
use crate::common::*;

/// A daemon that reaches the bucket, and has a price of 1 EUR for each write and read.
fn daemon(bucket: &TestBucket) -> Place {
    let mut place = Place::without_daemon();
    fs::write(
        place.path("prices"),
        "# of a test\ns3://bucket put=1000 get=1000 list=0 currency=EUR\n",
    )
    .expect("a file");
    let mut words = vec![
        "env".to_owned(),
        format!("STRONGROOM_STORE_PRICES={}", place.arg("prices")),
    ];
    words.extend(bucket.variables());
    place.start_within(&words);
    place
}

/// The numbers of `pool iostat -r`: PUTS, GETS, LISTS, DELETES.
fn shown(place: &Place) -> [u64; 4] {
    let line = place.ok("pool iostat -r -p -H tank");
    let cells: Vec<&str> = line.trim_end().split('\t').collect();
    assert_eq!(cells.len(), 9, "{line}");
    [1, 2, 3, 4].map(|at| cells[at].parse().expect("a number"))
}

fn counted(requests: &BTreeMap<&'static str, u64>) -> [u64; 4] {
    ["PUT", "GET", "LIST", "DELETE"].map(|verb| requests.get(verb).copied().unwrap_or_default())
}

fn difference(now: [u64; 4], before: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|at| now[at] - before[at])
}

#[test]
fn requests_are_shown_as_the_store_counts_them() {
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    place.ok("pool create -m none tank s3://bucket/tank");
    let (before, shown_before) = (counted(&bucket.requests()), shown(&place));
    place.ok("create tank/fs");
    place.ok("snapshot tank/fs@a");
    // Requests may be on their way between the two looks.
    for _ in 0..1_000 {
        let there = difference(counted(&bucket.requests()), before);
        let here = difference(shown(&place), shown_before);
        if here == there && here[0] > 0 {
            let line = place.ok("pool iostat -r -H tank");
            has(&line, ".0000 EUR");
            let json = place.ok("pool iostat --json tank");
            has(&json, "\"currency\": \"EUR\"");
            place.ok("pool create -s 64M -m none disks {DIR}/disks");
            has(&place.ok("pool iostat -r -H disks"), "disks\t-\t-");
            return;
        }
    }
    panic!("{:?} {:?}", bucket.requests(), shown(&place));
}

#[test]
fn a_scrub_first_says_what_it_costs_at_least() {
    needs!(can_mount());
    let bucket = TestBucket::start();
    let place = daemon(&bucket);
    place.ok("pool create -O mountpoint={DIR}/m tank s3://bucket/tank");
    write_synced(&place.path("m/file"), &contents(1, 30 << 20)).unwrap();
    // After that nothing of it is in memory.
    place.ok("pool export tank");
    place.ok("pool import s3://bucket/tank");
    let requests = bucket.requests();
    let said = place.ok("pool scrub -n tank");
    has(&said, "the scrub of 'tank' reads at least 0.0");
    has(&said, "from s3://bucket/tank, in at least ");
    has(&said, ".0000 EUR;");
    let json = place.json("pool scrub -n --json tank");
    assert!(bucket.requests() == requests, "the store was asked");
    lacks(&place.ok("pool history tank"), "pool scrub");
    let [_, gets, ..] = shown(&place);
    place.warns("pool scrub -w tank", said.trim_end());
    // It reads no less, and the files are most of it.
    let [_, gets_after, ..] = shown(&place);
    let number = |name: &str| json[name].as_u64().expect("a number");
    assert!(
        (4..=gets_after - gets).contains(&number("requests")),
        "{json}"
    );
    assert!(number("bytes") >= 30 << 20, "{json}");
    assert_eq!(json["cost"].as_f64(), Some(number("requests") as f64));
    place.ok("pool create -s 64M -m none disks {DIR}/disks");
    let said = place.ok("pool scrub -n disks");
    has(&said, "the scrub of 'disks' reads at least 0.01 GB\n");
    let begun = place.run(&place.words("pool scrub -w disks"));
    assert_eq!(begun.err, "");
    for line in ["-n -w", "-n -s", "-n -p"] {
        let line = format!("pool scrub {line} tank");
        assert_eq!(place.run(&place.words(&line)).code, USAGE);
    }
    place.fails("pool scrub -n nowhere", NOT_FOUND);
}

/// A pool that was taken from another host by force counts its requests too.
#[test]
fn requests_are_counted_after_an_import_by_force() {
    let bucket = TestBucket::start();
    let mut place = daemon(&bucket);
    place.ok("pool create -m none tank s3://bucket/tank");
    place.kill();
    let other = daemon(&bucket);
    other.ok("pool import -f s3://bucket/tank");
    assert!(shown(&other)[0] > 0);
    has(&other.ok("pool iostat -H -p tank"), "tank\t");
}
