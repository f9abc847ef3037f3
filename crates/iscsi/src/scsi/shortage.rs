//! Shortage of space for a unit: initiators are told before writes fail (SBC-3, 4.7.3.7).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Blocks are counted by 2 to the power of this.
pub(super) const EXPONENT: u8 = 11;
/// Space for less than this part of the unit is short. This threshold cannot be changed.
pub(super) const PART: u64 = 10;
/// After so many bytes the space is looked at again.
const STEP: u64 = 4 << 20;

/// The known state of the space.
#[derive(Default)]
pub(super) struct Shortage {
    written: AtomicU64,
    is_short: AtomicBool,
}

impl Shortage {
    /// Returns whether space has become short, after `len` bytes were written. `space` returns the available space
    /// and the threshold.
    pub(super) fn begins(&self, len: u64, space: impl FnOnce() -> Option<(u32, u32)>) -> bool {
        let before = self.written.fetch_add(len, Ordering::Relaxed);
        if before / STEP == before.wrapping_add(len) / STEP {
            return false;
        }
        let Some((available, threshold)) = space() else {
            return false;
        };
        // Space swings with each commit: it has to rise well above the threshold before initiators are told again.
        if available > threshold.saturating_add(threshold / 4) {
            self.is_short.store(false, Ordering::Relaxed);
        }
        available < threshold && !self.is_short.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initiators_are_told_once_until_there_is_much_space_again() {
        let shortage = Shortage::default();
        let begins = |available| shortage.begins(STEP, || Some((available, 100)));
        assert!(!begins(100) && begins(99));
        assert!(!begins(50) && !begins(110) && !begins(99), "told already");
        assert!(!begins(126) && begins(99));
        assert!(!shortage.begins(1, || panic!("too little was written")));
        assert!(!shortage.begins(STEP, || None));
    }
}
