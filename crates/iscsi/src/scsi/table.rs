//! The commands that there are, for the parser and for REPORT SUPPORTED OPERATION CODES.

use zerocopy::byteorder::big_endian::{U16, U32, U64};

use super::layout::WireLayout;
use super::layout::cdb::{
    Cdb6, Cdb10, CompareCdb, EXTENDED, GROUP, HOW, InquiryCdb, NO_FLUSH, ReportCdb, ReserveOutCdb,
    START, ServiceInCdb, StartStopCdb, TIMEOUTS, Transfer6, Transfer10, Transfer12, Transfer16,
    UnmapCdb, flag,
};

/// The right that a command needs. The view of an initiator gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Reads the unit, or describes it. Each initiator that sees the unit has this right.
    Read,
    /// Changes blocks, or state that other initiators notice. A read-only view does not give this right.
    Change,
}

/// A command: the bits of its CDB that may be set. Its first byte is the operation code.
pub(crate) struct CommandFormat {
    /// The service action, if an operation code has several.
    pub(crate) action: Option<u16>,
    pub(crate) right: Right,
    pub(super) usage: &'static [u8],
}

impl CommandFormat {
    pub(crate) fn opcode(&self) -> u8 {
        self.usage[0]
    }
}

/// Makes the table. A row has a right, an operation code, perhaps a service action, and the structure of the CDB. `ZERO` or
/// `RANGE` are the bits that may be set beside those of the named fields.
macro_rules! commands {
    ($($right:ident $opcode:ident $(($action:path))?: $cdb:ident::$rest:ident { $($field:ident: $value:expr),* })*) => {
        &[$(CommandFormat {
            action: [$(Some($action),)? None][0],
            right: Right::$right,
            usage: {
                const USAGE: [u8; size_of::<$cdb>()] = zerocopy::transmute!($cdb {
                    opcode: $opcode,
                    $(flags: $action as u8,)?
                    $($field: $value,)*
                    ..$cdb::$rest
                });
                &USAGE
            },
        },)*]
    };
}

const F: u8 = 0xff;
const F16: U16 = U16::MAX_VALUE;
const F32: U32 = U32::MAX_VALUE;

pub(super) const TEST_UNIT_READY: u8 = 0x00;
pub(super) const REQUEST_SENSE: u8 = 0x03;
pub(super) const READ_6: u8 = 0x08;
pub(super) const WRITE_6: u8 = 0x0a;
pub(super) const INQUIRY: u8 = 0x12;
pub(super) const MODE_SELECT_6: u8 = 0x15;
pub(super) const MODE_SENSE_6: u8 = 0x1a;
pub(super) const RESERVE_6: u8 = 0x16;
pub(super) const RELEASE_6: u8 = 0x17;
pub(super) const START_STOP_UNIT: u8 = 0x1b;
pub(super) const READ_CAPACITY_10: u8 = 0x25;
pub(super) const READ_10: u8 = 0x28;
pub(super) const WRITE_10: u8 = 0x2a;
pub(super) const WRITE_AND_VERIFY_10: u8 = 0x2e;
pub(super) const VERIFY_10: u8 = 0x2f;
pub(super) const PRE_FETCH_10: u8 = 0x34;
pub(super) const SYNCHRONIZE_CACHE_10: u8 = 0x35;
pub(super) const WRITE_SAME_10: u8 = 0x41;
pub(super) const UNMAP: u8 = 0x42;
pub(super) const LOG_SENSE: u8 = 0x4d;
pub(super) const MODE_SELECT_10: u8 = 0x55;
pub(super) const MODE_SENSE_10: u8 = 0x5a;
pub(super) const PERSISTENT_RESERVE_IN: u8 = 0x5e;
pub(super) const PERSISTENT_RESERVE_OUT: u8 = 0x5f;
pub(super) const READ_16: u8 = 0x88;
pub(super) const COMPARE_AND_WRITE: u8 = 0x89;
pub(super) const WRITE_16: u8 = 0x8a;
pub(super) const OR_WRITE: u8 = 0x8b;
pub(super) const WRITE_AND_VERIFY_16: u8 = 0x8e;
pub(super) const VERIFY_16: u8 = 0x8f;
pub(super) const PRE_FETCH_16: u8 = 0x90;
pub(super) const SYNCHRONIZE_CACHE_16: u8 = 0x91;
pub(super) const WRITE_SAME_16: u8 = 0x93;
pub(super) const SERVICE_ACTION_IN_16: u8 = 0x9e;
pub(super) const REPORT_LUNS: u8 = 0xa0;
pub(super) const MAINTENANCE_IN: u8 = 0xa3;
pub(super) const READ_12: u8 = 0xa8;
pub(super) const WRITE_12: u8 = 0xaa;
pub(super) const WRITE_AND_VERIFY_12: u8 = 0xae;
pub(super) const VERIFY_12: u8 = 0xaf;

