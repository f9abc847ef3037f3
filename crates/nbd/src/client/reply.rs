//! Answers to requests: what they may contain, and what they are for.

use block::RangeStatus;
use zerocopy::FromBytes;
use zerocopy::byteorder::big_endian::{U32, U64};

use super::handshake::shown;
use crate::error::CloseCause;
use crate::wire::input::ReceiveBuffer;
use crate::wire::layout::{ChunkStart, HoleRange, SimpleReply, StoredRange};
use crate::wire::link::PeerLink;
use crate::wire::proto::{self, FieldReader, chunk};

/// The maximum length of an error text, or of a list of ranges, from a server.
const TEXT_MAX: u32 = 64 << 10;
/// Chunks of one answer.
const CHUNKS_MAX: usize = 4096;

type Result<T> = std::result::Result<T, CloseCause>;

/// The head of an answer, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyHeader {
    pub(crate) cookie: u64,
    pub(crate) kind: HeadKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// The whole answer, but for the data of a read that succeeded.
    Simple { error: u32 },
    /// A part of an answer.
    Chunk { flags: u16, kind: u16, len: u32 },
}

impl ReplyHeader {
    /// Receives the next head.
    pub(crate) fn receive(
        link: &dyn PeerLink,
        input: &mut ReceiveBuffer,
        structured: bool,
    ) -> Result<ReplyHeader> {
        const NONSENSE: CloseCause = CloseCause::Protocol("what the server says is no answer");
        const CLOSED: CloseCause = CloseCause::Protocol("the server closed the connection");
        const START: usize = size_of::<SimpleReply>();
        if !input.fill(link, START)? {
            return Err(CLOSED);
        }
        let simple = SimpleReply::read_from_bytes(input.take(START)).map_err(|_| NONSENSE)?;
        let start: ChunkStart = match simple.magic.get() {
            proto::SIMPLE_REPLY_MAGIC => {
                let error = simple.error.get();
                let (cookie, kind) = (simple.cookie.get(), HeadKind::Simple { error });
                return Ok(ReplyHeader { cookie, kind });
            }
            proto::CHUNK_MAGIC if structured => zerocopy::transmute!(simple),
            _ => return Err(NONSENSE),
        };
        if !input.fill(link, 4)? {
            return Err(CLOSED);
        }
        let len = U32::read_from_bytes(input.take(4)).map_err(|_| NONSENSE)?;
        let (flags, kind, len) = (start.flags.get(), start.kind.get(), len.get());
        let cookie = start.cookie.get();
        let kind = HeadKind::Chunk { flags, kind, len };
        Ok(ReplyHeader { cookie, kind })
    }
}

/// The kind of reply that a request expects.
pub(crate) enum ExpectedReply<'a> {
    /// No data: only success or failure.
    Nothing,
    /// The bytes from `offset`.
    Data { offset: u64, buf: &'a mut [u8] },
    /// The state of the beginning of a range of `len` bytes.
    Status {
        len: u64,
        found: Option<RangeStatus>,
    },
}

/// The error of a server, instead of the requested work.
#[derive(Debug)]
pub(crate) struct ServerRefusal {
    pub(crate) errno: u32,
    pub(crate) said: String,
}

/// A request on its way, and what has come of it.
pub(crate) struct PendingRequest<'a> {
    pub(crate) wanted: ExpectedReply<'a>,
    /// The context that says what is a hole.
    allocation: Option<u32>,
    structured: bool,
    /// The ranges of the data that have arrived.
    covered: RangeSet,
    chunks: usize,
    refusal: Option<ServerRefusal>,
}

