//! A dataset as a file system.

pub(crate) mod acl;
mod async_free;
mod dir;
mod flags;
pub(crate) mod names;
mod owners;
mod xattr;

pub use owners::Miscount;
use pool::ReserveFor;
use vfs::{Attr, Caller, DirEntry, FileSystem, Ino, Kind, NewNode, SetAttr, SetTime, StatFs, Time};
use zerocopy::IntoBytes;

use crate::core::io::write::without_suidgid;
use crate::core::log::SyncMode;
use crate::core::{Dataset, Settings, attr_of};
use crate::error::{Error, Result};
use crate::layout::{
    AttrValue, FLAG_ACCESS_ACL, KeyKind, NameEntry, attr_key, decode_names, entry_key, inline_key,
    suffix_number,
};
use crate::tree::{TreeView, TreeWriter};

/// A listing is read this many entries at a time.
const LIST_AT_ONCE: usize = 128;

/// Blocks of `statfs`.
const STATFS_BLOCK: u32 = 4096;

impl Dataset {
    fn lookup_name(&self, parent: Ino, name: &[u8]) -> Result<(Ino, AttrValue)> {
        let name_key = self.tree.name_key();
        self.read_tree(|r| {
            let dir = attr_of(r, parent)?;
            if name == b"." && dir.nlink.get() == 0 {
                // A file handle of a removed file.
                return Err(vfs::Error::Stale.into());
            }
            if name == b"." {
                return Ok((parent, dir));
            }
            if !dir.is_dir() {
                return Err(vfs::Error::NotDirectory.into());
            }
            let ino = match name {
                b".." => dir.parent.get(),
                _ if name.len() > names::NAME_MAX => return Err(vfs::Error::NameTooLong.into()),
                _ => {
                    names::find(r, name_key, parent, name)?
                        .ok_or(vfs::Error::NotFound)?
                        .ino
                }
            };
            Ok((ino, attr_of(r, ino)?))
        })
    }

    fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let now = self.now();
        if let Some(size) = set.size {
            self.attr(ino)?.check_changing()?;
            let set = *set;
            self.set_size(ino, size, &move |attr| {
                attr.touch(now);
                apply(attr, &set, now);
            })?;
            if set.mode.is_none() {
                return self.shown(ino);
            }
        }
        let attr = self.change(ReserveFor::Freeing, |w: &mut TreeWriter<'_>| {
            let mut attr = attr_of(w, ino)?;
            check_set(&attr, set)?;
            apply(&mut attr, set, now);
            if let Some(mode) = set.mode
                && attr.has(FLAG_ACCESS_ACL)
            {
                self.follow_mode(w, ino, mode)?;
            }
            w.put(attr_key(ino), attr.as_bytes().to_vec());
            Ok(attr)
        })?;
        Ok(self.shown_as(ino, attr))
    }

    fn list_dir(
        &self,
        ino: Ino,
        cookie: u64,
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let dir = self.attr(ino)?;
        if !dir.is_dir() {
            return Err(vfs::Error::NotDirectory.into());
        }
        let dots = [
            (names::COOKIE_DOT, &b"."[..], ino),
            (names::COOKIE_DOT_DOT, b"..", dir.parent.get()),
        ];
        for (at, name, ino) in dots.into_iter().filter(|(at, ..)| *at > cookie) {
            let entry = DirEntry {
                ino,
                kind: Kind::Directory,
                name,
                cookie: at,
                attr: None,
            };
            if !emit(&entry) {
                return Ok(());
            }
        }
        let (mut hash, mut skip) = names::after_cookie(cookie);
        loop {
            let some = self.some_names(ino, hash, skip)?;
            let Some((last_hash, last_place, _)) = some.last() else {
                return Ok(());
            };
            (hash, skip) = (*last_hash, last_place + 1);
            if !self.emit_names(&some, attrs, emit)? {
                return Ok(());
            }
        }
    }

    /// Names from a hash on, without the first `skip` names of that hash, with their places.
    fn some_names(&self, dir: Ino, hash: u64, skip: usize) -> Result<Vec<(u64, usize, NameEntry)>> {
        let (some, bad) = self.read_tree(|r| {
            let mut some = Vec::with_capacity(LIST_AT_ONCE);
            let mut bad = false;
            r.scan(&entry_key(dir, hash), &mut |key, value| {
                let Some(at) = suffix_number(key, dir, KeyKind::Entry) else {
                    return false;
                };
                let names = decode_names(value).filter(|names| names::can_be(at, names.len()));
                let Some(equals) = names else {
                    bad = true;
                    return false;
                };
                let first = if at == hash { skip } else { 0 };
                let entries = equals.into_iter().enumerate().skip(first);
                some.extend(entries.map(|(place, entry)| (at, place, entry)));
                some.len() < LIST_AT_ONCE
            })?;
            Ok((some, bad))
        })?;
        if bad {
            return Err(self.damaged("a directory"));
        }
        Ok(some)
    }

    fn emit_names(
        &self,
        some: &[(u64, usize, NameEntry)],
        attrs: bool,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<bool> {
        for (hash, place, entry) in some {
            let attr = match attrs {
                true => match self.shown(entry.ino) {
                    Ok(attr) => Some(attr),
                    // The file was removed between the two reads.
                    Err(Error::Fs(vfs::Error::Stale)) => continue,
                    Err(error) => return Err(error),
                },
                false => None,
            };
            let accepted = emit(&DirEntry {
                ino: entry.ino,
                kind: entry.kind,
                name: &entry.name,
                cookie: names::cookie(*hash, *place),
                attr,
            });
            if !accepted {
                return Ok(false);
            }
            if attrs {
                self.inodes.look_up(entry.ino);
            }
        }
        Ok(true)
    }

    fn stat_fs(&self) -> Result<StatFs> {
        let block = u64::from(STATFS_BLOCK);
        let referenced = self.pool.entry(self.open.id())?.referenced;
        let available = self.pool.available_to(self.open.id())?;
        let inodes = self.tree.header().inodes;
        // An inode takes a few hundred bytes of metadata.
        let files_free = available / 512;
        Ok(StatFs {
            block_size: STATFS_BLOCK,
            blocks: (referenced + available) / block,
            blocks_free: available / block,
            blocks_available: available / block,
            files: inodes + files_free,
            files_free,
            name_max: names::NAME_MAX as u32,
        })
    }
}

