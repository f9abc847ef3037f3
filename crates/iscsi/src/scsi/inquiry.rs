//! INQUIRY: what the unit is, and its pages of vital product data.

use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U32;

use super::layout::WireLayout;
use super::layout::inquiry::{
    BlockLimits, Characteristics, DesignatorHeader, ProvisioningInfo, RelativePort,
    StandardInquiry, VitalHeader,
};
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
    /// A direct-access device; no device is there and none can be.
    const DISK: u8 = 0x00;
    const NONE: u8 = 0x7f;
    const SPC_4: u8 = 6;
    /// Numbers of units are hierarchical, and the data have the format of the standard.
    const FORMAT: u8 = 0x12;
    const COMMAND_QUEUING: u8 = 0x02;
    /// SAM-5, iSCSI, SPC-4, SBC-3.
    const STANDARDS: [u16; 8] = [0x00a0, 0x0960, 0x0460, 0x04c0, 0, 0, 0, 0];
    let data = StandardInquiry {
        peripheral: if is_there { DISK } else { NONE },
        version: SPC_4,
        format: FORMAT,
        additional_len: (size_of::<StandardInquiry>() - 5) as u8,
        queuing: COMMAND_QUEUING,
        vendor: *VENDOR,
        product: *PRODUCT,
        revision: *b"0001",
        standards: STANDARDS.map(Into::into),
        ..StandardInquiry::ZERO
    };
    data.as_bytes().to_vec()
}

/// A page of vital product data.
pub(super) fn vital(unit: &ScsiUnit, page: u8, port: &Port<'_>) -> Result<Vec<u8>, Sense> {
    let body = match page {
        0x00 => PAGES.to_vec(),
        0x80 => unit.identity.serial.as_bytes().to_vec(),
        0x83 => designators(&unit.identity, port.target),
        0xb0 => limits(unit).as_bytes().to_vec(),
        0xb1 => {
            const DOES_NOT_ROTATE: u16 = 1;
            let rotation = DOES_NOT_ROTATE.into();
            let page = Characteristics {
                rotation,
                ..Characteristics::ZERO
            };
            page.as_bytes().to_vec()
        }
        0xb2 => provisioning(unit).as_bytes().to_vec(),
        _ => return Err(Sense::FIELD_IN_CDB),
    };
    let len = (body.len() as u16).into();
    let header = VitalHeader {
        page,
        len,
        ..VitalHeader::ZERO
    };
    Ok([header.as_bytes(), &body].concat())
}

fn provisioning(unit: &ScsiUnit) -> ProvisioningInfo {
    /// UNMAP, and WRITE SAME (16) and (10) with UNMAP.
    const ALL: u8 = 0xe0;
    const THIN: u8 = 2;
    ProvisioningInfo {
        exponent: shortage::EXPONENT,
        flags: if unit.is_read_only { 0 } else { ALL },
        kind: THIN,
        group: 0,
    }
}

fn designators(identity: &UnitIdentity, target: &str) -> Vec<u8> {
    /// Formats; those of ports have the protocol iSCSI.
    const BINARY: u8 = 0x01;
    const ASCII: u8 = 0x02;
    const ISCSI_BINARY: u8 = 0x51;
    const ISCSI_UTF8: u8 = 0x53;
    /// Kinds; those of ports say so.
    const NAA: u8 = 0x03;
    const VENDOR_ID: u8 = 0x01;
    const PORT_NUMBER: u8 = 0x94;
    const PORT_NAME: u8 = 0x98;
    let mut name = format!("{target},t,0x0001").into_bytes();
    name.resize((name.len() + 1).next_multiple_of(4), 0);
    // The vendor, and what it calls the unit.
    let own_name = [VENDOR, identity.serial.as_bytes()].concat();
    let port = RelativePort {
        port: 1.into(),
        ..RelativePort::ZERO
    };
    let all: [(u8, u8, &[u8]); 4] = [
        (BINARY, NAA, &identity.naa),
        (ASCII, VENDOR_ID, &own_name),
        (ISCSI_BINARY, PORT_NUMBER, port.as_bytes()),
        (ISCSI_UTF8, PORT_NAME, &name),
    ];
    let mut body = Vec::new();
    for (format, kind, designator) in all {
        let len = designator.len() as u8;
        let header = DesignatorHeader {
            format,
            kind,
            len,
            ..DesignatorHeader::ZERO
        };
        body.extend_from_slice(header.as_bytes());
        body.extend_from_slice(designator);
    }
    body
}

fn limits(unit: &ScsiUnit) -> BlockLimits {
    let blocks = |bytes: u64| U32::from((bytes / u64::from(unit.block())) as u32);
    let granularity = unit.physical_blocks();
    let limits = BlockLimits {
        // WRITE SAME needs a number of blocks.
        needs_count: 1,
        compared_max: COMPARED_MAX as u8,
        granularity: (granularity as u16).into(),
        transfer_max: blocks(TRANSFER_MAX),
        transfer_best: blocks(1 << 20),
        ..BlockLimits::ZERO
    };
    if unit.is_read_only {
        return limits;
    }
    BlockLimits {
        unmap_max: blocks(RANGE_MAX),
        unmap_ranges: (RANGES_MAX as u32).into(),
        unmap_granularity: (granularity as u32).into(),
        same_max: SAME_MAX.into(),
        ..limits
    }
}
