//! A device whose blocks have tags: dm-integrity, for tags that are made above it.
//!
//! A block and its tag lie at two addresses, so each write goes through the journal. A batch of blocks is written
//! there and made durable, and then carried out in place. A power cut before that leaves the old blocks with the old
//! tags. One after it leaves the new blocks with the new tags, because the journal is carried out again when the
//! device is opened. A section of the journal is written again only when what was in it is durable in place.
//!
//! Blocks wait in memory until the batch is full or a flush comes; until then they are read from there. One lock is
//! held while a batch is committed. Readers share it: no reader sees a block without its tag.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use block::BlockDevice;

use super::journal::{self, Entry, ReplayPlan, RingContinuation, Survey};
use super::superblock::{
    JournalSection, SUPERBLOCK_LEN, SuperblockRefusal, TagLayout, TagSuperblock,
};
use crate::model::SECTOR;
use crate::{Error, Result};

/// The journal is read, and batches are collected, up to so many bytes at a time.
const BATCH: usize = 1 << 20;

/// The way in which blocks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagMode {
    /// Writes are refused.
    ReadOnly,
    /// Writes are refused, and the journal is not read. Blocks that it would complete are old, or torn from their
    /// tags.
    Recovery,
    /// Through the journal.
    Journal,
    /// Blocks are written in place: a power cut may tear a block from its tag.
    Direct,
}

/// A device whose blocks have tags.
pub(super) struct TaggedDevice {
    device: Arc<dyn BlockDevice>,
    layout: TagLayout,
    mode: TagMode,
    /// Areas of tags are read and written in such units, in bytes.
    unit: u64,
    batch: RwLock<BlockBatch>,
}

/// Blocks that wait, and where the journal goes on.
#[derive(Default)]
struct BlockBatch {
    blocks: Vec<u64>,
    tags: Vec<u8>,
    data: Vec<u8>,
    /// The index of each waiting block.
    indexes: HashMap<u64, usize>,
    /// True if the commit has begun and failed: it is tried again as it is. With other contents, a power cut during
    /// the next attempt could leave a section of both attempts that looks whole.
    is_sealed: bool,
    /// The next section.
    next: u32,
    sequence: u8,
    /// The number of sections that were carried out, and may not be durable in place.
    unflushed: u32,
    /// True if the journal has any block.
    is_used: bool,
}

impl BlockBatch {
    fn entry<'a>(&'a self, n: usize, section: &JournalSection) -> Entry<'a> {
        let (tag, block) = (section.tag_len, section.block());
        Entry {
            block: self.blocks[n],
            tag: &self.tags[n * tag..(n + 1) * tag],
            data: &self.data[n * block..(n + 1) * block],
        }
    }

    fn put(&mut self, block: u64, tag: &[u8], data: &[u8]) {
        match self.indexes.get(&block) {
            Some(n) => {
                self.tags[n * tag.len()..(n + 1) * tag.len()].copy_from_slice(tag);
                self.data[n * data.len()..(n + 1) * data.len()].copy_from_slice(data);
            }
            None => {
                self.indexes.insert(block, self.blocks.len());
                self.blocks.push(block);
                self.tags.extend_from_slice(tag);
                self.data.extend_from_slice(data);
            }
        }
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.tags.clear();
        self.data.clear();
        self.indexes.clear();
        self.is_sealed = false;
    }
}

