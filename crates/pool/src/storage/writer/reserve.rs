//! Finds places for records, within the space that writers have reserved.
//!
//! A record gets one run of units if there is one, otherwise pieces and a map ([`mod@crate::storage::gang`]). So a
//! writer that has reserved the bytes of a record, and one more unit for each copy, finds space wherever units are
//! free. A change also needs the nodes above its slot. They are counted when the slot changes, and their space stays
//! reserved until the commit has written them.

use store::UNIT;

use crate::error::{Error, Result};
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::pointer::Addr;
use crate::storage::core::Core;
use crate::storage::gang::{AllottedSpace, Bounds, Gang};
use crate::storage::space::Space;

/// The bytes that a deadlist takes for one record: an entry in both copies of its chunk, and a part of the nodes
/// above.
pub(crate) const DEAD_BYTES: u64 = 128;

/// Allocates space for `copies` copies of `len` bytes, in different segments if possible.
pub(crate) fn allot(core: &Core, class: Class, len: usize, copies: usize) -> Result<AllottedSpace> {
    debug_assert!(
        len > 0 && (1..=2).contains(&copies),
        "a record has bytes, and one or two copies"
    );
    let units = (len as u32).div_ceil(UNIT);
    match whole(&core.space, class, units, copies) {
        // Records of system segments are never in pieces: an import has to find them without bitmaps.
        Err(Error::NoSpace) if units > 1 && class != Class::System => {
            let mut taken = Vec::new();
            let bounds = core.disk.bounds();
            let gathered = gather(&core.space, &bounds, class, (units, copies), &mut taken);
            if gathered.is_err() {
                // Nothing was written there, so that others may take the units at once.
                core.space.release(taken);
            }
            gathered.inspect(|_| core.note_scattered())
        }
        other => other,
    }
}

fn whole(space: &Space, class: Class, units: u32, copies: usize) -> Result<AllottedSpace> {
    let mut addr = [Addr::default(); 2];
    let first = space.allocate(class, units, None)?;
    addr[0] = first.addr();
    if copies > 1 {
        match space.allocate(class, units, Some(first.segment)) {
            Ok(second) => addr[1] = second.addr(),
            Err(error) => {
                // One copy alone is of no use, and the caller does not know its place.
                space.release([first]);
                return Err(error);
            }
        }
    }
    Ok(AllottedSpace::whole(addr))
}

/// Allocates a map and pieces for each copy, the longest pieces first. `taken` gets all of them, even if there were
/// too few.
fn gather(
    space: &Space,
    bounds: &Bounds,
    class: Class,
    (units, copies): (u32, usize),
    taken: &mut Vec<StoredExtent>,
) -> Result<AllottedSpace> {
    let mut addr = [Addr::default(); 2];
    let mut gang = Gang {
        copies: Default::default(),
    };
    let mut apart = None;
    for (addr, pieces) in addr.iter_mut().zip(&mut gang.copies).take(copies) {
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
        // The second copy avoids this segment, so that one bad segment does not have both.
        apart = Some(map.segment);
    }
    AllottedSpace::scattered(addr, gang, bounds).ok_or(Error::NoSpace)
}
