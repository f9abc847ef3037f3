//! The device.
//!
//! A lost connection fails every request from then on. [`BlockDevice::refresh_size`] connects again: the pool calls it
//! for `pool clear` and when it looks for growth, the mapping when it is resized. The server may have lost writes that
//! it had answered and that were not flushed. If there are such writes, it connects again only after a write or a flush
//! has failed, and a flush fails once: so the user of the device learns of it as of any disk that loses writes.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::{BlockDevice, DeviceAccess, Error, IoMode, RangeStatus, Result, SectorSizes};
use parking_lot::{RwLock, RwLockReadGuard};

use super::connection::{ClientConnection, RequestFailure};
use super::dial::{dial, open_error, sectors, size};
use super::handshake::RemoteParameters;
use super::remote::Remote;
use super::reply::{ExpectedReply, PendingRequest};
use crate::wire::proto::{self, Kind, Request, can, errno, flag};

/// The largest read or write that is sent as one request.
const PIECE_MAX: u64 = 8 << 20;
/// The largest range to be zeroed with one request, which may take the server as long as writing it.
const ZERO_MAX: u64 = 128 << 20;
/// The largest range to be discarded with one request.
const TRIM_MAX: u64 = 1 << 30;

/// An export of another NBD server.
pub struct RemoteExport {
    remote: Remote,
    access: DeviceAccess,
    /// Held by each request. So none is under way while another connection takes its place.
    connection: RwLock<ClientConnection>,
    sectors: SectorSizes,
    size: AtomicU64,
    unflushed: UnflushedWrites,
    /// Held alone while a part of a block is written, which reads the rest of it first.
    writing: RwLock<()>,
}

/// The writes that the server may lose.
#[derive(Default)]
struct UnflushedWrites {
    /// The number of writes that the server has answered.
    written: AtomicU64,
    /// The number of these writes that a flush has followed, with or without success.
    flushed: AtomicU64,
    /// Writes may be lost, and no flush has failed since.
    is_lost: AtomicBool,
    /// True if a write or a flush has failed since the connection was lost.
    is_told: AtomicBool,
}

impl RemoteExport {
    /// Connects to the server. With [`DeviceAccess::ReadOnly`] nothing is written.
    ///
    /// # Errors
    /// [`Error::Open`]: the server is not there or refuses, or the export cannot be used.
    pub fn open(remote: Remote, access: DeviceAccess) -> Result<RemoteExport> {
        let connection = open_error(&remote, dial(&remote, access))?;
        let sectors = sectors(&connection.agreed);
        Ok(RemoteExport {
            size: AtomicU64::new(size(&connection.agreed, sectors)),
            connection: RwLock::new(connection),
            sectors,
            remote,
            access,
            unflushed: UnflushedWrites::default(),
            writing: RwLock::new(()),
        })
    }

