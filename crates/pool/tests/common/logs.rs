//! The log of a dataset.

use std::sync::Arc;

use pool::{
    ArrayKind, Durability, Error, LOG_HEADER, LogEnd, LogHead, OpenDataset, Pool, RecordPtr,
};

use super::*;

pub fn entry(byte: u8) -> Vec<u8> {
    vec![byte; 4096 - LOG_HEADER]
}

pub fn append(dataset: &OpenDataset, payload: Vec<u8>) -> Option<(u64, u64)> {
    append_pointing(dataset, None, payload)
}

pub fn append_pointing(
    dataset: &OpenDataset,
    record: Option<RecordPtr>,
    payload: Vec<u8>,
) -> Option<(u64, u64)> {
    let mut named = None;
    let len = payload.len();
    let places: Vec<_> = record.iter().map(|ptr| ptr.place).collect();
    let is_written = dataset.append_log(&places, len, Durability::Flushed, |at, place| {
        named = Some((at.chain, at.sequence));
        place.copy_from_slice(&payload);
        Ok::<_, Error>(identity(0))
    });
    is_written.unwrap().then(|| named.unwrap())
}

pub fn change(pool: &Pool, dataset: &OpenDataset, slot: u64) {
    put(pool, dataset, ArrayKind::Data, slot, slot).unwrap();
}

pub fn entries(dataset: &OpenDataset, head: &LogHead) -> (Vec<(u64, Vec<u8>)>, LogEnd) {
    let mut log = dataset.read_log(head);
    let all = log
        .by_ref()
        .map(|entry| (entry.place.sequence, entry.payload));
    (all.collect(), log.end())
}

pub fn open_top(pool: &Pool) -> Arc<OpenDataset> {
    pool.open_dataset(pool.top().unwrap().id).unwrap()
}
