//! An image: a copy of one member of a pool, on a device whose changes count together.
//!
//! The image is no member. It has the label of one, and the state of one commit. So an import of the image is that of the
//! member as it was then. Each batch of changes takes the image from one commit to a later one.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;

use block::{AtomicDevice, BlockDevice};
use parking_lot::Mutex;

use crate::group::member::{HeaderBlock, Member};
use crate::layout::frames::{BLOCK, Label, PoolChange, RING_SLOTS, SUPERBLOCK_MAGIC, encode_frame};
use crate::layout::geometry::{COPIES, Geometry};
use crate::store::devices::Store;
use crate::{Error, Result, SegmentId};

/// An image of a pool with one group.
pub struct PoolImage {
    device: Arc<dyn AtomicDevice>,
    known: Mutex<KnownHeader>,
}

/// The parts of the header that the image is known to have.
#[derive(Default)]
struct KnownHeader {
    label: Option<Box<HeaderBlock>>,
    /// `None` until a batch was ended: the device may have keys of any earlier state.
    keys: Option<BTreeMap<u32, Box<HeaderBlock>>>,
}

/// The header that an image gets at the end of a batch.
pub struct ImageHeader {
    label: Label,
    geometry: Geometry,
    /// The number of segments of the group now. The label has the number at the time when its device joined.
    segments: u32,
    txg: u64,
    superblock: Box<HeaderBlock>,
    keys: BTreeMap<u32, Box<HeaderBlock>>,
}

impl Store {
    /// The size of an image of the pool, and of each of its headers.
    ///
    /// # Errors
    /// `Error::NoSuchMember`.
    pub fn image_size(&self, guid: u64) -> Result<(u64, u64)> {
        let layout = self.groups.now();
        let geometry = &layout.member(guid)?.geometry;
        Ok((geometry.device_size, geometry.header_size))
    }

    /// The header of an image: the label of a member, a superblock, and key blocks. Nothing else may write to the headers
    /// meanwhile.
    ///
    /// # Errors
    /// `Error::NoSuchMember`; `Error::DamagedKeyBlock`; the failure of a device.
    pub fn image_header(
        &self,
        guid: u64,
        (txg, payload): (u64, &[u8]),
        key_blocks: &[u32],
    ) -> Result<ImageHeader> {
        let layout = self.groups.now();
        let member = layout.member(guid)?;
        let frame = |index: &u32| Ok((*index, self.key_block_frame(*index)?));
        Ok(ImageHeader {
            label: member.label,
            geometry: member.geometry,
            segments: layout.group(0).segments(),
            txg,
            superblock: encode_frame(SUPERBLOCK_MAGIC, self.pool_guid, txg, payload),
            keys: key_blocks.iter().map(frame).collect::<Result<_>>()?,
        })
    }

    /// Returns whether the labels of the pool are changing. No image is made meanwhile.
    pub fn has_changing_labels(&self) -> bool {
        let layout = self.groups.now();
        let mut members = layout.members();
        members.any(|member| member.label.change() != PoolChange::None)
    }
}

impl ImageHeader {
    /// The label, for a device of this size.
    fn fit(&mut self, device: &dyn BlockDevice) -> Result<()> {
        let size = device.size() - device.size() % BLOCK as u64;
        let minimum = self.geometry.least_size(self.segments);
        if size < minimum {
            return Err(Error::TooSmall {
                device: device.name(),
                size,
                minimum,
            });
        }
        self.label.device_size = size.into();
        self.geometry.device_size = size;
        Ok(())
    }

    /// The place of bytes on the device. An image has group 0 only.
    fn place(&self, segment: SegmentId, offset: u32, len: u64) -> Result<u64> {
        match segment.group() {
            0 => Ok(self.geometry.segment(segment.index()) + u64::from(offset)),
            _ => Err(Error::NoSuchPlace {
                group: segment.group() as u16,
                index: segment.index(),
                offset,
                len,
            }),
        }
    }
}

impl PoolImage {
    /// An image on a device, which is empty or has an image already.
    pub fn new(device: Arc<dyn AtomicDevice>) -> PoolImage {
        PoolImage {
            device,
            known: Mutex::default(),
        }
    }

