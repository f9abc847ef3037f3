//! Truncation, holes and preallocation.

use std::sync::Arc;

use pool::{ArrayKind, ReserveFor};
use vfs::{Fallocate, Ino};
use zerocopy::IntoBytes;

use crate::buffer::RecordBuffer;
use crate::core::io::memory::inode::Inode;
use crate::core::io::record_reads::check_file;
use crate::core::io::slots::extents;
use crate::core::io::slots::record_slots::map_records;
use crate::core::io::slots::share::{Runs, let_go};
use crate::core::io::write::SIZE_MAX;
use crate::core::log::Scope;
use crate::core::{Dataset, attr_of};
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_INLINE, INLINE_MAX, UNIT, attr_key, inline_key};
use crate::tree::{TreeStep, TreeView, TreeWriter};

/// A change that removes records, and replaces records of which only a part stays.
struct RecordCut {
    /// The first record to remove.
    from: u64,
    to: u64,
    patches: Vec<Patch>,
}

/// A record of which only a part stays.
struct Patch {
    record: u64,
    buffer: RecordBuffer,
    old_len: usize,
}

impl Dataset {
    /// Gives a file another size; `update` changes more of its attributes in the same step.
    pub(crate) fn set_size(
        &self,
        ino: Ino,
        size: u64,
        update: &dyn Fn(&mut AttrValue),
    ) -> Result<()> {
        if size > SIZE_MAX {
            return Err(vfs::Error::FileTooBig.into());
        }
        let inode = self.inodes.get(ino);
        let _io = inode.io.write();
        let attr = self.attr(ino)?;
        check_file(&attr)?;
        let old = attr.size.get();
        let update = |attr: &mut AttrValue| {
            attr.size = size.into();
            if size < old {
                attr.limit_promise(size);
            }
            update(attr);
        };
        if attr.has(FLAG_INLINE) {
            return self.set_inline_size(&inode, &attr, size, &update);
        }
        if size >= old {
            return self.update_attr(ino, ReserveFor::Writing, &update);
        }
        let record_size = u64::from(attr.record_size.get());
        let keep = (size % record_size) as usize;
        let mut cut = RecordCut {
            from: size.div_ceil(record_size),
            to: u64::MAX,
            patches: Vec::new(),
        };
        if keep > 0
            && let Some(buffer) = self.record(ino, size / record_size, false)?
        {
            let mut short = buffer.as_ref().clone();
            let end = short.len();
            // The rest of the record must read as zeros if the file grows again.
            short[keep.min(end)..].fill(0);
            short.resize(keep.next_multiple_of(UNIT as usize).min(end));
            cut.patches.push(Patch {
                record: size / record_size,
                buffer: short,
                old_len: end,
            });
        }
        // An empty file is a small file again.
        let update = |attr: &mut AttrValue| {
            update(attr);
            if size == 0 {
                attr.set(FLAG_INLINE, true);
                attr.allocated = 0.into();
            }
        };
        self.apply_cut(&inode, cut, &update)
    }

    fn set_inline_size(
        &self,
        inode: &Arc<Inode>,
        attr: &AttrValue,
        size: u64,
        update: &dyn Fn(&mut AttrValue),
    ) -> Result<()> {
        let ino = inode.ino;
        if size > INLINE_MAX {
            return self.move_out(inode, attr, update);
        }
        self.change_contents(ino, ReserveFor::Freeing, |w| {
            let key = inline_key(ino);
            if let Some(mut contents) = w.get(&key)?.map(<[u8]>::to_vec)
                && contents.len() as u64 > size
            {
                contents.truncate(size as usize);
                w.put(key, contents);
            }
            put_attr(w, ino, update)
        })
    }

    /// Moves a small file's contents out of the tree into its first record.
    pub(crate) fn move_out(
        &self,
        inode: &Arc<Inode>,
        attr: &AttrValue,
        update: &dyn Fn(&mut AttrValue),
    ) -> Result<()> {
        let ino = inode.ino;
        let contents = self.read_tree(|r| Ok(r.get(&inline_key(ino))?.map(<[u8]>::to_vec)))?;
        let contents = contents.unwrap_or_default();
        let update = |attr: &mut AttrValue| {
            attr.set(FLAG_INLINE, false);
            update(attr);
        };
        if attr.size.get() == 0 || contents.is_empty() {
            return self.change_contents(ino, ReserveFor::Writing, |w| {
                w.delete(inline_key(ino));
                put_attr(w, ino, &update)
            });
        }
        let mut buffer = RecordBuffer::zeroed(contents.len().next_multiple_of(UNIT as usize));
        buffer[..contents.len()].copy_from_slice(&contents);
        let patch = Patch {
            record: 0,
            buffer,
            old_len: 0,
        };
        let cut = RecordCut {
            from: u64::MAX,
            to: u64::MAX,
            patches: vec![patch],
        };
        self.apply_cut(inode, cut, &update)
    }

