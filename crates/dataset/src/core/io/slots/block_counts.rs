//! The space of a file on the devices: its blocks, as `stat` and `du` show them.
//!
//! The pool knows the sum for a run of slots without reading the records. Records that are not in the pool yet count
//! with their size in memory, so that no program takes a new file for a hole. No lock is held while nodes are read.

use std::ops::Range;

use pool::ArrayKind;
use vfs::{Attr, Ino, Kind};

use crate::core::Dataset;
use crate::core::io::memory::inode::{FileSpace, Inode};
use crate::core::io::slots::extents;
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_INLINE, RecordExtent, attr_ino, attr_key};
use crate::tree::{TreeStep, TreeView};

/// A file with more extents, or more extents over the same slots, or more records that wait in memory, shows its size
/// before compression.
const EXTENTS_MAX: usize = 4096;
const ROWS_MAX: usize = 8;
const DIRTY_MAX: usize = 1024;

impl Dataset {
    /// The attributes of an inode, with its space on the devices.
    pub(crate) fn shown(&self, ino: Ino) -> Result<Attr> {
        Ok(self.shown_as(ino, self.attr(ino)?))
    }

    /// Does the same as [`Dataset::shown`], for an inode with these attributes.
    pub(crate) fn shown_as(&self, ino: Ino, attr: AttrValue) -> Attr {
        let has_records = attr.kind() == Kind::File && !attr.has(FLAG_INLINE);
        if !has_records || attr.allocated.get() == 0 {
            return attr.to_attr(ino);
        }
        // Reading the file reports the error. Its attributes can be shown.
        let found = self.found_stored(ino).unwrap_or(FileSpace::NOT_NOW);
        Attr {
            blocks: attr.blocks(found.bytes.unwrap_or(attr.allocated.get())),
            is_passing: !found.is_settled,
            ..attr.to_attr(ino)
        }
    }

    fn found_stored(&self, ino: Ino) -> Result<FileSpace> {
        self.inodes.with_known(ino, |inode| match inode {
            Some(inode) => self.found_last(inode),
            None => self.find_stored(ino, &[]),
        })
    }

    fn found_last(&self, inode: &Inode) -> Result<FileSpace> {
        let version = self.inodes.version_of(inode);
        if let Some(found) = inode.stored.found(version) {
            return Ok(found);
        }
        // First the records in memory: a record leaves memory only after it is in the pool.
        let Some(waiting) = inode.waiting(DIRTY_MAX) else {
            return Ok(FileSpace::NOT_NOW);
        };
        let found = self.find_stored(inode.ino, &waiting)?;
        if found.is_settled {
            inode.stored.keep(version, found);
        }
        Ok(found)
    }

    /// The space of the records of a file. `waiting` has the slots whose records wait in memory, ascending, and their
    /// bytes.
    fn find_stored(&self, ino: Ino, waiting: &[(u64, u64)]) -> Result<FileSpace> {
        let extents =
            self.read_tree(|r| extents::overlapping(r, ino, 0, u64::MAX, EXTENTS_MAX + 1))?;
        let rows = rows(&extents);
        if extents.len() > EXTENTS_MAX || rows.len() > ROWS_MAX {
            return Ok(FileSpace {
                bytes: None,
                is_settled: true,
            });
        }
        let except: Vec<u64> = waiting.iter().map(|(slot, _)| *slot).collect();
        let in_memory = waiting.iter().map(|(_, bytes)| *bytes);
        let mut found = FileSpace {
            bytes: Some(in_memory.fold(0, u64::saturating_add)),
            is_settled: waiting.is_empty(),
        };
        for slots in &rows {
            let stored = self.open.stored(ArrayKind::Data, slots, &except)?;
            found.is_settled &= stored.is_settled;
            let both = found.bytes.zip(stored.bytes);
            found.bytes = both.map(|(sum, bytes)| sum.saturating_add(bytes));
        }
        Ok(found)
    }
}

