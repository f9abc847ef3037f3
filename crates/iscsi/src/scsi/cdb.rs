//! Parses the command descriptor block of a command.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::layout::cdb::{
    ACTION, Cdb6, Cdb10, CdbHead, CompareCdb, EXTENDED, GROUP, HOW, InquiryCdb, PAGE, ReportCdb,
    ReserveOutCdb, START, ServiceInCdb, StartStopCdb, TIMEOUTS, Transfer6, Transfer10, Transfer12,
    Transfer16, UnmapCdb, VALUES_AT, flag,
};
use super::layout::lists::Capacity10;
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
        let head: CdbHead = *view(cdb)?;
        let known = find(head.opcode, u16::from(head.flags & ACTION)).ok_or_else(|| {
            let has_actions = table::COMMANDS.iter().any(|it| it.opcode() == head.opcode);
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
        let (operation, room) = match question(head, cdb)? {
            Some(question) => question,
            None => (order(head, cdb)?, usize::MAX),
        };
        Ok(Request {
            operation,
            right: known.right,
            room,
        })
    }
}

/// Returns a CDB as a structure, which is not longer.
fn view<T: FromBytes + KnownLayout + Immutable + Unaligned>(cdb: &[u8; 16]) -> Result<&T, Sense> {
    let view = T::ref_from_prefix(cdb).map_err(|_| Sense::FIELD_IN_CDB);
    view.map(|(view, _)| view)
}

/// Parses a command that is answered with data about the unit. The second value is its allocation length.
fn question(head: CdbHead, cdb: &[u8; 16]) -> Result<Option<(ScsiCommand, usize)>, Sense> {
    use ScsiCommand as O;
    let CdbHead { opcode, flags } = head;
    let action = u16::from(flags & ACTION);
    Ok(Some(match opcode {
        table::REQUEST_SENSE => {
            let descriptors = flags & flag::DESCRIPTORS != 0;
            let len = view::<Cdb6>(cdb)?.len;
            (O::RequestSense { descriptors }, len.into())
        }
        table::INQUIRY => {
            let InquiryCdb {
                page,
                allocation_len,
                ..
            } = *view(cdb)?;
            let vital = flags & flag::VITAL != 0;
            (O::Inquiry { vital, page }, allocation_len.get().into())
        }
        table::READ_CAPACITY_10 => (O::ReadCapacity10, size_of::<Capacity10>()),
        table::MODE_SENSE_6 => {
            let Cdb6 {
                page, subpage, len, ..
            } = *view(cdb)?;
            (mode_sense(head, page, subpage), len.into())
        }
        table::MODE_SENSE_10 => {
            let Cdb10 {
                page, subpage, len, ..
            } = *view(cdb)?;
            (mode_sense(head, page, subpage), len.get().into())
        }
        table::LOG_SENSE => {
            let Cdb10 {
                page,
                subpage,
                parameter,
                len,
                ..
            } = *view(cdb)?;
            let (page, from) = (page & PAGE, parameter.get());
            (
                O::LogSense {
                    page,
                    subpage,
                    from,
                },
                len.get().into(),
            )
        }
        table::PERSISTENT_RESERVE_IN => {
            let about = match action {
                reserve::READ_KEYS => AboutReservations::Keys,
                reserve::READ_RESERVATION => AboutReservations::Reservation,
                reserve::REPORT_CAPABILITIES => AboutReservations::Capabilities,
                _ => AboutReservations::FullStatus,
            };
            let len = view::<Cdb10>(cdb)?.len;
            (O::AskReservations { about }, len.get().into())
        }
        table::SERVICE_ACTION_IN_16 => {
            let ServiceInCdb {
                address,
                allocation_len,
                ..
            } = *view(cdb)?;
            let question = match action {
                table::READ_CAPACITY_16 => O::ReadCapacity16,
                _ => O::LbaStatus {
                    first: address.get(),
                },
            };
            (question, allocation_len.get() as usize)
        }
        table::REPORT_LUNS | table::MAINTENANCE_IN => {
            let cdb: &ReportCdb = view(cdb)?;
            let question = match (opcode, action) {
                (table::REPORT_LUNS, _) => O::ReportLuns { select: cdb.select },
                (_, table::REPORT_TASK_FUNCTIONS) => O::TaskFunctions {
                    extended: cdb.select & EXTENDED != 0,
                },
                _ => O::Opcodes {
                    timeouts: cdb.select & TIMEOUTS != 0,
                    how: cdb.select & HOW,
                    opcode: cdb.about_opcode,
                    action: cdb.about_action.get(),
                },
            };
            (question, cdb.allocation_len.get() as usize)
        }
        _ => return Ok(None),
    }))
}

fn mode_sense(head: CdbHead, page: u8, subpage: u8) -> ScsiCommand {
    ScsiCommand::ModeSense {
        ten: head.opcode == table::MODE_SENSE_10,
        no_blocks: head.flags & flag::NO_BLOCKS != 0,
        page: page & PAGE,
        subpage,
        which: page >> VALUES_AT,
    }
}

