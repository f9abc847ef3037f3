//! Makes, links, renames and removes names.

use std::collections::BTreeMap;

use pool::{ReserveFor, TxgHold};
use vfs::{Attr, Caller, Ino, Kind, NewNode, ROOT, RenameMode, Time};
use zerocopy::IntoBytes;

use super::acl::{self, Acl};
use super::async_free::destroy_inode;
use super::names;
use crate::core::log::Scope;
use crate::core::{Dataset, attr_of};
use crate::error::Result;
use crate::layout::{
    AttrValue, FLAG_ACCESS_ACL, FLAG_DEFAULT_ACL, FLAG_XATTR, INO_LIMIT, NameEntry, XattrValue,
    attr_key, inline_key, orphan_key, xattr_key,
};
use crate::tree::{TreeStep, TreeView, TreeWriter};

/// The longest target of a symbolic link, as in Linux.
const TARGET_MAX: usize = 4095;
/// The largest number of links of a file.
const LINKS_MAX: u32 = i32::MAX as u32;
/// The deepest path. A longer chain of parents is a circle.
const DEPTH_MAX: usize = 1 << 20;

const SETGID: u16 = 0o2000;

/// The attributes that an operation changes, each read once and written once.
struct Attrs<'w, 'a> {
    w: &'w mut TreeWriter<'a>,
    changed: BTreeMap<Ino, AttrValue>,
    now: Time,
}

impl<'w, 'a> Attrs<'w, 'a> {
    fn new(w: &'w mut TreeWriter<'a>, now: Time) -> Attrs<'w, 'a> {
        Attrs {
            w,
            changed: BTreeMap::new(),
            now,
        }
    }

    fn get(&mut self, ino: Ino) -> TreeStep<&mut AttrValue> {
        if !self.changed.contains_key(&ino) {
            self.changed.insert(ino, attr_of(self.w, ino)?);
        }
        Ok(self.changed.get_mut(&ino).expect("just inserted"))
    }

    /// A directory that still has its name.
    fn dir(&mut self, ino: Ino) -> TreeStep<&mut AttrValue> {
        let attr = self.get(ino)?;
        if !attr.is_dir() {
            return Err(vfs::Error::NotDirectory.into());
        }
        if attr.nlink.get() == 0 {
            return Err(vfs::Error::NotFound.into());
        }
        Ok(attr)
    }

    /// Counts names and directories that a directory gets or loses.
    fn count(&mut self, dir: Ino, names: i64, dirs: i32) -> TreeStep<()> {
        let now = self.now;
        let attr = self.get(dir)?;
        attr.entries = attr.entries.get().saturating_add_signed(names).into();
        attr.nlink = attr.nlink.get().saturating_add_signed(dirs).into();
        attr.touch(now);
        Ok(())
    }

    /// Removes a link of an inode, or the name of a directory. Without links the inode is removed. While it is in use,
    /// it waits on the list of orphans.
    fn unlink(&mut self, ino: Ino, is_looked_up: bool) -> TreeStep<()> {
        let now = self.now;
        let attr = self.get(ino)?;
        let left = if attr.is_dir() {
            0
        } else {
            attr.nlink.get().saturating_sub(1)
        };
        attr.nlink = left.into();
        attr.ctime = now.into();
        if left > 0 {
            return Ok(());
        }
        if is_looked_up {
            self.w.put(orphan_key(ino), Vec::new());
        } else {
            self.changed.remove(&ino);
            destroy_inode(self.w, ino)?;
        }
        Ok(())
    }

    fn store(self) {
        for (ino, attr) in self.changed {
            self.w.put(attr_key(ino), attr.as_bytes().to_vec());
        }
    }
}

/// The initial contents of a new inode, besides its attributes.
enum NewContents<'a> {
    Nothing,
    Target(&'a [u8]),
}

