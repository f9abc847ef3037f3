//! The mounts that there are, by the kernel's list, and their end.

use std::path::{Path, PathBuf};

use console::outcome::{Outcome, Result};
use console::show::table::{self, Column};
use console::show::{json, text};
use fuse::ListedMount;
use protocol::api::{Failure, FailureKind};
use serde::Serialize;

use crate::stack::args::StackList;

/// The type of these mounts in the kernel.
pub(crate) const SUBTYPE: &str = "strongroom-stack";

/// A line of `stack list`.
#[derive(Serialize)]
struct MountedDirectoryRow {
    lower: String,
    mountpoint: PathBuf,
    user: u32,
    read_only: bool,
}

pub(crate) fn list(args: &StackList, as_json: bool) -> Outcome {
    let mounts = fuse::listed(SUBTYPE).into_iter();
    let rows: Vec<MountedDirectoryRow> = mounts.map(row).collect();
    if as_json {
        return Outcome::text(json::show(&rows));
    }
    if rows.is_empty() {
        return Outcome::text(match args.script {
            true => "",
            false => "no encrypted directories are mounted\n",
        });
    }
    let columns = [
        Column::left("LOWER"),
        Column::left("MOUNTPOINT"),
        Column::right("USER"),
        Column::left("ACCESS"),
    ];
    let cells = |row: &MountedDirectoryRow| {
        let access = if row.read_only {
            "read-only"
        } else {
            "read-write"
        };
        vec![
            text::in_a_cell(&row.lower).into_owned(),
            text::in_a_cell(&row.mountpoint.to_string_lossy()).into_owned(),
            row.user.to_string(),
            access.into(),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    Outcome::text(table::show(&columns, &rows, args.script))
}

fn row(listed: ListedMount) -> MountedDirectoryRow {
    MountedDirectoryRow {
        lower: listed.source,
        user: listed.user,
        read_only: listed.options.iter().any(|option| option == "ro"),
        mountpoint: listed.path,
    }
}

pub(crate) fn unmount(mountpoint: &Path, force: bool) -> Result<ListedMount> {
    let mount = find(mountpoint)?;
    mount.unmount(force)?;
    Ok(mount)
}

/// The mount at a place.
pub(super) fn find(mountpoint: &Path) -> Result<ListedMount> {
    let path = resolved(mountpoint);
    let mut mounts = fuse::listed(SUBTYPE).into_iter().rev();
    mounts.find(|mount| mount.path == path).ok_or_else(|| {
        Failure::new(
            FailureKind::NotFound,
            format!(
                "no encrypted directory is mounted on {}; 'strongroom stack list' shows those that are",
                path.display()
            ),
        )
    })
}

/// The path as the kernel lists it. The last name is not looked up: its file system may have lost its server.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = path.parent().and_then(|above| above.canonicalize().ok());
    match (above, path.file_name()) {
        (Some(above), Some(name)) => above.join(name),
        _ => path,
    }
}
