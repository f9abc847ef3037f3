//! Executes requests.

use std::io::IoSlice;
use std::time::Duration;

use block::{BlockDevice, RangeStatus};
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U32;

use crate::error::CloseCause;
use crate::serve::buffers::{LARGE, PIECE, PIECE_LEAST, ReplyBuffers, SMALL_MAX};
use crate::serve::connection::{ExportConnection, Result};
use crate::serve::negotiate::ALLOCATION_ID;
use crate::wire::input::ReceiveBuffer;
use crate::wire::layout::StoredRange;
use crate::wire::proto::{self, Kind, PAYLOAD_MAX, ReplyChunk, Request, errno, flag};

/// An answer tells of at most so many ranges.
const RANGES_MAX: usize = 1024;

/// A request looks for ranges so many times.
const LOOKS_MAX: usize = 4 * RANGES_MAX;
/// A request fetches at most so many bytes for caches: as many as it could read.
const FETCHED_MAX: u64 = PAYLOAD_MAX as u64;
/// Requests that write without data are carried out in parts of so many bytes, and end with the connection.
const PART: u64 = 64 << 20;
/// A read that has to stay in one piece waits so long for memory.
const PATIENCE: Duration = Duration::from_secs(10);

/// An error number of the protocol.
type RequestResult = std::result::Result<(), u32>;

