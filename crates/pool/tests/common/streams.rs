//! Sending from one pool and receiving into another, without keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::{
    Begin, OpenRecords, Pool, ReceiveInto, ReceivePolicy, RecordPtr, Result, SealInput,
    SealRecords, SealedRecord, SendOf, StreamPosition, StreamSealer,
};

use ArrayKind::{Data, Pages};

use super::*;

/// Takes what comes as it is.
pub struct AsItIs;

impl ReceivePolicy for AsItIs {
    fn keyring(
        &self,
        begin: &Begin,
        current: Option<&[u8]>,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        Ok(match current {
            Some(current) if current == begin.keyring => None,
            _ => Some(begin.keyring.clone()),
        })
    }

    fn sealing(
        &self,
        _: &Begin,
        _: u64,
        _: u64,
        _: Option<&[u8]>,
    ) -> std::result::Result<StreamSealer, String> {
        Ok(StreamSealer {
            records: Arc::new(Numbered),
            suite: 0,
            keyring: None,
            is_key_root: false,
        })
    }

    fn props(&self, begin: &Begin) -> std::result::Result<BTreeMap<String, String>, String> {
        Ok(begin.props.clone())
    }

    fn received(&self, _: &str) {}
}

/// Stands for keys: a record in the clear is one unit that tells its number, and its contents.
struct Numbered;

impl OpenRecords for Numbered {
    fn open(&self, _: ArrayKind, ptr: &RecordPtr, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut plain = vec![0; 4096];
        plain[..8].copy_from_slice(&ptr.identity.tag()[..8]);
        plain.extend_from_slice(sealed);
        let number = u64::from_le_bytes(plain[..8].try_into().unwrap());
        (sealed == contents(number)).then_some(plain)
    }
}

impl SealRecords for Numbered {
    fn seal(&self, array: ArrayKind, plain: &[u8]) -> std::result::Result<SealedRecord, String> {
        let number = u64::from_le_bytes(plain[..8].try_into().unwrap());
        let may_be_shared = array == ArrayKind::Data && number & EQUAL > 0;
        Ok(SealedRecord {
            identity: match may_be_shared {
                true => identity_of_contents(number),
                false => identity(number),
            },
            bytes: plain[4096..].to_vec(),
            may_be_shared,
        })
    }

    fn dataset_seal(&self, input: &SealInput) -> [u8; 32] {
        *blake3::hash(format!("{input:?}").as_bytes()).as_bytes()
    }

    fn is_seal(&self, input: &SealInput, seal: &[u8; 32]) -> bool {
        self.dataset_seal(input) == *seal
    }
}

/// The kinds of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Sealed,
    Plain,
}

pub fn stream_as(how: How, pool: &Pool, to: &str, from: Option<&str>) -> Vec<u8> {
    rest_as(how, pool, to, from, StreamPosition::START)
}

/// Returns the rest of a stream from a position on.
pub fn rest_as(
    how: How,
    pool: &Pool,
    to: &str,
    from: Option<&str>,
    start: StreamPosition,
) -> Vec<u8> {
    if how == How::Sealed {
        return stream_from(pool, to, from, start).unwrap();
    }
    let from = from.map(|from| pool.find(from).unwrap().id);
    let to = pool.find(to).unwrap();
    let sending = pool.send(SendOf {
        to: to.id,
        from,
        start,
        keyring: Vec::new(),
        keys_txg: to.keys_txg(),
        props: BTreeMap::new(),
        open: Some(Box::new(Numbered)),
        readers: 0,
    });
    let mut bytes = Vec::new();
    sending.unwrap().write(&mut bytes).unwrap();
    bytes
}

pub fn stream_from(
    pool: &Pool,
    to: &str,
    from: Option<&str>,
    start: StreamPosition,
) -> Result<Vec<u8>> {
    let to = pool.find(to)?;
    let from = from.map(|from| pool.find(from)).transpose()?;
    let keyring = match to.suite {
        0 => Vec::new(),
        _ => pool.keyring(to.id)?,
    };
    let sending = pool.send(SendOf {
        to: to.id,
        from: from.map(|from| from.id),
        start,
        keyring,
        keys_txg: to.keys_txg(),
        props: BTreeMap::new(),
        open: None,
        readers: 0,
    })?;
    let mut bytes = Vec::new();
    sending.write(&mut bytes)?;
    Ok(bytes)
}

pub fn stream(pool: &Pool, to: &str, from: Option<&str>) -> Vec<u8> {
    stream_from(pool, to, from, StreamPosition::START).unwrap()
}

pub fn receive_as(
    pool: &Pool,
    mut bytes: &[u8],
    force: bool,
    resumable: bool,
    target: &str,
) -> Result<()> {
    let into = ReceiveInto {
        target,
        force,
        resumable,
        is_open: false,
    };
    pool.receive(&mut bytes, &into, &AsItIs, &origin())
}

pub fn receive(pool: &Pool, bytes: &[u8], target: &str) -> Result<()> {
    receive_as(pool, bytes, false, false, target)
}

/// Returns the contents of a dataset or snapshot.
pub fn holds(pool: &Pool, name: &str) -> model::Arrays {
    let dataset = pool.open_dataset(pool.find(name).unwrap().id).unwrap();
    ArrayKind::ALL.map(|array| read_all(&dataset, array).unwrap())
}

/// Puts records of these numbers into slots of a dataset, where 0 is none.
pub fn fill(pool: &Pool, name: &str, array: ArrayKind, records: &[(u64, u64)]) {
    let dataset = pool.open_dataset(pool.find(name).unwrap().id).unwrap();
    for (slot, number) in records {
        match number {
            0 => punch(pool, &dataset, array, *slot).unwrap(),
            number => put(pool, &dataset, array, *slot, *number).unwrap(),
        }
    }
    pool.commit().unwrap();
}

pub const BIG: u64 = 1 << 40;

pub fn new_pool() -> Pool {
    create_on(&fault_devices(1, &FaultClock::new()))
}

/// Another one, which draws other numbers.
pub fn other_pool() -> Pool {
    let devices = fault_devices(1, &FaultClock::new());
    create_on(&devices).export().unwrap();
    open_on(&devices).unwrap()
}

/// A pool with a dataset `tank/a` that has a short history.
pub fn with_history() -> Pool {
    let pool = new_pool();
    pool.create_dataset("tank/a", new_dataset(50), &origin())
        .unwrap();
    fill(&pool, "tank/a", Pages, &[(0, 1), (1, 2), (40, 3)]);
    fill(&pool, "tank/a", Data, &[(0, 10), (33, 11), (BIG, 12)]);
    snapshot(&pool, "tank/a@one");
    fill(&pool, "tank/a", Data, &[(33, 0), (BIG, 0), (5, 13)]);
    fill(&pool, "tank/a", Pages, &[(1, 4)]);
    snapshot(&pool, "tank/a@two");
    fill(&pool, "tank/a", Data, &[(0, 0), (5, 0)]);
    snapshot(&pool, "tank/a@three");
    fill(&pool, "tank/a", Data, &[(2, 14)]);
    snapshot(&pool, "tank/a@four");
    pool
}

#[track_caller]
pub fn refused(result: pool::Result<()>, why: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}
