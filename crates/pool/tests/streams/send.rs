//! The receiver gets the snapshots that were sent, and refuses streams that do not fit.

use std::sync::Arc;

use crate::common::forgery::fitting;
use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use block::{BlockDevice, DeviceMeter, MemoryDevice, MeteredDevice};
use pool::ArrayKind::{Data, Pages};
use pool::{NewDataset, Pool};

#[test]
fn a_dataset_with_its_snapshots() {
    let (from, to) = (with_history(), other_pool());
    receive(&to, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    let mut last = "tank/a@one";
    for next in ["tank/a@two", "tank/a@three", "tank/a@four"] {
        receive(&to, &stream(&from, next, Some(last)), "tank/b").unwrap();
        last = next;
    }
    for snapshot in ["one", "two", "three", "four"] {
        let [sent, got] = [format!("tank/a@{snapshot}"), format!("tank/b@{snapshot}")];
        assert_eq!(holds(&from, &sent), holds(&to, &got));
        let [sent, got] = [from.find(&sent).unwrap(), to.find(&got).unwrap()];
        assert_eq!((sent.guid, sent.created), (got.guid, got.created));
        assert_eq!(
            sent.roots.map(|r| r.identity),
            got.roots.map(|r| r.identity)
        );
        assert_eq!(sent.logical, got.logical);
    }
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@four"));
    assert_clean(&to);
    // What is received gives everything back.
    to.destroy_dataset("tank/b", true, &origin()).unwrap();
    settle(&to);
    assert_clean(&to);
}

#[test]
fn what_comes_in_the_clear_is_known_again() {
    let (from, to, third) = (with_history(), other_pool(), new_pool());
    let plain = |pool: &Pool, to: &str, from| stream_as(How::Plain, pool, to, from);
    let full = plain(&from, "tank/a@one", None);
    receive(&to, &full, "tank/b").unwrap();
    let next = plain(&from, "tank/a@three", Some("tank/a@one"));
    receive(&to, &next, "tank/b").unwrap();
    for snapshot in ["one", "three"] {
        let [sent, got] = [format!("tank/a@{snapshot}"), format!("tank/b@{snapshot}")];
        assert_eq!(holds(&from, &sent), holds(&to, &got));
        assert_eq!(from.find(&sent).unwrap().guid, to.find(&got).unwrap().guid);
    }
    // On from the copy, and then from where that came.
    receive(&third, &plain(&to, "tank/b@three", None), "tank/c").unwrap();
    let last = plain(&from, "tank/a@four", Some("tank/a@three"));
    receive(&third, &last, "tank/c").unwrap();
    assert_eq!(holds(&third, "tank/c"), holds(&from, "tank/a@four"));

    // A snapshot of that guid which holds something else is not what the stream goes on from.
    let other = new_pool();
    other
        .create_dataset("tank/a", new_dataset(50), &origin())
        .unwrap();
    fill(&other, "tank/a", Data, &[(0, 77)]);
    snapshot(&other, "tank/a@one");
    let (guid, guids) = (
        from.find("tank/a@one").unwrap().guid,
        &plain(&other, "tank/a@one", None),
    );
    let mut forged = guids.clone();
    // Its guid in the first frame, and hashes that fit it.
    forged[160 + 20..160 + 28].copy_from_slice(&guid.to_le_bytes());
    let fits = fitting(&forged);
    let fourth = new_pool();
    receive(&fourth, &fits, "tank/d").unwrap();
    assert_eq!(fourth.find("tank/d@one").unwrap().guid, guid);
    refused(receive(&fourth, &next, "tank/d"), "not in the state");
    for pool in [&to, &third, &fourth] {
        assert_clean(pool);
    }
}

#[test]
fn several_streams_one_behind_the_other() {
    let (from, to) = (with_history(), other_pool());
    let all = [
        stream(&from, "tank/a@one", None),
        stream(&from, "tank/a@four", Some("tank/a@one")),
    ];
    receive(&to, &all.concat(), "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@four"));
    assert_clean(&to);
}

