//! Removing and renaming.

use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;
use vfs::{Caller, Error, Ino, RenameMode, Result};

use super::stacked_directory::{NameMatch, StackedDirectory};
use super::state::inode::LowerInode;
use super::state::temporary;
use crate::formats::{DirectoryFormat, LowerName};
use crate::lower::{Entry, list, posix};

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// Removes a name that is not one of a directory.
    pub(super) fn remove(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let dir = self.inodes.get(parent)?;
        let _names = dir.io.write();
        let lower = self.lower_name(&dir, name)?;
        rustix::fs::unlinkat(dir.directory()?, &lower.name[..], AtFlags::empty()).map_err(posix)?;
        dir.names.remove(name);
        self.drop_long_name(&dir, &lower);
        Ok(())
    }

    /// Removes a directory in which the view shows nothing.
    pub(super) fn remove_dir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let dir = self.inodes.get(parent)?;
        let _names = dir.io.write();
        let found = self.find(&dir, name)?;
        self.remove_found_dir(&dir, &found)?;
        dir.names.remove(name);
        Ok(())
    }

    fn remove_found_dir(&self, dir: &LowerInode<F::Node>, found: &NameMatch) -> Result<()> {
        let remove = || {
            let name = &found.lower.name[..];
            rustix::fs::unlinkat(&dir.entry, name, AtFlags::REMOVEDIR).map_err(posix)
        };
        match remove() {
            Err(Error::NotEmpty | Error::Exists) => {
                let aside = self.clear_own(dir, &found.entry)?;
                if let Err(error) = remove() {
                    aside.iter().for_each(|moved| moved.back(dir, &found.entry));
                    return Err(error);
                }
                aside.iter().for_each(|moved| moved.delete(dir));
            }
            result => result?,
        }
        self.drop_long_name(dir, &found.lower);
        Ok(())
    }

    /// Empties a directory in which there are only files of the format and the engine. Those of the
    /// format are moved aside: should the directory stay, it needs them.
    fn clear_own(&self, dir: &LowerInode<F::Node>, emptied: &Entry) -> Result<Vec<Aside>> {
        let mut names = Vec::new();
        list(emptied, 0, |listed| {
            match listed.name {
                b"." | b".." => {}
                name if self.is_hidden(name) => names.push(name.to_vec()),
                _ => return Err(Error::NotEmpty),
            }
            Ok(true)
        })?;
        let mut aside: Vec<Aside> = Vec::new();
        for name in names {
            let moved = Aside {
                name,
                temporary: temporary::name(),
            };
            if let Err(error) = moved.aside(dir, emptied) {
                aside.iter().for_each(|moved| moved.back(dir, emptied));
                return Err(error);
            }
            aside.push(moved);
        }
        Ok(aside)
    }

    /// Renames or exchanges two names.
    pub(super) fn move_name(
        &self,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let (from_dir, to_dir) = (self.inodes.get(parent)?, self.inodes.get(new_parent)?);
        let _names = lock_both(&from_dir, &to_dir);
        let _claim = match self.is_listed(&to_dir, new_name)? {
            true => self.claim(&to_dir)?,
            false => None,
        };
        let from = self.find(&from_dir, name)?;
        let target = match self.find(&to_dir, new_name) {
            Ok(found) => Some(found),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        // Where a name in the lower directory belongs to one inode, a whiteout cannot have that of another one.
        if matches!(mode, RenameMode::Whiteout(_)) && self.is_listed(&from_dir, name)? {
            return Err(Error::Invalid);
        }
        let to = self.name_in(&from_dir, &from, &to_dir, new_name)?;
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => Err(Error::Exists),
            (RenameMode::Exchange, None) => Err(Error::NotFound),
            (RenameMode::Exchange, Some(target)) => {
                let back = self.name_in(&to_dir, &target, &from_dir, name)?;
                // Where a name in the lower directory belongs to one inode, there is no exchange.
                if back != from.lower || to != target.lower {
                    return Err(Error::NotSupported);
                }
                rename(&from_dir, &from.lower, &to_dir, &to, RenameFlags::EXCHANGE)
            }
            (_, target) => {
                let to = (new_name, &to);
                self.replace((&from_dir, name, from), (&to_dir, to), target, mode)
            }
        }
    }

    /// The lower name of what was found in one directory, if it enters another one.
    fn name_in(
        &self,
        dir: &LowerInode<F::Node>,
        found: &NameMatch,
        new_dir: &LowerInode<F::Node>,
        new_name: &[u8],
    ) -> Result<LowerName> {
        let stat = found.entry.stat()?;
        if let Ok(inode) = self.inodes.get(self.number(stat.stx_ino)) {
            return self.new_name(new_dir, new_name, &inode.node);
        }
        let kind = crate::lower::kind(FileType::from_raw_mode(u32::from(stat.stx_mode)));
        let kind = kind.ok_or(Error::Io)?;
        let node = self
            .format
            .node(&dir.node, &found.lower.name, kind, &found.entry)?;
        self.new_name(new_dir, new_name, &node)
    }

    fn replace(
        &self,
        (from_dir, name, from): (&LowerInode<F::Node>, &[u8], NameMatch),
        (to_dir, (new_name, to)): (&LowerInode<F::Node>, (&[u8], &LowerName)),
        target: Option<NameMatch>,
        mode: RenameMode,
    ) -> Result<()> {
        let from_stat = from.entry.stat()?;
        // A target with another lower name goes by itself: a directory before, since it may not be
        // empty; a file after, so that the name is never without one.
        let mut leftover = None;
        if let Some(target) = target {
            let target_stat = target.entry.stat()?;
            if target_stat.stx_ino == from_stat.stx_ino {
                // Nothing happens to two names of one file; unless another client has moved it just now.
                let flags = RenameFlags::empty();
                return rename(from_dir, &from.lower, to_dir, &target.lower, flags);
            }
            let is_dir = |mode: u16| FileType::from_raw_mode(u32::from(mode)).is_dir();
            match (is_dir(from_stat.stx_mode), is_dir(target_stat.stx_mode)) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if target.lower != *to || !self.format.own_files().is_empty() => {
                    self.remove_found_dir(to_dir, &target)?;
                }
                (false, false) if target.lower != *to => leftover = Some(target),
                _ => {}
            }
        }
        let flags = match mode {
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Whiteout(_) => RenameFlags::WHITEOUT,
            _ => RenameFlags::empty(),
        };
        self.with_name(to_dir, (new_name, to), || {
            rename(from_dir, &from.lower, to_dir, to, flags)
        })?;
        from_dir.names.remove(name);
        if let RenameMode::Whiteout(owner) = mode {
            give_whiteout(from_dir, &from.lower, &owner);
        }
        self.drop_long_name(from_dir, &from.lower);
        if let Some(target) = leftover {
            let name = &target.lower.name[..];
            rustix::fs::unlinkat(&to_dir.entry, name, AtFlags::empty()).map_err(posix)?;
            self.drop_long_name(to_dir, &target.lower);
        }
        Ok(())
    }
}

