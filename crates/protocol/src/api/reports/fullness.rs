//! The levels of fullness of a pool.

/// The percentages from which a pool needs attention: it fills up, is almost full, is full.
const STEPS: [u64; 3] = [80, 90, 96];

/// A level ends only this many percent below its step, so that it does not come and go.
const MARGIN: u64 = 2;

/// The used part of the space that writers may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fullness {
    /// The part that is used, rounded down.
    pub percent: u64,
    /// The number of steps (80, 90 and 96 percent) that are reached.
    pub level: usize,
}

impl Fullness {
    /// The fullness of a pool with so many bytes taken, and so many that writers may still use.
    pub fn of(allocated: u64, free: u64) -> Fullness {
        let whole = u128::from(allocated) + u128::from(free);
        let percent = (u128::from(allocated) * 100)
            .checked_div(whole)
            .map_or(0, |percent| percent as u64);
        let level = STEPS.iter().filter(|step| percent >= **step).count();
        Fullness { percent, level }
    }

    /// Returns this fullness after another one. A level ends only where the space is well below its step.
    pub fn after(self, before: Fullness) -> Fullness {
        let stays = STEPS
            .iter()
            .filter(|step| self.percent + MARGIN >= **step)
            .count();
        Fullness {
            level: self.level.max(before.level.min(stays)),
            ..self
        }
    }

    /// Returns whether programs will soon get no space.
    pub fn is_critical(self) -> bool {
        self.level == STEPS.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_reached_and_left() {
        let level = |used: u64| Fullness::of(used, 1000 - used).level;
        assert_eq!(
            [0, 799, 800, 899, 900, 959, 960, 1000].map(level),
            [0, 0, 1, 1, 2, 2, 3, 3]
        );
        assert_eq!(Fullness::of(0, 0), Fullness::default());
        assert_eq!(Fullness::of(u64::MAX, u64::MAX).percent, 50);
        let after = |used: u64, before: u64| {
            Fullness::of(used, 1000 - used)
                .after(Fullness::of(before, 1000 - before))
                .level
        };
        assert_eq!(after(880, 900), 2, "just below");
        assert_eq!(after(879, 900), 1);
        assert_eq!(after(770, 980), 0);
        assert_eq!(after(900, 880), 2);
    }
}
