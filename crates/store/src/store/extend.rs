//! A device that became larger: the pool uses all of it.
//!
//! The header at the end moves to the new end. It is written there first, label and all, and flushed; then
//! the label at the front says the new size; then the old header is overwritten. A reader goes by the front
//! label. So a power cut leaves the device with its old size, or with the new one and a header at the end
//! that is whole.

use std::io::IoSlice;
use std::sync::Arc;

use crate::group::member::Member;
use crate::layout::frames::{
    BLOCK, KEY_BLOCK_MAGIC, Label, RING_SLOTS, SUPERBLOCK_MAGIC, encode_frame,
};
use crate::layout::geometry::HeaderSide;
use crate::store::devices::Store;
use crate::{Error, Result};

impl Store {
    /// Has the pool use all of a device that became larger. The header at its end moves to its new end. It
    /// gets the key blocks named and the newest superblock. Durable when this returns; a power cut leaves
    /// the old size or the new one. False if too little is gained. Nothing else may write to the headers
    /// meanwhile.
    ///
    /// The old header at the end is left to [`Store::wipe_end`].
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    pub fn extend(&self, guid: u64, key_blocks: &[u32], superblock: (u64, &[u8])) -> Result<bool> {
        let layout = self.groups.now();
        let member = layout.member(guid)?;
        let present = member.device.refresh_size()?;
        if present < member.geometry.device_size {
            return Err(Error::Truncated {
                device: member.device.name(),
                actual: present,
                expected: member.geometry.device_size,
            });
        }
        let Some(size) = member.extended() else {
            return Ok(false);
        };
        let keys: Result<Vec<(u32, Vec<u8>)>> = key_blocks
            .iter()
            .map(|index| Ok((*index, self.read_key_block(*index)?)))
            .collect();
        let extended = Arc::new(member.with_size(size));
        type Header = (Vec<(u32, Vec<u8>)>, u64, Vec<u8>);
        let header = (keys?, superblock.0, superblock.1.to_vec());
        let back = |member: &Member, (keys, txg, superblock): &Header| {
            member.write_back_header(keys, (*txg, superblock))
        };
        self.groups.on_one(&layout, &extended, header, back)?;
        let front = |member: &Member, (): &()| member.write_label(HeaderSide::Front);
        let labelled = self.groups.on_one(&layout, &extended, (), front);
        if let Err(Error::Unanswered { .. }) = labelled {
            // It was given up. Either label may be there when it comes back.
            return labelled.map(|()| false);
        }
        if let Err(error) = labelled {
            // It is unknown which of the two labels is there. The old one is as good, while both ends are whole.
            let _ = member.write_label(HeaderSide::Front);
            return Err(error);
        }
        self.groups.change(|layout| layout.renew(&extended));
        Ok(true)
    }

    /// Overwrites the header that ended a device while the pool used so many bytes of it, and what a power cut
    /// left of [`Store::extend`] at its present end. Flushes.
    ///
    /// # Errors
    /// `Error::NoSuchMember`, or the failure of the device.
    pub fn wipe_end(&self, guid: u64, size: u64) -> Result<()> {
        let layout = self.groups.now();
        let member = layout.member(guid)?;
        let group = layout.group(member.label.group.get().into());
        let task = (size, group.per_column().0);
        let wipe =
            |member: &Member, (size, segments): &(u64, u32)| member.wipe_end(*size, *segments);
        self.groups.on_one(&layout, member, task, wipe)
    }
}

impl Member {
    /// The size that the device would have if all of it were used, if that is enough larger.
    pub(crate) fn extended(&self) -> Option<u64> {
        let present = self.device.size();
        let size = present - present % BLOCK as u64;
        // Else the new header would lie where the old one is, which is needed until the end.
        let least = self
            .geometry
            .device_size
            .saturating_add(self.geometry.header_size);
        (size >= least).then_some(size)
    }

    /// Writes the header at the end, where nothing of the pool lies. The label comes first: it tells what is
    /// there if the power fails before the rest is needed.
    fn write_back_header(
        &self,
        keys: &[(u32, Vec<u8>)],
        (txg, superblock): (u64, &[u8]),
    ) -> Result<()> {
        let (geometry, guid) = (&self.geometry, self.label.pool_guid.get());
        self.write_label(HeaderSide::Back)?;
        let begin = geometry.device_size - geometry.header_size;
        self.overwrite(begin, geometry.header_size - BLOCK as u64)?;
        for (index, payload) in keys {
            let block = encode_frame(KEY_BLOCK_MAGIC, guid, 0, payload);
            let at = geometry.key_block(HeaderSide::Back, *index);
            self.write(at, &[IoSlice::new(&block[..])])?;
        }
        let block = encode_frame(SUPERBLOCK_MAGIC, guid, txg, superblock);
        let slot = (txg % u64::from(RING_SLOTS)) as u32;
        let at = geometry.superblock(HeaderSide::Back, slot);
        self.write(at, &[IoSlice::new(&block[..])])?;
        self.flush()
    }

    fn write_label(&self, copy: HeaderSide) -> Result<()> {
        let block = self.label.encode();
        self.write(self.geometry.label(copy), &[IoSlice::new(&block[..])])?;
        self.flush()
    }

    /// See [`Store::wipe_end`]. The group has so many segments on each device.
    pub(crate) fn wipe_end(&self, size: u64, segments: u32) -> Result<()> {
        let geometry = &self.geometry;
        let header = geometry.header_size;
        // Nothing lies between the last segment and the header at the end.
        let slack = geometry.segment(segments)..geometry.device_size - header;
        let begin = size.saturating_sub(header);
        if size != geometry.device_size && slack.start <= begin && size <= slack.end {
            self.overwrite(begin, header)?;
        }
        if let Some(begin) = self.unfinished_end()? {
            self.overwrite(begin, header - BLOCK as u64)?;
            self.flush()?;
            self.overwrite(begin + header - BLOCK as u64, BLOCK as u64)?;
        }
        self.flush()
    }

    /// Returns the beginning of a new last header whose move was cut off before the front label said
    /// so.
    fn unfinished_end(&self) -> Result<Option<u64>> {
        let Some(size) = self.extended() else {
            return Ok(None);
        };
        let mut block = [0; BLOCK];
        self.read(size - BLOCK as u64, &mut block)?;
        let is_ours = Label::decode(&block).is_ok_and(|label| {
            (label.pool_guid, label.device_guid) == (self.label.pool_guid, self.label.device_guid)
                && label.device_size.get() == size
        });
        Ok(is_ours.then_some(size - self.geometry.header_size))
    }

    fn overwrite(&self, at: u64, len: u64) -> Result<()> {
        const CHUNK: u64 = 1 << 20;
        let zeros = vec![0; CHUNK.min(len) as usize];
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(CHUNK);
            self.write(at + done, &[IoSlice::new(&zeros[..piece as usize])])?;
            done += piece;
        }
        Ok(())
    }
}