impl Dataset {
    /// Makes the root directory of an empty dataset.
    pub(crate) fn make_root(&self, owner: &Caller) -> Result<()> {
        let now = self.now();
        let record_size = self.settings().record_size;
        let make = |w: &mut TreeWriter<'_>| {
            let mut attr = AttrValue::new(Kind::Directory, 0o755, record_size, now);
            attr.nlink = 2.into();
            attr.uid = owner.uid.into();
            attr.gid = owner.gid.into();
            attr.parent = ROOT.into();
            w.header.next_ino = ROOT + 1;
            w.header.inodes = 1;
            w.put(attr_key(ROOT), attr.as_bytes().to_vec());
            Ok(())
        };
        if self.open.is_writable() {
            return self.change_always(Scope::Unlogged, ReserveFor::Writing, make, |_, ()| ());
        }
        // A snapshot of a dataset that was never opened. Its empty root directory is only in memory.
        self.tree
            .try_write(0, true, &mut { make }, &|_, _| {})
            .map(|_| ())
    }

    /// Makes a node with a name, and looks it up.
    pub(crate) fn make_node(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attr> {
        self.make(caller, parent, Some(name), node, NewContents::Nothing)
    }

    /// Makes a file without a name, and looks it up.
    pub(crate) fn make_tmpfile(
        &self,
        caller: &Caller,
        parent: Ino,
        node: &NewNode,
    ) -> Result<Attr> {
        self.make(caller, parent, None, node, NewContents::Nothing)
    }

    /// Makes a symbolic link, and looks it up.
    pub(crate) fn make_symlink(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr> {
        if target.is_empty() {
            return Err(vfs::Error::NotFound.into());
        }
        if target.len() > TARGET_MAX {
            return Err(vfs::Error::NameTooLong.into());
        }
        let node = NewNode::new(Kind::Symlink, 0o777);
        self.make(
            caller,
            parent,
            Some(name),
            &node,
            NewContents::Target(target),
        )
    }

    fn make(
        &self,
        caller: &Caller,
        parent: Ino,
        name: Option<&[u8]>,
        node: &NewNode,
        contents: NewContents<'_>,
    ) -> Result<Attr> {
        let now = self.now();
        let record_size = self.settings().record_size;
        let operation = |w: &mut TreeWriter<'_>| {
            let mut attrs = Attrs::new(w, now);
            let dir = *attrs.dir(parent)?;
            dir.check_adding()?;
            let is_dir = node.kind == Kind::Directory;
            if let Some(name) = name {
                names::check(name)?;
                if names::find_in(attrs.w, parent, name)?.is_some() {
                    return Err(vfs::Error::Exists.into());
                }
                attrs.count(parent, 1, i32::from(is_dir))?;
            }
            attrs.store();
            let ino = new_ino(w)?;
            let mut attr = AttrValue::new(node.kind, 0, record_size, now);
            set_owner(&mut attr, &dir, caller);
            set_mode(w, &mut attr, parent, &dir, ino, node)?;
            attr.rdev = node.rdev.into();
            attr.parent = parent.into();
            attr.nlink = match name {
                None => 0,
                Some(_) if is_dir => 2,
                Some(_) => 1,
            }
            .into();
            if let NewContents::Target(target) = contents {
                attr.size = (target.len() as u64).into();
                w.put(inline_key(ino), target.to_vec());
            }
            w.put(attr_key(ino), attr.as_bytes().to_vec());
            match name {
                Some(name) => names::put(w, parent, name, ino, node.kind)?,
                None => w.put(orphan_key(ino), Vec::new()),
            }
            Ok(attr.to_attr(ino))
        };
        let attr = self.change_and(ReserveFor::Writing, operation, |_, attr| {
            self.inodes.look_up(attr.ino);
            attr
        })?;
        Ok(attr)
    }

    /// Gives an inode another name, and looks it up.
    pub(crate) fn make_link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let now = self.now();
        let operation = |w: &mut TreeWriter<'_>| {
            names::check(name)?;
            let mut attrs = Attrs::new(w, now);
            let dir = *attrs.dir(parent)?;
            if names::find_in(attrs.w, parent, name)?.is_some() {
                return Err(vfs::Error::Exists.into());
            }
            dir.check_adding()?;
            let attr = attrs.get(ino)?;
            if attr.is_dir() {
                return Err(vfs::Error::NotPermitted.into());
            }
            attr.check_changing()?;
            if attr.nlink.get() >= LINKS_MAX {
                return Err(vfs::Error::TooManyLinks.into());
            }
            let was_orphan = attr.nlink.get() == 0;
            attr.nlink += 1;
            attr.ctime = now.into();
            attr.parent = parent.into();
            let attr = *attr;
            if was_orphan {
                if attrs.w.get(&orphan_key(ino))?.is_none() {
                    return Err(vfs::Error::NotFound.into());
                }
                attrs.w.delete(orphan_key(ino));
            }
            attrs.count(parent, 1, 0)?;
            attrs.store();
            names::put(w, parent, name, ino, attr.kind())?;
            Ok(attr)
        };
        self.change_and(ReserveFor::Writing, operation, |_, attr| {
            self.inodes.look_up(ino);
            attr
        })
        .map(|attr| self.shown_as(ino, attr))
    }

    pub(crate) fn remove_name(&self, parent: Ino, name: &[u8], want_dir: bool) -> Result<()> {
        let now = self.now();
        let operation = |w: &mut TreeWriter<'_>| {
            names::check(name)?;
            let mut attrs = Attrs::new(w, now);
            let dir = *attrs.dir(parent)?;
            let entry = names::find_in(attrs.w, parent, name)?.ok_or(vfs::Error::NotFound)?;
            dir.check_changing()?;
            let target = attrs.get(entry.ino)?;
            target.check_changing()?;
            match (target.is_dir(), want_dir) {
                (true, false) => return Err(vfs::Error::IsDirectory.into()),
                (false, true) => return Err(vfs::Error::NotDirectory.into()),
                (true, true) if target.entries.get() > 0 => return Err(vfs::Error::NotEmpty.into()),
                _ => {}
            }
            attrs.count(parent, -1, -i32::from(want_dir))?;
            attrs.unlink(entry.ino, self.inodes.is_looked_up(entry.ino))?;
            attrs.store();
            names::remove(w, parent, name)?;
            Ok(entry.ino)
        };
        self.change_and(ReserveFor::Freeing, operation, |hold, ino| {
            self.after_unlink(hold, ino)
        })
    }

    /// Drops the records in memory of an inode without users.
    fn after_unlink(&self, _hold: &TxgHold<'_>, ino: Ino) {
        self.unlinked.add();
        if let Some(inode) = self.inodes.find(ino)
            && !self.inodes.is_looked_up(ino)
            && let Ok(false) = self.tree_has(ino)
        {
            self.drop_records(&inode, ..);
        }
    }

    fn tree_has(&self, ino: Ino) -> Result<bool> {
        self.read_tree(|r| Ok(r.get(&attr_key(ino))?.is_some()))
    }

    /// Renames or exchanges names.
    pub(crate) fn rename_name(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let now = self.now();
        let record_size = self.settings().record_size;
        let operation = |w: &mut TreeWriter<'_>| {
            names::check(name)?;
            names::check(new_name)?;
            let mut attrs = Attrs::new(w, now);
            attrs.dir(parent)?;
            attrs.dir(new_parent)?;
            let from = names::find_in(attrs.w, parent, name)?.ok_or(vfs::Error::NotFound)?;
            let to = names::find_in(attrs.w, new_parent, new_name)?;
            let rename = RenameChange {
                parent,
                name,
                new_parent,
                new_name,
                from,
            };
            let whiteout = match mode {
                RenameMode::Whiteout(owner) => Some((owner, record_size)),
                _ => None,
            };
            match (mode, to) {
                (RenameMode::NoReplace, Some(_)) => Err(vfs::Error::Exists.into()),
                (RenameMode::Exchange, None) => Err(vfs::Error::NotFound.into()),
                (_, Some(to)) if to.ino == rename.from.ino => Ok(None),
                (RenameMode::Exchange, Some(to)) => rename.exchange(attrs, &to).map(|()| None),
                (_, to) => {
                    let is_looked_up = to
                        .as_ref()
                        .is_some_and(|to| self.inodes.is_looked_up(to.ino));
                    let replaced = to.as_ref().map(|to| to.ino);
                    let w = rename.replace(attrs, to, is_looked_up)?;
                    if let Some((owner, record_size)) = whiteout {
                        let attr = AttrValue::new(Kind::CharDevice, 0, record_size, now);
                        rename.leave_whiteout(w, attr, &owner)?;
                    }
                    Ok(replaced)
                }
            }
        };
        self.change_and(ReserveFor::Writing, operation, |hold, replaced| {
            if let Some(ino) = replaced {
                self.after_unlink(hold, ino);
            }
        })
    }
}

