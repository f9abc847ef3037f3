//! The data of a container, decrypted, as a block device.
//!
//! A request is served in one of two forms, chosen for reads and writes each and changed while the
//! device is in use:
//!
//! - *inline*: on the thread of the caller. A read is decrypted in the caller's buffer. A write is encrypted
//!   there too if the caller allows it, or else in a buffer of the thread.
//! - *queued*: cut into pieces that a pool of threads reads or writes and decrypts or encrypts, each piece
//!   with its own buffer. Large requests use several processors; small ones wait for another thread. Encrypted
//!   pieces can go to one thread that writes them in the order of their offsets, as dm-crypt does.
//!
//! Whole sectors only. A part of a sector would have to be read, decrypted, changed and written again:
//! a write beside it at the same time could be lost, and a power cut would garble bytes outside the write. A
//! caller that needs smaller units than [`SectorSizes::logical`] has to build them with its own locks.

mod identity;
mod meter;
mod plain;
mod queue;
mod reencryption;
mod regions;
mod sectors;
mod serving;
mod suspension;

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use block::{BlockDevice, SectorSizes};
use cipher::{Provider, Random};
use parking_lot::Mutex;
use secret::Secret;

use crate::integrity::TagMode;
use crate::model::Segment;
use crate::{BothKeys, Container, Error, Result};
use identity::MappingIdentity;
pub use meter::{MappingMeter, RequestMeter, RequestTotals};
pub use plain::plain_key;
use queue::{PieceQueue, QueuedWrite};
use regions::{Regions, RequestKind};
use sectors::{SectorCore, SectorForm};
pub use serving::FailureGuard;
use serving::{Serving, ServingCell, ServingRef};

/// The settings of a mapping when it is opened. Some can be changed while it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingFlags {
    /// Writes are refused.
    pub read_only: bool,
    /// Discards are passed on, which shows which sectors are in use.
    pub allow_discards: bool,
    /// Reads are queued.
    pub read_workqueue: bool,
    /// Writes are queued.
    pub write_workqueue: bool,
    /// Queued requests are encrypted and decrypted on the thread that asks, so that only writing is queued.
    pub same_cpu: bool,
    /// Queued writes go to the device from one thread, in the order of their offsets.
    pub sort_writes: bool,
    /// Sectors with tags are written without the journal: a power cut may tear a sector from its tag.
    pub no_journal: bool,
    /// The journal of sectors with tags is not looked at. Only with `read_only`.
    pub recovery: bool,
}

impl MappingFlags {
    /// Returns the way in which sectors with tags are written.
    fn mode(self) -> Result<TagMode> {
        match self {
            MappingFlags {
                recovery: true,
                read_only: false,
                ..
            } => Err(Error::usage(
                "a journal that is not looked at allows no writes: open it read-only",
            )),
            MappingFlags { recovery: true, .. } => Ok(TagMode::Recovery),
            MappingFlags {
                read_only: true, ..
            } => Ok(TagMode::ReadOnly),
            MappingFlags {
                no_journal: true, ..
            } => Ok(TagMode::Direct),
            _ => Ok(TagMode::Journal),
        }
    }
}

/// The decrypted data of a container.
pub struct Mapping {
    serving: Arc<ServingCell>,
    device: Arc<dyn BlockDevice>,
    /// The address of the data on the device, in bytes.
    start: u64,
    iv_offset: u64,
    /// Requests are whole sectors, of so many bytes.
    sector: u32,
    queue: OnceLock<PieceQueue>,
    size: AtomicU64,
    /// True if the mapping ends at the end of its device.
    to_end: AtomicBool,
    read_only: bool,
    mode: TagMode,
    allow_discards: AtomicBool,
    read_workqueue: AtomicBool,
    write_workqueue: AtomicBool,
    same_cpu: AtomicBool,
    sort_writes: AtomicBool,
    meter: Arc<MappingMeter>,
    /// The identity of the container; `None` without a key, and while there are two keys.
    own: Mutex<Option<MappingIdentity>>,
}

/// Returns the error for a container whose data is completely decrypted.
fn decrypted() -> Error {
    Error::usage("its decryption is complete: use the device itself")
}

