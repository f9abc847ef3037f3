//! Quotas while a stream comes: it is refused as soon as it is more than they allow, and nothing is left of it.

use std::collections::BTreeMap;
use std::io::Read;

use crate::common::model::settle;
use crate::common::streams::*;
use crate::common::*;
use block::fault::FaultClock;
use pool::ArrayKind::Data;
use pool::{Begin, Error, Pool, ReceiveInto, ReceivePolicy};

/// Records of 64 KiB in a stream.
const RECORDS: u64 = 40;
const RECORD: u64 = 64 << 10;

fn new_pool() -> Pool {
    create_on(&fault_devices(1, &FaultClock::new()))
}

fn set(pool: &Pool, name: &str, property: &str, value: Option<u64>) {
    let change = (property.to_owned(), value.map(|value| value.to_string()));
    pool.set_props(&[name.into()], &[change], &origin())
        .unwrap();
}

/// A pool with a dataset and two snapshots, the second of which has so many records more than the first.
fn sender() -> Pool {
    let pool = new_pool();
    let new = new_dataset(50);
    pool.create_dataset("tank/a", new, &origin()).unwrap();
    fill(&pool, "tank/a", Data, &[(0, sized(1, 16))]);
    snapshot(&pool, "tank/a@one");
    let all: Vec<_> = (1..=RECORDS)
        .map(|slot| (slot, sized(slot + 1, 16)))
        .collect();
    fill(&pool, "tank/a", Data, &all);
    snapshot(&pool, "tank/a@two");
    pool
}

/// Receives, and says how much of the stream was read.
fn receive_some(
    pool: &Pool,
    stream: &[u8],
    target: &str,
    policy: &dyn ReceivePolicy,
    resumable: bool,
) -> (pool::Result<()>, u64) {
    let mut rest = stream;
    let into = ReceiveInto {
        target,
        force: false,
        resumable,
        is_open: false,
    };
    let result = pool.receive(&mut rest as &mut dyn Read, &into, policy, &origin());
    (result, (stream.len() - rest.len()) as u64)
}

fn assert_refused(result: pool::Result<()>, why: &str) {
    match result {
        Err(error @ Error::Limit { .. }) => {
            let said = error.to_string();
            assert!(
                said.contains("what came takes it") && said.contains(why),
                "{said}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// After so much is allowed, little more of the stream is read.
fn assert_early(read: u64, allowed: u64) {
    assert!(
        read > allowed / 2 && read < allowed + 4 * RECORD,
        "{read} of {allowed}"
    );
}

#[test]
fn a_quota_of_a_dataset_above_ends_it() {
    let (from, to) = (sender(), new_pool());
    to.create_dataset("tank/q", new_dataset(60), &origin())
        .unwrap();
    set(&to, "tank/q", "quota", Some(1 << 20));
    let before = to.space().free;
    let full = stream(&from, "tank/a@two", None);
    let (result, read) = receive_some(&to, &full, "tank/q/b", &AsItIs, false);
    assert_refused(result, "tank/q");
    assert_early(read, 1 << 20);
    settle(&to);
    assert!(to.find("tank/q/b").is_err());
    assert_eq!(to.space().free, before);
    assert_clean(&to);
    // Kept, it goes on once there is more space.
    let (result, _) = receive_some(&to, &full, "tank/q/b", &AsItIs, true);
    assert_refused(result, "quota");
    set(&to, "tank/q", "quota", Some(8 << 20));
    let token = to.resume_token("tank/q/b").unwrap().expect("it was kept");
    let rest = stream_from(&from, "tank/a@two", None, token.next).unwrap();
    assert!(rest.len() < full.len() - (512 << 10));
    receive(&to, &rest, "tank/q/b").unwrap();
    assert_eq!(holds(&to, "tank/q/b"), holds(&from, "tank/a@two"));
}

#[test]
fn an_increment_counts_with_what_is_there() {
    let (from, to) = (sender(), new_pool());
    receive(&to, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    set(&to, "tank/b", "quota", Some(1 << 20));
    let increment = stream(&from, "tank/a@two", Some("tank/a@one"));
    let (result, read) = receive_some(&to, &increment, "tank/b", &AsItIs, false);
    assert_refused(result, "tank/b");
    assert_early(read, (1 << 20) - RECORD);
    assert_eq!(holds(&to, "tank/b"), holds(&from, "tank/a@one"));
    set(&to, "tank/b", "quota", None);
    receive(&to, &increment, "tank/b").unwrap();
    // What it takes is what is allowed, to the byte.
    let taken = to.listed_one(to.find("tank/b").unwrap().id).unwrap().used;
    let exact = new_pool();
    receive(&exact, &stream(&from, "tank/a@one", None), "tank/b").unwrap();
    set(&exact, "tank/b", "quota", Some(taken));
    receive(&exact, &increment, "tank/b").unwrap();
    assert_clean(&exact);
}

/// Gives a dataset that is received a property.
struct With(&'static str, u64);

impl ReceivePolicy for With {
    fn keyring(
        &self,
        begin: &Begin,
        current: Option<&[u8]>,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        AsItIs.keyring(begin, current)
    }

    fn props(&self, _: &Begin) -> std::result::Result<BTreeMap<String, String>, String> {
        Ok([(self.0.to_owned(), self.1.to_string())].into())
    }

    fn received(&self, _: &str) {}
}

#[test]
fn quotas_that_it_is_to_have_count_at_once() {
    let from = sender();
    let full = stream(&from, "tank/a@two", None);
    for property in ["quota", "refquota"] {
        let to = new_pool();
        let (result, read) = receive_some(&to, &full, "tank/b", &With(property, 1 << 20), false);
        assert_refused(result, property);
        assert_early(read, 1 << 20);
        let (result, _) = receive_some(&to, &full, "tank/b", &With(property, 8 << 20), false);
        result.unwrap();
        assert_clean(&to);
    }
}
