//! Headers of both versions: finds the header of a device, reads it, and repairs its copies.

pub mod luks1;
pub mod luks2;

use block::BlockDevice;
use cipher::Random;

use self::luks2::{CopyState, HeaderCopy};
use crate::{Error, Result};

/// The first bytes of a device whose new header is not yet at its beginning.
pub(crate) const STAGE_MAGIC: &[u8; 16] = b"STRONGROOM-STAGE";

/// A header of either version.
#[derive(Clone, Debug)]
pub enum Header {
    /// LUKS1.
    V1(Box<luks1::Header>),
    /// LUKS2.
    V2(Box<luks2::Header>),
}

impl Header {
    /// Reads the header of a device, of either version. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotLuks`]; [`Error::Damaged`]; [`Error::TooSmall`].
    pub fn read(device: &dyn BlockDevice) -> Result<Header> {
        Ok(find(device)?.header)
    }

    /// Returns the length of the header with all key material, in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Header::V1(header) => header.header_len(),
            Header::V2(header) => header.header_len(),
        }
    }
}

/// A header of either version.
pub(crate) struct HeaderScan {
    pub(crate) header: Header,
    /// Copies that have to be written again.
    pub(crate) stale: Vec<HeaderCopy>,
    pub(crate) is_overwritten: bool,
    /// True if the device fails in one of the copies. That copy is not stale.
    pub(crate) is_unreadable: bool,
}

impl HeaderScan {
    fn new(header: Header, stale: Vec<HeaderCopy>) -> HeaderScan {
        HeaderScan {
            header,
            stale,
            is_overwritten: false,
            is_unreadable: false,
        }
    }
}

/// Reads a header, and what copies have to be written again.
pub(crate) fn find(device: &dyn BlockDevice) -> Result<HeaderScan> {
    if is_staged(device)? {
        return Err(Error::unsupported(
            &device.name(),
            "its encryption began, and its header is not in place yet: continue with 'strongroom luks \
             reencrypt --resume-only'",
        ));
    }
    let version1 = match luks1::Header::read(device) {
        // The second copy of a LUKS2 header may be where the device still can be read.
        Err(Error::NotLuks { .. } | Error::Device(_)) => return find_luks2(device),
        found => found,
    };
    // A conversion that was interrupted leaves the second copy of a LUKS2 header. The copy is whole, and so is the
    // material that it refers to.
    match luks2::Header::read(device) {
        Ok(found) if luks1::Header::uuid_of(device).as_ref() == Some(&found.header.uuid) => {
            let header = Header::V2(Box::new(found.header));
            Ok(HeaderScan::new(header, vec![HeaderCopy::First]))
        }
        _ => Ok(HeaderScan::new(Header::V1(Box::new(version1?)), Vec::new())),
    }
}

/// Returns whether the header of the device is not yet at its beginning.
fn is_staged(device: &dyn BlockDevice) -> Result<bool> {
    let mut magic = [0; STAGE_MAGIC.len()];
    if device.size() < magic.len() as u64 {
        return Ok(false);
    }
    // What cannot be read may be in the other copy of a header.
    Ok(device.read_at(0, &mut magic).is_ok() && magic == *STAGE_MAGIC)
}

fn find_luks2(device: &dyn BlockDevice) -> Result<HeaderScan> {
    let found = luks2::Header::read(device)?;
    let is_unreadable = found.is_unreadable();
    let copies = [
        (HeaderCopy::First, found.first),
        (HeaderCopy::Second, found.second),
    ];
    let stale = copies
        .into_iter()
        .filter(|(_, state)| matches!(state, CopyState::Old | CopyState::Bad(_)));
    let stale = stale.map(|(copy, _)| copy).collect();
    Ok(HeaderScan {
        header: Header::V2(Box::new(found.header)),
        stale,
        is_overwritten: found.is_overwritten,
        is_unreadable,
    })
}

/// Writes a copy of a LUKS2 header again that something else was written over, or that cannot be read.
///
/// # Errors
/// As [`Header::read`]. [`Error::Usage`] if nothing is wrong.
pub fn repair(device: &dyn BlockDevice, random: &dyn Random) -> Result<()> {
    if luks1::Header::read(device).is_ok() {
        return Err(Error::usage(
            "LUKS1 has one copy of its header, which is whole",
        ));
    }
    let found = luks2::Header::read(device)?;
    if found.is_whole() {
        return Err(Error::usage("both copies of the header are whole"));
    }
    write_stale(device, &found, random)
}

fn write_stale(
    device: &dyn BlockDevice,
    found: &luks2::HeaderCopies,
    random: &dyn Random,
) -> Result<()> {
    for (copy, state) in [
        (HeaderCopy::First, &found.first),
        (HeaderCopy::Second, &found.second),
    ] {
        if *state != CopyState::Current {
            found.header.write_copy(device, copy, random)?;
        }
    }
    Ok(())
}
