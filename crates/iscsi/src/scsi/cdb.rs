//! Parses the command descriptor block of a command.

use super::number;
use super::reservation::Action;
use super::sense::Sense;
use super::table::{self, Right, find, reserve};

/// Blocks that a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRange {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl BlockRange {
    pub(super) fn new(first: impl Into<u64>, count: impl Into<u64>) -> BlockRange {
        let (first, count) = (first.into(), count.into());
        BlockRange { first, count }
    }
}

/// The data with which VERIFY compares the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VerifySource {
    /// No data: the medium only has to be readable.
    Nothing,
    /// The same number of blocks.
    All,
    /// A single block, compared with each block of the range.
    One,
}

/// The kind of information that PERSISTENT RESERVE IN asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AboutReservations {
    Keys,
    Reservation,
    Capabilities,
    FullStatus,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScsiCommand {
    TestUnitReady,
    RequestSense {
        descriptors: bool,
    },
    Inquiry {
        vital: bool,
        page: u8,
    },
    ReportLuns {
        select: u8,
    },
    ReadCapacity10,
    ReadCapacity16,
    ModeSense {
        ten: bool,
        no_blocks: bool,
        page: u8,
        subpage: u8,
        which: u8,
    },
    ModeSelect {
        ten: bool,
        is_page: bool,
        save: bool,
        len: usize,
    },
    Read {
        blocks: BlockRange,
    },
    Write {
        blocks: BlockRange,
        durable: bool,
    },
    Verify {
        blocks: BlockRange,
        compared: VerifySource,
    },
    Flush {
        blocks: BlockRange,
    },
    Unmap {
        len: usize,
    },
    WriteSame {
        blocks: BlockRange,
        unmap: bool,
        zeros: bool,
    },
    CompareAndWrite {
        blocks: BlockRange,
        durable: bool,
    },
    /// With what is there, as OR.
    OrWrite {
        blocks: BlockRange,
        durable: bool,
    },
    WriteAndVerify {
        blocks: BlockRange,
        compared: VerifySource,
    },
    PreFetch {
        blocks: BlockRange,
    },
    /// With START or without.
    StartStop {
        start: bool,
    },
    LogSense {
        page: u8,
        subpage: u8,
        from: u16,
    },
    /// RESERVE (6), or RELEASE (6).
    Simply {
        reserve: bool,
    },
    AskReservations {
        about: AboutReservations,
    },
    Reserve {
        action: Action,
        what: u8,
        len: usize,
    },
    TaskFunctions {
        extended: bool,
    },
    LbaStatus {
        first: u64,
    },
    Opcodes {
        timeouts: bool,
        how: u8,
        opcode: u8,
        action: u16,
    },
}

/// A command, the right that it needs, and how many bytes it may answer at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) operation: ScsiCommand,
    pub(crate) right: Right,
    pub(crate) room: usize,
}

impl Request {
    /// # Errors
    /// A command that does not exist, or a bit that may not be set.
    pub(crate) fn decode(cdb: &[u8; 16]) -> Result<Request, Sense> {
        let known = find(cdb[0], u16::from(cdb[1] & 0x1f)).ok_or_else(|| {
            let has_actions = table::COMMANDS.iter().any(|it| it.opcode() == cdb[0]);
            if has_actions {
                Sense::FIELD_IN_CDB
            } else {
                Sense::OPCODE
            }
        })?;
        let pairs = cdb.iter().zip(known.usage).skip(1);
        if pairs.clone().any(|(byte, usage)| byte & !usage != 0) {
            return Err(Sense::FIELD_IN_CDB);
        }
        let operation = operation(cdb)?;
        let room = match cdb[0] {
            table::READ_CAPACITY_10 => 8,
            table::REQUEST_SENSE | table::MODE_SENSE_6 => cdb[4].into(),
            table::INQUIRY => number(cdb, 3, 2) as usize,
            table::MODE_SENSE_10 | table::LOG_SENSE | table::PERSISTENT_RESERVE_IN => {
                number(cdb, 7, 2) as usize
            }
            table::SERVICE_ACTION_IN_16 => number(cdb, 10, 4) as usize,
            table::REPORT_LUNS | table::MAINTENANCE_IN => number(cdb, 6, 4) as usize,
            _ => usize::MAX,
        };
        Ok(Request {
            operation,
            right: known.right,
            room,
        })
    }
}

