//! Checks of a store, and their order.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::store::interface::{Executor, ObjectStore};
use crate::store::probe::race::{self, ProbeDepth};
use crate::store::probe::report::{GuaranteeCheck, GuaranteeOutcome, ProbeReport, StoreGuarantee};
use crate::store::probe::scratch::{Attempt, Scratch};
use crate::{Error, Result};

/// Checks each guarantee. The objects for that are below `probe/`, and are removed again, also after a failure.
///
/// # Errors
/// The store refuses a request, or does not answer for some seconds.
pub fn probe(
    store: &Arc<dyn ObjectStore>,
    executor: &Arc<dyn Executor>,
    depth: ProbeDepth,
) -> Result<ProbeReport> {
    let scratch = Scratch::new(store, executor)?;
    let mut outcome = Ok(ProbeReport::default());
    executor.wait(Box::pin(async {
        let checks = check_all(&scratch, depth).await;
        let leftovers = scratch.remove_all().await;
        outcome = checks.map(|checks| ProbeReport { checks, leftovers });
    }));
    outcome
}

async fn check_all(scratch: &Scratch, depth: ProbeDepth) -> Result<Vec<GuaranteeCheck>> {
    let mut checks = Vec::new();
    for guarantee in StoreGuarantee::ALL {
        let outcome = check(scratch, guarantee, depth).await?;
        let is_hopeless =
            guarantee == StoreGuarantee::ReadAfterWrite && outcome != GuaranteeOutcome::Holds;
        checks.push(GuaranteeCheck { guarantee, outcome });
        if is_hopeless {
            // Nothing else can be seen.
            break;
        }
    }
    Ok(checks)
}

async fn check(
    scratch: &Scratch,
    guarantee: StoreGuarantee,
    depth: ProbeDepth,
) -> Result<GuaranteeOutcome> {
    match guarantee {
        StoreGuarantee::ReadAfterWrite => read_after_write(scratch).await,
        StoreGuarantee::CreateOnce => create_once(scratch).await,
        StoreGuarantee::OneWinner => race::one_winner(scratch, depth).await,
        StoreGuarantee::OrderedList => ordered_list(scratch).await,
        StoreGuarantee::RangedRead => ranged_read(scratch).await,
        StoreGuarantee::DeleteAtOnce => delete_at_once(scratch).await,
        StoreGuarantee::ReplaceAtOnce => replace_at_once(scratch).await,
        StoreGuarantee::LargeObjects => large_objects(scratch).await,
    }
}

fn broken(how: impl Into<String>) -> Result<GuaranteeOutcome> {
    Ok(GuaranteeOutcome::Broken(how.into()))
}

const HOLDS: Result<GuaranteeOutcome> = Ok(GuaranteeOutcome::Holds);

/// Bytes that differ from object to object and from place to place.
fn contents(seed: u64, size: usize) -> Bytes {
    let words = (0..size.div_ceil(8) as u64).flat_map(|at| {
        let word = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ word >> 29).to_le_bytes()
    });
    words.take(size).collect()
}

async fn read_after_write(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    for (number, size) in [1, 4_096, 300_000].into_iter().enumerate() {
        let (name, bytes) = (format!("read/{number}"), contents(number as u64, size));
        // A store that remembers that there was no object shows itself here.
        if scratch.read(&name, size).await?.is_some() {
            return broken("a new name has an object already");
        }
        if scratch.create(&name, &bytes).await? == Attempt::Exists {
            return broken("the first request to create an object was refused");
        }
        match scratch.read(&name, size).await? {
            Some(stored) if stored == bytes => {}
            Some(_) => return broken(format!("an object of {size} bytes has other bytes")),
            None => return broken("an object that was made is not there"),
        }
    }
    HOLDS
}

async fn create_once(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    let (first, second) = (contents(1, 1_000), contents(2, 1_000));
    scratch.create("once", &first).await?;
    for _ in 0..4 {
        if scratch.create("once", &second).await? == Attempt::Made {
            return broken("an object that exists was made again: the store ignores If-None-Match");
        }
        if scratch.read("once", first.len()).await?.as_ref() != Some(&first) {
            return broken("a request that was refused changed the object");
        }
    }
    HOLDS
}

