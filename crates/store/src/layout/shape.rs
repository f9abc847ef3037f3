//! The layout of segments on the columns of a group.
//!
//! The space of a group is one row of units, dealt out to its *columns* in turn: of `n` columns, unit
//! `u` lies in column `u mod n`, in row `u / n`. A column is a device, or several that hold the same.
//! A group without parity has one column.
//!
//! What is written at once is a *stripe*. It takes whole units of its own, also for its parity, and
//! shares none with another stripe. So a stripe is never changed in part. What a power cut tears has
//! not been in use yet, and there is no moment at which parity and data of something in use disagree.
//!
//! ```text
//! single parity over three columns; stripes of 3, 1 and 2 units, parity P, rest x
//!
//!          column 0   column 1   column 2
//! row 0       Pa         a0         a2          3 data, 2 rows: 5 units, and 1 to make it even
//! row 1       Pa'        a1         x
//! row 2       Pb         b0         Pc          1 data: 2 units, a mirror
//! row 3       c0         c1         x           2 data: 3 units, and 1
//! ```
//!
//! The units of a stripe are rounded up to a multiple of parity + 1, which is what one unit of data
//! takes: so whatever is free has space for something.

use crate::UNIT;

/// No group with parity has more columns. All ways to leave out three of them can be tried.
pub const COLUMNS_MAX: usize = 32;

/// No group with parity has fewer columns; with triple parity it has one more at least.
pub const COLUMNS_MIN: usize = 3;

/// The fewest columns of a group with so much parity.
pub fn columns_min(parity: usize) -> usize {
    COLUMNS_MIN.max(parity + 1)
}

/// Space is counted by what records of so many units make of it.
const TYPICAL_UNITS: u32 = (128 << 10) / UNIT;

/// The number of columns of a group, and the number of parity columns in each stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    columns: u8,
    parity: u8,
}

impl Shape {
    /// Every member holds everything.
    pub const WHOLE: Shape = Shape {
        columns: 1,
        parity: 0,
    };

    /// Single or double parity over 3 to [`COLUMNS_MAX`] columns, triple parity over 4 to so many, or
    /// [`Shape::WHOLE`] if both are what that has. `None` for anything else.
    pub fn new(columns: usize, parity: usize) -> Option<Shape> {
        let is_whole = (columns, parity) == (1, 0);
        let is_striped =
            (1..=3).contains(&parity) && (columns_min(parity)..=COLUMNS_MAX).contains(&columns);
        (is_whole || is_striped).then_some(Shape {
            columns: columns as u8,
            parity: parity as u8,
        })
    }

    /// Returns the number of columns.
    pub fn columns(self) -> usize {
        usize::from(self.columns)
    }

    /// Returns the number of parity columns in a stripe: so many may be lost.
    pub fn parity(self) -> usize {
        usize::from(self.parity)
    }

    /// Returns whether there is parity.
    pub fn has_parity(self) -> bool {
        self.parity > 0
    }

    /// Returns the number of columns that must be readable.
    pub fn needed(self) -> usize {
        self.columns() - self.parity()
    }

    /// The units of the group that one unit of data takes by itself.
    pub fn cell(self) -> u32 {
        u32::from(self.parity) + 1
    }

    /// The units of the group that a stripe with so many units of data takes.
    pub fn taken(self, units: u32) -> u32 {
        if !self.has_parity() {
            return units;
        }
        let rows = u64::from(units).div_ceil(self.needed() as u64);
        let all = u64::from(units) + rows * u64::from(self.parity);
        let all = all.next_multiple_of(u64::from(self.cell()));
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Returns the number of stripes of one unit in the space of a stripe of `units`.
    pub fn singles(self, units: u32) -> u32 {
        self.taken(units) / self.cell()
    }

    /// The units of records that fit into so many units of the group, if they are of the usual size.
    pub fn usable(self, units: u64) -> u64 {
        let (data, all) = (TYPICAL_UNITS, self.taken(TYPICAL_UNITS));
        units * u64::from(data) / u64::from(all)
    }

    /// Returns the stripe that begins at unit `start` of the group and has so many units of data.
    pub(crate) fn stripe(self, start: u64, units: u32) -> GroupStripe {
        let (columns, parity) = (self.columns() as u64, u32::from(self.parity));
        let (full_rows, rest) = (units / self.needed() as u32, units % self.needed() as u32);
        let longer = if rest == 0 { 0 } else { rest + parity };
        let used = match full_rows {
            0 => longer,
            _ => self.columns.into(),
        };
        let mut first = 0;
        let parts = (0..used).map(|number| {
            let at = start + u64::from(number);
            let part = StripePart {
                column: (at % columns) as usize,
                row: at / columns,
                units: full_rows + u32::from(number < longer),
                first,
            };
            if number >= parity {
                first += part.units;
            }
            part
        });
        GroupStripe {
            parity: self.parity(),
            parts: parts.collect(),
        }
    }
}

/// A stripe: the parity first, then the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupStripe {
    parity: usize,
    pub(crate) parts: Vec<StripePart>,
}

