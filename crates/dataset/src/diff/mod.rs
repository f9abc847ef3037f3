//! The changes of files and directories between two states of a dataset.
//!
//! A comparison reads only pages of the metadata tree that differ, and the pages that it needs to find paths. It puts
//! the entries of these pages into one map for each state. If a page was split or merged in between, most entries in
//! both maps are equal.

mod cells;
mod files;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use keys::DataKeys;
use pool::{ArrayKind, Entry, Pool};
use vfs::{Ino, Kind, Time};

use crate::error::Result;
use crate::layout::{AttrValue, KeyKind, NameEntry, decode_names};
use crate::seal::Sealer;
use crate::tree::PAGE;
use cells::Cells;
pub use files::{FoundFiles, RecordFile, RecordSearch, files_with};
use view::StateView;

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// The file no longer has this name, or no longer exists.
    Removed,
    /// The file has another name.
    Renamed,
    /// The file is new, or has this additional name.
    Added,
    /// The contents or attributes changed.
    Modified,
}

/// A difference between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path from the root of the dataset, with a slash before each name; the old path of a renamed file.
    pub path: Vec<u8>,
    /// The kind of the difference.
    pub change: DifferenceKind,
    /// The new path of a renamed file.
    pub new_path: Option<Vec<u8>>,
    /// The kind of the file.
    pub kind: Kind,
    /// The time of its last change, from the newer state if that has the file.
    pub ctime: Time,
}

/// Finds the differences, sorted by path. `older` and `newer` are states of one line: snapshots, or the dataset itself.
/// Stops when `ended` is set. Keeps at most about `memory` bytes.
///
/// # Errors
/// [`crate::Error::Damaged`] if the key holder did not make a seal, or if a page cannot be read. If the dataset changes
/// meanwhile, pages of `newer` may be freed. [`vfs::Error::Stale`] if `ended` was set; [`vfs::Error::NoMemory`] if it
/// needs more memory.
pub fn diff(
    pool: &Pool,
    older: &Entry,
    newer: &Entry,
    keys: Option<Vec<DataKeys>>,
    ended: &Arc<AtomicBool>,
    memory: u64,
) -> Result<Vec<Difference>> {
    let sealer = Arc::new(Sealer::of(newer.family, keys)?);
    let memory = Arc::new(AtomicU64::new(memory));
    let older_view = StateView::open(pool, older, &sealer, ended, &memory)?;
    let newer_view = StateView::open(pool, newer, &sealer, ended, &memory)?;
    let cells = [
        older_view.cells(&pages_besides(pool, newer, older)?)?,
        newer_view.cells(&pages_besides(pool, older, newer)?)?,
    ];
    let mut found = Finder {
        older: older_view,
        newer: newer_view,
        removed: HashMap::new(),
        added: HashMap::new(),
        found: Vec::new(),
    };
    let touched = found.compare(&cells)?;
    for ino in touched {
        found.look_at(ino)?;
    }
    let mut all = found.found;
    all.sort_by(|a, b| (&a.path, a.change).cmp(&(&b.path, b.change)));
    all.dedup();
    Ok(all)
}

/// The slots of pages of the tree that one state has and the other has not. The header and the history of seals are
/// shorter.
fn pages_besides(pool: &Pool, has_not: &Entry, has: &Entry) -> Result<Vec<u64>> {
    let mut slots = Vec::new();
    pool.records_besides(has_not, has, ArrayKind::Pages, &mut |slot, ptr| {
        if ptr.identity.logical_size() as usize == PAGE {
            slots.push(slot);
        }
    })?;
    Ok(slots)
}

/// Names that an inode got or lost: the directory and the name.
type NameChanges = HashMap<Ino, Vec<(Ino, Vec<u8>)>>;

struct Finder {
    older: StateView,
    newer: StateView,
    removed: NameChanges,
    added: NameChanges,
    found: Vec<Difference>,
}

