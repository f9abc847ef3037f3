//! Groups with parity: what they give back when columns are missing or wrong.

mod common;

use std::io::IoSlice;
use std::sync::Arc;

use block::fault::{Fault, FaultClock, FaultDevice};
use common::*;
use store::{CreateOptions, Error, Joins, MemberState, NewGroup, Shape, Store, UNIT};

fn contents(units: u32, seed: u8) -> Vec<u8> {
    let bytes = 0..units as usize * UNIT as usize;
    bytes
        .map(|i| (i / 7) as u8 ^ (i >> 12) as u8 ^ seed)
        .collect()
}

fn read_nth(store: &Store, nth: usize, offset: u32, len: usize) -> store::Result<Vec<u8>> {
    let mut buf = vec![0; len];
    store.read_nth(nth, PLACE, offset, &mut buf).map(|()| buf)
}

/// The tested shapes of groups: columns and parity.
const SHAPES: [(usize, usize); 6] = [(3, 1), (4, 1), (7, 1), (3, 2), (4, 2), (6, 2)];

/// Every set of up to `most` columns.
fn sets(columns: usize, most: usize) -> Vec<Vec<usize>> {
    let all = 0..1u32 << columns;
    let few = all.filter(|set| set.count_ones() as usize <= most);
    few.map(|set| (0..columns).filter(|n| set & 1 << n != 0).collect())
        .collect()
}

/// Stripes of many sizes, one behind the other, and where each begins.
fn stripes(store: &Store) -> Vec<(u32, Vec<u8>)> {
    let shape = store.shape(0);
    let mut at = 0;
    let mut all = Vec::new();
    for (units, seed) in [1, 2, 3, 4, 5, 7, 11, 33].into_iter().zip(1..) {
        all.push((at, contents(units, seed)));
        at += shape.taken(units) * UNIT;
    }
    all
}

#[test]
fn what_is_missing_comes_back_from_the_rest() {
    for (columns, parity) in SHAPES {
        let devices = devices(columns);
        let store = group(&devices, parity);
        let stripes = stripes(&store);
        for (at, bytes) in &stripes {
            store.write(PLACE, *at, &[IoSlice::new(bytes)]).unwrap();
        }
        store.flush().unwrap();
        drop(store);
        for missing in sets(columns, parity) {
            let there: Vec<_> = (0..columns).filter(|n| !missing.contains(n)).collect();
            let there: Vec<_> = there.iter().map(|n| Arc::clone(&devices[*n])).collect();
            let store = Store::open(dynamic(&there)).unwrap();
            for (at, bytes) in &stripes {
                let found = read_nth(&store, 0, *at, bytes.len()).unwrap();
                assert!(found == *bytes, "{columns} {parity} without {missing:?}");
            }
        }
        if columns == parity + 1 {
            continue;
        }
        let too_few = Store::open(dynamic(&devices[parity + 1..])).unwrap();
        assert_eq!(too_few.width(0), 0);
        let error = read_nth(&too_few, 0, 0, 4096).unwrap_err();
        assert!(matches!(error, Error::NoMember { group: 0 }));
    }
}

