//! The versions of a file.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use console::outcome::{Outcome, Result};
use console::session::{other, usage};
use console::show::table::Column;
use console::show::{json, size, table, time};
use protocol::accounts::user_name;
use protocol::api::{Failure, FailureKind};
use rustix::io::Errno;
use serde::Serialize;

use crate::copy::node::{FileNode, version};
use crate::versions::args::VersionsArgs;
use crate::versions::location::FileLocation;

/// A version of a file, and the snapshots that have it.
#[derive(Serialize)]
pub(crate) struct StoredVersion {
    kind: &'static str,
    /// The time of the last change of the contents, in seconds since 1970.
    changed: i64,
    bytes: u64,
    uid: u32,
    user: Option<String>,
    /// The oldest first.
    pub(crate) snapshots: Vec<String>,
    /// The dataset has this version at present.
    pub(crate) is_present: bool,
    #[serde(skip)]
    meta: Metadata,
}

/// A snapshot in which the file could not be looked at.
#[derive(Serialize)]
struct UnreadableSnapshot {
    snapshot: String,
    reason: String,
}

/// The versions of a file, the oldest first.
#[derive(Default, Serialize)]
pub(crate) struct VersionList {
    pub(crate) versions: Vec<StoredVersion>,
    unreadable: Vec<UnreadableSnapshot>,
}

impl VersionList {
    /// Looks for a file in all snapshots and in the dataset.
    pub(crate) fn find(location: &FileLocation) -> Result<VersionList> {
        let snapshots = location.snapshots();
        let snapshots =
            snapshots.map_err(|error| other(format!("cannot list the snapshots: {error}")))?;
        let mut list = VersionList::default();
        for name in snapshots {
            let snapshot = name.to_string_lossy().into_owned();
            match location.in_snapshot(&name) {
                Ok(Some(found)) => list.add(found.meta, Some(snapshot)),
                Ok(None) => {}
                Err(error) => list.unreadable.push(UnreadableSnapshot {
                    snapshot,
                    reason: error.to_string(),
                }),
            }
        }
        if let Some(dir) = &location.dir {
            let present = present(dir, location.name())?;
            if let Some(present) = present {
                list.add(present.meta, None);
            }
        }
        Ok(list)
    }

    /// Adds what a snapshot has, or what the dataset has now.
    fn add(&mut self, meta: Metadata, snapshot: Option<String>) {
        let is_same = |known: &StoredVersion| {
            known.meta.file_type() == meta.file_type() && version(&known.meta) == version(&meta)
        };
        if !self.versions.last().is_some_and(is_same) {
            self.versions.push(StoredVersion::new(meta));
        }
        let Some(known) = self.versions.last_mut() else {
            return;
        };
        known.is_present |= snapshot.is_none();
        known.snapshots.extend(snapshot);
    }
}

impl StoredVersion {
    fn new(meta: Metadata) -> StoredVersion {
        StoredVersion {
            kind: kind(&meta),
            changed: meta.mtime(),
            bytes: meta.len(),
            uid: meta.uid(),
            user: user_name(meta.uid()),
            snapshots: Vec::new(),
            is_present: false,
            meta,
        }
    }

    fn cells(&self, script: bool) -> Vec<String> {
        let owner = match (&self.user, script) {
            (Some(name), false) => name.clone(),
            _ => self.uid.to_string(),
        };
        let changed = match script {
            true => self.changed.to_string(),
            false => time::second(self.changed.max(0) as u64),
        };
        let (bytes, places) = (size::show(self.bytes, script), self.places(script));
        vec![changed, bytes, owner, self.kind.into(), places]
    }

    /// The snapshots, as the first and the last one if there are more than two.
    fn places(&self, script: bool) -> String {
        let mut places = match self.snapshots.as_slice() {
            [first, .., last] if !script && self.snapshots.len() > 2 => {
                vec![format!("{first} to {last} ({})", self.snapshots.len())]
            }
            all => all.to_vec(),
        };
        places.extend(self.is_present.then(|| "now".to_owned()));
        places.join(match script {
            true => ",",
            false => ", ",
        })
    }
}

fn kind(meta: &Metadata) -> &'static str {
    let kind = meta.file_type();
    if kind.is_file() {
        "file"
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_symlink() {
        "symlink"
    } else if kind.is_fifo() {
        "fifo"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// The entry of this name in a directory of the dataset. Another dataset may be mounted there.
pub(crate) fn present(dir: &FileNode, name: &OsStr) -> Result<Option<FileNode>> {
    dir.child_on_mount(name).map_err(|error| {
        let shown = Path::new(name).display();
        match Errno::from_io_error(&error) {
            Some(Errno::XDEV) => usage(format!(
                "something else is mounted at '{shown}'; name a file in it"
            )),
            _ => other(format!("cannot look at '{shown}': {error}")),
        }
    })
}

pub(crate) fn show(location: &FileLocation, args: &VersionsArgs, as_json: bool) -> Result<Outcome> {
    let list = VersionList::find(location)?;
    let failures: Vec<Failure> = { list.unreadable.iter() }
        .map(|lacking| {
            let why = format!(
                "cannot look into '{}': {}",
                lacking.snapshot, lacking.reason
            );
            Failure::new(FailureKind::Other, why)
        })
        .collect();
    let has_none = list
        .versions
        .iter()
        .all(|version| version.snapshots.is_empty());
    if has_none && failures.is_empty() {
        return Err(Failure::new(
            FailureKind::NotFound,
            format!("no snapshot has '{}'", args.file.display()),
        ));
    }
    let heads = [
        Column::left("CHANGED"),
        Column::right("SIZE"),
        Column::left("OWNER"),
        Column::left("KIND"),
        Column::left("SNAPSHOTS"),
    ];
    let rows: Vec<_> = { list.versions.iter() }
        .map(|version| version.cells(args.script))
        .collect();
    let text = match as_json {
        true => json::show(&list),
        false => table::show(&heads, &rows, args.script),
    };
    Ok(Outcome {
        text,
        failures,
        ..Outcome::done()
    })
}
