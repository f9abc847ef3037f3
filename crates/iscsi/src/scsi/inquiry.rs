//! INQUIRY: what the unit is, and its pages of vital product data.

use super::sense::Sense;
use super::shortage;
use super::unit::{
    COMPARED_MAX, Port, RANGE_MAX, RANGES_MAX, SAME_MAX, ScsiUnit, TRANSFER_MAX, UnitIdentity,
};

const VENDOR: &[u8; 8] = b"STRNGRM ";
const PRODUCT: &[u8; 16] = b"Volume          ";
const PAGES: [u8; 6] = [0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2];

/// The standard data; `is_there` is false for a number that no unit has.
pub(super) fn standard(is_there: bool) -> Vec<u8> {
    let mut data = vec![0; 96];
    // A direct-access device; no device is there and none can be.
    data[0] = if is_there { 0x00 } else { 0x7f };
    // SPC-4; the format of this answer, with hierarchical numbers; its length.
    (data[2], data[3], data[4]) = (6, 0x12, 91);
    // Command queuing.
    data[7] = 0x02;
    data[8..16].copy_from_slice(VENDOR);
    data[16..32].copy_from_slice(PRODUCT);
    data[32..36].copy_from_slice(b"0001");
    // SAM-5, iSCSI, SPC-4, SBC-3.
    for (at, version) in [0x00a0u16, 0x0960, 0x0460, 0x04c0].into_iter().enumerate() {
        data[58 + 2 * at..60 + 2 * at].copy_from_slice(&version.to_be_bytes());
    }
    data
}

/// A page of vital product data.
pub(super) fn vital(unit: &ScsiUnit, page: u8, port: &Port<'_>) -> Result<Vec<u8>, Sense> {
    let body = match page {
        0x00 => PAGES.to_vec(),
        0x80 => unit.identity.serial.as_bytes().to_vec(),
        0x83 => designators(&unit.identity, port.target),
        0xb0 => limits(unit),
        0xb1 => {
            // It does not rotate.
            let mut body = vec![0; 60];
            body[1] = 1;
            body
        }
        0xb2 => vec![shortage::EXPONENT, provisioning(unit), 2, 0],
        _ => return Err(Sense::FIELD_IN_CDB),
    };
    let mut data = vec![0, page];
    data.extend((body.len() as u16).to_be_bytes());
    data.extend(body);
    Ok(data)
}

/// UNMAP, and WRITE SAME (16) and (10) with UNMAP.
fn provisioning(unit: &ScsiUnit) -> u8 {
    if unit.is_read_only { 0x00 } else { 0xe0 }
}

fn designators(identity: &UnitIdentity, target: &str) -> Vec<u8> {
    let mut body = Vec::new();
    // NAA, of the unit.
    body.extend([0x01, 0x03, 0, identity.naa.len() as u8]);
    body.extend(&identity.naa);
    // The vendor and what it calls the unit.
    let own = identity.serial.as_bytes();
    body.extend([0x02, 0x01, 0, (VENDOR.len() + own.len()) as u8]);
    body.extend(VENDOR);
    body.extend(own);
    // The number of the port, of iSCSI.
    body.extend([0x51, 0x94, 0, 4, 0, 0, 0, 1]);
    // The name of the port.
    let mut name = format!("{target},t,0x0001").into_bytes();
    name.resize((name.len() + 1).next_multiple_of(4), 0);
    body.extend([0x53, 0x98, 0, name.len() as u8]);
    body.extend(name);
    body
}

fn limits(unit: &ScsiUnit) -> Vec<u8> {
    let block = u64::from(unit.block());
    let granularity = unit.physical_blocks();
    let mut body = vec![0; 60];
    let mut put = |at: usize, value: u64, len: usize| {
        body[at - 4..at - 4 + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
    };
    // WRITE SAME needs a number of blocks.
    put(4, 1, 1);
    put(5, COMPARED_MAX, 1);
    put(6, granularity, 2);
    put(8, TRANSFER_MAX / block, 4);
    put(12, (1 << 20) / block, 4);
    if !unit.is_read_only {
        put(20, RANGE_MAX / block, 4);
        put(24, RANGES_MAX as u64, 4);
        put(28, granularity, 4);
        put(36, SAME_MAX, 8);
    }
    body
}