#[test]
fn a_wrong_column_is_left_out_in_some_way() {
    for (columns, parity) in SHAPES {
        for wrong in sets(columns, parity) {
            let devices = devices(columns);
            let store = group(&devices, parity);
            let stripes = stripes(&store);
            for (at, bytes) in &stripes {
                store.write(PLACE, *at, &[IoSlice::new(bytes)]).unwrap();
            }
            for n in &wrong {
                for at in ((512 << 10)..(10 << 20)).step_by(4096) {
                    devices[*n].flip(at + 11, 0x40);
                }
            }
            for (at, bytes) in &stripes {
                let ways = (0..store.width(0)).map(|nth| read_nth(&store, nth, *at, bytes.len()));
                assert!(ways.into_iter().any(|found| found.unwrap() == *bytes));
                // All that is held of it, told from what should be, and repaired.
                let online = MemberState::Online;
                let parts = store.read_parts(PLACE, *at, bytes.len(), online).unwrap();
                let mut ways = (0..parts.ways()).map(|way| parts.whole(way));
                assert!(ways.any(|found| found.as_ref() == Some(bytes)));
                for guid in parts.bad(bytes) {
                    assert!(wrong.contains(&(guid as usize - 100)));
                    store.write_part(guid, PLACE, *at, bytes).unwrap();
                }
                let parts = store.read_parts(PLACE, *at, bytes.len(), online).unwrap();
                assert!(parts.bad(bytes).is_empty());
                assert_eq!(parts.whole(0).as_ref(), Some(bytes));
            }
        }
    }
}

#[test]
fn stripes_that_are_written_together_are_read_one_by_one() {
    let clock = FaultClock::new();
    let devices: Vec<_> = (0..4)
        .map(|_| Arc::new(FaultDevice::new(SIZE, &clock)))
        .collect();
    let store = group(&devices, 2);
    let single = contents(8, 1);
    let slices: Vec<&[u8]> = single.chunks(UNIT as usize).collect();
    let before = clock.now();
    store.write_each(PLACE, 0, &slices).unwrap();
    assert_eq!(clock.now() - before, 4, "one write for each column");
    let stripes = stripes(&store);
    let slices: Vec<&[u8]> = stripes.iter().map(|(_, bytes)| &bytes[..]).collect();
    store.write_each(PLACE, 0, &slices).unwrap();
    for (at, bytes) in &stripes {
        for nth in 0..store.width(0) {
            assert!(read_nth(&store, nth, *at, bytes.len()).unwrap() == *bytes);
        }
    }
}

#[test]
fn single_units_do_not_touch_their_neighbours() {
    for (columns, parity) in SHAPES {
        let devices = devices(columns);
        let store = group(&devices, parity);
        let first = contents(8, 1);
        let step = store.shape(0).taken(1) * UNIT;
        let units: Vec<&[u8]> = first.chunks(UNIT as usize).collect();
        store.write_each(PLACE, 0, &units).unwrap();
        let other = contents(1, 9);
        store.write_each(PLACE, 3 * step, &[&other]).unwrap();
        let mut expected = first.clone();
        expected[3 * UNIT as usize..4 * UNIT as usize].copy_from_slice(&other);
        for nth in 0..store.width(0) {
            let mut found = vec![0; first.len()];
            store.read_units(nth, PLACE, 0, &mut found).unwrap();
            assert!(found == expected, "{columns} {parity} {nth}");
        }
    }
}

#[test]
fn a_short_stripe_is_on_few_members() {
    let devices = devices(6);
    let store = group(&devices, 1);
    let holders = |offset, len| store.holders(PLACE, offset, len).len();
    assert_eq!([holders(0, 1), holders(8192, 4096)], [2, 2]);
    assert_eq!(holders(0, 3 * 4096), 4);
    assert_eq!(holders(0, 128 << 10), 6);
}

#[test]
fn as_many_members_may_fail_as_there_is_parity() {
    for (columns, parity) in SHAPES {
        let devices = devices(columns);
        let store = group(&devices, parity);
        let bytes = contents(40, 3);
        for failing in &devices[..parity] {
            failing.inject(Fault::DeadFrom(0));
        }
        store.write(PLACE, 0, &[IoSlice::new(&bytes)]).unwrap();
        store.flush().unwrap();
        assert_eq!(store.take_faults().len(), parity);
        assert_eq!(read_nth(&store, 0, 0, bytes.len()).unwrap(), bytes);
        devices[parity].inject(Fault::DeadFrom(0));
        // What one more does not take is kept in memory, and is not durable until it does.
        let fresh = contents(40, 4);
        store.write(PLACE, 0, &[IoSlice::new(&fresh)]).unwrap();
        assert!(store.stall().is_some_and(|error| error.device().is_some()));
        assert!(store.flush().is_err() && store.retry().is_err());
        assert!(store.take_faults().is_empty(), "{columns} {parity}");
        devices[parity].heal();
        assert!(!store.retry().unwrap());
        store.flush().unwrap();
        assert_eq!(read_nth(&store, 0, 0, fresh.len()).unwrap(), fresh);
    }
}