fn operation(cdb: &[u8; 16]) -> Result<ScsiCommand, Sense> {
    use ScsiCommand as O;
    let durable = cdb[1] & 0x08 != 0;
    let action = u16::from(cdb[1] & 0x1f);
    Ok(match cdb[0] {
        table::TEST_UNIT_READY => O::TestUnitReady,
        table::REQUEST_SENSE => O::RequestSense {
            descriptors: cdb[1] & 1 != 0,
        },
        table::INQUIRY => O::Inquiry {
            vital: cdb[1] & 1 != 0,
            page: cdb[2],
        },
        table::REPORT_LUNS => O::ReportLuns { select: cdb[2] },
        table::READ_CAPACITY_10 => O::ReadCapacity10,
        table::SERVICE_ACTION_IN_16 => match action {
            table::READ_CAPACITY_16 => O::ReadCapacity16,
            _ => O::LbaStatus {
                first: number(cdb, 2, 8),
            },
        },
        table::MODE_SENSE_6 | table::MODE_SENSE_10 => O::ModeSense {
            ten: cdb[0] == table::MODE_SENSE_10,
            no_blocks: cdb[1] & 0x08 != 0,
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            which: cdb[2] >> 6,
        },
        table::MODE_SELECT_6 | table::MODE_SELECT_10 => O::ModeSelect {
            ten: cdb[0] == table::MODE_SELECT_10,
            is_page: cdb[1] & 0x10 != 0,
            save: cdb[1] & 0x01 != 0,
            len: match cdb[0] {
                table::MODE_SELECT_10 => number(cdb, 7, 2) as usize,
                _ => cdb[4].into(),
            },
        },
        table::READ_6 | table::READ_10 | table::READ_12 | table::READ_16 => O::Read {
            blocks: blocks(cdb),
        },
        table::WRITE_6 => O::Write {
            blocks: blocks(cdb),
            durable: false,
        },
        table::WRITE_10 | table::WRITE_12 | table::WRITE_16 => O::Write {
            blocks: blocks(cdb),
            durable,
        },
        table::VERIFY_10 | table::VERIFY_12 | table::VERIFY_16 => O::Verify {
            blocks: blocks(cdb),
            compared: compared(cdb)?,
        },
        table::WRITE_AND_VERIFY_10 | table::WRITE_AND_VERIFY_12 | table::WRITE_AND_VERIFY_16 => {
            O::WriteAndVerify {
                blocks: blocks(cdb),
                compared: match compared(cdb)? {
                    VerifySource::One => return Err(Sense::FIELD_IN_CDB),
                    compared => compared,
                },
            }
        }
        table::OR_WRITE => O::OrWrite {
            blocks: blocks(cdb),
            durable,
        },
        table::PRE_FETCH_10 | table::PRE_FETCH_16 => O::PreFetch {
            blocks: blocks(cdb),
        },
        table::START_STOP_UNIT => O::StartStop {
            start: cdb[4] & 1 != 0,
        },
        table::LOG_SENSE => O::LogSense {
            page: cdb[2] & 0x3f,
            subpage: cdb[3],
            from: number(cdb, 5, 2) as u16,
        },
        table::RESERVE_6 | table::RELEASE_6 => O::Simply {
            reserve: cdb[0] == table::RESERVE_6,
        },
        table::PERSISTENT_RESERVE_IN => O::AskReservations {
            about: match action {
                reserve::READ_KEYS => AboutReservations::Keys,
                reserve::READ_RESERVATION => AboutReservations::Reservation,
                reserve::REPORT_CAPABILITIES => AboutReservations::Capabilities,
                _ => AboutReservations::FullStatus,
            },
        },
        table::PERSISTENT_RESERVE_OUT => O::Reserve {
            action: match action {
                reserve::REGISTER => Action::Register,
                reserve::RESERVE => Action::Reserve,
                reserve::RELEASE => Action::Release,
                reserve::CLEAR => Action::Clear,
                reserve::REGISTER_AND_IGNORE => Action::RegisterAndIgnore,
                _ => Action::Preempt {
                    abort: action == reserve::PREEMPT_AND_ABORT,
                },
            },
            what: cdb[2],
            len: number(cdb, 5, 4) as usize,
        },
        table::SYNCHRONIZE_CACHE_10 | table::SYNCHRONIZE_CACHE_16 => O::Flush {
            blocks: blocks(cdb),
        },
        table::UNMAP => O::Unmap {
            len: number(cdb, 7, 2) as usize,
        },
        table::WRITE_SAME_10 | table::WRITE_SAME_16 => O::WriteSame {
            blocks: blocks(cdb),
            unmap: cdb[1] & 0x08 != 0,
            zeros: cdb[1] & 0x01 != 0,
        },
        table::COMPARE_AND_WRITE => O::CompareAndWrite {
            blocks: BlockRange {
                first: number(cdb, 2, 8),
                count: cdb[13].into(),
            },
            durable,
        },
        table::MAINTENANCE_IN if action == table::REPORT_TASK_FUNCTIONS => O::TaskFunctions {
            extended: cdb[2] & 0x80 != 0,
        },
        table::MAINTENANCE_IN => O::Opcodes {
            timeouts: cdb[2] & 0x80 != 0,
            how: cdb[2] & 7,
            opcode: cdb[3],
            action: number(cdb, 4, 2) as u16,
        },
        _ => return Err(Sense::OPCODE),
    })
}

fn compared(cdb: &[u8; 16]) -> Result<VerifySource, Sense> {
    Ok(match cdb[1] & 0x06 {
        0 => VerifySource::Nothing,
        2 => VerifySource::All,
        6 => VerifySource::One,
        _ => return Err(Sense::FIELD_IN_CDB),
    })
}

/// The range of a command, which is where its length has it.
fn blocks(cdb: &[u8; 16]) -> BlockRange {
    let (first, count) = match cdb[0] >> 5 {
        0 => match number(cdb, 4, 1) {
            0 => (number(cdb, 1, 3) & 0x1f_ffff, 256),
            count => (number(cdb, 1, 3) & 0x1f_ffff, count),
        },
        1 | 2 => (number(cdb, 2, 4), number(cdb, 7, 2)),
        4 => (number(cdb, 2, 8), number(cdb, 10, 4)),
        _ => (number(cdb, 2, 4), number(cdb, 6, 4)),
    };
    BlockRange { first, count }
}