/// A mapping without a header: everything is said by who opens it.
#[derive(Clone, Debug)]
pub struct PlainEncryption {
    /// The cipher, for example `aes-xts-plain64`.
    pub cipher: String,
    /// The address of the data on the device, in bytes.
    pub offset: u64,
    /// The length, in bytes. `None`: the data ends with the device.
    pub len: Option<u64>,
    /// The number that is added to the number of each sector of 512 bytes for its tweak.
    pub skip: u64,
    /// The length of a sector, in bytes.
    pub sector_size: u32,
}

impl Mapping {
    /// The data of a container, which is on `data`, with its volume key.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if its sectors are encrypted or authenticated in a way that is not known
    /// here; [`Error::Integrity`] if what keeps the tags of its sectors is damaged; [`Error::TooSmall`];
    /// [`Error::Usage`] if it is not the key of the container.
    pub fn open(
        container: &Container,
        data: Arc<dyn BlockDevice>,
        key: &Secret,
        flags: MappingFlags,
    ) -> Result<Mapping> {
        let segment = container.segment()?;
        if !container.is_volume_key(key)? {
            return Err(Error::usage("this is not the key of the container"));
        }
        let mapping = Mapping::new(&segment, data, key, flags)?;
        *mapping.own.lock() = Some(MappingIdentity::of(container)?);
        Ok(mapping)
    }

    /// The data of a container whose re-encryption was interrupted. A hot zone is put right first.
    ///
    /// # Errors
    /// As for [`Mapping::open`]; [`Error::Damaged`] if the header was changed; [`Error::Usage`] if a hot zone
    /// has to be put right, and the mapping is to be read-only.
    pub fn open_in_reencryption(
        container: &mut Container,
        data: Arc<dyn BlockDevice>,
        keys: &BothKeys,
        flags: MappingFlags,
        random: &dyn Random,
    ) -> Result<Mapping> {
        let mut state = container.reencryption()?;
        container.check_proof(&state, keys)?;
        if state.hot().is_some() && flags.read_only {
            return Err(Error::usage(
                "its re-encryption was interrupted while data was written: open it once without \
                     read-only, which puts that right",
            ));
        }
        if !flags.read_only {
            container.recover(&state, &*data, keys, random)?;
            if !container.is_in_reencryption() {
                let key = keys.new.as_ref().ok_or_else(decrypted)?;
                return Mapping::open(container, data, key, flags);
            }
            state = container.reencryption()?;
        }
        let regions = Regions::new(&state, &data, keys)?;
        let start = container.data_offset()?;
        let end = state.len().unwrap_or_else(|| state.data_len(data.size()));
        let space = DataSpace {
            device: Arc::clone(&data),
            start,
            iv_offset: 0,
            sector: state.unit(),
            len: data.size().saturating_sub(start),
        };
        Mapping::of(Serving::Regions(Box::new(regions)), space, Some(end), flags)
    }

    /// A device as it would be without a header. A wrong key gives noise, and no error.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::TooSmall`]; [`Error::Usage`] if there are no such sectors.
    pub fn plain(
        plain: &PlainEncryption,
        data: Arc<dyn BlockDevice>,
        key: &Secret,
        flags: MappingFlags,
    ) -> Result<Mapping> {
        if ![512, 1024, 2048, 4096].contains(&plain.sector_size) {
            return Err(Error::Usage(format!(
                "sectors have 512, 1024, 2048 or 4096 bytes, and not {}",
                plain.sector_size
            )));
        }
        let segment = Segment {
            offset: plain.offset,
            len: plain.len,
            iv_offset: plain.skip,
            cipher: plain.cipher.clone(),
            sector_size: plain.sector_size,
            integrity: None,
        };
        Mapping::new(&segment, data, key, flags)
    }

    fn new(
        segment: &Segment,
        device: Arc<dyn BlockDevice>,
        key: &Secret,
        flags: MappingFlags,
    ) -> Result<Mapping> {
        let core = SectorCore::new(segment, device, key, flags.mode()?)?;
        let space = DataSpace::of(&core);
        Mapping::of(Serving::All(core), space, segment.len, flags)
    }

