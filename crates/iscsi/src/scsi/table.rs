//! The commands that there are, for the parser and for REPORT SUPPORTED OPERATION CODES.

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

const fn reads(usage: &'static [u8]) -> CommandFormat {
    let (action, right) = (None, Right::Read);
    CommandFormat {
        action,
        right,
        usage,
    }
}

const fn changes(usage: &'static [u8]) -> CommandFormat {
    let (action, right) = (None, Right::Change);
    CommandFormat {
        action,
        right,
        usage,
    }
}

const fn action(action: u16, right: Right, usage: &'static [u8]) -> CommandFormat {
    let action = Some(action);
    CommandFormat {
        action,
        right,
        usage,
    }
}

const F: u8 = 0xff;
/// The group number, which has no effect here.
const G: u8 = 0x1f;

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
pub(crate) const COMMANDS: &[CommandFormat] = &[
    reads(&[TEST_UNIT_READY, 0, 0, 0, 0, 0]),
    reads(&[REQUEST_SENSE, 1, 0, 0, F, 0]),
    reads(&[READ_6, G, F, F, F, 0]),
    changes(&[WRITE_6, G, F, F, F, 0]),
    reads(&[INQUIRY, 1, F, F, F, 0]),
    changes(&[MODE_SELECT_6, 0x11, 0, 0, F, 0]),
    reads(&[MODE_SENSE_6, 0x08, F, F, F, 0]),
    changes(&[RESERVE_6, 0, 0, 0, 0, 0]),
    changes(&[RELEASE_6, 0, 0, 0, 0, 0]),
    // START has no effect, and STOP is refused.
    reads(&[START_STOP_UNIT, 1, 0, 0, 0x05, 0]),
    reads(&[READ_CAPACITY_10, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    reads(&[READ_10, 0x18, F, F, F, F, G, F, F, 0]),
    changes(&[WRITE_10, 0x18, F, F, F, F, G, F, F, 0]),
    changes(&[WRITE_AND_VERIFY_10, 0x16, F, F, F, F, G, F, F, 0]),
    reads(&[VERIFY_10, 0x16, F, F, F, F, G, F, F, 0]),
    reads(&[PRE_FETCH_10, 2, F, F, F, F, G, F, F, 0]),
    // For a read-only view it has no effect.
    reads(&[SYNCHRONIZE_CACHE_10, 2, F, F, F, F, G, F, F, 0]),
    changes(&[WRITE_SAME_10, 0x08, F, F, F, F, G, F, F, 0]),
    changes(&[UNMAP, 0, 0, 0, 0, 0, G, F, F, 0]),
    reads(&[LOG_SENSE, 0, F, F, 0, F, F, F, F, 0]),
    changes(&[MODE_SELECT_10, 0x11, 0, 0, 0, 0, 0, F, F, 0]),
    reads(&[MODE_SENSE_10, 0x18, F, F, 0, 0, 0, F, F, 0]),
    action(
        reserve::READ_KEYS,
        Right::Read,
        &[PERSISTENT_RESERVE_IN, 0, 0, 0, 0, 0, 0, F, F, 0],
    ),
    action(
        reserve::READ_RESERVATION,
        Right::Read,
        &[PERSISTENT_RESERVE_IN, 1, 0, 0, 0, 0, 0, F, F, 0],
    ),
    action(
        reserve::REPORT_CAPABILITIES,
        Right::Read,
        &[PERSISTENT_RESERVE_IN, 2, 0, 0, 0, 0, 0, F, F, 0],
    ),
    action(
        reserve::READ_FULL_STATUS,
        Right::Read,
        &[PERSISTENT_RESERVE_IN, 3, 0, 0, 0, 0, 0, F, F, 0],
    ),
    action(
        reserve::REGISTER,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 0, F, 0, 0, F, F, F, F, 0],
    ),
    action(
        reserve::RESERVE,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 1, F, 0, 0, F, F, F, F, 0],
    ),
    action(
        reserve::RELEASE,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 2, F, 0, 0, F, F, F, F, 0],
    ),
    action(
        reserve::CLEAR,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 3, F, 0, 0, F, F, F, F, 0],
    ),
    action(
        reserve::PREEMPT,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 4, F, 0, 0, F, F, F, F, 0],
    ),
    action(
        reserve::PREEMPT_AND_ABORT,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 5, F, 0, 0, F, F, F, F, 0],
    ),
    action(
        reserve::REGISTER_AND_IGNORE,
        Right::Change,
        &[PERSISTENT_RESERVE_OUT, 6, F, 0, 0, F, F, F, F, 0],
    ),
    reads(&[READ_16, 0x18, F, F, F, F, F, F, F, F, F, F, F, F, G, 0]),
    changes(&[
        COMPARE_AND_WRITE,
        0x18,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        0,
        0,
        0,
        F,
        G,
        0,
    ]),
    changes(&[WRITE_16, 0x18, F, F, F, F, F, F, F, F, F, F, F, F, G, 0]),
    changes(&[OR_WRITE, 0x18, F, F, F, F, F, F, F, F, F, F, F, F, G, 0]),
    changes(&[
        WRITE_AND_VERIFY_16,
        0x16,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        G,
        0,
    ]),
    reads(&[VERIFY_16, 0x16, F, F, F, F, F, F, F, F, F, F, F, F, G, 0]),
    reads(&[PRE_FETCH_16, 2, F, F, F, F, F, F, F, F, F, F, F, F, G, 0]),
    reads(&[
        SYNCHRONIZE_CACHE_16,
        2,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        G,
        0,
    ]),
    changes(&[
        WRITE_SAME_16,
        0x09,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        F,
        G,
        0,
    ]),
    action(
        READ_CAPACITY_16,
        Right::Read,
        &[
            SERVICE_ACTION_IN_16,
            0x10,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            F,
            F,
            F,
            F,
            0,
            0,
        ],
    ),
    action(
        GET_LBA_STATUS,
        Right::Read,
        &[
            SERVICE_ACTION_IN_16,
            0x12,
            F,
            F,
            F,
            F,
            F,
            F,
            F,
            F,
            F,
            F,
            F,
            F,
            0,
            0,
        ],
    ),
    reads(&[REPORT_LUNS, 0, F, 0, 0, 0, F, F, F, F, 0, 0]),
    action(
        REPORT_OPCODES,
        Right::Read,
        &[MAINTENANCE_IN, 0x0c, 0x87, F, F, F, F, F, F, F, 0, 0],
    ),
    action(
        REPORT_TASK_FUNCTIONS,
        Right::Read,
        &[MAINTENANCE_IN, 0x0d, 0x80, 0, 0, 0, F, F, F, F, 0, 0],
    ),
    reads(&[READ_12, 0x18, F, F, F, F, F, F, F, F, G, 0]),
    changes(&[WRITE_12, 0x18, F, F, F, F, F, F, F, F, G, 0]),
    changes(&[WRITE_AND_VERIFY_12, 0x16, F, F, F, F, F, F, F, F, G, 0]),
    reads(&[VERIFY_12, 0x16, F, F, F, F, F, F, F, F, G, 0]),
];

/// The command that a CDB has.
pub(super) fn find(opcode: u8, action: u16) -> Option<&'static CommandFormat> {
    let is_it = |known: &&CommandFormat| {
        known.opcode() == opcode && known.action.is_none_or(|own| own == action)
    };
    COMMANDS.iter().find(is_it)
}
