//! Moves what lies in a directory into a dataset. Each entry is here or there, or both, whatever ends the process.
//! Copies get their names in the dataset when all are complete and durable. Only then is anything removed.
//!
//! Directories are entered by descriptors. No link is followed, and nothing is removed on another mount.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use console::outcome::Result;
use console::session::other;
use homes::stack::run::more_files;
use protocol::api::{Failure, FailureKind};
use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use crate::args::Adopt;
use crate::copy::comparison::{failed_at, has_files, is_copy, is_equal, names};
use crate::copy::copier::{Copier, is_own};
use crate::copy::node::FileNode;
use crate::place::{self, FileSystems};
use crate::walk::walk_names;

/// Copies are here in the dataset until all of them are complete.
const STAGE: &str = ".strongroom-take-in";
/// The most names that a message has.
const NAMES_MAX: usize = 3;

/// The entries of the directory.
#[derive(Default)]
struct TakeInPlan {
    /// The dataset has nothing of these names.
    new: Vec<OsString>,
    /// The dataset has copies: an earlier run ended before it removed these.
    copied: Vec<OsString>,
    /// The dataset has something else of these names.
    conflicts: Vec<OsString>,
}

/// Returns whether a directory that is to be taken in has any entries. A directory that is closed has none.
pub fn has_entries(dir: &Path) -> Result<bool> {
    match place::open(dir) {
        Err(missing) if missing.kind == FailureKind::NotFound => Ok(false),
        opened => Ok(!names(&opened?, dir)?.is_empty()),
    }
}

/// Moves all entries of a directory into the root of a dataset that is mounted at `target`, and returns their number.
pub fn take_in(source: &Path, target: &Path) -> Result<u64> {
    let (from, to) = (place::open(source)?, place::open(target)?);
    more_files();
    let mut places = FileSystems::default();
    let checked = places.check(to.meta.dev());
    checked.map_err(|trouble| other(format!("'{}': {}", target.display(), trouble.why)))?;
    let plan = plan(&from, &to, source)?;
    if !plan.conflicts.is_empty() {
        return Err(conflict(source, &plan.conflicts));
    }
    clear_stage(&to)?;
    if !plan.new.is_empty() {
        let copied = copy(&from, &to, source, places, &plan.new);
        if copied.is_err() {
            clear_stage(&to)?;
        }
        copied?;
        name_copies(&to, &plan.new)?;
    }
    let mut left = Vec::new();
    for name in plan.new.iter().chain(&plan.copied) {
        remove(&from, &to, name, &source.join(name), &mut left);
    }
    match left.first() {
        None => Ok((plan.new.len() + plan.copied.len()) as u64),
        Some(first) => Err(other(format!(
            "copied into the dataset, but not removed: {first}{}; look at it, and run the command again",
            others(left.len() - 1)
        ))),
    }
}

fn cannot(what: &str, path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| other(format!("'{}' {what}: {error}", path.display()))
}

fn plan(from: &FileNode, to: &FileNode, source: &Path) -> Result<TakeInPlan> {
    let mut plan = TakeInPlan::default();
    for name in names(from, source)? {
        let path = source.join(&name);
        let entry = from.child_on_mount(&name).map_err(failed_at(&path))?;
        let Some(entry) = entry else { continue };
        let has_files = !entry.meta.is_dir() || has_files(&entry, &path)?;
        if !has_files && entry.is_closed() {
            // The directory of a dataset that is not mounted.
            continue;
        }
        let there = to
            .child(&name)
            .map_err(cannot("cannot be looked at in the dataset", &path))?;
        match there {
            None => plan.new.push(name),
            Some(there) if !has_files && there.meta.is_dir() => plan.copied.push(name),
            Some(there)
                if is_equal(&entry, &there).map_err(cannot("cannot be compared", &path))? =>
            {
                plan.copied.push(name);
            }
            Some(_) => plan.conflicts.push(name),
        }
    }
    Ok(plan)
}

fn conflict(source: &Path, names: &[OsString]) -> Failure {
    let first: Vec<String> = { names.iter().take(NAMES_MAX) }
        .map(|name| format!("'{}'", name.to_string_lossy()))
        .collect();
    let others = others(names.len() - first.len());
    Failure::new(
        FailureKind::Exists,
        format!(
            "nothing is taken in: the dataset has something else of the name {}{others}; rename that in '{}'",
            first.join(", "),
            source.display()
        ),
    )
}

fn others(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        _ => format!(" and {number} others"),
    }
}

