//! Reading file contents: from records in memory, from the record cache, from the pool.

use std::sync::Arc;

use pool::{ArrayKind, RecordPtr};
use vfs::{Ino, Kind, ReadPieces, Seek};

use crate::buffer::{RecordBuffer, piece, zeros};
use crate::core::io::memory::inode::Inode;
use crate::core::io::slots::extents;
use crate::core::log::Scope;
use crate::core::{Atime, Dataset, PrimaryCache, attr_of};
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_INLINE, RecordExtent, attr_key, inline_key};
use crate::tree::{TreeReader, TreeStep, TreeView, TreeWriter};

/// A read always updates an access time that is older than this.
const ATIME_MAX_AGE_SECS: i64 = 24 * 3600;

impl Dataset {
    /// Reads up to `len` bytes; fewer only at the end of the file.
    pub(crate) fn read_file(&self, ino: Ino, offset: u64, len: u64) -> Result<ReadPieces> {
        self.inodes.with(ino, |inode| {
            let _io = inode.io.read();
            self.read_inode(inode, offset, len)
        })
    }

    fn read_inode(&self, inode: &Inode, offset: u64, len: u64) -> Result<ReadPieces> {
        let ino = inode.ino;
        let FileFacts {
            attr,
            inline,
            extents,
        } = self.read_tree(|r| FileFacts::find(r, ino, offset, len))?;
        check_file(&attr)?;
        let end = offset.saturating_add(len).min(attr.size.get());
        if offset >= end {
            return Ok(Vec::new());
        }
        self.update_atime(ino, &attr);
        if attr.has(FLAG_INLINE) {
            return Ok(vec![inline_piece(inline, offset as usize, end as usize)]);
        }
        let record_size = u64::from(attr.record_size.get());
        let mut pieces = Vec::with_capacity(((end - offset) / record_size + 2) as usize);
        let mut at = offset;
        while at < end {
            let record = at / record_size;
            let start = (at % record_size) as usize;
            let stop = (end - record * record_size).min(record_size) as usize;
            // After a read of the whole record, the kernel has it in its cache.
            let whole = start == 0 && stop == record_size as usize;
            let buffer = match inode.dirty(record) {
                Some(dirty) => Some(dirty),
                None => match extents::slot_in(&extents, record) {
                    Some(slot) => self.stored_record(slot, !whole)?,
                    None => None,
                },
            };
            push_record(&mut pieces, buffer, start, stop);
            at = record * record_size + stop as u64;
        }
        Ok(pieces)
    }

    /// The newest state of a record; `None` for a hole.
    pub(crate) fn record(
        &self,
        ino: Ino,
        record: u64,
        keep: bool,
    ) -> Result<Option<Arc<RecordBuffer>>> {
        let inode = self.inodes.find(ino);
        if let Some(dirty) = inode.and_then(|inode| inode.dirty(record)) {
            return Ok(Some(dirty));
        }
        match self.slot_of(ino, record)? {
            Some(slot) => self.stored_record(slot, keep),
            None => Ok(None),
        }
    }

    /// The record in a slot, from the cache or the pool.
    pub(crate) fn stored_record(&self, slot: u64, keep: bool) -> Result<Option<Arc<RecordBuffer>>> {
        let ptr = self.open.get(ArrayKind::Data, slot)?;
        if ptr.is_empty() {
            return Ok(None);
        }
        let guid = self.open.guid();
        if let Some(buffer) = self.engine.cache.get(guid, &ptr.place.checksum) {
            return Ok(Some(buffer));
        }
        let Some((ptr, buffer)) = self.read_record(ArrayKind::Data, slot, ptr)? else {
            return Ok(None);
        };
        let buffer = Arc::new(buffer);
        if keep {
            self.cache_record(&ptr, &buffer);
        }
        Ok(Some(buffer))
    }

    /// Keeps the plaintext of a record that is in the pool, if `primarycache` allows it.
    pub(crate) fn cache_record(&self, ptr: &RecordPtr, buffer: &Arc<RecordBuffer>) {
        if self.settings().primary_cache == PrimaryCache::All {
            let guid = self.open.guid();
            self.engine
                .cache
                .insert(guid, &ptr.place.checksum, Arc::clone(buffer));
        }
    }

