//! Devices that hold copies only, of what is elsewhere in a pool: their label, and the range behind it.
//!
//! A cache device is in no group and holds only copies. Its label says whose it is, so
//! that a device is not written to that has become another one meanwhile. The index at its end says what lies behind the
//! label. It may be older than that: each copy is checked when it is read.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoMode};

use crate::group::pace::{self, Pace, ReadBuffer};
use crate::layout::frames::{BLOCK, CACHE_INDEX_MAGIC, CACHE_MAGIC, decode_frame, encode_frame};
use crate::store::devices::refuse_contents;
use crate::{Error, NewMember, Result, UNIT};

/// The beginning of the range, behind the block that shows other programs that the device is in use.
pub(crate) const START: u64 = 128 << 10;
/// A read waits for no more than this: the devices of the pool have the same data.
const READ_MAX: Duration = Duration::from_secs(1);
/// A device for less than this is not worth its label.
const UNITS_MIN: u32 = 256;

/// The index takes one unit of so many, and one for its head.
const UNITS_PER_INDEX: u32 = 256;
/// The index takes no more units.
const INDEX_UNITS_MAX: u32 = (64 << 20) / UNIT + 1;

/// Returns whether a device has the label of a cache device.
pub(crate) fn is_cache(device: &dyn BlockDevice) -> Result<bool> {
    if device.size() < START {
        return Ok(false);
    }
    let mut block = [0; BLOCK];
    device.read_at(0, &mut block)?;
    Ok(block.starts_with(&CACHE_MAGIC))
}

/// A labelled cache device.
#[derive(Clone)]
pub struct CacheRange {
    device: Arc<dyn BlockDevice>,
    pool_guid: u64,
    guid: u64,
    units: u32,
    /// The units of the index, behind the others.
    index_units: u32,
    pace: Arc<Pace>,
}

impl CacheRange {
    /// Labels a device, which is durable when this returns.
    ///
    /// # Errors
    /// [`Error::InUse`] if it holds something and `force` is not set; [`Error::TooSmall`].
    pub fn create(new: &NewMember, pool_guid: u64) -> Result<CacheRange> {
        let range = CacheRange::plan(new, pool_guid)?;
        // Whatever the device was before, it is not any more: labels of pools are at both ends.
        let size = new.device.size() / u64::from(UNIT) * u64::from(UNIT);
        new.device
            .overwrite(size - u64::from(UNIT), u64::from(UNIT))?;
        new.device.overwrite(0, START)?;
        let label = encode_frame(CACHE_MAGIC, pool_guid, 0, &new.guid.to_le_bytes());
        new.device.write_at(0, &[IoSlice::new(&label[..])])?;
        new.device.flush()?;
        Ok(range)
    }

    /// Says whether [`CacheRange::create`] would refuse a device. Nothing is written.
    ///
    /// # Errors
    /// As [`CacheRange::create`].
    pub fn check(new: &NewMember) -> Result<()> {
        CacheRange::plan(new, 0).map(drop)
    }

    fn plan(new: &NewMember, pool_guid: u64) -> Result<CacheRange> {
        if !new.force {
            refuse_contents(new.device.as_ref())?;
        }
        CacheRange::of(&new.device, pool_guid, new.guid)
    }

    /// Has the label of a device name another pool, durably. The label is one block, and holds copies only.
    ///
    /// # Errors
    /// As [`CacheRange::open`].
    pub fn renumber(
        device: &Arc<dyn BlockDevice>,
        (old, new): (u64, u64),
        guid: u64,
    ) -> Result<()> {
        CacheRange::open(device, old, guid)?;
        let label = encode_frame(CACHE_MAGIC, new, 0, &guid.to_le_bytes());
        device.write_at(0, &[IoSlice::new(&label[..])])?;
        Ok(device.flush()?)
    }

    /// Takes back a device that was labelled before.
    ///
    /// # Errors
    /// [`Error::NotThatCache`] if it is another one by now.
    pub fn open(device: &Arc<dyn BlockDevice>, pool_guid: u64, guid: u64) -> Result<CacheRange> {
        let not_that = || Error::NotThatCache {
            device: device.name(),
        };
        if device.size() < BLOCK as u64 {
            return Err(not_that());
        }
        let mut block = [0; BLOCK];
        device.read_at(0, &mut block)?;
        match decode_frame(CACHE_MAGIC, pool_guid, &block) {
            Ok((_, payload)) if payload == guid.to_le_bytes() => {
                CacheRange::of(device, pool_guid, guid)
            }
            _ => Err(not_that()),
        }
    }