/// Parses another command: it reads or changes blocks, or changes the state of the unit.
fn order(head: CdbHead, cdb: &[u8; 16]) -> Result<ScsiCommand, Sense> {
    use ScsiCommand as O;
    let CdbHead { opcode, flags } = head;
    let durable = flags & flag::DURABLE != 0;
    Ok(match opcode {
        table::TEST_UNIT_READY => O::TestUnitReady,
        table::MODE_SELECT_6 | table::MODE_SELECT_10 => O::ModeSelect {
            ten: opcode == table::MODE_SELECT_10,
            is_page: flags & flag::IS_PAGE != 0,
            save: flags & flag::SAVE != 0,
            len: match opcode {
                table::MODE_SELECT_10 => view::<Cdb10>(cdb)?.len.get().into(),
                _ => view::<Cdb6>(cdb)?.len.into(),
            },
        },
        table::READ_6 | table::READ_10 | table::READ_12 | table::READ_16 => O::Read {
            blocks: blocks(cdb)?,
        },
        table::WRITE_6 => O::Write {
            blocks: blocks(cdb)?,
            durable: false,
        },
        table::WRITE_10 | table::WRITE_12 | table::WRITE_16 => O::Write {
            blocks: blocks(cdb)?,
            durable,
        },
        table::VERIFY_10 | table::VERIFY_12 | table::VERIFY_16 => O::Verify {
            blocks: blocks(cdb)?,
            compared: compared(flags)?,
        },
        table::WRITE_AND_VERIFY_10 | table::WRITE_AND_VERIFY_12 | table::WRITE_AND_VERIFY_16 => {
            O::WriteAndVerify {
                blocks: blocks(cdb)?,
                compared: match compared(flags)? {
                    VerifySource::One => return Err(Sense::FIELD_IN_CDB),
                    compared => compared,
                },
            }
        }
        table::OR_WRITE => O::OrWrite {
            blocks: blocks(cdb)?,
            durable,
        },
        table::PRE_FETCH_10 | table::PRE_FETCH_16 => O::PreFetch {
            blocks: blocks(cdb)?,
        },
        table::START_STOP_UNIT => O::StartStop {
            start: view::<StartStopCdb>(cdb)?.power & START != 0,
        },
        table::RESERVE_6 | table::RELEASE_6 => O::Simply {
            reserve: opcode == table::RESERVE_6,
        },
        table::PERSISTENT_RESERVE_OUT => reserve_out(head, view(cdb)?),
        table::SYNCHRONIZE_CACHE_10 | table::SYNCHRONIZE_CACHE_16 => O::Flush {
            blocks: blocks(cdb)?,
        },
        table::UNMAP => O::Unmap {
            len: view::<UnmapCdb>(cdb)?.list_len.get().into(),
        },
        table::WRITE_SAME_10 | table::WRITE_SAME_16 => O::WriteSame {
            blocks: blocks(cdb)?,
            unmap: flags & flag::UNMAP != 0,
            zeros: flags & flag::NO_DATA != 0,
        },
        table::COMPARE_AND_WRITE => {
            let CompareCdb { address, count, .. } = *view(cdb)?;
            O::CompareAndWrite {
                blocks: BlockRange::new(address, count),
                durable,
            }
        }
        _ => return Err(Sense::OPCODE),
    })
}

fn reserve_out(head: CdbHead, cdb: &ReserveOutCdb) -> ScsiCommand {
    let action = u16::from(head.flags & ACTION);
    ScsiCommand::Reserve {
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
        what: cdb.scope_and_type,
        len: cdb.list_len.get() as usize,
    }
}

fn compared(flags: u8) -> Result<VerifySource, Sense> {
    Ok(match flags & flag::COMPARED {
        0 => VerifySource::Nothing,
        2 => VerifySource::All,
        6 => VerifySource::One,
        _ => return Err(Sense::FIELD_IN_CDB),
    })
}

/// The range of a command. The first bits of the operation code say how long the command is.
fn blocks(cdb: &[u8; 16]) -> Result<BlockRange, Sense> {
    Ok(match view::<CdbHead>(cdb)?.opcode >> 5 {
        0 => {
            let Transfer6 {
                address: [high, mid, low],
                count,
                ..
            } = *view(cdb)?;
            let first = u32::from_be_bytes([0, high & GROUP, mid, low]);
            let count = if count == 0 { 256u16 } else { count.into() };
            BlockRange::new(first, count)
        }
        1 | 2 => {
            let Transfer10 { address, count, .. } = *view(cdb)?;
            BlockRange::new(address, count)
        }
        4 => {
            let Transfer16 { address, count, .. } = *view(cdb)?;
            BlockRange::new(address, count)
        }
        _ => {
            let Transfer12 { address, count, .. } = *view(cdb)?;
            BlockRange::new(address, count)
        }
    })
}
