//! A set of numbers, kept as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, kept as ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NumberSet(BTreeMap<u64, u64>);

impl NumberSet {
    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&low, &high)) = self.0.range(..=end).next_back() {
            if high < start {
                break;
            }
            start = start.min(low);
            end = end.max(high);
            self.0.remove(&low);
        }
        self.0.insert(start, end);
    }

    /// Adds all numbers of another set.
    pub(crate) fn extend(&mut self, other: &NumberSet) {
        other.iter().for_each(|range| self.insert(range));
    }

    /// Takes a number out of the set.
    pub(crate) fn remove(&mut self, number: u64) {
        let before = self.0.range(..=number).next_back();
        let Some((start, end)) = before.map(|(start, end)| (*start, *end)) else {
            return;
        };
        if number < end {
            self.0.remove(&start);
            self.insert(start..number);
            self.insert(number + 1..end);
        }
    }

    /// Returns whether a number is in the set.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, end)| number < *end)
    }

    /// The first number from `number` on that is not in the set.
    pub(crate) fn first_missing(&self, number: u64) -> u64 {
        let before = self.0.range(..=number).next_back();
        before.map_or(number, |(_, end)| number.max(*end))
    }

    /// The count of the numbers.
    pub(crate) fn count(&self) -> u64 {
        let lens = self.iter().map(|range| range.end - range.start);
        lens.fold(0, u64::saturating_add)
    }

    /// The number after the last one, 0 for an empty set.
    pub(crate) fn end(&self) -> u64 {
        self.0.values().next_back().copied().unwrap_or(0)
    }

    /// Returns whether a number of a range is in the set.
    pub(crate) fn intersects(&self, range: &Range<u64>) -> bool {
        let before = self.0.range(..range.end).next_back();
        !range.is_empty() && before.is_some_and(|(_, end)| range.start < *end)
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// Returns whether no number is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut set = NumberSet::default();
        for range in [5..7, 1..2, 7..9, 3..4, 2..3, 8..8, 20..30, 22..25] {
            set.insert(range);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [1..4, 5..9, 20..30]);
        assert!(set.contains(1) && set.contains(8) && !set.contains(4) && !set.contains(9));
        assert_eq!([1, 4, 6].map(|n| set.first_missing(n)), [4, 4, 9]);
        assert_eq!((set.end(), NumberSet::default().end()), (30, 0));
        assert_eq!((set.count(), NumberSet::default().count()), (17, 0));
        set.remove(6);
        assert_eq!(set.iter().collect::<Vec<_>>(), [1..4, 5..6, 7..9, 20..30]);
        set.insert(6..7);
        assert!(set.intersects(&(4..6)) && set.intersects(&(0..100)) && !set.intersects(&(9..20)));
        assert!(!set.intersects(&(4..5)) && !set.intersects(&(6..6)));
    }
}
