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

use crate::copy::node::{FileNode, mtime};

/// The longest list of names, and the longest value, of extended attributes on Linux.
const XATTR_MAX: usize = 64 << 10;
const SUID: u32 = 0o4000;
const SGID: u32 = 0o2000;
/// All bits but those of the group and of others.
const USER_ONLY: u32 = 0o7700;
const ACL: &[u8] = b"system.posix_acl_access";
/// An ACL is its version, and entries of a tag, rights and an identifier (`linux/posix_acl_xattr.h`).
const ACL_HEADER: usize = 4;
const ACL_ENTRY: usize = 8;
const ACL_USER_OBJ: u8 = 0x01;
const ACL_OTHER: u8 = 0x20;
/// The ACLs of NFSv4, CIFS, NTFS and file systems with rich ACLs.
const OTHER_ACLS: [&[u8]; 6] = [
    b"system.nfs4_acl",
    b"system.nfs4acl",
    b"system.cifs_acl",
    b"system.smb3_acl",
    b"system.ntfs_acl",
    b"system.richacl",
];
const UNFINISHED: &[u8] = b"trusted.strongroom.unfinished";

/// The result of keeping attributes.
#[derive(Debug, Default)]
pub(crate) struct AttributeResult {
    pub(crate) is_changed: bool,
    /// The attributes that could not be kept, and why.
    pub(crate) failures: Vec<String>,
    /// The name of an ACL of another kind, which is not kept.
    pub(crate) other_acl: Option<String>,
}

impl AttributeResult {
    fn note(&mut self, what: impl Into<String>, done: Result<(), impl Into<io::Error>>) {
        self.is_changed = true;
        if let Err(error) = done {
            let error = error.into();
            self.failures.push(format!("{}: {error}", what.into()));
        }
    }
}

/// The attributes of a source that its copy gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeRules {
    pub(crate) owner: bool,
    /// Attributes that only root gives (`trusted.`, `security.`).
    pub(crate) privileged: bool,
}

/// Gives a copy what its source has. A new copy gets the access time too.
pub(crate) fn keep(
    from: &FileNode,
    to: &mut FileNode,
    is_new: bool,
    rules: AttributeRules,
) -> AttributeResult {
    let mut kept = AttributeResult::default();
    if let Err(error) = to.look() {
        kept.note("cannot be looked at", Err(error));
        return kept;
    }
    if rules.owner {
        owner(from, to, &mut kept);
    }
    // A change of owner takes capabilities and bits of the mode away, and an ACL changes the mode.
    let allowed = extended(from, to, rules, &mut kept);
    if !from.meta.is_symlink() {
        mode(from, to, allowed, &mut kept);
    }
    if is_new || mtime(&from.meta) != mtime(&to.meta) {
        let done = utimensat(&*to, c"", &times(&from.meta), AtFlags::EMPTY_PATH);
        kept.note("its times cannot be kept", done);
    }
    check(from, to, rules, &mut kept);
    kept.other_acl = other_acl(from);
    kept
}

fn owner(from: &FileNode, to: &FileNode, kept: &mut AttributeResult) {
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

fn mode(from: &FileNode, to: &mut FileNode, allowed: u32, kept: &mut AttributeResult) {
    let Ok(has) = to.look().map(|meta| meta.mode() & 0o7777) else {
        return;
    };
    let wanted = wanted_mode(&from.meta, &to.meta) & allowed;
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

/// Checks that the copy has the attributes that it was given.
fn check(from: &FileNode, to: &mut FileNode, rules: AttributeRules, kept: &mut AttributeResult) {
    if !kept.failures.is_empty() || !kept.is_changed || to.look().is_err() {
        return;
    }
    let is_link = from.meta.is_symlink();
    let (wanted, has) = (wanted_mode(&from.meta, &to.meta), to.meta.mode() & 0o7777);
    if !is_link && wanted != has {
        (kept.failures).push(format!("its mode is {has:o}, and was to be {wanted:o}"));
    }
    let is_owner = (from.meta.uid(), from.meta.gid()) == (to.meta.uid(), to.meta.gid());
    if rules.owner && !is_owner {
        kept.failures.push("its owner is another one".into());
    }
    if mtime(&from.meta) != mtime(&to.meta) {
        kept.failures.push("its time is another one".into());
    }
    match (attributes(from, rules), attributes(to, rules)) {
        (Ok(wanted), Ok(has)) if wanted == has => {}
        _ => (kept.failures).push("its extended attributes are not those of the source".into()),
    }
}

/// Returns which bits of the mode the copy may have.
fn extended(
    from: &FileNode,
    to: &FileNode,
    rules: AttributeRules,
    kept: &mut AttributeResult,
) -> u32 {
    let (wanted, has) = match (attributes(from, rules), attributes(to, rules)) {
        (Ok(wanted), Ok(has)) => (wanted, has),
        (Err(error), _) | (_, Err(error)) => {
            kept.note("its extended attributes cannot be read", Err(error));
            return USER_ONLY;
        }
    };
    let mut allowed = 0o7777;
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
            if done.is_err() && name == ACL {
                allowed = without_acl(value);
            }
            kept.note(format!("the attribute {shown} cannot be kept"), done);
        }
    }
    allowed
}

