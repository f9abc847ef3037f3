//! Writing file contents into records in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::MutexGuard;
use pool::{ArrayKind, RecordPtr, ReserveFor, SpaceReservation, TxgHold};
use vfs::Ino;
use zerocopy::IntoBytes;

use crate::buffer::RecordBuffer;
use crate::core::io::memory::inode::{DirtyRecord, Inode, RecordStage};
use crate::core::io::record_reads::check_file;
use crate::core::io::slots::record_slots::map_records;
use crate::core::log::Scope;
use crate::core::log::journal::ChangedRange;
use crate::core::{Dataset, Settings, attr_of};
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_INLINE, INLINE_MAX, UNIT, attr_key, inline_key};
use crate::tree::{TreeView, TreeWriter};

/// The largest file.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;

/// The new contents of a part of a record.
pub(super) struct RecordPart<'a> {
    pub(super) record: u64,
    /// The offset in the record.
    start: usize,
    data: &'a [u8],
    /// The new length of the record.
    pub(super) len: usize,
    /// The present length of the record; 0 for a hole.
    old_len: usize,
    base: Base,
    /// The number of copies that are stored.
    copies: usize,
    /// The reserved space, unless the record in memory has as much already.
    reserved: Option<SpaceReservation>,
    held: u64,
}

impl RecordPart<'_> {
    /// Returns whether the record has left memory since it was to be changed there, or a commit has taken over the
    /// space
    /// that it had.
    fn is_outdated(&self, records: &BTreeMap<u64, DirtyRecord>) -> bool {
        let lacks_reserved =
            |dirty: &DirtyRecord| self.reserved.is_none() && dirty.reserved.is_none();
        let dirty = records.get(&self.record);
        matches!(self.base, Base::InMemory) && dirty.is_none_or(lacks_reserved)
    }

    /// Returns whether the record is written up to its end.
    pub(super) fn is_to_the_end(&self, record_size: usize) -> bool {
        self.start + self.data.len() == record_size
    }

    /// Returns the range that the log has to note.
    fn range(&self, txg: u64) -> ChangedRange {
        debug_assert!(self.start + self.data.len() <= self.len);
        ChangedRange {
            txg,
            record: self.record,
            start: self.start,
            end: self.start + self.data.len(),
            // What the tree held of it is not in the pool's record either.
            is_whole: self.old_len == 0 && matches!(self.base, Base::Ready(_)),
        }
    }
}

/// The base of a changed record.
enum Base {
    /// The record is in memory already, and is changed there.
    InMemory,
    /// The record is here, changed and complete.
    Ready(RecordBuffer),
}