    fn of(
        serving: Serving,
        space: DataSpace,
        len: Option<u64>,
        flags: MappingFlags,
    ) -> Result<Mapping> {
        let size = space.size(len)?;
        let mapping = Mapping {
            serving: Arc::new(ServingCell::new(serving)),
            device: space.device,
            start: space.start,
            iv_offset: space.iv_offset,
            sector: space.sector,
            queue: OnceLock::new(),
            size: AtomicU64::new(size),
            to_end: AtomicBool::new(len.is_none()),
            read_only: flags.read_only,
            mode: flags.mode()?,
            allow_discards: AtomicBool::new(false),
            read_workqueue: AtomicBool::new(false),
            write_workqueue: AtomicBool::new(false),
            same_cpu: AtomicBool::new(false),
            sort_writes: AtomicBool::new(false),
            meter: Arc::default(),
            own: Mutex::default(),
        };
        mapping.set_flags(flags);
        Ok(mapping)
    }

    /// Returns the counters of the mapping.
    pub fn meter(&self) -> &Arc<MappingMeter> {
        &self.meter
    }

    /// Returns the settings of now.
    pub fn flags(&self) -> MappingFlags {
        MappingFlags {
            read_only: self.read_only,
            allow_discards: self.allow_discards.load(Ordering::Relaxed),
            read_workqueue: self.read_workqueue.load(Ordering::Relaxed),
            write_workqueue: self.write_workqueue.load(Ordering::Relaxed),
            same_cpu: self.same_cpu.load(Ordering::Relaxed),
            sort_writes: self.sort_writes.load(Ordering::Relaxed),
            no_journal: self.mode == TagMode::Direct,
            recovery: self.mode == TagMode::Recovery,
        }
    }

    /// Changes how it is open, from the next request on; requests that run are not disturbed. Whether it
    /// is read-only stays, and so does what is done with the journal.
    pub fn set_flags(&self, flags: MappingFlags) {
        self.allow_discards
            .store(flags.allow_discards, Ordering::Relaxed);
        self.read_workqueue
            .store(flags.read_workqueue, Ordering::Relaxed);
        self.write_workqueue
            .store(flags.write_workqueue, Ordering::Relaxed);
        self.same_cpu.store(flags.same_cpu, Ordering::Relaxed);
        self.sort_writes.store(flags.sort_writes, Ordering::Relaxed);
    }

    /// Returns the way in which the next write is queued; `None` if the calling thread serves it.
    fn queued_write(&self) -> Option<QueuedWrite> {
        let flags = self.flags();
        match (flags.write_workqueue, flags.same_cpu, flags.sort_writes) {
            (false, ..) | (true, true, false) => None,
            (true, false, false) => Some(QueuedWrite::Unsorted),
            (true, false, true) => Some(QueuedWrite::Sorted),
            (true, true, true) => Some(QueuedWrite::SortedOnly),
        }
    }

    /// The number that is added to the number of each sector of 512 bytes for its tweak.
    pub fn iv_offset(&self) -> u64 {
        self.iv_offset
    }

    /// The encryption, as `aes-xts-plain64`, and what authenticates sectors, if anything does.
    pub fn cipher(&self) -> String {
        self.serving.encryption().name
    }

    /// Returns the provider of the cipher; `None` in re-encryption, and if sectors are authenticated. For a suspended
    /// mapping it is the last one.
    pub fn provider(&self) -> Option<Provider> {
        self.serving.encryption().provider
    }

    /// Chooses the provider that computes the cipher, from the next request on. It waits until the requests that run
    /// have ended.
    ///
    /// # Errors
    /// [`Error::Usage`] if the provider does not have the cipher, or is disabled, or the mapping is in re-encryption or
    /// has authenticated sectors; [`Error::Busy`] if it is suspended, or requests do not end. Then nothing changes.
    pub fn set_provider(&self, provider: Provider) -> Result<()> {
        self.serving.exchange(|serving| match serving {
            Serving::All(core) => Ok(Serving::All(core.by(provider)?)),
            Serving::Regions(_) => Err(Error::usage(
                "a mapping whose container is in re-encryption keeps its providers until that is complete",
            )),
        })
    }

