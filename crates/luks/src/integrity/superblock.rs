//! The superblock of dm-integrity, and where things lie behind it.
//!
//! After the kernel's documentation (Documentation/admin-guide/device-mapper/dm-integrity.rst) and the
//! structures of its driver. All numbers are little-endian. The superblock gives all sizes and is not
//! trusted: every area that [`TagLayout::new`] accepts lies on the device, and no sum overflows.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::model::SECTOR;

/// The length of the superblock on the device, in bytes: its fields, and zeros.
pub(super) const SUPERBLOCK_LEN: usize = 4096;

const MAGIC: [u8; 8] = *b"integrt\0";

/// The newest version; each only added flags.
const VERSION_MAX: u8 = 6;
/// The version that has [`FIXED_PADDING`], which is what is made.
const VERSION_MADE: u8 = 4;

const JOURNAL_MAC: u32 = 0x1;
const RECALCULATING: u32 = 0x2;
const DIRTY_BITMAP: u32 = 0x4;
/// Areas of tags end at 4 KiB, not at 128 KiB.
const FIXED_PADDING: u32 = 0x8;
/// A flag for MACs of the journal and of dm-integrity's own tags, which are not used here.
const FIXED_HMAC: u32 = 0x10;
const INLINE: u32 = 0x20;

/// The metadata of a section of the journal has so many sectors.
pub(super) const ENTRY_SECTORS: usize = 8;
/// The space for entries in a sector, in bytes.
const ENTRY_SPACE: usize = 512 - 8 - 8;
/// The same if the journal has no MAC.
const ENTRY_SPACE_NO_MAC: usize = 512 - 8;
/// The longest tag, in bytes: its entry fits in a sector of the journal with the largest blocks.
const TAG_LEN_MAX: usize = ENTRY_SPACE - 8 - 8 * 8;

/// The largest journal that is read, in bytes; the kernel makes none of more than 64 MiB by itself.
const JOURNAL_MAX: u64 = 1 << 30;

/// The default size of a journal: this part of the device.
const JOURNAL_SHARE_LOG2: u32 = 7;
/// The largest default size of a journal, in sectors.
const JOURNAL_SECTORS_MAX: u64 = 131_072;
/// Data sectors between one area of tags and the next.
const INTERLEAVE_LOG2: u8 = 15;
const INTERLEAVE_LOG2_RANGE: std::ops::RangeInclusive<u8> = 3..=31;

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    magic: [u8; 8],
    version: u8,
    interleave_log2: u8,
    tag_len: U16,
    journal_sections: U32,
    /// In sectors.
    data_len: U64,
    flags: U32,
    /// Sectors in a block: what has one tag.
    block_log2: u8,
    /// Blocks for each bit of a bitmap.
    bitmap_log2: u8,
    padding: [u8; 2],
    recalculated: U64,
    more_padding: [u8; 8],
    salt: [u8; 16],
}

const _: () = assert!(size_of::<RawSuperblock>() == 64);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, data_len) == 16);
const _: () = assert!(std::mem::offset_of!(RawSuperblock, recalculated) == 32);

/// The reason why a superblock is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SuperblockRefusal {
    /// The fields contradict each other.
    Damaged(String),
    /// The fields ask for a feature that this program does not have.
    Unsupported(String),
}

fn damaged(what: impl Into<String>) -> SuperblockRefusal {
    SuperblockRefusal::Damaged(what.into())
}

/// The fields of a superblock that this program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagSuperblock {
    pub(super) interleave_log2: u8,
    pub(super) tag_len: u16,
    pub(super) journal_sections: u32,
    /// In sectors.
    pub(super) data_len: u64,
    pub(super) fixed_padding: bool,
    /// Sectors in a block.
    pub(super) block_log2: u8,
}

impl TagSuperblock {
    /// Reads the beginning of a superblock.
    pub(crate) fn decode(bytes: &[u8]) -> Result<TagSuperblock, SuperblockRefusal> {
        let (raw, _) =
            RawSuperblock::read_from_prefix(bytes).map_err(|_| damaged("it is too short"))?;
        if raw.magic != MAGIC {
            let what = match bytes.iter().all(|byte| *byte == 0) {
                true => "there is none",
                false => "it does not begin as one",
            };
            return Err(damaged(what));
        }
        check_flags(&raw)?;
        Ok(TagSuperblock {
            interleave_log2: raw.interleave_log2,
            tag_len: raw.tag_len.get(),
            journal_sections: raw.journal_sections.get(),
            data_len: raw.data_len.get(),
            fixed_padding: raw.flags.get() & FIXED_PADDING != 0,
            block_log2: raw.block_log2,
        })
    }

