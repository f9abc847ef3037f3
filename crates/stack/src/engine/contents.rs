//! Contents of files.
//!
//! The order of changes, where the format keeps the size in an attribute:
//!
//! - growing: what the lower file has past the end goes, the rest of the last unit becomes zeros, data
//!   is written, then the size;
//! - shrinking: the size is set, then the rest of the last unit becomes zeros, then the lower file is cut.
//!
//! So a cut between two of these steps shows the old size or the new one, with the right bytes. Where the
//! lower file system itself loses writes that were not synced, the size of the lower file bounds the size.

use std::cell::RefCell;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use vfs::{Error, Fallocate, Ino, Kind, ReadPieces, Result, Seek};

use super::sizes::{FileBody, ReadSource};
use super::stacked_directory::StackedDirectory;
use super::state::inode::LowerInode;
use crate::formats::{DirectoryFormat, SizeIn};
use crate::lower::posix;

thread_local! {
    /// The buffer in which a worker encrypts: no write allocates.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl<F: DirectoryFormat> StackedDirectory<F> {
    pub(super) fn read_file(&self, ino: Ino, offset: u64, len: u32) -> Result<ReadPieces> {
        let inode = self.inodes.get(ino)?;
        let _shared = inode.io.read();
        match self.read_units(&inode, offset, len, ReadSource::Cache) {
            // Another client may have written the file anew since its size was found, or a part of what is cached.
            Err(Error::Io) if self.options.shared => {
                inode.forget_extent();
                let source = match self.options.remote {
                    true => ReadSource::Server,
                    false => ReadSource::Cache,
                };
                self.read_units(&inode, offset, len, source)
            }
            done => done,
        }
    }

    fn read_units(
        &self,
        inode: &Arc<LowerInode<F::Node>>,
        offset: u64,
        len: u32,
        source: ReadSource,
    ) -> Result<ReadPieces> {
        let end = offset.saturating_add(u64::from(len));
        let body = self.body(inode, end, source)?;
        let end = body.size.min(end);
        if offset >= end {
            return Ok(Vec::new());
        }
        let first = body.unit_of(offset);
        let plain = body.load(first, body.unit_of(end - 1))?;
        let start = (offset - first * body.layout.unit as u64) as usize;
        let len = (end - offset) as usize;
        Ok(vec![bytes::Bytes::from(plain).slice(start..start + len)])
    }

    pub(super) fn write_file(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        kill_suidgid: bool,
    ) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        let _exclusive = inode.io.write();
        self.format.check_write(&inode.node)?;
        if kill_suidgid {
            self.kill_suidgid(&inode)?;
        }
        if data.is_empty() {
            return Ok(());
        }
        let end = offset.checked_add(data.len() as u64);
        let end = end.ok_or(Error::FileTooBig)?;
        let mut body = self.body_to_write(&inode, offset..end)?;
        let written = write(&mut body, offset, data);
        body.settle(written)?;
        body.keep();
        Ok(())
    }

    pub(super) fn truncate(&self, inode: &Arc<LowerInode<F::Node>>, size: u64) -> Result<()> {
        let _exclusive = inode.io.write();
        self.format.check_write(&inode.node)?;
        let mut body = self.body_to_change(inode)?;
        let cut = match size < body.size {
            true => shrink(&mut body, size),
            false if size > body.size => grow(&mut body, size),
            // The times of the lower file change, as those of any file that is truncated.
            false => {
                let lower_size = body.lower_size();
                rustix::fs::ftruncate(body.file(), lower_size).map_err(posix)
            }
        };
        body.settle(cut)
    }

    pub(super) fn sync_inode(&self, ino: Ino, datasync: bool) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        self.unsynced.sync()?;
        match inode.kind {
            Kind::File => {
                let file = self.inodes.file(&inode)?;
                // A size in an attribute is no data that `fdatasync` knows of.
                let in_lower = self.layout(&inode.node).size == SizeIn::Lower;
                match datasync && in_lower {
                    true => rustix::fs::fdatasync(&file).map_err(posix),
                    false => rustix::fs::fsync(&file).map_err(posix),
                }
            }
            Kind::Directory => {
                let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
                rustix::fs::fsync(inode.entry.reopen(flags)?).map_err(posix)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn allocate(&self, ino: Ino, offset: u64, len: u64, mode: Fallocate) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        let _exclusive = inode.io.write();
        self.format.check_write(&inode.node)?;
        let mut body = self.body_to_change(&inode)?;
        let end = offset.checked_add(len).ok_or(Error::FileTooBig)?;
        let allocated = allocate(&mut body, offset, end, mode);
        body.settle(allocated)
    }

    pub(super) fn seek_file(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        let inode = self.inodes.get(ino)?;
        let _shared = inode.io.read();
        let body = self.body(&inode, u64::MAX, ReadSource::Cache)?;
        if offset >= body.size {
            return Err(Error::NoSuchAddress);
        }
        let first = body.unit_of(offset);
        let found = match what {
            Seek::Data => data_unit(&body, first)?.ok_or(Error::NoSuchAddress)?,
            Seek::Hole => hole_unit(&body, first)?,
        };
        let plain = found.saturating_mul(body.layout.unit as u64).max(offset);
        match what {
            Seek::Data if plain >= body.size => Err(Error::NoSuchAddress),
            _ => Ok(plain.min(body.size)),
        }
    }
}

