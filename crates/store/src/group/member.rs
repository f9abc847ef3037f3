//! A device of a pool: its label, and the blocks of its two headers.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use block::{BlockDevice, Claim};
use parking_lot::{Mutex, RwLock};

use crate::group::pace::Pace;
use crate::group::refused_writes::Debts;
use crate::layout::frames::{
    BLOCK, Bad, CACHE_MAGIC, FORMAT_VERSION, KEY_BLOCK_MAGIC, Label, RING_SLOTS, SUPERBLOCK_MAGIC,
    encode_frame,
};
use crate::layout::geometry::{COPIES, Geometry};
use crate::layout::shape::Shape;
use crate::{Error, ErrorCounts, MemberInfo, MemberState, Result, UNIT};

pub(crate) type HeaderBlock = [u8; BLOCK];

/// The operation that failed.
#[derive(Clone, Copy)]
pub(crate) enum MemberFailure {
    Read,
    Write,
    Checksum,
}

/// A device that belongs to a pool.
pub(crate) struct Member {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) label: Label,
    pub(crate) geometry: Geometry,
    /// See [`BlockDevice::waits_on_write`].
    pub(crate) waits_on_write: bool,
    condition: Arc<Condition>,
}

/// The changing state of a device in use. It stays when the device gets another size.
struct Condition {
    /// True if something that was written may not be flushed yet.
    dirty: AtomicBool,
    /// Held while the device flushes: a flush that finds nothing dirty must not overtake it.
    flushing: Mutex<()>,
    /// A flush has failed, and what was written before it may be lost.
    has_lost: AtomicBool,
    /// True if there are debts.
    is_stalled: AtomicBool,
    debts: RwLock<Debts>,
    /// Keeps other machines from the device.
    claim: Mutex<Option<Claim>>,
    /// The claim is to end, as soon as the device has answered the question about it.
    is_released: AtomicBool,
    state: AtomicU8,
    /// Failed reads, failed writes, and contents that were not what they should be.
    errors: [AtomicU64; 3],
    /// The response times of the device.
    pace: Arc<Pace>,
}

/// Tells whether an operation uses a device that was let go.
pub(crate) struct InUse(Weak<Condition>);