#[test]
fn an_incremental_stream_reads_what_changed_and_little_else() {
    let meter = Arc::new(DeviceMeter::default());
    let memory = MemoryDevice::new(96 << 20);
    let device: Arc<dyn BlockDevice> = Arc::new(MeteredDevice::new(memory, Arc::clone(&meter)));
    let records = 1024;
    let pool = create_groups_on(vec![Arc::clone(&device)], &[(1, 0)]);
    let all: Vec<_> = (0..records)
        .map(|slot| (slot, sized(slot + 1, 16)))
        .collect();
    fill(&pool, "tank", Data, &all);
    snapshot(&pool, "tank@one");
    let changed: Vec<_> = (0..10).map(|n| (n * 100, sized(n + 5000, 16))).collect();
    fill(&pool, "tank", Data, &changed);
    snapshot(&pool, "tank@two");
    drop(pool);

    // Nothing is in memory.
    let pool = open_devices(vec![device]).unwrap();
    let before = meter.read.totals().bytes;
    let bytes = stream(&pool, "tank@two", Some("tank@one"));
    let read = meter.read.totals().bytes - before;
    let (new, whole) = (10 * 16 * 4096, records * 16 * 4096);
    assert!(
        bytes.len() as u64 - new < new / 50,
        "{} bytes sent",
        bytes.len()
    );
    assert!(read < whole * 15 / 1000, "{read} of {whole} bytes read");
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let (from, to) = (with_history(), other_pool());
    let full = stream(&from, "tank/a@two", None);
    let next = stream(&from, "tank/a@three", Some("tank/a@two"));
    refused(receive(&to, &next, "tank/b"), "no such dataset");
    receive(&to, &full, "tank/b").unwrap();
    refused(receive(&to, &full, "tank/b"), "exists already");
    refused(receive(&to, &full, "tank/c/d"), "no such dataset");
    let later = stream(&from, "tank/a@four", Some("tank/a@three"));
    refused(receive(&to, &later, "tank/b"), "lacks the snapshot");
    refused(receive(&to, &next, "tank/b@two"), "exists already");

    // It has gone on by itself.
    fill(&to, "tank/b", Data, &[(70, 7)]);
    refused(receive(&to, &next, "tank/b"), "was changed since @two");
    snapshot(&to, "tank/b@own");
    refused(
        receive(&to, &next, "tank/b"),
        "newer snapshots (@own) than @two",
    );
    to.hold(&["tank/b@own".into()], "keep", false, &origin())
        .unwrap();
    refused(receive_as(&to, &next, true, false, "tank/b"), "is held");
    to.release(&["tank/b@own".into()], "keep", false, &origin())
        .unwrap();
    let open = to.open_dataset(to.find("tank/b").unwrap().id).unwrap();
    refused(receive_as(&to, &next, true, false, "tank/b"), "in use");
    drop(open);
    let before = read_pool(&to);
    refused(
        receive_as(&to, &next[..next.len() - 1], true, false, "tank/b"),
        "ends too early",
    );
    assert_eq!(
        read_pool(&to),
        before,
        "-F takes back only what it replaces"
    );
    receive_as(&to, &next, true, false, "tank/b").unwrap();
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@three"));
    assert!(to.find("tank/b@own").is_err());
    assert_clean(&to);

    // A snapshot of the same guid that holds something else.
    let other = with_history();
    fill(&other, "tank/a", Data, &[(90, 99)]);
    snapshot(&other, "tank/a@five");
    let strange = stream(&other, "tank/a@five", Some("tank/a@four"));
    receive(&to, &later, "tank/b").unwrap();
    let four = to.find("tank/b@four").unwrap().guid;
    assert_eq!(
        four,
        other.find("tank/a@four").unwrap().guid,
        "replayed from one seed"
    );
    receive(&to, &strange, "tank/b").unwrap();
    assert_clean(&to);
}