fn allocate<F: DirectoryFormat>(
    body: &mut FileBody<'_, F>,
    offset: u64,
    end: u64,
    mode: Fallocate,
) -> Result<()> {
    body.lower_size_for(end)?;
    let keep_size = match mode {
        Fallocate::Allocate { keep_size } => {
            reserve(body, offset, end)?;
            keep_size
        }
        Fallocate::Punch => {
            clear(body, offset, end)?;
            true
        }
        Fallocate::Zero { keep_size } => {
            clear(body, offset, end)?;
            keep_size
        }
    };
    match !keep_size && end > body.size {
        true => grow(body, end),
        false => Ok(()),
    }
}

/// The most units of zeros that a search for data skips: a block of a lower file system has no more of them.
const ZEROS_MAX: usize = 16;

/// The first unit from this one on that has data. Where units and the blocks of the lower file begin at different
/// places, the lower file has data beside each hole: zeros, which stand for a hole.
fn data_unit<F: DirectoryFormat>(body: &FileBody<'_, F>, mut unit: u64) -> Result<Option<u64>> {
    for _ in 0..ZEROS_MAX {
        let Some(found) = seek(body, SeekFrom::Data(body.lower_offset(unit)?))? else {
            return Ok(None);
        };
        unit = unit_at(body, found);
        if !is_zero(body, unit)? {
            break;
        }
        unit += 1;
    }
    Ok(Some(unit))
}

/// The first unit from this one on that is a hole.
fn hole_unit<F: DirectoryFormat>(body: &FileBody<'_, F>, mut unit: u64) -> Result<u64> {
    loop {
        let Some(found) = seek(body, SeekFrom::Hole(body.lower_offset(unit)?))? else {
            return Ok(u64::MAX);
        };
        unit = unit_at(body, found).max(unit);
        match data_unit(body, unit)? {
            Some(data) if data == unit => unit += 1,
            _ => return Ok(unit),
        }
    }
}

/// A place in the lower file; none behind its end.
fn seek<F: DirectoryFormat>(body: &FileBody<'_, F>, from: SeekFrom) -> Result<Option<u64>> {
    match rustix::fs::seek(body.file(), from) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(posix(error)),
    }
}

/// Returns whether a unit is stored as zeros.
fn is_zero<F: DirectoryFormat>(body: &FileBody<'_, F>, unit: u64) -> Result<bool> {
    let start = body.lower_offset(unit)?;
    let mut stored = vec![0; body.layout.lower_unit()];
    let read = || rustix::io::pread(body.file(), &mut stored[..], start);
    let len = rustix::io::retry_on_intr(read).map_err(posix)?;
    Ok(stored[..len].iter().all(|byte| *byte == 0))
}