    /// Removes records and patches others, in one step with the attributes.
    fn apply_cut(
        &self,
        inode: &Arc<Inode>,
        cut: RecordCut,
        update: &dyn Fn(&mut AttrValue),
    ) -> Result<()> {
        let ino = inode.ino;
        debug_assert!(
            cut.patches
                .iter()
                .all(|patch| !(cut.from..cut.to).contains(&patch.record)),
            "a record is removed or replaced"
        );
        // Counted before the change, while the extents still say what is there.
        let removed = self.allocated_in(inode, cut.from, cut.to)?;
        let growth: i64 = cut
            .patches
            .iter()
            .map(|p| p.buffer.len() as i64 - p.old_len as i64)
            .sum();
        let (settings, mut reservations) = (self.settings(), Vec::new());
        for patch in &cut.patches {
            reservations.push(self.record_space(
                &settings,
                patch.buffer.len(),
                ReserveFor::Freeing,
            )?);
        }
        let records: Vec<u64> = cut.patches.iter().map(|patch| patch.record).collect();
        let (from, to) = (cut.from, cut.to);
        let operation = |w: &mut TreeWriter<'_>| {
            let mut runs = Runs::default();
            if from < to {
                for extent in extents::overlapping(w, ino, from, to, usize::MAX)? {
                    let part = extents::cut(w, ino, &extent, from, to);
                    let_go(w, &mut runs, &part)?;
                }
            }
            runs.store(w);
            let slots = map_records(w, ino, records.iter().copied())?;
            let mut attr = attr_of(w, ino)?;
            let allocated = attr.allocated.get().saturating_sub(removed);
            attr.allocated = allocated.saturating_add_signed(growth).into();
            update(&mut attr);
            if !attr.has(FLAG_INLINE) {
                w.delete(inline_key(ino));
            }
            w.put(attr_key(ino), attr.as_bytes().to_vec());
            Ok(slots)
        };
        let scope = Scope::Contents(ino);
        self.change_in(scope, ReserveFor::Freeing, operation, |hold, slots| {
            // In the same group as the tree: a commit between the two would put records into slots that are free.
            self.drop_records(inode, from..to);
            for ((patch, slot), reserved) in cut.patches.into_iter().zip(slots).zip(reservations) {
                self.put_record(
                    inode,
                    hold,
                    patch.record,
                    slot,
                    Arc::new(patch.buffer),
                    reserved,
                );
            }
        })
    }

    /// Bytes of the records in a range that are not holes.
    pub(crate) fn allocated_in(&self, inode: &Inode, from: u64, to: u64) -> Result<u64> {
        if from >= to {
            return Ok(0);
        }
        let dirty: Vec<(u64, usize, u64)> = inode
            .records
            .lock()
            .range(from..to)
            .map(|(record, dirty)| (*record, dirty.buffer.len(), dirty.slot))
            .collect();
        let mut bytes: u64 = dirty.iter().map(|(_, len, _)| *len as u64).sum();
        let extents =
            self.read_tree(|r| extents::overlapping(r, inode.ino, from, to, usize::MAX))?;
        for extent in extents {
            let part = extent.part(extent.record.max(from), extent.end().min(to));
            bytes += self
                .open
                .logical_bytes(ArrayKind::Data, part.slot, part.slot + part.count)?;
            for (_, _, slot) in dirty
                .iter()
                .filter(|(r, ..)| (part.record..part.end()).contains(r))
            {
                // Already counted with its size in memory.
                let stored = self.open.get(ArrayKind::Data, *slot)?;
                bytes -= u64::from(stored.identity.logical_size());
            }
        }
        Ok(bytes)
    }

    /// Allocates, punches or zeroes a range.
    pub(crate) fn fallocate_file(
        &self,
        ino: Ino,
        offset: u64,
        len: u64,
        mode: Fallocate,
    ) -> Result<()> {
        if len == 0 {
            return Err(vfs::Error::Invalid.into());
        }
        let end = offset.checked_add(len).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or(vfs::Error::FileTooBig)?;
        let attr = self.attr(ino)?;
        if let Fallocate::Allocate { .. } = mode {
            attr.check_adding()?;
            // Copy-on-write cannot keep space for later. But it can fail now if there is none.
            drop(self.reserve(&self.settings(), len, ReserveFor::Writing)?);
        } else {
            attr.check_changing()?;
            self.zero_range(ino, offset, end)?;
        }
        if let Fallocate::Allocate { keep_size: false } | Fallocate::Zero { keep_size: false } =
            mode
            && end > self.attr(ino)?.size.get()
        {
            self.set_size(ino, end, &touch_at(self))?;
        }
        self.promise(ino, offset, end, mode)
    }

    /// Changes the blocks that the file shows for a range: `fallocate` promises them, a hole withdraws them.
    fn promise(&self, ino: Ino, offset: u64, end: u64, mode: Fallocate) -> Result<()> {
        let inode = self.inodes.get(ino);
        let _io = inode.io.write();
        let attr = self.attr(ino)?;
        check_file(&attr)?;
        let record_size = u64::from(attr.record_size.get());
        if mode == Fallocate::Punch {
            return self.update_attr(ino, ReserveFor::Freeing, &|attr| {
                attr.withdraw(end - offset)
            });
        }
        let (from, to) = (offset / record_size, end.div_ceil(record_size));
        let held = match attr.has(FLAG_INLINE) {
            true => attr.taken(),
            false => self.allocated_in(&inode, from, to)?,
        };
        let holes = ((to - from) * record_size).saturating_sub(held);
        self.update_attr(ino, ReserveFor::Freeing, &|attr| attr.promise(holes, end))
    }

    fn zero_range(&self, ino: Ino, offset: u64, end: u64) -> Result<()> {
        let inode = self.inodes.get(ino);
        let _io = inode.io.write();
        let attr = self.attr(ino)?;
        check_file(&attr)?;
        let size = attr.size.get();
        let end = end.min(size);
        if offset >= end {
            return Ok(());
        }
        let update = touch_at(self);
        if attr.has(FLAG_INLINE) {
            return self.change_contents(ino, ReserveFor::Freeing, |w| {
                let key = inline_key(ino);
                if let Some(mut contents) = w.get(&key)?.map(<[u8]>::to_vec) {
                    let len = contents.len();
                    contents[(offset as usize).min(len)..(end as usize).min(len)].fill(0);
                    w.put(key, contents);
                }
                put_attr(w, ino, &update)
            });
        }
        let record_size = u64::from(attr.record_size.get());
        // A range up to the end of the file goes up to the end of its last record.
        let to = if end == size {
            end.div_ceil(record_size)
        } else {
            end / record_size
        };
        let from = offset.div_ceil(record_size);
        let mut cut = RecordCut {
            from,
            to: to.max(from),
            patches: Vec::new(),
        };
        for record in [offset / record_size, (end - 1) / record_size] {
            // The first and the last record, if the range covers only a part of them.
            let is_cut = (cut.from..cut.to).contains(&record);
            if is_cut || cut.patches.iter().any(|patch| patch.record == record) {
                continue;
            }
            let start = offset.saturating_sub(record * record_size) as usize;
            let stop = (end - record * record_size).min(record_size) as usize;
            if let Some(buffer) = self.record(ino, record, false)? {
                let mut patched = buffer.as_ref().clone();
                let len = patched.len();
                patched[start.min(len)..stop.min(len)].fill(0);
                cut.patches.push(Patch {
                    record,
                    buffer: patched,
                    old_len: len,
                });
            }
        }
        self.apply_cut(&inode, cut, &update)
    }

    /// Changes the attributes of an inode.
    pub(crate) fn update_attr(
        &self,
        ino: Ino,
        why: ReserveFor,
        update: &dyn Fn(&mut AttrValue),
    ) -> Result<()> {
        self.change(why, |w| put_attr(w, ino, update))
    }
}

fn touch_at(dataset: &Dataset) -> impl Fn(&mut AttrValue) + use<> {
    let now = dataset.now();
    move |attr| attr.touch(now)
}

/// Changes the attributes of an inode in an operation.
pub(crate) fn put_attr(
    w: &mut TreeWriter<'_>,
    ino: Ino,
    update: &dyn Fn(&mut AttrValue),
) -> TreeStep<()> {
    let mut attr = attr_of(w, ino)?;
    update(&mut attr);
    w.put(attr_key(ino), attr.as_bytes().to_vec());
    Ok(())
}
