//! Datasets are made, found, renamed, refused and destroyed as their users expect.

use crate::common::*;
use block::fault::FaultClock;
use pool::{ArrayKind, Error, NewKeyring, Pool};

fn pool() -> (Vec<std::sync::Arc<block::fault::FaultDevice>>, Pool) {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    (devices, pool)
}

fn create(pool: &Pool, name: &str) -> pool::Result<u64> {
    let guid = 1000 + name.bytes().map(u64::from).sum::<u64>();
    pool.create_dataset(name, new_dataset(guid), &origin())
        .map(|entry| entry.id)
}

fn names(pool: &Pool) -> Vec<String> {
    let listed = pool.list(pool.top().unwrap().id).unwrap();
    listed.into_iter().map(|listed| listed.name).collect()
}

#[test]
fn datasets_form_a_tree() {
    let (devices, pool) = pool();
    for name in ["tank/b", "tank/a", "tank/a/x", "tank/a/x/y"] {
        create(&pool, name).unwrap();
    }
    pool.snapshot(&["tank/a@one".into()], true, &origin())
        .unwrap();
    let expected = [
        "tank",
        "tank/a",
        "tank/a@one",
        "tank/a/x",
        "tank/a/x@one",
        "tank/a/x/y",
        "tank/a/x/y@one",
        "tank/b",
    ];
    assert_eq!(names(&pool), expected);
    pool.rename("tank/a/x", "tank/b/z", &origin()).unwrap();
    pool.rename("tank/a@one", "@two", &origin()).unwrap();
    drop(pool);
    let pool = open_on(&devices).unwrap();
    let expected = [
        "tank",
        "tank/a",
        "tank/a@two",
        "tank/b",
        "tank/b/z",
        "tank/b/z@one",
        "tank/b/z/y",
        "tank/b/z/y@one",
    ];
    assert_eq!(names(&pool), expected);
    pool.rename_pool("store", &origin()).unwrap();
    assert_eq!(names(&pool)[1], "store/a");
    assert!(pool.find("tank/a").is_err());
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let (_devices, pool) = pool();
    for name in ["tank/a", "tank/a/b"] {
        create(&pool, name).unwrap();
    }
    snapshot(&pool, "tank/a/b@s");
    let before = names(&pool);
    let refused = |result: pool::Result<()>, what: &str| {
        let error = result.expect_err(what);
        assert!(
            error.to_string().contains(what),
            "'{error}' does not say '{what}'"
        );
    };
    refused(create(&pool, "tank/a").map(drop), "exists already");
    refused(create(&pool, "tank/none/x").map(drop), "no such dataset");
    refused(create(&pool, "tank/a@x").map(drop), "no '@'");
    refused(create(&pool, "other/x").map(drop), "no such dataset");
    refused(create(&pool, "tank/\u{e9}").map(drop), "letters, digits");
    refused(create(&pool, "tank/a/b@s/c").map(drop), "letters, digits");
    refused(
        pool.destroy_dataset("tank/a", false, &origin()).map(drop),
        "datasets below it",
    );
    refused(
        pool.destroy_dataset("tank/a/b", false, &origin()).map(drop),
        "snapshots; use -r",
    );
    refused(
        pool.destroy_dataset("tank", true, &origin()).map(drop),
        "pool destroy",
    );
    refused(
        pool.destroy_dataset("tank/a@none", false, &origin())
            .map(drop),
        "tank/a@none: no such snapshot",
    );
    refused(
        pool.rename("tank/a", "tank/a/b/c", &origin()),
        "below itself",
    );
    refused(pool.rename("tank", "tank/x", &origin()), "importing");
    refused(
        pool.rename("tank/a/b@s", "tank/a@s", &origin()),
        "stays with its dataset",
    );
    let snap = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        pool.snapshot(&names, false, &origin()).map(drop)
    };
    refused(snap(&["tank/a/b@s"]), "exists already");
    refused(snap(&["tank/a@x", "tank/a@y"]), "same moment");
    refused(snap(&["tank/a"]), "dataset@snapshot");
    refused(
        pool.rollback("tank/a", false, &origin()).map(drop),
        "not a snapshot",
    );
    assert_eq!(names(&pool), before);
    assert_clean(&pool);
}

