//! The file system, and finding names in it.

use std::cell::RefCell;
use std::sync::Arc;

use rustix::fs::FileType;
use vfs::{Attr, DirEntry, Error, Ino, Kind, ROOT, Result};

use super::state::format_file::UnsyncedFiles;
use super::state::inode::{LowerInode, LowerInodes, Options};
use super::state::names::{LookupResult, NameListing, Strangers};
use super::state::temporary;
use crate::formats::{DirectoryFormat, LongName, LongNames, LowerName, Sought};
use crate::lower::{Entry, LowerDirEntry, Watches, kind, list, list_open};

/// The longest contents of a file with a long name.
const LONG_NAME_MAX: usize = 4096;

/// A view of a lower directory: its files in clear.
pub struct StackedDirectory<F: DirectoryFormat> {
    pub(super) format: F,
    pub(super) inodes: LowerInodes<F::Node>,
    /// The number of the root in the lower directory.
    root_ino: u64,
    pub(super) options: Options,
    pub(super) unsynced: UnsyncedFiles,
    /// Tells of names that others make. Nothing if no index of names needs this, or the kernel refuses.
    watches: Option<Arc<Watches>>,
}

/// The lower entry of a name.
pub(super) struct NameMatch {
    /// The name of the entry in the lower directory.
    pub(super) lower: LowerName,
    pub(super) entry: Entry,
}

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// The view of a lower directory.
    ///
    /// # Errors
    /// Those of [`DirectoryFormat::root`].
    pub fn new(entry: Entry, format: F, options: Options) -> Result<StackedDirectory<F>> {
        let root_ino = entry.stat()?.stx_ino;
        let unsynced = UnsyncedFiles::new(&entry)?;
        let node = format.root(&entry)?;
        let root = LowerInode::new(ROOT, Kind::Directory, entry, node);
        let is_watched = format.names_epoch().is_some() && options.watches_names();
        Ok(StackedDirectory {
            format,
            inodes: LowerInodes::new(root, options),
            root_ino,
            options,
            unsynced,
            watches: is_watched.then(Watches::new).flatten(),
        })
    }

    /// The number that the view has for a number of the lower directory: the same, but for the root.
    pub(super) fn number(&self, lower: u64) -> Ino {
        number(self.root_ino, lower)
    }

    /// Looks a name up. The answer is one lookup.
    pub(super) fn look_up(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.inodes.get(parent)?;
        let found = {
            // This mount makes no name while the directory is listed.
            let is_complete = self.format.names_epoch().is_some()
                && (!self.options.shared || self.watches.is_some());
            let _names = is_complete.then(|| dir.io.read());
            self.find(&dir, name)?
        };
        self.enter(&dir, &found.lower.name, found.entry)
    }

    /// Enters what was found in a directory. One lookup.
    pub(super) fn enter(
        &self,
        dir: &LowerInode<F::Node>,
        lower: &[u8],
        entry: Entry,
    ) -> Result<Attr> {
        let stat = self.stat(&entry)?;
        let ino = self.number(stat.stx_ino);
        let inode = match self.inodes.look_up(ino) {
            Some(inode) => self
                .renew(inode, dir, lower)
                .inspect_err(|_| self.inodes.forget(ino, 1))?,
            None => {
                let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
                let kind = crate::lower::kind(kind).ok_or(Error::Io)?;
                let node = self.format.node(&dir.node, lower, kind, &entry)?;
                self.inodes.enter(LowerInode::new(ino, kind, entry, node))
            }
        };
        self.attr_of(&inode, &stat)
            .inspect_err(|_| self.inodes.forget(ino, 1))
    }

    /// Finds a name of the view.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`, `Io`.
    pub(super) fn find(&self, dir: &LowerInode<F::Node>, name: &[u8]) -> Result<NameMatch> {
        match self.sought(dir, name)? {
            Sought::At(lower) => {
                let entry = dir.directory()?.entry(&lower.name)?;
                Ok(NameMatch { lower, entry })
            }
            Sought::Listed => self.find_listed(dir, name),
        }
    }

    /// The lower name of a name of the view. That there is an entry is known only if a listing found it.
    ///
    /// # Errors
    /// As [`StackedDirectory::find`].
    pub(super) fn lower_name(&self, dir: &LowerInode<F::Node>, name: &[u8]) -> Result<LowerName> {
        match self.sought(dir, name)? {
            Sought::At(lower) => Ok(lower),
            Sought::Listed => self.find_listed(dir, name).map(|found| found.lower),
        }
    }

    fn sought(&self, dir: &LowerInode<F::Node>, name: &[u8]) -> Result<Sought> {
        self.format.learn(&dir.node, &dir.entry)?;
        match self.format.lower_name(&dir.node, name)? {
            Sought::At(lower) if self.is_hidden(&lower.name) => Err(Error::NotFound),
            sought => Ok(sought),
        }
    }

    /// Finds a name by those that are known, or else by a listing. Without other clients, and where others are
    /// watched, the caller has the directory locked, so that the listing has all names that this mount made.
    fn find_listed(&self, dir: &LowerInode<F::Node>, name: &[u8]) -> Result<NameMatch> {
        let directory = dir.directory()?;
        let epoch = self.format.names_epoch();
        let mut is_index = self.hears_all_names(dir);
        match epoch.map_or(LookupResult::Unknown, |epoch| dir.names.get(name, epoch)) {
            LookupResult::At(lower) => match directory.entry(&lower) {
                Ok(entry) => {
                    let (name, long) = (lower, None);
                    let lower = LowerName { name, long };
                    return Ok(NameMatch { lower, entry });
                }
                // It has another lower name by now, or none: a listing must not pass over this one.
                Err(Error::NotFound | Error::Stale) => {
                    dir.names.remove(name);
                    is_index = self.hears_all_names(dir);
                }
                Err(error) => return Err(error),
            },
            LookupResult::Missing | LookupResult::Unknown => {}
        }
        let is_missing = |epoch| dir.names.get(name, epoch) == LookupResult::Missing;
        if is_index && epoch.is_some_and(is_missing) {
            return Err(Error::NotFound);
        }
        if let Some(watches) = &self.watches {
            dir.names.watch(|| watches.add(directory));
        }
        let since = dir.names.strangers();
        let lists_often = self.options.shared || self.options.nodircache;
        let found = match epoch.filter(|epoch| lists_often && dir.names.are_of(*epoch)) {
            Some(epoch) => self.list_for(dir, name, epoch, since)?,
            None => self.list_all(dir, name, epoch.map(NameListing::new), since)?,
        };
        let lower = found.ok_or(Error::NotFound)?;
        let entry = directory.entry(&lower.name)?;
        Ok(NameMatch { lower, entry })
    }

    /// Returns whether a complete index has all names, so that a name that is not in it is missing.
    fn hears_all_names(&self, dir: &LowerInode<F::Node>) -> bool {
        match (&self.watches, self.options.shared) {
            (Some(_), true) => dir.names.hear(|lower| self.is_hidden(lower)),
            (_, is_shared) => !is_shared && !self.options.nodircache,
        }
    }

    /// Lists a directory for one name, which is none of those that are known: only new names are decrypted.
    fn list_for(
        &self,
        dir: &LowerInode<F::Node>,
        name: &[u8],
        epoch: u64,
        since: Strangers,
    ) -> Result<Option<LowerName>> {
        let mut found = None;
        let mut has_all = true;
        let is_known = |lower: &[u8]| dir.names.has_lower(lower, epoch);
        self.each_name(dir, 0, is_known, |listed, plain, long| {
            match (plain == name, &long) {
                (true, None) => dir.names.found(plain, listed.name, epoch),
                (false, None) => has_all &= dir.names.listed(plain, listed.name, epoch),
                (_, Some(_)) => has_all = false,
            }
            if plain == name {
                let name = listed.name.to_vec();
                found = Some(LowerName { name, long });
            }
            Ok(found.is_none())
        })?;
        if has_all && found.is_none() {
            dir.names.all_listed(epoch, since);
        }
        Ok(found)
    }

    /// Lists a directory for one name, and enters all names if they are to be kept.
    fn list_all(
        &self,
        dir: &LowerInode<F::Node>,
        name: &[u8],
        mut known: Option<NameListing>,
        since: Strangers,
    ) -> Result<Option<LowerName>> {
        let mut found = None;
        self.each_name(
            dir,
            0,
            |_| false,
            |listed, plain, long| {
                known = known.take().filter(|_| long.is_none());
                if found.is_none() && plain == name {
                    let name = listed.name.to_vec();
                    found = Some(LowerName { name, long });
                }
                let has_space = known.as_mut().map(|known| known.add(plain, listed.name));
                if has_space == Some(false) {
                    known = None;
                }
                Ok(found.is_none() || known.is_some())
            },
        )?;
        if let Some(known) = known {
            dir.names.replace(known, since);
        }
        Ok(found)
    }

    /// Calls `each` with the entries that the view shows, but for those to skip, by both names, and with the file
    /// that has a long name.
    fn each_name(
        &self,
        dir: &LowerInode<F::Node>,
        cookie: u64,
        skip: impl Fn(&[u8]) -> bool,
        mut each: impl FnMut(&LowerDirEntry<'_>, &[u8], Option<LongName>) -> Result<bool>,
    ) -> Result<()> {
        let entry = dir.directory()?;
        match self.format.learn(&dir.node, entry) {
            // Its own file is missing, since making or removing it was interrupted: `rmdir` ends that.
            Err(Error::Io) if is_empty(entry)? => {}
            learned => learned?,
        }
        let long_name = RefCell::new(None);
        let long: &LongNames<'_> = &|name| {
            let contents = match entry.read_small(name, LONG_NAME_MAX) {
                Err(Error::NoMemory) => return Err(Error::NoMemory),
                contents => contents.map_err(|_| Error::Io)?,
            };
            let (name, read) = (name.to_vec(), contents.clone());
            long_name.replace(Some(LongName { name, contents }));
            Ok(read)
        };
        list_open(&self.inodes.open_dir(entry)?, cookie, |listed| {
            if matches!(listed.name, b"." | b"..") {
                return each(&listed, listed.name, None);
            }
            if self.is_hidden(listed.name) || skip(listed.name) {
                return Ok(true);
            }
            long_name.take();
            match self.format.plain_name(&dir.node, listed.name, long) {
                Ok(Some(plain)) => each(&listed, &plain, long_name.take()),
                // What does not decode is hidden.
                Ok(None) | Err(Error::Io | Error::NotFound) => Ok(true),
                Err(error) => Err(error),
            }
        })
    }

    /// Returns whether the engine, or a directory of the format, has this name for itself.
    pub(super) fn is_hidden(&self, lower: &[u8]) -> bool {
        let own = self.format.own_files();
        temporary::is(lower) || own.iter().any(|name| name.as_bytes() == lower)
    }

    /// The lower name of what enters a directory.
    ///
    /// # Errors
    /// Those of [`DirectoryFormat::new_name`]; `NotPermitted` for a name that the view would hide: it could not
    /// be listed, and would go with its directory.
    pub(super) fn new_name(
        &self,
        dir: &LowerInode<F::Node>,
        plain: &[u8],
        node: &F::Node,
    ) -> Result<LowerName> {
        let lower = self.format.new_name(&dir.node, plain, node)?;
        match self.is_hidden(&lower.name) {
            true => Err(Error::NotPermitted),
            false => Ok(lower),
        }
    }

    pub(super) fn read_dir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let dir = self.inodes.get(ino)?;
        self.each_name(
            &dir,
            cookie,
            |_| false,
            |listed, name, _| {
                let is_dot = matches!(listed.name, b"." | b"..");
                let attr = match attrs && !is_dot {
                    true => self.listed_attr(&dir, listed.name)?,
                    false => None,
                };
                let kind = match (&attr, listed.kind) {
                    (Some(attr), _) => attr.kind,
                    (None, Some(kind)) => kind,
                    (None, None) => match kind_of(&dir.entry, listed.name) {
                        Some(kind) => kind,
                        None => return Ok(true),
                    },
                };
                let ino = match listed.name {
                    b".." if dir.ino == ROOT => ROOT,
                    _ => self.number(listed.ino),
                };
                let more = emit(&DirEntry {
                    ino: attr.map_or(ino, |attr| attr.ino),
                    kind,
                    name,
                    cookie: listed.cookie,
                    attr,
                });
                if let (false, Some(attr)) = (more, attr) {
                    self.inodes.forget(attr.ino, 1);
                }
                Ok(more)
            },
        )
    }

    /// The attributes of a listed entry, with a lookup; nothing for what the lookup of its name will
    /// give an error.
    fn listed_attr(&self, dir: &LowerInode<F::Node>, lower: &[u8]) -> Result<Option<Attr>> {
        let entry = dir.entry.entry(lower);
        match entry.and_then(|entry| self.enter(dir, lower, entry)) {
            Ok(attr) => Ok(Some(attr)),
            Err(Error::NoMemory) => Err(Error::NoMemory),
            Err(_) => Ok(None),
        }
    }
}

/// The number that a view has for a number of its lower directory: the same, but for the root.
pub(super) fn number(root: u64, lower: u64) -> Ino {
    match lower {
        lower if lower == root => ROOT,
        ROOT => root,
        lower => lower,
    }
}

fn is_empty(dir: &Entry) -> Result<bool> {
    let mut is_empty = true;
    list(dir, 0, |listed| {
        is_empty &= matches!(listed.name, b"." | b"..");
        Ok(is_empty)
    })?;
    Ok(is_empty)
}

pub(super) fn kind_of(dir: &Entry, lower: &[u8]) -> Option<Kind> {
    let stat = dir.entry(lower).and_then(|entry| entry.stat()).ok()?;
    kind(FileType::from_raw_mode(u32::from(stat.stx_mode)))
}
