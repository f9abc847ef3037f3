//! A pool that fills up says so wherever an administrator looks.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::common::*;

/// The percentage in the status of a pool; `None` if it needs no attention.
fn told(place: &Place) -> Option<u64> {
    let status = place.ok("pool status tank");
    let line = status
        .lines()
        .find(|line| line.contains("% of the space"))?;
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

pub(crate) fn metrics(place: &Place) -> String {
    let mut stream = UnixStream::connect(place.path("metrics.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_pool_that_fills_up_says_so_everywhere() {
    needs!(can_mount());
    let place = Place::new();
    place.ok("pool create -s 128M -O compression=off -m {DIR}/mnt tank {DIR}/tank.pool");
    let bytes = |property: &str| -> usize {
        let value = place.ok(&format!("get -H -p -o value {property} tank"));
        value.trim().parse().unwrap()
    };
    // Up to the percentage of what programs can use.
    let fill = |percent: usize| {
        let (used, free) = (bytes("used"), bytes("available"));
        let more = ((used + free) * percent / 100).saturating_sub(used);
        fs::write(place.path("mnt").join(percent.to_string()), vec![7; more]).unwrap();
        place.ok("pool sync");
    };
    assert_eq!(place.ok("pool status -x"), "all pools are healthy\n");
    fill(70);
    assert_eq!(told(&place), None);
    assert_eq!(place.ok("pool status -x"), "all pools are healthy\n");
    for (percent, says) in [(85, ""), (92, "Little is left"), (97, "ENOSPC")] {
        fill(percent);
        let shown = told(&place).unwrap();
        assert!(shown.abs_diff(percent as u64) <= 2, "{percent} {shown}");
        let unwell = place.ok("pool status -x");
        has(
            &unwell,
            &format!("status: {shown} % of the space is in use."),
        );
        has(&unwell, says);
        has(&unwell, "see: strongroom help pool-full");
        has(
            &place.ok("pool events -v"),
            &format!("{shown} % of the space"),
        );
    }
    has(&place.run(&["doctor"]).out, "not healthy: tank");
    let metrics = metrics(&place);
    let line = metrics
        .lines()
        .find(|line| line.starts_with("strongroom_pool_used_percent{pool=\"tank\"}"));
    let shown = told(&place).unwrap().to_string();
    assert!(line.unwrap().ends_with(&shown), "{line:?}");
    fs::remove_file(place.path("mnt").join("85")).unwrap();
    fs::remove_file(place.path("mnt").join("70")).unwrap();
    while told(&place).is_some() {
        place.ok("pool sync");
    }
    assert_eq!(place.ok("pool status -x"), "all pools are healthy\n");
}
