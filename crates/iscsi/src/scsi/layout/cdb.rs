//! Command descriptor blocks. Bytes after the last field are not a part of the command.

use zerocopy::byteorder::big_endian::{U16, U32, U64};

use super::WireLayout;

/// The bits of `flags` with the service action, where an operation code has several.
pub(in crate::scsi) const ACTION: u8 = 0x1f;
/// The group number of a transfer, which has no effect here.
pub(in crate::scsi) const GROUP: u8 = 0x1f;

/// MODE SENSE and LOG SENSE: the bits of `page` with the page, and the first bit that says which values of it.
pub(in crate::scsi) const PAGE: u8 = 0x3f;
pub(in crate::scsi) const VALUES_AT: u32 = 6;
/// START STOP UNIT, bits of `power`.
pub(in crate::scsi) const START: u8 = 0x01;
pub(in crate::scsi) const NO_FLUSH: u8 = 0x04;
/// REPORT SUPPORTED OPERATION CODES, bits of `select`: with timeouts, and which commands.
pub(in crate::scsi) const TIMEOUTS: u8 = 0x80;
pub(in crate::scsi) const HOW: u8 = 0x07;
/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, a bit of `select`: the long form.
pub(in crate::scsi) const EXTENDED: u8 = 0x80;

/// Bits of `flags`, by command.
pub(in crate::scsi) mod flag {
    /// REQUEST SENSE: the answer has the descriptor format.
    pub(in crate::scsi) const DESCRIPTORS: u8 = 0x01;
    /// INQUIRY: a page of vital product data.
    pub(in crate::scsi) const VITAL: u8 = 0x01;
    /// MODE SENSE: no block descriptor.
    pub(in crate::scsi) const NO_BLOCKS: u8 = 0x08;
    /// MODE SENSE (10): long block descriptors are understood.
    pub(in crate::scsi) const LONG_BLOCKS: u8 = 0x10;
    /// MODE SELECT: the pages have the format of the standard.
    pub(in crate::scsi) const IS_PAGE: u8 = 0x10;
    pub(in crate::scsi) const SAVE: u8 = 0x01;
    /// The answer may come before the end.
    pub(in crate::scsi) const IMMEDIATE: u8 = 0x01;
    /// The same for SYNCHRONIZE CACHE and PRE-FETCH.
    pub(in crate::scsi) const IMMEDIATE_OF_CACHE: u8 = 0x02;
    /// Transfers: the cache need not have the blocks.
    pub(in crate::scsi) const NO_CACHING: u8 = 0x10;
    /// Transfers: the change is durable before the answer.
    pub(in crate::scsi) const DURABLE: u8 = 0x08;
    /// VERIFY: the data to compare with.
    pub(in crate::scsi) const COMPARED: u8 = 0x06;
    /// WRITE SAME: blocks of zeros may lose their storage.
    pub(in crate::scsi) const UNMAP: u8 = 0x08;
    /// WRITE SAME (16): zeros, without data.
    pub(in crate::scsi) const NO_DATA: u8 = 0x01;
}

layouts! {
    /// The beginning of each CDB. `flags` has a service action too.
    CdbHead: 2 { opcode: u8, flags: u8, }
    /// Most commands of six bytes. `len` is that of the answer, or of the parameter list.
    Cdb6: 6 { opcode: u8, flags: u8, page: u8, subpage: u8, len: u8, control: u8, }
    /// INQUIRY
    InquiryCdb: 6 { opcode: u8, flags: u8, page: u8, allocation_len: U16, control: u8, }
    /// START STOP UNIT. `power` has START and LOEJ.
    StartStopCdb: 6 { opcode: u8, flags: u8, reserved: u8, modifier: u8, power: u8, control: u8, }
    /// Most commands of ten bytes. `len` is that of the answer, or of the parameter list.
    Cdb10: 10 {
        opcode: u8, flags: u8, page: u8, subpage: u8, reserved: u8, parameter: U16, len: U16, control: u8,
    }
    /// UNMAP
    UnmapCdb: 10 { opcode: u8, flags: u8, reserved: [u8; 4], group: u8, list_len: U16, control: u8, }
    /// PERSISTENT RESERVE OUT
    ReserveOutCdb: 10 {
        opcode: u8, flags: u8, scope_and_type: u8, reserved: [u8; 2], list_len: U32, control: u8,
    }
    /// REPORT LUNS and MAINTENANCE IN. `select` has options. The opcode and the action are those to describe.
    ReportCdb: 12 {
        opcode: u8, flags: u8, select: u8, about_opcode: u8, about_action: U16, allocation_len: U32, reserved: u8,
        control: u8,
    }
    /// SERVICE ACTION IN (16)
    ServiceInCdb: 16 {
        opcode: u8, flags: u8, address: U64, allocation_len: U32, reserved: u8, control: u8,
    }
    /// READ (6) and WRITE (6). The first three bits of the address are reserved, and no count is 256 blocks.
    Transfer6: 6 { opcode: u8, address: [u8; 3], count: u8, control: u8, }
    /// Commands for blocks, of ten bytes.
    Transfer10: 10 { opcode: u8, flags: u8, address: U32, group: u8, count: U16, control: u8, }
    /// Commands for blocks, of twelve bytes.
    Transfer12: 12 { opcode: u8, flags: u8, address: U32, count: U32, group: u8, control: u8, }
    /// Commands for blocks, of 16 bytes.
    Transfer16: 16 { opcode: u8, flags: u8, address: U64, count: U32, group: u8, control: u8, }
    /// COMPARE AND WRITE
    CompareCdb: 16 {
        opcode: u8, flags: u8, address: U64, reserved: [u8; 3], count: u8, group: u8, control: u8,
    }
}

/// The fields of transfers that an initiator may set to any value.
macro_rules! ranges {
    ($($name:ident: $address:ty, $count:ty;)*) => {$(
        impl $name {
            pub(in crate::scsi) const RANGE: $name = $name {
                address: <$address>::MAX_VALUE,
                count: <$count>::MAX_VALUE,
                group: GROUP,
                ..$name::ZERO
            };
        }
    )*};
}
ranges! {
    Transfer10: U32, U16;
    Transfer12: U32, U32;
    Transfer16: U64, U32;
}
