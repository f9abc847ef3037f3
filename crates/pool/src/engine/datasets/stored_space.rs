//! The space that records of an open dataset take on the devices, computed without reading the records.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::error::Result;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::RecordPtr;
use crate::storage::array::record_space::{stored, without};

/// The largest number of nodes that an answer reads from devices. More are needed only where pointers have no sums.
const READS_MAX: u32 = 64;

/// The largest number of nodes that an answer visits.
const VISITS_MAX: u32 = 4096;

/// The largest number of changes that an answer visits while they wait for a commit.
const CHANGES_MAX: usize = 8192;

/// The space that records take on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSpace {
    /// Bytes, with all copies and gang maps. `None` if computing them would take too long.
    pub bytes: Option<u64>,
    /// True if the next commit leaves this answer as it is.
    pub is_settled: bool,
}

impl OpenDataset {
    /// The space of the records in these slots of an array, without those in `except`. Slots and ranges ascend, and the
    /// ranges do not overlap. Reads few nodes, and no records.
    ///
    /// # Errors
    /// As [`OpenDataset::get`].
    pub fn stored(
        &self,
        array: ArrayKind,
        slots: &[Range<u64>],
        except: &[u64],
    ) -> Result<StoredSpace> {
        let slots = without(slots, except.iter().copied());
        loop {
            let (root, changed) = self.changes_in(array, &slots, CHANGES_MAX);
            let is_changing = changed.as_ref().is_none_or(|changed| !changed.is_empty());
            let units = match &changed {
                Some(changed) => self.stored_below(&root, &slots, changed),
                None => Ok(None),
            };
            match units {
                Err(_) if self.moved_on(array, &root) => {}
                units => {
                    let bytes = units?.map(|units| units.saturating_mul(u64::from(store::UNIT)));
                    return Ok(StoredSpace {
                        bytes,
                        is_settled: bytes.is_some() || !is_changing,
                    });
                }
            }
        }
    }

    fn stored_below(
        &self,
        root: &RecordPtr,
        slots: &[Range<u64>],
        changed: &[(u64, u64)],
    ) -> Result<Option<u64>> {
        let rest = without(slots, changed.iter().map(|(slot, _)| *slot));
        let (mut reads, mut visits) = (READS_MAX, VISITS_MAX);
        let below = stored(root, &rest, &mut |ptr, level, slot| {
            if visits == 0 {
                return Ok(None);
            }
            visits -= 1;
            self.node_within(&mut reads, ptr, level, slot)
        })?;
        let new = changed.iter().map(|(_, units)| *units);
        Ok(below.map(|below| new.fold(below, u64::saturating_add)))
    }

    /// A node. `None` if it is not in memory and no more reads are `left`.
    fn node_within(
        &self,
        left: &mut u32,
        ptr: &RecordPtr,
        level: u8,
        slot: u64,
    ) -> Result<Option<Arc<ArrayNode>>> {
        let disk = &self.context.disk;
        if !disk.has_node(ptr) {
            if *left == 0 {
                return Ok(None);
            }
            *left -= 1;
        }
        disk.node_kept(ptr, level, slot, self.keep(true)).map(Some)
    }
}