    fn failure(
        &self,
        operation: &'static str,
        (offset, len): (u64, u64),
        source: io::Error,
    ) -> Error {
        Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source,
        }
    }

    /// Refuses what does not lie on the device.
    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.size();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Error::OutOfRange {
                device: self.name(),
                offset,
                len,
                size,
            }),
        }
    }

    fn check_writable(&self) -> Result<()> {
        match self.access {
            DeviceAccess::Exclusive => Ok(()),
            DeviceAccess::ReadOnly => Err(Error::ReadOnly {
                device: self.name(),
            }),
        }
    }

    fn ask(
        &self,
        connection: &ClientConnection,
        (kind, flags): (Kind, u16),
        (offset, len): (u64, u64),
        data: &[IoSlice<'_>],
        wanted: ExpectedReply<'_>,
    ) -> std::result::Result<Option<RangeStatus>, RequestFailure> {
        let agreed = &connection.agreed;
        let mut asked = PendingRequest::new(wanted, agreed.structured, agreed.allocation);
        let request = Request {
            flags,
            kind,
            cookie: 0,
            offset,
            // Ranges are cut into pieces before.
            len: len as u32,
        };
        connection.ask(request, data, &mut asked)?;
        match asked.wanted {
            ExpectedReply::Status { found, .. } => Ok(found),
            ExpectedReply::Nothing | ExpectedReply::Data { .. } => Ok(None),
        }
    }

    /// The largest request that carries data.
    fn piece_max(&self, connection: &ClientConnection) -> u64 {
        let sector = u64::from(self.sectors.logical);
        let most = u64::from(connection.agreed.blocks.maximum).min(PIECE_MAX);
        (most - most % sector).max(sector)
    }

    fn write(&self, offset: u64, pieces: &[IoSlice<'_>], is_durable: bool) -> Result<()> {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.check_writable()?;
        self.check(offset, len)?;
        let connection = self.connection.read();
        let can_flush = connection.agreed.can(can::FLUSH);
        let can_fua = connection.agreed.can(can::FUA);
        let flags = match can_fua && (is_durable || !can_flush) {
            true => flag::FUA,
            false => 0,
        };
        if blocks_around(&connection, (offset, len)) == (offset, len) {
            let _writing = self.writing.read();
            self.write_blocks(&connection, (offset, len), pieces, flags)?;
        } else {
            let _writing = self.writing.write();
            self.write_in_blocks(&connection, (offset, len), pieces, flags)?;
        }
        match flags & flag::FUA {
            0 => self.unflushed.wrote(),
            _ => return Ok(()),
        }
        match is_durable {
            true => self.flush_on(&connection),
            false => Ok(()),
        }
    }

    /// Writes whole blocks.
    fn write_blocks(
        &self,
        connection: &ClientConnection,
        (offset, len): (u64, u64),
        pieces: &[IoSlice<'_>],
        flags: u16,
    ) -> Result<()> {
        let write = |range: (u64, u64), data: &[IoSlice<'_>]| {
            let done = self.ask(
                connection,
                (Kind::Write, flags),
                range,
                data,
                ExpectedReply::Nothing,
            );
            done.map_err(|failed| {
                self.unflushed.tell(&failed);
                self.failure("writing", range, failed.into())
            })
        };
        let most = self.piece_max(connection);
        if len <= most {
            return match len {
                0 => Ok(()),
                _ => write((offset, len), pieces).map(drop),
            };
        }
        let mut at = offset;
        for batch in cut(pieces, most) {
            let len = batch.iter().map(|piece| piece.len() as u64).sum();
            write((at, len), &batch)?;
            at += len;
        }
        Ok(())
    }

    /// Writes what is not made of whole blocks: with the rest of the first and the last one, which are read.
    fn write_in_blocks(
        &self,
        connection: &ClientConnection,
        range: (u64, u64),
        pieces: &[IoSlice<'_>],
        flags: u16,
    ) -> Result<()> {
        let (start, whole) = blocks_around(connection, range);
        let mut blocks = vec![0; whole as usize];
        self.read_blocks(connection, start, &mut blocks)?;
        let mut at = (range.0 - start) as usize;
        for piece in pieces {
            blocks[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        self.write_blocks(connection, (start, whole), &[IoSlice::new(&blocks)], flags)
    }

    /// Reads whole blocks.
    fn read_blocks(
        &self,
        connection: &ClientConnection,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let mut at = offset;
        for buf in buf.chunks_mut(self.piece_max(connection) as usize) {
            let range = (at, buf.len() as u64);
            let wanted = ExpectedReply::Data { offset: at, buf };
            let done = self.ask(connection, (Kind::Read, 0), range, &[], wanted);
            done.map_err(|failed| self.failure("reading", range, failed.into()))?;
            at += range.1;
        }
        Ok(())
    }

    /// Has a range trimmed or zeroed, in pieces. They end at multiples of `most`, so that no boundary of pieces is within a
    /// block of the server's volume.
    fn each(
        &self,
        connection: &ClientConnection,
        asked: (Kind, u16),
        (offset, len): (u64, u64),
        most: u64,
    ) -> std::result::Result<(), (u64, u64, RequestFailure)> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let n = (most - at % most).min(end - at);
            self.ask(connection, asked, (at, n), &[], ExpectedReply::Nothing)
                .map_err(|failed| (at, n, failed))?;
            at += n;
        }
        Ok(())
    }

    fn write_zeroes(
        &self,
        connection: &ClientConnection,
        range: (u64, u64),
        extra: u16,
    ) -> std::result::Result<(), (u64, u64, RequestFailure)> {
        let fua = match connection.agreed.can(can::FLUSH) {
            true => 0,
            false => flag::FUA,
        };
        let done = self.each(
            connection,
            (Kind::WriteZeroes, fua | extra),
            range,
            ZERO_MAX,
        );
        if fua == 0 {
            // Some of it may have been done before a failure.
            self.unflushed.wrote();
        }
        done.inspect_err(|(_, _, failed)| self.unflushed.tell(failed))
    }

    fn flush_on(&self, connection: &RwLockReadGuard<'_, ClientConnection>) -> Result<()> {
        let failure = |source| self.failure("flushing", (0, 0), source);
        let unflushed = &self.unflushed;
        let written = unflushed.written.load(Ordering::Acquire);
        if unflushed.is_lost.swap(false, Ordering::AcqRel) {
            let reason = "the connection was lost, and the server may have lost writes that were not flushed";
            return Err(failure(io::Error::other(reason)));
        }
        let done = match connection.agreed.can(can::FLUSH) {
            true => {
                let asked = (Kind::Flush, 0);
                self.ask(connection, asked, (0, 0), &[], ExpectedReply::Nothing)
                    .map(drop)
            }
            // Everything was written with FUA.
            false => match connection.lost() {
                Some(lost) => Err(RequestFailure::Lost(lost)),
                None => Ok(()),
            },
        };
        // After a failure too: the caller knows then that writes may be lost.
        unflushed.flushed.fetch_max(written, Ordering::AcqRel);
        done.map_err(|failed| {
            unflushed.tell(&failed);
            failure(failed.into())
        })
    }

    /// Connects again after the connection was lost.
    fn connect_again(&self) -> Result<()> {
        let mut connection = self.connection.write();
        let Some(lost) = connection.lost() else {
            return Ok(());
        };
        if !self.unflushed.may_end() {
            return Err(self.failure(
                "asking for the size",
                (0, 0),
                RequestFailure::Lost(lost).into(),
            ));
        }
        let new = open_error(&self.remote, dial(&self.remote, self.access))?;
        let new_sectors = sectors(&new.agreed);
        if new_sectors.logical > self.sectors.logical {
            let reason = format!("its blocks are now {} bytes long", new_sectors.logical);
            return open_error(&self.remote, Err(io::Error::other(reason)));
        }
        self.size
            .store(size(&new.agreed, self.sectors), Ordering::Release);
        self.unflushed.connection_ended();
        *connection = new;
        tracing::info!(device = self.remote.name, "connected again");
        Ok(())
    }
}

impl UnflushedWrites {
    fn wrote(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// A write or a flush has failed.
    fn tell(&self, failed: &RequestFailure) {
        if matches!(failed, RequestFailure::Lost(_)) {
            self.is_told.store(true, Ordering::Release);
        }
    }

    /// Returns whether another connection may replace the lost one.
    fn may_end(&self) -> bool {
        let written = self.written.load(Ordering::Acquire);
        self.is_told.load(Ordering::Acquire) || self.flushed.load(Ordering::Acquire) == written
    }

    /// Another connection takes the place of one that is lost.
    fn connection_ended(&self) {
        let written = self.written.load(Ordering::Acquire);
        self.is_told.store(false, Ordering::Release);
        if self.flushed.swap(written, Ordering::AcqRel) < written {
            self.is_lost.store(true, Ordering::Release);
        }
    }
}

impl BlockDevice for RemoteExport {
    block::plain_methods!(claim check_unreserved is_blank overwrite);

    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Connects again if the connection is lost, unless writes may be lost of which the user does not know.
    fn refresh_size(&self) -> Result<u64> {
        let is_lost = self.connection.read().lost().is_some();
        if is_lost {
            self.connect_again()?;
        }
        Ok(self.size())
    }

    fn sector_sizes(&self) -> SectorSizes {
        self.sectors
    }

    fn name(&self) -> String {
        self.remote.name.clone()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check(offset, buf.len() as u64)?;
        let connection = self.connection.read();
        let range = (offset, buf.len() as u64);
        let (start, whole) = blocks_around(&connection, range);
        if (start, whole) == range {
            return self.read_blocks(&connection, offset, buf);
        }
        let mut blocks = vec![0; whole as usize];
        self.read_blocks(&connection, start, &mut blocks)?;
        buf.copy_from_slice(&blocks[(offset - start) as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.write(offset, pieces, false)
    }

    fn write_durably_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.write(offset, pieces, true)
    }

    /// Each write waits for the answer of the server.
    fn waits_on_write(&self) -> bool {
        true
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn io_mode(&self) -> Option<IoMode> {
        None
    }

    /// The server has each write that it answered.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// The caches of the server are its own.
    fn drop_cached(&self) -> Result<()> {
        Ok(())
    }

    fn begin_anew(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        match self.access {
            DeviceAccess::ReadOnly => Ok(()),
            DeviceAccess::Exclusive => self.flush_on(&self.connection.read()),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.check(offset, len)?;
        let connection = self.connection.read();
        // Blocks of which a part is needed stay.
        let block = u64::from(connection.agreed.blocks.minimum);
        let start = offset.next_multiple_of(block);
        let end = offset + len - (offset + len) % block;
        if !connection.agreed.can(can::TRIM) || start >= end {
            return Ok(());
        }
        let range = (start, end - start);
        match self.each(&connection, (Kind::Trim, 0), range, TRIM_MAX) {
            // The server need not do it.
            Err((_, _, RequestFailure::Refused(refusal))) if refusal.errno == errno::NOTSUP => {
                Ok(())
            }
            Err((at, n, failed)) => Err(self.failure("discarding", (at, n), failed.into())),
            Ok(()) => Ok(()),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.check(offset, len)?;
        let connection = self.connection.read();
        if !can_zero(&connection.agreed)
            || blocks_around(&connection, (offset, len)) != (offset, len)
        {
            drop(connection);
            return self.overwrite(offset, len);
        }
        let done = self.write_zeroes(&connection, (offset, len), 0);
        done.map_err(|(at, n, failed)| self.failure("zeroing", (at, n), failed.into()))
    }

    fn zero_fast(&self, offset: u64, len: u64) -> Result<bool> {
        self.check_writable()?;
        self.check(offset, len)?;
        let connection = self.connection.read();
        let are_blocks = blocks_around(&connection, (offset, len)) == (offset, len);
        let agreed = &connection.agreed;
        if !are_blocks || !can_zero(agreed) || !agreed.can(can::FAST_ZERO) {
            return Ok(false);
        }
        match self.write_zeroes(&connection, (offset, len), flag::FAST_ZERO) {
            Err((at, _, RequestFailure::Refused(refusal)))
                if refusal.errno == errno::NOTSUP && at == offset =>
            {
                Ok(false)
            }
            Err((at, n, failed)) => Err(self.failure("zeroing", (at, n), failed.into())),
            Ok(()) => Ok(true),
        }
    }

    fn status_at(&self, offset: u64, len: u64) -> Result<RangeStatus> {
        let connection = self.connection.read();
        let sector = u64::from(self.sectors.logical);
        let unknown = RangeStatus {
            len,
            is_hole: false,
            is_zero: false,
        };
        // A server may be asked for whole sectors only.
        let start = offset - offset % sector;
        let end = (offset + len).next_multiple_of(sector).min(self.size());
        let len = (end - start).min(ZERO_MAX);
        if connection.agreed.allocation.is_none() {
            return Ok(unknown);
        }
        let wanted = ExpectedReply::Status { len, found: None };
        let asked = (Kind::BlockStatus, flag::ONE);
        let found = match self.ask(&connection, asked, (start, len), &[], wanted) {
            Ok(found) => found,
            Err(RequestFailure::Refused(_)) => None,
            Err(failed) => return Err(self.failure("looking at", (start, len), failed.into())),
        };
        let before = offset - start;
        Ok(match found {
            Some(status) if status.len > before => RangeStatus {
                len: (status.len - before).min(unknown.len),
                ..status
            },
            _ => unknown,
        })
    }
}

/// The range made of whole blocks that has all of this one.
fn blocks_around(connection: &ClientConnection, (offset, len): (u64, u64)) -> (u64, u64) {
    let block = u64::from(connection.agreed.blocks.minimum);
    let start = offset - offset % block;
    match len {
        0 => (offset, 0),
        _ => (start, (offset + len).next_multiple_of(block) - start),
    }
}

/// Returns whether zeros can be written without sending them, and be made durable.
fn can_zero(agreed: &RemoteParameters) -> bool {
    agreed.can(can::WRITE_ZEROES) && (agreed.can(can::FLUSH) || agreed.can(can::FUA))
}

/// Pieces of writes, cut so that no batch has more than `most` bytes.
fn cut<'a>(pieces: &'a [IoSlice<'a>], most: u64) -> Vec<Vec<IoSlice<'a>>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut batches = vec![Vec::new()];
    let mut left = most;
    for piece in pieces {
        let mut rest: &[u8] = piece;
        while !rest.is_empty() {
            if left == 0 {
                batches.push(Vec::new());
                left = most;
            }
            let (part, behind) = rest.split_at(rest.len().min(left));
            if let Some(batch) = batches.last_mut() {
                batch.push(IoSlice::new(part));
            }
            (rest, left) = (behind, left - part.len());
        }
    }
    batches
}

impl From<RequestFailure> for io::Error {
    fn from(failed: RequestFailure) -> io::Error {
        match failed {
            RequestFailure::Lost(reason) => {
                io::Error::new(io::ErrorKind::NotConnected, reason.to_string())
            }
            RequestFailure::Refused(refusal) => {
                let code = match refusal.errno {
                    proto::errno::NOSPC => return io::ErrorKind::StorageFull.into(),
                    code => i32::try_from(code).unwrap_or(i32::MAX),
                };
                match refusal.said.is_empty() {
                    true => io::Error::from_raw_os_error(code),
                    false => io::Error::other(format!("the server says: {}", refusal.said)),
                }
            }
        }
    }
}