impl Finder {
    /// The changed inodes. Remembers added and removed names.
    fn compare(&mut self, [old, new]: &[Cells; 2]) -> Result<BTreeSet<Ino>> {
        let mut touched = BTreeSet::new();
        let keys: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let (before, after) = (old.get(key), new.get(key));
            let Some((ino, rest)) = key.split_first_chunk::<8>() else {
                continue;
            };
            let ino = Ino::from_be_bytes(*ino);
            if before == after || ino == 0 {
                continue;
            }
            touched.insert(ino);
            if rest.first() == Some(&(KeyKind::Entry as u8)) {
                let before = self.older.names_in(before)?;
                let after = self.newer.names_in(after)?;
                touched.extend(note(&mut self.removed, ino, &before, &after));
                touched.extend(note(&mut self.added, ino, &after, &before));
            }
        }
        Ok(touched)
    }

    /// Finds the differences of an inode.
    fn look_at(&mut self, ino: Ino) -> Result<()> {
        let removed = self.removed.remove(&ino).unwrap_or_default();
        let added = self.added.remove(&ino).unwrap_or_default();
        match (self.older.linked(ino)?, self.newer.linked(ino)?) {
            (None, None) => Ok(()),
            (Some(old), Some(new)) if is_same(&old, &new) => {
                self.changed(ino, &old, &new, &removed, &added)
            }
            (old, new) => {
                for (dir, name) in removed {
                    let path = self.older.path_of(dir, &name)?;
                    self.tell(DifferenceKind::Removed, path, None, old.as_ref())?;
                }
                for (dir, name) in added {
                    let path = self.newer.path_of(dir, &name)?;
                    self.tell(DifferenceKind::Added, path, None, new.as_ref())?;
                }
                Ok(())
            }
        }
    }

    /// Finds the differences of an inode that both states have.
    fn changed(
        &mut self,
        ino: Ino,
        old: &AttrValue,
        new: &AttrValue,
        removed: &[(Ino, Vec<u8>)],
        added: &[(Ino, Vec<u8>)],
    ) -> Result<()> {
        let renamed = removed.len().min(added.len());
        for (at, (dir, name)) in removed.iter().enumerate() {
            let path = self.older.path_of(*dir, name)?;
            match added.get(at) {
                Some((dir, name)) => {
                    let new_path = self.newer.path_of(*dir, name)?;
                    self.tell(DifferenceKind::Renamed, path, Some(new_path), Some(new))?;
                }
                None => self.tell(DifferenceKind::Removed, path, None, Some(new))?,
            }
        }
        for (dir, name) in &added[renamed..] {
            let path = self.newer.path_of(*dir, name)?;
            self.tell(DifferenceKind::Added, path, None, Some(new))?;
        }
        // An added or removed name changes the ctime too.
        let is_modified = match removed.is_empty() && added.is_empty() {
            true => old.ctime != new.ctime,
            false => old.mtime != new.mtime || old.size != new.size,
        };
        if is_modified && let Some(path) = self.newer.path(ino)? {
            self.tell(DifferenceKind::Modified, path, None, Some(new))?;
        }
        Ok(())
    }

    fn tell(
        &mut self,
        change: DifferenceKind,
        path: Vec<u8>,
        new_path: Option<Vec<u8>>,
        attr: Option<&AttrValue>,
    ) -> Result<()> {
        let Some(attr) = attr else { return Ok(()) };
        let len = path.len() + new_path.as_ref().map_or(0, Vec::len);
        self.newer.keep(len)?;
        self.found.push(Difference {
            path,
            change,
            new_path,
            kind: attr.kind(),
            ctime: attr.ctime.into(),
        });
        Ok(())
    }
}

/// Returns whether two states of an inode are of the same file. After a rollback, inode numbers are used again.
fn is_same(old: &AttrValue, new: &AttrValue) -> bool {
    old.btime == new.btime && old.kind() == new.kind()
}

/// Notes names of a directory that are in `these` and not in `others`. Returns the inodes with these names.
fn note(names: &mut NameChanges, dir: Ino, these: &[NameEntry], others: &[NameEntry]) -> Vec<Ino> {
    let only = these.iter().filter(|name| {
        let mut others = others.iter();
        !others.any(|other| (other.ino, &other.name) == (name.ino, &name.name))
    });
    only.map(|name| {
        let known = names.entry(name.ino).or_default();
        known.push((dir, name.name.clone()));
        name.ino
    })
    .collect()
}

impl StateView {
    /// The names in a value of a directory, if there is one.
    fn names_in(&self, value: Option<&Vec<u8>>) -> Result<Vec<NameEntry>> {
        let Some(value) = value else {
            return Ok(Vec::new());
        };
        decode_names(value).ok_or_else(|| self.damaged("a directory"))
    }
}
