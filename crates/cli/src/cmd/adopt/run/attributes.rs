//! Owners, modes, times, ACLs and extended attributes.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, getxattr, listxattr,
    removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::node::{Node, mtime};

/// The longest list of names, and the longest value, of extended attributes on Linux.
const XATTR_MAX: usize = 64 << 10;
const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) is_changed: bool,
    /// What could not be kept, and why.
    pub(super) failures: Vec<String>,
}

impl Kept {
    fn note(&mut self, what: impl Into<String>, done: Result<(), impl Into<io::Error>>) {
        self.is_changed = true;
        if let Err(error) = done {
            let error = error.into();
            self.failures.push(format!("{}: {error}", what.into()));
        }
    }
}

/// Gives a copy what its source has. A new copy gets the access time too.
pub(super) fn keep(from: &Node, to: &mut Node, is_new: bool, keep_owner: bool) -> Kept {
    let mut kept = Kept::default();
    if let Err(error) = to.look() {
        kept.note("cannot be looked at", Err(error));
        return kept;
    }
    if keep_owner {
        owner(from, to, &mut kept);
    }
    // A change of owner takes capabilities and bits of the mode away, and an ACL changes the mode.
    extended(from, to, &mut kept);
    if !from.meta.is_symlink() {
        mode(from, to, &mut kept);
    }
    if is_new || mtime(&from.meta) != mtime(&to.meta) {
        let done = utimensat(&*to, c"", &times(&from.meta), AtFlags::EMPTY_PATH);
        kept.note("its times cannot be kept", done);
    }
    check(from, to, keep_owner, &mut kept);
    kept
}

fn owner(from: &Node, to: &Node, kept: &mut Kept) {
    let ids = |meta: &Metadata| (meta.uid(), meta.gid());
    let (user, group) = ids(&from.meta);
    if ids(&to.meta) == (user, group) {
        return;
    }
    let change = |user: Option<u32>| {
        let user = user.map(Uid::from_raw);
        let group = Some(Gid::from_raw(group));
        chownat(to, c"", user, group, AtFlags::EMPTY_PATH)
    };
    let done = change(Some(user)).inspect_err(|_| {
        // A user may give files to groups of their own.
        let _ = change(None);
    });
    kept.note(format!("its owner {user}:{group} cannot be kept"), done);
}

fn mode(from: &Node, to: &mut Node, kept: &mut Kept) {
    let Ok(has) = to.look().map(|meta| meta.mode() & 0o7777) else {
        return;
    };
    let wanted = wanted_mode(&from.meta, &to.meta);
    if has != wanted {
        let done = chmod(to.proc_path(), Mode::from_raw_mode(wanted));
        kept.note(format!("its mode {wanted:o} cannot be kept"), done);
    }
}

/// The mode of the source. A program must not get the rights of another owner or group than there.
fn wanted_mode(from: &Metadata, to: &Metadata) -> u32 {
    let mut mode = from.mode() & 0o7777;
    if from.uid() != to.uid() {
        mode &= !SUID;
    }
    if from.gid() != to.gid() {
        mode &= !SGID;
    }
    mode
}

fn times(meta: &Metadata) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: meta.atime(),
            tv_nsec: meta.atime_nsec(),
        },
        last_modification: Timespec {
            tv_sec: meta.mtime(),
            tv_nsec: meta.mtime_nsec(),
        },
    }
}

/// That the copy now has what it was given.
fn check(from: &Node, to: &mut Node, keep_owner: bool, kept: &mut Kept) {
    if !kept.failures.is_empty() || !kept.is_changed || to.look().is_err() {
        return;
    }
    let is_link = from.meta.is_symlink();
    let (wanted, has) = (wanted_mode(&from.meta, &to.meta), to.meta.mode() & 0o7777);
    if !is_link && wanted != has {
        (kept.failures).push(format!("its mode is {has:o}, and was to be {wanted:o}"));
    }
    let is_owner = (from.meta.uid(), from.meta.gid()) == (to.meta.uid(), to.meta.gid());
    if keep_owner && !is_owner {
        kept.failures.push("its owner is another one".into());
    }
    if mtime(&from.meta) != mtime(&to.meta) {
        kept.failures.push("its time is another one".into());
    }
    match (attributes(from), attributes(to)) {
        (Ok(wanted), Ok(has)) if wanted == has => {}
        _ => (kept.failures).push("its extended attributes are not those of the source".into()),
    }
}

fn extended(from: &Node, to: &Node, kept: &mut Kept) {
    let (wanted, has) = match (attributes(from), attributes(to)) {
        (Ok(wanted), Ok(has)) => (wanted, has),
        (Err(error), _) | (_, Err(error)) => {
            return kept.note("its extended attributes cannot be read", Err(error));
        }
    };
    let path = to.proc_path();
    for name in has.keys().filter(|name| !wanted.contains_key(*name)) {
        let shown = String::from_utf8_lossy(name);
        let done = removexattr(&path, &name[..]);
        kept.note(format!("the attribute {shown} cannot be removed"), done);
    }
    for (name, value) in &wanted {
        if has.get(name) != Some(value) {
            let shown = String::from_utf8_lossy(name);
            let done = setxattr(&path, &name[..], value, XattrFlags::empty());
            kept.note(format!("the attribute {shown} cannot be kept"), done);
        }
    }
}

/// The extended attributes that are kept.
fn attributes(node: &Node) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let path = node.proc_path();
    let mut list = Vec::with_capacity(XATTR_MAX);
    match listxattr(&path, rustix::buffer::spare_capacity(&mut list)) {
        // It has none, and cannot have any.
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(BTreeMap::new()),
        listed => listed?,
    };
    let mut found = BTreeMap::new();
    for name in list.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let mut value = Vec::with_capacity(XATTR_MAX);
        match getxattr(&path, name, rustix::buffer::spare_capacity(&mut value)) {
            Ok(_) => found.insert(name.to_vec(), value),
            // It went meanwhile.
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(found)
}

/// Labels of SELinux belong to the system, and what has another prefix to the file system.
fn is_kept(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];
    let has_prefix = prefixes.iter().any(|prefix| name.starts_with(prefix));
    has_prefix && name != b"security.selinux"
}
