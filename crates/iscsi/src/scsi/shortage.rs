//! Tells initiators that the space for a unit runs short, before writes fail (SBC-3, 4.7.3.7). The threshold is a part of the
//! unit's size, and cannot be changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::sense::Sense;
use super::unit::Unit;

/// Blocks are counted by 2 to the power of this.
pub(super) const EXPONENT: u8 = 11;
/// Space for less than this part of the unit is short.
const PART: u64 = 10;
/// After so many bytes the space is looked at again.
const STEP: u64 = 4 << 20;

/// What is known of the space.
#[derive(Default)]
pub(super) struct Shortage {
    written: AtomicU64,
    is_short: AtomicBool,
}

impl Unit {
    /// How much can still be stored, in the unit of thresholds; none if that is not known.
    pub(super) fn available(&self) -> Option<u32> {
        let room = self.keeper.as_ref()?.room()?;
        Some(self.counted(room))
    }

    /// Below what space is short.
    pub(super) fn threshold(&self) -> u32 {
        self.counted(self.device.size() / PART)
    }

    fn counted(&self, bytes: u64) -> u32 {
        let count = (bytes / u64::from(self.block())) >> EXPONENT;
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Tells all initiators once that space has become short, after so many bytes were written.
    pub(super) fn look_for_shortage(&self, len: u64) {
        let shortage = &self.shortage;
        let before = shortage.written.fetch_add(len, Ordering::Relaxed);
        if before / STEP == before.wrapping_add(len) / STEP {
            return;
        }
        let Some(available) = self.available() else {
            return;
        };
        let is_short = available < self.threshold();
        if is_short && !shortage.is_short.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                unit = self.identity.name,
                "the space for the unit runs short: initiators are told"
            );
            let seats = self.seats.lock();
            seats.iter().for_each(|seat| seat.tell(Sense::SHORT));
        }
        shortage.is_short.store(is_short, Ordering::Relaxed);
    }
}