struct RenameChange<'a> {
    parent: Ino,
    name: &'a [u8],
    new_parent: Ino,
    new_name: &'a [u8],
    from: NameEntry,
}

impl RenameChange<'_> {
    fn replace<'w, 'a>(
        &self,
        mut attrs: Attrs<'w, 'a>,
        to: Option<NameEntry>,
        is_looked_up: bool,
    ) -> TreeStep<&'w mut TreeWriter<'a>> {
        self.check_flags(&mut attrs, to.as_ref())?;
        let is_dir = self.from.kind == Kind::Directory;
        if is_dir {
            refuse_below(attrs.w, self.from.ino, self.new_parent)?;
        }
        let mut replaced_dir = false;
        if let Some(to) = &to {
            let target = attrs.get(to.ino)?;
            replaced_dir = target.is_dir();
            match (is_dir, replaced_dir) {
                (true, false) => return Err(vfs::Error::NotDirectory.into()),
                (false, true) => return Err(vfs::Error::IsDirectory.into()),
                (true, true) if target.entries.get() > 0 => return Err(vfs::Error::NotEmpty.into()),
                _ => {}
            }
        }
        let dirs = i32::from(is_dir);
        attrs.count(self.parent, -1, -dirs)?;
        attrs.count(
            self.new_parent,
            i64::from(to.is_none()),
            dirs - i32::from(replaced_dir),
        )?;
        if let Some(to) = &to {
            attrs.unlink(to.ino, is_looked_up)?;
        }
        self.move_inode(&mut attrs, self.from.ino, self.new_parent)?;
        let w = store(attrs);
        names::remove(w, self.parent, self.name)?;
        names::put(
            w,
            self.new_parent,
            self.new_name,
            self.from.ino,
            self.from.kind,
        )?;
        Ok(w)
    }

    /// Gives the old name to a new inode, whose attributes have no owner yet.
    fn leave_whiteout(
        &self,
        w: &mut TreeWriter<'_>,
        mut attr: AttrValue,
        owner: &Caller,
    ) -> TreeStep<()> {
        let mut attrs = Attrs::new(w, attr.ctime.into());
        attrs.count(self.parent, 1, 0)?;
        let dir = *attrs.dir(self.parent)?;
        let w = store(attrs);
        let ino = new_ino(w)?;
        set_owner(&mut attr, &dir, owner);
        attr.parent = self.parent.into();
        attr.nlink = 1.into();
        w.put(attr_key(ino), attr.as_bytes().to_vec());
        names::put(w, self.parent, self.name, ino, Kind::CharDevice)
    }

    fn exchange(&self, mut attrs: Attrs<'_, '_>, to: &NameEntry) -> TreeStep<()> {
        self.check_flags(&mut attrs, Some(to))?;
        let from_dir = i32::from(self.from.kind == Kind::Directory);
        let to_dir = i32::from(to.kind == Kind::Directory);
        if from_dir == 1 {
            refuse_below(attrs.w, self.from.ino, self.new_parent)?;
        }
        if to_dir == 1 {
            refuse_below(attrs.w, to.ino, self.parent)?;
        }
        attrs.count(self.parent, 0, to_dir - from_dir)?;
        attrs.count(self.new_parent, 0, from_dir - to_dir)?;
        self.move_inode(&mut attrs, self.from.ino, self.new_parent)?;
        self.move_inode(&mut attrs, to.ino, self.parent)?;
        let w = store(attrs);
        names::put(w, self.parent, self.name, to.ino, to.kind)?;
        names::put(
            w,
            self.new_parent,
            self.new_name,
            self.from.ino,
            self.from.kind,
        )
    }

    /// Refuses changes that the flags of the inodes and their directories forbid.
    fn check_flags(&self, attrs: &mut Attrs<'_, '_>, to: Option<&NameEntry>) -> TreeStep<()> {
        attrs.get(self.parent)?.check_changing()?;
        attrs.get(self.from.ino)?.check_changing()?;
        match to {
            Some(to) => {
                attrs.get(self.new_parent)?.check_changing()?;
                attrs.get(to.ino)?.check_changing()?;
            }
            None => attrs.get(self.new_parent)?.check_adding()?,
        }
        Ok(())
    }

    fn move_inode(&self, attrs: &mut Attrs<'_, '_>, ino: Ino, parent: Ino) -> TreeStep<()> {
        let now = attrs.now;
        let attr = attrs.get(ino)?;
        attr.parent = parent.into();
        attr.ctime = now.into();
        Ok(())
    }
}

