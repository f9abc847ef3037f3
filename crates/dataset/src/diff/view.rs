//! A state of a dataset, for a comparison: attributes, and paths of inodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pool::{ArrayKind, Entry, OpenDataset, Pool};
use vfs::{Ino, ROOT};

use super::cells::Cells;
use crate::core::{attr_of, check_seal, read_header, read_record};
use crate::error::{Error, Result};
use crate::layout::{AttrValue, KeyKind, NameEntry, decode_names, entry_key, suffix_number};
use crate::seal::Sealer;
use crate::tree::{MetadataTree, PageKind, PageSource, TreePage, TreeView as _};

/// The number of pages that are kept in memory.
const PAGES: usize = 256;
/// The number of entries that are read at a time.
const AT_ONCE: usize = 256;
/// The bytes that an entry takes besides its contents.
const OVERHEAD: usize = 100;
/// The longest path, in bytes.
const PATH_MAX: usize = 1 << 20;
/// A path has at most this many names.
const DEPTH_MAX: usize = 1 << 16;

/// A state of a dataset.
pub(super) struct StateView {
    name: String,
    open: Arc<OpenDataset>,
    sealer: Arc<Sealer>,
    /// True if the comparison has to stop.
    ended: Arc<AtomicBool>,
    /// The number of pages that may still be read.
    left: AtomicU64,
    /// The number of bytes that a comparison may still keep in memory.
    memory: Arc<AtomicU64>,
    /// `None` if the dataset was never written.
    tree: Option<MetadataTree>,
    /// A name of each inode in the directories that were read.
    known: Mutex<HashMap<Ino, HashMap<Ino, Vec<u8>>>>,
}

impl PageSource for StateView {
    fn load(&self, slot: u64) -> Result<TreePage> {
        if self.ended.load(Ordering::Acquire) {
            return Err(vfs::Error::Stale.into());
        }
        let take = |left: u64| left.checked_sub(1);
        let left = &self.left;
        if left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_err()
        {
            return Err(vfs::Error::Io.into());
        }
        let page = (slot, self.open.get(ArrayKind::Pages, slot)?);
        let found = read_record(&self.open, &self.sealer, &self.name, ArrayKind::Pages, page)?;
        let (_, buffer) = found.ok_or_else(|| self.damaged("its tree"))?;
        TreePage::from_bytes(&buffer).ok_or_else(|| self.damaged("a page of its tree"))
    }
}

impl StateView {
    /// Opens a state, and checks its seal first.
    pub(super) fn open(
        pool: &Pool,
        entry: &Entry,
        sealer: &Arc<Sealer>,
        ended: &Arc<AtomicBool>,
        memory: &Arc<AtomicU64>,
    ) -> Result<StateView> {
        let name = pool.name_of(entry.id)?;
        check_seal(pool, entry, sealer, &name)?;
        let open = pool.state_of(entry)?;
        let header = read_header(&open, sealer, &name)?;
        Ok(StateView {
            tree: header.map(|header| MetadataTree::open(header, PAGES)),
            name,
            open,
            sealer: Arc::clone(sealer),
            ended: Arc::clone(ended),
            left: AtomicU64::new(u64::MAX),
            memory: Arc::clone(memory),
            known: Mutex::default(),
        })
    }

    /// Sets how many more pages may be read. Then reads fail.
    pub(super) fn allow(&self, pages: u64) {
        self.left.store(pages, Ordering::Relaxed);
    }

    /// Takes memory for this many bytes. `NoMemory` if the comparison may keep no more.
    pub(super) fn keep(&self, bytes: usize) -> Result<()> {
        let take = |left: u64| left.checked_sub((bytes + OVERHEAD) as u64);
        let order = Ordering::Relaxed;
        match self.memory.fetch_update(order, order, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(vfs::Error::NoMemory.into()),
        }
    }

    pub(super) fn damaged(&self, what: &str) -> Error {
        Error::Damaged {
            dataset: self.name.clone(),
            what: what.into(),
        }
    }

    /// All entries of these pages.
    pub(super) fn cells(&self, slots: &[u64]) -> Result<Cells> {
        let mut cells = Cells::new();
        for slot in slots {
            let page = self.load(*slot)?;
            if page.kind() == PageKind::Leaf {
                for at in 0..page.len() {
                    let (key, value) = (page.key(at), page.value(at));
                    self.keep(key.len() + value.len())?;
                    cells.insert(key.to_vec(), value.to_vec());
                }
            }
        }
        Ok(cells)
    }

