//! LOG SENSE: the pages that there are, and how much of the unit has storage.

use super::sense::Sense;
use super::unit::Unit;

const SUPPORTED: u8 = 0x00;
const PROVISIONING: u8 = 0x0c;

/// Blocks are counted by 2 to the power of this.
pub(super) const THRESHOLD_EXPONENT: u8 = 11;

/// A page, from this parameter on.
pub(super) fn sense(unit: &Unit, page: u8, subpage: u8, from: u16) -> Result<Vec<u8>, Sense> {
    let room = unit.keeper.as_ref().and_then(|keeper| keeper.room());
    let body = match (page, room) {
        _ if subpage != 0 => return Err(Sense::FIELD_IN_CDB),
        (SUPPORTED, None) => vec![SUPPORTED],
        (SUPPORTED, Some(_)) => vec![SUPPORTED, PROVISIONING],
        (PROVISIONING, Some(room)) if from <= 1 => available(unit, room),
        _ => return Err(Sense::FIELD_IN_CDB),
    };
    let mut data = vec![page, 0];
    data.extend((body.len() as u16).to_be_bytes());
    data.extend(body);
    Ok(data)
}

/// The parameter with the storage that is available.
fn available(unit: &Unit, room: u64) -> Vec<u8> {
    /// A list in binary, which is kept by the device.
    const LIST: u8 = 0x03;
    /// Other units use the storage too.
    const SHARED: u8 = 0x02;
    let count = (room / u64::from(unit.block())) >> THRESHOLD_EXPONENT;
    let mut data = vec![0, 1, LIST, 8];
    data.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    data.extend([SHARED, 0, 0, 0]);
    data
}