    /// Returns the address of the data on the device, in bytes.
    pub fn offset(&self) -> u64 {
        self.start
    }

    /// The device that it is on.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Makes it as large as this, or as the device is now.
    ///
    /// # Errors
    /// [`Error::TooSmall`], [`Error::Usage`]; the latter also if sectors are authenticated.
    pub fn resize(&self, len: Option<u64>) -> Result<u64> {
        let serving = self.serving.now().ok_or_else(Error::suspended)?;
        let core = match &**serving {
            Serving::All(core) => core,
            Serving::Regions(_) => {
                return Err(Error::usage(
                    "a mapping whose container is in re-encryption keeps its size until that is complete",
                ));
            }
        };
        if let SectorForm::Sealed(_) = core.form {
            return Err(Error::usage(
                "a mapping whose sectors are authenticated keeps the size with which its container \
                 was made",
            ));
        }
        self.device.refresh_size()?;
        let size = DataSpace::of(core).size(len)?;
        self.size.store(size, Ordering::Relaxed);
        self.to_end.store(len.is_none(), Ordering::Relaxed);
        Ok(size)
    }

    fn queue(&self) -> &PieceQueue {
        self.queue.get_or_init(PieceQueue::start)
    }

    /// Returns the server of one request. The call waits while the mapping is suspended.
    fn held(&self) -> block::Result<ServingRef<'_>> {
        self.serving.get().ok_or_else(|| self.given_up())
    }

    /// Serves a request for a range, when it may begin.
    fn serve(
        &self,
        access: RequestKind,
        (offset, len): (u64, u64),
        act: impl FnOnce(&Arc<Serving>) -> block::Result<()>,
    ) -> block::Result<()> {
        let serving = self.held()?;
        let _entered = serving.enter(access, offset, len)?;
        act(&serving)
    }

    fn check(&self, offset: u64, len: u64) -> block::Result<()> {
        let size = self.size();
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(block::Error::OutOfRange {
                device: self.name(),
                offset,
                len,
                size,
            });
        }
        let sector = u64::from(self.sector);
        match (offset | len) & (sector - 1) == 0 {
            true => Ok(()),
            false => Err(block::Error::Misaligned {
                device: self.name(),
                offset,
                len,
                sector: self.sector,
            }),
        }
    }

    fn check_writable(&self) -> block::Result<()> {
        match self.read_only {
            true => Err(block::Error::ReadOnly {
                device: self.name(),
            }),
            false => Ok(()),
        }
    }

    fn write(&self, offset: u64, pieces: &[IoSlice<'_>], durably: bool) -> block::Result<()> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.check_writable()?;
        self.check(offset, len as u64)?;
        let at = (offset, len as u64);
        match self.queued_write() {
            None => self.meter.write_inline.count(len, || {
                self.serve(RequestKind::Write, at, |it| {
                    it.write(offset, len, pieces, durably)
                })
            }),
            Some(how) => self.meter.write_queued.count(len, || {
                self.serve(RequestKind::Write, at, |it| {
                    self.queue().write(it, how, (offset, len), pieces)
                })?;
                if durably { self.flush() } else { Ok(()) }
            }),
        }
    }
}

/// The part of a device that a mapping may use.
struct DataSpace {
    device: Arc<dyn BlockDevice>,
    start: u64,
    iv_offset: u64,
    sector: u32,
    /// In bytes.
    len: u64,
}

impl DataSpace {
    fn of(core: &SectorCore) -> DataSpace {
        DataSpace {
            device: Arc::clone(&core.device),
            start: core.start,
            iv_offset: match &core.form {
                SectorForm::Encrypted { iv_offset, .. } => *iv_offset,
                SectorForm::Plain | SectorForm::Sealed(_) => 0,
            },
            sector: core.sector as u32,
            len: core.space(),
        }
    }

    /// Returns the size of a mapping by the length in its header.
    fn size(&self, len: Option<u64>) -> Result<u64> {
        let (sector, there) = (u64::from(self.sector), self.len);
        let size = len.unwrap_or(there - there % sector);
        if size == 0 || !size.is_multiple_of(sector) {
            if there >= sector {
                return Err(Error::usage(format!(
                    "a mapping has whole sectors of {sector} bytes"
                )));
            }
            return Err(self.too_small(sector));
        }
        match size <= there {
            true => Ok(size),
            false => Err(self.too_small(size)),
        }
    }

