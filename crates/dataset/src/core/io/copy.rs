//! Copies between files: by reference if whole records correspond, otherwise byte by byte.

use std::sync::Arc;

use pool::{ArrayKind, ReserveFor};
use vfs::Ino;
use zerocopy::IntoBytes;

use crate::core::io::memory::inode::Inode;
use crate::core::io::record_reads::check_file;
use crate::core::io::slots::extents;
use crate::core::io::slots::share::{Runs, let_go};
use crate::core::io::write::SIZE_MAX;
use crate::core::{Dataset, Settings, attr_of};
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_INLINE, RecordExtent, attr_key, extent_key};
use crate::tree::{TreeStep, TreeWriter};

/// A call copies at most this many bytes that cannot be shared.
const COPY_MAX: u64 = 8 << 20;
/// A step shares at most this many extents.
const EXTENTS_MAX: usize = 256;

/// Records to share: `count` records, from `from` on in the source, from `to` on in the target.
#[derive(Clone, Copy)]
struct RecordRun {
    from: u64,
    to: u64,
    count: u64,
}

impl Dataset {
    /// Copies up to `len` bytes, and returns their number.
    pub(crate) fn copy_file_range(
        &self,
        settings: &Settings,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let source = self.attr(from)?;
        let target = self.attr(to)?;
        check_file(&source)?;
        check_file(&target)?;
        let len = len.min(source.size.get().saturating_sub(from_offset));
        if len == 0 {
            return Ok(0);
        }
        target.check_write(to_offset)?;
        if to_offset.checked_add(len).is_none_or(|end| end > SIZE_MAX) {
            return Err(vfs::Error::FileTooBig.into());
        }
        let shared = self.share_range(from, from_offset, to, to_offset, len)?;
        if shared > 0 {
            return Ok(shared);
        }
        self.copy_bytes(
            settings,
            from,
            from_offset,
            to,
            to_offset,
            len.min(COPY_MAX),
        )
    }

    fn copy_bytes(
        &self,
        settings: &Settings,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let mut done = 0;
        for piece in self.read_file(from, from_offset, len)? {
            match self.write_file(settings, to, to_offset + done, &piece, false) {
                Ok(()) => done += piece.len() as u64,
                // A request for the rest gets the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Shares the records at the beginning of a range that can be shared. Returns the number of bytes.
    fn share_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        if from == to {
            return Ok(0);
        }
        let (source, target) = (self.inodes.get(from), self.inodes.get(to));
        // Two files are locked in the order of their numbers.
        let mut _write = (from > to).then(|| target.io.write());
        let _read = source.io.read();
        let _write = _write.take().unwrap_or_else(|| target.io.write());
        // Read again: before the locks, both files could change.
        let source_attr = self.attr(from)?;
        let target_attr = self.attr(to)?;
        let record_size = u64::from(source_attr.record_size.get());
        let aligned =
            from_offset.is_multiple_of(record_size) && to_offset.is_multiple_of(record_size);
        let fits =
            source_attr.record_size == target_attr.record_size && !source_attr.has(FLAG_INLINE);
        if !aligned || !fits {
            return Ok(0);
        }
        // The last record can be shared too if both files end with it.
        let ends = from_offset + len >= source_attr.size.get()
            && to_offset + len >= target_attr.size.get();
        let count = if ends {
            len.div_ceil(record_size)
        } else {
            len / record_size
        };
        if count == 0 {
            return Ok(0);
        }
        if target_attr.has(FLAG_INLINE) {
            self.move_out(&target, &target_attr, &|_| {})?;
        }
        let from_record = from_offset / record_size;
        if source
            .records
            .lock()
            .range(from_record..from_record + count)
            .next()
            .is_some()
        {
            // A record that is only in memory has no place to share.
            self.sync_all()?;
        }
        let range = RecordRun {
            from: from_record,
            to: to_offset / record_size,
            count,
        };
        let count = self.share_records(&source, &target, range, to_offset, len)?;
        Ok((count * record_size).min(len))
    }

    /// Shares as many records as one step can, and returns their number.
    fn share_records(
        &self,
        source: &Arc<Inode>,
        target: &Arc<Inode>,
        mut range: RecordRun,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let extents = self.read_tree(|r| {
            extents::overlapping(
                r,
                source.ino,
                range.from,
                range.from + range.count,
                EXTENTS_MAX + 1,
            )
        })?;
        if let Some(beyond) = extents.get(EXTENTS_MAX) {
            // The step shares whole extents up to the limit, and the caller goes on behind them.
            range.count = beyond.record - range.from;
        }
        let removed = self.allocated_in(target, range.to, range.to + range.count)?;
        let mut added = 0;
        for extent in &extents[..extents.len().min(EXTENTS_MAX)] {
            let part = part_in(extent, &range);
            added += self
                .open
                .logical_bytes(ArrayKind::Data, part.slot, part.slot + part.count)?;
        }
        let now = self.now();
        let update = |attr: &mut AttrValue| {
            let record_size = u64::from(attr.record_size.get());
            let end = to_offset + (range.count * record_size).min(len);
            attr.size = attr.size.get().max(end).into();
            let left = attr.allocated.get().saturating_sub(removed);
            attr.allocated = left.saturating_add(added).into();
            attr.touch(now);
        };
        self.change_and(
            ReserveFor::Writing,
            |w| share(w, source.ino, target.ino, &range, &update),
            |_, ()| self.drop_records(target, range.to..range.to + range.count),
        )?;
        Ok(range.count)
    }
}

fn part_in(extent: &RecordExtent, range: &RecordRun) -> RecordExtent {
    debug_assert!(
        extent.record < range.from + range.count && range.from < extent.end(),
        "the extent overlaps the range"
    );
    let from = extent.record.max(range.from);
    extent.part(from, extent.end().min(range.from + range.count))
}

fn share(
    w: &mut TreeWriter<'_>,
    source: Ino,
    target: Ino,
    range: &RecordRun,
    update: &dyn Fn(&mut AttrValue),
) -> TreeStep<()> {
    let mut runs = Runs::default();
    let end = range.from + range.count;
    let sources = extents::overlapping(w, source, range.from, end, EXTENTS_MAX)?;
    for extent in &sources {
        // Owners first: the target may have some of these slots already, and must not free them in between.
        let part = part_in(extent, range);
        runs.load(w, part.slot, part.count)?;
        runs.acquire(part.slot, part.count);
        // Even if the extent is already marked: the note for the log must name the source too, because its contents may
        // be newer than the log.
        let marked = RecordExtent {
            shared: true,
            ..*extent
        };
        w.put(extent_key(source, extent.record), marked.encode());
    }
    let target_end = range.to + range.count;
    for extent in extents::overlapping(w, target, range.to, target_end, usize::MAX)? {
        let part = extents::cut(w, target, &extent, range.to, target_end);
        let_go(w, &mut runs, &part)?;
    }
    runs.store(w);
    for extent in &sources {
        let part = part_in(extent, range);
        let copy = RecordExtent {
            record: range.to + (part.record - range.from),
            shared: true,
            ..part
        };
        w.put(extent_key(target, copy.record), copy.encode());
    }
    let mut attr = attr_of(w, target)?;
    update(&mut attr);
    w.put(attr_key(target), attr.as_bytes().to_vec());
    Ok(())
}
