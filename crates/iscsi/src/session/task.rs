//! A command.

use std::sync::{Arc, Weak};

use block::TransferBuffer;

use crate::scsi::cdb::{Request, ScsiCommand};
use crate::scsi::seat::NexusState;
use crate::scsi::unit::ScsiUnit;
use crate::wire::pdu::{PduHeader, command};

/// In which order a command is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOrder {
    /// After the ordered ones that came before it.
    Simple,
    /// After all that came before it.
    Ordered,
    /// At once.
    First,
}

/// The unit that a command is for, as its initiator sees it. The command does not keep it from going.
#[derive(Clone)]
pub(super) struct UnitReference {
    pub(super) unit: Weak<ScsiUnit>,
    pub(super) seat: Arc<NexusState>,
    /// The version of the views of the target that showed the unit when the command came.
    pub(super) version: u64,
    pub(super) is_read_only: bool,
    /// The number of aborts of this initiator's commands when the command came.
    pub(super) begun: u64,
}

/// A command.
pub(super) struct ScsiTask {
    pub(super) head: PduHeader,
    /// None if the initiator sees no unit of this number.
    pub(super) place: Option<UnitReference>,
    /// The numbers that it sees.
    pub(super) luns: Arc<[u16]>,
    pub(super) request: Request,
    /// The number of commands that came before it.
    pub(super) number: u64,
    /// The number of bytes that it needs.
    pub(super) need: usize,
    /// Space for those that came. It may be longer.
    pub(super) data: TransferBuffer,
    pub(super) received: usize,
    /// True if more data come that were not asked for.
    pub(super) is_open: bool,
    /// The request for data: its tag, and the end of the range.
    pub(super) asked: Option<(u32, usize)>,
    /// The number of requests for data.
    pub(super) asks: u32,
    /// The number of the next PDU with data.
    pub(super) next_data: u32,
}

impl ScsiTask {
    /// Returns the number of bytes that the initiator expects to send.
    pub(super) fn expected(&self) -> usize {
        self.head.get(command::EXPECTED_LEN) as usize
    }

    pub(super) fn order(&self) -> TaskOrder {
        match self.head.flags() & 7 {
            2 => TaskOrder::Ordered,
            3 => TaskOrder::First,
            _ => TaskOrder::Simple,
        }
    }

    /// Returns whether all data of the command have arrived.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_open && self.received >= self.need
    }

    /// Returns whether the command takes long by its nature. Reads and writes are measured instead.
    pub(super) fn takes_long(&self) -> bool {
        use ScsiCommand as O;
        matches!(
            self.request.operation,
            O::Flush { .. }
                | O::Verify { .. }
                | O::Unmap { .. }
                | O::WriteSame { .. }
                | O::CompareAndWrite { .. }
                | O::OrWrite { .. }
                | O::WriteAndVerify { .. }
                | O::Reserve { .. }
                | O::PreFetch { .. }
                | O::LbaStatus { .. }
        )
    }

    /// Returns whether it would wait now, and all later commands with it.
    pub(super) fn would_wait(&self) -> bool {
        use ScsiCommand as O;
        let (blocks, is_write) = match self.request.operation {
            O::Write { blocks, .. } => (blocks, true),
            O::Read { blocks } => (blocks, false),
            _ => return false,
        };
        let unit = self.place.as_ref().and_then(|it| it.unit.upgrade());
        unit.is_some_and(|unit| {
            let bytes = |blocks: u64| blocks.saturating_mul(unit.block().into());
            let (offset, len) = (bytes(blocks.first), bytes(blocks.count));
            unit.device.would_wait(offset, len, is_write)
        })
    }

    /// Returns the number of bytes that it reads or writes, if it does only that.
    pub(super) fn moves(&self) -> Option<usize> {
        use ScsiCommand as O;
        match self.request.operation {
            O::Write { .. } => Some(self.need),
            O::Read { .. } => Some(self.head.get(command::EXPECTED_LEN) as usize),
            _ => None,
        }
    }
}
