//! The directory `.fscrypt`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use vfs::Error as Lower;

use super::error::{Error, Result, damaged};
use super::hex;
use super::link::ProtectorLink;
use super::policy::ProtectedPolicy;
use super::protector::{Descriptor, Protector, ProtectorSource};
use crate::formats::fscrypt::KeyName;
use crate::lower::{Entry, list, posix, rename_free, replace, sync};

/// The name of the directory.
pub const DIRECTORY_NAME: &str = ".fscrypt";

/// The tool reads no longer file, in bytes.
pub const FILE_MAX: usize = 16384;

const POLICIES: &str = "policies";
const PROTECTORS: &str = "protectors";
const LINK_SUFFIX: &str = ".link";

/// The users that can make policies and protectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// The owner of the directory.
    Owner,
    /// Every user.
    All,
}

/// A protector, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtectorEntry {
    /// The protector itself.
    Here(Box<Protector>),
    /// A protector on another file system.
    Linked(ProtectorLink),
}

/// The metadata of a file system or of a stacked directory.
#[derive(Debug)]
pub struct MetadataStore {
    base: Entry,
    policies: Entry,
    protectors: Entry,
    /// With this, only what belongs to this user or to root is read.
    trusted: Option<u32>,
}

impl MetadataStore {
    /// The metadata in the directory `root`, whose path in errors is `place`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Foreign`], [`Error::Refused`], [`Error::Lower`].
    pub fn open(root: &Entry, place: &Path, trusted: Option<u32>) -> Result<MetadataStore> {
        let missing = |error| match error {
            Lower::NotFound | Lower::NotDirectory => Error::NotFound(format!(
                "metadata of fscrypt on {}; `strongroom fscrypt setup` makes it",
                place.display()
            )),
            other => Error::Lower(other),
        };
        let base = base(root, place).map_err(|error| match error {
            Error::Lower(error) => missing(error),
            error => error,
        })?;
        let part = |name: &str| {
            let part = base.entry(name.as_bytes()).map_err(missing)?;
            match FileType::from_raw_mode(part.stat()?.stx_mode.into()) {
                FileType::Directory => Ok(part),
                _ => Err(missing(Lower::NotDirectory)),
            }
        };
        let (policies, protectors) = (part(POLICIES)?, part(PROTECTORS)?);
        for entry in [root, &base, &policies, &protectors] {
            let stat = entry.stat()?;
            if trusted.is_some_and(|uid| !matches!(stat.stx_uid, 0) && stat.stx_uid != uid) {
                return Err(Error::Foreign(format!("{}", place.display())));
            }
        }
        for part in [&policies, &protectors] {
            if part.stat()?.stx_mode & 0o1002 == 0o002 {
                return Err(Error::Refused(format!(
                    "others can replace the metadata on {}: a directory is writable to all and not sticky",
                    place.display()
                )));
            }
        }
        Ok(MetadataStore {
            base,
            policies,
            protectors,
            trusted,
        })
    }

    /// Makes the directory, whole: under a temporary name first.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Lower`].
    pub fn create(root: &Entry, place: &Path, writers: Writers) -> Result<()> {
        let temporary = temporary_name();
        let make = |dir: &Entry, name: &str, mode: u32| -> Result<Entry> {
            rustix::fs::mkdirat(dir, name, Mode::RWXU).map_err(posix)?;
            let made = dir.entry(name.as_bytes())?;
            // Without the mask of the process.
            let bits = Mode::from_raw_mode(mode);
            rustix::fs::chmod(made.proc_path(), bits).map_err(posix)?;
            Ok(made)
        };
        let mode = match writers {
            Writers::Owner => 0o755,
            Writers::All => 0o1777,
        };
        let base = make(root, &temporary, 0o755)?;
        let filled = make(&base, POLICIES, mode)
            .and_then(|_| make(&base, PROTECTORS, mode))
            .and_then(|_| {
                let (from, to) = (temporary.as_bytes(), DIRECTORY_NAME.as_bytes());
                let renamed = rename_free(root, from, to, || Ok(()));
                renamed.map_err(|error| match error {
                    // Another one that was just made is not empty.
                    Lower::Exists | Lower::NotEmpty => {
                        Error::Exists(format!("metadata on {}", place.display()))
                    }
                    other => Error::Lower(other),
                })
            });
        if filled.is_err() {
            remove_tree(root, &temporary);
        }
        filled.and_then(|()| Ok(sync(root)?))
    }

