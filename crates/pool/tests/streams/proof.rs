//! A pool proves that it holds a snapshot: the proof is equal where the snapshot is, and names what was lost.

use block::fault::{FaultClock, FaultDevice};
use pool::ArrayKind::{Data, Pages};
use pool::{EarlierSnapshot, Pool, RecordPtr, SnapshotProof};

use crate::common::streams::*;
use crate::common::*;

const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

/// Flips a bit in a copy of a record or node.
fn flip(device: &FaultDevice, ptr: &RecordPtr, copy: usize) {
    let addr = ptr.place.addr[copy];
    let at = HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset());
    device.flip(at + 9, 1);
}

fn earlier(pool: &Pool, name: &str, is_whole: bool) -> EarlierSnapshot {
    let id = pool.find(name).unwrap().id;
    EarlierSnapshot { id, is_whole }
}

fn prove_with(
    pool: &Pool,
    name: &str,
    since: Option<&str>,
    challenge: u8,
    threads: usize,
) -> SnapshotProof {
    let since = since.map(|since| earlier(pool, since, true));
    let id = pool.find(name).unwrap().id;
    let reader = pool.prove(id, since, &[challenge; 32], threads).unwrap();
    reader.read(&mut |_| true).unwrap().unwrap()
}

fn prove(pool: &Pool, name: &str, since: Option<&str>) -> SnapshotProof {
    prove_with(pool, name, since, 7, 0)
}

#[test]
fn two_pools_with_the_same_snapshots_have_the_same_proofs() {
    let (from, to) = (with_history(), other_pool());
    receive(&to, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    let mut last = "one";
    let mut all = Vec::new();
    for next in ["two", "three", "four"] {
        let [sent, since] = [next, last].map(|name| format!("tank/a@{name}"));
        receive(&to, &stream(&from, &sent, Some(&since)), "tank/b").unwrap();
        let copy = [next, last].map(|name| format!("tank/b@{name}"));
        for (since, copied) in [(None, None), (Some(&*since), Some(&*copy[1]))] {
            let [here, there] = [prove(&from, &sent, since), prove(&to, &copy[0], copied)];
            assert_eq!(
                here.proof.unwrap(),
                there.proof.unwrap(),
                "{next} {since:?}"
            );
            assert_eq!((here.lost_count, there.lost_count), (0, 0));
            assert!(!all.contains(&here.proof), "{next} {since:?}");
            all.push(here.proof);
        }
        last = next;
    }
    let proof = |challenge, threads| prove_with(&to, "tank/b@one", None, challenge, threads);
    assert_eq!(proof(7, 4).proof, prove(&from, "tank/a@one", None).proof);
    assert_ne!(proof(8, 0).proof, proof(7, 0).proof);
    assert_eq!(proof(7, 0).records, 6);
}

#[test]
fn an_earlier_snapshot_leaves_out_only_what_both_have() {
    let pool = with_history();
    let whole = prove(&pool, "tank/a@two", None);
    let rest = prove(&pool, "tank/a@two", Some("tank/a@one"));
    assert_eq!((whole.records, rest.records), (5, 2));
    let why = |result: pool::Result<_>| result.err().unwrap().to_string();
    let one = pool.find("tank/a@one").unwrap().id;
    let two = earlier(&pool, "tank/a@two", true);
    let head = pool.find("tank/a").unwrap().id;
    assert!(why(pool.prove(one, Some(two), &[0; 32], 0)).contains("not an earlier snapshot"));
    assert!(why(pool.prove(head, None, &[0; 32], 0)).contains("not a snapshot"));
}

#[test]
fn lost_parts_are_named_and_the_rest_is_read() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..400 {
        put(&pool, &dataset, Data, slot, sized(slot, 1)).unwrap();
    }
    put(&pool, &dataset, Pages, 0, 1).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@1");
    let ptr = |array, slot| dataset.get(array, slot).unwrap();
    let (record, page) = (ptr(Data, 123), ptr(Pages, 0));
    let root = pool.entry(1).unwrap().roots[0];
    // A page has two copies.
    flip(&devices[0], &record, 0);
    flip(&devices[0], &page, 1);
    let found = prove_with(&pool, "tank@1", None, 7, 4);
    assert_eq!((found.lost_count, found.proof), (1, None));
    assert_eq!(found.records, 400);
    let lost = &found.lost[0];
    assert_eq!((lost.array, lost.slot, lost.slots), (Data, 123, 1));
    assert!(lost.why.contains("damaged"), "{}", lost.why);
    // A later snapshot that shares it is not whole either, and one that does not is.
    put(&pool, &dataset, Data, 5, sized(999, 1)).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@2");
    put(&pool, &dataset, Data, 123, sized(998, 1)).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@3");
    let again = |name: &str, since: &str| {
        let id = pool.find(name).unwrap().id;
        let since = earlier(&pool, since, false);
        let reader = pool.prove(id, Some(since), &[7; 32], 0).unwrap();
        reader.read(&mut |_| true).unwrap().unwrap()
    };
    let second = again("tank@2", "tank@1");
    assert_eq!((second.lost_count, second.records), (1, 400));
    let third = again("tank@3", "tank@2");
    assert_eq!((third.lost_count, third.records), (0, 401));
    // What is read again is no part of the proof.
    assert_eq!(third.proof, prove(&pool, "tank@3", Some("tank@2")).proof);
    // Nodes are read from the devices, although they are in memory.
    flip(&devices[0], &root, 0);
    flip(&devices[0], &root, 1);
    let found = prove(&pool, "tank@1", None);
    assert_eq!((found.lost_count, found.records), (2, 399));
    assert_eq!((found.lost[0].array, found.lost[0].slot), (Pages, 0));
    assert!(found.lost[0].slots > 1);
}

#[test]
fn an_earlier_snapshot_that_cannot_be_read_leaves_the_later_one_whole_without_a_proof() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, Data, 1, 1).unwrap();
    put(&pool, &dataset, Pages, 0, 1).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@1");
    put(&pool, &dataset, Pages, 0, 2).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@2");
    assert!(prove(&pool, "tank@2", Some("tank@1")).proof.is_some());
    let pages = pool.find("tank@1").unwrap().roots[Pages as usize];
    assert_eq!(pages.level(), 1);
    flip(&devices[0], &pages, 0);
    flip(&devices[0], &pages, 1);
    let found = prove(&pool, "tank@2", Some("tank@1"));
    assert_eq!((found.lost_count, found.proof), (0, None));
    assert!(prove(&pool, "tank@2", None).proof.is_some());
}

#[test]
fn a_proof_can_be_stopped_where_a_node_is_lost() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, Pages, 0, 1).unwrap();
    pool.commit().unwrap();
    snapshot(&pool, "tank@1");
    let snapshot = pool.find("tank@1").unwrap();
    let pages = snapshot.roots[Pages as usize];
    flip(&devices[0], &pages, 0);
    flip(&devices[0], &pages, 1);
    let reader = pool.prove(snapshot.id, None, &[0; 32], 0).unwrap();
    let mut calls = 0;
    let stopped = reader.read(&mut |_| {
        calls += 1;
        calls > 1
    });
    assert!(stopped.unwrap().is_none());
    assert_eq!(calls, 2);
}

#[test]
fn a_proof_can_be_stopped() {
    let pool = with_history();
    let id = pool.find("tank/a@one").unwrap().id;
    let reader = pool.prove(id, None, &[0; 32], 0).unwrap();
    assert!(reader.read(&mut |_| false).unwrap().is_none());
}
