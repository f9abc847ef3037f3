//! Reserves free space before it is used, so that a commit never runs out of space.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Space;
use crate::error::{Error, Result};
use crate::storage::space::counts::Capacity;

/// The purpose of a reservation. Each purpose may use free space that the purposes before it must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveFor {
    /// Writing new data.
    Writing,
    /// A change that frees more space than it takes.
    Freeing,
    /// The purpose `Freeing` for the one thread that has the turn to free ([`crate::Pool::turn_to_free`]).
    FreeingAlone,
}

/// Reserved bytes. Dropping this releases them.
#[must_use]
pub struct SpaceReservation {
    space: Arc<Space>,
    bytes: u64,
}

impl SpaceReservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases all but `bytes`.
    pub fn shrink(&mut self, bytes: u64) {
        let excess = self.bytes.saturating_sub(bytes);
        let before = self.space.reserved.fetch_sub(excess, Ordering::Relaxed);
        debug_assert!(before >= excess, "the sum has each reservation");
        self.bytes -= excess;
    }

    /// Changes the reservation to `bytes`, without a check for free space.
    pub(crate) fn set(&mut self, bytes: u64) {
        // One of the two changes nothing.
        self.grow(bytes.saturating_sub(self.bytes));
        self.shrink(bytes);
    }

    /// Adds `bytes` to the reservation, without a check for free space.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.space.reserved.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for SpaceReservation {
    fn drop(&mut self) {
        let before = self.space.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "the sum has each reservation");
    }
}

impl Space {
    /// Reserves bytes. Fails if there is no free space for them.
    pub(crate) fn reserve(
        self: &Arc<Space>,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<SpaceReservation> {
        self.reserve_besides(bytes, why, 0)
    }

    /// Does the same as [`Space::reserve`], but leaves the space of `kept` bytes free, in records of the usual size.
    pub(crate) fn reserve_besides(
        self: &Arc<Space>,
        bytes: u64,
        why: ReserveFor,
        kept: u64,
    ) -> Result<SpaceReservation> {
        match self.reserve_spare(bytes, why, kept) {
            // Space is for programs first, and for an image that is being made last.
            Err(Error::NoSpace) if self.yield_pin() => self.reserve_spare(bytes, why, kept),
            reserved => reserved,
        }
    }

    /// Does the same as [`Space::reserve_besides`], for a caller that can do without: it takes no space from an image.
    pub(crate) fn reserve_spare(
        self: &Arc<Space>,
        bytes: u64,
        why: ReserveFor,
        kept: u64,
    ) -> Result<SpaceReservation> {
        let Capacity { usual, certain } = self.free();
        let kept = u128::from(kept) * u128::from(certain) / u128::from(usual.max(1));
        let kept = u64::try_from(kept).unwrap_or(u64::MAX);
        let free = certain.saturating_sub(kept);
        let keep = match why {
            ReserveFor::Writing => self.left_by_writers(),
            ReserveFor::Freeing => slop_of(self.total().certain) / 2,
            ReserveFor::FreeingAlone => slop_of(self.total().certain) / 4,
        };
        let limit = free.saturating_sub(keep);
        // A failing attempt must not reserve anything for a moment: another thread would fail because of it.
        let reserve = |before: u64| before.checked_add(bytes).filter(|sum| *sum <= limit);
        self.reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve)
            .map_err(|_| Error::NoSpace)?;
        Ok(SpaceReservation {
            space: Arc::clone(self),
            bytes,
        })
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// The bytes that are neither taken nor reserved.
    pub(crate) fn unreserved_bytes(&self) -> u64 {
        let reserved = self.reserved.load(Ordering::Relaxed);
        self.free().certain.saturating_sub(reserved)
    }

    /// A reservation of 0 bytes, to grow.
    pub(crate) fn nothing(self: &Arc<Space>) -> SpaceReservation {
        SpaceReservation {
            space: Arc::clone(self),
            bytes: 0,
        }
    }

    /// The bytes that writers can still use, in records of the usual size. 0 if all space for single units is reserved.
    pub(crate) fn available_bytes(&self) -> u64 {
        let free = self.free();
        let kept = self.left_by_writers() + self.reserved.load(Ordering::Relaxed);
        let certain = free.certain.saturating_sub(kept);
        let usual = u128::from(certain) * u128::from(free.usual) / u128::from(free.certain.max(1));
        u64::try_from(usual).unwrap_or(u64::MAX)
    }

    /// The reserve: the bytes that writers leave free for deletes and commits.
    ///
    /// A delete rewrites pages and nodes. If a snapshot has the old ones, these stay. So a delete of everything needs
    /// about as much space as the metadata takes, and half of that again for the deadlists.
    fn left_by_writers(&self) -> u64 {
        let total = self.total().certain;
        let slop = slop_of(total);
        let metadata = self.metadata_bytes.load(Ordering::Relaxed);
        let to_delete = (metadata / 2 * 3).min(total / 8);
        slop.max(slop / 2 + to_delete)
    }

    /// Notes the bytes that datasets refer to. A part of them is metadata.
    pub(crate) fn note_referenced(&self, bytes: u64) {
        let metadata = self.metadata_of(bytes);
        self.metadata_bytes.store(metadata, Ordering::Relaxed);
    }
}

/// The smallest reserve of a pool of `total` bytes: for deletes, and for writes of commits that nothing reserves.
fn slop_of(total: u64) -> u64 {
    (total / 32).clamp(4 << 20, 64 << 30).min(total / 4)
}
