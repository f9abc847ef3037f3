//! Space: finding places for records, and knowing beforehand that there will be some.
//!
//! A record gets one run where there is one, else pieces and a map of them ([`mod@crate::storage::gang`]).
//! So a writer that has reserved its bytes and one unit more for each copy finds space, however the
//! free units lie. What a change takes besides are the nodes above its slot; they are counted when the
//! slot is changed, and stay set aside until the commit has written them.

use store::UNIT;

use crate::error::{Error, Result};
use crate::format::extent::{Class, Extent};
use crate::format::pointer::Addr;
use crate::storage::core::Core;
use crate::storage::gang::{Allotted, Bounds, Gang};
use crate::storage::space::Space;

/// What the list of dead records takes for one that a slot has held: an entry, in both copies of its chunk, and
/// a part of the nodes above.
pub(crate) const DEAD_BYTES: u64 = 128;

/// Finds space for `copies` copies of `len` bytes, in different segments where there is a choice.
pub(crate) fn allot(core: &Core, class: Class, len: usize, copies: usize) -> Result<Allotted> {
    let units = (len as u32).div_ceil(UNIT);
    match whole(&core.space, class, units, copies) {
        Err(Error::NoSpace) if units > 1 && class != Class::System => {
            let mut taken = Vec::new();
            let bounds = core.disk.bounds();
            let gathered = gather(&core.space, &bounds, class, (units, copies), &mut taken);
            if gathered.is_err() {
                core.space.release(taken);
            }
            gathered.inspect(|_| core.note_scattered())
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
        apart = Some(map.segment);
    }
    Allotted::scattered(addr, gang, bounds).ok_or(Error::NoSpace)
}