/// The slots of extents, in rows of ranges that ascend and do not overlap. There is more than one row if a file shares
/// records with itself.
fn rows(extents: &[RecordExtent]) -> Vec<Vec<Range<u64>>> {
    let slots = extents
        .iter()
        .map(|extent| extent.slot..extent.slot + extent.count);
    let mut slots: Vec<_> = slots.collect();
    slots.sort_unstable_by_key(|range| range.start);
    let mut rows: Vec<Vec<Range<u64>>> = Vec::new();
    for range in slots {
        let is_free =
            |row: &Vec<Range<u64>>| row.last().is_some_and(|last| last.end <= range.start);
        let Some(at) = rows.iter().position(is_free) else {
            rows.push(vec![range]);
            if rows.len() > ROWS_MAX {
                break;
            }
            continue;
        };
        match rows[at].last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => rows[at].push(range),
        }
    }
    rows
}

impl Inode {
    /// The slots of the records that wait in memory, ascending, and the largest space that each will take. `None` if
    /// there are more than `most`.
    fn waiting(&self, most: usize) -> Option<Vec<(u64, u64)>> {
        let records = self.records.lock();
        if records.len() > most {
            return None;
        }
        let each = records.values().map(|dirty| {
            let bytes = dirty.buffer.len() as u64 * dirty.copies as u64;
            (dirty.slot, bytes)
        });
        let mut waiting: Vec<_> = each.collect();
        drop(records);
        waiting.sort_unstable();
        Some(waiting)
    }
}

/// A file whose blocks are not those of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongBlocks {
    /// The file.
    pub ino: Ino,
    /// The bytes that it shows.
    pub shown: u64,
    /// The bytes that its records take, with those that wait in memory.
    pub counted: u64,
}

impl Dataset {
    /// Compares the blocks of all files with their records, one by one. For tests.
    ///
    /// # Errors
    /// The tree or an array cannot be read.
    pub fn check_blocks(&self) -> Result<Vec<WrongBlocks>> {
        let mut wrong = Vec::new();
        let mut ino = 0;
        while let Some((found, attr)) = self.read_tree(|r| next_inode(r, ino + 1))? {
            ino = found;
            if attr.kind() != Kind::File || attr.has(FLAG_INLINE) {
                continue;
            }
            let Some(shown) = self.found_stored(ino)?.bytes else {
                continue;
            };
            let counted = self.count_stored(ino)?;
            if shown != counted {
                wrong.push(WrongBlocks {
                    ino,
                    shown,
                    counted,
                });
            }
        }
        Ok(wrong)
    }

    fn count_stored(&self, ino: Ino) -> Result<u64> {
        let waiting = self.inodes.with_known(ino, |inode| {
            inode
                .and_then(|inode| inode.waiting(usize::MAX))
                .unwrap_or_default()
        });
        let mut bytes: u64 = waiting.iter().map(|(_, bytes)| *bytes).sum();
        let extents = self.read_tree(|r| extents::overlapping(r, ino, 0, u64::MAX, usize::MAX))?;
        for extent in extents {
            let (mut from, end) = (extent.slot, extent.slot + extent.count);
            while let Some(slot) = self.open.next(ArrayKind::Data, from, end)? {
                if waiting
                    .binary_search_by_key(&slot, |(slot, _)| *slot)
                    .is_err()
                {
                    bytes += self.open.get(ArrayKind::Data, slot)?.place.allocated();
                }
                from = slot + 1;
            }
        }
        Ok(bytes)
    }
}

/// The first inode from a number on.
fn next_inode(view: &dyn TreeView, from: Ino) -> TreeStep<Option<(Ino, AttrValue)>> {
    let mut found = None;
    view.scan(&attr_key(from), &mut |key, value| {
        found = attr_ino(key).map(|ino| (ino, AttrValue::decode(value)));
        found.is_none()
    })?;
    match found {
        Some((ino, attr)) => Ok(Some((ino, attr.ok_or(vfs::Error::Io)?))),
        None => Ok(None),
    }
}