/// Refuses changes that the flags of an inode forbid. As in Linux, the times of an append-only file can be set to the
/// present.
fn check_set(attr: &AttrValue, set: &SetAttr) -> vfs::Result<()> {
    let times = [set.atime, set.mtime];
    let sets_time = times
        .iter()
        .any(|time| matches!(time, Some(SetTime::At(_))));
    if sets_time || set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
        return attr.check_changing();
    }
    attr.check_adding()
}

/// Applies the requested changes, except the size.
fn apply(attr: &mut AttrValue, set: &SetAttr, now: Time) {
    if let Some(mode) = set.mode {
        attr.mode = (mode & 0o7777).into();
    }
    let owner_changes = set.uid.is_some() || set.gid.is_some();
    let kill = set.kill_suidgid || owner_changes && set.mode.is_none();
    if kill && attr.kind() == Kind::File {
        attr.mode = without_suidgid(attr.mode.get()).into();
    }
    if let Some(uid) = set.uid {
        attr.uid = uid.into();
    }
    if let Some(gid) = set.gid {
        attr.gid = gid.into();
    }
    let time = |set| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    if let Some(atime) = set.atime {
        attr.atime = time(atime).into();
    }
    if let Some(mtime) = set.mtime {
        attr.mtime = time(mtime).into();
    }
    attr.ctime = set.ctime.unwrap_or(now).into();
}

/// The POSIX error for an error. Errors without a POSIX error are logged, and become I/O errors.
pub(crate) fn to_errno(error: Error) -> vfs::Error {
    match error {
        Error::Fs(error) => error,
        Error::Pool(pool::Error::NoSpace) => vfs::Error::NoSpace,
        Error::Pool(pool::Error::ReadOnly) => vfs::Error::ReadOnly,
        other if is_of_removed_state(&other) => {
            tracing::warn!(error = %other, "the state of a pool that is read is too old");
            vfs::Error::Stale
        }
        other => {
            tracing::error!(error = %other, "a file operation failed; a scrub shows what is damaged");
            vfs::Error::Io
        }
    }
}

/// Returns whether a device says that the writer of the pool has removed what this state needs.
fn is_of_removed_state(error: &Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let system = error.downcast_ref::<std::io::Error>();
        if system.is_some_and(|it| it.kind() == std::io::ErrorKind::StaleNetworkFileHandle) {
            return true;
        }
        next = error.source();
    }
    false
}

fn posix<T>(result: Result<T>) -> vfs::Result<T> {
    result.map_err(to_errno)
}

