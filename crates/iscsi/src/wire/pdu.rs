//! PDUs: a head of 48 bytes, and data (RFC 7143, section 11).

use crate::error::DisconnectCause;
use crate::wire::link::{InitiatorLink, PduBuffer};

/// The length of a head.
pub(crate) const HEAD: usize = 48;
/// The largest data segment that the target receives.
pub(crate) const SEGMENT_MAX: usize = 256 << 10;
/// The bytes of data of a PDU that are kept, if they do not go straight to the buffer of a command.
pub(crate) const DATA_KEPT: usize = 64 << 10;
/// No tag.
pub(crate) const NO_TAG: u32 = u32::MAX;

/// The opcodes of PDUs from initiators.
pub(crate) mod request {
    pub(crate) const NOP: u8 = 0x00;
    pub(crate) const COMMAND: u8 = 0x01;
    pub(crate) const TASK: u8 = 0x02;
    pub(crate) const LOGIN: u8 = 0x03;
    pub(crate) const TEXT: u8 = 0x04;
    pub(crate) const DATA: u8 = 0x05;
    pub(crate) const LOGOUT: u8 = 0x06;
}

/// The opcodes of PDUs from targets.
pub(crate) mod response {
    pub(crate) const NOP: u8 = 0x20;
    pub(crate) const COMMAND: u8 = 0x21;
    pub(crate) const TASK: u8 = 0x22;
    pub(crate) const LOGIN: u8 = 0x23;
    pub(crate) const TEXT: u8 = 0x24;
    pub(crate) const DATA: u8 = 0x25;
    pub(crate) const LOGOUT: u8 = 0x26;
    pub(crate) const READY: u8 = 0x31;
    pub(crate) const ASYNC: u8 = 0x32;
    pub(crate) const REJECT: u8 = 0x3f;
}

/// The last PDU of a sequence.
pub(crate) const FINAL: u8 = 0x80;

/// The head of a PDU.
#[derive(Clone)]
pub(crate) struct PduHeader(pub(crate) [u8; HEAD]);

impl PduHeader {
    pub(crate) fn new(opcode: u8, flags: u8) -> PduHeader {
        let mut head = PduHeader([0; HEAD]);
        (head.0[0], head.0[1]) = (opcode, flags);
        head
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    pub(crate) fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    pub(crate) fn flags(&self) -> u8 {
        self.0[1]
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        self.0[at..]
            .first_chunk()
            .map_or(0, |b| u32::from_be_bytes(*b))
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_be_bytes());
    }

    /// The task, by the tag that its initiator gave it.
    pub(crate) fn tag(&self) -> u32 {
        self.u32(16)
    }

    pub(crate) fn lun(&self) -> [u8; 8] {
        *self.0[8..].first_chunk().expect("8 bytes")
    }

    pub(crate) fn data_len(&self) -> usize {
        self.u32(4) as usize & 0xff_ffff
    }

    /// The length of the additional head segments.
    fn more(&self) -> usize {
        usize::from(self.0[4]) * 4
    }
}

/// The parts of a PDU that a CRC follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) head: bool,
    pub(crate) data: bool,
}

/// Bytes up to a multiple of four.
pub(crate) fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// A PDU that was received. The room for its data is used again.
pub(crate) struct ReceivedPdu {
    pub(crate) head: PduHeader,
    pub(crate) has_more: bool,
    room: Vec<u8>,
    len: usize,
}

impl ReceivedPdu {
    pub(crate) fn new() -> ReceivedPdu {
        ReceivedPdu {
            head: PduHeader([0; HEAD]),
            has_more: false,
            room: Vec::new(),
            len: 0,
        }
    }

    /// The first of its data: [`DATA_KEPT`] bytes at most.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        &mut self.room[..self.len]
    }

    /// Receives the next one, with at most `max` bytes of data. False if the initiator has ended.
    pub(crate) fn next(
        &mut self,
        link: &dyn InitiatorLink,
        input: &mut PduBuffer,
        digests: Digests,
        max: usize,
    ) -> Result<bool, DisconnectCause> {
        if !self.next_head(link, input, digests, max)? {
            return Ok(false);
        }
        self.take_data(link, input, digests)?;
        Ok(true)
    }

    /// Receives the next head, whose data are to be taken then. False if the initiator has ended.
    pub(crate) fn next_head(
        &mut self,
        link: &dyn InitiatorLink,
        input: &mut PduBuffer,
        digests: Digests,
        max: usize,
    ) -> Result<bool, DisconnectCause> {
        const CUT_OFF: DisconnectCause = DisconnectCause::Protocol("it ended within a PDU");
        if !input.fill(link, &mut self.head.0)? {
            return Ok(false);
        }
        let mut more = [0; 255 * 4];
        let more = &mut more[..self.head.more()];
        if !input.fill(link, more)? {
            return Err(CUT_OFF);
        }
        self.has_more = !more.is_empty();
        let mut digest = [0; 4];
        if digests.head {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&self.head.0), more);
            if !input.fill(link, &mut digest)? || u32::from_le_bytes(digest) != crc {
                return Err(DisconnectCause::Protocol("the digest of a head is wrong"));
            }
        }
        self.len = 0;
        if self.head.data_len() > max {
            return Err(DisconnectCause::Protocol(
                "it sent more data in a PDU than was agreed on",
            ));
        }
        Ok(true)
    }

    /// Receives the data of the PDU whose head was received.
    pub(crate) fn take_data(
        &mut self,
        link: &dyn InitiatorLink,
        input: &mut PduBuffer,
        digests: Digests,
    ) -> Result<(), DisconnectCause> {
        let len = self.head.data_len().min(DATA_KEPT);
        let mut room = std::mem::take(&mut self.room);
        if room.len() < len {
            room.resize(len, 0);
        }
        let taken = self.take_data_into(link, input, digests, &mut room[..len]);
        (self.room, self.len) = (room, len);
        taken
    }

    /// Receives the first of them into `room`, and leaves the rest out.
    pub(crate) fn take_data_into(
        &mut self,
        link: &dyn InitiatorLink,
        input: &mut PduBuffer,
        digests: Digests,
        room: &mut [u8],
    ) -> Result<(), DisconnectCause> {
        const CUT_OFF: DisconnectCause = DisconnectCause::Protocol("it ended within a PDU");
        let len = self.head.data_len();
        if len == 0 {
            return Ok(());
        }
        let mut crc = 0;
        let mut take = |out: &mut [u8]| -> Result<(), DisconnectCause> {
            if !input.fill(link, out)? {
                return Err(CUT_OFF);
            }
            if digests.data {
                crc = crc32c::crc32c_append(crc, out);
            }
            Ok(())
        };
        take(room)?;
        let mut rest = len - room.len() + padding(len);
        let mut scratch = [0; 256];
        while rest > 0 {
            let n = rest.min(scratch.len());
            take(&mut scratch[..n])?;
            rest -= n;
        }
        let mut digest = [0; 4];
        if digests.data && (!input.fill(link, &mut digest)? || u32::from_le_bytes(digest) != crc) {
            return Err(DisconnectCause::Protocol("the digest of data is wrong"));
        }
        Ok(())
    }
}

/// Appends a PDU without digests.
pub(crate) fn append(out: &mut Vec<u8>, head: &mut PduHeader, data: &[u8]) {
    head.put32(4, data.len() as u32);
    out.extend(head.0);
    out.extend(data);
    out.resize(out.len() + padding(data.len()), 0);
}