    fn update_atime(&self, ino: Ino, attr: &AttrValue) {
        let settings = self.settings();
        let is_writable = self.open.is_writable() && !settings.read_only;
        if settings.atime == Atime::Off || !is_writable {
            return;
        }
        let now = self.now();
        let (atime, mtime, ctime): (vfs::Time, vfs::Time, vfs::Time) =
            (attr.atime.into(), attr.mtime.into(), attr.ctime.into());
        let is_recent = atime > mtime
            && atime > ctime
            && now.secs.saturating_sub(atime.secs) < ATIME_MAX_AGE_SECS;
        if settings.atime == Atime::Relative && is_recent {
            return;
        }
        let touch = |w: &mut TreeWriter<'_>| {
            let mut attr = attr_of(w, ino)?;
            attr.atime = now.into();
            w.put(attr_key(ino), zerocopy::IntoBytes::as_bytes(&attr).to_vec());
            Ok(())
        };
        // Reading never waits for a commit. It works in a full pool, over a quota, and in a suspended pool, so that
        // users can save data from a failing device.
        let touched = self.reserve_without_waiting(&settings).and_then(|space| {
            space
                .map(|space| self.change_within(space, Scope::Upkeep, touch, |_, ()| ()))
                .transpose()
        });
        if let Err(error) = touched {
            tracing::debug!(%error, dataset = self.name(), ino, "the access time stays as it was");
        }
    }

    /// The next data or hole at or after `offset`.
    pub(crate) fn seek_file(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.inodes.find(ino);
        let _io = inode.as_ref().map(|inode| inode.io.read());
        let attr = self.attr(ino)?;
        check_file(&attr)?;
        let size = attr.size.get();
        if offset >= size {
            return Err(vfs::Error::NoSuchAddress.into());
        }
        if attr.has(FLAG_INLINE) {
            return Ok(if what == Seek::Data { offset } else { size });
        }
        let record_size = u64::from(attr.record_size.get());
        let last = size.div_ceil(record_size);
        let mut record = offset / record_size;
        while record < last {
            let (is_data, until) = self.data_run(ino, record, last)?;
            if is_data == (what == Seek::Data) {
                return Ok((record * record_size).max(offset));
            }
            record = until;
        }
        match what {
            Seek::Hole => Ok(size),
            Seek::Data => Err(vfs::Error::NoSuchAddress.into()),
        }
    }

    /// Returns whether a record exists, and up to which record the answer is the same.
    fn data_run(&self, ino: Ino, record: u64, last: u64) -> Result<(bool, u64)> {
        let inode = self.inodes.find(ino);
        let dirty = |from: u64| {
            let inode = inode.as_ref()?;
            let records = inode.records.lock();
            records.range(from..).next().map(|(record, _)| *record)
        };
        let next_dirty = dirty(record).unwrap_or(u64::MAX);
        if next_dirty == record {
            return Ok((true, record + 1));
        }
        let extent = self.read_tree(|r| {
            let found = extents::overlapping(r, ino, record, last, 1)?;
            Ok(found.first().copied())
        })?;
        let Some(extent) = extent else {
            return Ok((false, last.min(next_dirty)));
        };
        if extent.record > record {
            return Ok((false, extent.record.min(next_dirty)));
        }
        let slot = extent.slot_of(record);
        let end_slot = extent.slot + extent.count;
        Ok(match self.open.next(ArrayKind::Data, slot, end_slot)? {
            Some(found) if found == slot => (true, record + 1),
            Some(found) => (false, (record + found - slot).min(next_dirty)),
            None => (false, extent.end().min(last).min(next_dirty)),
        })
    }
}

/// The facts in the tree about a file that is read.
struct FileFacts {
    attr: AttrValue,
    /// The contents, if they are in the tree.
    inline: Vec<u8>,
    /// The extents of the requested records.
    extents: Vec<RecordExtent>,
}

impl FileFacts {
    fn find(r: &TreeReader<'_>, ino: Ino, offset: u64, len: u64) -> TreeStep<FileFacts> {
        let attr = attr_of(r, ino)?;
        let end = offset.saturating_add(len).min(attr.size.get());
        let (mut inline, mut extents) = (Vec::new(), Vec::new());
        if attr.has(FLAG_INLINE) {
            inline = r.get(&inline_key(ino))?.unwrap_or_default().to_vec();
        } else if attr.kind() == Kind::File && offset < end {
            let record_size = u64::from(attr.record_size.get());
            let (from, to) = (offset / record_size, end.div_ceil(record_size));
            extents = extents::of(r, ino, from..to)?;
        }
        Ok(FileFacts {
            attr,
            inline,
            extents,
        })
    }
}

/// Refuses inodes without contents to read or write.
pub(crate) fn check_file(attr: &AttrValue) -> Result<()> {
    match attr.kind() {
        Kind::File => Ok(()),
        Kind::Directory => Err(vfs::Error::IsDirectory.into()),
        _ => Err(vfs::Error::Invalid.into()),
    }
}

fn inline_piece(mut inline: Vec<u8>, start: usize, end: usize) -> bytes::Bytes {
    inline.resize(inline.len().max(end), 0);
    bytes::Bytes::from(inline).slice(start..end)
}

/// Adds bytes `start` to `stop` of a record. Bytes behind its end are zero.
fn push_record(
    pieces: &mut ReadPieces,
    buffer: Option<Arc<RecordBuffer>>,
    start: usize,
    stop: usize,
) {
    let there = buffer.as_ref().map_or(0, |buffer| buffer.len()).min(stop);
    if let Some(buffer) = buffer.filter(|_| there > start) {
        pieces.push(piece(&buffer, start, there));
    }
    let zero_from = there.max(start);
    if stop > zero_from {
        pieces.push(zeros(stop - zero_from));
    }
}