#[test]
fn what_is_open_stays() {
    let (_devices, pool) = pool();
    let id = create(&pool, "tank/a").unwrap();
    snapshot(&pool, "tank/a@s");
    let open = pool.open_dataset(id).unwrap();
    assert!(matches!(pool.open_dataset(id), Err(Error::Busy { .. })));
    assert!(matches!(
        pool.destroy_dataset("tank/a", true, &origin()),
        Err(Error::Busy { .. })
    ));
    assert!(matches!(
        pool.rollback("tank/a@s", false, &origin()),
        Err(Error::Busy { .. })
    ));
    assert!(matches!(pool.export(), Err(Error::Busy { .. })));
    let snapshot = pool
        .open_dataset(pool.find("tank/a@s").unwrap().id)
        .unwrap();
    let again = pool.open_dataset(snapshot.id()).unwrap();
    assert!(!again.is_writable());
    assert!(matches!(
        pool.destroy_dataset("tank/a@s", false, &origin()),
        Err(Error::Busy { .. })
    ));
    drop((open, snapshot, again));
    pool.destroy_dataset("tank/a", true, &origin()).unwrap();
    pool.export().unwrap();
}

#[test]
fn later_snapshots_stand_in_the_way_of_a_rollback() {
    let (_devices, pool) = pool();
    let dataset = pool.open_dataset(1).unwrap();
    for (number, name) in [(1, "tank@a"), (2, "tank@b"), (3, "tank@c")] {
        put(&pool, &dataset, ArrayKind::Data, 0, number).unwrap();
        snapshot(&pool, name);
    }
    put(&pool, &dataset, ArrayKind::Data, 0, 4).unwrap();
    pool.commit().unwrap();
    drop(dataset);
    let error = pool
        .rollback("tank@a", false, &origin())
        .unwrap_err()
        .to_string();
    assert!(error.contains("@c, @b") && error.contains("-r"), "{error}");
    pool.rollback("tank@b", true, &origin()).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    assert_eq!(read_all(&dataset, ArrayKind::Data).unwrap()[&0], 2);
    assert_eq!(names(&pool), ["tank", "tank@a", "tank@b"]);
    model::settle(&pool);
    assert_clean(&pool);
}

fn keyed(guid: u64, keyring: &[u8], is_key_root: bool) -> pool::NewDataset {
    let keyring = keyring.to_vec();
    pool::NewDataset {
        suite: 1,
        keyring: Some(Box::new(move |_| Ok(keyring))),
        is_key_root,
        ..new_dataset(guid)
    }
}

#[test]
fn keyrings_are_kept_replaced_and_overwritten() {
    let (devices, pool) = pool();
    let secret: Vec<u8> = (0..9000u32).map(|i| (i * 7 / 3) as u8).collect();
    let marks = [&secret[100..140], &secret[5000..5040], &secret[8900..8940]];
    let on_device = |mark: &[u8]| devices[0].to_bytes().windows(mark.len()).any(|w| w == mark);
    let entry = pool
        .create_dataset("tank/k", keyed(50, &secret, true), &origin())
        .unwrap();
    assert_eq!(entry.key_root, entry.id);
    assert_eq!(pool.keyring(entry.id).unwrap(), secret);
    assert!(marks.iter().all(|mark| on_device(mark)));
    let child = pool
        .create_dataset("tank/k/c", keyed(51, b"child's", false), &origin())
        .unwrap();
    assert_eq!(child.key_root, entry.id);
    snapshot(&pool, "tank/k@s");
    let snapshot = pool.find("tank/k@s").unwrap();
    assert_eq!(
        pool.keyring(snapshot.id).unwrap(),
        secret,
        "a snapshot has its dataset's"
    );

    let change = NewKeyring {
        id: entry.id,
        keyring: b"another".to_vec(),
        key_root: entry.id,
        props: vec![("keysource".into(), Some("raw,file:///k".into()))],
        done: "changed".into(),
    };
    pool.replace_keyrings(&[change], &origin()).unwrap();
    assert_eq!(pool.keyring(entry.id).unwrap(), b"another");
    assert!(
        marks.iter().all(|mark| !on_device(mark)),
        "the old keyring is on no device"
    );
    drop(pool);

    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.keyring(entry.id).unwrap(), b"another");
    assert_eq!(pool.keyring(child.id).unwrap(), b"child's");
    let refused = pool
        .rename("tank/k/c", "tank/c", &origin())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("key is inherited"), "{refused}");
    pool.destroy_dataset("tank/k", true, &origin()).unwrap();
    assert!(!on_device(b"another") && !on_device(b"child's"));
}