/// A file of the format that is moved out of a directory before the directory is removed.
struct Aside {
    name: Vec<u8>,
    /// The temporary name in the parent.
    temporary: Vec<u8>,
}

impl Aside {
    fn aside<N>(&self, parent: &LowerInode<N>, dir: &Entry) -> Result<()> {
        let (from, to) = (&self.name[..], &self.temporary[..]);
        rustix::fs::renameat(dir, from, &parent.entry, to).map_err(posix)
    }

    fn back<N>(&self, parent: &LowerInode<N>, dir: &Entry) {
        let (from, to) = (&self.temporary[..], &self.name[..]);
        if let Err(Errno::NOENT | Errno::STALE) = rustix::fs::renameat(&parent.entry, from, dir, to)
        {
            // Another client has removed the directory.
            self.delete(parent);
        }
    }

    fn delete<N>(&self, parent: &LowerInode<N>) {
        let name = &self.temporary[..];
        let _ = rustix::fs::unlinkat(&parent.entry, name, AtFlags::empty())
            .or_else(|_| rustix::fs::unlinkat(&parent.entry, name, AtFlags::REMOVEDIR));
    }
}

fn rename<N>(
    from_dir: &LowerInode<N>,
    from: &LowerName,
    to_dir: &LowerInode<N>,
    to: &LowerName,
    flags: RenameFlags,
) -> Result<()> {
    let (from_dir, to_dir) = (from_dir.directory()?, to_dir.directory()?);
    let (from, to) = (&from.name[..], &to.name[..]);
    rustix::fs::renameat_with(from_dir, from, to_dir, to, flags).map_err(posix)
}

/// Gives a whiteout to its owner: quotas of the lower file system count it. One that is left to this process hides
/// the name as well.
fn give_whiteout<N>(dir: &LowerInode<N>, name: &LowerName, owner: &Caller) {
    // Another client may have given the name to something else.
    let is_whiteout = |entry: &Entry| {
        entry.stat().is_ok_and(|stat| {
            let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
            kind == FileType::CharacterDevice && stat.stx_rdev_major | stat.stx_rdev_minor == 0
        })
    };
    if rustix::process::geteuid().is_root()
        && let Ok(entry) = dir.entry.entry(&name.name)
        && is_whiteout(&entry)
    {
        let _ = entry.chown(Some(owner.uid), Some(owner.gid));
    }
}

/// Locks the names of two directories, which may be one.
fn lock_both<'a, N>(
    a: &'a Arc<LowerInode<N>>,
    b: &'a Arc<LowerInode<N>>,
) -> (RwLockWriteGuard<'a, ()>, Option<RwLockWriteGuard<'a, ()>>) {
    match a.ino.cmp(&b.ino) {
        std::cmp::Ordering::Equal => (a.io.write(), None),
        std::cmp::Ordering::Less => {
            let first = a.io.write();
            (first, Some(b.io.write()))
        }
        std::cmp::Ordering::Greater => {
            let first = b.io.write();
            (first, Some(a.io.write()))
        }
    }
}