/// The unit that this byte of the lower file belongs to.
fn unit_at<F: DirectoryFormat>(body: &FileBody<'_, F>, lower: u64) -> u64 {
    lower.saturating_sub(body.layout.header as u64) / body.layout.lower_unit() as u64
}

/// Writes these bytes, of which there is one at least.
fn write<F: DirectoryFormat>(body: &mut FileBody<'_, F>, offset: u64, data: &[u8]) -> Result<()> {
    let end = offset.checked_add(data.len() as u64);
    let end = end.ok_or(Error::FileTooBig)?;
    body.lower_size_for(end)?;
    if offset > body.size {
        fill_to(body, offset)?;
    }
    BUFFER.with_borrow_mut(|buffer| {
        let first = body.unit_of(offset);
        lay_out(body, offset, data, buffer)?;
        body.store(first, buffer)
    })?;
    match end > body.size {
        true => body.set_size(end),
        false => Ok(()),
    }
}

/// Puts the units that a write changes into `buffer`, with what stays of the first and the last.
fn lay_out<F: DirectoryFormat>(
    body: &FileBody<'_, F>,
    offset: u64,
    data: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let layout = body.layout;
    let (unit, whole) = (layout.unit, layout.lower_unit());
    let end = offset + data.len() as u64;
    let (first, last) = (body.unit_of(offset), body.unit_of(end - 1));
    let start_of = |number: u64| number * unit as u64;
    let last_len = match layout.size {
        SizeIn::Xattr(_) => unit,
        SizeIn::Lower => (end.max(body.size) - start_of(last)).min(unit as u64) as usize,
    };
    buffer.clear();
    buffer.resize(
        (last - first) as usize * whole + layout.before + last_len + layout.after,
        0,
    );
    let mut keep = |number: u64| -> Result<()> {
        let stays = body.load(number, number)?;
        let at = (number - first) as usize * whole + layout.before;
        buffer[at..at + stays.len()].copy_from_slice(&stays);
        Ok(())
    };
    let starts_inside = offset > start_of(first);
    if starts_inside {
        keep(first)?;
    }
    let ends_inside = end < body.size && end < start_of(last + 1);
    if ends_inside && !(starts_inside && first == last) {
        keep(last)?;
    }
    let mut rest = data;
    let mut at = (offset - start_of(first)) as usize;
    for unit_bytes in buffer.chunks_mut(whole) {
        let plain = &mut unit_bytes[layout.before..];
        let len = rest.len().min(unit - at);
        plain[at..at + len].copy_from_slice(&rest[..len]);
        rest = &rest[len..];
        at = 0;
    }
    Ok(())
}

/// Prepares a file for bytes at `offset`, which is past its end: all between reads as zeros.
fn fill_to<F: DirectoryFormat>(body: &mut FileBody<'_, F>, offset: u64) -> Result<()> {
    drop_leftovers(body)?;
    let last = body.unit_of(body.size);
    let rest = (body.size % body.layout.unit as u64) as usize;
    if rest == 0 || body.unit_of(offset) == last {
        return Ok(());
    }
    fill_unit(body, last, body.layout.unit)?;
    if body.layout.size == SizeIn::Lower {
        body.size = (last + 1) * body.layout.unit as u64;
    }
    Ok(())
}

/// Cuts off what a power cut has left past the end of the lower file.
fn drop_leftovers<F: DirectoryFormat>(body: &mut FileBody<'_, F>) -> Result<()> {
    let expected = body.lower_size_for(body.size)?;
    match body.lower_size() > expected && body.layout.size != SizeIn::Lower {
        true => body.truncate_lower(expected),
        false => Ok(()),
    }
}

/// Writes the last unit anew, with zeros from the end of the file on, up to `len` bytes.
fn fill_unit<F: DirectoryFormat>(body: &mut FileBody<'_, F>, last: u64, len: usize) -> Result<()> {
    if body.is_hole(last)? {
        return Ok(());
    }
    let mut plain = body.load(last, last)?;
    plain.resize(len, 0);
    body.store_one(last, &plain)
}

