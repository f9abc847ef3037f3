//! Extents: the slots of `data` that hold the records of a file.
//!
//! An empty slot costs nothing. So a file gets runs of slots before it fills them: one slot for the first record, and
//! then as many again as the file already has. So a file of any size has few extents, and writing inside them changes
//! nothing in the tree.

use std::ops::Range;

use vfs::Ino;

use crate::layout::{KeyKind, RecordExtent, dead_key, extent_key, suffix_number};
use crate::tree::{TreeStep, TreeView, TreeWriter};

/// Runs grow up to this many slots.
const RUN_MAX: u64 = 1 << 14;
/// Longer runs begin at the start of a lowest node of the array.
const ALIGN: u64 = pool::FANOUT as u64;

pub(crate) fn find(view: &dyn TreeView, ino: Ino, record: u64) -> TreeStep<Option<RecordExtent>> {
    let Some((key, value)) = view.floor(&extent_key(ino, record))? else {
        return Ok(None);
    };
    let Some(first) = suffix_number(key, ino, KeyKind::Extent) else {
        return Ok(None);
    };
    let extent = RecordExtent::decode(first, value).ok_or(vfs::Error::Io)?;
    Ok((record < extent.end()).then_some(extent))
}

/// The first extent that begins at or after a record.
fn next(view: &dyn TreeView, ino: Ino, record: u64) -> TreeStep<Option<RecordExtent>> {
    let mut found = None;
    view.scan(&extent_key(ino, record), &mut |key, value| {
        found = suffix_number(key, ino, KeyKind::Extent)
            .map(|first| RecordExtent::decode(first, value));
        false
    })?;
    Ok(found
        .map(|extent| extent.ok_or(vfs::Error::Io))
        .transpose()?)
}

/// The extents that overlap a range of records, in order; at most `most` of them.
pub(crate) fn overlapping(
    view: &dyn TreeView,
    ino: Ino,
    from: u64,
    to: u64,
    most: usize,
) -> TreeStep<Vec<RecordExtent>> {
    let mut extents: Vec<RecordExtent> = find(view, ino, from)?.into_iter().collect();
    let mut bad = false;
    view.scan(
        &extent_key(ino, from.saturating_add(1)),
        &mut |key, value| match suffix_number(key, ino, KeyKind::Extent) {
            Some(first) if first < to && extents.len() < most => {
                match RecordExtent::decode(first, value) {
                    Some(extent) => extents.push(extent),
                    None => bad = true,
                }
                !bad
            }
            _ => false,
        },
    )?;
    if bad {
        return Err(vfs::Error::Io.into());
    }
    extents.retain(|extent| extent.record < to);
    Ok(extents)
}

/// The extents of a range of records. Reads only the pages of the tree that can have these extents.
pub(crate) fn of(
    view: &dyn TreeView,
    ino: Ino,
    records: Range<u64>,
) -> TreeStep<Vec<RecordExtent>> {
    let mut extents: Vec<RecordExtent> = Vec::new();
    for record in records {
        if extents.last().is_none_or(|last| last.end() <= record) {
            extents.extend(find(view, ino, record)?);
        }
    }
    Ok(extents)
}

/// The slot of a record, if one of these ascending extents has it.
pub(crate) fn slot_in(extents: &[RecordExtent], record: u64) -> Option<u64> {
    debug_assert!(extents.is_sorted_by_key(|extent| extent.record));
    let at = extents.partition_point(|extent| extent.end() <= record);
    let extent = extents.get(at).filter(|extent| extent.record <= record);
    extent.map(|extent| extent.slot_of(record))
}

/// Gives a record without a slot an extent, with more slots for later records.
pub(crate) fn add(w: &mut TreeWriter<'_>, ino: Ino, record: u64) -> TreeStep<RecordExtent> {
    let (mut start, mut end) = run_for(record);
    if record > 0
        && let Some((key, value)) = w.floor(&extent_key(ino, record - 1))?
        && let Some(first) = suffix_number(key, ino, KeyKind::Extent)
    {
        let before = RecordExtent::decode(first, value).ok_or(vfs::Error::Io)?;
        // The run must not overlap the extent before it.
        start = start.max(before.end());
    }
    if let Some(after) = next(w, ino, record)? {
        // Nor the one after it.
        end = end.min(after.record);
    }
    let extent = RecordExtent {
        record: start,
        slot: take_slots(w, end - start)?,
        count: end - start,
        shared: false,
    };
    w.put(extent_key(ino, extent.record), extent.encode());
    Ok(extent)
}

/// The run of records that gets slots together with this record: 0; 1; 2 and 3; 4 to 7; ...
fn run_for(record: u64) -> (u64, u64) {
    if record == 0 {
        return (0, 1);
    }
    let size = (1 << record.ilog2()).min(RUN_MAX);
    let start = record / size * size;
    (start, start + size)
}

/// Slots that were never used before.
pub(crate) fn take_slots(w: &mut TreeWriter<'_>, count: u64) -> TreeStep<u64> {
    debug_assert!(count > 0, "an extent has records");
    let mut slot = w.header.next_data;
    if count >= ALIGN {
        // Large extents begin with a node of their own, so that they share none with other files.
        slot = slot.next_multiple_of(ALIGN);
    }
    let next = slot
        .checked_add(count)
        .filter(|next| *next < pool::SLOT_LIMIT);
    w.header.next_data = next.ok_or(vfs::Error::NoSpace)?;
    Ok(slot)
}

/// Removes a range of records from an extent that overlaps it, and keeps the rest. Returns the removed part.
pub(crate) fn cut(
    w: &mut TreeWriter<'_>,
    ino: Ino,
    extent: &RecordExtent,
    from: u64,
    to: u64,
) -> RecordExtent {
    debug_assert!(
        from < extent.end() && extent.record < to,
        "the extent overlaps the range"
    );
    let (from, to) = (from.max(extent.record), to.min(extent.end()));
    // First: a part that is left may have the same key.
    w.delete(extent_key(ino, extent.record));
    if from > extent.record {
        let before = extent.part(extent.record, from);
        w.put(extent_key(ino, before.record), before.encode());
    }
    if to < extent.end() {
        let after = extent.part(to, extent.end());
        w.put(extent_key(ino, after.record), after.encode());
    }
    extent.part(from, to)
}

/// Lists slots whose records are deleted. They are emptied later, when no running commit can put a record into them.
/// The transaction group in the list tells when.
pub(crate) fn bury(w: &mut TreeWriter<'_>, slot: u64, count: u64) {
    debug_assert!(count > 0, "there is something to empty");
    let value = [count.to_le_bytes(), w.txg.to_le_bytes()].concat();
    w.put(dead_key(slot), value);
}

/// The number of slots in a list entry, and the transaction group that listed them.
pub(crate) fn decode_dead(value: &[u8]) -> Option<(u64, u64)> {
    let (count, txg) = value.split_at_checked(8)?;
    let count = u64::from_le_bytes(count.try_into().ok()?);
    if count > pool::SLOT_LIMIT {
        return None;
    }
    Some((count, u64::from_le_bytes(txg.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_double_and_cover_every_record_once() {
        let mut record = 0;
        let mut runs = 0;
        while record < 10 * RUN_MAX {
            let (start, end) = run_for(record);
            assert_eq!(start, record);
            for inside in [start, (start + end) / 2, end - 1] {
                assert_eq!(run_for(inside), (start, end));
            }
            record = end;
            runs += 1;
        }
        assert!(runs < 30, "{runs}");
    }
}
