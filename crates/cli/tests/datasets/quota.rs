//! Quotas: what a dataset may take, with its snapshots and everything below it.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use crate::common::*;

const MIB: usize = 1 << 20;

/// A pool `tank` whose datasets `a`, `a/b` and `c` are mounted below `mnt`; 8 MiB for `a`.
fn pool_with_quota() -> Place {
    let place = Place::new();
    place.ok("pool create -s 128M -O compression=off -m {DIR}/mnt tank {DIR}/tank.pool");
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

/// Waits until what was removed from a dataset is free for others.
fn until_freed(place: &Place, name: &str) {
    while number(place, "used", name) > MIB {
        place.ok("pool sync");
    }
    place.ok("pool sync");
}

#[test]
fn a_write_over_the_quota_fails_and_a_deletion_frees_the_quota() {
    needs!(can_mount());
    let place = pool_with_quota();
    place.prints("get -H -o value,source quota tank/a", "8M\tlocal\n");
    place.prints("get -H -o value,source quota tank/c", "none\tdefault\n");
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
    needs!(can_mount());
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

    place.refuses("set quota=1M tank/a", NO_SPACE, "more than the quota");
    place.fails("set quota=0 tank/a", USAGE);
    place.ok("set quota=none tank/a");
    assert_eq!(fill(&file(&place, "a/three"), 16 * MIB), (16 * MIB, None));
    place.ok("set quota=32M tank/a");
    let (_, error) = fill(&file(&place, "a/four"), 64 * MIB);
    assert_eq!(error, Some(ErrorKind::QuotaExceeded), "while it is mounted");
}

#[test]
fn what_is_reserved_is_kept_from_others_and_there_when_it_is_wanted() {
    needs!(can_mount());
    let place = pool_with_quota();
    place.ok("set quota=none tank/a");
    place.ok("create -o reservation=32M tank/d");
    let left = number(&place, "available", "tank/c");
    assert!(number(&place, "available", "tank/d") >= left + 32 * MIB);
    assert!(number(&place, "used", "tank") >= 32 * MIB);
    assert!(number(&place, "used", "tank/d") < MIB);
    let (written, error) = fill(&file(&place, "c/one"), 256 * MIB);
    assert_eq!(error, Some(ErrorKind::StorageFull));
    assert!(written > 32 * MIB && written <= left, "{written} of {left}");
    assert_eq!(fill(&file(&place, "d/one"), 30 * MIB), (30 * MIB, None));
    // Below it counts too.
    let (_, error) = fill(&file(&place, "a/one"), 8 * MIB);
    assert_eq!(error, Some(ErrorKind::StorageFull));
    fs::remove_file(file(&place, "d/one")).unwrap();
    until_freed(&place, "tank/d");
    place.ok("create tank/d/e");
    assert_eq!(fill(&file(&place, "d/e/one"), 30 * MIB), (30 * MIB, None));
    fs::remove_file(file(&place, "d/e/one")).unwrap();
    until_freed(&place, "tank/d");
    let (_, error) = fill(&file(&place, "c/two"), 8 * MIB);
    assert_eq!(error, Some(ErrorKind::StorageFull));
    // More than is free cannot be reserved.
    let said = place.fails("set reservation=8M tank/a/b", NO_SPACE);
    has(&said, "this would reserve");
    place.fails("create -o reservation=64M tank/f", NO_SPACE);
    place.fails("list tank/f", 3);
    place.ok("set reservation=none tank/d");
    assert_eq!(fill(&file(&place, "c/two"), 8 * MIB), (8 * MIB, None));
}

#[test]
fn a_refreservation_is_for_overwriting_below_a_snapshot() {
    needs!(can_mount());
    let place = pool_with_quota();
    place.ok("set quota=none tank/a");
    place.ok("set refreservation=40M tank/a");
    let kept = number(&place, "usedbyrefreservation", "tank/a");
    assert!(kept > 39 * MIB && kept <= 40 * MIB, "{kept}");
    assert_eq!(fill(&file(&place, "a/one"), 36 * MIB), (36 * MIB, None));
    place.ok("pool sync");
    assert!(number(&place, "usedbyrefreservation", "tank/a") < 5 * MIB);
    place.ok("snapshot tank/a@1");
    assert!(number(&place, "usedbyrefreservation", "tank/a") > 39 * MIB);
    let (_, error) = fill(&file(&place, "c/one"), 256 * MIB);
    assert_eq!(error, Some(ErrorKind::StorageFull));
    assert_eq!(fill(&file(&place, "a/one"), 36 * MIB), (36 * MIB, None));
    place.ok("pool sync");
    place.refuses("snapshot tank/a@2", NO_SPACE, "this would reserve");
    place.ok("set refreservation=none tank/a");
    place.ok("snapshot tank/a@2");
}

#[test]
fn a_refquota_counts_what_a_dataset_refers_to_without_snapshots_and_what_is_below() {
    needs!(can_mount());
    let place = pool_with_quota();
    place.ok("set quota=none refquota=8M tank/a");
    assert!(number(&place, "available", "tank/a") <= 8 * MIB);
    assert!(number(&place, "available", "tank/a/b") > 16 * MIB);
    assert_eq!(fill(&file(&place, "a/b/one"), 16 * MIB), (16 * MIB, None));
    for round in 0..2 {
        let (written, error) = fill(&file(&place, "a/one"), 32 * MIB);
        assert_eq!(error, Some(ErrorKind::QuotaExceeded), "round {round}");
        assert!(written > 6 * MIB, "round {round}: {written}");
        place.ok(&format!("snapshot tank/a@{round}"));
        fs::remove_file(file(&place, "a/one")).unwrap();
        // What is in the snapshot is free for the dataset as soon as the kernel has let go of it.
        while number(&place, "referenced", "tank/a") > MIB {
            place.ok("pool sync");
        }
    }
    let said = place.fails("set refreservation=16M tank/a", NO_SPACE);
    has(&said, "more than the refquota");
    place.ok("set quota=64M tank/a");
    let said = place.fails("set reservation=65M tank/a/b", NO_SPACE);
    assert!(
        said.contains("'tank/a'") || said.contains("tank/a:"),
        "{said}"
    );
}
