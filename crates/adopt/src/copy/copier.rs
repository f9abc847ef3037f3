//! Copies one entry of a directory: a file, a symbolic link, a special file, or another name of one of these.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use console::session::other;
use console::terminal::Interruptions;
use indicatif::ProgressBar;
use protocol::api::Failure;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::args::Adopt;
use crate::copy::attributes::{self, AttributeRules};
use crate::copy::contents;
use crate::copy::node::{FileId, FileNode, FileVersion, mtime, version};
use crate::copy::temporary;
use crate::tally::{CopyTally, EntryResult};
use crate::trouble::{Result, Trouble, TroubleContext};

/// The number of times that a file is copied that changes meanwhile.
const TRIES: usize = 2;

/// The target of an entry: the directory, which a dry run may lack, and what has its name there.
pub(crate) struct To<'a> {
    pub(crate) dir: Option<&'a FileNode>,
    pub(crate) old: Option<FileNode>,
    /// Below SOURCE and TARGET.
    pub(crate) path: &'a Path,
}

/// A file with several names: the first one, and what it is in the target.
struct FirstName {
    path: PathBuf,
    made: Option<FileId>,
    /// The version of the source when it was copied: another file may get its number.
    version: FileVersion,
    /// Names that were not seen yet.
    others: u64,
}

/// The longest path of a first name that is remembered: system calls take no longer one.
const PATH_MAX: usize = 4096;

