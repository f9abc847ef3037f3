//! The slots of the records that a change of a file puts.

use vfs::Ino;

use crate::core::io::slots::extents;
use crate::core::io::slots::share::Runs;
use crate::layout::{RecordExtent, extent_key};
use crate::tree::{TreeStep, TreeWriter};

/// A slot for each of these records, which ascend: the one it has if it is its own, else a new one.
pub(crate) fn map_records(
    w: &mut TreeWriter<'_>,
    ino: Ino,
    records: impl Iterator<Item = u64>,
) -> TreeStep<Vec<u64>> {
    let mut slots = Vec::new();
    let mut runs = Runs::default();
    // Neighbours are mostly in one extent, and the tree is searched once for it.
    let mut current: Option<RecordExtent> = None;
    for record in records {
        let extent = match current.filter(|extent| (extent.record..extent.end()).contains(&record))
        {
            Some(extent) => extent,
            None => match extents::find(w, ino, record)? {
                Some(extent) => extent,
                None => extents::add(w, ino, record)?,
            },
        };
        current = Some(extent);
        let slot = extent.slot_of(record);
        if !extent.shared {
            slots.push(slot);
            continue;
        }
        runs.load(w, slot, 1)?;
        if runs.owners(slot) < 2 {
            slots.push(slot);
            continue;
        }
        let (own, rest) = own_slot(w, ino, &extent, record)?;
        // The other owners keep the old slot.
        runs.release(slot, 1);
        current = rest;
        slots.push(own);
    }
    runs.store(w);
    Ok(slots)
}

/// Gives a record of a shared extent a slot of its own, and returns that and what is left of the
/// extent behind it.
fn own_slot(
    w: &mut TreeWriter<'_>,
    ino: Ino,
    extent: &RecordExtent,
    record: u64,
) -> TreeStep<(u64, Option<RecordExtent>)> {
    debug_assert!(extent.shared && (extent.record..extent.end()).contains(&record));
    extents::cut(w, ino, extent, record, record + 1);
    let own = RecordExtent {
        record,
        slot: extents::take_slots(w, 1)?,
        count: 1,
        shared: false,
    };
    w.put(extent_key(ino, record), own.encode());
    let rest = (record + 1 < extent.end()).then(|| extent.part(record + 1, extent.end()));
    Ok((own.slot, rest))
}