/// A sealed dataset of a stream comes with its seal, the base of the seal, and its keyring.
#[test]
fn seals_and_keyrings_come_as_they_are() {
    let from = new_pool();
    let new = NewDataset {
        suite: 1,
        keyring: Some(Box::new(|_| Ok(vec![7; 5000]))),
        is_key_root: true,
        ..new_dataset(77)
    };
    from.create_dataset("tank/a", new, &origin()).unwrap();
    fill(&from, "tank/a", Pages, &[(0, 1)]);
    snapshot(&from, "tank/a@one");
    let (b, c) = (new_pool(), new_pool());
    receive(&b, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    receive(&c, &stream(&b, "tank/b@one", None), "tank/c").unwrap();
    let sent = from.find("tank/a@one").unwrap();
    for (pool, name) in [(&b, "tank/b"), (&c, "tank/c")] {
        let head = pool.find(name).unwrap();
        let got = pool.find(&format!("{name}@one")).unwrap();
        assert_ne!(head.guid, 77);
        assert_eq!(
            (head.family, head.suite, head.key_root),
            (sent.family, 1, head.id)
        );
        assert_eq!(
            (got.sequence, got.seal, got.keys_txg()),
            (sent.sequence, sent.seal, sent.keys_txg())
        );
        assert_eq!(pool.keyring(head.id).unwrap(), vec![7; 5000]);
        for entry in [&head, &got] {
            let input = pool::SealInput::of(entry, head.guid);
            assert_eq!(input.guid, 77, "the seal is over what it was made over");
            assert_eq!(input.roots, sent.roots.map(|root| root.identity));
        }
        // A clone is its own, and its keyring goes on where the other one is.
        let keyring: pool::MakeKeyring = Box::new({
            let floor = sent.keys_txg();
            move |txg| {
                if txg > floor {
                    Ok(vec![8; 10])
                } else {
                    Err("it descends".into())
                }
            }
        });
        let clone = pool::NewClone {
            keyring: Some(keyring),
            is_key_root: true,
            reseal: Some(Box::new(|old, new| {
                assert_ne!(new.guid, 77);
                Ok([old.seal[0]; 32])
            })),
            ..new_clone(900)
        };
        pool.clone_snapshot(&format!("{name}@one"), "tank/clone", clone, &origin())
            .unwrap();
        let clone = pool.find("tank/clone").unwrap();
        assert_eq!(pool::SealInput::of(&clone, clone.guid).guid, 900);
        assert_clean(pool);
    }
}

/// The length of a keyring with 32 slots for recipients, of 2.5 KiB each.
#[test]
fn long_keyrings_are_replaced_and_sent() {
    let long = |byte: u8| vec![byte; 90_000];
    let large_pool = || {
        let clock = block::fault::FaultClock::new();
        create_on(&[Arc::new(block::fault::FaultDevice::new(64 << 20, &clock))])
    };
    let from = large_pool();
    let new = NewDataset {
        suite: 1,
        keyring: Some(Box::new(move |_| Ok(long(1)))),
        is_key_root: true,
        ..new_dataset(77)
    };
    let entry = from.create_dataset("tank/a", new, &origin()).unwrap();
    for byte in 2..6 {
        let change = pool::NewKeyring {
            id: entry.id,
            keyring: long(byte),
            key_root: entry.id,
            props: Vec::new(),
            done: "changed".into(),
        };
        from.replace_keyrings(&[change], &origin()).unwrap();
        assert_eq!(from.keyring(entry.id).unwrap(), long(byte));
    }
    snapshot(&from, "tank/a@one");
    let to = large_pool();
    receive(&to, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    let head = to.find("tank/b").unwrap();
    assert_eq!(to.keyring(head.id).unwrap(), long(5));
    assert_clean(&to);
}

#[test]
fn what_is_sent_cannot_be_destroyed_meanwhile() {
    let from = with_history();
    let id = from.find("tank/a@two").unwrap().id;
    let what = pool::SendOf {
        to: id,
        from: None,
        start: pool::StreamPosition::START,
        keyring: Vec::new(),
        keys_txg: 0,
        props: Default::default(),
        open: None,
        readers: 0,
    };
    let sending = from.send(what).unwrap();
    let gone = from.destroy_dataset("tank/a@two", false, &origin());
    refused(gone.map(|_| ()), "in use");
    drop(sending);
    from.destroy_dataset("tank/a@two", false, &origin())
        .unwrap();
}

/// However many threads read.
#[test]
fn the_stream_is_the_same() {
    let from = with_history();
    let [one, four] = ["tank/a@one", "tank/a@four"].map(|name| from.find(name).unwrap().id);
    let made = |readers| {
        let what = pool::SendOf {
            to: four,
            from: Some(one),
            start: pool::StreamPosition::START,
            keyring: Vec::new(),
            keys_txg: 0,
            props: Default::default(),
            open: None,
            readers,
        };
        let mut bytes = Vec::new();
        from.send(what).unwrap().write(&mut bytes).unwrap();
        bytes
    };
    let alone = made(0);
    assert_eq!(made(1), alone);
    assert_eq!(made(7), alone);
}