    /// The superblock as it lies on the device; what is not known here is as the kernel makes it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut raw = RawSuperblock::new_zeroed();
        raw.magic = MAGIC;
        raw.version = VERSION_MADE;
        raw.interleave_log2 = self.interleave_log2;
        raw.tag_len = self.tag_len.into();
        raw.journal_sections = self.journal_sections.into();
        raw.data_len = self.data_len.into();
        raw.flags = FIXED_PADDING.into();
        raw.block_log2 = self.block_log2;
        raw.bitmap_log2 = INTERLEAVE_LOG2 - self.block_log2;
        let mut bytes = raw.as_bytes().to_vec();
        bytes.resize(SUPERBLOCK_LEN, 0);
        bytes
    }

    /// A new one, with as much data as fits on a device of `device_len` bytes, as the kernel makes it.
    /// `None` if nothing fits.
    pub(super) fn plan(
        start: u64,
        device_len: u64,
        tag_len: usize,
        block: usize,
    ) -> Option<TagSuperblock> {
        let device_sectors = device_len / SECTOR;
        let mut planned = TagSuperblock {
            interleave_log2: INTERLEAVE_LOG2,
            tag_len: tag_len.try_into().ok()?,
            journal_sections: 1,
            data_len: 0,
            fixed_padding: true,
            block_log2: (block as u64 / SECTOR).trailing_zeros() as u8,
        };
        let section = JournalSection::of(&planned).ok()?;
        let journal = (device_sectors >> JOURNAL_SHARE_LOG2).min(JOURNAL_SECTORS_MAX);
        planned.journal_sections = (journal / section.sectors as u64).max(1) as u32;
        for bit in (3..u64::BITS - device_sectors.leading_zeros()).rev() {
            let larger = TagSuperblock {
                data_len: planned.data_len | 1 << bit,
                ..planned.clone()
            };
            if TagLayout::new(&larger, start, device_len).is_ok() {
                planned = larger;
            }
        }
        (planned.data_len > 0).then_some(planned)
    }
}

fn check_flags(raw: &RawSuperblock) -> Result<(), SuperblockRefusal> {
    let unsupported = |what: &str| Err(SuperblockRefusal::Unsupported(what.into()));
    let (version, flags) = (raw.version, raw.flags.get());
    if !(1..=VERSION_MAX).contains(&version) {
        return unsupported(&format!(
            "its integrity superblock is of version {version}, which this version does not know"
        ));
    }
    let known = JOURNAL_MAC | RECALCULATING | DIRTY_BITMAP | FIXED_PADDING | FIXED_HMAC | INLINE;
    match flags {
        _ if flags & !known != 0 => unsupported(&format!(
            "its integrity superblock has the flags {:#x}, which this version does not know",
            flags & !known
        )),
        _ if flags & INLINE != 0 => unsupported("its tags are in the sectors of the disk itself"),
        _ if flags & JOURNAL_MAC != 0 => {
            unsupported("its integrity journal is authenticated with a key of its own")
        }
        _ if flags & RECALCULATING != 0 => unsupported(
            "its tags are being computed anew by dm-integrity, and so are not those of an encryption",
        ),
        _ if flags & DIRTY_BITMAP != 0 => unsupported(
            "it was in use without a journal, with a bitmap, which is for tags that dm-integrity computes",
        ),
        _ => Ok(()),
    }
}

/// A section of the journal: entries that say where blocks belong and have their tags, then the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalSection {
    pub(super) tag_len: usize,
    pub(super) block_sectors: usize,
    /// The number of blocks in a section.
    pub(super) entries: usize,
    /// The length of an entry, in bytes.
    pub(super) entry_len: usize,
    /// The length of the section with its entries, in sectors.
    pub(super) sectors: usize,
}

