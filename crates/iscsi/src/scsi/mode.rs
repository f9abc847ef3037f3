//! Mode pages: caching, control, and the threshold of space. Only the write cache can be turned off and on.

use super::seat::NexusState;
use super::sense::Sense;
use super::unit::{Port, ScsiUnit};

const ALL: u8 = 0x3f;
const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;

/// The byte and bit of the write cache in its page.
const CACHE_AT: usize = 2;
const CACHE_ON: u8 = 0x04;

/// The values of a page that are asked for: those that can be changed.
const CHANGEABLE: u8 = 1;
const SAVED: u8 = 3;

/// The subpage of [`EXCEPTIONS`] about space.
const PROVISIONING: u8 = 0x02;
/// All subpages.
const EACH: u8 = 0xff;

/// The page about space of a unit whose space is known (SBC-3, 6.5.9).
fn provisioning(unit: &ScsiUnit, which: u8) -> Option<Vec<u8>> {
    /// A soft threshold that is enabled, and is armed while the space becomes less.
    const SOFT: u8 = 0x80 | 0x02;
    /// A threshold of available space.
    const AVAILABLE: u8 = 0x01;
    unit.available()?;
    let mut page = vec![0; 24];
    (page[0], page[1], page[3]) = (0x40 | EXCEPTIONS, PROVISIONING, 20);
    if which != CHANGEABLE {
        (page[16], page[17]) = (SOFT, AVAILABLE);
        page[20..].copy_from_slice(&unit.threshold().to_be_bytes());
    }
    Some(page)
}

/// A page or subpage, as it is, or which bits of it can be changed.
fn find(unit: &ScsiUnit, code: u8, subpage: u8, which: u8) -> Option<Vec<u8>> {
    match (code, subpage) {
        (EXCEPTIONS, PROVISIONING) => provisioning(unit, which),
        (_, 0) => page(unit, code, which),
        _ => None,
    }
}

/// A page without subpages.
fn page(unit: &ScsiUnit, code: u8, which: u8) -> Option<Vec<u8>> {
    let mut page = match code {
        CACHING => vec![0; 20],
        CONTROL | EXCEPTIONS => vec![0; 12],
        _ => return None,
    };
    (page[0], page[1]) = (code, page.len() as u8 - 2);
    match code {
        CACHING if which == CHANGEABLE || unit.has_write_cache() => page[CACHE_AT] = CACHE_ON,
        // Commands are reordered; one task set for all initiators.
        CONTROL if which != CHANGEABLE => page[3] = 0x10,
        _ => {}
    }
    Some(page)
}

/// The answer to MODE SENSE.
pub(super) fn sense(
    (unit, port): (&ScsiUnit, &Port<'_>),
    ten: bool,
    no_blocks: bool,
    code: u8,
    subpage: u8,
    which: u8,
) -> Result<Vec<u8>, Sense> {
    if which == SAVED {
        return Err(Sense::NOT_SAVED);
    }
    let plain = || [CACHING, CONTROL, EXCEPTIONS].map(|code| page(unit, code, which));
    let pages: Vec<u8> = match (code, subpage) {
        (ALL, 0) => plain().into_iter().flatten().flatten().collect(),
        (ALL, EACH) => {
            let all = plain().into_iter().chain([provisioning(unit, which)]);
            all.flatten().flatten().collect()
        }
        _ => find(unit, code, subpage, which).ok_or(Sense::FIELD_IN_CDB)?,
    };
    let blocks = match no_blocks {
        true => Vec::new(),
        false => {
            let count = unit.blocks().try_into().unwrap_or(u32::MAX);
            let mut blocks = u32::to_be_bytes(count).to_vec();
            blocks.extend(unit.block().to_be_bytes());
            blocks
        }
    };
    // DPO and FUA are understood.
    let is_read_only = unit.is_read_only || port.is_read_only;
    let about = 0x10 | if is_read_only { 0x80 } else { 0 };
    let rest = blocks.len() + pages.len();
    let mut data = match ten {
        false => vec![rest as u8 + 3, 0, about, blocks.len() as u8],
        true => {
            let mut head = vec![0, rest as u8 + 6, 0, about, 0, 0];
            head.extend((blocks.len() as u16).to_be_bytes());
            head
        }
    };
    data.extend(blocks);
    data.extend(pages);
    Ok(data)
}

/// Carries MODE SELECT out, which can turn the write cache off and on.
pub(super) fn select(
    (unit, seat): (&ScsiUnit, &NexusState),
    ten: bool,
    is_page: bool,
    list: &[u8],
) -> Result<(), Sense> {
    if !is_page {
        return Err(Sense::FIELD_IN_CDB);
    }
    if list.is_empty() {
        return Ok(());
    }
    let head = if ten { 8 } else { 4 };
    if list.len() < head {
        return Err(Sense::LIST_LENGTH);
    }
    let described = match ten {
        true => usize::from(list[6]) << 8 | usize::from(list[7]),
        false => usize::from(list[3]),
    };
    let mut rest = list.get(head + described..).ok_or(Sense::LIST_LENGTH)?;
    let block = &list[head..head + described];
    match described {
        0 => {}
        8 if block[5..] == unit.block().to_be_bytes()[1..] => {}
        _ => return Err(Sense::FIELD_IN_LIST),
    }
    let mut cache = None;
    while !rest.is_empty() {
        let subpage = match rest[0] & 0x40 {
            0 => 0,
            _ => *rest.get(1).ok_or(Sense::LIST_LENGTH)?,
        };
        let own = find(unit, rest[0] & 0x3f, subpage, 0).ok_or(Sense::FIELD_IN_LIST)?;
        let given = rest.get(..own.len()).ok_or(Sense::LIST_LENGTH)?;
        let fixed = |page: &[u8]| match page[0] {
            CACHING => {
                let mut page = page.to_vec();
                page[CACHE_AT] &= !CACHE_ON;
                page
            }
            _ => page.to_vec(),
        };
        if fixed(given) != fixed(&own) {
            return Err(Sense::FIELD_IN_LIST);
        }
        if own[0] == CACHING {
            cache = Some(given[CACHE_AT] & CACHE_ON != 0);
        }
        rest = &rest[own.len()..];
    }
    match cache {
        Some(is_on) => unit.set_write_cache(seat, is_on),
        None => Ok(()),
    }
}