    /// The attributes of an inode that has a name.
    pub(super) fn linked(&self, ino: Ino) -> Result<Option<AttrValue>> {
        let Some(tree) = &self.tree else {
            return Ok(None);
        };
        match tree.read(self, |reader| attr_of(reader, ino)) {
            Ok(attr) => Ok(Some(attr).filter(|attr| attr.nlink.get() > 0)),
            Err(Error::Fs(vfs::Error::Stale)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A path of an inode; `None` if it no longer has one.
    pub(super) fn path(&self, ino: Ino) -> Result<Option<Vec<u8>>> {
        let (mut names, mut len) = (Vec::new(), 0);
        let mut at = ino;
        while at != ROOT {
            let Some(attr) = self.linked(at)? else {
                return Ok(None);
            };
            let parent = attr.parent.get();
            let found = match self.name(parent, at)? {
                Some(name) => Some((parent, name)),
                // The directory has the inode under no name: it has another name elsewhere.
                None => self.search(at)?,
            };
            let Some((parent, name)) = found else {
                return Ok(None);
            };
            len += name.len() + 1;
            if len > PATH_MAX {
                return Err(vfs::Error::NoMemory.into());
            }
            names.push(name);
            at = parent;
            if names.len() > DEPTH_MAX {
                return Err(self.damaged("a directory, which is below itself,"));
            }
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(Some(path))
    }

    /// The path of a name in a directory.
    pub(super) fn path_of(&self, dir: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let path = self.path(dir)?;
        let mut path = path.ok_or_else(|| self.damaged("a directory without a name"))?;
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(path)
    }

    /// A name of an inode in a directory.
    fn name(&self, dir: Ino, ino: Ino) -> Result<Option<Vec<u8>>> {
        if let Some(names) = self.known.lock().get(&dir) {
            return Ok(names.get(&ino).cloned());
        }
        let mut names = HashMap::new();
        let mut from = Some(0);
        while let Some(hash) = from {
            let (some, next) = self.some_names(dir, hash)?;
            for entry in &some {
                self.keep(entry.name.len())?;
            }
            names.extend(some.into_iter().map(|entry| (entry.ino, entry.name)));
            from = next;
        }
        let found = names.get(&ino).cloned();
        self.known.lock().insert(dir, names);
        Ok(found)
    }

    /// A name of an inode in any directory. Reads the whole tree.
    fn search(&self, ino: Ino) -> Result<Option<(Ino, Vec<u8>)>> {
        let Some(tree) = &self.tree else {
            return Ok(None);
        };
        let mut from = Vec::new();
        loop {
            let (found, last) = tree.read(self, |reader| {
                let (mut found, mut last, mut left) = (None, None, AT_ONCE);
                reader.scan(&from, &mut |key, value| {
                    found = name_of(ino, key, value);
                    last = Some(key.to_vec());
                    left -= 1;
                    found.is_none() && left > 0
                })?;
                Ok((found, last))
            })?;
            match (found, last) {
                (None, Some(last)) => from = [last.as_slice(), &[0]].concat(),
                (found, _) => return Ok(found),
            }
        }
    }

    /// Some names in a directory from a hash on, and the hash at which to continue.
    fn some_names(&self, dir: Ino, from: u64) -> Result<(Vec<NameEntry>, Option<u64>)> {
        let Some(tree) = &self.tree else {
            return Ok((Vec::new(), None));
        };
        let (some, last, bad) = tree.read(self, |reader| {
            let (mut some, mut last, mut bad) = (Vec::new(), None, false);
            reader.scan(&entry_key(dir, from), &mut |key, value| {
                let Some(hash) = suffix_number(key, dir, KeyKind::Entry) else {
                    last = None;
                    return false;
                };
                match decode_names(value) {
                    Some(names) => some.extend(names),
                    None => bad = true,
                }
                last = hash.checked_add(1);
                !bad && some.len() < AT_ONCE
            })?;
            Ok((some, last, bad))
        })?;
        match bad {
            true => Err(self.damaged("a directory")),
            false => Ok((some, last)),
        }
    }
}

/// The directory and the name, if this entry of the tree is one of the inode.
fn name_of(ino: Ino, key: &[u8], value: &[u8]) -> Option<(Ino, Vec<u8>)> {
    let (dir, rest) = key.split_first_chunk::<8>()?;
    if rest.first() != Some(&(KeyKind::Entry as u8)) {
        return None;
    }
    let mut names = decode_names(value)?.into_iter();
    let found = names.find(|name| name.ino == ino)?;
    Some((Ino::from_be_bytes(*dir), found.name))
}
