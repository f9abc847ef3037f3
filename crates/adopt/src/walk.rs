//! Goes through the directories, by descriptors. Each directory gets its attributes when all in it is done.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rustix::fs::Mode;

use crate::copy::attributes;
use crate::copy::copier::{Copier, To, is_own, remove_unfinished};
use crate::copy::node::{FileId, FileNode, version};
use crate::copy::temporary;
use crate::place::FileSystems;
use crate::tally::EntryResult;
use crate::trouble::{Result, Trouble, TroubleContext};

/// A directory that is being copied.
struct Level {
    from: FileNode,
    /// Missing in a dry run if it would be made.
    to: Option<FileNode>,
    names: IntoIter<OsString>,
    /// True if the directory in the target gets the attributes of its source.
    is_given: bool,
    is_changed: bool,
}

pub(crate) struct TreeWalk<'a> {
    copier: Copier<'a>,
    places: FileSystems,
    levels: Vec<Level>,
    /// The path of the last level, below SOURCE and TARGET.
    path: PathBuf,
    /// None in a dry run if it would be made.
    target: Option<FileId>,
    /// True if nothing is copied into what is mounted in the target.
    stays_on_mount: bool,
}

/// The greatest depth of directories: each level has two open files.
const DEPTH_MAX: usize = 1000;

/// Copies what is in one directory into the other, which is missing in a dry run if it would be made.
pub(crate) fn walk<'a>(
    copier: Copier<'a>,
    places: FileSystems,
    from: FileNode,
    to: Option<FileNode>,
) -> Copier<'a> {
    let mut walk = TreeWalk::new(copier, places, to.as_ref());
    if let Err(trouble) = walk.enter(from, to, true) {
        walk.copier.leave(Path::new(""), trouble);
    }
    go(walk)
}

/// Copies entries of one directory into the other, which keeps its attributes. What is mounted in the target stays as it
/// is.
pub(crate) fn walk_names<'a>(
    copier: Copier<'a>,
    places: FileSystems,
    (from, to): (FileNode, FileNode),
    names: Vec<OsString>,
) -> Copier<'a> {
    let mut walk = TreeWalk::new(copier, places, Some(&to));
    walk.stays_on_mount = true;
    walk.enter_names(from, Some(to), false, names);
    go(walk)
}

