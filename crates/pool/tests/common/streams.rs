//! Sending from one pool and receiving into another, without keys.

use std::collections::BTreeMap;

use pool::{Begin, Pool, Position, ReceiveInto, Reception, Result, SendOf};

use super::*;

/// Takes what comes as it is.
pub struct AsItIs;

impl Reception for AsItIs {
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

    fn props(&self, begin: &Begin) -> std::result::Result<BTreeMap<String, String>, String> {
        Ok(begin.props.clone())
    }

    fn received(&self, _: &str) {}
}

pub fn stream_from(pool: &Pool, to: &str, from: Option<&str>, start: Position) -> Result<Vec<u8>> {
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
        props: BTreeMap::new(),
    })?;
    let mut bytes = Vec::new();
    sending.write(&mut bytes)?;
    Ok(bytes)
}

pub fn stream(pool: &Pool, to: &str, from: Option<&str>) -> Vec<u8> {
    stream_from(pool, to, from, Position::START).unwrap()
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
    };
    pool.receive(&mut bytes, &into, &AsItIs, &origin())
}

pub fn receive(pool: &Pool, bytes: &[u8], target: &str) -> Result<()> {
    receive_as(pool, bytes, false, false, target)
}

/// What a dataset or snapshot holds.
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

pub fn snapshot(pool: &Pool, name: &str) {
    pool.snapshot(&[name.into()], false, &origin()).unwrap();
}
