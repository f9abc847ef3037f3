//! A version of a file that is copied back from a snapshot.

use std::ffi::OsStr;
use std::fs::TryLockError;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use console::outcome::{Outcome, Result};
use console::session::{other, usage};
use homes::stack::run::more_files;
use protocol::api::{Failure, FailureKind};

use crate::args::Adopt;
use crate::copy::comparison::is_equal;
use crate::copy::copier::Copier;
use crate::copy::node::{FileNode, version};
use crate::place::{self, FileSystems};
use crate::versions::args::VersionsArgs;
use crate::versions::list::present;
use crate::versions::location::FileLocation;
use crate::walk::walk_names;

/// Copies the version of a snapshot back.
pub(crate) fn restore(
    location: &FileLocation,
    snapshot: &str,
    args: &VersionsArgs,
    as_json: bool,
) -> Result<Outcome> {
    // The dataset is that of the file: with the name of another one, the snapshot would be a different one.
    let name = snapshot.strip_prefix('@').unwrap_or(snapshot);
    if name.is_empty() || name.contains(['/', '@']) || name == "." || name == ".." {
        return Err(usage(format!(
            "'{snapshot}' is not the name of a snapshot; leave out the dataset, which is that of the file"
        )));
    }
    let (from, found) = version_of(location, name, args)?;
    let to = target(location, args)?;
    check_present(location, &found, &to, args)?;
    more_files();
    let mut places = FileSystems::default();
    let checked = places.check(to.meta.dev());
    checked.map_err(|trouble| usage(format!("the target: {}", trouble.why)))?;
    let lock = lock(&to)?;
    let source = location.mountpoint.join(FileLocation::snapshot(name));
    let source = source.join(location.path.parent().unwrap_or(Path::new("")));
    let adopt = Adopt {
        force: true,
        checksum: true,
        ..Adopt::of_entries(&source, args.to.as_deref().unwrap_or(&location.mountpoint))
    };
    let root = to
        .child(".")
        .and_then(|root| root.ok_or(std::io::ErrorKind::NotFound.into()));
    let root = root.map_err(|error| other(format!("cannot open the target: {error}")))?;
    let copier = Copier::of_entries(&adopt, root)?;
    let copier = walk_names(copier, places, (from, to), vec![location.name().to_owned()]);
    drop(lock);
    Ok(copier.tally.outcome(as_json))
}

/// The directory of the file in a snapshot, and the file.
fn version_of(
    location: &FileLocation,
    snapshot: &str,
    args: &VersionsArgs,
) -> Result<(FileNode, FileNode)> {
    let cannot = |error| other(format!("cannot look into '{snapshot}': {error}"));
    let missing = |what: String| Err(Failure::new(FailureKind::NotFound, what));
    let top = location.root.child(FileLocation::snapshot(snapshot));
    let Some(top) = top.map_err(cannot)? else {
        return missing(format!(
            "there is no snapshot '{snapshot}'; 'strongroom versions {}' lists those that have the file",
            args.file.display()
        ));
    };
    let found = location.in_snapshot(OsStr::new(snapshot)).map_err(cannot)?;
    let above = match location
        .path
        .parent()
        .filter(|above| *above != Path::new(""))
    {
        Some(above) => top.child(above),
        None => Ok(Some(top)),
    };
    match (above, found) {
        (Ok(Some(above)), Some(found)) => Ok((above, found)),
        (Err(error), Some(_)) => Err(cannot(error)),
        _ => missing(format!(
            "'{snapshot}' does not have it; 'strongroom versions {}' lists the snapshots that do",
            args.file.display()
        )),
    }
}

/// The directory into which the version is copied.
fn target(location: &FileLocation, args: &VersionsArgs) -> Result<FileNode> {
    if let Some(dir) = &args.to {
        return place::open(dir);
    }
    let dir = location.dir.as_ref().map(|dir| dir.child("."));
    match dir.transpose() {
        Ok(Some(Some(dir))) => Ok(dir),
        Ok(_) => Err(Failure::new(
            FailureKind::NotFound,
            format!(
                "the directory of '{}' is gone; restore that, or name another one with --to",
                args.file.display()
            ),
        )),
        Err(error) => Err(other(format!("cannot open the target: {error}"))),
    }
}

/// Refuses to replace what no snapshot has, unless that is wanted.
fn check_present(
    location: &FileLocation,
    from: &FileNode,
    to: &FileNode,
    args: &VersionsArgs,
) -> Result<()> {
    let Some(present) = present(to, location.name())? else {
        return Ok(());
    };
    if args.force {
        return Ok(());
    }
    let exists = |what: &str| Err(Failure::new(FailureKind::Exists, what.to_owned()));
    let shown = args.file.display();
    if from.meta.is_dir() && present.meta.is_dir() {
        return exists(&format!(
            "the directory '{shown}' exists; with -f, files in it are replaced by those of the snapshot"
        ));
    }
    let is_in_place = { location.dir.as_ref() }.is_some_and(|dir| dir.identity() == to.identity());
    if !is_in_place {
        return exists(&format!(
            "the target has something of the name of '{shown}'; -f replaces it"
        ));
    }
    match is_kept(location, &present)? {
        true => Ok(()),
        false => exists(&format!(
            "the present version of '{shown}' is in no snapshot; take a snapshot first, replace it with -f, \
             or restore elsewhere with --to"
        )),
    }
}

/// Returns whether a snapshot has the present version. One that was restored before has another time of its last change.
fn is_kept(location: &FileLocation, present: &FileNode) -> Result<bool> {
    let cannot = |error| other(format!("cannot compare it with the snapshots: {error}"));
    for name in location.snapshots().map_err(cannot)? {
        // A snapshot that cannot be read keeps nothing that can be relied on.
        let Ok(Some(found)) = location.in_snapshot(&name) else {
            continue;
        };
        let is_same = (found.meta.file_type(), version(&found.meta))
            == (present.meta.file_type(), version(&present.meta));
        if is_same || !present.meta.is_dir() && is_equal(&found, present).map_err(cannot)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Locks the target, so that no other copy takes files of this one for its own.
fn lock(to: &FileNode) -> Result<std::fs::File> {
    let opened = to.open();
    let opened = opened.map_err(|error| other(format!("cannot open the target: {error}")))?;
    match opened.try_lock() {
        Ok(()) => Ok(opened),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            FailureKind::Busy,
            "another command copies into the target",
        )),
        Err(TryLockError::Error(error)) => Err(other(format!("cannot lock the target: {error}"))),
    }
}
