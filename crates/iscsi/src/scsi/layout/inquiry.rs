//! Answers to INQUIRY (SPC-4, sections 6.6 and 7.8; SBC-3, section 6.6).

use zerocopy::byteorder::big_endian::{U16, U32, U64};

layouts! {
    /// The standard data.
    StandardInquiry: 96 {
        peripheral: u8, removable: u8, version: u8, format: u8, additional_len: u8, flags: [u8; 2], queuing: u8,
        vendor: [u8; 8], product: [u8; 16], revision: [u8; 4], vendor_specific: [u8; 20], clocking: u8, reserved: u8,
        standards: [U16; 8], reserved_end: [u8; 22],
    }
    /// The beginning of a page of vital product data.
    VitalHeader: 4 { peripheral: u8, page: u8, len: U16, }
    /// The beginning of a designator in page 83h. `format` has the protocol too, and `kind` what it designates.
    DesignatorHeader: 4 { format: u8, kind: u8, reserved: u8, len: u8, }
    /// The designator of a port by its number.
    RelativePort: 4 { obsolete: U16, port: U16, }
    /// Block Limits (page B0h). Lengths are in blocks; the granularity of transfers and of UNMAP is a physical block.
    BlockLimits: 60 {
        needs_count: u8, compared_max: u8, granularity: U16, transfer_max: U32, transfer_best: U32, prefetch_max: U32,
        unmap_max: U32, unmap_ranges: U32, unmap_granularity: U32, unmap_alignment: U32, same_max: U64,
        reserved: [u8; 20],
    }
    /// Block Device Characteristics (page B1h).
    Characteristics: 60 { rotation: U16, rest: [u8; 58], }
    /// Logical Block Provisioning (page B2h). `flags` has the commands that unmap.
    ProvisioningInfo: 4 { exponent: u8, flags: u8, kind: u8, group: u8, }
}
