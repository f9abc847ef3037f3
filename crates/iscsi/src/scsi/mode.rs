//! Mode pages: caching, control, and the threshold of space. Only the write cache can be turned off and on.

use zerocopy::{FromBytes, IntoBytes};

use super::layout::WireLayout;
use super::layout::mode::{
    BLOCK_LEN, BlockDescriptor, CachingPage, ControlPage, ExceptionsPage, ModeHeader6,
    ModeHeader10, ThresholdPage,
};
use super::seat::NexusState;
use super::sense::Sense;
use super::unit::{Port, ScsiUnit};

const ALL: u8 = 0x3f;
const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;

/// The bit of the write cache in its page.
const CACHE_ON: u8 = 0x04;

/// The values of a page that are asked for: those that can be changed.
const CHANGEABLE: u8 = 1;
const SAVED: u8 = 3;

/// The subpage of [`EXCEPTIONS`] about space.
const PROVISIONING: u8 = 0x02;
/// All subpages.
const EACH: u8 = 0xff;

/// The bits of the first byte of a page: the code, and whether it is a subpage.
const CODE: u8 = 0x3f;
const IS_SUBPAGE: u8 = 0x40;

/// The page about space of a unit whose space is known (SBC-3, 6.5.9).
fn provisioning(unit: &ScsiUnit, which: u8) -> Option<Vec<u8>> {
    /// A soft threshold that is enabled, and is armed while the space becomes less.
    const SOFT: u8 = 0x80 | 0x02;
    /// A threshold of available space.
    const AVAILABLE: u8 = 0x01;
    unit.available()?;
    let mut page = ThresholdPage {
        code: IS_SUBPAGE | EXCEPTIONS,
        subpage: PROVISIONING,
        len: (size_of::<ThresholdPage>() as u16 - 4).into(),
        ..ThresholdPage::ZERO
    };
    if which != CHANGEABLE {
        (page.arming, page.resource) = (SOFT, AVAILABLE);
        page.count = unit.threshold().into();
    }
    Some(page.as_bytes().to_vec())
}

/// A page or subpage, as it is, or which bits of it can be changed.
fn find(unit: &ScsiUnit, code: u8, subpage: u8, which: u8) -> Option<Vec<u8>> {
    match (code, subpage) {
        (EXCEPTIONS, PROVISIONING) => provisioning(unit, which),
        (_, 0) => page(unit, code, which),
        _ => None,
    }
}

/// The caching page, whose only flag is the write cache.
fn caching(flags: u8) -> CachingPage {
    CachingPage {
        code: CACHING,
        len: size_of::<CachingPage>() as u8 - 2,
        flags,
        ..CachingPage::ZERO
    }
}

/// A page without subpages.
fn page(unit: &ScsiUnit, code: u8, which: u8) -> Option<Vec<u8>> {
    /// Commands are reordered; one task set for all initiators.
    const REORDERED: u8 = 0x10;
    let page = match code {
        CACHING if which == CHANGEABLE || unit.has_write_cache() => {
            caching(CACHE_ON).as_bytes().to_vec()
        }
        CACHING => caching(0).as_bytes().to_vec(),
        CONTROL => {
            let page = ControlPage {
                code,
                len: size_of::<ControlPage>() as u8 - 2,
                queuing: if which == CHANGEABLE { 0 } else { REORDERED },
                ..ControlPage::ZERO
            };
            page.as_bytes().to_vec()
        }
        EXCEPTIONS => {
            let len = size_of::<ExceptionsPage>() as u8 - 2;
            let page = ExceptionsPage {
                code,
                len,
                ..ExceptionsPage::ZERO
            };
            page.as_bytes().to_vec()
        }
        _ => return None,
    };
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
    let blocks = BlockDescriptor {
        count: unit.blocks().try_into().unwrap_or(u32::MAX).into(),
        block_len: unit.block().into(),
    };
    let blocks = if no_blocks { &[] } else { blocks.as_bytes() };
    /// A view that cannot change the unit; DPO and FUA are understood.
    const WRITE_PROTECTED: u8 = 0x80;
    const UNDERSTANDS_FUA: u8 = 0x10;
    let device = match unit.is_read_only || port.is_read_only {
        true => WRITE_PROTECTED | UNDERSTANDS_FUA,
        false => UNDERSTANDS_FUA,
    };
    let rest = [blocks, &pages].concat();
    // The length does not count itself.
    Ok(match ten {
        false => {
            let header = ModeHeader6 {
                len: (size_of::<ModeHeader6>() - 1 + rest.len()) as u8,
                device,
                blocks_len: blocks.len() as u8,
                ..ModeHeader6::ZERO
            };
            [header.as_bytes(), &rest].concat()
        }
        true => {
            let header = ModeHeader10 {
                len: ((size_of::<ModeHeader10>() - 2 + rest.len()) as u16).into(),
                device,
                blocks_len: (blocks.len() as u16).into(),
                ..ModeHeader10::ZERO
            };
            [header.as_bytes(), &rest].concat()
        }
    })
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
    let (blocks_len, rest) = match ten {
        true => ModeHeader10::ref_from_prefix(list)
            .map(|(head, rest)| (head.blocks_len.get().into(), rest))
            .ok(),
        false => ModeHeader6::ref_from_prefix(list)
            .map(|(head, rest)| (usize::from(head.blocks_len), rest))
            .ok(),
    }
    .ok_or(Sense::LIST_LENGTH)?;
    let (blocks, mut rest) = rest
        .split_at_checked(blocks_len)
        .ok_or(Sense::LIST_LENGTH)?;
    match BlockDescriptor::ref_from_bytes(blocks) {
        _ if blocks.is_empty() => {}
        Ok(blocks) if (blocks.block_len.get() ^ unit.block()) & BLOCK_LEN == 0 => {}
        _ => return Err(Sense::FIELD_IN_LIST),
    }
    let mut cache = None;
    while let [head, after @ ..] = rest {
        let (code, subpage) = match head & IS_SUBPAGE {
            0 => (head & CODE, 0),
            _ => (head & CODE, *after.first().ok_or(Sense::LIST_LENGTH)?),
        };
        let mut expected = find(unit, code, subpage, 0).ok_or(Sense::FIELD_IN_LIST)?;
        let page;
        (page, rest) = rest
            .split_at_checked(expected.len())
            .ok_or(Sense::LIST_LENGTH)?;
        if code == CACHING {
            let page = CachingPage::ref_from_bytes(page).map_err(|_| Sense::LIST_LENGTH)?;
            let is_on = page.flags & CACHE_ON;
            cache = Some(is_on != 0);
            expected = caching(is_on).as_bytes().to_vec();
        }
        if page != expected {
            return Err(Sense::FIELD_IN_LIST);
        }
    }
    match cache {
        Some(is_on) => unit.set_write_cache(seat, is_on),
        None => Ok(()),
    }
}
