//! Frees inodes without links, and the slots of deleted and truncated data.
//!
//! Deleting a file takes a few changes of the tree, however large the file is: its extents go to the list of dead
//! slots. Each piece of the list is freed in its own transaction group. After a crash the work continues.

use pool::{ArrayKind, ReserveFor, SpaceReservation};
use vfs::{Ino, Kind};

use crate::core::io::slots::extents::{bury, decode_dead, overlapping};
use crate::core::io::slots::share::{Runs, let_go};
use crate::core::log::Scope;
use crate::core::{Dataset, attr_of};
use crate::error::Result;
use crate::layout::{
    FLAG_XATTR, KeyKind, XattrValue, attr_key, dataset_number, dead_key, inline_key, orphan_key,
    suffix, xattr_key,
};
use crate::tree::{TreeStep, TreeView, TreeWriter};

/// A transaction group empties at most this many slots of one list entry.
const SLOTS_AT_ONCE: usize = 1024;

/// The first entry of one of the dataset's lists from a number on.
type ListEntry = Option<(u64, Vec<u8>)>;

impl Dataset {
    /// Returns lookups. An inode without links and lookups is removed.
    pub(crate) fn forget_inode(&self, ino: Ino, count: u64) {
        if !self.inodes.forget(ino, count) || self.check_writable().is_err() {
            return;
        }
        let is_orphan = self.read_tree(|r| Ok(r.get(&orphan_key(ino))?.is_some()));
        let result = match is_orphan {
            Ok(false) => return,
            Ok(true) => self.remove_inode(ino),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            // The inode stays on the list until the dataset is opened again.
            tracing::warn!(%error, dataset = self.name(), ino, "an unlinked file could not be removed yet");
        }
    }

    /// Returns all lookups.
    pub(crate) fn forget_inodes(&self) {
        self.inodes.forget_all();
        if self.check_writable().is_ok()
            && let Err(error) = self.remove_orphans()
        {
            tracing::warn!(%error, dataset = self.name(), "unlinked files could not be removed yet");
        }
    }

    fn remove_inode(&self, ino: Ino) -> Result<()> {
        let inode = self.inodes.get(ino);
        let _io = inode.io.write();
        self.change_and(
            ReserveFor::Freeing,
            |w| {
                if w.get(&orphan_key(ino))?.is_some() {
                    destroy_inode(w, ino)?;
                    w.delete(orphan_key(ino));
                }
                Ok(())
            },
            |_, ()| self.drop_records(&inode, ..),
        )?;
        drop(_io);
        drop(inode);
        self.inodes.release(ino);
        self.unlinked.remove();
        Ok(())
    }

    /// Returns whether there are unlinked inodes.
    pub(crate) fn has_orphans(&self) -> Result<bool> {
        Ok(self.next_of(KeyKind::Orphan, orphan_key(0))?.is_some())
    }

    /// Removes the inodes that were unlinked and still open when the dataset was last in use.
    pub(crate) fn remove_orphans(&self) -> Result<()> {
        if self.check_writable().is_err() {
            return Ok(());
        }
        let mut from = 0;
        while let Some((ino, _)) = self.next_of(KeyKind::Orphan, orphan_key(from))? {
            if !self.inodes.is_looked_up(ino) {
                self.remove_inode(ino)?;
            }
            from = match ino.checked_add(1) {
                Some(next) => next,
                None => break,
            };
        }
        Ok(())
    }

    fn next_of(&self, kind: KeyKind, from: Vec<u8>) -> Result<ListEntry> {
        if self.volume.is_some() {
            return Ok(None);
        }
        self.read_tree(|r| {
            let mut found = None;
            r.scan(&from, &mut |key, value| {
                found = dataset_number(key, kind).map(|number| (number, value.to_vec()));
                false
            })?;
            Ok(found)
        })
    }

    /// Returns whether there are dead slots that can be emptied now.
    pub fn has_dead(&self) -> bool {
        let committed = self.pool.committed_txg();
        let first = self.next_of(KeyKind::Dead, dead_key(0));
        matches!(first, Ok(Some((_, value))) if decode_dead(&value).is_some_and(|(_, txg)| txg <= committed))
    }