pub(crate) struct Copier<'a> {
    pub(crate) args: &'a Adopt,
    pub(crate) tally: CopyTally,
    to_root: FileNode,
    firsts: HashMap<FileId, FirstName>,
    bar: Option<ProgressBar>,
    signals: Interruptions,
    rules: AttributeRules,
    has_other_acls: bool,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(
        args: &'a Adopt,
        to_root: FileNode,
        bar: Option<ProgressBar>,
        signals: Interruptions,
        rules: AttributeRules,
        is_verbose: bool,
    ) -> Copier<'a> {
        Copier {
            args,
            tally: CopyTally::new(args.dry_run, is_verbose, bar.clone()),
            to_root,
            firsts: HashMap::new(),
            bar,
            signals,
            rules,
            has_other_acls: false,
        }
    }

    /// Makes a copier of entries that keep all attributes, those for root only if root copies them. It draws no bar.
    pub(crate) fn of_entries(
        args: &'a Adopt,
        to_root: FileNode,
    ) -> std::result::Result<Copier<'a>, Failure> {
        let signals = Interruptions::hold().map_err(|error| other(error.to_string()))?;
        let rules = AttributeRules {
            owner: true,
            privileged: rustix::process::geteuid().is_root(),
        };
        Ok(Copier::new(args, to_root, None, signals, rules, false))
    }

    /// Counts bytes that were read. Ends the copy if the user wants that.
    pub(crate) fn tick(&self, bytes: usize) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.inc(bytes as u64);
        }
        match self.signals.came() {
            true => Err(Trouble::interrupted()),
            false => Ok(()),
        }
    }

    /// Copies anything but a directory.
    pub(crate) fn copy(&mut self, from: &mut FileNode, to: &mut To<'_>) -> Result<EntryResult> {
        if from.meta.nlink() < 2 {
            return self.copy_one(from, to);
        }
        if let Some(done) = self.link(from, to)? {
            self.seen(from.identity());
            return Ok(done);
        }
        let done = self.copy_one(from, to)?;
        let made = match to.dir {
            Some(dir) => dir
                .child(name(to.path))
                .context("the copy cannot be found")?,
            None => None,
        };
        if to.path.as_os_str().len() < PATH_MAX {
            let first = FirstName {
                path: to.path.to_owned(),
                made: made.map(|made| made.identity()),
                version: version(&from.meta),
                others: from.meta.nlink() - 1,
            };
            self.firsts.insert(from.identity(), first);
        }
        Ok(done)
    }

    /// Another name of a file was seen. After the last one, nothing needs to be known of it.
    fn seen(&mut self, identity: FileId) {
        if let Entry::Occupied(mut first) = self.firsts.entry(identity) {
            first.get_mut().others -= 1;
            if first.get().others == 0 {
                first.remove();
            }
        }
    }

    fn copy_one(&mut self, from: &mut FileNode, to: &mut To<'_>) -> Result<EntryResult> {
        if let Some(mut old) = to.old.take() {
            if self.is_equal(from, &old)? {
                if !self.args.dry_run && !self.is_of_another(from, &old) {
                    self.keep(from, &mut old, false, to.path);
                }
                return Ok(EntryResult::Equal);
            }
            self.may_replace(from, &old)?;
            to.old = Some(old);
        }
        let kind = from.meta.file_type();
        match (to.dir, self.args.dry_run) {
            (Some(dir), false) if kind.is_file() => self.file(from, dir, to),
            (Some(dir), false) => self.other(from, dir, to),
            _ if kind.is_file() => Ok(EntryResult::File(from.meta.len())),
            _ if kind.is_symlink() => Ok(EntryResult::Symlink),
            _ => Ok(EntryResult::Special),
        }
    }

    /// Returns whether the copy is there already. A file gets the time of its source after it was verified.
    fn is_equal(&self, from: &FileNode, old: &FileNode) -> Result<bool> {
        let (a, b) = (&from.meta, &old.meta);
        // Another name of the old one may be a file that this copy has nothing to do with.
        let is_elsewhere = b.nlink() > 1 && (a.nlink() < 2 || a.uid() != b.uid());
        // It would be given away.
        let is_strange = self.is_of_another(from, old) && !self.args.no_owner;
        if a.file_type() != b.file_type() || is_elsewhere || is_strange {
            return Ok(false);
        }
        if a.is_symlink() {
            let text = from.link_text().of_source("cannot be read")?;
            return Ok(old.link_text().context("the copy cannot be read")? == text);
        }
        if !a.is_file() {
            return Ok(a.rdev() == b.rdev());
        }
        if (a.len(), mtime(a)) != (b.len(), mtime(b)) {
            return Ok(false);
        }
        if !self.args.checksum {
            return Ok(true);
        }
        let from = from.open().of_source("cannot be read")?;
        let old = old.open().context("the copy cannot be read")?;
        contents::is_same(&from, &old, a.len(), &mut |bytes| self.tick(bytes))
    }

    /// Returns whether what is in the target is neither the user's in the source nor this user's. Root makes files
    /// for others, so what is root's may have been put there.
    pub(crate) fn is_of_another(&self, from: &FileNode, old: &FileNode) -> bool {
        let (owner, user) = (old.meta.uid(), rustix::process::geteuid());
        owner != from.meta.uid() && (user.is_root() || owner != user.as_raw())
    }

    fn may_replace(&self, from: &FileNode, old: &FileNode) -> Result<()> {
        if old.meta.is_dir() {
            return Err(Trouble::new(
                "a directory has this name in the target; move it away",
            ));
        }
        if mtime(&old.meta) > mtime(&from.meta) && !self.args.force {
            return Err(Trouble::new("the target is newer; -f replaces it"));
        }
        Ok(())
    }

    fn file(&mut self, from: &mut FileNode, dir: &FileNode, to: &To<'_>) -> Result<EntryResult> {
        let temporary = temporary::name_for(name(to.path));
        for _ in 0..TRIES {
            let source = from.open().of_source("cannot be read")?;
            let before = version(from.look().of_source("cannot be looked at")?);
            let len = from.meta.len();
            let (made, is_begun) = begin(dir, &temporary).context("the copy cannot be made")?;
            let mut tick = |bytes| self.tick(bytes);
            let copied = contents::copy(&source, &made, len, is_begun, &mut tick);
            if let Err(trouble) = copied {
                // The next run goes on with it if this one ends.
                if !trouble.is_end {
                    remove(dir, &temporary);
                }
                return Err(trouble);
            }
            if version(from.look().of_source("cannot be looked at")?) != before {
                continue;
            }
            self.finish(from, dir, &temporary, Some(&made), to)?;
            return Ok(EntryResult::File(len));
        }
        remove(dir, &temporary);
        Err(Trouble::new(
            "changed while it was copied; run the command again when nothing writes to it",
        ))
    }

    /// Copies a symbolic link or a special file.
    fn other(&mut self, from: &FileNode, dir: &FileNode, to: &To<'_>) -> Result<EntryResult> {
        let temporary = temporary::name_for(name(to.path));
        remove(dir, &temporary);
        let kind = from.meta.file_type();
        let (made, done) = if kind.is_symlink() {
            let text = from.link_text().of_source("cannot be read")?;
            (
                rustix::fs::symlinkat(text, dir, &temporary),
                EntryResult::Symlink,
            )
        } else {
            let (special, rdev) = if kind.is_fifo() {
                (FileType::Fifo, 0)
            } else if kind.is_socket() {
                (FileType::Socket, 0)
            } else if kind.is_block_device() {
                (FileType::BlockDevice, from.meta.rdev())
            } else {
                (FileType::CharacterDevice, from.meta.rdev())
            };
            let mode = Mode::RUSR | Mode::WUSR;
            let made = rustix::fs::mknodat(dir, &temporary, special, mode, rdev);
            (made, EntryResult::Special)
        };
        made.context("the copy cannot be made")?;
        self.finish(from, dir, &temporary, None, to)?;
        Ok(done)
    }

    /// Gives what was made its attributes, and then its name.
    fn finish(
        &mut self,
        from: &FileNode,
        dir: &FileNode,
        temporary: &OsStr,
        file: Option<&File>,
        to: &To<'_>,
    ) -> Result<()> {
        let made = dir.child(temporary).context("the copy cannot be found")?;
        // Another user of the directory may have put something else there, and must not get it as a gift.
        let mut made = made
            .filter(|made| match file.map(File::metadata) {
                Some(meta) => meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == made.identity()),
                None => made.meta.file_type() == from.meta.file_type() && is_own(made),
            })
            .ok_or_else(|| Trouble::new("the copy was exchanged by another program"))?;
        self.keep(from, &mut made, true, to.path);
        name_it(dir, temporary, to)
    }

    /// Makes another name of a file that was copied. None if that is not possible: then it is copied again.
    fn link(&mut self, from: &FileNode, to: &To<'_>) -> Result<Option<EntryResult>> {
        let first = self.firsts.get(&from.identity());
        let Some(first) = first.filter(|first| first.version == version(&from.meta)) else {
            return Ok(None);
        };
        if let Some(old) = &to.old {
            if Some(old.identity()) == first.made {
                return Ok(Some(EntryResult::Equal));
            }
            self.may_replace(from, old)?;
        }
        let (Some(dir), false) = (to.dir, self.args.dry_run) else {
            return Ok(Some(EntryResult::Link));
        };
        let made = self.to_root.child(&first.path);
        let made = made.context("its other name cannot be found")?;
        let Some(made) = made.filter(|made| Some(made.identity()) == first.made) else {
            return Ok(None);
        };
        let temporary = temporary::name_for(name(to.path));
        remove(dir, &temporary);
        let flags = AtFlags::SYMLINK_FOLLOW;
        match rustix::fs::linkat(CWD, made.proc_path(), dir, &temporary, flags) {
            Ok(()) => {
                name_it(dir, &temporary, to)?;
                Ok(Some(EntryResult::Link))
            }
            Err(Errno::XDEV) => {
                let why = "it is in another dataset than its other name, so it is no hard link there, but a copy";
                self.leave(to.path, Trouble::new(why));
                Ok(None)
            }
            Err(error) => Err(Trouble::of("the hard link cannot be made", error)),
        }
    }

    /// Gives a copy the attributes of its source, and notes what cannot be kept.
    pub(crate) fn keep(
        &mut self,
        from: &FileNode,
        to: &mut FileNode,
        is_new: bool,
        path: &Path,
    ) -> bool {
        let kept = attributes::keep(from, to, is_new, self.rules);
        if !kept.failures.is_empty() {
            let why = format!("copied, but {}", kept.failures.join("; "));
            self.leave(path, Trouble::new(why));
        }
        // A server of NFSv4 has one for each file, so one line is enough.
        if let Some(name) = kept.other_acl.filter(|_| !self.has_other_acls) {
            self.has_other_acls = true;
            let why = format!(
                "copied, but its ACL in {name} cannot be kept, nor that of any other file: only POSIX ACLs are"
            );
            self.leave(path, Trouble::new(why));
        }
        kept.is_changed
    }

    /// Reports something that is left out, or that differs from the source.
    pub(crate) fn leave(&mut self, path: &Path, trouble: Trouble) {
        let path = self.source_path(path);
        self.tally.leave(&path, &trouble);
    }

    fn source_path(&self, path: &Path) -> PathBuf {
        match path.as_os_str().is_empty() {
            true => self.args.source.clone(),
            false => self.args.source.join(path),
        }
    }
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Returns whether this process made it, and it has no other name.
pub(crate) fn is_own(node: &FileNode) -> bool {
    let is_single = node.meta.is_dir() || node.meta.nlink() == 1;
    is_single && node.meta.uid() == rustix::process::geteuid().as_raw()
}

