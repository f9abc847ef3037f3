//! The device that a pool uses.

use std::io::{self, IoSlice};
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, IoMode, Loss, RangeStatus, SectorSizes};

use super::append::LineChange;
use super::create;
use super::line::{Line, LineLimits};
use super::outage::StoreMonitor;
use crate::Error;
use crate::line::extent_map::MapPiece;
use crate::line::log_object::{RunKind, WriterId};
use crate::line::pool_object::DeviceFacts;
use crate::store::waits::{OutageObserver, StorePatience};
use crate::store::{Executor, ObjectStore};

/// A line is taken over so often while other machines take it too.
const TAKEOVERS: usize = 8;

/// A block device on an object store.
pub struct ObjectDevice {
    pub(super) line: Arc<Line>,
    is_read_only: bool,
}

impl ObjectDevice {
    /// Makes an empty device of `size` bytes. The pool on it has headers of `header_size` bytes at its start and its end.
    ///
    /// # Errors
    /// The address has objects already, or the store refuses or does not answer.
    pub fn create(
        store: &Arc<dyn ObjectStore>,
        executor: &Arc<dyn Executor>,
        size: u64,
        header_size: u64,
    ) -> Result<(), Error> {
        let facts = DeviceFacts::new(random()?, size, header_size);
        finish(&**executor, create::create(&**store, &facts))
    }

    /// Reads the line. With [`DeviceAccess::Exclusive`] the first write takes the line; from then on the writes of an older
    /// writer fail with [`block::Error::ClaimLost`]. Requests wait for the store as long as the patience lasts, which
    /// several devices share. The observer hears of outages.
    ///
    /// # Errors
    /// There is no pool, an object is damaged or missing, or the store refuses or does not answer.
    pub fn open(
        store: Arc<dyn ObjectStore>,
        executor: Arc<dyn Executor>,
        access: DeviceAccess,
        waits: (&Arc<StorePatience>, OutageObserver),
    ) -> Result<ObjectDevice, Error> {
        Ok(ObjectDevice {
            line: read_line((store, executor), waits, None)?,
            is_read_only: access == DeviceAccess::ReadOnly,
        })
    }

    /// The same device for another user, with all that was read of it. `None` if it has changed since it was opened: then it
    /// has to be opened anew.
    ///
    /// # Errors
    /// The store refuses or does not answer.
    pub fn reopen(&self, access: DeviceAccess) -> Result<Option<ObjectDevice>, Error> {
        let line = &self.line;
        let is_same = finish(
            &*line.executor,
            create::within((&*line.store, &*line.executor), line.is_unchanged()),
        )?;
        Ok(is_same.then(|| ObjectDevice {
            line: Arc::clone(line),
            is_read_only: access == DeviceAccess::ReadOnly,
        }))
    }