#[test]
fn a_crash_leaves_no_stray_keys() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    let old = b"the old wrapped key, quite long enough to be found".to_vec();
    let new = b"the new wrapped key, quite long enough to be found".to_vec();
    let entry = pool
        .create_dataset("tank/k", keyed(50, &old, true), &origin())
        .unwrap();
    devices[0].take_journal();
    let first = clock.now();
    let change = NewKeyring {
        id: entry.id,
        keyring: new.clone(),
        key_root: entry.id,
        props: Vec::new(),
        done: "changed".into(),
    };
    pool.replace_keyrings(&[change], &origin()).unwrap();
    let end = clock.now();
    let journal = devices[0].take_journal();
    for cut in first..=end {
        for survival in [block::fault::Survival::None, block::fault::Survival::All] {
            let device = &after_cut([&journal], cut, survival)[0];
            let pool = open_on(std::slice::from_ref(device)).unwrap();
            pool.claim("here").unwrap();
            let found = pool.keyring(entry.id).unwrap();
            let other = if found == old { &new } else { &old };
            assert!(found == old || found == new);
            let bytes = device.to_bytes();
            let stray = bytes.windows(other.len()).any(|w| w == other);
            assert!(
                !stray,
                "cut {cut}: the other keyring is still on the device"
            );
        }
    }
}

/// The process is killed anywhere in a commit, the pool imported from what the system has in its cache,
/// and then the power fails: what the last superblock on the medium names must still be there.
#[test]
fn an_import_overwrites_nothing_that_the_medium_needs() {
    let old = b"the old wrapped key, quite long enough to be found".to_vec();
    let new = b"the new wrapped key, quite long enough to be found".to_vec();
    let begin = || {
        let clock = FaultClock::new();
        let devices = fault_devices(1, &clock);
        let pool = create_on(&devices);
        let entry = pool.create_dataset("tank/k", keyed(50, &old, true), &origin());
        let change = NewKeyring {
            id: entry.unwrap().id,
            keyring: new.clone(),
            key_root: 2,
            props: Vec::new(),
            done: "changed".into(),
        };
        (clock, devices, pool, change)
    };
    let (clock, _, pool, change) = begin();
    let first = clock.now();
    pool.replace_keyrings(&[change], &origin()).unwrap();
    let end = clock.now();
    let mut seen = std::collections::BTreeSet::new();
    for killed in first..end {
        let (clock, devices, pool, change) = begin();
        let id = change.id;
        devices[0].inject(block::fault::Fault::DeadFrom(killed));
        let _ = pool.replace_keyrings(&[change], &origin());
        drop(pool);
        devices[0].heal();
        let imported = clock.now();
        let pool = open_on(&devices).unwrap();
        pool.claim("here").unwrap();
        drop(pool);
        let journal = devices[0].take_journal();
        for cut in imported..=clock.now() {
            for seed in 0..4 {
                let survival = block::fault::Survival::Seeded(16 * cut + seed);
                let found = open_on(&after_cut([&journal], cut, survival)).and_then(|pool| {
                    assert_clean(&pool);
                    pool.keyring(id)
                });
                let found = found.unwrap_or_else(|error| {
                    panic!("killed at {killed}, power cut at {cut}, seed {seed}: {error}");
                });
                seen.insert((found == old, found == new));
            }
        }
    }
    assert_eq!(Vec::from_iter(seen), [(false, true), (true, false)]);
}

#[test]
fn the_history_says_who_did_what() {
    let (devices, pool) = pool();
    for n in 0..300 {
        let origin = pool::Origin {
            who: "ann on host".into(),
            text: format!("strongroom set note:n={n} tank"),
            uid: Some(n),
        };
        pool.set_props(
            &["tank".into()],
            &[("note:n".into(), Some(n.to_string()))],
            &origin,
        )
        .unwrap();
    }
    drop(pool);
    let pool = open_on(&devices).unwrap();
    let history = pool.history().unwrap();
    assert_eq!(history.len(), 300);
    assert!(history.windows(2).all(|pair| pair[0].txg < pair[1].txg));
    assert_eq!(history[299].text, "strongroom set note:n=299 tank");
    assert_eq!(history[299].who, "ann on host");
    assert_eq!(history[299].uid, Some(299));
    assert_eq!(history[299].object, pool.top().unwrap().guid);
    assert_eq!(pool.property(1, "note:n").unwrap(), Some(("299".into(), 1)));
    assert_clean(&pool);
}