impl InUse {
    pub(crate) fn is_used(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Member {
    /// A device that joins a pool. Nothing is written yet.
    pub(crate) fn new(device: Arc<dyn BlockDevice>, label: Label, geometry: Geometry) -> Member {
        Member {
            waits_on_write: device.waits_on_write(),
            device,
            label,
            geometry,
            condition: Arc::new(Condition {
                dirty: AtomicBool::new(false),
                flushing: Mutex::new(()),
                has_lost: AtomicBool::new(false),
                is_stalled: AtomicBool::new(false),
                debts: RwLock::default(),
                claim: Mutex::default(),
                is_released: AtomicBool::new(false),
                state: AtomicU8::new(MemberState::Online as u8),
                errors: Default::default(),
                pace: Arc::default(),
            }),
        }
    }

    /// The same device with another size. Nothing is written yet.
    pub(crate) fn with_size(&self, device_size: u64) -> Member {
        let mut label = self.label;
        label.device_size = device_size.into();
        let geometry = Geometry {
            device_size,
            ..self.geometry
        };
        Member {
            device: Arc::clone(&self.device),
            label,
            geometry,
            waits_on_write: self.waits_on_write,
            condition: Arc::clone(&self.condition),
        }
    }

    /// The same device with another label. Nothing is written yet.
    pub(crate) fn with_label(&self, label: Label) -> Member {
        Member {
            device: Arc::clone(&self.device),
            label,
            geometry: self.geometry,
            waits_on_write: self.waits_on_write,
            condition: Arc::clone(&self.condition),
        }
    }

    /// See [`InUse`].
    pub(crate) fn in_use(&self) -> InUse {
        InUse(Arc::downgrade(&self.condition))
    }

    pub(crate) fn unanswered(&self, limit: Duration) -> Error {
        Error::Unanswered {
            device: self.device.name(),
            millis: limit.as_millis() as u64,
        }
    }

    pub(crate) fn pace(&self) -> &Arc<Pace> {
        &self.condition.pace
    }

    pub(crate) fn claim(&self) -> &Mutex<Option<Claim>> {
        &self.condition.claim
    }

    pub(crate) fn is_released(&self) -> &AtomicBool {
        &self.condition.is_released
    }

    pub(crate) fn guid(&self) -> u64 {
        self.label.device_guid.get()
    }

    /// Returns the layout of the group.
    pub(crate) fn shape(&self) -> Shape {
        self.label.shape()
    }

    /// Returns the column of the group that the device holds.
    pub(crate) fn column(&self) -> usize {
        self.label.column.get().into()
    }

    /// The byte at which a row of the column begins.
    pub(crate) fn row(&self, row: u64) -> u64 {
        self.geometry.header_size + row * u64::from(UNIT)
    }

    pub(crate) fn state(&self) -> MemberState {
        MemberState::from_number(self.condition.state.load(Ordering::Acquire))
    }

    pub(crate) fn set_state(&self, state: MemberState) {
        if state == MemberState::Resilvering {
            // What it lost is written again.
            self.condition.has_lost.store(false, Ordering::Release);
            self.forget_debts(&mut self.condition.debts.write());
        }
        self.condition.state.store(state as u8, Ordering::Release);
    }

    /// Returns whether it holds everything that its group does.
    pub(crate) fn is_complete(&self) -> bool {
        self.state() == MemberState::Online
    }

    /// Returns whether it is written to.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.state(), MemberState::Online | MemberState::Resilvering)
    }

    pub(crate) fn count(&self, what: MemberFailure) {
        self.condition.errors[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn errors(&self) -> ErrorCounts {
        let [read, write, checksum] = &self.condition.errors;
        ErrorCounts {
            read: read.load(Ordering::Relaxed),
            write: write.load(Ordering::Relaxed),
            checksum: checksum.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set_errors(&self, counts: &ErrorCounts) {
        let counts = [counts.read, counts.write, counts.checksum];
        for (error, count) in self.condition.errors.iter().zip(counts) {
            error.store(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn info(&self) -> MemberInfo {
        MemberInfo {
            guid: self.guid(),
            name: self.device.name(),
            group: self.label.group.get(),
            column: self.label.column.get(),
            size: self.geometry.device_size,
            present: self.device.size(),
            segments: self.geometry.segments_max(),
            segments_extended: self
                .extended()
                .map_or(0, |size| self.with_size(size).geometry.segments_max())
                .max(self.geometry.segments_max()),
            is_spare: self.label.is_spare(),
            state: self.state(),
            errors: self.errors(),
            io_mode: self.device.io_mode(),
            is_slow: self.pace().is_slow(),
            given_up: self.pace().given_up(),
        }
    }

    /// Reads the label of a device, from whichever end of it is whole.
    pub(crate) fn open(device: Arc<dyn BlockDevice>) -> Result<Member> {
        let label = read_label(device.as_ref())?;
        if device.size() < label.device_size.get() {
            return Err(Error::Truncated {
                device: device.name(),
                actual: device.size(),
                expected: label.device_size.get(),
            });
        }
        let geometry = Geometry {
            segment_size: label.segment_size.get(),
            segments: label.segments.get(),
            key_blocks: label.key_blocks.get(),
            header_size: label.header_size.get(),
            device_size: label.device_size.get(),
        };
        Ok(Member::new(device, label, geometry))
    }

    /// Empties both headers and flushes, so that nothing of an earlier pool is found in them.
    pub(crate) fn empty_headers(&self) -> Result<()> {
        let size = self.geometry.header_size;
        self.device.zero(0, size)?;
        self.device.zero(self.geometry.device_size - size, size)?;
        Ok(self.device.flush()?)
    }

    /// Writes zeros over both headers, labels, superblocks and keys, and flushes. A front header that
    /// fails does not keep the back one.
    pub(crate) fn overwrite_headers(&self) -> Result<()> {
        let size = self.geometry.header_size;
        let front = self.device.overwrite(0, size);
        let back = self
            .device
            .overwrite(self.geometry.device_size - size, size);
        let flushed = self.device.flush();
        Ok(front.and(back).and(flushed)?)
    }

    /// Writes both labels, one after the other, so that one is whole at any moment.
    pub(crate) fn write_labels(&self) -> Result<()> {
        let block = self.label.encode();
        for copy in COPIES {
            self.write(self.geometry.label(copy), &[IoSlice::new(&block[..])])?;
            self.flush_device()?;
        }
        Ok(())
    }

    /// Every superblock of the ring that is whole, from both headers, in no order.
    pub(crate) fn superblocks(&self, found: &mut Vec<(u64, Vec<u8>)>) -> Result<()> {
        let mut ring = vec![0; RING_SLOTS as usize * BLOCK];
        let mut failure = None;
        for copy in COPIES {
            if let Err(error) = self
                .device
                .read_at(self.geometry.superblock(copy, 0), &mut ring)
            {
                failure = Some(error);
                continue;
            }
            let (blocks, _) = ring.as_chunks::<BLOCK>();
            for block in blocks {
                match self.frame(SUPERBLOCK_MAGIC, block) {
                    Ok((txg, payload)) => found.push((txg, payload.to_vec())),
                    Err(Bad::TooNew(found)) => return Err(self.too_new(found)),
                    Err(_) => {}
                }
            }
        }
        match failure {
            Some(error) if found.is_empty() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns whether all bytes of both rings are zeros: the device has a label, and never had a superblock.
    pub(crate) fn has_empty_rings(&self) -> Result<bool> {
        let mut ring = vec![0; RING_SLOTS as usize * BLOCK];
        for copy in COPIES {
            let offset = self.geometry.superblock(copy, 0);
            self.device.read_at(offset, &mut ring)?;
            if ring.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The transaction group of the last superblock, if there is one that can be read.
    pub(crate) fn newest_txg(&self) -> Option<u64> {
        let mut found = Vec::new();
        // What was read before an error counts.
        let _ = self.superblocks(&mut found);
        found.into_iter().map(|(txg, _)| txg).max()
    }

    /// Returns whether both can be what their labels say, for all that is known without the pool. Of a group that
    /// has grown, each label says how many segments there were when its device joined.
    pub(crate) fn can_be_beside(&self, other: &Member) -> bool {
        self.label.group != other.label.group
            || self.label.is_spare()
            || self.shape() == other.shape()
    }

    /// Writes a superblock into both headers.
    pub(crate) fn write_superblock(&self, txg: u64, block: &HeaderBlock) -> Result<()> {
        let slot = (txg % u64::from(RING_SLOTS)) as u32;
        for copy in COPIES {
            self.write(self.geometry.superblock(copy, slot), &[IoSlice::new(block)])?;
        }
        Ok(())
    }

    /// The payload of a key block, from the first good copy. Fails if a copy cannot be read and no other is good.
    pub(crate) fn read_key_block(&self, index: u32) -> Result<Option<Vec<u8>>> {
        let mut block = [0; BLOCK];
        let mut failure = None;
        for copy in COPIES {
            let at = self.geometry.key_block(copy, index);
            if let Err(error) = self.device.read_at(at, &mut block) {
                failure = Some(error);
                continue;
            }
            match self.frame(KEY_BLOCK_MAGIC, &block) {
                Ok((_, payload)) => return Ok(Some(payload.to_vec())),
                Err(Bad::TooNew(found)) => return Err(self.too_new(found)),
                Err(_) => {}
            }
        }
        failure.map_or(Ok(None), |error| Err(error.into()))
    }

    /// Writes a key block into both headers.
    pub(crate) fn write_key_block(&self, index: u32, payload: &[u8]) -> Result<()> {
        let block = encode_frame(KEY_BLOCK_MAGIC, self.label.pool_guid.get(), 0, payload);
        for copy in COPIES {
            let at = self.geometry.key_block(copy, index);
            self.write(at, &[IoSlice::new(&block[..])])?;
        }
        Ok(())
    }

    /// Overwrites a key block in both headers.
    pub(crate) fn wipe_key_block(&self, index: u32) -> Result<()> {
        for copy in COPIES {
            let at = self.geometry.key_block(copy, index);
            let wiped = self.device.overwrite(at, BLOCK as u64);
            self.condition.dirty.store(true, Ordering::Release);
            wiped.inspect_err(|_| self.count(MemberFailure::Write))?;
        }
        Ok(())
    }

    /// Returns whether both copies of a key block hold nothing but zeros.
    pub(crate) fn key_block_is_blank(&self, index: u32) -> Result<bool> {
        let mut block = [0; BLOCK];
        for copy in COPIES {
            self.read(self.geometry.key_block(copy, index), &mut block)?;
            if block != [0; BLOCK] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn read(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let debts = self.is_stalled().then(|| self.condition.debts.read());
        if debts.as_ref().is_some_and(|debts| debts.fill(at, buf)) {
            return Ok(());
        }
        let read = self.device.read_at(at, buf);
        read.inspect_err(|_| self.count(MemberFailure::Read))?;
        if let Some(debts) = debts {
            debts.fill(at, buf);
        }
        Ok(())
    }

    /// Returns whether it did not take something that is kept in memory for it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.condition.is_stalled.load(Ordering::Acquire)
    }

    /// Returns the error of the device, if there is a write that it refused.
    pub(crate) fn stall(&self) -> Option<Error> {
        self.condition.debts.read().stall(self.device.name())
    }

    /// Keeps a write in memory, if others are kept already.
    pub(crate) fn owe_more(&self, at: u64, pieces: &[IoSlice<'_>]) -> bool {
        if !self.is_stalled() {
            return false;
        }
        let mut debts = self.condition.debts.write();
        let is_stalled = debts.reason.is_some();
        if is_stalled {
            debts.add(at, pieces);
        }
        is_stalled
    }

    /// Keeps a write in memory that failed. From now on nothing but [`Member::retry`] writes to the device.
    pub(crate) fn owe(&self, at: u64, pieces: &[IoSlice<'_>], error: &Error) {
        let mut debts = self.condition.debts.write();
        debts.begin(error);
        debts.add(at, pieces);
        self.condition.is_stalled.store(true, Ordering::Release);
    }

    fn forget_debts(&self, debts: &mut Debts) {
        *debts = Debts::default();
        self.condition.is_stalled.store(false, Ordering::Release);
    }

    /// Makes the writes that failed once more, and flushes. What a flush failed for before may be lost: then reads are
    /// of the medium, which alone tells.
    pub(crate) fn retry(&self) -> Result<()> {
        let condition = &self.condition;
        let _flushing = condition.flushing.lock();
        let mut debts = condition.debts.write();
        self.check_identity()?;
        let had_lost = self.may_have_lost();
        // Before this no flush of a device that has lost something succeeds.
        had_lost.then(|| self.device.begin_anew()).transpose()?;
        if let Err(error) = self.write_debts(&debts) {
            // A device that was away says with its first flush that it may have lost writes. They are read afterwards
            // then, and the debts have to be written again.
            if had_lost || !self.may_have_lost() {
                return Err(error);
            }
            let _ = self.device.refresh_size();
            self.check_identity()?;
            self.device.begin_anew()?;
            self.write_debts(&debts)?;
        }
        self.forget_debts(&mut debts);
        Ok(())
    }

    fn write_debts(&self, debts: &Debts) -> Result<()> {
        for (at, bytes) in debts.runs() {
            let written = self.device.write_at(at, &[IoSlice::new(bytes)]);
            written.inspect_err(|_| self.count(MemberFailure::Write))?;
        }
        self.condition.dirty.store(false, Ordering::Release);
        self.flush_device()
    }

    /// Refuses a device that came back as another one.
    fn check_identity(&self) -> Result<()> {
        let is_other = match read_label(&*self.device) {
            Ok(label) => {
                label.pool_guid != self.label.pool_guid
                    || label.device_guid != self.label.device_guid
            }
            Err(Error::NotAPool { .. }) => true,
            // A label that is damaged or cannot be read is not another one.
            Err(_) => false,
        };
        match is_other {
            true => Err(Error::OtherDevice {
                device: self.device.name(),
            }),
            false => Ok(()),
        }
    }

    /// Returns whether a flush has failed, and what was written before may be lost.
    pub(crate) fn may_have_lost(&self) -> bool {
        self.condition.has_lost.load(Ordering::Acquire)
    }

    /// Trusts the device again: the lost writes are known.
    pub(crate) fn trust(&self) {
        self.condition.has_lost.store(false, Ordering::Release);
    }

    pub(crate) fn write(&self, at: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        // A disk takes nothing else past the cache.
        debug_assert!(is_whole_units(at, pieces), "a part of a block, at {at}");
        let written = self.device.write_at(at, pieces);
        // Only now: a flush that began before the end of the write need not cover it.
        self.condition.dirty.store(true, Ordering::Release);
        Ok(written.inspect_err(|_| self.count(MemberFailure::Write))?)
    }

    /// Writes, and returns when that is durable. Earlier writes need a flush still.
    pub(crate) fn write_durably(&self, at: u64, bytes: &[u8]) -> Result<()> {
        debug_assert!(
            is_whole_units(at, &[IoSlice::new(bytes)]),
            "a part of a block, at {at}"
        );
        let written = self.device.write_durably_at(at, &[IoSlice::new(bytes)]);
        Ok(written.inspect_err(|_| self.note_lost())?)
    }

    pub(crate) fn discard(&self, at: u64, len: u64) -> Result<()> {
        if self.is_stalled() {
            return Ok(());
        }
        Ok(self.device.discard(at, len)?)
    }

    /// Returns whether [`Member::flush`] would have to wait for the device.
    pub(crate) fn is_dirty(&self) -> bool {
        self.condition.dirty.load(Ordering::Acquire) || self.condition.flushing.is_locked()
    }

    /// Flushes what was written since the last flush, also if another thread flushes at the same time. After a
    /// failure none succeeds: the kernel may have dropped what it could not write, and says so once.
    pub(crate) fn flush(&self) -> Result<()> {
        let _flushing = self.condition.flushing.lock();
        self.check_flushable()?;
        if !self.condition.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.flush_device()
    }

    /// Puts what was written before everything that is written later. A flush is still due.
    pub(crate) fn order(&self) -> Result<()> {
        let _flushing = self.condition.flushing.lock();
        self.check_flushable()?;
        let ordered = self.device.order();
        Ok(ordered.inspect_err(|_| self.note_lost())?)
    }

    /// Fails if no flush would succeed.
    fn check_flushable(&self) -> Result<()> {
        if self.condition.has_lost.load(Ordering::Acquire) {
            return Err(Error::Unflushed {
                device: self.device.name(),
            });
        }
        self.stall().map_or(Ok(()), Err)
    }

    /// The device may have lost what it was given: no flush succeeds any more.
    pub(crate) fn note_lost(&self) {
        self.count(MemberFailure::Write);
        self.condition.dirty.store(true, Ordering::Release);
        self.condition.has_lost.store(true, Ordering::Release);
    }

    fn flush_device(&self) -> Result<()> {
        self.device.flush().map_err(|error| {
            self.note_lost();
            error.into()
        })
    }

    fn too_new(&self, found: u32) -> Error {
        Error::TooNew {
            device: self.device.name(),
            found,
            supported: FORMAT_VERSION,
        }
    }
}

fn is_whole_units(at: u64, pieces: &[IoSlice<'_>]) -> bool {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    (at | len as u64).is_multiple_of(u64::from(UNIT))
}

/// The label of a device, or why there is none.
pub(crate) fn read_label(device: &dyn BlockDevice) -> Result<Label> {
    let size = device.size();
    let not_a_pool = || Error::NotAPool {
        device: device.name(),
    };
    if size < BLOCK as u64 {
        return Err(not_a_pool());
    }
    let mut block: HeaderBlock = [0; BLOCK];
    let mut worst = Bad::Foreign;
    let mut failure = None;
    for at in [0, size - size % BLOCK as u64 - BLOCK as u64] {
        if let Err(error) = device.read_at(at, &mut block) {
            failure = Some(error);
            continue;
        }
        match Label::decode(&block) {
            Ok(label) => return Ok(label),
            Err(Bad::Foreign) => {}
            Err(bad) => worst = bad,
        }
    }
    match (worst, failure) {
        (Bad::TooNew(found), _) => Err(Error::TooNew {
            device: device.name(),
            found,
            supported: FORMAT_VERSION,
        }),
        (Bad::Foreign, Some(error)) => Err(error.into()),
        (Bad::Foreign, None) => Err(not_a_pool()),
        (Bad::Damaged | Bad::Inconsistent, _) => Err(Error::DamagedLabel {
            device: device.name(),
        }),
    }
}

/// Describes the present contents of a device that is to join a pool, if it has any.
pub(crate) fn contents(device: &dyn BlockDevice) -> Result<Option<String>> {
    match read_label(device) {
        Ok(label) => {
            return Ok(Some(format!(
                "belongs to the pool with guid {}",
                label.pool_guid.get()
            )));
        }
        Err(Error::NotAPool { .. }) => {}
        Err(Error::Device(error)) => return Err(error.into()),
        Err(_) => return Ok(Some("has the label of a pool".into())),
    }
    // Partition tables and the superblocks of file systems lie here.
    let len = (128 << 10).min(device.size() as usize);
    let mut head = vec![0; len];
    device.read_at(0, &mut head)?;
    if head.starts_with(&CACHE_MAGIC) {
        return Ok(Some("has the label of a cache device".into()));
    }
    Ok((!device.is_blank(0, len)?).then(|| "is not empty".into()))
}