/// Writes the attributes, and returns the writer.
fn store<'w, 'a>(attrs: Attrs<'w, 'a>) -> &'w mut TreeWriter<'a> {
    let Attrs { w, changed, .. } = attrs;
    for (ino, attr) in changed {
        w.put(attr_key(ino), attr.as_bytes().to_vec());
    }
    w
}

/// Refuses to move a directory below itself.
fn refuse_below(w: &TreeWriter<'_>, dir: Ino, mut at: Ino) -> TreeStep<()> {
    for _ in 0..DEPTH_MAX {
        if at == dir {
            return Err(vfs::Error::Invalid.into());
        }
        if at == ROOT {
            return Ok(());
        }
        at = attr_of(w, at)?.parent.get();
    }
    Err(vfs::Error::Io.into())
}

fn new_ino(w: &mut TreeWriter<'_>) -> TreeStep<Ino> {
    let ino = w.header.next_ino;
    if ino >= INO_LIMIT - 1 {
        return Err(vfs::Error::NoSpace.into());
    }
    w.header.next_ino += 1;
    w.header.inodes += 1;
    Ok(ino)
}

fn set_owner(attr: &mut AttrValue, dir: &AttrValue, caller: &Caller) {
    attr.uid = caller.uid.into();
    let inherits = dir.mode.get() & SETGID != 0;
    attr.gid = if inherits { dir.gid } else { caller.gid.into() };
}