/// The bits of the mode for a copy without the ACL of its source. The group's bits in the mode of the source are the mask of
/// the ACL, and an entry may refuse what all others may. So the copy grants only what each entry grants.
fn without_acl(acl: &[u8]) -> u32 {
    let Some(entries) = acl
        .get(ACL_HEADER..)
        .map(|entries| entries.chunks(ACL_ENTRY))
    else {
        return USER_ONLY;
    };
    let rights = entries.map(|entry| match entry {
        [ACL_USER_OBJ | ACL_OTHER, 0, _, _, _, _, _, _] => 7,
        [_, _, rights, _, _, _, _, _] => u32::from(*rights),
        _ => 0,
    });
    let common = rights.fold(7, |common, rights| common & rights);
    USER_ONLY | common << 3 | common
}

fn names(node: &FileNode) -> io::Result<Vec<u8>> {
    let mut list = Vec::with_capacity(XATTR_MAX);
    match listxattr(node.proc_path(), rustix::buffer::spare_capacity(&mut list)) {
        // It has none, and cannot have any.
        Err(Errno::NOTSUP | Errno::NOSYS) => {}
        listed => drop(listed?),
    }
    Ok(list)
}

/// The name of an ACL that is none of POSIX.
fn other_acl(node: &FileNode) -> Option<String> {
    let list = names(node).ok()?;
    let mut names = list.split(|byte| *byte == 0);
    let name = names.find(|name| OTHER_ACLS.contains(name))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The extended attributes that are kept.
pub(crate) fn attributes(
    node: &FileNode,
    rules: AttributeRules,
) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let path = node.proc_path();
    let list = names(node)?;
    let mut found = BTreeMap::new();
    for name in list
        .split(|byte| *byte == 0)
        .filter(|name| is_kept(name, rules))
    {
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
fn is_kept(name: &[u8], rules: AttributeRules) -> bool {
    let of_users: [&[u8]; 2] = [b"user.", b"system.posix_acl_"];
    let of_root: [&[u8]; 2] = [b"trusted.", b"security."];
    let has = |prefixes: [&[u8]; 2]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let is_own = name == b"security.selinux" || name == UNFINISHED;
    has(of_users) || (rules.privileged && has(of_root) && !is_own)
}

/// Marks a directory that root made and that is not finished. Nobody else can make this mark.
pub(crate) fn mark(dir: &FileNode) {
    // Without it, a run after an interruption leaves the directory, and names it.
    let _ = setxattr(dir.proc_path(), UNFINISHED, b"1", XattrFlags::empty());
}

pub(crate) fn is_marked(dir: &FileNode) -> bool {
    getxattr(dir.proc_path(), UNFINISHED, &mut [0; 1][..]).is_ok()
}

/// Takes the mark away; whether it was there.
pub(crate) fn unmark(dir: &FileNode) -> bool {
    removexattr(dir.proc_path(), UNFINISHED).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_without_its_acl_grants_no_more_than_each_entry() {
        // user::rwx, user:1:r--, group::r-x, mask::rwx, other::r-x
        let entries: [[u8; 4]; 5] = [
            [0x01, 0, 7, 0],
            [0x02, 0, 4, 0],
            [0x04, 0, 5, 0],
            [0x10, 0, 7, 0],
            [0x20, 0, 5, 0],
        ];
        let entries = entries.map(|[tag, _, rights, _]| [tag, 0, rights, 0, 1, 0, 0, 0]);
        let acl = [&2_u32.to_le_bytes()[..], &entries.concat()].concat();
        assert_eq!(without_acl(&acl), 0o7744);
        // What cannot be read grants nothing.
        assert_eq!(without_acl(&acl[..acl.len() - 22]), USER_ONLY);
        assert_eq!(without_acl(b""), USER_ONLY);
    }
}
