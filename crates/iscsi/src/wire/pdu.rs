//! PDUs: a head of 48 bytes, and data (RFC 7143, section 11).

use std::marker::PhantomData;

use crate::error::DisconnectCause;
use crate::wire::link::{InitiatorLink, PduBuffer};

/// The length of a head.
pub(crate) const HEAD: usize = 48;
/// The largest data segment that the target receives.
pub(crate) const SEGMENT_MAX: usize = 256 << 10;
/// The bytes of data of a PDU that are kept, if they do not go straight to the buffer of a command.
pub(crate) const DATA_KEPT: usize = 64 << 10;
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

/// A value of a header field, in big-endian order.
pub(crate) trait HeaderValue: Sized {
    const LEN: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl HeaderValue for $ty {
            const LEN: usize = size_of::<$ty>();

            fn read(bytes: &[u8]) -> $ty {
                bytes.first_chunk().map_or(0, |bytes| <$ty>::from_be_bytes(*bytes))
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}
numbers!(u8, u16, u32);

impl<const N: usize> HeaderValue for [u8; N] {
    const LEN: usize = N;

    fn read(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self);
    }
}

/// A field of a header: its offset, and its type.
pub(crate) struct Field<T> {
    at: usize,
    value: PhantomData<fn() -> T>,
}

impl<T: HeaderValue> Field<T> {
    const fn at(at: usize) -> Field<T> {
        assert!(at + T::LEN <= HEAD, "a field is inside its header");
        let value = PhantomData;
        Field { at, value }
    }

    /// Sets the field in the bytes of a header that was written already.
    pub(crate) fn set_in(self, head: &mut [u8], value: T) {
        value.write(&mut head[self.at..self.at + T::LEN]);
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $pdu:ident { $($(#[$about:meta])* $field:ident: $ty:ty = $at:literal,)* })*) => {$(
        $(#[$doc])*
        pub(crate) mod $pdu {
            use super::Field;
            $($(#[$about])* pub(crate) const $field: Field<$ty> = Field::at($at);)*
        }
    )*};
}

fields! {
    /// Fields that most PDUs have.
    common {
        OPCODE: u8 = 0,
        FLAGS: u8 = 1,
        DATA_LEN: u32 = 4,
        LUN: [u8; 8] = 8,
        /// The LUN and the tag, which responses repeat.
        LUN_AND_TAG: [u8; 12] = 8,
        TAG: u32 = 16,
        TRANSFER_TAG: u32 = 20,
    }
    /// Fields of each PDU from an initiator.
    sent {
        COMMAND_NUMBER: u32 = 24,
        EXPECTED_STATUS: u32 = 28,
    }
    /// Fields of each PDU from a target.
    answered {
        STATUS_NUMBER: u32 = 24,
        EXPECTED_COMMAND: u32 = 28,
        MAX_COMMAND: u32 = 32,
    }
    /// SCSI Command (section 11.3).
    command {
        EXPECTED_LEN: u32 = 20,
        CDB: [u8; 16] = 32,
    }
    /// SCSI Response (section 11.4).
    command_response {
        STATUS: u8 = 3,
        DATA_COUNT: u32 = 36,
        RESIDUAL: u32 = 44,
    }
    /// Task Management Function (sections 11.5 and 11.6).
    task {
        RESPONSE: u8 = 2,
        REFERENCED_TAG: u32 = 20,
    }
    /// SCSI Data-Out and Data-In (section 11.7).
    data {
        DATA_NUMBER: u32 = 36,
        OFFSET: u32 = 40,
    }
    /// Ready To Transfer (section 11.8).
    ready {
        NUMBER: u32 = 36,
        OFFSET: u32 = 40,
        WANTED_LEN: u32 = 44,
    }
    /// Asynchronous Message (section 11.9).
    event {
        EVENT: u8 = 36,
        SECONDS: u16 = 42,
    }
    /// Login Request and Login Response (sections 11.12 and 11.13).
    login {
        MIN_VERSION: u8 = 3,
        ISID: [u8; 6] = 8,
        SESSION: u16 = 14,
        CONNECTION: [u8; 2] = 20,
        STATUS: [u8; 2] = 36,
    }
    /// Logout (sections 11.14 and 11.15).
    logout {
        RESPONSE: u8 = 2,
        CONNECTION: [u8; 2] = 20,
    }
    /// Reject (section 11.17).
    reject {
        REASON: u8 = 2,
    }
}

#[derive(Clone)]
pub(crate) struct PduHeader(pub(crate) [u8; HEAD]);

impl PduHeader {
    pub(crate) fn new(opcode: u8, flags: u8) -> PduHeader {
        let mut head = PduHeader([0; HEAD]);
        head.set(common::OPCODE, opcode);
        head.set(common::FLAGS, flags);
        head
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.get(common::OPCODE) & 0x3f
    }

    pub(crate) fn is_immediate(&self) -> bool {
        self.get(common::OPCODE) & 0x40 != 0
    }

    pub(crate) fn flags(&self) -> u8 {
        self.get(common::FLAGS)
    }

    pub(crate) fn get<T: HeaderValue>(&self, field: Field<T>) -> T {
        T::read(&self.0[field.at..field.at + T::LEN])
    }

    pub(crate) fn set<T: HeaderValue>(&mut self, field: Field<T>, value: T) {
        field.set_in(&mut self.0, value);
    }

    /// Sets flags, and keeps those that are set.
    pub(crate) fn add_flags(&mut self, flags: u8) {
        self.set(common::FLAGS, self.flags() | flags);
    }

    /// A response to this PDU, with its LUN and tag.
    pub(crate) fn response(&self, opcode: u8, flags: u8) -> PduHeader {
        let mut response = PduHeader::new(opcode, flags);
        response.set(common::LUN_AND_TAG, self.get(common::LUN_AND_TAG));
        response
    }

    /// A response to this PDU, with its tag and without a LUN.
    pub(crate) fn response_by_tag(&self, opcode: u8, flags: u8) -> PduHeader {
        let mut response = PduHeader::new(opcode, flags);
        response.set(common::TAG, self.tag());
        response
    }

    /// Sets a CDB, with zeros up to its full length.
    #[cfg(test)]
    pub(crate) fn set_cdb(&mut self, cdb: &[u8]) {
        let mut whole = [0; 16];
        whole[..cdb.len()].copy_from_slice(cdb);
        self.set(command::CDB, whole);
    }

    /// Sets the length of the data, and no additional header segments.
    pub(crate) fn set_data_len(&mut self, len: usize) {
        debug_assert!(len < 1 << 24, "the length of data has three bytes");
        self.set(common::DATA_LEN, len as u32);
    }

    /// The task, by the tag that its initiator gave it.
    pub(crate) fn tag(&self) -> u32 {
        self.get(common::TAG)
    }

    pub(crate) fn lun(&self) -> [u8; 8] {
        self.get(common::LUN)
    }

    pub(crate) fn data_len(&self) -> usize {
        self.get(common::DATA_LEN) as usize & 0xff_ffff
    }

    /// The length of the additional head segments.
    fn more(&self) -> usize {
        (self.get(common::DATA_LEN) >> 24) as usize * 4
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
    head.set_data_len(data.len());
    out.extend(head.0);
    out.extend(data);
    out.resize(out.len() + padding(data.len()), 0);
}