/// Copies entries, verifies them, and makes them durable.
fn copy(
    from: &FileNode,
    to: &FileNode,
    source: &Path,
    places: FileSystems,
    names: &[OsString],
) -> Result<()> {
    let stage = |error| other(format!("cannot make '{STAGE}' in the dataset: {error}"));
    rustix::fs::mkdirat(to, STAGE, Mode::RWXU).map_err(|error| stage(error.into()))?;
    let made = || {
        to.child(STAGE)
            .transpose()
            .unwrap_or_else(|| Err(Errno::NOENT.into()))
    };
    let args = Adopt::of_entries(source, Path::new(STAGE));
    let copier = Copier::of_entries(&args, made().map_err(stage)?)?;
    let source_dir = place::open(source)?;
    if source_dir.identity() != from.identity() {
        return Err(other("the directory was exchanged by another program"));
    }
    let stage_dir = made().map_err(stage)?;
    let copier = walk_names(copier, places, (source_dir, stage_dir), names.to_vec());
    match copier.tally.failure() {
        None => Ok(()),
        Some(kind) => Err(Failure::new(
            kind,
            "nothing was moved: not all could be copied as it is; see the errors above".to_owned(),
        )),
    }
}

/// Gives the copies their names in the dataset.
fn name_copies(to: &FileNode, names: &[OsString]) -> Result<()> {
    let failed = |name: &OsStr, error: std::io::Error| {
        other(format!(
            "nothing was removed: the copy of '{}' cannot get its name: {error}; run the command again",
            name.to_string_lossy()
        ))
    };
    let stage = to.child(STAGE);
    let stage = stage.and_then(|stage| stage.ok_or_else(|| Errno::NOENT.into()));
    let stage = stage.map_err(|error| failed(OsStr::new(STAGE), error))?;
    for name in names {
        rustix::fs::renameat_with(&stage, name, to, name, RenameFlags::NOREPLACE)
            .map_err(|error| failed(name, error.into()))?;
    }
    let is_durable = rustix::fs::unlinkat(to, STAGE, AtFlags::REMOVEDIR)
        .map_err(Into::into)
        .and_then(|()| to.open()?.sync_all());
    is_durable.map_err(|error| failed(OsStr::new(STAGE), error))
}

/// Removes the copies of a run that did not end. Their sources are all there.
fn clear_stage(to: &FileNode) -> Result<()> {
    let failed = |error| {
        other(format!(
            "'{STAGE}' in the dataset cannot be removed: {error}"
        ))
    };
    match to.child(STAGE).map_err(failed)? {
        None => Ok(()),
        Some(stage) if stage.meta.is_dir() && is_own(&stage) => {
            clear(&stage).map_err(failed)?;
            rustix::fs::unlinkat(to, STAGE, AtFlags::REMOVEDIR)
                .map_err(|error| failed(error.into()))
        }
        Some(_) => Err(Failure::new(
            FailureKind::Exists,
            format!("'{STAGE}' in the dataset belongs to another user; remove it first"),
        )),
    }
}

fn clear(dir: &FileNode) -> std::io::Result<()> {
    for name in dir.names()? {
        let Some(entry) = dir.child_on_mount(&name)? else {
            continue;
        };
        let flags = match entry.meta.is_dir() {
            true => {
                clear(&entry)?;
                AtFlags::REMOVEDIR
            }
            false => AtFlags::empty(),
        };
        rustix::fs::unlinkat(dir, &name, flags)?;
    }
    Ok(())
}

/// Removes an entry that the dataset has, with all that is in it. What changed since it was copied is left, and named.
fn remove(from: &FileNode, to: &FileNode, name: &OsStr, path: &Path, left: &mut Vec<String>) {
    let mut leave = |why: &str| left.push(format!("'{}' {why}", path.display()));
    let (entry, copy) = match (from.child_on_mount(name), to.child(name)) {
        (Ok(Some(entry)), Ok(Some(copy))) => (entry, copy),
        (Ok(None), _) => return,
        _ => return leave("cannot be opened"),
    };
    if !is_copy(&entry, &copy) {
        return leave("changed meanwhile");
    }
    let flags = match entry.meta.is_dir() {
        true => {
            let Ok(names) = entry.names() else {
                return leave("cannot be listed");
            };
            for name in names {
                remove(&entry, &copy, &name, &path.join(&name), left);
            }
            AtFlags::REMOVEDIR
        }
        false => AtFlags::empty(),
    };
    if let Err(error) = rustix::fs::unlinkat(from, name, flags)
        && error != Errno::NOTEMPTY
    {
        left.push(format!("'{}': {error}", path.display()));
    }
}
