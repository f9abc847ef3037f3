//! Arrays keep what is put into them, across commits and imports.

use std::collections::BTreeMap;

use crate::common::*;
use block::fault::FaultClock;
use pool::ArrayKind;

#[test]
fn records_survive_commit_and_import() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    let mut model = BTreeMap::new();
    // Slots far apart make the tree grow several levels at once.
    for (number, slot) in [0, 1, 31, 32, 1023, 1024, 1 << 30, (1 << 56) - 1]
        .into_iter()
        .enumerate()
    {
        put(&pool, &dataset, ArrayKind::Data, slot, number as u64).unwrap();
        model.insert(slot, number as u64);
        assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap(), model);
        if number % 3 == 0 {
            pool.commit().unwrap();
            assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap(), model);
        }
    }
    pool.commit().unwrap();
    assert_clean(&pool);
    drop((dataset, pool));

    let pool = open_on(&devices).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap(), model);
    assert!(read_all(&dataset, ArrayKind::Pages).unwrap().is_empty());
    for slot in model.keys() {
        punch(&pool, &dataset, ArrayKind::Data, *slot).unwrap();
    }
    assert!(read_all(&dataset, ArrayKind::Data).unwrap().is_empty());
    pool.commit().unwrap();
    assert!(read_all(&dataset, ArrayKind::Data).unwrap().is_empty());
    assert_clean(&pool);
    let entry = pool.entry(1).unwrap();
    assert!(entry.roots.iter().all(|root| root.is_empty()));
    assert_eq!((entry.referenced, entry.used, entry.logical), (0, 0, 0));
}

#[test]
fn what_was_not_committed_is_gone_and_leaks_nothing() {
    let devices = fault_devices(2, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 3, 1).unwrap();
    pool.commit().unwrap();
    put(&pool, &dataset, ArrayKind::Data, 3, 2).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 4, 3).unwrap();
    drop(
        dataset
            .place(ArrayKind::Data, identity(9), &contents(9))
            .unwrap(),
    );
    drop((dataset, pool));
    let pool = open_on(&devices).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    assert_eq!(
        read_all(&dataset, ArrayKind::Data).unwrap(),
        BTreeMap::from([(3, 1)])
    );
    assert_clean(&pool);
}

#[test]
fn a_record_replaced_within_its_transaction_group_is_freed() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    pool.commit().unwrap();
    for number in 0..200 {
        put(&pool, &dataset, ArrayKind::Data, 0, number).unwrap();
    }
    pool.commit().unwrap();
    assert_clean(&pool);
    punch(&pool, &dataset, ArrayKind::Data, 0).unwrap();
    pool.commit().unwrap();
    pool.commit().unwrap();
    assert_clean(&pool);
    let entry = pool.entry(1).unwrap();
    assert_eq!((entry.referenced, entry.used), (0, 0));
}

#[test]
fn both_groups_under_way_are_seen() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 40, 1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 41, 2).unwrap();
    pool.commit().unwrap();
    put(&pool, &dataset, ArrayKind::Data, 41, 3).unwrap();
    punch(&pool, &dataset, ArrayKind::Data, 40).unwrap();
    assert_eq!(
        read_all(&dataset, ArrayKind::Data).unwrap(),
        BTreeMap::from([(41, 3)])
    );
    assert_eq!(dataset.next(ArrayKind::Data, 0, 41).unwrap(), None);
}