impl Dataset {
    /// Makes a change that concerns `ino`. First waits while there are too many dirty bytes. When it returns, the
    /// change is as durable as the property `sync` requires.
    fn changing<T>(&self, ino: Ino, change: impl FnOnce(&Settings) -> Result<T>) -> vfs::Result<T> {
        posix(self.check_writable())?;
        posix(self.throttle())?;
        // The settings may have changed during the wait.
        let settings = posix(self.check_writable())?;
        let value = posix(change(&settings))?;
        if settings.sync == SyncMode::Always {
            posix(self.sync_file(ino))?;
        }
        Ok(value)
    }
}

impl FileSystem for Dataset {
    vfs::methods! { self;
        getattr(ino) => posix(self.shown(ino));
        owner(ino) => posix(self.attr(ino).map(|attr| attr.to_attr(ino)));
        setattr(_caller, ino, set) => self.changing(ino, |_| self.set_attr(ino, set));
        flags(ino) => posix(self.attr(ino).map(|attr| attr.file_flags()));
        set_flags(ino, flags) => self.changing(ino, |_| self.set_file_flags(ino, flags));
        readlink(ino) =>
            posix(self.read_tree(|r| {
                if attr_of(r, ino)?.kind() != Kind::Symlink {
                    return Err(vfs::Error::Invalid.into());
                }
                Ok(r.get(&inline_key(ino))?.ok_or(vfs::Error::Io)?.to_vec())
            }));
        tmpfile(caller, parent, node) => self.changing(parent, |_| self.make_tmpfile(caller, parent, node));
        symlink(caller, parent, name, target) =>
            self.changing(parent, |_| self.make_symlink(caller, parent, name, target));
        link(ino, parent, name) => self.changing(ino, |_| self.make_link(ino, parent, name));
        unlink(parent, name) => self.changing(parent, |_| self.remove_name(parent, name, false));
        rmdir(parent, name) => self.changing(parent, |_| self.remove_name(parent, name, true));
        rename(parent, name, new_parent, new_name, mode) =>
            self.changing(parent, |_| self.rename_name(parent, name, new_parent, new_name, mode));
        read(ino, offset, len) => posix(self.read_file(ino, offset, u64::from(len)));
        write(ino, offset, data, kill_suidgid) =>
            self.changing(ino, |settings| self.write_file(settings, ino, offset, data, kill_suidgid));
        fsync(ino, _datasync) => posix(self.sync_file(ino));
        sync() => posix(self.sync_all());
        fallocate(ino, offset, len, mode) => self.changing(ino, |_| self.fallocate_file(ino, offset, len, mode));
        seek(ino, offset, what) => posix(self.seek_file(ino, offset, what));
        copy_range(from, from_offset, to, to_offset, len) =>
            self.changing(to, |settings| self.copy_file_range(settings, from, from_offset, to, to_offset, len));
        readdir(ino, cookie, attrs, emit) => posix(self.list_dir(ino, cookie, attrs, emit));
        statfs() => posix(self.stat_fs());
        setxattr(ino, name, value, how) => self.changing(ino, |_| self.set_xattr(ino, name, value, how));
        getxattr(ino, name) => posix(self.get_xattr(ino, name));
        listxattr(ino) => posix(self.list_xattr(ino));
        removexattr(ino, name) => self.changing(ino, |_| self.remove_xattr(ino, name));
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> vfs::Result<Attr> {
        let (ino, attr) = posix(self.lookup_name(parent, name))?;
        self.inodes.look_up(ino);
        Ok(self.shown_as(ino, attr))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.forget_inode(ino, count);
    }

    fn forget_all(&self) {
        self.forget_inodes();
    }

    fn known(&self) -> Vec<Ino> {
        self.inodes.known()
    }

    /// After a rollback inode numbers are used again. The time of birth distinguishes the inodes.
    fn generation(&self, found: &Attr) -> u64 {
        let nanos = (found.btime.secs as u64).wrapping_mul(1_000_000_000);
        nanos.wrapping_add(u64::from(found.btime.nanos))
    }

    fn mknod(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        node: &NewNode,
    ) -> vfs::Result<Attr> {
        if matches!(node.kind, Kind::Directory | Kind::Symlink) {
            return Err(vfs::Error::Invalid);
        }
        self.changing(parent, |_| self.make_node(caller, parent, name, node))
    }

    fn mkdir(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        node: &NewNode,
    ) -> vfs::Result<Attr> {
        let node = NewNode {
            kind: Kind::Directory,
            ..*node
        };
        self.changing(parent, |_| self.make_node(caller, parent, name, &node))
    }
}