impl TaggedDevice {
    /// Opens what begins with a superblock at `start`, and carries out what is in its journal.
    ///
    /// # Errors
    /// [`Error::Integrity`] if superblock or journal are damaged; [`Error::Unsupported`].
    pub(super) fn open(
        device: Arc<dyn BlockDevice>,
        start: u64,
        tag_len: usize,
        block: usize,
        mode: TagMode,
    ) -> Result<TaggedDevice> {
        let layout = read_layout(&*device, start)?;
        let section = &layout.section;
        if (section.tag_len, section.block()) != (tag_len, block) {
            let what = format!(
                "its superblock is for {} bytes for each {}, and the header for {tag_len} for each {block}",
                section.tag_len,
                section.block()
            );
            return Err(Error::integrity(&*device, what));
        }
        let mut tagged = TaggedDevice::new(device, layout, mode);
        if mode == TagMode::Recovery {
            return Ok(tagged);
        }
        let plan = tagged.survey()?;
        if mode == TagMode::ReadOnly {
            return match plan.is_empty {
                true => Ok(tagged),
                false => Err(Error::unsupported(
                    &tagged.device.name(),
                    "there are writes in its integrity journal that must be carried out first: \
                     open it once for writing, and close it",
                )),
            };
        }
        let batch = tagged.play(&plan)?;
        tagged.batch = RwLock::new(batch);
        Ok(tagged)
    }

