//! Quotas and reservations: what is told to whom, and what is refused.

use crate::common::*;
use block::fault::FaultClock;
use pool::{ArrayKind, Error, Pool, QuotaKind, ReserveFor};

fn pool() -> Pool {
    create_on(&fault_devices(1, &FaultClock::new()))
}

fn create(pool: &Pool, name: &str, props: &[(&str, u64)]) -> pool::Result<u64> {
    let guid = 1000 + name.bytes().map(u64::from).sum::<u64>();
    let mut new = new_dataset(guid);
    let props = props
        .iter()
        .map(|(key, value)| ((*key).into(), value.to_string()));
    new.props = props.collect();
    pool.create_dataset(name, new, &origin())
        .map(|entry| entry.id)
}

fn set(pool: &Pool, name: &str, key: &str, value: Option<u64>) -> pool::Result<()> {
    let change = (key.to_owned(), value.map(|value| value.to_string()));
    pool.set_props(&[name.into()], &[change], &origin())
}

fn refused(result: pool::Result<impl std::fmt::Debug>, what: &str) {
    match result.unwrap_err() {
        error @ Error::Limit { .. } => assert!(error.to_string().contains(what), "{error}"),
        other => panic!("{other}"),
    }
}

/// Puts records of 16 units into a dataset and commits.
fn write(pool: &Pool, id: u64, slots: std::ops::Range<u64>) {
    let dataset = pool.open_dataset(id).unwrap();
    for slot in slots {
        put(pool, &dataset, ArrayKind::Data, slot, sized(slot, 16)).unwrap();
    }
    pool.commit().unwrap();
}

fn used(pool: &Pool, name: &str) -> u64 {
    pool.listed_one(pool.find(name).unwrap().id).unwrap().used
}

const KIB: u64 = 1 << 10;

#[test]
fn what_is_reserved_counts_for_those_above_and_is_kept_from_the_others() {
    let pool = pool();
    let a = create(&pool, "tank/a", &[("reservation", 512 * KIB)]).unwrap();
    let below = create(&pool, "tank/a/b", &[("reservation", 256 * KIB)]).unwrap();
    let other = create(&pool, "tank/c", &[]).unwrap();
    let kept = |id| pool.limits(id).unwrap().kept;
    let own = used(&pool, "tank/a");
    assert_eq!(
        own,
        256 * KIB,
        "that of what is below is taken, its own is not"
    );
    assert_eq!(kept(other), 512 * KIB);
    assert_eq!(kept(pool.top().unwrap().id), 512 * KIB);
    assert_eq!(kept(a), 256 * KIB);
    assert_eq!(kept(below), 0);
    assert_eq!(used(&pool, "tank"), pool.top().unwrap().used + 512 * KIB);

    // What the child takes counts for both.
    write(&pool, below, 0..2);
    let taken = used(&pool, "tank/a/b");
    assert!(taken >= 128 * KIB);
    assert_eq!(kept(other), 512 * KIB - taken);
    assert_eq!(kept(a), 256 * KIB - taken);
    // More than is reserved below is taken from what is reserved above.
    write(&pool, below, 2..6);
    let taken = used(&pool, "tank/a/b");
    assert!(taken > 256 * KIB && taken < 512 * KIB);
    assert_eq!((kept(a), kept(other)), (0, 512 * KIB - taken));

    // Reserving space leaves it.
    let available = pool.space().available;
    assert_eq!(pool.available_to(other).unwrap(), available - kept(other));
    assert_eq!(pool.available_to(below).unwrap(), available);
    let reserve = |id, bytes| pool.reserve_besides(bytes, ReserveFor::Writing, kept(id));
    assert!(matches!(reserve(other, available), Err(Error::NoSpace)));
    drop(reserve(below, available).unwrap());
    drop(reserve(other, available - kept(other)).unwrap());
}

#[test]
fn a_refreservation_follows_what_is_shared_with_no_snapshot() {
    let pool = pool();
    let a = create(&pool, "tank/a", &[("refreservation", 512 * KIB)]).unwrap();
    let other = create(&pool, "tank/c", &[]).unwrap();
    let kept = || pool.limits(other).unwrap().kept;
    assert_eq!((kept(), pool.limits(a).unwrap().kept), (512 * KIB, 0));
    assert_eq!(used(&pool, "tank/a"), 512 * KIB);
    write(&pool, a, 0..4);
    let own = pool.entry(a).unwrap().referenced;
    assert_eq!(kept(), 512 * KIB - own);
    snapshot(&pool, "tank/a@1");
    assert_eq!(kept(), 512 * KIB);
    assert_eq!(used(&pool, "tank/a"), 512 * KIB + own);
    let listed = pool.listed_one(a).unwrap();
    assert_eq!(listed.used_by_refreservation, 512 * KIB);
}

#[test]
fn what_is_more_than_there_is_is_refused_and_changes_nothing() {
    let pool = pool();
    let a = create(&pool, "tank/a", &[("quota", 512 * KIB)]).unwrap();
    write(&pool, a, 0..4);
    let taken = used(&pool, "tank/a");
    refused(
        set(&pool, "tank/a", "quota", Some(taken - 1)),
        "more than the quota",
    );
    set(&pool, "tank/a", "quota", Some(taken)).unwrap();
    refused(
        set(&pool, "tank/a", "reservation", Some(taken + 1)),
        "more than the quota",
    );
    refused(
        create(&pool, "tank/a/b", &[("reservation", 1)]),
        "more than the quota",
    );
    assert!(pool.find("tank/a/b").is_err());
    refused(
        set(&pool, "tank/a", "refquota", Some(1)),
        "more than the refquota",
    );
    set(&pool, "tank/a", "quota", None).unwrap();

    let free = pool.space().available;
    refused(
        create(&pool, "tank/c", &[("reservation", free + 1)]),
        "this would reserve",
    );
    create(&pool, "tank/c", &[("reservation", free - 512 * KIB)]).unwrap();
    refused(
        set(&pool, "tank/a", "refreservation", Some(2 << 20)),
        "this would reserve",
    );
    assert_eq!(
        pool.find("tank/a").unwrap().props.get("refreservation"),
        None
    );
    // A snapshot shares what the reservation was for.
    set(&pool, "tank/a", "refreservation", Some(taken)).unwrap();
    set(
        &pool,
        "tank/c",
        "reservation",
        Some(pool.space().available - 64 * KIB),
    )
    .unwrap();
    let snapshot = pool.snapshot(&["tank/a@1".into()], false, &origin());
    refused(snapshot, "this would reserve");
    assert!(pool.find("tank/a@1").is_err());
    // What was too much before, and does not get more, is no error.
    pool.set_props(
        &["tank/c".into()],
        &[("org:x".into(), Some("1".into()))],
        &origin(),
    )
    .unwrap();
}

#[test]
fn a_dataset_is_moved_where_quotas_allow_it() {
    let pool = pool();
    let a = create(&pool, "tank/a", &[]).unwrap();
    write(&pool, a, 0..4);
    create(&pool, "tank/b", &[("quota", 64 * KIB)]).unwrap();
    refused(
        pool.rename("tank/a", "tank/b/a", &origin()),
        "more than the quota",
    );
    set(&pool, "tank/b", "quota", Some(1 << 20)).unwrap();
    pool.rename("tank/a", "tank/b/a", &origin()).unwrap();
    let limits = pool.limits(a).unwrap();
    assert_eq!(limits.quotas.len(), 1);
    assert_eq!(limits.quotas[0].kind, QuotaKind::Below);
    assert!(limits.quotas[0].used > 256 * KIB);
}