async fn ranged_read(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    let bytes = contents(3, 100_000);
    let size = bytes.len() as u64;
    scratch.create("range", &bytes).await?;
    for range in [
        0..1,
        4_096..8_192,
        99_000..size,
        99_999..size + 5_000,
        size + 1..size + 2,
    ] {
        let (first, last) = (range.start.min(size) as usize, range.end.min(size) as usize);
        let part = match scratch.part("range", range.clone()).await {
            Err(Error::Refused { reason, .. }) => {
                return broken(format!("bytes {range:?} of {size}: {reason}"));
            }
            part => part?,
        };
        match part {
            Some((part, whole)) if part == bytes[first..last] && whole == size => {}
            Some((part, whole)) => {
                return broken(format!(
                    "bytes {range:?} of {size}: {} bytes came, and a size of {whole}",
                    part.len()
                ));
            }
            None => return broken("an object that was made is not there"),
        }
    }
    HOLDS
}

async fn large_objects(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    let bytes = contents(4, 8 << 20);
    scratch.create("large", &bytes).await?;
    match scratch.read("large", bytes.len()).await? {
        Some(stored) if stored == bytes => HOLDS,
        Some(stored) => broken(format!(
            "{} of {} bytes are right or there",
            stored.len(),
            bytes.len()
        )),
        None => broken("an object of 8 MiB that was made is not there"),
    }
}

async fn ordered_list(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    const COUNT: usize = 25;
    let numbers = (0..COUNT).map(|number| format!("list/{number:020}"));
    let names: Vec<String> = numbers.collect();
    let bytes = contents(5, 10);
    try_join_all(names.iter().rev().map(|name| scratch.create(name, &bytes))).await?;
    let names: Vec<_> = names.iter().map(|name| scratch.name(name)).collect();
    for (after, limit) in [
        (None, 1_000),
        (None, 7),
        (Some(0), 7),
        (Some(17), 1_000),
        (Some(COUNT - 1), 7),
    ] {
        let start = after.map(|after| names[after].as_str());
        let listed = scratch.list("list/", start, limit).await?;
        let listed_names: Vec<_> = listed.iter().map(|object| object.name.clone()).collect();
        let first = after.map_or(0, |after| after + 1);
        let last = first.saturating_add(limit).min(COUNT);
        if listed_names != names[first..last] {
            return broken(format!(
                "a list of at most {limit} after object {first} of {COUNT} has {} wrong names",
                listed_names
                    .iter()
                    .zip(&names[first..last])
                    .filter(|(a, b)| a != b)
                    .count()
                    + listed_names.len().abs_diff(last - first)
            ));
        }
        if listed
            .iter()
            .any(|object| object.size != bytes.len() as u64)
        {
            return broken("a list has wrong sizes");
        }
    }
    HOLDS
}

async fn replace_at_once(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    for round in 0..6 {
        // The sizes go up and down.
        let bytes = contents(6 + round, 5_000 + 1_000 * (round as usize % 3));
        scratch.replace("replaced", &bytes).await?;
        if scratch.read("replaced", bytes.len()).await?.as_ref() != Some(&bytes) {
            return broken("old bytes were read after an object was replaced");
        }
    }
    HOLDS
}

async fn delete_at_once(scratch: &Scratch) -> Result<GuaranteeOutcome> {
    let bytes = contents(7, 5_000);
    for round in 0..4 {
        let name = format!("deleted/{round}");
        scratch.create(&name, &bytes).await?;
        scratch.read(&name, bytes.len()).await?;
        scratch.delete(&name).await?;
        if scratch.read(&name, bytes.len()).await?.is_some() {
            return broken("an object was read after it was removed");
        }
        // There is nothing to remove.
        scratch.delete(&name).await?;
    }
    match scratch.list("deleted/", None, 10).await?.as_slice() {
        [] => HOLDS,
        _ => broken("a list has an object that was removed"),
    }
}