/// The file that a copy is written to, and whether an earlier run has begun it.
fn begin(dir: &FileNode, name: &OsStr) -> std::io::Result<(File, bool)> {
    if let Some(old) = dir.child(name)? {
        if old.meta.is_file() && is_own(&old) {
            let opened = dir.open_child(name, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
            if let Ok(file) = opened {
                lock(&file)?;
                // It may have got its name, or gone, before it was locked.
                let meta = file.metadata()?;
                let identity = (meta.dev(), meta.ino());
                if identity == old.identity()
                    && (dir.child(name)?).is_some_and(|now| now.identity() == identity)
                {
                    return Ok((file, true));
                }
            }
        }
        rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = dir.open_child(name, flags, Mode::RUSR | Mode::WUSR)?;
    lock(&file)?;
    Ok((file, false))
}

/// Locks a file that is begun. The lock of the target keeps no other copy out of a directory inside of it.
fn lock(file: &File) -> std::io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => std::io::Error::other("another command copies it"),
        TryLockError::Error(error) => error,
    })
}

/// Removes a file that an earlier run has begun, unless another command copies into it now.
pub(crate) fn remove_unfinished(dir: &FileNode, name: &OsStr) {
    let begun = dir.child(name).ok().flatten();
    let file = begun.filter(|begun| begun.meta.is_file());
    let file = file.and_then(|begun| begun.open().ok());
    let is_free = file
        .as_ref()
        .is_none_or(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
    if is_free {
        remove(dir, name);
    }
}

fn remove(dir: &FileNode, name: &OsStr) {
    let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
}

/// Gives a finished copy its name. What has the name now is replaced only if it is as it was when it was looked at.
fn name_it(dir: &FileNode, temporary: &OsStr, to: &To<'_>) -> Result<()> {
    let name = name(to.path);
    if let Some(old) = &to.old {
        let seen = |node: &FileNode| (node.identity(), version(&node.meta));
        let now = dir.child(name).context("the target cannot be looked at")?;
        if now.is_some_and(|now| seen(&now) != seen(old)) {
            remove(dir, temporary);
            return Err(Trouble::new(
                "another program changed it in the target meanwhile; run the command again",
            ));
        }
    }
    let replace = || rustix::fs::renameat(dir, temporary, dir, name);
    let done = match to.old {
        Some(_) => replace(),
        None => {
            match rustix::fs::renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => replace(),
                done => done,
            }
        }
    };
    if done.is_err() {
        remove(dir, temporary);
    }
    match done {
        Err(Errno::EXIST) => Err(Trouble::new(
            "another program made it in the target meanwhile; run the command again",
        )),
        done => done.context("the copy cannot get its name"),
    }
}