#[test]
fn a_member_is_replaced_in_its_column() {
    let all = devices(5);
    let store = group(&all[..4], 1);
    let old = contents(9, 1);
    store.write(PLACE, 0, &[IoSlice::new(&old)]).unwrap();
    let new = new_member(&all[4], 200);
    let joins = Joins::Group {
        group: 0,
        column: 2,
    };
    assert_eq!(store.join(&new, joins).unwrap().column, 2);
    let next = store.shape(0).taken(9) * UNIT;
    let fresh = contents(10, 2);
    store.write(PLACE, next, &[IoSlice::new(&fresh)]).unwrap();
    store.write_part(200, PLACE, 0, &old).unwrap();
    store.write_superblock(2, b"second").unwrap();
    store.set_state(200, MemberState::Online);
    store.let_go(102, true).unwrap();
    for bytes in [(0, &old), (next, &fresh)] {
        for nth in 0..store.width(0) {
            assert!(read_nth(&store, nth, bytes.0, bytes.1.len()).unwrap() == *bytes.1);
        }
    }
}

/// A stale member is read only where no other is left.
#[test]
fn a_stale_member_is_left_out_first() {
    let devices = devices(5);
    let store = group(&devices, 2);
    store.set_state(101, MemberState::Offline);
    let bytes = contents(33, 7);
    store.write(PLACE, 0, &[IoSlice::new(&bytes)]).unwrap();
    store.set_state(101, MemberState::Resilvering);
    assert!(read_nth(&store, 0, 0, bytes.len()).unwrap() == bytes);
    store.set_state(104, MemberState::Offline);
    assert!(read_nth(&store, 0, 0, bytes.len()).unwrap() == bytes);
    store.set_state(103, MemberState::Offline);
    assert!(read_nth(&store, 0, 0, bytes.len()).unwrap() != bytes);
}

#[test]
fn discards_reach_the_rows_of_the_range_only() {
    let devices = devices(3);
    let store = group(&devices, 1);
    let stripes = [contents(4, 1), contents(32, 2), contents(4, 3)];
    let slices: Vec<&[u8]> = stripes.iter().map(|bytes| &bytes[..]).collect();
    store.write_each(PLACE, 0, &slices).unwrap();
    let at = store.shape(0).taken(4) * UNIT;
    let len = store.shape(0).taken(32) * UNIT;
    store.discard(PLACE, at, len).unwrap();
    for nth in 0..store.width(0) {
        assert!(read_nth(&store, nth, 0, stripes[0].len()).unwrap() == stripes[0]);
        let last = read_nth(&store, nth, at + len, stripes[2].len());
        assert!(last.unwrap() == stripes[2]);
    }
    assert!(
        store
            .discard(PLACE, store.segment_size() - UNIT, 2 * UNIT)
            .is_err()
    );
}

#[test]
fn groups_that_cannot_be_are_refused() {
    for (count, parity) in [(2, 1), (2, 2), (33, 1), (3, 3), (5, 4)] {
        assert_eq!(Shape::new(count, parity), None);
        let group = NewGroup {
            devices: dynamic(&devices(count)),
            parity,
        };
        let options = CreateOptions {
            pool_guid: 7,
            device_guids: (100..).take(count).collect(),
            created: 1,
            force: false,
        };
        let refused = Store::create_groups(vec![group], vec![], &options);
        assert!(matches!(refused.err(), Some(Error::Mismatch { .. })));
    }
}
