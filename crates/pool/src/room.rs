//! Room: finding places for records, and knowing beforehand that there will be some.
//!
//! A record gets one run where there is one, else pieces and a map of them ([`mod@crate::scatter`]).
//! So whoever has set aside its bytes and one unit more for each copy finds room, however the free
//! units lie. What a change takes besides are the nodes above its slot; they are counted when the
//! slot is changed, and stay set aside until the commit has written them.

use store::UNIT;

use crate::error::{Error, Result};
use crate::layout::{Addr, FANOUT, level_for};
use crate::open::{ArrayKind, OpenDataset};
use crate::pool::Shared;
use crate::scatter::{Allotted, Bounds, Scatter};
use crate::space::{Class, Extent, Space};

/// A node is kept twice.
pub(crate) const NODE_BYTES: u64 = 2 * UNIT as u64;

/// What the list of dead records takes for one that a slot has held: an entry, in both copies of its chunk, and
/// a part of the nodes above.
pub(crate) const DEAD_BYTES: u64 = 128;

/// Finds room for `copies` copies of `len` bytes, in different segments where there is a choice.
pub(crate) fn allot(shared: &Shared, class: Class, len: usize, copies: usize) -> Result<Allotted> {
    let units = (len as u32).div_ceil(UNIT);
    match whole(&shared.space, class, units, copies) {
        Err(Error::NoSpace) if units > 1 && class != Class::System => {
            let mut taken = Vec::new();
            let bounds = shared.disk.bounds();
            let gathered = gather(&shared.space, &bounds, class, (units, copies), &mut taken);
            if gathered.is_err() {
                shared.space.release(taken);
            }
            gathered.inspect(|_| shared.note_scattered())
        }
        other => other,
    }
}

fn whole(space: &Space, class: Class, units: u32, copies: usize) -> Result<Allotted> {
    let mut addr = [Addr::default(); 2];
    let first = space.allocate(class, units, None)?;
    addr[0] = first.addr();
    if copies > 1 {
        match space.allocate(class, units, Some(first.segment)) {
            Ok(second) => addr[1] = second.addr(),
            Err(error) => {
                space.release([first]);
                return Err(error);
            }
        }
    }
    Ok(Allotted::whole(addr))
}

/// Takes a map and pieces for each copy, the longest pieces first. `taken` gets all of them, also if
/// there were too few.
fn gather(
    space: &Space,
    bounds: &Bounds,
    class: Class,
    (units, copies): (u32, usize),
    taken: &mut Vec<Extent>,
) -> Result<Allotted> {
    let mut addr = [Addr::default(); 2];
    let mut scatter = Scatter {
        copies: Default::default(),
    };
    let mut apart = None;
    for (addr, pieces) in addr.iter_mut().zip(&mut scatter.copies).take(copies) {
        let map = space.allocate(class, 1, apart)?;
        taken.push(map);
        *addr = Addr::new(map.segment, map.start * UNIT, units * UNIT);
        let (mut left, mut run) = (units, units);
        while left > 0 {
            run = run.min(left);
            match space.allocate(class, run, apart) {
                Ok(piece) => {
                    taken.push(piece);
                    pieces.push(piece);
                    left -= run;
                }
                Err(Error::NoSpace) if run > 1 => run /= 2,
                Err(error) => return Err(error),
            }
        }
        apart = Some(map.segment);
    }
    Allotted::scattered(addr, scatter, bounds).ok_or(Error::NoSpace)
}

/// How many nodes of an array of `height` levels are above the lowest node `leaf`, up to one that is
/// also above one of `others`.
pub(crate) fn nodes_above(leaf: u64, height: u8, others: &[u64]) -> u64 {
    let height = height.max(level_for(leaf.saturating_mul(FANOUT as u64)));
    let is_shared = |level: u8| {
        let shift = 5 * u32::from(level - 1);
        others.iter().any(|other| other >> shift == leaf >> shift)
    };
    (1..=height).take_while(|level| !is_shared(*level)).count() as u64
}

impl OpenDataset {
    /// What must be set aside for a record of `len` bytes, so that a commit finds room for it and
    /// for the nodes above it whatever the pool looks like.
    pub fn record_room(&self, array: ArrayKind, len: usize) -> u64 {
        let len = (len as u64).next_multiple_of(u64::from(UNIT));
        let map = if len > u64::from(UNIT) { UNIT } else { 0 };
        // The array may grow by a level.
        let height = u64::from(self.height(array).max(1)) + 1;
        (len + u64::from(map)) * array.copies() as u64 + height * NODE_BYTES + DEAD_BYTES
    }

    /// What the nodes take that change when these slots, which ascend, are emptied.
    pub fn punch_room(&self, array: ArrayKind, slots: &[u64]) -> u64 {
        let height = self.height(array);
        let mut last: Option<u64> = None;
        let mut nodes = 0;
        for leaf in slots.iter().map(|slot| slot / FANOUT as u64) {
            if last != Some(leaf) {
                nodes += nodes_above(leaf, height, last.as_slice());
                last = Some(leaf);
            }
        }
        nodes * NODE_BYTES + slots.len() as u64 * DEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_counted_once() {
        assert_eq!(nodes_above(0, 1, &[]), 1);
        assert_eq!(nodes_above(0, 4, &[]), 4);
        assert_eq!(nodes_above(40, 1, &[]), 3, "its slot asks for three levels");
        assert_eq!(
            nodes_above(33, 4, &[32]),
            1,
            "a sibling: the rest is shared"
        );
        assert_eq!(nodes_above(33, 4, &[31]), 2);
        assert_eq!(nodes_above(33, 4, &[0, 34]), 1);
        assert_eq!(nodes_above(33, 4, &[33]), 0);
    }
}