impl<'a> PendingRequest<'a> {
    pub(crate) fn new(
        wanted: ExpectedReply<'a>,
        structured: bool,
        allocation: Option<u32>,
    ) -> PendingRequest<'a> {
        PendingRequest {
            wanted,
            allocation,
            structured,
            covered: RangeSet::default(),
            chunks: 0,
            refusal: None,
        }
    }

    /// Returns the outcome, after the end of the reply.
    pub(crate) fn outcome(&mut self) -> std::result::Result<(), ServerRefusal> {
        self.refusal.take().map_or(Ok(()), Err)
    }

    /// Receives what follows a head. True at the end of the answer.
    pub(crate) fn receive(
        &mut self,
        kind: HeadKind,
        link: &dyn PeerLink,
        input: &mut ReceiveBuffer,
    ) -> Result<bool> {
        match kind {
            HeadKind::Simple { error } => self.simple(error, link, input).map(|()| true),
            HeadKind::Chunk { flags, kind, len } => {
                self.chunks += 1;
                if self.chunks > CHUNKS_MAX {
                    return Err(CloseCause::Protocol("the server answers in too many parts"));
                }
                self.chunk(kind, len, link, input)?;
                match flags & chunk::DONE {
                    0 if kind == chunk::NONE => Err(ODD_CHUNK),
                    0 => Ok(false),
                    _ => self.end().map(|()| true),
                }
            }
        }
    }

    fn simple(&mut self, error: u32, link: &dyn PeerLink, input: &mut ReceiveBuffer) -> Result<()> {
        if self.chunks > 0 {
            return Err(ODD_CHUNK);
        }
        match (error, &mut self.wanted) {
            (0, ExpectedReply::Nothing) => {}
            (0, ExpectedReply::Data { buf, .. }) if !self.structured => {
                input.read_into(link, buf)?
            }
            (0, ExpectedReply::Data { .. } | ExpectedReply::Status { .. }) => {
                return Err(CloseCause::Protocol(
                    "the answer of the server lacks the requested data",
                ));
            }
            (errno, _) => {
                let said = String::new();
                self.refusal = Some(ServerRefusal { errno, said });
            }
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        kind: u16,
        len: u32,
        link: &dyn PeerLink,
        input: &mut ReceiveBuffer,
    ) -> Result<()> {
        match kind {
            chunk::NONE if len == 0 => Ok(()),
            chunk::OFFSET_DATA if len > 8 => {
                let at = U64::read_from_bytes(hear(link, input, 8)?).map_err(|_| ODD_CHUNK)?;
                let piece = self.piece(at.get(), len - 8)?;
                Ok(input.read_into(link, piece)?)
            }
            chunk::OFFSET_HOLE if len == 12 => {
                let hole = HoleRange::read_from_bytes(hear(link, input, 12)?);
                let hole = hole.map_err(|_| ODD_CHUNK)?;
                self.piece(hole.offset.get(), hole.len.get())?.fill(0);
                Ok(())
            }
            chunk::BLOCK_STATUS if (12..=TEXT_MAX).contains(&len) && len % 8 == 4 => {
                let data = hear(link, input, len as usize)?;
                let status = status(data, self.allocation);
                match &mut self.wanted {
                    ExpectedReply::Status { len, found } if found.is_none() => {
                        let mut status = status.ok_or(ODD_CHUNK)?;
                        status.len = status.len.min(*len);
                        *found = Some(status);
                        Ok(())
                    }
                    _ => Err(ODD_CHUNK),
                }
            }
            kind if kind & chunk::IS_ERROR != 0 && (4..=TEXT_MAX).contains(&len) => {
                let refusal = refusal(kind, hear(link, input, len as usize)?);
                let refusal = refusal.ok_or(ODD_CHUNK)?;
                self.refusal.get_or_insert(refusal);
                Ok(())
            }
            _ => Err(ODD_CHUNK),
        }
    }

    /// Returns the part of the buffer for these bytes.
    fn piece(&mut self, at: u64, len: u32) -> Result<&mut [u8]> {
        const OUTSIDE: CloseCause =
            CloseCause::Protocol("the server sends data that was not asked for");
        let ExpectedReply::Data { offset, buf } = &mut self.wanted else {
            return Err(OUTSIDE);
        };
        let start = at
            .checked_sub(*offset)
            .and_then(|at| usize::try_from(at).ok());
        let start = start.ok_or(OUTSIDE)?;
        let end = start.checked_add(len as usize).ok_or(OUTSIDE)?;
        let piece = buf.get_mut(start..end).ok_or(OUTSIDE)?;
        match self.covered.add(start, end) {
            true => Ok(piece),
            false => Err(CloseCause::Protocol("the server sends data twice")),
        }
    }

    /// Checks that everything has arrived.
    fn end(&self) -> Result<()> {
        let is_whole = match &self.wanted {
            ExpectedReply::Nothing => true,
            ExpectedReply::Data { buf, .. } => self.covered.is_all(buf.len()),
            ExpectedReply::Status { found, .. } => found.is_some(),
        };
        match is_whole || self.refusal.is_some() {
            true => Ok(()),
            false => Err(CloseCause::Protocol("the server's answer has gaps")),
        }
    }
}

