//! The division of a device into header, segments and the second header.
//!
//! ```text
//! | label | superblock ring | key area | pad | segment 0 | ... | segment n-1 | ... | ring | keys | label |
//! |<-------------- header ------------>     |                                   |<------ header ----->|
//! ```

use crate::layout::frames::{BLOCK, RING_SLOTS, header_bytes};
use crate::{Error, Result};

/// Segments are no larger than this.
const SEGMENT_MAX: u64 = 64 << 20;
/// Segments are no smaller than this, the largest record.
const SEGMENT_MIN: u64 = 1 << 20;
/// A device is cut into at least about this many, if it is large enough.
const SEGMENTS_WANTED: u64 = 128;
/// Fewer segments than this cannot keep classes of records apart.
const SEGMENTS_MIN: u64 = 8;

/// The positions of the parts of a device. All values are bytes, except the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes in a segment.
    pub(crate) segment_size: u32,
    pub(crate) segments: u32,
    /// Blocks in the key area.
    pub(crate) key_blocks: u32,
    /// Bytes before the first segment, and after the last.
    pub(crate) header_size: u64,
    /// Bytes used, a multiple of [`BLOCK`].
    pub(crate) device_size: u64,
}

/// The two headers of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderSide {
    /// At the start of the device.
    Front,
    /// At its end.
    Back,
}

/// The sides of both headers.
pub(crate) const COPIES: [HeaderSide; 2] = [HeaderSide::Front, HeaderSide::Back];

/// The sizes that all devices of a pool share, chosen by the smallest.
pub(crate) fn choose(smallest: u64) -> (u32, u32) {
    let wanted = smallest / SEGMENTS_WANTED;
    let segment = (wanted + 1).next_power_of_two() / 2;
    let segment = segment.clamp(SEGMENT_MIN, SEGMENT_MAX);
    // One block for each MiB of device, up to 64 MiB: every encrypted dataset takes at least one.
    let key_blocks = (smallest >> 20).clamp(32, 16384);
    (segment as u32, key_blocks as u32)
}

/// The bytes of each header of a device of this size, if it is the only one of a pool.
pub fn header_size(size: u64) -> u64 {
    let (_, key_blocks) = choose(size);
    header_area(key_blocks)
}

/// The bytes of a header with so many key blocks.
fn header_area(key_blocks: u32) -> u64 {
    header_bytes(key_blocks).next_multiple_of(64 << 10)
}

impl Geometry {
    /// Divides a device of `size` bytes.
    pub(crate) fn new(
        device: &str,
        size: u64,
        segment_size: u32,
        key_blocks: u32,
    ) -> Result<Geometry> {
        let device_size = size - size % BLOCK as u64;
        let header_size = header_area(key_blocks);
        let space = device_size.saturating_sub(2 * header_size);
        let segments = space / u64::from(segment_size);
        if segments < SEGMENTS_MIN {
            return Err(Error::TooSmall {
                device: device.into(),
                size,
                minimum: 2 * header_size + SEGMENTS_MIN * u64::from(segment_size),
            });
        }
        Ok(Geometry {
            segment_size,
            segments: u32::try_from(segments).unwrap_or(u32::MAX),
            key_blocks,
            header_size,
            device_size,
        })
    }

    /// Returns the number of segments that a device of this size has space for. Its group may have fewer.
    pub(crate) fn segments_max(&self) -> u32 {
        let between = self.device_size.saturating_sub(2 * self.header_size);
        u32::try_from(between / u64::from(self.segment_size)).unwrap_or(u32::MAX)
    }

    /// The least size of a device that has space for so many segments.
    pub(crate) fn least_size(&self, segments: u32) -> u64 {
        2 * self.header_size + u64::from(segments) * u64::from(self.segment_size)
    }

    /// The byte at which a segment starts.
    pub(crate) fn segment(&self, index: u32) -> u64 {
        self.header_size + u64::from(index) * u64::from(self.segment_size)
    }

    /// The byte at which a label lies.
    pub(crate) fn label(&self, copy: HeaderSide) -> u64 {
        match copy {
            HeaderSide::Front => 0,
            HeaderSide::Back => self.device_size - BLOCK as u64,
        }
    }

    /// The byte at which the superblock of a transaction group lies.
    pub(crate) fn superblock(&self, copy: HeaderSide, slot: u32) -> u64 {
        debug_assert!(slot < RING_SLOTS, "superblocks go round in the ring");
        self.body(copy) + u64::from(slot) * BLOCK as u64
    }

    /// The byte at which a key block lies.
    pub(crate) fn key_block(&self, copy: HeaderSide, index: u32) -> u64 {
        self.body(copy) + (u64::from(RING_SLOTS) + u64::from(index)) * BLOCK as u64
    }

    /// The byte at which a heartbeat lies: the last block of the front header, or the one before the label of the back
    /// header, if nothing else is there.
    pub(crate) fn heartbeat(&self, copy: HeaderSide) -> Option<u64> {
        let block = BLOCK as u64;
        let is_free = self.header_size >= header_bytes(self.key_blocks) + block;
        is_free.then_some(match copy {
            HeaderSide::Front => self.header_size - block,
            HeaderSide::Back => self.device_size - 2 * block,
        })
    }

    fn body(&self, copy: HeaderSide) -> u64 {
        match copy {
            HeaderSide::Front => BLOCK as u64,
            HeaderSide::Back => self.device_size - header_bytes(self.key_blocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_suit_devices() {
        assert_eq!(choose(16 << 20), (1 << 20, 32));
        assert_eq!(choose(1 << 30), (8 << 20, 1024));
        assert_eq!(choose(8 << 30), (64 << 20, 8192));
        assert_eq!(choose(1 << 44), (64 << 20, 16384));
    }

    #[test]
    fn parts_do_not_overlap() {
        for size in [12 << 20, (64 << 20) + 4097, 1 << 30, 1 << 40] {
            let (segment_size, key_blocks) = choose(size);
            let g = Geometry::new("d", size, segment_size, key_blocks).unwrap();
            let block = BLOCK as u64;
            #[rustfmt::skip]
            let mut parts = vec![
                (g.label(HeaderSide::Front), block),
                (g.superblock(HeaderSide::Front, 0), u64::from(RING_SLOTS) * block),
                (g.key_block(HeaderSide::Front, 0), u64::from(key_blocks) * block),
                (g.segment(0), u64::from(g.segments) * u64::from(segment_size)),
                (g.superblock(HeaderSide::Back, 0), u64::from(RING_SLOTS) * block),
                (g.key_block(HeaderSide::Back, 0), u64::from(key_blocks) * block),
                (g.label(HeaderSide::Back), block),
            ];
            parts.push((size, 0));
            for pair in parts.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{size}: {parts:?}");
            }
        }
    }

    #[test]
    fn small_devices_are_refused() {
        let (segment_size, key_blocks) = choose(8 << 20);
        assert!(matches!(
            Geometry::new("d", 8 << 20, segment_size, key_blocks),
            Err(Error::TooSmall { .. })
        ));
        assert!(Geometry::new("d", 0, segment_size, key_blocks).is_err());
    }
}
