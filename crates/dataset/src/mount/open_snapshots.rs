//! The open snapshots of a mounted dataset. Each has a number: the upper bits of its inode numbers in the mount.
//!
//! A snapshot is opened at its first look-up. It is closed, and its number is free again, when the kernel has forgotten
//! all its inodes. A snapshot that is destroyed earlier keeps its number until then, so that the kernel sees stale
//! inodes, and not those of another snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use vfs::{Error, FileSystem, Ino, Result};

use crate::core::Dataset;
use crate::core::io::memory::inode::Inodes;

/// The first number. Lower numbers are for the dataset itself and its directory of snapshots.
const FIRST: u64 = 2;
/// Numbers are below this.
const END: u64 = 1 << 15;

#[derive(Default)]
pub(crate) struct OpenSnapshots(RwLock<SnapshotSlots>);

#[derive(Default)]
struct SnapshotSlots {
    /// The snapshots, by number minus [`FIRST`].
    all: Vec<SnapshotSlot>,
    /// The numbers, by the id of the snapshot.
    numbers: HashMap<u64, u64>,
}

enum SnapshotSlot {
    Free,
    Open(Arc<Dataset>),
    /// The snapshot is closed, but the kernel has not forgotten all its inodes.
    Closed(Arc<Inodes>),
}

impl OpenSnapshots {
    pub(crate) fn get(&self, number: u64) -> Result<Arc<Dataset>> {
        let slots = self.0.read();
        match slots.all.get(index(number)) {
            Some(SnapshotSlot::Open(dataset)) => Ok(Arc::clone(dataset)),
            _ => Err(Error::Stale),
        }
    }

    /// The snapshot with an id, and its number. Opens the snapshot if it is not open.
    pub(crate) fn open(
        &self,
        id: u64,
        open: impl FnOnce() -> Result<Arc<Dataset>>,
    ) -> Result<(u64, Arc<Dataset>)> {
        let known = |slots: &SnapshotSlots| {
            let number = *slots.numbers.get(&id)?;
            match slots.all.get(index(number)) {
                Some(SnapshotSlot::Open(dataset)) => Some((number, Arc::clone(dataset))),
                _ => None,
            }
        };
        if let Some(known) = known(&self.0.read()) {
            return Ok(known);
        }
        let dataset = open()?;
        let mut slots = self.0.write();
        if let Some(known) = known(&slots) {
            return Ok(known);
        }
        let free = slots
            .all
            .iter()
            .position(|slot| matches!(slot, SnapshotSlot::Free));
        let at = free.unwrap_or(slots.all.len());
        let number = at as u64 + FIRST;
        if number >= END {
            return Err(Error::NoMemory);
        }
        if free.is_none() {
            slots.all.push(SnapshotSlot::Free);
        }
        slots.all[at] = SnapshotSlot::Open(Arc::clone(&dataset));
        slots.numbers.insert(id, number);
        Ok((number, dataset))
    }

    /// Returns lookups of an inode. Closes the snapshot when its last lookup is returned.
    pub(crate) fn forget(&self, number: u64, ino: Ino, count: u64) {
        let is_idle = match self.0.read().all.get(index(number)) {
            Some(SnapshotSlot::Open(dataset)) => {
                dataset.forget(ino, count);
                !dataset.inodes.are_looked_up()
            }
            Some(SnapshotSlot::Closed(inodes)) => {
                inodes.forget(ino, count);
                !inodes.are_looked_up()
            }
            Some(SnapshotSlot::Free) | None => false,
        };
        if is_idle {
            self.0.write().free(number);
        }
    }

    /// The inodes with lookups, each with the number of its snapshot.
    pub(crate) fn known(&self) -> Vec<(u64, Ino)> {
        let slots = self.0.read();
        let of_slot = |(number, slot): (u64, &SnapshotSlot)| {
            let known = match slot {
                SnapshotSlot::Free => Vec::new(),
                SnapshotSlot::Open(dataset) => dataset.inodes.known(),
                SnapshotSlot::Closed(inodes) => inodes.known(),
            };
            known.into_iter().map(move |ino| (number, ino))
        };
        (FIRST..).zip(&slots.all).flat_map(of_slot).collect()
    }

    /// Closes a snapshot that is to be destroyed.
    pub(crate) fn close(&self, id: u64) {
        let mut slots = self.0.write();
        let Some(number) = slots.numbers.remove(&id) else {
            return;
        };
        let slot = &mut slots.all[index(number)];
        if let SnapshotSlot::Open(dataset) = slot {
            *slot = SnapshotSlot::Closed(Arc::clone(&dataset.inodes));
        }
        slots.free(number);
    }

    /// Closes all snapshots. The kernel has forgotten all inodes.
    pub(crate) fn close_all(&self) {
        *self.0.write() = SnapshotSlots::default();
    }
}

impl SnapshotSlots {
    /// Frees a number, unless another thread has looked up an inode meanwhile, or is about to.
    fn free(&mut self, number: u64) {
        let Some(slot) = self.all.get_mut(index(number)) else {
            return;
        };
        let is_idle = match slot {
            SnapshotSlot::Free => false,
            SnapshotSlot::Open(dataset) => {
                Arc::strong_count(dataset) == 1 && !dataset.inodes.are_looked_up()
            }
            SnapshotSlot::Closed(inodes) => {
                Arc::strong_count(inodes) == 1 && !inodes.are_looked_up()
            }
        };
        if is_idle {
            *slot = SnapshotSlot::Free;
            self.numbers.retain(|_, of_id| *of_id != number);
        }
    }
}

fn index(number: u64) -> usize {
    (number - FIRST) as usize
}