fn grow<F: DirectoryFormat>(body: &mut FileBody<'_, F>, size: u64) -> Result<()> {
    let lower_size = body.lower_size_for(size)?;
    let unit = body.layout.unit as u64;
    let (old_last, last) = (body.unit_of(body.size), body.unit_of(size));
    let (old_rest, rest) = (body.size % unit, (size % unit) as usize);
    drop_leftovers(body)?;
    if old_rest > 0 {
        let len = match old_last == last {
            true => rest,
            false => unit as usize,
        };
        fill_unit(body, old_last, len)?;
    }
    match body.layout.size {
        SizeIn::Xattr(_) => body.truncate_lower(lower_size)?,
        SizeIn::Lower if old_rest > 0 && old_last == last => {}
        SizeIn::Lower => {
            if body.layout.header > 0 && body.lower_size() == 0 && rest == 0 {
                // The header comes with the first unit.
                body.store_one(0, &vec![0; unit as usize])?;
            }
            if rest > 0 {
                body.store_one(last, &vec![0; rest])?;
            }
            body.truncate_lower(lower_size)?;
        }
    }
    body.set_size(size)
}

fn shrink<F: DirectoryFormat>(body: &mut FileBody<'_, F>, size: u64) -> Result<()> {
    let lower_size = body.lower_size_for(size)?;
    let unit = body.layout.unit as u64;
    let (last, rest) = (body.unit_of(size), (size % unit) as usize);
    match body.layout.size {
        SizeIn::Xattr(_) => {
            body.set_size(size)?;
            if rest > 0 {
                fill_unit(body, last, rest)?;
            }
            body.truncate_lower(lower_size)
        }
        // The last unit is another one at another length. Cut first: what a power cut then takes is
        // less than a unit, and nothing is damaged.
        SizeIn::Lower => {
            let mut plain = match rest {
                0 => Vec::new(),
                _ => body.load(last, last)?,
            };
            plain.truncate(rest);
            body.truncate_lower(body.lower_size_for(size - rest as u64)?)?;
            if rest > 0 {
                body.store_one(last, &plain)?;
            }
            body.size = size;
            Ok(())
        }
    }
}

/// Has the lower file system keep space for a range.
fn reserve<F: DirectoryFormat>(body: &FileBody<'_, F>, offset: u64, end: u64) -> Result<()> {
    let start = body.lower_offset(body.unit_of(offset))?;
    let len = body.lower_size_for(end)?.saturating_sub(start);
    let flags = FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(body.file(), flags, start, len).map_err(posix)
}

/// Makes a range read as zeros, with a hole for each unit that is whole in it.
fn clear<F: DirectoryFormat>(body: &mut FileBody<'_, F>, offset: u64, end: u64) -> Result<()> {
    let unit = body.layout.unit as u64;
    let end = end.min(body.size);
    if offset >= end {
        return Ok(());
    }
    let first = offset.div_ceil(unit);
    // What follows the end in the last unit is zeros already.
    let last = match body.layout.size {
        SizeIn::Xattr(_) if end == body.size => end.div_ceil(unit),
        _ => end / unit,
    };
    if first >= last {
        return clear_part(body, offset, end);
    }
    clear_part(body, offset, first * unit)?;
    clear_part(body, last * unit, end)?;
    let (start, stop) = (body.lower_offset(first)?, body.lower_offset(last)?);
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(body.file(), flags, start, stop - start).map_err(posix)
}

/// Writes zeros over a part of a unit or two, unless there are zeros.
fn clear_part<F: DirectoryFormat>(body: &mut FileBody<'_, F>, offset: u64, end: u64) -> Result<()> {
    if offset >= end {
        return Ok(());
    }
    let unit = body.layout.unit as u64;
    let (first, last) = (body.unit_of(offset), body.unit_of(end - 1));
    let plain = body.load(first, last)?;
    let range = (offset - first * unit) as usize..(end - first * unit) as usize;
    match plain[range].iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => write(body, offset, &vec![0; (end - offset) as usize]),
    }
}
