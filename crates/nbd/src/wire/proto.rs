//! Numbers and structures of the protocol, as in `doc/proto.md` of the NBD project. All numbers travel
//! with their highest byte first.

use zerocopy::FromBytes;

use super::layout::{ChunkHead, ChunkStart, DataHead, ErrorChunk, RequestHead, SimpleReply};

/// `NBDMAGIC`, what a server says first.
pub(crate) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, before each option, and in the server's greeting.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the greeting and of its answer.
pub(crate) mod greeting {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1;
    pub(crate) const NO_ZEROES: u16 = 2;
}

/// Options, which a client asks for before it uses an export.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Answers to options.
pub(crate) mod answer {
    pub(crate) const ERROR: u32 = 1 << 31;
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const UNSUPPORTED: u32 = ERROR + 1;
    pub(crate) const POLICY: u32 = ERROR + 2;
    pub(crate) const INVALID: u32 = ERROR + 3;
    pub(crate) const TLS_REQUIRED: u32 = ERROR + 5;
    pub(crate) const UNKNOWN: u32 = ERROR + 6;
    pub(crate) const SHUTDOWN: u32 = ERROR + 7;
    pub(crate) const BLOCK_SIZE_REQUIRED: u32 = ERROR + 8;
    pub(crate) const TOO_BIG: u32 = ERROR + 9;
}

/// Kinds of what is told of an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// The flags of an export.
pub(crate) mod can {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DONT_FRAGMENT: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
    pub(crate) const CACHE: u16 = 1 << 10;
    pub(crate) const FAST_ZERO: u16 = 1 << 11;
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
    /// A later version of the protocol may know it.
    Unknown(u16),
}

/// Flags of requests.
pub(crate) mod flag {
    /// The change is durable before the reply.
    pub(crate) const FUA: u16 = 1;
    /// Zeros are to take space.
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    /// The answer comes in one piece.
    pub(crate) const DONT_FRAGMENT: u16 = 1 << 2;
    /// A single range is enough.
    pub(crate) const ONE: u16 = 1 << 3;
    /// The server refuses rather than writing slowly.
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// Error numbers, on every system those of Linux.
pub(crate) mod errno {
    pub(crate) const PERM: u32 = 1;
    pub(crate) const IO: u32 = 5;
    pub(crate) const NOMEM: u32 = 12;
    pub(crate) const INVAL: u32 = 22;
    pub(crate) const NOSPC: u32 = 28;
    pub(crate) const OVERFLOW: u32 = 75;
    pub(crate) const NOTSUP: u32 = 95;
}

/// The largest read or write.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

/// A request of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) kind: Kind,
    /// Comes back with the answer.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Request {
    /// The length of a request, without the payload of a write.
    pub(crate) const LEN: usize = size_of::<RequestHead>();

    pub(crate) fn encode(&self) -> [u8; Request::LEN] {
        zerocopy::transmute!(RequestHead {
            magic: REQUEST_MAGIC.into(),
            flags: self.flags.into(),
            kind: self.kind.number().into(),
            cookie: self.cookie.into(),
            offset: self.offset.into(),
            len: self.len.into(),
        })
    }

    /// `None` if that is no request: whatever follows means nothing then.
    pub(crate) fn decode(bytes: &[u8; Request::LEN]) -> Option<Request> {
        let head: &RequestHead = zerocopy::transmute_ref!(bytes);
        (head.magic == REQUEST_MAGIC).then_some(Request {
            flags: head.flags.get(),
            kind: Kind::of(head.kind.get()),
            cookie: head.cookie.get(),
            offset: head.offset.get(),
            len: head.len.get(),
        })
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Kind {
    fn of(number: u16) -> Kind {
        match number {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Disconnect,
            3 => Kind::Flush,
            4 => Kind::Trim,
            5 => Kind::Cache,
            6 => Kind::WriteZeroes,
            7 => Kind::BlockStatus,
            other => Kind::Unknown(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            Kind::Read => 0,
            Kind::Write => 1,
            Kind::Disconnect => 2,
            Kind::Flush => 3,
            Kind::Trim => 4,
            Kind::Cache => 5,
            Kind::WriteZeroes => 6,
            Kind::BlockStatus => 7,
            Kind::Unknown(other) => other,
        }
    }

    /// The flags that make sense with it.
    pub(crate) fn flags(self) -> u16 {
        match self {
            Kind::Read => flag::DONT_FRAGMENT,
            Kind::Write | Kind::Trim => flag::FUA,
            Kind::WriteZeroes => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            Kind::BlockStatus => flag::ONE,
            Kind::Disconnect | Kind::Flush | Kind::Cache | Kind::Unknown(_) => 0,
        }
    }

    /// Returns whether the request changes the device.
    pub(crate) fn changes(self) -> bool {
        matches!(self, Kind::Write | Kind::Trim | Kind::WriteZeroes)
    }
}

/// Takes numbers from the front of some bytes.
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a length, and then that many bytes.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(usize::try_from(len).ok()?)
    }
}

/// A simple answer: what came of it, and after a read that went well the data.
pub(crate) fn simple_reply(cookie: u64, error: u32) -> [u8; size_of::<SimpleReply>()] {
    zerocopy::transmute!(SimpleReply {
        magic: SIMPLE_REPLY_MAGIC.into(),
        error: error.into(),
        cookie: cookie.into(),
    })
}

/// Puts an error number into a simple answer, with which `replies` begins.
pub(crate) fn put_error(replies: &mut [u8], error: u32) {
    let reply = SimpleReply::mut_from_prefix(replies);
    debug_assert!(reply.is_ok(), "the answer was kept as a whole");
    if let Ok((reply, _)) = reply {
        reply.error = error.into();
    }
}

/// Kinds of chunks, of which a structured answer is made, and the flag of the last one.
pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    /// All kinds with this bit say that a request failed.
    pub(crate) const IS_ERROR: u16 = 1 << 15;
    pub(crate) const ERROR: u16 = IS_ERROR + 1;
    pub(crate) const ERROR_OFFSET: u16 = IS_ERROR + 2;
}

