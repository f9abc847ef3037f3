//! The contents of the streams of `send -R`: a dataset and the datasets below it, with their snapshots up to a given
//! name.

use std::collections::BTreeSet;
use std::sync::Arc;

use pool::{Entry, Package, PackedDataset};

use crate::failure::{Failure, Result};
use crate::ops::streams::piece::StreamPiece;
use crate::state::pools::active_pool::ActivePool;

/// The snapshots of each dataset that are sent.
pub(crate) struct SnapshotRange<'a> {
    /// The name of the last snapshot.
    pub(crate) to: &'a str,
    /// The name of the snapshot that incremental streams start from, in the datasets that have it.
    pub(crate) from: Option<&'a str>,
    /// True if the snapshots between the two are sent as well.
    pub(crate) all: bool,
}

/// The streams of a dataset and of the datasets below it.
pub(crate) struct ReplicationStreams {
    /// The streams, each after the streams that it needs.
    pub(crate) pieces: Vec<StreamPiece>,
    /// The package that is sent before them.
    pub(crate) package: Package,
    /// The datasets that are left out, because they have no snapshot with this name.
    pub(crate) left_out: Vec<String>,
}

/// Decides which streams to send of a dataset and of the datasets below it.
pub(crate) fn replicate(
    active: &ActivePool,
    root: &Arc<Entry>,
    wanted: &SnapshotRange<'_>,
) -> Result<ReplicationStreams> {
    let heads = active.heads_below(root)?;
    let order = in_order(active, &heads)?;
    let (mut pieces, mut left_out) = (Vec::new(), Vec::new());
    let mut package = Package {
        root: active.pool.name_of(root.id)?,
        is_incremental: wanted.from.is_some(),
        datasets: Vec::new(),
    };
    let mut sent = BTreeSet::new();
    for (head, may_be_clone) in order {
        let name = active.pool.name_of(head.id)?;
        let snapshots = active.pool.snapshots(head.id)?;
        let Some(last) = snapshots.iter().position(|entry| entry.name == wanted.to) else {
            left_out.push(name);
            continue;
        };
        let origin = may_be_clone.then_some(head.origin);
        let origin = origin.filter(|origin| sent.contains(origin));
        pieces.extend(streams_of(active, &snapshots[..=last], origin, wanted)?);
        sent.extend(snapshots[..=last].iter().map(|entry| entry.id));
        let names = snapshots
            .iter()
            .map(|entry| (entry.guid, entry.name.clone()));
        package.datasets.push(PackedDataset {
            name,
            snapshots: names.collect(),
        });
    }
    match pieces.is_empty() {
        false => Ok(ReplicationStreams {
            pieces,
            package,
            left_out,
        }),
        true => Err(Failure::usage(format!(
            "nothing to send: no dataset has changed from '@{}' to '@{}'",
            wanted.from.unwrap_or_default(),
            wanted.to
        ))),
    }
}

/// The streams of one dataset with these snapshots, the oldest first.
fn streams_of(
    active: &ActivePool,
    snapshots: &[Arc<Entry>],
    origin: Option<u64>,
    wanted: &SnapshotRange<'_>,
) -> Result<Vec<StreamPiece>> {
    let base = wanted
        .from
        .and_then(|from| snapshots.iter().position(|entry| entry.name == from));
    let (mut last, new) = match base {
        Some(base) => (Some(Arc::clone(&snapshots[base])), &snapshots[base + 1..]),
        None => (
            origin.map(|origin| active.pool.entry(origin)).transpose()?,
            snapshots,
        ),
    };
    let new = match base {
        // Without -I only the last snapshot is sent.
        Some(_) if !wanted.all => &new[new.len().saturating_sub(1)..],
        _ => new,
    };
    let mut pieces = Vec::new();
    for entry in new {
        pieces.push(StreamPiece::new(entry, last.as_deref()));
        last = Some(Arc::clone(entry));
    }
    Ok(pieces)
}

/// Orders datasets: each after the dataset above it, and a clone after its origin. If both are not possible, the clone
/// comes before its origin. The `bool` is true for a clone that comes after its origin.
fn in_order(active: &ActivePool, heads: &[Arc<Entry>]) -> Result<Vec<(Arc<Entry>, bool)>> {
    let origin_of = |head: &Arc<Entry>| match head.origin {
        0 => Ok(None),
        origin => Ok::<_, Failure>(Some(active.pool.entry(origin)?.parent)),
    };
    let mut waiting: BTreeSet<u64> = heads.iter().map(|head| head.id).collect();
    let mut rest = Vec::new();
    for head in heads {
        rest.push((Arc::clone(head), origin_of(head)?));
    }
    let mut all = Vec::new();
    while !rest.is_empty() {
        let before = rest.len();
        let mut later = Vec::new();
        for (head, origin) in rest {
            let waits = |id: u64| waiting.contains(&id);
            if waits(head.parent) || origin.is_some_and(waits) {
                later.push((head, origin));
                continue;
            }
            waiting.remove(&head.id);
            all.push((head, origin.is_some()));
        }
        rest = later;
        if rest.len() == before {
            // Each waits for another one. The first whose parent is placed comes before its origin.
            let first = rest
                .iter()
                .position(|(head, _)| !waiting.contains(&head.parent));
            let (head, _) = rest.remove(first.unwrap_or(0));
            waiting.remove(&head.id);
            all.push((head, false));
        }
    }
    Ok(all)
}
