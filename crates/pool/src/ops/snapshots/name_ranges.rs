//! The snapshots that a name or a pattern stands for.

use std::collections::HashSet;
use std::sync::Arc;

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::names::DatasetName;

/// The dataset and the last part of a snapshot's name.
pub(crate) fn split(name: &str) -> Result<(&str, &str)> {
    DatasetName::parse(name)?;
    name.split_once('@').ok_or_else(|| Error::BadName {
        name: name.into(),
        reason: "a snapshot's name is dataset@snapshot",
    })
}

/// A free name for a snapshot of `dataset`, given whole or as `@name` alone.
pub(crate) fn free_name(state: &DatasetTable, name: &str, dataset: u64) -> Result<(u64, String)> {
    let own = state.name_of(state.entry(dataset)?);
    let whole = if name.starts_with('@') {
        format!("{own}{name}")
    } else {
        name.to_owned()
    };
    let (of, last) = split(&whole)?;
    if of != own {
        return Err(Error::Refused {
            name: name.into(),
            reason: format!("a snapshot stays with its dataset, {own}"),
        });
    }
    if state.find(&whole).is_ok() {
        return Err(Error::Exists { name: whole });
    }
    Ok((dataset, last.to_owned()))
}

/// The snapshots that a name stands for, with `recursive` also those of the same names below their dataset:
/// `a/b@s`, the range `a/b@s%t` from one to another (from the first or to the last, if one of them is
/// left out), and lists of both, with commas.
pub(crate) fn named(state: &DatasetTable, name: &str, recursive: bool) -> Result<Vec<Arc<Entry>>> {
    let (dataset, parts) = name.split_once('@').ok_or_else(|| Error::BadName {
        name: name.into(),
        reason: "a snapshot's name is dataset@snapshot",
    })?;
    let head = Arc::clone(state.find(dataset)?);
    let heads = match recursive {
        true => state.subtree(head.id),
        false => vec![Arc::clone(&head)],
    };
    let mut all: Vec<Arc<Entry>> = Vec::new();
    let mut ids = HashSet::new();
    let mut seen = HashSet::new();
    for part in parts.split(',').filter(|part| seen.insert(*part)) {
        for of in &heads {
            match in_range(state, of, part) {
                // Below there need not be all that is here.
                Err(Error::NoSuchDataset { .. }) if of.id != head.id => {}
                found => all.extend(found?.into_iter().filter(|entry| ids.insert(entry.id))),
            }
        }
    }
    Ok(all)
}

/// Returns a snapshot of a dataset, or those from a first to a last one.
fn in_range(state: &DatasetTable, head: &Entry, part: &str) -> Result<Vec<Arc<Entry>>> {
    let find = |snapshot: &str| {
        let name = format!("{}@{snapshot}", state.name_of(head));
        state.find(&name).cloned()
    };
    let Some((from, to)) = part.split_once('%') else {
        return Ok(vec![find(part)?]);
    };
    let from = match from {
        "" => 0,
        from => find(from)?.created_txg,
    };
    let to = match to {
        "" => u64::MAX,
        to => find(to)?.created_txg,
    };
    if from > to {
        return Err(Error::Refused {
            name: format!("{}@{part}", state.name_of(head)),
            reason: "the first of a range is the older one".into(),
        });
    }
    let mut all = state.snapshots(head);
    all.reverse();
    all.retain(|snapshot| (from..=to).contains(&snapshot.created_txg));
    Ok(all)
}
