//! Making files, directories, links and special files.
//!
//! Nothing gets its name before it is whole: a file is made without a name (`O_TMPFILE`) and then
//! linked; a directory, and a file where the lower file system has no such files, is made under a
//! temporary name and renamed. So no client ever sees one without its context.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, XattrFlags};
use vfs::{Attr, Caller, Error, Ino, Kind, NewNode, Result};

use super::stacked_directory::StackedDirectory;
use super::state::claim::NameLock;
use super::state::format_file;
use super::state::inode::LowerInode;
use super::state::temporary;
use crate::formats::{self, DirectoryFormat, LowerName, Sought};
use crate::lower::{Entry, posix, rename_free};

const SGID: u16 = 0o2000;

/// Permissions of what is not complete.
const PRIVATE: Mode = Mode::RWXU;

/// The owner, group and mode of a new entry.
struct NodeOwnership {
    uid: u32,
    gid: u32,
    mode: u16,
    /// The lower file system computes the mode, from the default ACL of the directory.
    by_acl: bool,
}

impl<F: DirectoryFormat> StackedDirectory<F> {
    /// Makes a file, directory or special file.
    pub(super) fn make(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        new: &NewNode,
    ) -> Result<Attr> {
        let dir = self.inodes.get(parent)?;
        let rights = rights(&dir, caller, new)?;
        let _names = dir.io.write();
        self.format.learn(&dir.node, &dir.entry)?;
        let made = self.format.new_node(&dir.node, new.kind)?;
        let lower = self.new_name(&dir, name, &made.node)?;
        let _claim = self.claim_free(&dir, name)?;
        self.with_name(&dir, (name, &lower), || match new.kind {
            Kind::File => {
                let new = make_file(&dir.entry, &rights, &made, self.options.to_write())?;
                new.give_name(&dir.entry, &lower.name)?;
                self.enter_new(Kind::File, new.entry, made.node, Some(new.file))
            }
            Kind::Directory => {
                let entry = self.make_directory(&dir.entry, &rights, &made, &lower.name)?;
                self.enter_new(new.kind, entry, made.node, None)
            }
            Kind::Symlink => Err(Error::Invalid),
            _ => {
                make_special(&dir.entry, &rights, new, &lower.name)?;
                self.enter(&dir, &lower.name, dir.entry.entry(&lower.name)?)
            }
        })
    }

    /// Makes a file without a name.
    pub(super) fn make_tmpfile(&self, caller: &Caller, parent: Ino, new: &NewNode) -> Result<Attr> {
        let dir = self.inodes.get(parent)?;
        let rights = rights(&dir, caller, new)?;
        self.format.learn(&dir.node, &dir.entry)?;
        let made = self.format.new_node(&dir.node, Kind::File)?;
        let new = make_file(&dir.entry, &rights, &made, self.options.to_write())?;
        if let Some(temporary) = new.temporary {
            rustix::fs::unlinkat(&dir.entry, temporary, AtFlags::empty()).map_err(posix)?;
        }
        self.enter_new(Kind::File, new.entry, made.node, Some(new.file))
    }

    /// Makes a symbolic link.
    pub(super) fn make_symlink(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr> {
        let dir = self.inodes.get(parent)?;
        let rights = rights(&dir, caller, &NewNode::new(Kind::Symlink, 0o777))?;
        let _names = dir.io.write();
        self.format.learn(&dir.node, &dir.entry)?;
        let made = self.format.new_node(&dir.node, Kind::Symlink)?;
        let lower = self.new_name(&dir, name, &made.node)?;
        let stored = self.format.seal_target(&made.node, target)?;
        let _claim = self.claim_free(&dir, name)?;
        self.with_name(&dir, (name, &lower), || {
            rustix::fs::symlinkat(&stored[..], &dir.entry, &lower.name[..]).map_err(posix)?;
            let entry = dir.entry.entry(&lower.name)?;
            rights.give(&entry)?;
            self.enter(&dir, &lower.name, entry)
        })
    }

    /// Makes a hard link.
    pub(super) fn make_link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let (dir, inode) = (self.inodes.get(parent)?, self.inodes.get(ino)?);
        if inode.kind == Kind::Directory {
            return Err(Error::NotPermitted);
        }
        let _names = dir.io.write();
        self.format.learn(&dir.node, &dir.entry)?;
        let lower = self.new_name(&dir, name, &inode.node)?;
        let _claim = self.claim_free(&dir, name)?;
        self.with_name(&dir, (name, &lower), || {
            link(&inode.entry.proc_path(), dir.directory()?, &lower.name)?;
            self.inodes.look_up(ino).ok_or(Error::Stale)?;
            self.attr(&inode)
                .inspect_err(|_| self.inodes.forget(ino, 1))
        })
    }