impl JournalSection {
    fn of(superblock: &TagSuperblock) -> Result<JournalSection, SuperblockRefusal> {
        let tag_len = usize::from(superblock.tag_len);
        if !(1..=TAG_LEN_MAX).contains(&tag_len) {
            return Err(damaged(format!("tags cannot have {tag_len} bytes")));
        }
        if superblock.block_log2 > 3 {
            let log2 = superblock.block_log2;
            return Err(damaged(format!("a block cannot have 2^{log2} sectors")));
        }
        let block_sectors = 1 << superblock.block_log2;
        let entry_len = (8 + 8 * block_sectors + tag_len).next_multiple_of(8);
        let entries = ENTRY_SPACE_NO_MAC / entry_len * ENTRY_SECTORS;
        Ok(JournalSection {
            tag_len,
            block_sectors,
            entries,
            entry_len,
            sectors: ENTRY_SECTORS + entries * block_sectors,
        })
    }

    /// Returns the length of the section, in bytes.
    pub(super) fn len(&self) -> usize {
        self.sectors * SECTOR as usize
    }

    /// Returns the length of a block, in bytes.
    pub(super) fn block(&self) -> usize {
        self.block_sectors * SECTOR as usize
    }
}

/// The addresses of all parts of the device. Blocks are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagLayout {
    pub(super) section: JournalSection,
    pub(super) journal_sections: u32,
    /// The address of the superblock, in bytes.
    start: u64,
    /// Behind the journal, in bytes.
    areas: u64,
    /// Blocks between two areas of tags.
    interleave: u64,
    /// The length of an area of tags, in bytes.
    run: u64,
    pub(super) blocks: u64,
}

/// A run of blocks whose data and tags are contiguous on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRun {
    /// The address of the data, in bytes.
    pub(super) data: u64,
    /// The address of the tags, in bytes.
    pub(super) tags: u64,
    /// The number of blocks in the run, from the requested one on.
    pub(super) blocks: u64,
}

impl TagLayout {
    /// The layout that a superblock at `start` means, on a device of `device_len` bytes.
    pub(crate) fn new(
        superblock: &TagSuperblock,
        start: u64,
        device_len: u64,
    ) -> Result<TagLayout, SuperblockRefusal> {
        let section = JournalSection::of(superblock)?;
        if superblock.journal_sections == 0 {
            return Err(damaged("its journal has no sections"));
        }
        let journal = u64::from(superblock.journal_sections) * section.len() as u64;
        if journal > JOURNAL_MAX && journal < device_len {
            let what = format!("its integrity journal has {journal} bytes");
            return Err(SuperblockRefusal::Unsupported(what));
        }
        let (log2, block_log2) = (superblock.interleave_log2, superblock.block_log2);
        if !INTERLEAVE_LOG2_RANGE.contains(&log2) {
            let what = format!("areas of tags cannot be 2^{log2} sectors apart");
            return Err(damaged(what));
        }
        let data_len = superblock.data_len;
        if data_len == 0 || !data_len.is_multiple_of(1 << block_log2) {
            return Err(damaged(format!("its data cannot have {data_len} sectors")));
        }
        let interleave = 1u64 << (log2 - block_log2);
        let padding = if superblock.fixed_padding {
            8 * SECTOR
        } else {
            SECTOR << 8
        };
        let layout = TagLayout {
            section,
            journal_sections: superblock.journal_sections,
            start,
            areas: start.saturating_add(SUPERBLOCK_LEN as u64 + journal),
            interleave,
            run: (section.tag_len as u64 * interleave).next_multiple_of(padding),
            blocks: data_len >> block_log2,
        };
        layout.check_end(device_len)?;
        Ok(layout)
    }

    /// Checks that all addresses fit the device and 64 bits. Nothing that was computed before is trusted.
    fn check_end(&self, device_len: u64) -> Result<(), SuperblockRefusal> {
        let areas = u128::from(self.blocks.div_ceil(self.interleave));
        let data = u128::from(self.blocks) * self.section.block() as u128;
        let end = u128::from(self.areas) + areas * u128::from(self.run) + data;
        match end > u128::from(device_len) {
            true => Err(damaged(format!(
                "its data would end at byte {end}, and the device has {device_len}"
            ))),
            false => Ok(()),
        }
    }

    /// Returns the length of the data, in bytes.
    pub(super) fn data_len(&self) -> u64 {
        self.blocks * self.section.block() as u64
    }

    /// Returns the address of a section of the journal, in bytes.
    pub(super) fn section_at(&self, section: u32) -> u64 {
        self.start + SUPERBLOCK_LEN as u64 + u64::from(section) * self.section.len() as u64
    }