/// The part of a stripe in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StripePart {
    pub(crate) column: usize,
    /// The first row.
    pub(crate) row: u64,
    pub(crate) units: u32,
    /// The first unit of the data that it holds; of parity none.
    first: u32,
}

impl StripePart {
    pub(crate) fn len(&self) -> usize {
        self.units as usize * UNIT as usize
    }

    /// Returns the range of the data that the part holds.
    pub(crate) fn bytes(&self) -> std::ops::Range<usize> {
        let from = self.first as usize * UNIT as usize;
        from..from + self.len()
    }
}

impl GroupStripe {
    pub(crate) fn parity(&self) -> &[StripePart] {
        &self.parts[..self.parity]
    }

    pub(crate) fn data(&self) -> &[StripePart] {
        &self.parts[self.parity..]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all_shapes() -> Vec<Shape> {
        let counts = (1..=COLUMNS_MAX).flat_map(|n| (0..=3).map(move |p| (n, p)));
        counts.filter_map(|(n, p)| Shape::new(n, p)).collect()
    }

    #[test]
    fn shapes_there_are() {
        assert_eq!(all_shapes().len(), 1 + 2 * 30 + 29);
        assert_eq!(Shape::new(1, 0), Some(Shape::WHOLE));
        assert_eq!(Shape::new(2, 1), None);
        assert_eq!(Shape::new(3, 3), None);
        assert!(Shape::new(4, 3).is_some() && Shape::new(5, 4).is_none());
        assert_eq!(Shape::new(33, 1), None);
    }

    /// Each unit of data once, in order, no two parts of a stripe in one column, and nothing outside
    /// of what the stripe takes.
    #[test]
    fn stripes_have_units_of_their_own() {
        for shape in all_shapes() {
            for units in (1..70).chain([256]) {
                for start in [0, 1, 7, 1000] {
                    let stripe = shape.stripe(start, units);
                    let mut taken = BTreeSet::new();
                    let mut columns = BTreeSet::new();
                    for part in &stripe.parts {
                        assert!(columns.insert(part.column));
                        for row in part.row..part.row + u64::from(part.units) {
                            let unit = row * shape.columns() as u64 + part.column as u64;
                            assert!(taken.insert(unit));
                        }
                    }
                    let last = *taken.last().unwrap();
                    assert_eq!(taken.first(), Some(&start), "{shape:?} {units} {start}");
                    assert_eq!(last - start + 1, taken.len() as u64, "there are no gaps");
                    assert!(last - start < u64::from(shape.taken(units)));
                    let mut next = 0;
                    for part in stripe.data() {
                        assert_eq!(part.bytes().start, next);
                        next = part.bytes().end;
                        assert!(part.units <= stripe.parts[0].units);
                    }
                    assert_eq!(next, units as usize * UNIT as usize);
                }
            }
        }
    }

    #[test]
    fn what_things_take() {
        let single = Shape::new(3, 1).unwrap();
        let double = Shape::new(6, 2).unwrap();
        assert_eq!([1, 2, 3, 32].map(|n| single.taken(n)), [2, 4, 6, 48]);
        assert_eq!([1, 2, 4, 5, 32].map(|n| double.taken(n)), [3, 6, 6, 9, 48]);
        assert_eq!((single.usable(300), double.usable(300)), (200, 200));
        for shape in all_shapes() {
            for units in 1..300 {
                assert!(shape.taken(units) <= units * shape.cell());
                assert!((1..=units).contains(&shape.singles(units)));
                assert_eq!(shape.taken(units) % shape.cell(), 0);
            }
        }
        assert_eq!(Shape::WHOLE.taken(u32::MAX), u32::MAX);
        assert_eq!(double.taken(u32::MAX), u32::MAX);
    }
}