    /// Locks a name that is free, where the lower directory cannot tell by itself: the same name of the view
    /// may have another one there. No other client makes one until the claim is dropped.
    fn claim_free<'a>(
        &self,
        dir: &'a LowerInode<F::Node>,
        name: &[u8],
    ) -> Result<Option<NameLock<'a>>> {
        if !self.is_listed(dir, name)? {
            return Ok(None);
        }
        let claim = self.claim(dir)?;
        match self.find(dir, name) {
            Ok(_) => Err(Error::Exists),
            Err(Error::NotFound) => Ok(claim),
            Err(error) => Err(error),
        }
    }

    /// Returns whether only a listing tells if a name is taken.
    pub(super) fn is_listed(&self, dir: &LowerInode<F::Node>, name: &[u8]) -> Result<bool> {
        Ok(self.format.lower_name(&dir.node, name)? == Sought::Listed)
    }

    /// Keeps other clients from giving names, if there are any.
    pub(super) fn claim<'a>(&self, dir: &'a LowerInode<F::Node>) -> Result<Option<NameLock<'a>>> {
        match self.options.shared {
            true => NameLock::take(dir.directory()?).map(Some),
            false => Ok(None),
        }
    }

    /// Calls what makes a name in a directory. Writes the file with a long name before, if the name is one. If
    /// making it fails the file goes, unless an entry has it.
    pub(super) fn with_name<T>(
        &self,
        dir: &LowerInode<F::Node>,
        (plain, lower): (&[u8], &LowerName),
        then: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(long) = &lower.long {
            let file = format_file::write(dir.directory()?, &long.name, &long.contents)?;
            self.unsynced.add(file);
        }
        let made = dir.names.make((plain, &lower.name), then);
        made.inspect_err(|_| self.drop_long_name(dir, lower))
    }

    /// Removes the file with a long name whose entry is gone. A file that stays is hidden.
    pub(super) fn drop_long_name(&self, dir: &LowerInode<F::Node>, lower: &LowerName) {
        if let Some(long) = &lower.long
            && dir.entry.entry(&lower.name).err() == Some(Error::NotFound)
        {
            let _ = rustix::fs::unlinkat(&dir.entry, &long.name[..], AtFlags::empty());
        }
    }

    fn make_directory(
        &self,
        dir: &Entry,
        rights: &NodeOwnership,
        made: &formats::NodePlan<F::Node>,
        name: &[u8],
    ) -> Result<Entry> {
        let temporary = temporary::name();
        rustix::fs::mkdirat(dir, &temporary[..], rights.first_mode()).map_err(posix)?;
        let named = dir.entry(&temporary).and_then(|entry| {
            set_xattrs(&entry, made)?;
            for (file, contents) in &made.files {
                self.unsynced
                    .add(format_file::write(&entry, file.as_bytes(), contents)?);
            }
            rights.give(&entry)?;
            rename_free(dir, &temporary, name, || NameLock::take(dir))?;
            Ok(entry)
        });
        if named.is_err() {
            for (file, _) in &made.files {
                if let Ok(entry) = dir.entry(&temporary) {
                    let _ = rustix::fs::unlinkat(&entry, *file, AtFlags::empty());
                }
            }
            let _ = rustix::fs::unlinkat(dir, &temporary[..], AtFlags::REMOVEDIR);
        }
        named
    }

    /// Enters what was just made. One lookup.
    fn enter_new(
        &self,
        kind: Kind,
        entry: Entry,
        node: F::Node,
        file: Option<OwnedFd>,
    ) -> Result<Attr> {
        let stat = entry.stat()?;
        let ino = self.number(stat.stx_ino);
        let inode = self.inodes.enter(LowerInode::new(ino, kind, entry, node));
        if let Some(file) = file {
            self.inodes.keep(&inode, file, true);
        }
        self.attr_of(&inode, &stat)
            .inspect_err(|_| self.inodes.forget(ino, 1))
    }
}

impl NodeOwnership {
    /// Gives what was made to its owner, with its mode.
    fn give(&self, entry: &Entry) -> Result<()> {
        if !entry.has_owner() {
            return Ok(());
        }
        let stat = entry.stat()?;
        let is_other = |uid: u32, gid: u32| stat.stx_uid != uid || stat.stx_gid != gid;
        if is_other(self.uid, self.gid) && rustix::process::geteuid().is_root() {
            entry.chown(Some(self.uid), Some(self.gid))?;
        }
        let is_link = FileType::from_raw_mode(u32::from(stat.stx_mode)).is_symlink();
        match is_link || self.by_acl {
            true => Ok(()),
            false => entry.chmod(self.mode),
        }
    }

    /// Gives the rights like [`NodeOwnership::give`], to a file without a name that was made with its mode.
    fn give_unnamed(&self, entry: &Entry) -> Result<()> {
        let stat = entry.stat()?;
        let is_right = stat.stx_uid == self.uid
            && stat.stx_gid == self.gid
            && (self.by_acl || stat.stx_mode & 0o7777 == self.mode);
        match is_right {
            true => Ok(()),
            false => self.give(entry),
        }
    }