    fn too_small(&self, len: u64) -> Error {
        Error::TooSmall {
            device: self.device.name(),
            size: self.device.size(),
            needed: self.start.saturating_add(len),
        }
    }
}

impl BlockDevice for Mapping {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Grows with its device, if no size was given. Only [`Mapping::resize`] makes it smaller.
    fn refresh_size(&self) -> block::Result<u64> {
        if self.to_end.load(Ordering::Relaxed)
            && let Some(serving) = self.serving.now()
            && let Serving::All(core) = &**serving
            && !matches!(core.form, SectorForm::Sealed(_))
        {
            self.device.refresh_size()?;
            if let Ok(size) = DataSpace::of(core).size(None) {
                self.size.fetch_max(size, Ordering::Relaxed);
            }
        }
        Ok(self.size())
    }

    fn sector_sizes(&self) -> SectorSizes {
        let logical = self.sector;
        SectorSizes {
            logical,
            physical: self.device.sector_sizes().physical.max(logical),
        }
    }

    fn name(&self) -> String {
        format!("the mapping of {}", self.device.name())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let len = buf.len();
        let bytes = len as u64;
        self.check(offset, bytes)?;
        let flags = self.flags();
        match flags.read_workqueue && !flags.same_cpu {
            false => self.meter.read_inline.count(len, || {
                self.serve(RequestKind::Read, (offset, bytes), |it| {
                    it.read(offset, buf)
                })
            }),
            true => self.meter.read_queued.count(len, || {
                self.serve(RequestKind::Read, (offset, bytes), |it| {
                    self.queue().read(it, offset, buf)
                })
            }),
        }
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        self.write(offset, pieces, false)
    }

    fn write_durably_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        self.write(offset, pieces, true)
    }

    fn write_in_place(&self, offset: u64, data: &mut [u8]) -> block::Result<()> {
        if self.queued_write().is_some() {
            return self.write(offset, &[IoSlice::new(data)], false);
        }
        let len = data.len();
        self.check_writable()?;
        self.check(offset, len as u64)?;
        self.meter.write_inline.count(len, || {
            self.serve(RequestKind::Write, (offset, len as u64), |it| {
                it.write_in_place(offset, data)
            })
        })
    }

    block::delegate!(self => self.device; waits_on_write io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast status_at overwrite);

    /// Zeros below decrypt to noise, which nobody has written.
    fn is_blank(&self, offset: u64, len: usize) -> block::Result<bool> {
        let mut bytes = vec![0; len];
        self.read_at(offset, &mut bytes)?;
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        match &**self.held()? {
            Serving::All(core) if matches!(core.form, SectorForm::Encrypted { .. }) => {
                core.device.is_blank(core.start + offset, len)
            }
            _ => Ok(false),
        }
    }

    /// In the hot zone of a re-encryption. While the mapping is suspended all requests wait: no thread more for each.
    fn would_wait(&self, offset: u64, len: u64, is_write: bool) -> bool {
        let access = match is_write {
            true => RequestKind::Write,
            false => RequestKind::Read,
        };
        self.serving.would_wait(access, offset, len)
    }

    fn flush(&self) -> block::Result<()> {
        match self.read_only {
            true => Ok(()),
            // What was answered was made durable before the key was wiped.
            false => self.serving.get().map_or(Ok(()), |serving| serving.flush()),
        }
    }

    fn drop_cached(&self) -> block::Result<()> {
        self.device.drop_cached()
    }

    fn begin_anew(&self) -> block::Result<()> {
        self.device.begin_anew()
    }

    /// Passed on only if that is allowed: from what is discarded it can be seen which sectors are in use.
    fn discard(&self, offset: u64, len: u64) -> block::Result<()> {
        self.check_writable()?;
        self.check(offset, len)?;
        match self.allow_discards.load(Ordering::Relaxed) {
            true => self.serve(RequestKind::Write, (offset, len), |it| {
                it.discard(offset, len)
            }),
            false => Ok(()),
        }
    }
}