    /// Removes all policies and protectors. What only they open cannot be opened any more.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn destroy(root: &Entry) -> Result<()> {
        // It is gone at once, and then removed piece by piece.
        let temporary = temporary_name();
        rustix::fs::renameat(root, DIRECTORY_NAME, root, &temporary[..]).map_err(posix)?;
        remove_tree(root, &temporary);
        Ok(sync(root)?)
    }

    /// The users that can make policies and protectors here; nothing for modes of another kind.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn writers(&self) -> Result<Option<Writers>> {
        let modes = [self.policies.stat()?, self.protectors.stat()?];
        Ok(match modes.map(|stat| stat.stx_mode & 0o1777) {
            [0o755, 0o755] => Some(Writers::Owner),
            [0o1777, 0o1777] => Some(Writers::All),
            _ => None,
        })
    }

    /// The owner of the directory.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn owner(&self) -> Result<u32> {
        Ok(self.base.stat()?.stx_uid)
    }

    /// The policy of this master key.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Unknown`], [`Error::Foreign`], [`Error::Lower`].
    pub fn policy(&self, name: &KeyName) -> Result<ProtectedPolicy> {
        let id = hex::key_name(name);
        let (bytes, _) = self.read(&self.policies, &id, &format!("policy {id}"))?;
        let policy = ProtectedPolicy::decode(&bytes).map_err(|error| in_file(&id, error))?;
        match policy.name == *name {
            true => Ok(policy),
            false => Err(in_file(&id, damaged("it is the file of another policy"))),
        }
    }

    /// The protector with this descriptor.
    ///
    /// # Errors
    /// As [`MetadataStore::policy`].
    pub fn protector(&self, descriptor: &Descriptor) -> Result<ProtectorEntry> {
        let id = hex::text(descriptor);
        let what = format!("protector {id}");
        let link = format!("{id}{LINK_SUFFIX}");
        match self.read(&self.protectors, &link, &what) {
            Ok((bytes, _)) => {
                let link = ProtectorLink::decode(&bytes).map_err(|error| in_file(&link, error))?;
                return Ok(ProtectorEntry::Linked(link));
            }
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let (bytes, owner) = self.read(&self.protectors, &id, &what)?;
        let protector = Protector::decode(&bytes).map_err(|error| in_file(&id, error))?;
        if protector.descriptor != *descriptor {
            return Err(in_file(&id, damaged("it is the file of another protector")));
        }
        match protector.source {
            // Any user may be able to make files here.
            ProtectorSource::Login(uid) if owner != 0 && owner != uid => Err(Error::Foreign(what)),
            _ => Ok(ProtectorEntry::Here(Box::new(protector))),
        }
    }

    /// The names of all policies that may be read.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn policies(&self) -> Result<Vec<KeyName>> {
        let mut names: Vec<_> = self.names(&self.policies)?;
        names.sort();
        let names = names.iter().map(|name| hex::key_name_from(name).ok());
        Ok(names.flatten().collect())
    }

    /// The descriptors of all protectors that may be read, here and linked.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn protectors(&self) -> Result<Vec<Descriptor>> {
        let names = self.names(&self.protectors)?;
        let bare = |name: &String| hex::parse(name.strip_suffix(LINK_SUFFIX).unwrap_or(name));
        let mut descriptors: Vec<Descriptor> = names.iter().filter_map(bare).collect();
        descriptors.sort();
        descriptors.dedup();
        Ok(descriptors)
    }

    /// Writes a policy.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn put_policy(&self, policy: &ProtectedPolicy, owner: Option<u32>) -> Result<()> {
        let id = hex::key_name(&policy.name);
        write(&self.policies, &id, &policy.encode(), owner)
    }

    /// Writes a protector.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn put_protector(&self, protector: &Protector, owner: Option<u32>) -> Result<()> {
        let id = hex::text(&protector.descriptor);
        write(&self.protectors, &id, &protector.encode(), owner)
    }

    /// Writes where a protector is.
    ///
    /// # Errors
    /// [`Error::Lower`].
    pub fn put_link(
        &self,
        descriptor: &Descriptor,
        link: &ProtectorLink,
        owner: Option<u32>,
    ) -> Result<()> {
        let name = hex::text(descriptor) + LINK_SUFFIX;
        write(&self.protectors, &name, link.encode().as_bytes(), owner)
    }

    /// Removes a policy. Its files cannot be opened any more.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Lower`].
    pub fn remove_policy(&self, name: &KeyName) -> Result<()> {
        let id = hex::key_name(name);
        remove(&self.policies, &id, &format!("policy {id}"))
    }

    /// Removes a protector, or the link to it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Lower`].
    pub fn remove_protector(&self, descriptor: &Descriptor) -> Result<()> {
        let id = hex::text(descriptor);
        let what = format!("protector {id}");
        match remove(&self.protectors, &format!("{id}{LINK_SUFFIX}"), &what) {
            Err(Error::NotFound(_)) => remove(&self.protectors, &id, &what),
            removed => removed,
        }
    }

    /// The contents of a file, and its owner.
    fn read(&self, dir: &Entry, name: &str, what: &str) -> Result<(Vec<u8>, u32)> {
        // A FIFO must not hold the reader up.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = dir.open(name.as_bytes(), flags, Mode::empty());
        let file = File::from(file.map_err(|error| match error {
            Lower::NotFound => Error::NotFound(what.to_owned()),
            other => Error::Lower(other),
        })?);
        let stat = rustix::fs::fstat(&file).map_err(posix)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(in_file(name, damaged("it is no file")));
        }
        if !self.trusts(&stat) {
            return Err(Error::Foreign(what.to_owned()));
        }
        let mut bytes = Vec::new();
        let read = file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|_| Lower::Io)?;
        match bytes.len() > FILE_MAX {
            true => Err(in_file(name, damaged("it is too long"))),
            false => Ok((bytes, stat.st_uid)),
        }
    }

    fn trusts(&self, stat: &Stat) -> bool {
        self.trusted
            .is_none_or(|uid| stat.st_uid == 0 || stat.st_uid == uid)
    }

    /// The names of the files that may be read.
    fn names(&self, dir: &Entry) -> Result<Vec<String>> {
        let mut names = Vec::new();
        list(dir, 0, |listed| {
            if let Ok(name) = str::from_utf8(listed.name)
                && !name.starts_with('.')
            {
                names.push(name.to_owned());
            }
            Ok(true)
        })?;
        names.retain(|name| {
            rustix::fs::statat(dir, &name[..], AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| self.trusts(&stat))
        });
        Ok(names)
    }
}

