//! A command that waits for data.

use crate::pdu::Head;
use crate::scsi::cdb::Request;

/// A command.
pub(super) struct Task {
    pub(super) head: Head,
    pub(super) request: Request,
    /// How many bytes it needs.
    pub(super) need: usize,
    pub(super) data: Vec<u8>,
    pub(super) received: usize,
    /// Whether more comes that was not asked for.
    pub(super) is_open: bool,
    /// What was asked for: its tag and where it ends.
    pub(super) asked: Option<(u32, usize)>,
    /// How often.
    pub(super) asks: u32,
    /// The number of the next PDU with data.
    pub(super) next_data: u32,
}

impl Task {
    /// How many bytes the initiator expects to send.
    pub(super) fn expected(&self) -> usize {
        self.head.u32(20) as usize
    }
}
