//! Writes records to places of their own, before they are in any array.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::placed_record::PlacedRecord;
use crate::error::Result;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::{Addr, RecordIdentity, checksum_of};
use crate::storage::gang::AllottedSpace;
use crate::storage::writer::batch::write_slices;
use crate::storage::writer::reserve;

impl OpenDataset {
    /// Allocates space for a record and writes it there. `bytes` are whole units.
    ///
    /// # Errors
    /// [`Error::Suspended`](crate::Error::Suspended); [`Error::NoSpace`](crate::Error::NoSpace) if the pool is
    /// full; [`Error::Store`](crate::Error::Store) if a device fails: that suspends the pool.
    pub fn place(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        bytes: &[u8],
    ) -> Result<PlacedRecord> {
        self.place_copies(array, identity, bytes, array.copies())
    }

    /// Does the same as [`OpenDataset::place`], in one or two copies. If free space is in small pieces, two copies of a
    /// record of more than half of [`RECORD_MAX`] may find no place.
    ///
    /// [`RECORD_MAX`]: crate::RECORD_MAX
    ///
    /// # Errors
    /// As [`OpenDataset::place`].
    pub fn place_copies(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        bytes: &[u8],
        copies: usize,
    ) -> Result<PlacedRecord> {
        let (identity, sum) = summed(identity, bytes);
        self.place_summed(array, identity, bytes, sum, copies)
    }

    /// Does the same as [`OpenDataset::place`], for a record that was placed before elsewhere, and has a known BLAKE3
    /// hash.
    pub(crate) fn place_hashed(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        bytes: &[u8],
        hash: [u8; 32],
    ) -> Result<PlacedRecord> {
        self.place_summed(array, identity, bytes, checksum_of(&hash), array.copies())
    }

    /// Does the same as [`OpenDataset::place_copies`], for several records: the bytes of each, and the number of its
    /// copies. What comes to lie side by side is written with one call.
    pub fn place_each(
        &self,
        array: ArrayKind,
        records: &[(RecordIdentity, &[u8], usize)],
    ) -> Vec<Result<PlacedRecord>> {
        let sums: Vec<_> = records
            .iter()
            .map(|(identity, bytes, _)| summed(*identity, bytes))
            .collect();
        let allotted = records
            .iter()
            .zip(sums)
            .map(|((_, bytes, copies), (identity, sum))| {
                self.allocate_checked(array, identity, bytes.len(), sum, *copies)
            });
        let allotted: Vec<_> = allotted.collect();
        let slices = allotted
            .iter()
            .zip(records)
            .flat_map(|(placed, (_, bytes, _))| {
                let placed = placed.as_ref().ok();
                placed.map_or_else(Vec::new, |placed| placed.allotted.slices(bytes))
            });
        let store = self.context.disk.store.as_ref();
        let written = write_slices(store, slices.collect());
        let outcomes = allotted.into_iter().zip(records);
        let outcomes = outcomes.map(|(placed, (_, bytes, _))| match &written {
            Ok(()) => self.unless_stalled(placed?),
            // Which of them failed is not known.
            Err(_) => self.write_placed(placed?, bytes),
        });
        outcomes.collect()
    }

    fn place_summed(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        bytes: &[u8],
        sum: [u8; 16],
        copies: usize,
    ) -> Result<PlacedRecord> {
        let placed = self.allocate_checked(array, identity, bytes.len(), sum, copies)?;
        self.write_placed(placed, bytes)
    }

    /// Does the same as [`OpenDataset::allocate_copies`]. Outside of a commit it fails if the pool is suspended.
    fn allocate_checked(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        len: usize,
        sum: [u8; 16],
        copies: usize,
    ) -> Result<PlacedRecord> {
        if !self.is_for_commit() {
            self.context.suspension.check()?;
        }
        self.allocate_copies(array, identity, len, sum, copies)
    }

    fn write_placed(&self, placed: PlacedRecord, bytes: &[u8]) -> Result<PlacedRecord> {
        let context = &self.context;
        placed
            .allotted
            .write_to(context.disk.store.as_ref(), bytes)
            .map_err(|error| context.suspend(error.into()))?;
        self.unless_stalled(placed)
    }

    fn unless_stalled(&self, placed: PlacedRecord) -> Result<PlacedRecord> {
        match self.context.check_stall() {
            // The commit continues with the bytes in memory, and reports the failure when it flushes.
            Err(error) if !self.is_for_commit() => Err(error),
            _ => Ok(placed),
        }
    }

    fn is_for_commit(&self) -> bool {
        self.context.is_collecting.load(Ordering::Acquire)
    }

    /// Allocates space for a record that a commit will write.
    pub(crate) fn allocate(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        bytes: &[u8],
    ) -> Result<PlacedRecord> {
        let (identity, sum) = summed(identity, bytes);
        self.allocate_copies(array, identity, bytes.len(), sum, array.copies())
    }

    fn allocate_copies(
        &self,
        array: ArrayKind,
        identity: RecordIdentity,
        len: usize,
        checksum: [u8; 16],
        copies: usize,
    ) -> Result<PlacedRecord> {
        let ticket = self.context.in_flight.ticket();
        let allotted = reserve::allot(&self.context.core, array.class(), len, copies)?;
        self.context.core.note_checked(&identity);
        Ok(PlacedRecord {
            _ticket: ticket,
            context: Arc::clone(&self.context),
            allotted,
            checksum,
            identity,
            share: None,
            is_used: false,
        })
    }

    /// Places a record of `data` whose nonce is a hash of its contents. Shares the space of an equal record. If
    /// there is none, it works as [`OpenDataset::place`], and later records can share the space.
    ///
    /// # Errors
    /// As [`OpenDataset::place`].
    pub fn place_shared(&self, identity: RecordIdentity, bytes: &[u8]) -> Result<PlacedRecord> {
        let (identity, sum) = summed(identity, bytes);
        if let Some(placed) = self.find_shared(&identity, bytes.len(), sum) {
            return Ok(placed);
        }
        let mut placed = self.place_summed(ArrayKind::Data, identity, bytes, sum, 1)?;
        if let [extent] = placed.allotted.extents()[..] {
            let dedup = &self.context.dedup;
            placed.share = dedup.adopt(&identity, placed.checksum, &extent);
        }
        Ok(placed)
    }

    /// A record that is not found, or cannot be read, is not shared. That is no error.
    fn find_shared(
        &self,
        identity: &RecordIdentity,
        len: usize,
        sum: [u8; 16],
    ) -> Option<PlacedRecord> {
        let ticket = self.context.in_flight.ticket();
        if self.context.is_resilvering() {
            // The resilver may already be past this slot, and may not have copied the record yet.
            return None;
        }
        let disk = &self.context.disk;
        let found = self.context.dedup.find(disk, identity, &sum, len);
        let share = found.ok().flatten()?;
        Some(PlacedRecord {
            _ticket: ticket,
            context: Arc::clone(&self.context),
            allotted: AllottedSpace::whole([share.addr, Addr::default()]),
            checksum: sum,
            identity: *identity,
            share: Some(share),
            is_used: false,
        })
    }
}

/// The identity of a record with these bytes, and the checksum in its place.
fn summed(identity: RecordIdentity, bytes: &[u8]) -> (RecordIdentity, [u8; 16]) {
    let hash = blake3::hash(bytes);
    (
        identity.with_check(hash.as_bytes()),
        checksum_of(hash.as_bytes()),
    )
}