pub(super) const READ_CAPACITY_16: u16 = 0x10;
pub(super) const GET_LBA_STATUS: u16 = 0x12;
pub(super) const REPORT_OPCODES: u16 = 0x0c;
pub(super) const REPORT_TASK_FUNCTIONS: u16 = 0x0d;

/// The service actions of PERSISTENT RESERVE IN and OUT.
pub(super) mod reserve {
    pub(in crate::scsi) const READ_KEYS: u16 = 0;
    pub(in crate::scsi) const READ_RESERVATION: u16 = 1;
    pub(in crate::scsi) const REPORT_CAPABILITIES: u16 = 2;
    pub(in crate::scsi) const READ_FULL_STATUS: u16 = 3;

    pub(in crate::scsi) const REGISTER: u16 = 0;
    pub(in crate::scsi) const RESERVE: u16 = 1;
    pub(in crate::scsi) const RELEASE: u16 = 2;
    pub(in crate::scsi) const CLEAR: u16 = 3;
    pub(in crate::scsi) const PREEMPT: u16 = 4;
    pub(in crate::scsi) const PREEMPT_AND_ABORT: u16 = 5;
    pub(in crate::scsi) const REGISTER_AND_IGNORE: u16 = 6;
}

/// All of them. Each row says which right the command needs.
#[rustfmt::skip]
pub(crate) const COMMANDS: &[CommandFormat] = commands! {
    Read TEST_UNIT_READY: Cdb6::ZERO {}
    Read REQUEST_SENSE: Cdb6::ZERO { flags: flag::DESCRIPTORS, len: F }
    Read READ_6: Transfer6::ZERO { address: [GROUP, F, F], count: F }
    Change WRITE_6: Transfer6::ZERO { address: [GROUP, F, F], count: F }
    Read INQUIRY: InquiryCdb::ZERO { flags: flag::VITAL, page: F, allocation_len: F16 }
    Change MODE_SELECT_6: Cdb6::ZERO { flags: flag::IS_PAGE | flag::SAVE, len: F }
    Read MODE_SENSE_6: Cdb6::ZERO { flags: flag::NO_BLOCKS, page: F, subpage: F, len: F }
    Change RESERVE_6: Cdb6::ZERO {}
    Change RELEASE_6: Cdb6::ZERO {}
    // START has no effect, and STOP is refused.
    Read START_STOP_UNIT: StartStopCdb::ZERO { flags: flag::IMMEDIATE, power: START | NO_FLUSH }
    Read READ_CAPACITY_10: Cdb10::ZERO {}
    Read READ_10: Transfer10::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change WRITE_10: Transfer10::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change WRITE_AND_VERIFY_10: Transfer10::RANGE { flags: flag::NO_CACHING | flag::COMPARED }
    Read VERIFY_10: Transfer10::RANGE { flags: flag::NO_CACHING | flag::COMPARED }
    Read PRE_FETCH_10: Transfer10::RANGE { flags: flag::IMMEDIATE_OF_CACHE }
    // For a read-only view it has no effect.
    Read SYNCHRONIZE_CACHE_10: Transfer10::RANGE { flags: flag::IMMEDIATE_OF_CACHE }
    Change WRITE_SAME_10: Transfer10::RANGE { flags: flag::UNMAP }
    Change UNMAP: UnmapCdb::ZERO { group: GROUP, list_len: F16 }
    Read LOG_SENSE: Cdb10::ZERO { page: F, subpage: F, parameter: F16, len: F16 }
    Change MODE_SELECT_10: Cdb10::ZERO { flags: flag::IS_PAGE | flag::SAVE, len: F16 }
    Read MODE_SENSE_10: Cdb10::ZERO { flags: flag::LONG_BLOCKS | flag::NO_BLOCKS, page: F, subpage: F, len: F16 }
    Read PERSISTENT_RESERVE_IN (reserve::READ_KEYS): Cdb10::ZERO { len: F16 }
    Read PERSISTENT_RESERVE_IN (reserve::READ_RESERVATION): Cdb10::ZERO { len: F16 }
    Read PERSISTENT_RESERVE_IN (reserve::REPORT_CAPABILITIES): Cdb10::ZERO { len: F16 }
    Read PERSISTENT_RESERVE_IN (reserve::READ_FULL_STATUS): Cdb10::ZERO { len: F16 }
    Change PERSISTENT_RESERVE_OUT (reserve::REGISTER): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Change PERSISTENT_RESERVE_OUT (reserve::RESERVE): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Change PERSISTENT_RESERVE_OUT (reserve::RELEASE): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Change PERSISTENT_RESERVE_OUT (reserve::CLEAR): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Change PERSISTENT_RESERVE_OUT (reserve::PREEMPT): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Change PERSISTENT_RESERVE_OUT (reserve::PREEMPT_AND_ABORT): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Change PERSISTENT_RESERVE_OUT (reserve::REGISTER_AND_IGNORE): ReserveOutCdb::ZERO { scope_and_type: F, list_len: F32 }
    Read READ_16: Transfer16::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change COMPARE_AND_WRITE: CompareCdb::ZERO {
        flags: flag::NO_CACHING | flag::DURABLE, address: U64::MAX_VALUE, count: F, group: GROUP
    }
    Change WRITE_16: Transfer16::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change OR_WRITE: Transfer16::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change WRITE_AND_VERIFY_16: Transfer16::RANGE { flags: flag::NO_CACHING | flag::COMPARED }
    Read VERIFY_16: Transfer16::RANGE { flags: flag::NO_CACHING | flag::COMPARED }
    Read PRE_FETCH_16: Transfer16::RANGE { flags: flag::IMMEDIATE_OF_CACHE }
    Read SYNCHRONIZE_CACHE_16: Transfer16::RANGE { flags: flag::IMMEDIATE_OF_CACHE }
    Change WRITE_SAME_16: Transfer16::RANGE { flags: flag::UNMAP | flag::NO_DATA }
    Read SERVICE_ACTION_IN_16 (READ_CAPACITY_16): ServiceInCdb::ZERO { allocation_len: F32 }
    Read SERVICE_ACTION_IN_16 (GET_LBA_STATUS): ServiceInCdb::ZERO { address: U64::MAX_VALUE, allocation_len: F32 }
    Read REPORT_LUNS: ReportCdb::ZERO { select: F, allocation_len: F32 }
    Read MAINTENANCE_IN (REPORT_OPCODES): ReportCdb::ZERO {
        select: TIMEOUTS | HOW, about_opcode: F, about_action: F16, allocation_len: F32
    }
    Read MAINTENANCE_IN (REPORT_TASK_FUNCTIONS): ReportCdb::ZERO { select: EXTENDED, allocation_len: F32 }
    Read READ_12: Transfer12::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change WRITE_12: Transfer12::RANGE { flags: flag::NO_CACHING | flag::DURABLE }
    Change WRITE_AND_VERIFY_12: Transfer12::RANGE { flags: flag::NO_CACHING | flag::COMPARED }
    Read VERIFY_12: Transfer12::RANGE { flags: flag::NO_CACHING | flag::COMPARED }
};

/// The command that a CDB has.
pub(super) fn find(opcode: u8, action: u16) -> Option<&'static CommandFormat> {
    let is_it = |known: &&CommandFormat| {
        known.opcode() == opcode && known.action.is_none_or(|own| own == action)
    };
    COMMANDS.iter().find(is_it)
}