/// Gives a new inode its mode, and the ACLs that it inherits from its directory.
fn set_mode(
    w: &mut TreeWriter<'_>,
    attr: &mut AttrValue,
    parent: Ino,
    dir: &AttrValue,
    ino: Ino,
    node: &NewNode,
) -> TreeStep<()> {
    let is_dir = node.kind == Kind::Directory;
    let mut mode = node.mode & 0o7777;
    let default = if dir.has(FLAG_DEFAULT_ACL) && node.kind != Kind::Symlink {
        default_acl(w, parent)?
    } else {
        None
    };
    match default {
        None => mode &= !node.umask,
        Some(default) => {
            let access = default.inherit(mode & 0o777);
            mode = mode & !0o777 | access.mode();
            if !access.is_just_mode() {
                put_acl(w, ino, acl::ACCESS, &access);
                attr.set(FLAG_ACCESS_ACL | FLAG_XATTR, true);
            }
            if is_dir {
                put_acl(w, ino, acl::DEFAULT, &default);
                attr.set(FLAG_DEFAULT_ACL | FLAG_XATTR, true);
            }
        }
    }
    if is_dir && dir.mode.get() & SETGID != 0 {
        mode |= SETGID;
    }
    attr.mode = mode.into();
    Ok(())
}

fn default_acl(w: &TreeWriter<'_>, dir: Ino) -> TreeStep<Option<Acl>> {
    let value = w.get(&xattr_key(dir, acl::DEFAULT))?;
    Ok(match value.and_then(XattrValue::decode) {
        Some(XattrValue::Here(value)) => Acl::decode(&value),
        _ => None,
    })
}

fn put_acl(w: &mut TreeWriter<'_>, ino: Ino, name: &[u8], acl: &Acl) {
    w.put(
        xattr_key(ino, name),
        XattrValue::Here(acl.encode()).encode(),
    );
}
