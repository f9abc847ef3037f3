//! Quotas: what a dataset may take, with its snapshots and everything below it.

mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use common::*;

const NO_SPACE: i32 = 11;
const MIB: usize = 1 << 20;

/// A pool `tank` whose datasets `a`, `a/b` and `c` are mounted below `mnt`; 8 MiB for `a`.
fn pool_with_quota() -> Place {
    let place = Place::new();
    place.ok(&format!(
        "pool create -s 128M -O compression=off -m {} tank {}",
        place.arg("mnt"),
        place.arg("tank.pool")
    ));
    place.ok("create -o quota=8M tank/a");
    place.ok("create tank/a/b");
    place.ok("create tank/c");
    place
}

fn file(place: &Place, name: &str) -> PathBuf {
    place.path("mnt").join(name)
}

/// Writes as much as there may be, in pieces; returns how much that was.
fn fill(path: &PathBuf, most: usize) -> (usize, Option<ErrorKind>) {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    let piece = vec![7; 64 << 10];
    let mut written = 0;
    while written < most {
        if let Err(error) = file.write_all(&piece) {
            return (written, Some(error.kind()));
        }
        written += piece.len();
    }
    file.sync_all().unwrap();
    (written, None)
}

fn number(place: &Place, property: &str, name: &str) -> usize {
    let value = place.ok(&format!("get -H -p -o value {property} {name}"));
    value.trim().parse().unwrap()
}

#[test]
fn what_is_too_much_is_refused_and_what_is_deleted_is_room_again() {
    if !can_mount() {
        return;
    }
    let place = pool_with_quota();
    assert_eq!(
        place.ok("get -H -o value,source quota tank/a"),
        "8M\tlocal\n"
    );
    assert_eq!(
        place.ok("get -H -o value,source quota tank/c"),
        "none\tdefault\n"
    );
    assert!(number(&place, "available", "tank/a") <= 8 * MIB);
    for round in 0..2 {
        let (written, error) = fill(&file(&place, "a/one"), 32 * MIB);
        assert_eq!(error, Some(ErrorKind::QuotaExceeded), "round {round}");
        assert!(
            (6 * MIB..8 * MIB).contains(&written),
            "round {round}: {written}"
        );
        place.ok("pool sync");
        assert!(number(&place, "used", "tank/a") <= 8 * MIB + (128 << 10));
        // What was there can be read, and removed.
        assert!(fs::read(file(&place, "a/one")).unwrap().len() >= written);
        fs::remove_file(file(&place, "a/one")).unwrap();
    }
    assert_eq!(fill(&file(&place, "c/one"), 16 * MIB), (16 * MIB, None));
}

#[test]
fn what_is_below_and_snapshots_count() {
    if !can_mount() {
        return;
    }
    let place = pool_with_quota();
    assert_eq!(fill(&file(&place, "a/b/one"), 5 * MIB), (5 * MIB, None));
    let (written, error) = fill(&file(&place, "a/two"), 5 * MIB);
    assert_eq!(error, Some(ErrorKind::QuotaExceeded));
    assert!(written < 3 * MIB, "{written}");
    fs::remove_file(file(&place, "a/two")).unwrap();
    place.ok("snapshot tank/a/b@1");
    fs::remove_file(file(&place, "a/b/one")).unwrap();
    let (_, error) = fill(&file(&place, "a/two"), 5 * MIB);
    assert_eq!(error, Some(ErrorKind::QuotaExceeded), "the snapshot has it");
    fs::remove_file(file(&place, "a/two")).unwrap();
    place.ok("destroy -f tank/a/b@1");
    assert_eq!(fill(&file(&place, "a/two"), 5 * MIB), (5 * MIB, None));

    let said = place.fails("set quota=1M tank/a", NO_SPACE);
    assert!(said.contains("more than the quota"), "{said}");
    place.fails("set quota=0 tank/a", USAGE);
    place.ok("set quota=none tank/a");
    assert_eq!(fill(&file(&place, "a/three"), 16 * MIB), (16 * MIB, None));
    place.ok("set quota=32M tank/a");
    let (_, error) = fill(&file(&place, "a/four"), 64 * MIB);
    assert_eq!(error, Some(ErrorKind::QuotaExceeded), "while it is mounted");
}