/// The directory `.fscrypt`. As with the tool, it may be a link to a directory elsewhere. A link of another user than
/// root and this process's counts only if that directory belongs to its user too.
fn base(root: &Entry, place: &Path) -> Result<Entry> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(root, DIRECTORY_NAME, flags, Mode::empty()).map_err(posix)?;
    let stat = rustix::fs::fstat(&found).map_err(posix)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Ok(Entry::of(found)?);
    }
    let target = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(posix)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let there = rustix::fs::openat(root, target, flags, Mode::empty()).map_err(posix)?;
    let base = Entry::of(there)?;
    let own = rustix::process::geteuid().as_raw();
    match [0, own, base.stat()?.stx_uid].contains(&stat.st_uid) {
        true => Ok(base),
        false => Err(Error::Refused(format!(
            "{} is a link of another user than the directory where it leads",
            place.join(DIRECTORY_NAME).display()
        ))),
    }
}

fn in_file(name: &str, error: Error) -> Error {
    match error {
        Error::Damaged(why) => Error::Damaged(format!("{name}: {why}")),
        Error::Unknown(what) => Error::Unknown(format!("{what} in {name}")),
        other => other,
    }
}

/// Replaces a file at once, and keeps its owner and mode.
fn write(dir: &Entry, name: &str, bytes: &[u8], owner: Option<u32>) -> Result<()> {
    let temporary = temporary_name();
    replace(dir, temporary.as_bytes(), name.as_bytes(), bytes, owner)?;
    Ok(())
}

fn remove(dir: &Entry, name: &str, what: &str) -> Result<()> {
    let removed = rustix::fs::unlinkat(dir, name, AtFlags::empty()).map_err(posix);
    removed.map_err(|error| match error {
        Lower::NotFound => Error::NotFound(what.to_owned()),
        other => Error::Lower(other),
    })?;
    Ok(sync(dir)?)
}

/// Removes the directory as far as it can be removed. It has no metadata any more, or never had.
fn remove_tree(root: &Entry, name: &str) {
    let Ok(base) = root.entry(name.as_bytes()) else {
        return;
    };
    for part in [POLICIES, PROTECTORS] {
        if let Ok(dir) = base.entry(part.as_bytes()) {
            let mut names = Vec::new();
            let _ = list(&dir, 0, |listed| {
                names.push(listed.name.to_vec());
                Ok(true)
            });
            for name in names {
                let _ = rustix::fs::unlinkat(&dir, &name[..], AtFlags::empty());
            }
        }
        let _ = rustix::fs::unlinkat(&base, part, AtFlags::REMOVEDIR);
    }
    let _ = rustix::fs::unlinkat(root, name, AtFlags::REMOVEDIR);
}

/// A name that the tool does not take for a file of its own.
fn temporary_name() -> String {
    let mut bytes = [0; 8];
    // A name that is taken gives an error.
    let _ = cipher::Random::fill(&cipher::SystemRandom, &mut bytes);
    format!(".tmp{}", hex::text(&bytes))
}