impl Dataset {
    /// Writes all of `data` at `offset`.
    pub(crate) fn write_file(
        &self,
        settings: &Settings,
        ino: Ino,
        offset: u64,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<()> {
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or(vfs::Error::FileTooBig)?;
        let inode = self.inodes.get(ino);
        let _io = inode.io.write();
        let attr = self.attr(ino)?;
        check_file(&attr)?;
        if data.is_empty() {
            return Ok(());
        }
        attr.check_write(offset)?;
        let write = AttrUpdate {
            ino,
            end,
            kill_suidgid,
            record_size: attr.record_size.get() as usize,
        };
        if attr.has(FLAG_INLINE) && end.max(attr.size.get()) <= INLINE_MAX {
            return self.write_inline(&write, offset, data);
        }
        self.write_records(settings, &inode, &write, &attr, offset, data)
    }

    fn write_inline(&self, write: &AttrUpdate, offset: u64, data: &[u8]) -> Result<()> {
        let now = self.now();
        self.change_contents(write.ino, ReserveFor::Writing, |w| {
            let key = inline_key(write.ino);
            let mut contents = w.get(&key)?.unwrap_or_default().to_vec();
            let start = offset as usize;
            contents.resize(contents.len().max(start + data.len()), 0);
            contents[start..start + data.len()].copy_from_slice(data);
            w.put(key, contents);
            let mut attr = attr_of(w, write.ino)?;
            write.update(&mut attr, now);
            w.put(attr_key(write.ino), attr.as_bytes().to_vec());
            Ok(())
        })
    }

    fn write_records(
        &self,
        settings: &Settings,
        inode: &Arc<Inode>,
        write: &AttrUpdate,
        attr: &AttrValue,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        loop {
            // Without a hold: this reads from devices. Records may leave memory meanwhile, and then all begins again.
            let mut parts = self.plan(inode, attr, offset, data)?;
            self.reserve_parts(settings, &mut parts)?;
            let tree_reserved = self.reserve_operation(settings, ReserveFor::Writing)?;
            if self.put_parts(inode, write, &mut parts, tree_reserved)? {
                let complete = parts
                    .iter()
                    .filter(|part| part.is_to_the_end(write.record_size));
                self.seal_early(inode, complete.map(|part| part.record));
                return Ok(());
            }
        }
    }

    /// Reads what is needed to change the records, and changes what is not in memory yet.
    fn plan<'a>(
        &self,
        inode: &Inode,
        attr: &AttrValue,
        offset: u64,
        data: &'a [u8],
    ) -> Result<Vec<RecordPart<'a>>> {
        let record_size = u64::from(attr.record_size.get());
        let size = attr.size.get();
        let mut parts = Vec::with_capacity(data.len() / record_size as usize + 2);
        if attr.has(FLAG_INLINE) && size > 0 && offset >= record_size {
            // What was in the tree becomes the first record.
            let piece = WritePiece {
                record: 0,
                start: 0,
                data: &[],
                filled: size as usize,
            };
            let part = self.plan_record(inode, piece, true)?;
            // A small file may be all hole.
            if part.len > 0 {
                parts.push(part);
            }
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let record = at / record_size;
            let start = (at % record_size) as usize;
            let n = (record_size as usize - start).min(data.len() - done);
            let data = &data[done..done + n];
            // How far the record has contents now.
            let filled = size.saturating_sub(record * record_size).min(record_size) as usize;
            let piece = WritePiece {
                record,
                start,
                data,
                filled,
            };
            parts.push(self.plan_record(inode, piece, attr.has(FLAG_INLINE))?);
            done += n;
        }
        Ok(parts)
    }

    /// `is_inline`: the contents of the file are in the tree up to now.
    pub(super) fn plan_record<'a>(
        &self,
        inode: &Inode,
        piece: WritePiece<'a>,
        is_inline: bool,
    ) -> Result<RecordPart<'a>> {
        let WritePiece {
            record,
            start,
            data,
            filled,
        } = piece;
        let needed = (start + data.len()).next_multiple_of(UNIT as usize);
        let part = |old_len: usize, base| RecordPart {
            record,
            start,
            data,
            len: needed.max(old_len),
            old_len,
            base,
            copies: 1,
            reserved: None,
            held: 0,
        };
        if let Some(dirty) = inode.records.lock().get(&record) {
            return Ok(RecordPart {
                held: dirty.reserved.as_ref().map_or(0, SpaceReservation::bytes),
                ..part(dirty.buffer.len(), Base::InMemory)
            });
        }
        let (old_len, stored) = self.stored(inode.ino, record)?;
        // What is written over as a whole is not read first.
        let covers_all = start == 0 && data.len() >= filled;
        let mut buffer = RecordBuffer::default();
        if record == 0 && is_inline {
            let inline =
                self.read_tree(|r| Ok(r.get(&inline_key(inode.ino))?.map(<[u8]>::to_vec)))?;
            let inline = inline.unwrap_or_default();
            buffer.grow(needed.max(inline.len().next_multiple_of(UNIT as usize)));
            buffer[..inline.len()].copy_from_slice(&inline);
        } else if let Some((_, ptr)) = stored.filter(|_| covers_all) {
            self.engine
                .cache
                .forget(self.open.guid(), &ptr.place.checksum);
        } else if let Some((slot, ptr)) = stored {
            buffer = self.record_to_change(slot, &ptr)?;
        }
        buffer.grow(needed.max(old_len));
        buffer[start..start + data.len()].copy_from_slice(data);
        let len = buffer.len();
        Ok(RecordPart {
            len,
            ..part(old_len, Base::Ready(buffer))
        })
    }

    /// Returns the length of a record in the pool, 0 for a hole, and otherwise its slot and pointer.
    fn stored(&self, ino: Ino, record: u64) -> Result<(usize, Option<(u64, RecordPtr)>)> {
        let Some(slot) = self.slot_of(ino, record)? else {
            return Ok((0, None));
        };
        let ptr = self.open.get(ArrayKind::Data, slot)?;
        // One that is replaced as a whole is never read, so that nothing else notices.
        if ptr.identity.logical_size() > pool::RECORD_MAX {
            return Err(self.damaged(format!("the pointer to a record of inode {ino}")));
        }
        let len = ptr.identity.logical_size() as usize;
        Ok((len, (len > 0).then_some((slot, ptr))))
    }

    /// The plaintext of a record that is about to be replaced, and so leaves the cache.
    fn record_to_change(&self, slot: u64, ptr: &RecordPtr) -> Result<RecordBuffer> {
        let checksum = &ptr.place.checksum;
        if let Some(cached) = self.engine.cache.take(self.open.guid(), checksum) {
            return Ok(Arc::unwrap_or_clone(cached));
        }
        let read = self.read_record(ArrayKind::Data, slot, *ptr)?;
        Ok(read.map_or_else(RecordBuffer::default, |(_, buffer)| buffer))
    }

    /// Reserves space for the parts whose records do not have it already.
    pub(super) fn reserve_parts(
        &self,
        settings: &Settings,
        parts: &mut [RecordPart<'_>],
    ) -> Result<()> {
        for part in parts {
            part.copies = settings.copies_of(part.len);
            let space = self
                .open
                .copies_space(ArrayKind::Data, part.len, part.copies);
            let bytes = space + settings.table_space();
            if part.held < bytes {
                part.reserved = Some(self.reserve(settings, bytes, ReserveFor::Writing)?);
            }
        }
        Ok(())
    }

    /// Puts the parts into memory, in one transaction group with the file's attributes. False if a
    /// record that was in memory has left it meanwhile.
    fn put_parts(
        &self,
        inode: &Arc<Inode>,
        write: &AttrUpdate,
        parts: &mut [RecordPart<'_>],
        tree_reserved: SpaceReservation,
    ) -> Result<bool> {
        let now = self.now();
        let growth: i64 = parts
            .iter()
            .map(|part| part.len as i64 - part.old_len as i64)
            .sum();
        let mut operation = |w: &mut TreeWriter<'_>| {
            let mut attr = attr_of(w, write.ino)?;
            write.update(&mut attr, now);
            attr.allocated = attr.allocated.get().saturating_add_signed(growth).into();
            if attr.has(FLAG_INLINE) {
                attr.set(FLAG_INLINE, false);
                w.delete(inline_key(write.ino));
            }
            w.put(attr_key(write.ino), attr.as_bytes().to_vec());
            map_records(w, write.ino, parts.iter().map(|part| part.record))
        };
        let _use = self.tree.begin_use();
        let (hold, records, slots, dirtied) = loop {
            // The hold comes before the lock of records: a commit that closes the group waits for holds, and locks them then.
            let hold = self.pool.enter()?;
            let records = inode.records.lock();
            // Its contents are in the pool now, and have to be read there.
            if parts.iter().any(|part| part.is_outdated(&records)) {
                return Ok(false);
            }
            let scope = Scope::Contents(write.ino);
            match self.try_change(&hold, scope, &mut operation)? {
                Ok((slots, dirtied)) => break (hold, records, slots, dirtied),
                Err((slot, evictions)) => {
                    // The fetch reads from devices, and a commit must not wait for that.
                    drop((records, hold));
                    self.tree.fetch(self, slot, evictions)?;
                }
            }
        };
        let placed = parts.iter_mut().zip(slots);
        self.put_all(inode, records, hold.txg(), write.record_size, placed);
        // While the hold lasts: a commit of this group needs the space for the pages.
        self.keep_reserved(tree_reserved, dirtied);
        drop(hold);
        Ok(true)
    }

    /// Puts blocks of a volume into memory, in one transaction group. False if one that was in memory has
    /// left it meanwhile.
    pub(super) fn put_blocks(
        &self,
        inode: &Arc<Inode>,
        block_size: usize,
        parts: &mut [RecordPart<'_>],
    ) -> Result<bool> {
        let hold = self.pool.enter()?;
        let records = inode.records.lock();
        if parts.iter().any(|part| part.is_outdated(&records)) {
            return Ok(false);
        }
        self.mark_changed(&hold);
        let placed = parts.iter_mut().map(|part| {
            let slot = part.record;
            (part, slot)
        });
        self.put_all(inode, records, hold.txg(), block_size, placed);
        drop(hold);
        Ok(true)
    }

    /// Puts parts into memory, with their slots. Under a hold.
    fn put_all<'p, 'd: 'p>(
        &self,
        inode: &Arc<Inode>,
        mut records: MutexGuard<'_, BTreeMap<u64, DirtyRecord>>,
        txg: u64,
        record_size: usize,
        parts: impl Iterator<Item = (&'p mut RecordPart<'d>, u64)>,
    ) {
        for (part, slot) in parts {
            self.journal.note_range(inode.ino, part.range(txg));
            self.put_part(&mut records, part, slot, record_size);
        }
        drop(records);
        inode.stored.forget();
        self.inodes
            .dirty
            .lock()
            .insert(inode.ino, Arc::clone(inode));
    }

    fn put_part(
        &self,
        records: &mut BTreeMap<u64, DirtyRecord>,
        part: &mut RecordPart<'_>,
        slot: u64,
        record_size: usize,
    ) {
        let (before, run) = records
            .get(&part.record)
            .map_or((0, 0), |dirty| (dirty.buffer.len(), dirty.run));
        let run = if part.start == run || part.start == 0 {
            part.start + part.data.len()
        } else {
            0
        };
        let is_streamed = run == record_size;
        let reserved = part.reserved.take();
        match std::mem::replace(&mut part.base, Base::InMemory) {
            Base::Ready(buffer) => {
                debug_assert!(!buffer.is_empty());
                let dirty = DirtyRecord {
                    buffer: Arc::new(buffer),
                    slot,
                    stage: RecordStage::Dirty,
                    run,
                    is_streamed,
                    copies: part.copies,
                    reserved,
                };
                records.insert(part.record, dirty);
            }
            Base::InMemory => {
                let dirty = records
                    .get_mut(&part.record)
                    .expect("checked under the same lock");
                // A thread that is writing or sending the old state keeps it.
                let buffer = Arc::make_mut(&mut dirty.buffer);
                buffer.grow(part.len);
                buffer[part.start..part.start + part.data.len()].copy_from_slice(part.data);
                dirty.slot = slot;
                dirty.stage = RecordStage::Dirty;
                // It has space for these: as much as was asked for, or more.
                dirty.copies = part.copies;
                (dirty.run, dirty.is_streamed) = (run, is_streamed);
                if reserved.is_some() {
                    dirty.reserved = reserved;
                }
            }
        }
        self.dirty.add(part.len.saturating_sub(before));
    }

    /// Puts one record that an operation has prepared into memory, in the operation's transaction
    /// group.
    pub(crate) fn put_record(
        &self,
        inode: &Arc<Inode>,
        hold: &TxgHold<'_>,
        record: u64,
        slot: u64,
        buffer: Arc<RecordBuffer>,
        (copies, reserved): (usize, SpaceReservation),
    ) {
        debug_assert!(!buffer.is_empty());
        let len = buffer.len();
        let range = ChangedRange {
            txg: hold.txg(),
            record,
            start: 0,
            end: len,
            is_whole: true,
        };
        // Before the record is visible: a thread that syncs it has to find the range.
        self.journal.note_range(inode.ino, range);
        let dirty = DirtyRecord {
            buffer,
            slot,
            stage: RecordStage::Dirty,
            run: 0,
            is_streamed: false,
            copies,
            reserved: Some(reserved),
        };
        let before = inode.records.lock().insert(record, dirty);
        self.dirty.sub(before.map_or(0, |dirty| dirty.buffer.len()));
        self.dirty.add(len);
        inode.stored.forget();
        self.inodes
            .dirty
            .lock()
            .insert(inode.ino, Arc::clone(inode));
    }

    /// Takes records out of memory that are not needed any more.
    pub(crate) fn drop_records(&self, inode: &Inode, range: impl std::ops::RangeBounds<u64>) {
        let mut records = inode.records.lock();
        let gone: Vec<u64> = records.range(range).map(|(record, _)| *record).collect();
        for record in gone {
            if let Some(dirty) = records.remove(&record) {
                self.dirty.sub(dirty.buffer.len());
            }
        }
        drop(records);
        inode.stored.forget();
    }

    /// Returns the number of copies of a record of this length, and the space for them.
    pub(crate) fn record_space(
        &self,
        settings: &Settings,
        len: usize,
        why: ReserveFor,
    ) -> Result<(usize, SpaceReservation)> {
        let copies = settings.copies_of(len);
        let bytes = self.open.copies_space(ArrayKind::Data, len, copies);
        let reserved = self.reserve(settings, bytes + settings.table_space(), why)?;
        Ok((copies, reserved))
    }
}

/// A part of a write: what it puts where into one record.
pub(super) struct WritePiece<'a> {
    pub(super) record: u64,
    pub(super) start: usize,
    pub(super) data: &'a [u8],
    /// The end of the bytes that may have contents now.
    pub(super) filled: usize,
}

/// The effects of a write on the attributes.
struct AttrUpdate {
    ino: Ino,
    end: u64,
    kill_suidgid: bool,
    record_size: usize,
}

impl AttrUpdate {
    fn update(&self, attr: &mut AttrValue, now: vfs::Time) {
        attr.size = attr.size.get().max(self.end).into();
        attr.touch(now);
        if self.kill_suidgid {
            attr.mode = without_suidgid(attr.mode.get()).into();
        }
    }
}

/// The mode after a write by an unprivileged process.
pub(crate) fn without_suidgid(mode: u16) -> u16 {
    let mode = mode & !0o4000;
    if mode & 0o010 != 0 {
        mode & !0o2000
    } else {
        mode
    }
}
