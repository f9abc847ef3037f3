//! The requests to an object store, and what they cost.

use std::collections::BTreeMap;
use std::fs;

use crate::bucket::TestBucket;
use crate::common::*;

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
    let mut place = Place::without_daemon();
    fs::write(
        place.path("prices"),
        "# of a test\ns3://bucket put=1000 get=0 list=0 currency=EUR\n",
    )
    .expect("a file");
    let mut words = vec![
        "env".to_owned(),
        format!("STRONGROOM_STORE_PRICES={}", place.arg("prices")),
    ];
    words.extend(bucket.variables());
    place.start_within(&words);
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
