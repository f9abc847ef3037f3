//! LOG SENSE: the pages that there are, and how much of the unit has storage.

use zerocopy::IntoBytes;

use super::layout::WireLayout;
use super::layout::lists::{AvailableParameter, LogHeader};
use super::sense::Sense;
use super::unit::ScsiUnit;

const SUPPORTED: u8 = 0x00;
const PROVISIONING: u8 = 0x0c;

/// A page, from this parameter on.
pub(super) fn sense(unit: &ScsiUnit, page: u8, subpage: u8, from: u16) -> Result<Vec<u8>, Sense> {
    let body = match (page, unit.available()) {
        _ if subpage != 0 => return Err(Sense::FIELD_IN_CDB),
        (SUPPORTED, None) => vec![SUPPORTED],
        (SUPPORTED, Some(_)) => vec![SUPPORTED, PROVISIONING],
        (PROVISIONING, Some(count)) if from <= 1 => available(count),
        _ => return Err(Sense::FIELD_IN_CDB),
    };
    let len = (body.len() as u16).into();
    let header = LogHeader { page, subpage, len };
    Ok([header.as_bytes(), &body].concat())
}

/// The parameter with the storage that is available.
fn available(count: u32) -> Vec<u8> {
    /// A list in binary, which is kept by the device.
    const LIST: u8 = 0x03;
    /// Other units use the storage too.
    const SHARED: u8 = 0x02;
    let parameter = AvailableParameter {
        code: 1.into(),
        control: LIST,
        len: 8,
        count: count.into(),
        scope: SHARED,
        ..AvailableParameter::ZERO
    };
    parameter.as_bytes().to_vec()
}