    /// The mode to make it with.
    fn first_mode(&self) -> Mode {
        match self.by_acl {
            true => Mode::from_raw_mode(u32::from(self.mode)),
            false => PRIVATE,
        }
    }
}

fn rights<N>(dir: &Arc<LowerInode<N>>, caller: &Caller, new: &NewNode) -> Result<NodeOwnership> {
    let parent = dir.directory()?.stat()?;
    let inherits = parent.stx_mode & SGID != 0;
    let by_acl = has_default_acl(&dir.entry)?;
    let umask = match by_acl {
        true => 0,
        false => new.umask,
    };
    let keeps_sgid = match inherits && new.kind == Kind::Directory {
        true => SGID,
        false => 0,
    };
    Ok(NodeOwnership {
        uid: caller.uid,
        gid: match inherits {
            true => parent.stx_gid,
            false => caller.gid,
        },
        mode: new.mode & !umask | keeps_sgid,
        by_acl,
    })
}

fn has_default_acl(dir: &Entry) -> Result<bool> {
    match dir.xattr("system.posix_acl_default") {
        Ok(acl) => Ok(acl.is_some()),
        Err(Error::NotSupported) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file that was made, and is not in the view yet.
struct NewFile {
    file: OwnedFd,
    entry: Entry,
    /// The name that it has meanwhile, where the lower file system has no files without one.
    temporary: Option<Vec<u8>>,
}

impl NewFile {
    /// Gives a complete file its name.
    fn give_name(&self, dir: &Entry, name: &[u8]) -> Result<()> {
        let linked = link(&self.entry.proc_path(), dir, name);
        match &self.temporary {
            None => linked,
            // A link fails where the name is taken, as a rename does not everywhere. But vfat has no links.
            Some(temporary) => {
                if let Err(Error::NotPermitted | Error::NotSupported) = linked {
                    let renamed = rename_free(dir, temporary, name, || NameLock::take(dir));
                    return renamed.inspect_err(|_| {
                        let _ = rustix::fs::unlinkat(dir, &temporary[..], AtFlags::empty());
                    });
                }
                let gone = rustix::fs::unlinkat(dir, &temporary[..], AtFlags::empty());
                linked.and(gone.map_err(posix))
            }
        }
    }
}

/// Makes a file without a name; or, where there are no such files, with a temporary one.
fn make_file<N>(
    dir: &Entry,
    rights: &NodeOwnership,
    made: &formats::NodePlan<N>,
    access: OFlags,
) -> Result<NewFile> {
    // Nobody else can open what has no name. Its owner needs permissions to set attributes.
    let may_set = rights.mode & 0o600 == 0o600;
    let unnamed_mode = match made.xattrs.is_empty() || may_set {
        true => Mode::from_raw_mode(u32::from(rights.mode)),
        false => rights.first_mode(),
    };
    let (file, temporary) = match dir.open(b".", OFlags::TMPFILE | access, unnamed_mode) {
        Ok(file) => (file, None),
        Err(Error::NotSupported | Error::IsDirectory | Error::NotFound | Error::Invalid) => {
            let name = temporary::name();
            let flags = OFlags::CREATE | OFlags::EXCL | access;
            (dir.open(&name, flags, rights.first_mode())?, Some(name))
        }
        Err(error) => return Err(error),
    };
    let prepared = Entry::of(&file).and_then(|entry| {
        set_xattrs(&entry, made)?;
        match temporary {
            None => rights.give_unnamed(&entry)?,
            Some(_) => rights.give(&entry)?,
        }
        Ok(entry)
    });
    if let (Err(_), Some(name)) = (&prepared, &temporary) {
        let _ = rustix::fs::unlinkat(dir, &name[..], AtFlags::empty());
    }
    prepared.map(|entry| NewFile {
        file,
        entry,
        temporary,
    })
}

/// Links what is at a path of `/proc/self/fd`.
fn link(path: &str, dir: &Entry, name: &[u8]) -> Result<()> {
    rustix::fs::linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW).map_err(posix)
}

fn make_special(dir: &Entry, rights: &NodeOwnership, new: &NewNode, name: &[u8]) -> Result<()> {
    let kind = match new.kind {
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharacterDevice,
        _ => FileType::BlockDevice,
    };
    let (major, minor) = (
        (new.rdev & 0xfff00) >> 8,
        new.rdev & 0xff | (new.rdev >> 12) & 0xfff00,
    );
    let device = rustix::fs::makedev(major, minor);
    rustix::fs::mknodat(dir, name, kind, rights.first_mode(), device).map_err(posix)?;
    dir.entry(name).and_then(|entry| rights.give(&entry))
}

fn set_xattrs<N>(entry: &Entry, made: &formats::NodePlan<N>) -> Result<()> {
    for (name, value) in &made.xattrs {
        entry.set_xattr(name, value, XattrFlags::CREATE)?;
    }
    Ok(())
}
