//! Deadlists: records that a dataset no longer uses, and that a snapshot still needs.
//!
//! The deadlist of a dataset or snapshot has the records that died since its previous snapshot, grouped by the
//! oldest snapshot that has them. When a snapshot is destroyed, the records that only it has are one sublist of its
//! successor's deadlist. So no record is read to find them, however large the dataset is.
//!
//! A deadlist is an array of sublists, in the slot of their snapshot's id. A sublist is an array of
//! chunks of entries, filled from the front.

use std::collections::BTreeMap;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::codec::ValueWriter;
use crate::format::records::extent::Class;
use crate::format::records::pointer::{Addr, RecordLocation, RecordPtr, SLOT_LIMIT};
use crate::format::superblock::features::FEATURE_LOGICAL_SUMS;
use crate::storage::array::{Overlay, walk};
use crate::storage::reader::PoolReader;
use crate::storage::writer::txg::TxgWriter;

/// A record that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct DeadEntry {
    addr: [Addr; 2],
    birth: U64,
    /// True if the record is a gang or shared, as in [`RecordLocation`]. `mark` is the mark in the place.
    form: u8,
    mark: [u8; 7],
}

const _: () = assert!(size_of::<DeadEntry>() == 48);

/// The number of entries in a chunk. A chunk is one unit, with a count before the entries.
const CHUNK_ENTRIES: usize = (store::UNIT as usize - 8) / size_of::<DeadEntry>();

impl DeadEntry {
    pub(crate) fn new(ptr: &RecordPtr) -> DeadEntry {
        DeadEntry::of(&ptr.place)
    }

    fn of(place: &RecordLocation) -> DeadEntry {
        let (form, mark) = place.form();
        DeadEntry {
            addr: place.addr,
            birth: place.birth().into(),
            form,
            mark,
        }
    }

    /// The place of the record.
    pub(crate) fn place(&self) -> RecordLocation {
        RecordLocation::listed(self.addr, self.birth.get(), (self.form, self.mark))
    }

    fn bytes(&self) -> u64 {
        self.place().allocated()
    }
}

/// A record that dies in a commit.
pub(crate) struct Dead {
    entry: DeadEntry,
    /// Bytes before compression.
    logical: u32,
}

impl Dead {
    pub(crate) fn new(ptr: &RecordPtr) -> Dead {
        Dead {
            entry: DeadEntry::new(ptr),
            logical: ptr.identity.logical_size(),
        }
    }
}

/// Dead records with the same oldest snapshot.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Sublist {
    count: U64,
    bytes: U64,
    chunks: U64,
    /// The array of chunks.
    pub(crate) root: RecordPtr,
    /// The bytes before compression of all its records, plus 1. It is 0 if the bytes are unknown: the program that
    /// wrote the sublist did not count them.
    logical: U64,
}

const _: () = assert!(size_of::<Sublist>() == 160);

impl Sublist {
    const EMPTY: Sublist = Sublist {
        count: U64::ZERO,
        bytes: U64::ZERO,
        chunks: U64::ZERO,
        root: RecordPtr::EMPTY,
        logical: U64::new(1),
    };

    /// The bytes on disk of all its records.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The bytes before compression of all its records, if they were counted.
    pub(crate) fn logical(&self) -> Option<u64> {
        self.logical.get().checked_sub(1)
    }