    fn of(device: &Arc<dyn BlockDevice>, pool_guid: u64, guid: u64) -> Result<CacheRange> {
        let (size, unit) = (device.size(), u64::from(UNIT));
        let units = size.saturating_sub(START) / unit;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let index_units = (units / UNITS_PER_INDEX + 1).min(INDEX_UNITS_MAX);
        let units = units.saturating_sub(index_units);
        if units < UNITS_MIN {
            return Err(Error::TooSmall {
                device: device.name(),
                size,
                minimum: START + u64::from(UNITS_MIN) * unit,
            });
        }
        Ok(CacheRange {
            device: Arc::clone(device),
            pool_guid,
            guid,
            units,
            index_units,
            pace: Arc::default(),
        })
    }

    /// The name of the device.
    pub fn name(&self) -> String {
        self.device.name()
    }

    /// See [`BlockDevice::io_mode`].
    pub fn io_mode(&self) -> Option<IoMode> {
        self.device.io_mode()
    }

    /// Returns the number of units of [`UNIT`] bytes.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Fills `buf` from a unit on.
    ///
    /// # Errors
    /// [`Error::Device`] if the device fails.
    pub fn read(&self, unit: u32, buf: &mut [u8]) -> Result<()> {
        Ok(self.device.read_at(START + at(unit), buf)?)
    }

    /// Does the same as [`CacheRange::read`], but no longer than a second. The late answer is thrown away.
    ///
    /// # Errors
    /// [`Error::Device`] if the device fails, [`Error::Unanswered`].
    pub fn read_soon(&self, unit: u32, buf: &mut [u8]) -> Result<()> {
        let (device, len) = (Arc::clone(&self.device), buf.len());
        let read = move || ReadBuffer::read(&*device, START + at(unit), len);
        let unanswered = || Error::Unanswered {
            device: self.device.name(),
            millis: READ_MAX.as_millis() as u64,
        };
        let bytes = pace::ask(&self.pace, READ_MAX, read).ok_or_else(unanswered)??;
        buf.copy_from_slice(bytes.bytes());
        Ok(())
    }

    /// Returns whether a read was given up, and is not answered yet.
    pub fn is_slow(&self) -> bool {
        self.pace.is_slow()
    }

    /// Returns the number of reads that were given up.
    pub fn given_up(&self) -> u64 {
        self.pace.given_up()
    }

    /// Writes pieces one after the other from a unit on. They need not be durable, ever.
    ///
    /// # Errors
    /// [`Error::Device`] if the device fails.
    pub fn write(&self, unit: u32, pieces: &[IoSlice<'_>]) -> Result<()> {
        Ok(self.device.write_at(START + at(unit), pieces)?)
    }

    /// The most bytes of an index.
    pub fn index_max(&self) -> usize {
        (self.index_units as usize - 1) * UNIT as usize
    }

    /// Keeps an index of the contents. Nothing is written if the device has another label by now.
    ///
    /// # Errors
    /// [`Error::Device`] if the device fails, [`Error::NotThatCache`].
    pub fn write_index(&self, index: &[u8]) -> Result<()> {
        assert!(index.len() <= self.index_max(), "the index fits its area");
        CacheRange::open(&self.device, self.pool_guid, self.guid)?;
        let mut padded = index.to_vec();
        padded.resize(index.len().next_multiple_of(UNIT as usize), 0);
        let begin = START + at(self.units);
        // A head that is older than the index has another checksum.
        self.device
            .write_at(begin + u64::from(UNIT), &[IoSlice::new(&padded)])?;
        let mut payload = [0; INDEX_HEAD];
        payload[..8].copy_from_slice(&self.guid.to_le_bytes());
        payload[8..16].copy_from_slice(&(index.len() as u64).to_le_bytes());
        payload[16..].copy_from_slice(blake3::hash(index).as_bytes());
        let head = encode_frame(CACHE_INDEX_MAGIC, self.pool_guid, 0, &payload);
        self.device.write_at(begin, &[IoSlice::new(&head[..])])?;
        Ok(self.device.flush()?)
    }

    /// Returns the index that was kept last, if it is whole.
    pub fn read_index(&self) -> Option<Vec<u8>> {
        let mut head = [0; BLOCK];
        let begin = START + at(self.units);
        self.device.read_at(begin, &mut head).ok()?;
        let (_, payload) = decode_frame(CACHE_INDEX_MAGIC, self.pool_guid, &head).ok()?;
        let payload: &[u8; INDEX_HEAD] = payload.try_into().ok()?;
        let (guid, rest) = payload.split_first_chunk()?;
        let (len, sum) = rest.split_first_chunk()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        if u64::from_le_bytes(*guid) != self.guid || len > self.index_max() {
            return None;
        }
        let mut index = vec![0; len.next_multiple_of(UNIT as usize)];
        let read = self.device.read_at(begin + u64::from(UNIT), &mut index);
        read.ok()?;
        index.truncate(len);
        (blake3::hash(&index).as_bytes() == sum).then_some(index)
    }

    /// Makes it a device that belongs to no pool. Discards its contents, as far as the device can.
    ///
    /// # Errors
    /// [`Error::Device`] if the device fails.
    pub fn erase(&self) -> Result<()> {
        self.device.overwrite(0, START)?;
        self.device
            .discard(START, at(self.units + self.index_units))?;
        Ok(self.device.flush()?)
    }
}

/// The bytes of the payload of the head of an index: guid, length, checksum.
const INDEX_HEAD: usize = 48;

fn at(unit: u32) -> u64 {
    u64::from(unit) * u64::from(UNIT)
}

#[cfg(test)]
mod tests {
    use block::MemoryDevice;