#[test]
fn pools_that_cannot_be_opened_say_why() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_on(&devices);
    export(pool);
    let missing = open_on(&devices[..1]).err().unwrap().to_string();
    assert!(
        missing.contains("the pool cannot be opened without these missing devices"),
        "{missing}"
    );
    let pool = open_on(&devices).unwrap();
    pool.destroy().unwrap();
    drop(pool);
    let gone = open_on(&devices).err().unwrap().to_string();
    assert!(gone.contains("holds no Strongroom pool"), "{gone}");
}

#[test]
fn a_command_that_fails_leaves_no_stray_keys() {
    let (devices, pool) = pool();
    let on_device = |mark: &[u8]| devices[0].to_bytes().windows(mark.len()).any(|w| w == mark);
    let ids = ["tank/a", "tank/b"].map(|name| {
        let new = keyed(name.len() as u64 + 60, b"the first keyring", true);
        let new = pool::NewDataset {
            guid: name.as_bytes()[5].into(),
            ..new
        };
        pool.create_dataset(name, new, &origin()).unwrap().id
    });
    let mark = b"the second keyring, long enough to be found";
    let change = |id, keyring: Vec<u8>| NewKeyring {
        id,
        keyring,
        key_root: id,
        props: Vec::new(),
        done: "changed".into(),
    };
    // The second does not fit any more.
    let changes = [
        change(ids[0], mark.to_vec()),
        change(ids[1], vec![1; 4000 * 40]),
    ];
    let error = pool.replace_keyrings(&changes, &origin()).unwrap_err();
    assert!(matches!(error, Error::KeyAreaFull { .. }), "{error}");
    assert!(!on_device(mark), "it is gone when the command returns");
    for id in ids {
        assert_eq!(pool.keyring(id).unwrap(), b"the first keyring");
    }
    export(pool);
    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.keyring(ids[1]).unwrap(), b"the first keyring");
}

#[test]
fn no_new_name_above_makes_one_too_long() {
    let (_devices, pool) = pool();
    create(&pool, "tank/d").unwrap();
    let snapshot = format!("tank/d@{}", "s".repeat(200));
    pool.snapshot(&[snapshot], false, &origin()).unwrap();
    let too_long = "p".repeat(100);
    let error = pool.rename_pool(&too_long, &origin()).unwrap_err();
    assert!(matches!(error, Error::BadName { .. }), "{error}");
    assert_eq!(pool.name(), "tank");
    let error = pool
        .rename("tank/d", &format!("tank/{too_long}"), &origin())
        .unwrap_err();
    assert!(matches!(error, Error::BadName { .. }), "{error}");
    assert!(pool.find("tank/d").is_ok());
    pool.rename_pool("longer", &origin()).unwrap();
    assert!(pool.find("longer/d").is_ok());
}

#[test]
fn no_two_states_share_a_sequence() {
    let (devices, pool) = pool();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..3 {
        let dataset = pool.open_dataset(1).unwrap();
        for slot in 0..4 {
            put(&pool, &dataset, pool::ArrayKind::Data, slot, round).unwrap();
            pool.commit().unwrap();
            let sequence = pool.entry(1).unwrap().sequence;
            assert!(seen.insert(sequence), "{sequence} again");
            if round + slot == 0 {
                snapshot(&pool, "tank@s");
            }
        }
        drop(dataset);
        pool.rollback("tank@s", false, &origin()).unwrap();
        assert_eq!(pool.entry(1).unwrap().sequence, 1, "what its seal is over");
        if round == 0 {
            // A second rollback in a row forgets nothing.
            pool.rollback("tank@s", false, &origin()).unwrap();
        }
    }
    drop(pool);
    let pool = open_on(&devices).unwrap();
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, pool::ArrayKind::Data, 0, 9).unwrap();
    pool.commit().unwrap();
    assert!(pool.entry(1).unwrap().sequence > *seen.last().unwrap());
}
