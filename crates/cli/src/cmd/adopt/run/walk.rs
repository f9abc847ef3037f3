//! Goes through the directories, by descriptors. Each directory gets its attributes when all in it is done.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rustix::fs::Mode;

use super::copier::{Copier, To, is_own, remove};
use super::node::{Identity, Node, version};
use super::place::Places;
use super::tally::Done;
use super::temporary;
use super::trouble::{Context, Result, Trouble};

/// A directory that is being copied.
struct Level {
    from: Node,
    /// Missing in a dry run if it would be made.
    to: Option<Node>,
    names: IntoIter<OsString>,
    /// Below SOURCE and TARGET.
    path: PathBuf,
    is_changed: bool,
}

pub(super) struct Walk<'a> {
    copier: Copier<'a>,
    places: Places,
    levels: Vec<Level>,
    target: Identity,
}

/// Copies what is in one directory into the other.
pub(super) fn walk<'a>(copier: Copier<'a>, places: Places, from: Node, to: Node) -> Copier<'a> {
    let target = to.identity();
    let mut walk = Walk {
        copier,
        places,
        levels: Vec::new(),
        target,
    };
    let root = PathBuf::new();
    if let Err(trouble) = walk.enter(from, Some(to), root.clone()) {
        walk.copier
            .tally
            .leave(&walk.copier.source_path(&root), trouble);
    }
    while let Some(level) = walk.levels.last_mut() {
        let (path, done) = match level.names.next() {
            Some(name) => {
                let path = level.path.join(name);
                let done = walk.entry(&path);
                (path, done)
            }
            None => {
                let Some(level) = walk.levels.pop() else {
                    break;
                };
                let path = level.path.clone();
                (path, walk.finish(level))
            }
        };
        if let Err(trouble) = done {
            let is_end = trouble.is_end;
            walk.copier
                .tally
                .leave(&walk.copier.source_path(&path), trouble);
            if is_end {
                break;
            }
        }
    }
    walk.copier
}

impl Walk<'_> {
    fn enter(&mut self, from: Node, to: Option<Node>, path: PathBuf) -> Result<()> {
        let names = from.names().context("cannot be listed")?;
        self.levels.push(Level {
            from,
            to,
            names: names.into_iter(),
            path,
            is_changed: false,
        });
        Ok(())
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
        let from = level.from.child(name).context("cannot be opened")?;
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
        level.is_changed |= done != Done::Equal;
        self.copier.tally.add(path, done);
        Ok(())
    }

    fn directory(&mut self, from: Node, old: Option<Node>, path: &Path) -> Result<()> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        if from.identity() == self.target {
            return Err(Trouble::new(
                "it is the target; it is not copied into itself",
            ));
        }
        let is_mount = from.meta.dev() != level.from.meta.dev();
        let device = level.to.as_ref().map(|dir| dir.meta.dev());
        let (made, done) = match old {
            Some(old) if !old.meta.is_dir() => {
                return Err(Trouble::new(
                    "something else has the name of this directory in the target; move it away",
                ));
            }
            Some(old) => {
                if Some(old.meta.dev()) != device {
                    self.places.check(old.meta.dev())?;
                }
                (Some(old), Done::Equal)
            }
            None => {
                let made = match (&level.to, self.copier.args.dry_run) {
                    (Some(dir), false) => {
                        Some(make(dir, path).context("the directory cannot be made")?)
                    }
                    _ => None,
                };
                level.is_changed = true;
                (made, Done::Directory)
            }
        };
        self.copier.tally.add(path, done);
        match is_mount && self.copier.args.one_file_system {
            true => Ok(()),
            false => self.enter(from, made, path.to_owned()),
        }
    }

    /// Gives a directory its attributes, and makes its names durable.
    fn finish(&mut self, mut level: Level) -> Result<()> {
        let before = version(&level.from.meta);
        if let Some(to) = level.to.as_mut().filter(|_| !self.copier.args.dry_run) {
            let names = to.names().context("the target cannot be listed")?;
            for name in names.iter().filter(|name| temporary::is_one(name)) {
                remove(to, name);
                level.is_changed = true;
            }
            level.is_changed |= self.copier.keep(&level.from, to, false, &level.path);
            if level.is_changed {
                let synced = to.open().and_then(|dir| dir.sync_all());
                synced.context("the directory cannot be made durable")?;
            }
        }
        let after = level.from.look().context("cannot be looked at")?;
        match version(after) == before {
            true => Ok(()),
            false => Err(Trouble::new(
                "changed while it was copied; run the command again for what is new in it",
            )),
        }
    }
}

/// Makes a directory that only this process may use until it is complete.
fn make(dir: &Node, path: &Path) -> io::Result<Node> {
    let name = path.file_name().unwrap_or_default();
    rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
    let made = dir.child(name)?;
    made.filter(|made| made.meta.is_dir() && is_own(made))
        .ok_or_else(|| io::Error::other("another program exchanged it"))
}
