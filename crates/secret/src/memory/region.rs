//! A slot of the arena, seen as bytes.

use std::ptr::NonNull;

use super::arena::{self, MemorySlot};
use crate::Result;

/// Locked memory of a fixed length, zeroed at first and wiped on drop.
pub(crate) struct Region(MemorySlot);

// SAFETY: the slot belongs to the region alone, and the arena's functions may be called from any
// thread. `&Region` only gives out `&[u8]`.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Takes a region of at least `len` bytes.
    pub(crate) fn new(len: usize) -> Result<Region> {
        arena::take(len).map(Region)
    }

    /// Returns all the bytes, even those past the length that was asked for.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the slot is initialised memory of this length, which only this region refers to,
        // and is borrowed as the region is.
        unsafe { std::slice::from_raw_parts(self.0.address.as_ptr(), self.0.len) }
    }

    /// Returns the bytes, to change them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.address.as_ptr(), self.0.len) }
    }

    /// The address of the first byte, aligned to the smaller of the capacity and a page.
    pub(super) fn address(&self) -> NonNull<u8> {
        self.0.address
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        arena::give_back(&self.0);
    }
}
