//! The sizes of a volume and of its blocks.

use crate::format::codec::{ValueReader, ValueWriter};
use crate::format::records::node::{FANOUT, NODE_BYTES};
use crate::format::records::pointer::{RECORD_MAX, SLOT_LIMIT};

/// `SIZE BLOCK_SIZE`, in decimal digits.
pub(crate) const VOLUME: &str = "@volume";

/// The smallest blocks, in bytes.
const BLOCK_MIN: u32 = store::UNIT;

/// Old blocks are free again when the new ones are durable. So this many bytes are needed besides the volume.
const OVERWRITE_MAX: u64 = 32 << 20;

/// A small volume needs this part of its size instead.
const OVERWRITE_PART: u64 = 8;

/// The size of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeShape {
    size: u64,
    block_size: u32,
}

impl VolumeShape {
    /// A volume of `size` bytes in blocks of `block_size`. `None` if there can be none: blocks are a power
    /// of two from 4 KiB to 1 MiB, and a volume is whole blocks, at least one.
    pub fn new(size: u64, block_size: u32) -> Option<VolumeShape> {
        let is_block =
            block_size.is_power_of_two() && (BLOCK_MIN..=RECORD_MAX).contains(&block_size);
        let fits = is_block
            && size > 0
            && size <= i64::MAX as u64
            && size.is_multiple_of(block_size.into())
            && size / u64::from(block_size) < SLOT_LIMIT;
        fits.then_some(VolumeShape { size, block_size })
    }

    /// Bytes in all.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.size / u64::from(self.block_size)
    }

    /// The `refreservation` with which all of the volume can be written and overwritten, however full the pool is: all
    /// blocks without compression, the nodes above them, and writes in progress.
    pub fn reservation(&self) -> u64 {
        let mut nodes = 0;
        let mut below = self.blocks();
        while below > 1 {
            below = below.div_ceil(FANOUT as u64);
            nodes += below;
        }
        let on_its_way = OVERWRITE_MAX.min(self.size / OVERWRITE_PART);
        self.size
            .saturating_add(nodes.max(1).saturating_mul(NODE_BYTES))
            .saturating_add(on_its_way)
    }

    /// Returns the property that a [`NewDataset`](crate::NewDataset) of the kind
    /// [`DatasetKind::Volume`](crate::DatasetKind::Volume) has for its size.
    pub fn mark(&self) -> (String, String) {
        (VOLUME.into(), format!("{} {}", self.size, self.block_size))
    }

    pub(crate) fn parse(mark: &str) -> Option<VolumeShape> {
        let (size, block_size) = mark.split_once(' ')?;
        VolumeShape::new(size.parse().ok()?, block_size.parse().ok()?)
    }

    /// The numbers that seals are made over.
    pub(crate) fn numbers(shape: Option<VolumeShape>) -> [u64; 2] {
        shape.map_or([0; 2], |shape| [shape.size, shape.block_size.into()])
    }

    pub(crate) fn encode(&self, w: &mut ValueWriter) {
        w.u64(self.size).u64(self.block_size.into());
    }

    pub(crate) fn decode(r: &mut ValueReader<'_>) -> Option<VolumeShape> {
        let (size, block_size) = (r.u64()?, r.u64()?);
        VolumeShape::new(size, u32::try_from(block_size).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_can_be() {
        let good = [(4096, 4096), (10 << 30, 16 << 10), (1 << 20, 1 << 20)];
        for (size, block) in good {
            let shape = VolumeShape::new(size, block).unwrap();
            let (_, mark) = shape.mark();
            assert_eq!(VolumeShape::parse(&mark), Some(shape));
        }
        let bad = [
            (0, 4096),
            (4096, 0),
            (4096, 512),
            (4096, 8192),
            (12 << 10, 12 << 10),
            (1 << 40, 2 << 20),
            (u64::MAX - 4095, 4096),
        ];
        for (size, block) in bad {
            assert_eq!(VolumeShape::new(size, block), None, "{size} {block}");
        }
        for mark in ["", "1", "x y", "4096 4096 ", "-4096 4096"] {
            assert_eq!(VolumeShape::parse(mark), None, "{mark}");
        }
    }

    #[test]
    fn a_reservation_holds_blocks_and_nodes() {
        let shape = VolumeShape::new(1 << 30, 16 << 10).unwrap();
        let nodes = 65536 / 32 + 65536 / 1024 + 2 + 1;
        assert_eq!(
            shape.reservation(),
            (1 << 30) + nodes * NODE_BYTES + OVERWRITE_MAX
        );
    }
}