fn go(mut walk: TreeWalk<'_>) -> Copier<'_> {
    while let Some(level) = walk.levels.last_mut() {
        let (path, done) = match level.names.next() {
            Some(name) => {
                let path = walk.path.join(name);
                let done = walk.entry(&path);
                (path, done)
            }
            None => {
                let Some(level) = walk.levels.pop() else {
                    break;
                };
                let path = walk.path.clone();
                walk.path.pop();
                let done = walk.finish(level, &path);
                (path, done)
            }
        };
        if let Err(mut trouble) = done {
            let is_end = trouble.is_end;
            if is_end {
                trouble.why += "; what comes after it was not looked at";
            }
            walk.copier.leave(&path, trouble);
            if is_end {
                break;
            }
        }
    }
    walk.copier
}

impl<'a> TreeWalk<'a> {
    fn new(copier: Copier<'a>, places: FileSystems, to: Option<&FileNode>) -> TreeWalk<'a> {
        TreeWalk {
            copier,
            places,
            levels: Vec::new(),
            path: PathBuf::new(),
            target: to.map(FileNode::identity),
            stays_on_mount: false,
        }
    }

    fn enter(&mut self, from: FileNode, to: Option<FileNode>, is_given: bool) -> Result<()> {
        let names = from.names().of_source("cannot be listed")?;
        self.enter_names(from, to, is_given, names);
        Ok(())
    }

    fn enter_names(
        &mut self,
        from: FileNode,
        to: Option<FileNode>,
        is_given: bool,
        names: Vec<OsString>,
    ) {
        self.levels.push(Level {
            from,
            to,
            names: names.into_iter(),
            is_given,
            is_changed: false,
        });
    }

    fn entry(&mut self, path: &Path) -> Result<()> {
        self.copier.tick(0)?;
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default();
        if temporary::is_one(name) {
            return Err(Trouble::new(
                "a file that another copy did not finish; it is not copied",
            ));
        }
        let from = level.from.child(name).of_source("cannot be opened")?;
        let Some(mut from) = from else {
            return Err(Trouble::new("went away while SOURCE was copied"));
        };
        let old = match &level.to {
            Some(dir) => dir.child(name).context("the target cannot be looked at")?,
            None => None,
        };
        if from.meta.is_dir() {
            return self.directory(from, old, path);
        }
        let mut to = To {
            dir: level.to.as_ref(),
            old,
            path,
        };
        let done = self.copier.copy(&mut from, &mut to)?;
        level.is_changed |= done != EntryResult::Equal;
        self.copier.tally.add(path, done);
        Ok(())
    }

    fn directory(&mut self, from: FileNode, old: Option<FileNode>, path: &Path) -> Result<()> {
        if self.levels.len() >= DEPTH_MAX {
            return Err(Trouble::new(format!(
                "more than {DEPTH_MAX} directories are in each other; nothing in it was copied"
            )));
        }
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        if Some(from.identity()) == self.target {
            return Err(Trouble::new(
                "it is the target; it is not copied into itself",
            ));
        }
        let is_mount = from.meta.dev() != level.from.meta.dev();
        let device = level.to.as_ref().map(|dir| dir.meta.dev());
        let (made, done, is_given) = match old {
            Some(old) if !old.meta.is_dir() => {
                return Err(Trouble::new(
                    "something else has the name of this directory in the target; move it away",
                ));
            }
            Some(old) => {
                if Some(old.meta.dev()) != device && self.stays_on_mount {
                    return Err(Trouble::new(
                        "something is mounted there; it was left as it is",
                    ));
                }
                if Some(old.meta.dev()) != device {
                    self.places.check(old.meta.dev())?;
                }
                let is_empty_mount = Some(old.meta.dev()) != device
                    && (old.names().context("the target cannot be listed")?).is_empty();
                let is_given = self.may_give(&from, &old, is_empty_mount)?;
                (Some(old), EntryResult::Equal, is_given)
            }
            None => {
                let made = match (&level.to, self.copier.args.dry_run) {
                    (Some(dir), false) => {
                        Some(make(dir, path).context("the directory cannot be made")?)
                    }
                    _ => None,
                };
                level.is_changed = true;
                (made, EntryResult::Directory, true)
            }
        };
        self.copier.tally.add(path, done);
        match is_mount && self.copier.args.one_file_system {
            true => Ok(()),
            false => {
                self.enter(from, made, is_given)?;
                self.path = path.to_owned();
                Ok(())
            }
        }
    }

    /// Returns whether a directory of the target may get the owner, mode and ACLs of its source. If another user owns
    /// it, this user has made it, and keeps it. A new dataset that is mounted there belongs to root until its first
    /// copy.
    fn may_give(&self, from: &FileNode, old: &FileNode, is_empty_mount: bool) -> Result<bool> {
        if !self.copier.is_of_another(from, old) || attributes::is_marked(old) {
            return Ok(true);
        }
        if self.copier.args.no_owner {
            return Ok(false);
        }
        if !is_empty_mount {
            return Err(Trouble::new(format!(
                "the directory in the target belongs to the user {}, and this one to {}; nothing in it was copied. \
                 Give both the same owner, or move one away",
                old.meta.uid(),
                from.meta.uid()
            )));
        }
        if !self.copier.args.dry_run {
            attributes::mark(old);
        }
        Ok(true)
    }

    /// Gives a directory its attributes, and makes its names durable.
    fn finish(&mut self, mut level: Level, path: &Path) -> Result<()> {
        let before = version(&level.from.meta);
        if let Some(to) = level.to.as_mut().filter(|_| !self.copier.args.dry_run) {
            let names = to.names().context("the target cannot be listed")?;
            for name in names.iter().filter(|name| temporary::is_one(name)) {
                remove_unfinished(to, name);
                level.is_changed = true;
            }
            if level.is_given {
                level.is_changed |= self.copier.keep(&level.from, to, false, path);
                level.is_changed |= attributes::unmark(to);
            }
            if level.is_changed {
                let synced = to.open().and_then(|dir| dir.sync_all());
                synced.context("the directory cannot be made durable")?;
            }
        }
        let after = level.from.look().of_source("cannot be looked at")?;
        match version(after) == before {
            true => Ok(()),
            false => Err(Trouble::new(
                "changed while it was copied; run the command again for what is new in it",
            )),
        }
    }
}

/// Makes a directory that only this process may use until it is complete.
pub(crate) fn make(dir: &FileNode, path: &Path) -> io::Result<FileNode> {
    let name = path.file_name().unwrap_or_default();
    rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
    let made = dir.child(name)?;
    let made = made
        .filter(|made| made.meta.is_dir() && is_own(made))
        .ok_or_else(|| io::Error::other("another program exchanged it"))?;
    attributes::mark(&made);
    Ok(made)
}