/// The chunks that this server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum ReplyChunk {
    OffsetData = chunk::OFFSET_DATA,
    BlockStatus = chunk::BLOCK_STATUS,
    Error = chunk::ERROR,
}

/// The head of a chunk of `len` bytes; `is_last` of those of its answer.
pub(crate) fn chunk_head(cookie: u64, kind: ReplyChunk, is_last: bool, len: u32) -> ChunkHead {
    ChunkHead {
        start: ChunkStart {
            magic: CHUNK_MAGIC.into(),
            flags: if is_last { chunk::DONE } else { 0 }.into(),
            kind: (kind as u16).into(),
            cookie: cookie.into(),
        },
        len: len.into(),
    }
}

/// The head of a chunk with data that was read, and where that is.
pub(crate) fn data_head(
    cookie: u64,
    is_last: bool,
    offset: u64,
    len: u32,
) -> [u8; size_of::<DataHead>()] {
    zerocopy::transmute!(DataHead {
        head: chunk_head(cookie, ReplyChunk::OffsetData, is_last, len + 8),
        offset: offset.into(),
    })
}

/// A chunk that says why a request failed, and is the last.
pub(crate) fn error_chunk(cookie: u64, error: u32) -> [u8; size_of::<ErrorChunk>()] {
    let len = (size_of::<ErrorChunk>() - size_of::<ChunkHead>()) as u32;
    zerocopy::transmute!(ErrorChunk {
        head: chunk_head(cookie, ReplyChunk::Error, true, len),
        error: error.into(),
        text_len: 0.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood_or_not() {
        let mut bytes = [0; Request::LEN];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&[0, 1, 0, 1]);
        bytes[8..16].copy_from_slice(&7u64.to_be_bytes());
        bytes[16..24].copy_from_slice(&4096u64.to_be_bytes());
        bytes[24..].copy_from_slice(&512u32.to_be_bytes());
        let request = Request::decode(&bytes).unwrap();
        let expected = Request {
            flags: flag::FUA,
            kind: Kind::Write,
            cookie: 7,
            offset: 4096,
            len: 512,
        };
        assert_eq!(request, expected);
        assert_eq!(expected.encode(), bytes);
        bytes[0] ^= 1;
        assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn replies_have_the_bytes_of_the_protocol() {
        let mut simple = simple_reply(0x0102, 5).to_vec();
        assert_eq!(
            simple,
            [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 2]
        );
        put_error(&mut simple, 28);
        assert_eq!(simple, simple_reply(0x0102, 28));
        let mut error = vec![0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1];
        error.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0]);
        assert_eq!(error_chunk(0x0102, 5).as_slice(), error);
        let mut data = vec![0x66, 0x8e, 0x33, 0xef, 0, 0, 0, 1];
        data.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 2, 8]);
        data.extend([0, 0, 0, 0, 0, 0, 0x10, 0]);
        assert_eq!(data_head(0x0102, false, 4096, 512).as_slice(), data);
    }

    #[test]
    fn what_is_too_short_has_no_fields() {
        let mut fields = FieldReader(&[0, 0, 0, 9, 1]);
        assert_eq!(fields.counted(), None);
        assert_eq!(FieldReader(&[1]).u16(), None);
        assert_eq!(FieldReader(&[0, 0, 0, 1, 5]).counted(), Some(&[5][..]));
    }
}