impl ExportConnection<'_> {
    fn device(&self) -> &dyn BlockDevice {
        &**self.session.attached.export().device()
    }

    /// Refuses what cannot be meant.
    pub(crate) fn check(&self, request: &Request) -> RequestResult {
        let Request {
            kind, offset, len, ..
        } = *request;
        let refuse = |number| Err(number);
        if request.flags & !kind.flags() != 0 || matches!(kind, Kind::Unknown(_)) {
            return refuse(errno::INVAL);
        }
        if kind.changes() && self.session.attached.export().is_read_only() {
            return refuse(errno::PERM);
        }
        if kind == Kind::Flush {
            return Ok(());
        }
        let end = offset.checked_add(u64::from(len));
        if end.is_none_or(|end| end > self.session.size) {
            let grows = matches!(kind, Kind::Write | Kind::WriteZeroes);
            return refuse(if grows { errno::NOSPC } else { errno::INVAL });
        }
        let sector = u64::from(self.device().sector_sizes().logical);
        let is_aligned = |n: u64| n.is_multiple_of(sector);
        if len == 0 || !is_aligned(offset) || !is_aligned(len.into()) {
            return refuse(errno::INVAL);
        }
        match kind {
            Kind::Read if len > PAYLOAD_MAX => refuse(errno::OVERFLOW),
            Kind::Read if request.has(flag::DONT_FRAGMENT) && !self.session.structured => {
                refuse(errno::INVAL)
            }
            Kind::Read if request.has(flag::DONT_FRAGMENT) && len as usize > LARGE => {
                refuse(errno::OVERFLOW)
            }
            Kind::BlockStatus if !self.session.allocation => refuse(errno::INVAL),
            _ => Ok(()),
        }
    }

    /// Answers that it is not done.
    pub(crate) fn refuse(
        &self,
        buffers: &mut ReplyBuffers,
        request: &Request,
        error: u32,
    ) -> Result<()> {
        if buffers.is_full() {
            self.send_kept(buffers)?;
        }
        match request.kind {
            Kind::Read | Kind::BlockStatus if self.session.structured => {
                buffers.keep(&proto::error_chunk(request.cookie, error));
            }
            _ => buffers.keep(&proto::simple_reply(request.cookie, error)),
        }
        Ok(())
    }

    fn answer(
        &self,
        buffers: &mut ReplyBuffers,
        request: &Request,
        outcome: RequestResult,
    ) -> Result<()> {
        match outcome {
            Err(error) => self.refuse(buffers, request, error),
            Ok(()) if request.kind.changes() && !request.has(flag::FUA) => {
                if buffers.is_full() {
                    self.send_kept(buffers)?;
                }
                buffers.keep_change(&proto::simple_reply(request.cookie, 0));
                Ok(())
            }
            Ok(()) => self.refuse(buffers, request, 0),
        }
    }

    /// Settles the changes that kept answers tell of. If that fails, the answers become errors.
    pub(crate) fn settle(&self, buffers: &mut ReplyBuffers) {
        if self.session.settles
            && buffers.has_changes()
            && let Err(error) = self.noted(self.device().settle())
        {
            buffers.fail_changes(error);
        }
    }

    /// Carries a request out while no other thread reads the input.
    pub(crate) fn answer_at_once(
        &self,
        request: &Request,
        input: &mut ReceiveBuffer,
        buffers: &mut ReplyBuffers,
    ) -> Result<()> {
        let len = request.len as usize;
        match request.kind {
            Kind::Read if len > SMALL_MAX => self.read_large(request, buffers, PIECE),
            Kind::Write if len > SMALL_MAX => self.write_large(request, input, buffers),
            Kind::Write => {
                if !input.fill(&*self.link, len)? {
                    return Err(CloseCause::Io(std::io::ErrorKind::UnexpectedEof.into()));
                }
                let outcome = self.write(request, input.take(len));
                self.answer(buffers, request, outcome)
            }
            _ => self.answer_without_data(request, buffers),
        }
    }

    /// Carries a request out beside others. What is to be written has been received.
    pub(crate) fn answer_aside(&self, request: &Request, buffers: &mut ReplyBuffers) -> Result<()> {
        let len = request.len as usize;
        match request.kind {
            Kind::Read if len > SMALL_MAX => self.read_large(request, buffers, LARGE)?,
            Kind::Write => {
                let outcome = self.write(request, buffers.payload(len));
                self.answer(buffers, request, outcome)?;
            }
            _ => self.answer_without_data(request, buffers)?,
        }
        self.send_kept(buffers)
    }

    fn answer_without_data(&self, request: &Request, buffers: &mut ReplyBuffers) -> Result<()> {
        let Request {
            offset, len, kind, ..
        } = *request;
        let outcome = match kind {
            Kind::Read => return self.read_small(request, buffers),
            Kind::BlockStatus => return self.block_status(request, buffers),
            Kind::Flush if self.session.attached.export().is_read_only() => Ok(()),
            Kind::Flush => self.flush(),
            Kind::Trim => self.trim(request),
            Kind::WriteZeroes => self.write_zeroes(request),
            Kind::Cache => self.cache(offset, len.into()),
            Kind::Write | Kind::Disconnect | Kind::Unknown(_) => Err(errno::INVAL),
        };
        self.answer(buffers, request, outcome)
    }

    /// Makes everything durable. The first flush of a client after a loss fails: it would vouch for what is gone.
    fn flush(&self) -> RequestResult {
        self.noted(self.device().flush())?;
        let export = self.session.attached.export();
        match export.tell_of_loss(&self.session.client) {
            false => Ok(()),
            true => {
                let (export, client) = (export.name(), &self.session.client);
                tracing::warn!(
                    export,
                    client,
                    "a flush fails: changes from before may be lost"
                );
                Err(errno::IO)
            }
        }
    }

    /// The number for what a device failed with, of which the log has more.
    fn noted<T>(&self, outcome: block::Result<T>) -> std::result::Result<T, u32> {
        outcome.map_err(|error| {
            if let Some(failures) = self.failures.next_line() {
                let export = self.session.attached.export().name();
                tracing::warn!(export, %error, failures, "a request failed");
            }
            match &error {
                _ if error.is_no_space() => errno::NOSPC,
                block::Error::ReadOnly { .. } => errno::PERM,
                block::Error::OutOfRange { .. } => errno::INVAL,
                _ => errno::IO,
            }
        })
    }

    fn read_small(&self, request: &Request, buffers: &mut ReplyBuffers) -> Result<()> {
        if buffers.is_full() {
            self.send_kept(buffers)?;
        }
        let Request {
            cookie,
            offset,
            len,
            ..
        } = *request;
        let fill = |out: &mut [u8]| {
            let read = self.timed(out.len(), || self.device().read_at(offset, out));
            self.noted(read)
        };
        let outcome = match self.session.structured {
            true => buffers.keep_with(
                &proto::data_head(cookie, true, offset, len),
                len as usize,
                fill,
            ),
            false => buffers.keep_with(&proto::simple_reply(cookie, 0), len as usize, fill),
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.refuse(buffers, request, error),
        }
    }

    /// Reads and sends one piece after the other.
    fn read_large(
        &self,
        request: &Request,
        buffers: &mut ReplyBuffers,
        piece: usize,
    ) -> Result<()> {
        self.send_kept(buffers)?;
        let len = request.len as usize;
        let is_whole = request.has(flag::DONT_FRAGMENT) || self.session.reads_whole;
        let piece = match is_whole {
            true if buffers.reserve_all(len, PATIENCE) => len,
            true => return self.refuse(buffers, request, errno::NOMEM),
            false => buffers.reserve(piece.min(len)),
        };
        // A simple answer has one head: nothing may come between its pieces.
        let mut whole = None;
        let mut done = 0;
        while done < len {
            let n = piece.min(len - done);
            let offset = request.offset + done as u64;
            let out = buffers.payload(n);
            let read = self.timed(n, || self.device().read_at(offset, out));
            if let Err(error) = self.noted(read) {
                if whole.is_some() {
                    return Err(CloseCause::Protocol(
                        "the device failed in the middle of an answer",
                    ));
                }
                return self.refuse(buffers, request, error);
            }
            let is_last = done + n == len;
            if self.session.structured {
                let head = proto::data_head(request.cookie, is_last, offset, n as u32);
                self.send(buffers.headed(&head, n))?;
            } else if done == 0 {
                whole = Some(self.sending());
                let head = proto::simple_reply(request.cookie, 0);
                self.link.send(buffers.headed(&head, n))?;
            } else {
                self.link.send(buffers.payload(n))?;
            }
            done += n;
        }
        Ok(())
    }

    fn write(&self, request: &Request, payload: &mut [u8]) -> RequestResult {
        let (device, offset) = (self.device(), request.offset);
        self.noted(match request.has(flag::FUA) {
            true => device.write_durably_at(offset, &[IoSlice::new(payload)]),
            false => self.timed(payload.len(), || device.write_in_place(offset, payload)),
        })
    }

    /// Receives and writes one piece after the other.
    fn write_large(
        &self,
        request: &Request,
        input: &mut ReceiveBuffer,
        buffers: &mut ReplyBuffers,
    ) -> Result<()> {
        self.send_kept(buffers)?;
        let len = request.len as usize;
        let piece = buffers.reserve(PIECE.min(len));
        let mut outcome = Ok(());
        let mut done = 0;
        while done < len {
            let n = piece.min(len - done);
            let offset = request.offset + done as u64;
            let payload = buffers.payload(n);
            input.read_into(&*self.link, payload)?;
            if outcome.is_ok() {
                let written = self.timed(n, || self.device().write_in_place(offset, payload));
                outcome = self.noted(written);
            }
            done += n;
        }
        if outcome.is_ok() && request.has(flag::FUA) {
            outcome = self.noted(self.device().flush());
        }
        self.answer(buffers, request, outcome)
    }

    fn trim(&self, request: &Request) -> RequestResult {
        self.in_parts(request, |offset, len| {
            self.noted(self.device().discard(offset, len))
        })?;
        self.flush_if(request)
    }

    fn write_zeroes(&self, request: &Request) -> RequestResult {
        let device = self.device();
        match (request.has(flag::NO_HOLE), request.has(flag::FAST_ZERO)) {
            (true, true) => return Err(errno::NOTSUP),
            (true, false) => {
                self.in_parts(request, |offset, len| {
                    self.noted(device.overwrite(offset, len))
                })?;
            }
            (false, false) => {
                self.in_parts(request, |offset, len| self.noted(device.zero(offset, len)))?;
            }
            (false, true) => {
                let is_done = device.zero_fast(request.offset, request.len.into());
                if !self.noted(is_done)? {
                    return Err(errno::NOTSUP);
                }
            }
        }
        self.flush_if(request)
    }

    /// Carries a request out in parts, as long as the connection is there.
    fn in_parts(
        &self,
        request: &Request,
        act: impl Fn(u64, u64) -> RequestResult,
    ) -> RequestResult {
        let (mut at, end) = (request.offset, request.offset + u64::from(request.len));
        while at < end {
            if self.link.is_cut() {
                return Err(errno::IO);
            }
            // No boundary of parts is within a block of a volume, also if the request begins within one.
            let len = (PART - at % PART).min(end - at);
            act(at, len)?;
            at += len;
        }
        Ok(())
    }

    fn flush_if(&self, request: &Request) -> RequestResult {
        match request.has(flag::FUA) {
            true => self.noted(self.device().flush()),
            false => Ok(()),
        }
    }

    /// Reads the first of what is to be read soon, so that it is in whatever cache there is.
    fn cache(&self, offset: u64, len: u64) -> RequestResult {
        let len = len.min(FETCHED_MAX);
        let mut room = vec![0; len.min(PIECE_LEAST as u64) as usize];
        let mut done = 0;
        while done < len {
            let n = room.len().min((len - done) as usize);
            self.noted(self.device().read_at(offset + done, &mut room[..n]))?;
            done += n as u64;
        }
        Ok(())
    }

    fn block_status(&self, request: &Request, buffers: &mut ReplyBuffers) -> Result<()> {
        let ranges = match self.ranges(request) {
            Ok(ranges) => ranges,
            Err(error) => return self.refuse(buffers, request, error),
        };
        self.send_kept(buffers)?;
        let stored = |range: RangeStatus| StoredRange {
            len: (range.len as u32).into(),
            flags: (u32::from(range.is_hole) | u32::from(range.is_zero) << 1).into(),
        };
        let ranges: Vec<StoredRange> = ranges.into_iter().map(stored).collect();
        let context = U32::new(ALLOCATION_ID);
        let data = [context.as_bytes(), ranges.as_bytes()].concat();
        let (kind, len) = (ReplyChunk::BlockStatus, data.len() as u32);
        let head = proto::chunk_head(request.cookie, kind, true, len);
        self.send(&[head.as_bytes(), &data].concat())
    }

    /// Returns the holes and the data of the range, as far as they fit. Each range is whole sectors: a sector that is
    /// partly data is data.
    fn ranges(&self, request: &Request) -> std::result::Result<Vec<RangeStatus>, u32> {
        let sector = u64::from(self.device().sector_sizes().logical);
        let max = if request.has(flag::ONE) {
            1
        } else {
            RANGES_MAX
        };
        let (mut at, end) = (request.offset, request.offset + u64::from(request.len));
        let mut ranges: Vec<RangeStatus> = Vec::new();
        for _ in 0..LOOKS_MAX {
            if at >= end {
                break;
            }
            let mut found = self.noted(self.device().status_at(at, end - at))?;
            found.len -= found.len % sector;
            if found.len == 0 {
                found = RangeStatus {
                    len: sector,
                    is_hole: false,
                    is_zero: false,
                };
            }
            at += found.len;
            let is_full = ranges.len() == max;
            match ranges.last_mut() {
                Some(last) if (last.is_hole, last.is_zero) == (found.is_hole, found.is_zero) => {
                    last.len += found.len;
                }
                _ if is_full => break,
                _ => ranges.push(found),
            }
        }
        Ok(ranges)
    }
}