    fn add_logical(&mut self, more: Option<u64>) {
        let sum = self.logical().zip(more);
        let sum = sum.map_or(0, |(own, more)| own.saturating_add(more).saturating_add(1));
        // A sum that could not be read again is stored as unknown.
        self.logical = if sum < SLOT_LIMIT / 2 { sum } else { 0 }.into();
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Sublist> {
        let (sublist, _) = Sublist::read_from_prefix(bytes)
            .map_err(|_| Error::inconsistent("deadlist", "a sublist is cut short"))?;
        // Sums of these numbers do not overflow.
        let numbers = [
            sublist.count,
            sublist.bytes,
            sublist.chunks,
            sublist.logical,
        ];
        if numbers.iter().any(|n| n.get() >= SLOT_LIMIT / 2) {
            return Err(Error::inconsistent(
                "deadlist",
                "its numbers are impossible",
            ));
        }
        Ok(sublist)
    }
}

pub(crate) fn decode_chunk(bytes: &[u8]) -> Result<Vec<DeadEntry>> {
    let parse = || {
        let (count, rest) = U32::read_from_prefix(bytes).ok()?;
        let entries = rest.get(4..)?.chunks_exact(size_of::<DeadEntry>());
        let count = count.get() as usize;
        if count > CHUNK_ENTRIES || count > entries.len() {
            return None;
        }
        entries
            .take(count)
            .map(|entry| DeadEntry::read_from_bytes(entry).ok())
            .collect()
    };
    parse().ok_or_else(|| Error::inconsistent("deadlist", "a chunk cannot be read"))
}

fn encode_chunk(entries: &[DeadEntry]) -> Vec<u8> {
    debug_assert!(entries.len() <= CHUNK_ENTRIES, "a chunk is one unit");
    let mut w = ValueWriter::default();
    w.u32(entries.len() as u32).u32(0);
    for entry in entries {
        w.value(entry);
    }
    w.bytes
}

/// Adds dead records to a dataset's deadlist.
pub(crate) fn append(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    id: u64,
    dead: &[Dead],
) -> Result<()> {
    if dead.is_empty() {
        return Ok(());
    }
    let entry = state.entry(id)?;
    let mut snapshots = state.line(entry);
    snapshots.reverse();
    debug_assert!(
        snapshots.is_sorted_by_key(|snapshot| snapshot.created_txg),
        "a line is in the order of time"
    );
    // Grouped first: each sublist is then read and written once, however many records died.
    let mut by_snapshot: BTreeMap<u64, (Vec<DeadEntry>, u64)> = BTreeMap::new();
    for Dead { entry, logical } in dead {
        let older = snapshots.partition_point(|s| s.created_txg < entry.birth.get());
        let oldest = snapshots.get(older).ok_or_else(|| {
            Error::inconsistent("deadlist", "a record is kept for a snapshot that is gone")
        })?;
        let (listed, sum) = by_snapshot.entry(oldest.id).or_default();
        listed.push(*entry);
        *sum += u64::from(*logical);
    }
    let mut root = entry.deadlist;
    for (snapshot, (dead, logical)) in by_snapshot {
        let sublist = sublist(&commit.core.disk, &root, snapshot)?;
        let mut sublist = extend(commit, sublist, &dead)?;
        sublist.add_logical(Some(logical));
        root = put(commit, &root, snapshot, Some(&sublist))?;
    }
    let entry = state.edit(id)?;
    entry.deadlist = root;
    let bytes = dead.iter().map(|dead| dead.entry.bytes()).sum();
    entry.dead_bytes = entry.dead_bytes.saturating_add(bytes);
    state.root.features_optional |= U64::new(FEATURE_LOGICAL_SUMS);
    Ok(())
}

pub(crate) fn sublist(disk: &PoolReader, root: &RecordPtr, snapshot: u64) -> Result<Sublist> {
    let ptr = walk::get(disk, root, snapshot)?;
    if ptr.is_empty() {
        return Ok(Sublist::EMPTY);
    }
    Sublist::decode(&disk.clear_record(&ptr)?)
}

/// Replaces the sublist of a snapshot, and returns the deadlist's new root.
fn put(
    commit: &TxgWriter<'_>,
    root: &RecordPtr,
    snapshot: u64,
    sublist: Option<&Sublist>,
) -> Result<RecordPtr> {
    let ptr = match sublist {
        Some(sublist) => commit.place_record(Class::Meta, sublist.as_bytes().to_vec())?,
        None => RecordPtr::EMPTY,
    };
    let mut overlay = Overlay::default();
    overlay.put(snapshot, ptr);
    commit.update_pool_array(Class::Meta, root, &overlay)
}

/// Writes a list of places for the free queue.
pub(crate) fn list_of(commit: &TxgWriter<'_>, places: &[RecordLocation]) -> Result<RecordPtr> {
    let dead: Vec<DeadEntry> = places.iter().map(DeadEntry::of).collect();
    Ok(extend(commit, Sublist::EMPTY, &dead)?.root)
}

fn extend(commit: &TxgWriter<'_>, mut sublist: Sublist, dead: &[DeadEntry]) -> Result<Sublist> {
    let disk = &commit.core.disk;
    let mut slot = sublist.chunks.get();
    let mut chunk = Vec::new();
    if slot > 0 {
        let last = walk::get(disk, &sublist.root, slot - 1)?;
        let entries = decode_chunk(&disk.clear_record(&last)?)?;
        // All chunks but the last one are full. It is written again with the new entries.
        if entries.len() < CHUNK_ENTRIES {
            slot -= 1;
            chunk = entries;
        }
    }
    chunk.extend_from_slice(dead);
    let mut overlay = Overlay::default();
    for entries in chunk.chunks(CHUNK_ENTRIES) {
        overlay.put(
            slot,
            commit.place_record(Class::Meta, encode_chunk(entries))?,
        );
        slot += 1;
    }
    let bytes: u64 = dead.iter().map(DeadEntry::bytes).sum();
    sublist.root = commit.update_pool_array(Class::Meta, &sublist.root, &overlay)?;
    sublist.chunks = slot.into();
    sublist.count += U64::new(dead.len() as u64);
    sublist.bytes += U64::new(bytes);
    Ok(sublist)
}

/// Removes the sublist of a snapshot from a deadlist. Returns the sublist and the deadlist's new root.
pub(crate) fn take(
    commit: &TxgWriter<'_>,
    root: &RecordPtr,
    snapshot: u64,
) -> Result<(RecordPtr, Option<Sublist>)> {
    let ptr = walk::get(&commit.core.disk, root, snapshot)?;
    if ptr.is_empty() {
        return Ok((*root, None));
    }
    let sublist = sublist(&commit.core.disk, root, snapshot)?;
    Ok((put(commit, root, snapshot, None)?, Some(sublist)))
}

/// Appends a sublist to the sublist of a snapshot in a deadlist. Returns the new root.
pub(crate) fn merge(
    commit: &TxgWriter<'_>,
    root: &RecordPtr,
    snapshot: u64,
    more: &Sublist,
) -> Result<RecordPtr> {
    let disk = &commit.core.disk;
    let mut own = sublist(disk, root, snapshot)?;
    let mut overlay = Overlay::default();
    walk::visit_all(disk, &more.root, &mut |visit| {
        match visit {
            walk::Visit::Record(slot, chunk) => {
                // The last own chunk need not be full: each chunk has a count of its own.
                overlay.put(own.chunks.get() + slot, *chunk);
            }
            // The chunks stay where they are; the nodes above them are new.
            walk::Visit::Node(_, node, _) => commit.free(&node.place),
        }
        Ok(())
    })?;
    own.root = commit.update_pool_array(Class::Meta, &own.root, &overlay)?;
    own.count += more.count;
    own.bytes += more.bytes;
    own.chunks += more.chunks;
    own.add_logical(more.logical());
    put(commit, root, snapshot, Some(&own))
}

/// Every sublist of a deadlist, by the id of its snapshot.
pub(crate) fn sublists(disk: &PoolReader, root: &RecordPtr) -> Result<Vec<(u64, Sublist)>> {
    let mut all = Vec::new();
    walk::each_record(disk, root, &mut |snapshot, ptr| {
        all.push((snapshot, Sublist::decode(&disk.clear_record(ptr)?)?));
        Ok(())
    })?;
    Ok(all)
}

/// Calls `each` with every record of a deadlist and the id of the snapshot that keeps it.
pub(crate) fn each_dead(
    disk: &PoolReader,
    root: &RecordPtr,
    each: &mut dyn FnMut(u64, DeadEntry),
) -> Result<()> {
    // Each chunk and each unshared record has space of its own.
    let mut left = disk.units();
    for (snapshot, sublist) in sublists(disk, root)? {
        walk::each_record(disk, &sublist.root, &mut |_, chunk| {
            let chunk = decode_chunk(&disk.clear_record(chunk)?)?;
            let own = chunk.iter().filter(|dead| dead.place().share().is_none());
            let count = 1 + own.count() as u64;
            left = left.checked_sub(count).ok_or_else(walk::too_many)?;
            chunk.into_iter().for_each(|dead| each(snapshot, dead));
            Ok(())
        })?;
    }
    Ok(())
}

/// Frees the records and nodes of a deadlist itself. Returns its sublists; their chunks stay.
pub(crate) fn dissolve(commit: &TxgWriter<'_>, root: &RecordPtr) -> Result<Vec<(u64, Sublist)>> {
    let all = sublists(&commit.core.disk, root)?;
    walk::visit_all(&commit.core.disk, root, &mut |visit| {
        let (walk::Visit::Record(_, ptr) | walk::Visit::Node(_, ptr, _)) = visit;
        commit.free(&ptr.place);
        Ok(())
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_known_if_all_of_it_was_counted() {
        let mut sublist = Sublist::EMPTY;
        sublist.add_logical(Some(5));
        let read = Sublist::decode(sublist.as_bytes()).unwrap();
        assert_eq!(read.logical(), Some(5));
        // A sublist without sums, as older programs wrote it.
        let mut older = sublist.as_bytes()[..152].to_vec();
        older.resize(store::UNIT as usize, 0);
        let mut older = Sublist::decode(&older).unwrap();
        assert_eq!(older.logical(), None);
        older.add_logical(Some(1));
        assert_eq!(older.logical(), None);
        sublist.add_logical(older.logical());
        assert_eq!(sublist.logical(), None);
        sublist.logical = u64::MAX.into();
        assert!(Sublist::decode(sublist.as_bytes()).is_err());
    }
}
