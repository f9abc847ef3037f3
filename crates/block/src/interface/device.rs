//! The block device trait.

use std::io::IoSlice;
use std::sync::Arc;

use crate::{Claim, Claimant, Error, Result};

/// The sizes, in bytes, in which a device is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorSizes {
    /// The smallest aligned unit it takes.
    pub logical: u32,
    /// The unit that it writes as one: a power cut during a write may leave a physical sector old
    /// or new, and may destroy neighbours in the same physical sector.
    pub physical: u32,
}

impl SectorSizes {
    /// The sizes of most disks.
    pub const COMMON: SectorSizes = SectorSizes {
        logical: 512,
        physical: 4096,
    };
}

/// The facts that a device knows of a range without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeStatus {
    /// The length of the range in bytes.
    pub len: u64,
    /// True if nothing is stored for the range: a write there takes new space.
    pub is_hole: bool,
    /// True if the range reads as zeros.
    pub is_zero: bool,
}

/// The way in which a device reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// Between the memory of this process and the medium.
    Direct,
    /// Through the cache of the system.
    Buffered,
    /// To the end of a log in an object store. What is overwritten or not discarded takes space until it is collected.
    Log,
}

impl IoMode {
    /// Returns whether this system answers, and no other one.
    pub fn is_local(self) -> bool {
        self != IoMode::Log
    }

    /// The word for it in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            IoMode::Direct => "direct",
            IoMode::Buffered => "buffered",
            IoMode::Log => "log",
        }
    }
}

/// A device of numbered bytes. All offsets and lengths are in bytes.
///
/// Calls may come from any thread at any time. A failed call may have done part of its work.
///
/// A method has a default only if that does its work by methods that have none: it is right for each device, though
/// perhaps slow. So no device allows, skips or forgets a thing because its author forgot a method. A device around another
/// one passes its methods on with [`delegate!`]. Others have [`crate::plain_device!`] or [`crate::plain_methods!`].
pub trait BlockDevice: Send + Sync {
    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Looks how many bytes there are now, where that may change behind the device's back, as a file
    /// grows. From then on it is [`BlockDevice::size`].
    ///
    /// # Errors
    /// [`Error::Io`] if the device cannot be asked.
    fn refresh_size(&self) -> Result<u64>;

    /// The sector sizes.
    fn sector_sizes(&self) -> SectorSizes;

    /// A name for messages: the path, or what the device is.
    fn name(&self) -> String;

    /// Keeps other machines from writing to the device until the claim is dropped. Opening the device keeps out other
    /// processes of this machine.
    ///
    /// # Errors
    /// [`Error::Reserved`] if another machine has reserved it. [`Error::NoReservations`] if it cannot be reserved.
    fn claim(&self, by: &Claimant) -> Result<Claim>;

    /// Fails if a machine has reserved the device for a pool. A device that cannot be asked counts as not reserved.
    ///
    /// # Errors
    /// [`Error::Reserved`], also if it is this machine that did not end its reservation.
    fn check_unreserved(&self) -> Result<()>;

    /// Fills `buf` from `offset`. A device that ends before is an error, not a short read.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`], [`Error::Unauthentic`] if the device authenticates what it
    /// stores, or [`Error::Io`]. The contents of `buf` are undefined then.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Writes the pieces one after the other from `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`], [`Error::ReadOnly`], or [`Error::Io`]. A part may be
    /// written then.
    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()>;

    /// Writes, and returns when that is durable. Earlier writes need not be.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`] and [`BlockDevice::flush`].
    fn write_durably_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.write_at(offset, pieces)?;
        self.flush()
    }

    /// Writes `data` at `offset`, and may leave anything in it: what encrypts need not copy it first.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn write_in_place(&self, offset: u64, data: &mut [u8]) -> Result<()> {
        self.write_at(offset, &[IoSlice::new(data)])
    }

    /// Returns whether a write waits for a network or a medium, so that a caller that writes to several devices gains
    /// from a thread for each. A write to a file does not wait: it goes to the system's cache.
    fn waits_on_write(&self) -> bool;

    /// Returns whether a read or a write of a range would wait now for work on that part, and others would not. It
    /// may change at
    /// once: this is for a caller that has other requests to carry out meanwhile.
    fn would_wait(&self, offset: u64, len: u64, is_write: bool) -> bool;

    /// Returns how the device reads and writes, if it is a file, a disk of this system or a log.
    fn io_mode(&self) -> Option<IoMode>;

    /// Makes every change that has returned outlive this process, though perhaps no power cut. A server calls this before
    /// it answers clients that go on when the next process serves the device.
    ///
    /// # Errors
    /// [`Error::Io`]. Changes that were not settled may be lost with this process.
    fn settle(&self) -> Result<()>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// [`Error::Io`]. Earlier writes may be lost then, and a later success says nothing of them. Files and disks have
    /// none before [`BlockDevice::begin_anew`] succeeds.
    fn flush(&self) -> Result<()>;

    /// Makes sure that no power cut keeps a later write and loses an earlier one that has returned. This is less than
    /// [`BlockDevice::flush`] where a device has an order of its own.
    ///
    /// # Errors
    /// As [`BlockDevice::flush`].
    fn order(&self) -> Result<()> {
        self.flush()
    }

    /// From now on reads return what the medium holds, but for what the system's cache still has to write.
    ///
    /// # Errors
    /// As [`BlockDevice::read_at`].
    fn drop_cached(&self) -> Result<()>;

    /// After a flush that failed: what the cache still has is written, reads return what the medium holds, and flushes may
    /// succeed again. For a caller that writes again what may be lost.
    ///
    /// # Errors
    /// As [`BlockDevice::flush`]. Nothing is forgiven then.
    fn begin_anew(&self) -> Result<()>;

    /// Says that a range is no longer needed. It reads as anything afterwards.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn discard(&self, offset: u64, len: u64) -> Result<()>;

    /// Makes a range read as zeros. What it held may stay on the medium.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.overwrite(offset, len)
    }

    /// Does the same as [`BlockDevice::zero`], if that is faster than writing; otherwise nothing is done, and this is
    /// false.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn zero_fast(&self, offset: u64, len: u64) -> Result<bool>;

    /// Tells a range to which nothing was ever written, as far as can be seen: its bytes are zeros, or would be without the
    /// encryption of this device.
    ///
    /// # Errors
    /// [`Error::Io`] if the device cannot be read.
    fn is_blank(&self, offset: u64, len: usize) -> Result<bool>;

    /// Returns the facts about a range of at most `len` bytes that begins at `offset`. Both lie on the device,
    /// and `len` is not 0; nor is what is returned.
    ///
    /// # Errors
    /// [`Error::Io`] if the device cannot be asked.
    fn status_at(&self, offset: u64, len: u64) -> Result<RangeStatus>;

    /// Writes zeros over a range, so that what it held is gone as far as the device overwrites what
    /// is written. Durable, as any write, after the next flush.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn overwrite(&self, offset: u64, len: u64) -> Result<()>;
}

/// A device that several have.
impl<D: BlockDevice + ?Sized> BlockDevice for Arc<D> {
    delegate!(self => **self; all);
}

/// Checks that a range lies on a device.
pub(crate) fn check_range(device: &dyn BlockDevice, offset: u64, len: u64) -> Result<()> {
    let size = device.size();
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::OutOfRange {
            device: device.name(),
            offset,
            len,
            size,
        }),
    }
}

/// The length of a vectored write.
pub(crate) fn total(pieces: &[IoSlice<'_>]) -> u64 {
    pieces.iter().map(|p| p.len() as u64).sum()
}
