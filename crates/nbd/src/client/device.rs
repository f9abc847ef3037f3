//! The device.
//!
//! A lost connection fails every request from then on. [`BlockDevice::refresh_size`] connects again: the pool calls it
//! for `pool clear`, and the mapping when it is resized. Nothing else does, because the server may have lost writes that
//! it had answered and that were not flushed. If there were such writes, the next flush fails, once: so the user
//! of the device learns of it as of any disk that loses writes.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use block::{Access, BlockDevice, Error, Result, SectorSizes, Status};
use parking_lot::{RwLock, RwLockReadGuard};

use super::connect::connect;
use super::connection::{Connection, Failed, reason};
use super::handshake::{Agreed, NAME_MAX, negotiate};
use super::remote::Remote;
use super::reply::{Asked, Wanted};
use crate::error::Gone;
use crate::input::Input;
use crate::link::{Link, Socket};
use crate::proto::{self, Kind, Request, can, errno, flag};

/// The largest read or write that is sent as one request.
const PIECE_MAX: u64 = 8 << 20;
/// The largest range to be zeroed with one request, which may take the server as long as writing it.
const ZERO_MAX: u64 = 128 << 20;
/// The largest range to be discarded with one request.
const TRIM_MAX: u64 = 1 << 30;
/// Sectors are no larger than this; nothing here is laid out for more.
const SECTOR_MAX: u32 = 4096;

/// An export of another NBD server.
pub struct RemoteExport {
    remote: Remote,
    access: Access,
    /// Held by each request. So none is under way while another connection takes its place.
    connection: RwLock<Connection>,
    sectors: SectorSizes,
    size: AtomicU64,
    unflushed: Unflushed,
}

/// What the server may lose.
#[derive(Default)]
struct Unflushed {
    /// How many writes it has answered.
    written: AtomicU64,
    /// How many of them a flush has followed, whatever came of that.
    flushed: AtomicU64,
    /// Writes may be lost, and no flush has failed since.
    is_lost: AtomicBool,
}