    /// Takes the line, also from a writer that is alive, and reads it. The writes of an older writer fail from then on.
    /// `seen` is the device as it was read before, if it was. `open` reads it.
    ///
    /// # Errors
    /// As [`ObjectDevice::open`]; other machines take the line again and again.
    pub fn take_over<E: From<Error>>(
        seen: Option<&ObjectDevice>,
        open: impl Fn() -> Result<ObjectDevice, E>,
    ) -> Result<ObjectDevice, E> {
        let mut attempts = 0;
        loop {
            let line = match seen.filter(|_| attempts == 0) {
                Some(seen) => Arc::clone(&seen.line),
                None => Arc::clone(&open()?.line),
            };
            match finish(
                &*line.executor,
                create::within((&*line.store, &*line.executor), line.take_over()),
            ) {
                Ok(()) => {
                    return Ok(ObjectDevice {
                        line,
                        is_read_only: false,
                    });
                }
                Err(Error::Changed { .. }) if attempts < TAKEOVERS => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A device that nothing can be written to, as one that was made: it says whether a new one can be made.
    ///
    /// # Errors
    /// As [`ObjectDevice::create`].
    pub fn rehearse(
        store: Arc<dyn ObjectStore>,
        executor: Arc<dyn Executor>,
        size: u64,
        header_size: u64,
    ) -> Result<ObjectDevice, Error> {
        finish(&*executor, create::check_free(&*store))?;
        let facts = DeviceFacts::new(random()?, size, header_size);
        let how = (LineLimits::of(&facts), random()?);
        Ok(ObjectDevice {
            line: Arc::new(Line::new(store, executor, facts, how)),
            is_read_only: true,
        })
    }

    /// Removes all objects of a device, readable or not. Objects with names that no device gives stay. Returns the number
    /// of objects. It takes the line first, so that the writer of a machine that still has the pool fails.
    ///
    /// # Errors
    /// The store refuses, or does not answer for long.
    pub fn remove(store: Arc<dyn ObjectStore>, executor: Arc<dyn Executor>) -> Result<u64, Error> {
        let known = finish(&*executor, create::read_facts((&*store, &*executor)));
        let (facts, checkpoints) = match known {
            Ok((facts, checkpoints)) => (Some(facts), checkpoints),
            Err(error) if error.says_unreadable() => (None, None),
            Err(error) => return Err(error),
        };
        let is_readable = facts.is_some();
        let facts = facts.unwrap_or_else(|| DeviceFacts::new([0; 16], 0, 0));
        let how = (LineLimits::of(&facts), random()?);
        let line = Arc::new(Line::new(store, executor, facts, how));
        if is_readable {
            finish(
                &*line.executor,
                create::within(
                    (&*line.store, &*line.executor),
                    line.take_to_remove(checkpoints),
                ),
            )?;
        }
        let removed = finish(&*line.executor, create::remove(&line));
        line.end();
        removed
    }

    /// Removes all objects of this device, which was opened to be read. Its last writer must have ended before that, and no
    /// other machine may have taken the line since. It takes the line first, so that this stays so. Returns the number of
    /// objects.
    ///
    /// # Errors
    /// [`Error::Changed`]: another machine may use the device, and nothing is removed; as [`ObjectDevice::remove`].
    pub fn remove_unchanged(&self) -> Result<u64, Error> {
        let line = &self.line;
        let on = (&*line.store, &*line.executor);
        finish(&*line.executor, create::within(on, line.take_released()))?;
        let removed = finish(&*line.executor, create::remove(line));
        line.end();
        removed
    }

    /// Opens the device again to read its newest state, with the same store. `None` if this device has that state. Objects
    /// that this device has read are not read again.
    ///
    /// # Errors
    /// As [`ObjectDevice::open`].
    pub fn open_newer(
        &self,
        waits: (&Arc<StorePatience>, OutageObserver),
    ) -> Result<Option<ObjectDevice>, Error> {
        // A device whose patience has ended sends no request. Then only a new one can read the state.
        if self.is_current().unwrap_or(false) {
            return Ok(None);
        }
        let old = &self.line;
        let on = (Arc::clone(&old.store), Arc::clone(&old.executor));
        Ok(Some(ObjectDevice {
            line: read_line(on, waits, Some(old))?,
            is_read_only: true,
        }))
    }

    /// Returns whether objects of the state of this reader are known to be removed.
    pub fn is_outdated(&self) -> bool {
        self.line.state().is_outdated
    }

    /// Returns whether nothing was written to the line since this device was opened. Then all objects of its state stay.
    ///
    /// # Errors
    /// The store refuses, or does not answer for long.
    pub(super) fn is_current(&self) -> Result<bool, Error> {
        finish(
            &*self.line.executor,
            create::within(
                (&*self.line.store, &*self.line.executor),
                self.line.is_current(),
            ),
        )
    }

    /// Checks that the store answers, and lets this machine read and list objects.
    ///
    /// # Errors
    /// The store refuses or does not answer.
    pub fn check(store: &Arc<dyn ObjectStore>, executor: &Arc<dyn Executor>) -> Result<(), Error> {
        let checked = create::within((&**store, &**executor), create::check(&**store));
        finish(&**executor, checked)
    }

    /// A look at the store while the device is open.
    pub fn monitor(&self) -> StoreMonitor {
        StoreMonitor(Arc::downgrade(&self.line))
    }

    /// Ends all requests, answered or not: each fails from now on. What was not durable may be lost.
    pub fn abandon(&self) {
        self.line.fail(Error::Unanswered {
            store: self.line.store.address(),
            operation: "a request",
            object: "log/".into(),
            reason: "the device is being closed".into(),
        });
    }

    fn change(&self, change: LineChange<'_>) -> block::Result<()> {
        let what = match change.kind {
            RunKind::Bytes => "write",
            RunKind::Zeros => "zero",
            RunKind::Discard => "discard",
        };
        let (offset, len) = (change.offset, change.len);
        self.check_writable(offset, len)?;
        let line = &self.line;
        let changed = match line.change_now(change) {
            Ok(None) => Ok(()),
            Ok(Some(rest)) => finish(&*line.executor, async {
                if line.state().writer.is_none() {
                    line.take().await?;
                }
                line.change(rest).await
            }),
            Err(error) => Err(error),
        };
        changed.map_err(|error| self.failed(error, what, offset, len))
    }

    fn check_range(&self, offset: u64, len: u64) -> block::Result<()> {
        let size = self.size();
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(block::Error::OutOfRange {
                device: self.name(),
                offset,
                len,
                size,
            }),
        }
    }

    pub(super) fn check_writable(&self, offset: u64, len: u64) -> block::Result<()> {
        self.check_range(offset, len)?;
        match self.is_read_only {
            true => Err(block::Error::ReadOnly {
                device: self.name(),
            }),
            false => Ok(()),
        }
    }

    pub(super) fn failed(
        &self,
        error: Error,
        operation: &'static str,
        offset: u64,
        len: u64,
    ) -> block::Error {
        let device = self.name();
        match error {
            Error::Fenced { .. } | Error::Changed { .. } => block::Error::ClaimLost {
                device,
                loss: Loss::Taken,
            },
            error => block::Error::Io {
                device,
                operation,
                offset,
                len,
                source: io::Error::new(kind_of(&error), error),
            },
        }
    }
}

impl BlockDevice for ObjectDevice {
    block::plain_methods!(refresh_size claim check_unreserved would_wait);

    fn size(&self) -> u64 {
        self.line.facts.size
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        self.line.store.address()
    }

    fn waits_on_write(&self) -> bool {
        true
    }

    fn io_mode(&self) -> Option<IoMode> {
        Some(IoMode::Log)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        self.check_range(offset, buf.len() as u64)?;
        let len = buf.len() as u64;
        let read = finish(&*self.line.executor, async {
            match self.line.read(offset, buf).await {
                Err(error) if self.is_read_only => Err(self.line.explain_missing(error).await),
                read => read,
            }
        });
        read.map_err(|error| self.failed(error, "read", offset, len))
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let mut at = offset;
        for piece in pieces {
            match is_zeros(piece) {
                true => self.zero(at, piece.len() as u64)?,
                false => self.change(LineChange::write(at, piece))?,
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn write_durably_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let bytes: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| piece.iter().copied())
            .collect();
        let len = bytes.len() as u64;
        self.check_writable(offset, len)?;
        let line = &self.line;
        let written = finish(&*line.executor, async {
            if line.state().writer.is_none() {
                line.take().await?;
            }
            line.change_durably(LineChange::write(offset, &bytes)).await
        });
        written.map_err(|error| self.failed(error, "write", offset, len))
    }

    fn settle(&self) -> block::Result<()> {
        self.flush()
    }

    fn flush(&self) -> block::Result<()> {
        finish(&*self.line.executor, self.line.flush())
            .map_err(|error| self.failed(error, "flush", 0, 0))
    }

    fn order(&self) -> block::Result<()> {
        let ordered = self.line.order();
        ordered.map_err(|error| self.failed(error, "order", 0, 0))
    }

    fn drop_cached(&self) -> block::Result<()> {
        self.line.ahead.clear();
        Ok(())
    }

    fn begin_anew(&self) -> block::Result<()> {
        self.line.begin_anew();
        self.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> block::Result<()> {
        self.check_writable(offset, len)?;
        let pieces = self.line.state().history.map.pieces(offset..offset + len);
        // What nothing was written to needs no object.
        for piece in pieces.iter().filter(|piece| has_bytes(piece)) {
            self.change(LineChange {
                kind: RunKind::Discard,
                offset: piece.offset,
                len: piece.len,
                bytes: &[],
            })?;
        }
        Ok(())
    }

    fn zero_fast(&self, offset: u64, len: u64) -> block::Result<bool> {
        self.check_writable(offset, len)?;
        let pieces = self.line.state().history.map.pieces(offset..offset + len);
        for piece in pieces.iter().filter(|piece| has_bytes(piece)) {
            self.change(LineChange {
                kind: RunKind::Zeros,
                offset: piece.offset,
                len: piece.len,
                bytes: &[],
            })?;
        }
        Ok(true)
    }

    fn zero(&self, offset: u64, len: u64) -> block::Result<()> {
        self.zero_fast(offset, len).map(drop)
    }

    fn is_blank(&self, offset: u64, len: usize) -> block::Result<bool> {
        let status = self.status_at(offset, len as u64)?;
        match status.is_zero && status.len >= len as u64 {
            true => Ok(true),
            false => block::plain::is_blank(self, offset, len),
        }
    }

    fn status_at(&self, offset: u64, len: u64) -> block::Result<RangeStatus> {
        self.check_range(offset, len)?;
        let pieces = self.line.state().history.map.pieces(offset..offset + len);
        let status = pieces.first().map(|piece| RangeStatus {
            len: piece.len,
            is_hole: !has_bytes(piece),
            is_zero: !has_bytes(piece),
        });
        status.ok_or_else(|| block::Error::OutOfRange {
            device: self.name(),
            offset,
            len,
            size: self.size(),
        })
    }

    /// Zeros the range. The next flush removes every object that held it, if it lies in a header.
    fn overwrite(&self, offset: u64, len: u64) -> block::Result<()> {
        self.zero(offset, len)?;
        self.line.state().purges.insert(offset..offset + len);
        Ok(())
    }
}

impl Drop for ObjectDevice {
    fn drop(&mut self) {
        // A reader may share the line with the writer.
        if !self.is_read_only {
            let line = &self.line;
            line.executor.wait(Box::pin(line.close()));
        }
    }
}

/// Reads the line on a store. Objects that `older` has read are not read again.
fn read_line(
    (store, executor): (Arc<dyn ObjectStore>, Arc<dyn Executor>),
    (patience, observer): (&Arc<StorePatience>, OutageObserver),
    older: Option<&Arc<Line>>,
) -> Result<Arc<Line>, Error> {
    let on = (&*store, &*executor);
    let facts = create::within(on, create::read_facts(on));
    let (facts, checkpoints) = finish(&*executor, facts)?;
    let how = (LineLimits::of(&facts), random()?);
    let mut line = Line::new(store, executor, facts, how);
    line.waits.share(Arc::clone(patience), observer);
    if let Some(older) = older.filter(|older| older.facts.guid == facts.guid) {
        *line.known.lock() = older.known.lock().clone();
    }
    let line = Arc::new(line);
    finish(
        &*line.executor,
        create::within((&*line.store, &*line.executor), line.open(checkpoints)),
    )?;
    line.read_newest();
    Ok(line)
}

/// Returns whether bytes are worth a run of zeros. What is sealed differs in its first bytes.
fn is_zeros(bytes: &[u8]) -> bool {
    bytes.len() >= SectorSizes::COMMON.logical as usize && bytes.iter().all(|byte| *byte == 0)
}

/// Runs a request to its end.
pub(super) fn finish<T: Send>(
    executor: &dyn Executor,
    request: impl Future<Output = T> + Send,
) -> T {
    let mut outcome = None;
    executor.wait(Box::pin(async {
        outcome = Some(request.await);
    }));
    outcome.expect("a request that has ended has an outcome")
}

/// Returns whether a piece has bytes in an object. All others read as zeros.
fn has_bytes(piece: &MapPiece) -> bool {
    piece.source.is_some_and(|is| is.at.is_some())
}

/// The kind of an error of the system that fits.
fn kind_of(error: &Error) -> io::ErrorKind {
    match error {
        Error::Refused { .. } => io::ErrorKind::PermissionDenied,
        Error::Missing { .. } | Error::NoPool { .. } => io::ErrorKind::NotFound,
        Error::Damaged { .. } => io::ErrorKind::InvalidData,
        Error::Outdated { .. } => io::ErrorKind::StaleNetworkFileHandle,
        _ => io::ErrorKind::Other,
    }
}

/// A random identity.
fn random() -> Result<WriterId, Error> {
    let mut id = [0; 16];
    let got = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(16) => Ok(id),
        _ => Err(Error::NoRandom),
    }
}