    /// Empties the dead slots.
    ///
    /// # Errors
    /// The tree or an array cannot be read, or the pool refuses changes. Nothing is done in a read-only dataset.
    pub fn free_dead_slots(&self) -> Result<()> {
        if self.check_writable().is_err() {
            return Ok(());
        }
        let mut from = 0;
        while let Some((slot, value)) = self.next_of(KeyKind::Dead, dead_key(from))? {
            let (count, txg) = decode_dead(&value)
                .filter(|_| slot < pool::SLOT_LIMIT)
                .ok_or_else(|| self.damaged("a list of its tree"))?;
            from = slot + count.max(1);
            // The running commit may be about to fill them.
            if txg <= self.pool.committed_txg() {
                self.empty_slots(slot, count, txg)?;
            }
        }
        Ok(())
    }

    fn empty_slots(&self, slot: u64, count: u64, txg: u64) -> Result<()> {
        let end = slot + count;
        let mut at = slot;
        while at < end {
            let mut full = Vec::new();
            let mut next = at;
            while full.len() < SLOTS_AT_ONCE {
                match self.open.next(ArrayKind::Data, next, end)? {
                    Some(found) => {
                        full.push(found);
                        next = found + 1;
                    }
                    None => {
                        next = end;
                        break;
                    }
                }
            }
            let _reserved = self.reserve_to_empty(&mut full, &mut next)?;
            self.change_in(
                Scope::Upkeep,
                ReserveFor::Freeing,
                |w| {
                    w.delete(dead_key(at));
                    if next < end {
                        let value = [(end - next).to_le_bytes(), txg.to_le_bytes()].concat();
                        w.put(dead_key(next), value);
                    }
                    Ok(())
                },
                |hold, ()| {
                    for slot in &full {
                        self.open.punch(hold, ArrayKind::Data, *slot);
                    }
                },
            )?;
            at = next;
        }
        Ok(())
    }
}

impl Dataset {
    /// Reserves space for the nodes above slots that will be emptied. If there is too little, fewer slots are
    /// emptied at once, and `next` is the first of the others.
    pub(crate) fn reserve_to_empty(
        &self,
        slots: &mut Vec<u64>,
        next: &mut u64,
    ) -> Result<SpaceReservation> {
        loop {
            let bytes = self.open.punch_space(ArrayKind::Data, slots);
            match self.pool.reserve_to_free(bytes) {
                Ok(reserved) => return Ok(reserved),
                Err(_) if slots.len() > 1 => {
                    *next = slots.split_off(slots.len() / 2)[0];
                    // The space reserved for earlier slots is free after a commit.
                    self.pool.commit()?;
                }
                Err(_) => return self.reserve(&self.settings(), bytes, ReserveFor::Freeing),
            }
        }
    }
}

/// Removes everything of an inode from the tree.
pub(crate) fn destroy_inode(w: &mut TreeWriter<'_>, ino: Ino) -> TreeStep<()> {
    let attr = attr_of(w, ino)?;
    if attr.has(FLAG_XATTR) {
        destroy_xattrs(w, ino)?;
    }
    if matches!(attr.kind(), Kind::File | Kind::Symlink) {
        w.delete(inline_key(ino));
    }
    if attr.kind() == Kind::File {
        let mut runs = Runs::default();
        for extent in overlapping(w, ino, 0, u64::MAX, usize::MAX)? {
            w.delete(crate::layout::extent_key(ino, extent.record));
            let_go(w, &mut runs, &extent)?;
        }
        runs.store(w);
    }
    w.delete(attr_key(ino));
    w.header.inodes = w.header.inodes.saturating_sub(1);
    Ok(())
}

fn destroy_xattrs(w: &mut TreeWriter<'_>, ino: Ino) -> TreeStep<()> {
    let mut all = Vec::new();
    w.scan(&xattr_key(ino, b""), &mut |key, value| {
        match suffix(key, ino, KeyKind::Xattr) {
            Some(_) => all.push((key.to_vec(), XattrValue::decode(value))),
            None => return false,
        }
        true
    })?;
    for (key, value) in all {
        if let Some(XattrValue::Record { slot, .. }) = value {
            bury(w, slot, 1);
        }
        w.delete(key);
    }
    Ok(())
}