impl RemoteExport {
    /// Connects to the server. With [`Access::ReadOnly`] nothing is written.
    ///
    /// # Errors
    /// [`Error::Open`]: the server is not there or refuses, or the export cannot be used.
    pub fn open(remote: Remote, access: Access) -> Result<RemoteExport> {
        let connection = open_error(&remote, dial(&remote, access))?;
        let sectors = sectors(&connection.agreed);
        Ok(RemoteExport {
            size: AtomicU64::new(size(&connection.agreed, sectors)),
            connection: RwLock::new(connection),
            sectors,
            remote,
            access,
            unflushed: Unflushed::default(),
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

    /// Refuses what does not lie on the device, or is not made of sectors.
    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.size();
        let device = || self.name();
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(Error::OutOfRange {
                device: device(),
                offset,
                len,
                size,
            });
        }
        let sector = self.sectors.logical;
        match (offset | len).is_multiple_of(sector.into()) {
            true => Ok(()),
            false => Err(Error::Misaligned {
                device: device(),
                offset,
                len,
                sector,
            }),
        }
    }

    fn check_writable(&self) -> Result<()> {
        match self.access {
            Access::Exclusive => Ok(()),
            Access::ReadOnly => Err(Error::ReadOnly {
                device: self.name(),
            }),
        }
    }

    fn ask(
        &self,
        connection: &Connection,
        (kind, flags): (Kind, u16),
        (offset, len): (u64, u64),
        data: &[IoSlice<'_>],
        wanted: Wanted<'_>,
    ) -> std::result::Result<Option<Status>, Failed> {
        let agreed = &connection.agreed;
        let mut asked = Asked::new(wanted, agreed.structured, agreed.allocation);
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
            Wanted::Status { found, .. } => Ok(found),
            Wanted::Nothing | Wanted::Data { .. } => Ok(None),
        }
    }

    /// The largest request that carries data.
    fn piece_max(&self, connection: &Connection) -> u64 {
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
        let write = |at: u64, data: &[IoSlice<'_>]| {
            let len = data.iter().map(|piece| piece.len() as u64).sum();
            let asked = (Kind::Write, flags);
            let done = self.ask(&connection, asked, (at, len), data, Wanted::Nothing);
            done.map_err(|failed| self.failure("writing", (at, len), failed.into()))
        };
        let most = self.piece_max(&connection);
        if len <= most {
            if len > 0 {
                write(offset, pieces)?;
            }
        } else {
            let mut at = offset;
            for batch in cut(pieces, most) {
                write(at, &batch)?;
                at += batch.iter().map(|piece| piece.len() as u64).sum::<u64>();
            }
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

    /// Has a range trimmed or zeroed, in pieces.
    fn each(
        &self,
        connection: &Connection,
        asked: (Kind, u16),
        (offset, len): (u64, u64),
        most: u64,
    ) -> std::result::Result<(), (u64, u64, Failed)> {
        let mut done = 0;
        while done < len {
            let (at, n) = (offset + done, most.min(len - done));
            self.ask(connection, asked, (at, n), &[], Wanted::Nothing)
                .map_err(|failed| (at, n, failed))?;
            done += n;
        }
        Ok(())
    }

    fn write_zeroes(
        &self,
        connection: &Connection,
        range: (u64, u64),
        extra: u16,
    ) -> std::result::Result<(), (u64, u64, Failed)> {
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
        done
    }

    fn flush_on(&self, connection: &RwLockReadGuard<'_, Connection>) -> Result<()> {
        let failure = |source| self.failure("flushing", (0, 0), source);
        let unflushed = &self.unflushed;
        let written = unflushed.written.load(Ordering::Acquire);
        if unflushed.is_lost.swap(false, Ordering::AcqRel) {
            let reason =
                "the connection was lost, and the server may have lost what was not flushed before";
            return Err(failure(io::Error::other(reason)));
        }
        let done = match connection.agreed.can(can::FLUSH) {
            true => {
                let asked = (Kind::Flush, 0);
                self.ask(connection, asked, (0, 0), &[], Wanted::Nothing)
                    .map(drop)
            }
            // Everything was written with FUA.
            false => match connection.lost() {
                Some(lost) => Err(Failed::Lost(lost)),
                None => Ok(()),
            },
        };
        // After a failure too: the caller knows then that writes may be lost.
        unflushed.flushed.fetch_max(written, Ordering::AcqRel);
        done.map_err(|failed| failure(failed.into()))
    }

    /// Connects again after the connection was lost.
    fn connect_again(&self) -> Result<()> {
        let mut connection = self.connection.write();
        if connection.lost().is_none() {
            return Ok(());
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

impl Unflushed {
    fn wrote(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// Another connection takes the place of one that is lost.
    fn connection_ended(&self) {
        let written = self.written.load(Ordering::Acquire);
        if self.flushed.swap(written, Ordering::AcqRel) < written {
            self.is_lost.store(true, Ordering::Release);
        }
    }
}

impl BlockDevice for RemoteExport {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Connects again if the connection is lost.
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
        let most = self.piece_max(&connection) as usize;
        let mut at = offset;
        for buf in buf.chunks_mut(most) {
            let range = (at, buf.len() as u64);
            at += range.1;
            let offset = range.0;
            let wanted = Wanted::Data { offset, buf };
            let done = self.ask(&connection, (Kind::Read, 0), range, &[], wanted);
            done.map_err(|failed| self.failure("reading", range, failed.into()))?;
        }
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

    fn flush(&self) -> Result<()> {
        match self.access {
            Access::ReadOnly => Ok(()),
            Access::Exclusive => self.flush_on(&self.connection.read()),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.check(offset, len)?;
        let connection = self.connection.read();
        if !connection.agreed.can(can::TRIM) {
            return Ok(());
        }
        let range = (offset, len);
        match self.each(&connection, (Kind::Trim, 0), range, TRIM_MAX) {
            // The server need not do it.
            Err((_, _, Failed::Refused(refusal))) if refusal.errno == errno::NOTSUP => Ok(()),
            Err((at, n, failed)) => Err(self.failure("discarding", (at, n), failed.into())),
            Ok(()) => Ok(()),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.check(offset, len)?;
        let connection = self.connection.read();
        if !can_zero(&connection.agreed) {
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
        if !can_zero(&connection.agreed) || !connection.agreed.can(can::FAST_ZERO) {
            return Ok(false);
        }
        match self.write_zeroes(&connection, (offset, len), flag::FAST_ZERO) {
            Err((at, _, Failed::Refused(refusal)))
                if refusal.errno == errno::NOTSUP && at == offset =>
            {
                Ok(false)
            }
            Err((at, n, failed)) => Err(self.failure("zeroing", (at, n), failed.into())),
            Ok(()) => Ok(true),
        }
    }

    fn status_at(&self, offset: u64, len: u64) -> Result<Status> {
        let connection = self.connection.read();
        let sector = u64::from(self.sectors.logical);
        let unknown = Status {
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
        let wanted = Wanted::Status { len, found: None };
        let asked = (Kind::BlockStatus, flag::ONE);
        let found = match self.ask(&connection, asked, (start, len), &[], wanted) {
            Ok(found) => found,
            Err(Failed::Refused(_)) => None,
            Err(failed) => return Err(self.failure("looking at", (start, len), failed.into())),
        };
        let before = offset - start;
        Ok(match found {
            Some(status) if status.len > before => Status {
                len: (status.len - before).min(unknown.len),
                ..status
            },
            _ => unknown,
        })
    }
}

/// Whether zeros can be written without sending them, and be made durable.
fn can_zero(agreed: &Agreed) -> bool {
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

fn open_error<T>(remote: &Remote, opened: io::Result<T>) -> Result<T> {
    opened.map_err(|source| Error::Open {
        path: remote.name.clone(),
        source,
    })
}

/// Connects, and agrees with the server on the export.
fn dial(remote: &Remote, access: Access) -> io::Result<Connection> {
    if remote.export.len() > NAME_MAX {
        let reason = "the name of the export is longer than 4096 bytes";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let end = Instant::now() + remote.patience.connect;
    let fd = connect(&remote.address, end)?;
    let left = end.saturating_duration_since(Instant::now());
    let mut link: Arc<dyn Link> = Arc::new(Socket::new(fd, left));
    let mut input = Input::new();
    let agreed = negotiate(&mut link, &mut input, &remote.export, remote.tls.as_ref());
    let agreed = agreed.map_err(|gone| match &gone {
        Gone::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            let reason = "the server does not answer; it may have all the clients that it allows";
            io::Error::new(io::ErrorKind::TimedOut, reason)
        }
        _ => io::Error::other(reason(&gone)),
    })?;
    check(&agreed, access).map_err(io::Error::other)?;
    Ok(Connection::new(link, input, agreed, remote.patience.answer))
}

/// Whether an export can be used.
fn check(agreed: &Agreed, access: Access) -> std::result::Result<(), String> {
    let sectors = sectors(agreed);
    if agreed.blocks.minimum > SECTOR_MAX {
        return Err(format!(
            "the server takes blocks of at least {} bytes only, and more than {SECTOR_MAX} are not supported",
            agreed.blocks.minimum
        ));
    }
    if i64::try_from(agreed.size).is_err() || size(agreed, sectors) == 0 {
        return Err(format!("an export of {} bytes cannot be used", agreed.size));
    }
    if access == Access::ReadOnly {
        return Ok(());
    }
    if agreed.can(can::READ_ONLY) {
        return Err("the server offers it for reading only".into());
    }
    match agreed.can(can::FLUSH) || agreed.can(can::FUA) {
        true => Ok(()),
        false => Err(
            "the server makes nothing durable: it has neither flush nor FUA; change its configuration".into(),
        ),
    }
}

fn sectors(agreed: &Agreed) -> SectorSizes {
    let logical = agreed.blocks.minimum.max(SectorSizes::COMMON.logical);
    SectorSizes {
        logical,
        physical: agreed
            .blocks
            .preferred
            .clamp(logical, SECTOR_MAX.max(logical)),
    }
}

/// The size in whole sectors.
fn size(agreed: &Agreed, sectors: SectorSizes) -> u64 {
    agreed.size - agreed.size % u64::from(sectors.logical)
}

impl From<Failed> for io::Error {
    fn from(failed: Failed) -> io::Error {
        match failed {
            Failed::Lost(reason) => io::Error::new(io::ErrorKind::NotConnected, reason.to_string()),
            Failed::Refused(refusal) => {
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