    use super::*;

    fn member(device: &Arc<dyn BlockDevice>, force: bool) -> NewMember {
        NewMember {
            device: Arc::clone(device),
            guid: 7,
            created: 0,
            force,
        }
    }

    fn device(bytes: u64) -> Arc<dyn BlockDevice> {
        Arc::new(MemoryDevice::new(bytes as usize))
    }

    #[test]
    fn a_device_is_known_by_its_label() {
        let device = device(4 << 20);
        let range = CacheRange::create(&member(&device, false), 5).unwrap();
        assert_eq!(range.units(), (4 << 20) / 4096 - 32 - 4);
        range.write(3, &[IoSlice::new(&[9; 4096])]).unwrap();
        let opened = CacheRange::open(&device, 5, 7).unwrap();
        let mut buf = [0; 4096];
        opened.read(3, &mut buf).unwrap();
        assert_eq!(buf, [9; 4096]);
        assert!(CacheRange::open(&device, 6, 7).is_err());
        assert!(CacheRange::open(&device, 5, 8).is_err());
        let again = CacheRange::create(&member(&device, false), 5);
        assert!(matches!(again, Err(Error::InUse { .. })));
        opened.erase().unwrap();
        assert!(CacheRange::open(&device, 5, 7).is_err());
        CacheRange::create(&member(&device, false), 5).unwrap();
    }

    #[test]
    fn an_index_is_read_if_it_is_whole_and_of_this_device() {
        let device = device(4 << 20);
        let range = CacheRange::create(&member(&device, false), 5).unwrap();
        assert_eq!(range.read_index(), None);
        for len in [0, 1, 5000, range.index_max()] {
            let index = vec![7; len];
            range.write_index(&index).unwrap();
            assert_eq!(range.read_index(), Some(index));
        }
        // Nothing that follows the records was written to.
        let mut last = vec![0; 4096];
        range.read(range.units() - 1, &mut last).unwrap();
        assert_eq!(last, [0; 4096]);
        for at in [0, 50, 4095, 4096, 9000] {
            let at = START + super::at(range.units()) + at;
            let mut byte = [0];
            device.read_at(at, &mut byte).unwrap();
            device.write_at(at, &[IoSlice::new(&[!byte[0]])]).unwrap();
            assert_eq!(range.read_index(), None, "{at}");
            device.write_at(at, &[IoSlice::new(&byte)]).unwrap();
        }
        assert!(range.read_index().is_some());
        // The device has left the pool, or is in another one.
        range.erase().unwrap();
        assert!(range.write_index(&[1]).is_err());
    }

    #[test]
    fn every_flipped_bit_of_the_label_is_noticed() {
        let device = device(2 << 20);
        CacheRange::create(&member(&device, false), 5).unwrap();
        let mut label = [0; BLOCK];
        device.read_at(0, &mut label).unwrap();
        for bit in 0..BLOCK * 8 {
            let mut bad = label;
            bad[bit / 8] ^= 1 << (bit % 8);
            device.write_at(0, &[IoSlice::new(&bad)]).unwrap();
            assert!(CacheRange::open(&device, 5, 7).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_device_that_is_too_small_is_refused() {
        for size in [0, 4096, 1 << 20] {
            let device = device(size);
            let made = CacheRange::create(&member(&device, true), 5);
            assert!(matches!(made, Err(Error::TooSmall { .. })), "{size}");
            assert!(CacheRange::open(&device, 5, 7).is_err());
        }
    }
}