const ODD_CHUNK: CloseCause = CloseCause::Protocol("a part of the server's answer makes no sense");

fn hear<'a>(link: &dyn PeerLink, input: &'a mut ReceiveBuffer, len: usize) -> Result<&'a mut [u8]> {
    match input.fill(link, len)? {
        true => Ok(input.take(len)),
        false => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
    }
}

/// The first range of a chunk that says what is stored where.
fn status(data: &[u8], allocation: Option<u32>) -> Option<RangeStatus> {
    const HOLE: u32 = 1;
    const ZERO: u32 = 2;
    let (context, ranges) = U32::ref_from_prefix(data).ok()?;
    if Some(context.get()) != allocation {
        return None;
    }
    let (range, _) = StoredRange::ref_from_prefix(ranges).ok()?;
    let (len, flags) = (range.len.get(), range.flags.get());
    (len > 0).then_some(RangeStatus {
        len: len.into(),
        is_hole: flags & HOLE != 0,
        is_zero: flags & ZERO != 0,
    })
}

/// Returns the error in a chunk. Chunks of unknown kinds begin with the number of the error too.
fn refusal(kind: u16, data: &[u8]) -> Option<ServerRefusal> {
    let mut fields = FieldReader(data);
    let errno = fields.u32().filter(|errno| *errno != 0)?;
    let said = match kind {
        chunk::ERROR | chunk::ERROR_OFFSET => {
            let len = fields.u16()?;
            let said = fields.bytes(len.into())?;
            match (kind, fields.0.len()) {
                (chunk::ERROR, 0) | (chunk::ERROR_OFFSET, 8) => shown(said),
                _ => return None,
            }
        }
        _ => String::new(),
    };
    Some(ServerRefusal { errno, said })
}

/// Ranges that do not touch each other, by where they begin.
#[derive(Default)]
struct RangeSet(Vec<(usize, usize)>);

impl RangeSet {
    /// Adds a range. False if a part of it is there, or if it is empty.
    fn add(&mut self, start: usize, end: usize) -> bool {
        let next = self.0.partition_point(|(begin, _)| *begin < start);
        let before = next.checked_sub(1).map(|at| self.0[at].1);
        let after = self.0.get(next).map(|(begin, _)| *begin);
        if start >= end || before.is_some_and(|is| is > start) || after.is_some_and(|is| is < end) {
            return false;
        }
        match (before == Some(start), after == Some(end)) {
            (true, true) => self.0[next - 1].1 = self.0.remove(next).1,
            (true, false) => self.0[next - 1].1 = end,
            (false, true) => self.0[next].0 = start,
            (false, false) => self.0.insert(next, (start, end)),
        }
        true
    }

    fn is_all(&self, len: usize) -> bool {
        self.0 == [(0, len)]
    }
}

#[cfg(test)]
mod tests {
    use super::RangeSet;

    #[test]
    fn ranges_come_in_any_order_and_once() {
        let mut covered = RangeSet::default();
        assert!(covered.add(4, 8) && covered.add(12, 16));
        for (start, end) in [(4, 8), (0, 5), (7, 9), (0, 20), (5, 6), (12, 13), (9, 9)] {
            assert!(!covered.add(start, end), "{start}..{end}");
        }
        assert!(covered.add(8, 12) && !covered.is_all(16));
        assert!(covered.add(0, 4) && covered.is_all(16) && !covered.is_all(17));
    }
}
