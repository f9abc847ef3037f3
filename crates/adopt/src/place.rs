//! The target of a copy: a mounted dataset or stacked directory, and nothing inside of the source.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use console::mount_type;
use console::session::usage;
use protocol::api::{Failure, FailureKind};

use crate::copy::node::FileNode;
use crate::trouble::{Result, Trouble, TroubleContext};

/// The file systems that were looked at, and whether they are Strongroom's.
#[derive(Default)]
pub(crate) struct FileSystems(HashMap<u64, bool>);

impl FileSystems {
    /// Refuses a file system that stores files as they are.
    pub(crate) fn check(&mut self, device: u64) -> Result<()> {
        let is_known = self.0.get(&device).copied();
        let is_ours = match is_known {
            Some(is_ours) => is_ours,
            None => {
                let kind =
                    mount_type::of_device(device).context("the list of mounts cannot be read")?;
                let ours = [mount_type::DATASET, mount_type::STACKED];
                kind.is_some_and(|kind| ours.contains(&kind.as_str()))
            }
        };
        self.0.insert(device, is_ours);
        match is_ours {
            true => Ok(()),
            false => Err(Trouble::new(
                "not in a mounted dataset or stacked directory, so files would be stored as they are; mount it first",
            )),
        }
    }
}

/// Opens one of the two directories.
pub(crate) fn open(path: &Path) -> std::result::Result<FileNode, Failure> {
    FileNode::root(path).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => FailureKind::NotFound,
            io::ErrorKind::NotADirectory => FailureKind::Usage,
            io::ErrorKind::PermissionDenied => FailureKind::Permission,
            _ => FailureKind::Other,
        };
        Failure::new(kind, format!("cannot open '{}': {error}", path.display()))
    })
}

/// Refuses a directory that is inside of the other one.
pub(crate) fn check_apart(from: &FileNode, to: &FileNode) -> std::result::Result<(), Failure> {
    let inside = |a: &FileNode, b: &FileNode| {
        is_inside(a, b).map_err(|error| Failure::other(format!("cannot look at '..': {error}")))
    };
    match inside(from, to)? || inside(to, from)? {
        true => Err(usage(APART)),
        false => Ok(()),
    }
}

/// Refuses a directory for a new one that is the source, or inside of it.
pub(crate) fn check_outside(
    source: &FileNode,
    above: &FileNode,
) -> std::result::Result<(), Failure> {
    let inside = is_inside(above, source);
    match inside.map_err(|error| Failure::other(format!("cannot look at '..': {error}")))? {
        true => Err(usage(APART)),
        false => Ok(()),
    }
}

const APART: &str =
    "one of the two directories is the other, or inside of it; name directories beside each other";

fn is_inside(dir: &FileNode, outer: &FileNode) -> io::Result<bool> {
    if dir.identity() == outer.identity() {
        return Ok(true);
    }
    let mut above = dir.parent()?;
    loop {
        if above.identity() == outer.identity() {
            return Ok(true);
        }
        let next = above.parent()?;
        if next.identity() == above.identity() {
            return Ok(false);
        }
        above = next;
    }
}