    /// The name of the device.
    pub fn name(&self) -> String {
        self.device.name()
    }

    /// The newest superblock of the image, with its transaction group. `None` if the device is empty.
    ///
    /// # Errors
    /// `Error::NotAPool` or another error if it is no image of the pool with this guid.
    pub fn superblock(&self, pool_guid: u64) -> Result<Option<(u64, Vec<u8>)>> {
        if self.device.is_blank(0, BLOCK)? {
            return Ok(None);
        }
        let member = Member::open(Arc::clone(&self.device) as Arc<dyn BlockDevice>)?;
        if member.label.pool_guid.get() != pool_guid {
            return Err(Error::OtherDevice {
                device: self.name(),
            });
        }
        let mut found = Vec::new();
        member.superblocks(&mut found)?;
        let newest = found.into_iter().max_by_key(|(txg, _)| *txg);
        newest.map_or(Err(Error::NoSuperblock), |newest| Ok(Some(newest)))
    }

    /// Begins a batch, or goes on with the one that was not ended.
    ///
    /// # Errors
    /// `Error::TooSmall` if the pool has become larger than the device; the failure of the device.
    pub fn begin(&self, header: &mut ImageHeader) -> Result<()> {
        header.fit(self.device.as_ref())?;
        Ok(self.device.begin_batch()?)
    }

    /// Writes to a segment.
    ///
    /// # Errors
    /// `Error::NoSuchPlace` if it lies in another group than 0; the failure of the device.
    pub fn write(
        &self,
        header: &ImageHeader,
        segment: SegmentId,
        offset: u32,
        bytes: &[u8],
    ) -> Result<()> {
        let at = header.place(segment, offset, bytes.len() as u64)?;
        Ok(self.device.write_at(at, &[IoSlice::new(bytes)])?)
    }

    /// Says that a range of a segment is not needed any more.
    ///
    /// # Errors
    /// `Error::NoSuchPlace` if it lies in another group than 0; the failure of the device.
    pub fn discard(
        &self,
        header: &ImageHeader,
        segment: SegmentId,
        offset: u32,
        len: u32,
    ) -> Result<()> {
        let at = header.place(segment, offset, len.into())?;
        Ok(self.device.discard(at, len.into())?)
    }

    /// Writes the header, and ends the batch. Then the image has the new state durably, and no key block of an earlier one.
    ///
    /// # Errors
    /// The failure of the device. The image has the old state or the new one.
    pub fn finish(&self, header: &ImageHeader) -> Result<()> {
        let mut known = self.known.lock();
        let written = self.write_header(&mut known, header);
        let ended = written.and_then(|()| Ok(self.device.end_batch()?));
        if ended.is_err() {
            *known = KnownHeader::default();
        }
        ended
    }

    fn write_header(&self, known: &mut KnownHeader, header: &ImageHeader) -> Result<()> {
        let (device, geometry) = (&self.device, &header.geometry);
        let keys = known.keys.take();
        let slot = (header.txg % u64::from(RING_SLOTS)) as u32;
        let label = header.label.encode();
        let is_new_label = known.label.as_ref() != Some(&label);
        for copy in COPIES {
            if is_new_label {
                device.write_at(geometry.label(copy), &[IoSlice::new(&label[..])])?;
            }
            let at = geometry.superblock(copy, slot);
            device.write_at(at, &[IoSlice::new(&header.superblock[..])])?;
            match &keys {
                Some(keys) => {
                    for (index, old) in keys {
                        if header.keys.get(index) != Some(old) {
                            device.overwrite(geometry.key_block(copy, *index), BLOCK as u64)?;
                        }
                    }
                }
                // A batch that was not ended, and an end after which keys were not removed, leave keys that no read shows.
                None => {
                    let len = u64::from(geometry.key_blocks) * BLOCK as u64;
                    device.overwrite(geometry.key_block(copy, 0), len)?;
                }
            }
            for (index, new) in &header.keys {
                if keys.as_ref().and_then(|keys| keys.get(index)) != Some(new) {
                    let at = geometry.key_block(copy, *index);
                    device.write_at(at, &[IoSlice::new(&new[..])])?;
                }
            }
        }
        known.label = Some(label);
        known.keys = Some(header.keys.clone());
        Ok(())
    }
}