    /// Makes an empty one over whatever is there: no block of it is authentic yet.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    pub(super) fn create(
        device: Arc<dyn BlockDevice>,
        start: u64,
        tag_len: usize,
        block: usize,
    ) -> Result<()> {
        let superblock = plan(&*device, start, tag_len, block)?;
        let layout = TagLayout::new(&superblock, start, device.size())
            .map_err(|refused| refuse(&*device, refused))?;
        device.overwrite(start, SUPERBLOCK_LEN as u64)?;
        device.flush()?;
        let sections = layout.journal_sections;
        let tagged = TaggedDevice::new(Arc::clone(&device), layout, TagMode::Journal);
        tagged.empty_sections(0, sections, 0)?;
        device.write_durably_at(start, &[IoSlice::new(&superblock.encode())])?;
        Ok(())
    }

    fn new(device: Arc<dyn BlockDevice>, layout: TagLayout, mode: TagMode) -> TaggedDevice {
        TaggedDevice {
            unit: u64::from(device.sector_sizes().logical).max(SECTOR),
            device,
            layout,
            mode,
            batch: RwLock::default(),
        }
    }

    /// Returns the length of the data, in bytes.
    pub(super) fn data_len(&self) -> u64 {
        self.layout.data_len()
    }

    /// Reads blocks that there are, and adds their tags to `tags`.
    pub(super) fn read(
        &self,
        first: u64,
        data: &mut [u8],
        tags: &mut Vec<u8>,
    ) -> block::Result<()> {
        let (block, tag) = (self.layout.section.block(), self.layout.section.tag_len);
        let batch = self.shared();
        let mut at = first;
        let mut rest = &mut *data;
        while !rest.is_empty() {
            let found = self.layout.run_at(at);
            let len = found.blocks.min((rest.len() / block) as u64);
            let (run, behind) = rest.split_at_mut(len as usize * block);
            self.device.read_at(found.data, run)?;
            self.read_tags(found.tags, len as usize * tag, tags)?;
            (at, rest) = (at + len, behind);
        }
        if !batch.blocks.is_empty() {
            let base = tags.len() - data.len() / block * tag;
            let tags = tags[base..].chunks_exact_mut(tag);
            for ((n, data), tag) in (first..).zip(data.chunks_exact_mut(block)).zip(tags) {
                if let Some(index) = batch.indexes.get(&n) {
                    let entry = batch.entry(*index, &self.layout.section);
                    data.copy_from_slice(entry.data);
                    tag.copy_from_slice(entry.tag);
                }
            }
        }
        Ok(())
    }

    fn read_tags(&self, at: u64, len: usize, tags: &mut Vec<u8>) -> block::Result<()> {
        let (begin, mut buffer) = self.units(at, len);
        self.device.read_at(begin, &mut buffer)?;
        let skip = (at - begin) as usize;
        tags.extend_from_slice(&buffer[skip..skip + len]);
        Ok(())
    }

    /// Returns the address of the first unit that holds these bytes, and a buffer for all of them.
    fn units(&self, at: u64, len: usize) -> (u64, Vec<u8>) {
        let begin = at - at % self.unit;
        let end = (at + len as u64).next_multiple_of(self.unit);
        (begin, vec![0; (end - begin) as usize])
    }

    /// Writes blocks that there are, with their tags.
    pub(super) fn write(&self, first: u64, data: &[u8], tags: &[u8]) -> block::Result<()> {
        let section = &self.layout.section;
        debug_assert!(matches!(self.mode, TagMode::Journal | TagMode::Direct));
        // A block without its tag could never be read again.
        assert_eq!(data.len() / section.block(), tags.len() / section.tag_len);
        let blocks = data.chunks_exact(section.block());
        let blocks = (first..).zip(blocks.zip(tags.chunks_exact(section.tag_len)));
        let mut batch = self.exclusive();
        if self.mode == TagMode::Direct {
            let entries = blocks.map(|(block, (data, tag))| Entry { block, tag, data });
            return self.carry_out(entries.collect());
        }
        for (block, (data, tag)) in blocks {
            let is_full = batch.blocks.len() == self.batch_len();
            if batch.is_sealed || is_full && !batch.indexes.contains_key(&block) {
                self.commit(&mut batch)?;
            }
            batch.put(block, tag, data);
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub(super) fn flush(&self) -> block::Result<()> {
        match self.mode {
            TagMode::Journal => self.commit(&mut self.exclusive()),
            TagMode::Direct | TagMode::ReadOnly | TagMode::Recovery => self.device.flush(),
        }
    }

    /// Returns the number of blocks in a batch: at most half of the ring. One half is carried out while the other one
    /// is on its way to the disk.
    fn batch_len(&self) -> usize {
        let most = (self.layout.journal_sections as usize / 2).max(1);
        (BATCH / self.layout.section.len()).clamp(1, most) * self.layout.section.entries
    }

    /// Writes the blocks that wait to the journal, then in place.
    fn commit(&self, batch: &mut BlockBatch) -> block::Result<()> {
        if batch.blocks.is_empty() {
            return Ok(());
        }
        let section = &self.layout.section;
        let count = batch.blocks.len().div_ceil(section.entries) as u32;
        // The ring would overwrite sections that are not carried out yet.
        assert!(
            count <= self.layout.journal_sections,
            "a batch fits the ring"
        );
        if batch.unflushed + count > self.layout.journal_sections {
            self.device.flush()?;
            batch.unflushed = 0;
        }
        batch.is_sealed = true;
        batch.is_used = true;
        let (next, sequence) = self.write_sections(batch)?;
        let entries = (0..batch.blocks.len()).map(|n| batch.entry(n, section));
        self.carry_out(entries.collect())?;
        batch.unflushed += count;
        (batch.next, batch.sequence) = (next, sequence);
        batch.clear();
        Ok(())
    }

    /// Writes the blocks that wait to the journal, durably, and says how the ring goes on.
    fn write_sections(&self, batch: &BlockBatch) -> block::Result<(u32, u8)> {
        let section = &self.layout.section;
        let (mut number, mut sequence) = (batch.next, batch.sequence);
        let mut begin = number;
        let mut bytes = Vec::new();
        let count = batch.blocks.len();
        for from in (0..count).step_by(section.entries) {
            let entries =
                (from..count.min(from + section.entries)).map(|n| batch.entry(n, section));
            section.encode(number, sequence, entries, &mut bytes);
            number += 1;
            if number == self.layout.journal_sections {
                self.write_durably(begin, &bytes)?;
                bytes.clear();
                (number, begin) = (0, 0);
                sequence = journal::next(sequence);
            }
        }
        if !bytes.is_empty() {
            self.write_durably(begin, &bytes)?;
        }
        Ok((number, sequence))
    }

    fn write_durably(&self, section: u32, bytes: &[u8]) -> block::Result<()> {
        let at = self.layout.section_at(section);
        self.device.write_durably_at(at, &[IoSlice::new(bytes)])
    }

    /// Writes blocks and tags in place. Of a block that is there twice the later one stays.
    fn carry_out(&self, mut entries: Vec<Entry<'_>>) -> block::Result<()> {
        entries.sort_by_key(|entry| entry.block);
        let mut rest = &entries[..];
        let (mut tags, mut data) = (Vec::new(), Vec::new());
        while let Some(first) = rest.first() {
            let found = self.layout.run_at(first.block);
            let follows = |(n, entry): &(u64, &Entry<'_>)| entry.block == first.block + n;
            let run = (0..found.blocks).zip(rest).take_while(follows).count();
            tags.clear();
            data.clear();
            for entry in &rest[..run] {
                tags.extend_from_slice(entry.tag);
                data.extend_from_slice(entry.data);
            }
            self.write_tags(found.tags, &tags)?;
            self.device.write_at(found.data, &[IoSlice::new(&data)])?;
            rest = &rest[run..];
        }
        Ok(())
    }

    fn write_tags(&self, at: u64, tags: &[u8]) -> block::Result<()> {
        let (begin, mut buffer) = self.units(at, tags.len());
        if buffer.len() != tags.len() {
            self.device.read_at(begin, &mut buffer)?;
        }
        let skip = (at - begin) as usize;
        buffer[skip..skip + tags.len()].copy_from_slice(tags);
        self.device.write_at(begin, &[IoSlice::new(&buffer)])
    }

    /// Reads the journal, and says what is to be done with it.
    fn survey(&self) -> Result<ReplayPlan> {
        let section = &self.layout.section;
        let sections = self.layout.journal_sections;
        let step = (BATCH / section.len()).max(1) as u32;
        let mut surveys: Vec<Survey> = Vec::with_capacity(sections as usize);
        let mut buffer = Vec::new();
        for begin in (0..sections).step_by(step as usize) {
            let count = step.min(sections - begin) as usize;
            buffer.resize(count * section.len(), 0);
            let at = self.layout.section_at(begin);
            self.device.read_at(at, &mut buffer)?;
            for (number, bytes) in (begin..).zip(buffer.chunks_exact(section.len())) {
                let survey = section.survey(number, bytes);
                surveys.push(survey.map_err(|what| Error::integrity(&*self.device, what))?);
            }
        }
        ReplayPlan::new(&surveys).map_err(|what| Error::integrity(&*self.device, what))
    }

    /// Carries out what is in the journal, and says how it goes on.
    fn play(&self, plan: &ReplayPlan) -> Result<BlockBatch> {
        let sections = self.layout.journal_sections;
        if !plan.is_empty {
            for n in 0..plan.replayed {
                let number = u64::from(plan.oldest) + u64::from(n);
                self.play_section((number % u64::from(sections)) as u32)?;
            }
            self.device.flush()?;
        }
        let (next, sequence) = match plan.then {
            RingContinuation::Continue(sequence) => (plan.oldest, sequence),
            RingContinuation::Clear(sequence) => {
                self.clear_journal(plan.oldest, sequence)?;
                (0, journal::next(sequence))
            }
        };
        let batch = BlockBatch {
            next,
            sequence,
            is_used: !plan.is_empty && matches!(plan.then, RingContinuation::Continue(_)),
            ..BlockBatch::default()
        };
        // What is written in place must not be undone by what was written before.
        if self.mode == TagMode::Direct && batch.is_used {
            self.empty_ring(&batch)?;
        }
        Ok(batch)
    }

    fn play_section(&self, number: u32) -> Result<()> {
        let section = &self.layout.section;
        let mut bytes = vec![0; section.len()];
        self.device
            .read_at(self.layout.section_at(number), &mut bytes)?;
        section.restore(&mut bytes);
        let mut entries = Vec::new();
        for (sector, entry) in section.entries(&bytes) {
            if sector % section.block_sectors as u64 != 0 {
                let what =
                    format!("its journal has a block for sector {sector}, where none begins");
                return Err(Error::integrity(&*self.device, what));
            }
            // The device may have been made smaller since.
            if entry.block < self.layout.blocks {
                entries.push(entry);
            }
        }
        Ok(self.carry_out(entries)?)
    }

    /// Empties the whole journal. First goes the oldest section, with which a replay would begin. Last goes the
    /// newest, by which the oldest is found. So a power cut on the way leaves nothing to be carried out.
    fn clear_journal(&self, oldest: u32, sequence: u8) -> Result<()> {
        let sections = self.layout.journal_sections;
        let last = (oldest + sections - 1) % sections;
        self.empty_sections(oldest, 1, sequence)?;
        if sections > 2 {
            let begin = (oldest + 1) % sections;
            let to_end = (sections - 2).min(sections - begin);
            self.empty_sections(begin, to_end, sequence)?;
            self.empty_sections(0, sections - 2 - to_end, sequence)?;
        }
        Ok(self.empty_sections(last, 1, sequence)?)
    }

    /// Writes sections without blocks, durably.
    fn empty_sections(&self, begin: u32, count: u32, sequence: u8) -> block::Result<()> {
        let section = &self.layout.section;
        let step = (BATCH / section.len()).max(1);
        let mut bytes = Vec::new();
        for from in (begin..begin + count).step_by(step) {
            bytes.clear();
            for number in (from..begin + count).take(step) {
                section.encode(number, sequence, std::iter::empty(), &mut bytes);
            }
            let at = self.layout.section_at(from);
            self.device.write_at(at, &[IoSlice::new(&bytes)])?;
        }
        match count {
            0 => Ok(()),
            _ => self.device.flush(),
        }
    }

    /// Writes what waits, and leaves an empty journal, which has not to be carried out again.
    fn close(&self) -> block::Result<()> {
        let mut batch = self.exclusive();
        self.commit(&mut batch)?;
        if !batch.is_used {
            return Ok(());
        }
        self.device.flush()?;
        self.empty_ring(&batch)?;
        batch.is_used = false;
        Ok(())
    }

    /// Writes sections without blocks all around the ring, as if they were the next ones.
    fn empty_ring(&self, batch: &BlockBatch) -> block::Result<()> {
        let to_end = self.layout.journal_sections - batch.next;
        self.empty_sections(batch.next, to_end, batch.sequence)?;
        self.empty_sections(0, batch.next, journal::next(batch.sequence))
    }

    fn shared(&self) -> RwLockReadGuard<'_, BlockBatch> {
        self.batch.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, BlockBatch> {
        self.batch.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TaggedDevice {
    /// A caller that needs durable data has flushed. Blocks that fail here are in the journal, or were never promised.
    fn drop(&mut self) {
        if self.mode == TagMode::Journal {
            let _ = self.close();
        }
    }
}

fn read_layout(device: &dyn BlockDevice, start: u64) -> Result<TagLayout> {
    let needed = start.saturating_add(SUPERBLOCK_LEN as u64);
    if device.size() < needed {
        return Err(too_small(device, needed));
    }
    let mut bytes = vec![0; SUPERBLOCK_LEN];
    device.read_at(start, &mut bytes)?;
    let superblock = TagSuperblock::decode(&bytes).map_err(|refused| refuse(device, refused))?;
    TagLayout::new(&superblock, start, device.size()).map_err(|refused| refuse(device, refused))
}

fn plan(
    device: &dyn BlockDevice,
    start: u64,
    tag_len: usize,
    block: usize,
) -> Result<TagSuperblock> {
    let planned = TagSuperblock::plan(start, device.size(), tag_len, block);
    // The journal, an area of tags, and some data.
    planned.ok_or_else(|| too_small(device, start.saturating_add(2 << 20)))
}

/// Checks that there is space for some data behind `start`.
pub(super) fn check_space(
    device: &dyn BlockDevice,
    start: u64,
    tag_len: usize,
    block: usize,
) -> Result<()> {
    plan(device, start, tag_len, block).map(drop)
}

fn too_small(device: &dyn BlockDevice, needed: u64) -> Error {
    Error::TooSmall {
        device: device.name(),
        size: device.size(),
        needed,
    }
}

fn refuse(device: &dyn BlockDevice, refused: SuperblockRefusal) -> Error {
    match refused {
        SuperblockRefusal::Damaged(what) => {
            Error::integrity(device, format!("its superblock: {what}"))
        }
        SuperblockRefusal::Unsupported(what) => Error::unsupported(&device.name(), what),
    }
}
