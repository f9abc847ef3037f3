use super::*;

/// The root dataset with snapshots 2 to 4, as a table on disk would have them, and another dataset.
fn table() -> Vec<Entry> {
    let blank = Entry {
        parent: 0,
        name: String::new(),
        prev_snap: 0,
        prev_snap_txg: 0,
        next: 0,
        origin: 0,
        ..crate::format::datasets::entry::tests::sample()
    };
    let snapshot = |id: u64, prev_snap, next| Entry {
        id,
        parent: 1,
        name: format!("s{id}"),
        kind: DatasetKind::Snapshot,
        created_txg: id * 10,
        prev_snap,
        prev_snap_txg: prev_snap * 10,
        next,
        ..blank.clone()
    };
    let top = Entry {
        id: 1,
        prev_snap: 4,
        prev_snap_txg: 40,
        ..blank.clone()
    };
    let other = Entry {
        id: 5,
        parent: 1,
        name: "other".into(),
        ..blank.clone()
    };
    let snapshots = [snapshot(2, 0, 3), snapshot(3, 2, 4), snapshot(4, 3, 1)];
    [top].into_iter().chain(snapshots).chain([other]).collect()
}

fn check(table: Vec<Entry>) -> Result<()> {
    let mut state = DatasetTable::new(PoolRoot::new("tank", 1, 1), 50, Config::default());
    for entry in table {
        state.index(Arc::new(entry))?;
    }
    state.check()
}

#[test]
fn a_copy_shares_what_does_not_change() {
    let mut state = DatasetTable::new(PoolRoot::new("tank", 1, 1), 50, Config::default());
    for entry in table() {
        state.insert(entry);
    }
    let before = state.clone();
    assert!(Arc::ptr_eq(&before.entries, &state.entries));
    state.edit(5).unwrap().used += 1;
    assert!(Arc::ptr_eq(&before.names, &state.names));
    assert_eq!(
        state.entry(5).unwrap().used,
        before.entry(5).unwrap().used + 1
    );
    state.remove(5);
    assert!(before.entry(5).is_ok() && state.entry(5).is_err());
}

#[test]
fn lines_that_go_round_or_nowhere_are_refused() {
    check(table()).unwrap();
    type SlotDifference = fn(&mut [Entry]);
    let hostile: [(&str, SlotDifference); 11] = [
        ("it is before itself", |t| t[2].prev_snap = 3),
        ("it comes after itself", |t| t[3].next = 4),
        ("two are before each other", |t| t[1].prev_snap = 3),
        ("it is in a line from which nothing leads to it", |t| {
            (t[0].prev_snap, t[0].prev_snap_txg) = (3, 30);
            t[2].next = 1;
            t[3].next = 3;
        }),
        ("it hangs on what is not there", |t| t[3].next = 9),
        ("it is before another dataset", |t| t[3].next = 5),
        ("it is older than the one before it", |t| {
            t[2].created_txg = 5
        }),
        ("it was made after the last commit", |t| {
            (t[3].created_txg, t[0].prev_snap_txg) = (51, 51);
        }),
        ("it is cloned of its own snapshot", |t| t[0].origin = 4),
        ("it is below itself", |t| t[4].parent = 5),
        ("it is below a snapshot", |t| t[4].parent = 2),
    ];
    for (what, change) in hostile {
        let mut table = table();
        change(&mut table);
        assert!(check(table).is_err(), "{what}");
    }
}
