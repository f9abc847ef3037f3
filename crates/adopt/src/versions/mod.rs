//! The command `versions`: the versions of a file in the snapshots of a mounted dataset.
//!
//! The command reads the directory `.snapshot` of the mount, as its user. `location` finds the mount and the path in it,
//! `list` the versions, and `restore` copies one back.

pub mod args;
mod list;
mod location;
mod restore;

use console::outcome::{Outcome, Result};

use crate::versions::args::VersionsArgs;
use crate::versions::location::FileLocation;

/// Carries out the command.
pub fn run(args: &VersionsArgs, as_json: bool) -> Result<Outcome> {
    let location = FileLocation::find(&args.file)?;
    match &args.restore {
        Some(snapshot) => restore::restore(&location, snapshot, args, as_json),
        None => list::show(&location, args, as_json),
    }
}