    /// Returns the run that begins with a block of the device.
    pub(super) fn run_at(&self, block: u64) -> BlockRun {
        let (area, within) = (block / self.interleave, block % self.interleave);
        let area_len = self.run + self.interleave * self.section.block() as u64;
        let tags = self.areas + area * area_len;
        BlockRun {
            data: tags + self.run + within * self.section.block() as u64,
            tags: tags + within * self.section.tag_len as u64,
            blocks: (self.interleave - within).min(self.blocks - block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: u64 = 32 << 20;
    const START: u64 = 16 << 20;

    fn good() -> TagSuperblock {
        TagSuperblock::plan(START, DEVICE, 32, 4096).unwrap()
    }

    /// The figures are what the kernel made of devices of 32 MiB.
    #[test]
    fn what_is_planned_is_what_the_kernel_plans() {
        let cases = [
            (32, 4096, 264, 32240),
            (32, 512, 440, 30272),
            (48, 512, 512, 29176),
            (64, 512, 504, 28160),
            (28, 512, 440, 30528),
            (16, 512, 512, 31224),
            (24, 512, 416, 30808),
            (20, 512, 416, 31064),
        ];
        for (tag_len, block, journal, data) in cases {
            let planned = TagSuperblock::plan(START, DEVICE, tag_len, block).unwrap();
            let layout = TagLayout::new(&planned, START, DEVICE).unwrap();
            let sectors = layout.section.sectors as u64 * u64::from(layout.journal_sections);
            assert_eq!(
                (sectors, planned.data_len),
                (journal, data),
                "{tag_len} {block}"
            );
        }
        assert_eq!(TagSuperblock::plan(START, START + 8192, 32, 4096), None);
    }

    #[test]
    fn superblocks_come_back() {
        let planned = good();
        let bytes = planned.encode();
        assert_eq!(bytes.len(), SUPERBLOCK_LEN);
        assert_eq!(TagSuperblock::decode(&bytes), Ok(planned));
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        let bytes = good().encode();
        let said = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            match TagSuperblock::decode(&bytes) {
                Err(SuperblockRefusal::Unsupported(what)) => what,
                other => panic!("{other:?}"),
            }
        };
        assert!(said(8, 0).contains("version 0"));
        assert!(said(8, 7).contains("version 7"));
        assert!(said(24, 0x48).contains("0x40"));
        assert!(said(24, 0x09).contains("authenticated"));
        assert!(said(24, 0x0a).contains("computed anew"));
        assert!(said(24, 0x0c).contains("bitmap"));
        assert!(said(24, 0x28).contains("disk itself"));
        assert!(matches!(
            TagSuperblock::decode(&[0; 4096]),
            Err(SuperblockRefusal::Damaged(_))
        ));
        assert!(matches!(
            TagSuperblock::decode(b"integrt"),
            Err(SuperblockRefusal::Damaged(_))
        ));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let good = good();
        let mut bad = vec![good.clone(); 10];
        bad[0].tag_len = 0;
        bad[1].tag_len = u16::MAX;
        bad[2].journal_sections = 0;
        bad[3].journal_sections = u32::MAX;
        bad[4].data_len = 0;
        bad[5].data_len = u64::MAX - 7;
        bad[6].data_len += 1;
        bad[7].interleave_log2 = 2;
        bad[8].interleave_log2 = 255;
        bad[9].block_log2 = 200;
        for bad in bad {
            assert!(TagLayout::new(&bad, START, DEVICE).is_err(), "{bad:?}");
            assert!(
                TagLayout::new(&bad, u64::MAX - 511, u64::MAX).is_err(),
                "{bad:?}"
            );
        }
        assert!(TagLayout::new(&good, START, DEVICE - 512 * 800).is_err());
        assert!(TagLayout::new(&good, u64::MAX - 511, DEVICE).is_err());
    }

    #[test]
    fn no_two_blocks_share_an_address() {
        let superblock = TagSuperblock {
            interleave_log2: 5,
            data_len: 8 * 11,
            ..good()
        };
        let layout = TagLayout::new(&superblock, 0, DEVICE).unwrap();
        let mut pieces: Vec<(u64, u64)> = (0..11)
            .flat_map(|block| {
                let run = layout.run_at(block);
                [(run.data, run.data + 4096), (run.tags, run.tags + 32)]
            })
            .collect();
        pieces.push((0, layout.section_at(layout.journal_sections)));
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert_eq!(layout.run_at(0).blocks, 4);
        assert_eq!(layout.run_at(9).blocks, 2);
    }
}
