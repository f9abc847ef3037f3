//! The command.

use std::fs::TryLockError;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use console::outcome::{Outcome, Result};
use console::session::{other, usage};
use console::terminal::{Interruptions, counter};
use homes::stack::run::more_files;
use protocol::api::{Failure, FailureKind};

use crate::args::Adopt;
use crate::copy::attributes::AttributeRules;
use crate::copy::copier::Copier;
use crate::copy::node::FileNode;
use crate::place::{self, FileSystems};
use crate::source::CopySource;
use crate::walk::{make, walk};

/// Carries out the command.
pub fn run(args: &Adopt, as_json: bool) -> Result<Outcome> {
    let named = place::open(&args.source)?;
    let mut places = FileSystems::default();
    let to = match place::open(&args.target) {
        Err(missing) if missing.kind == FailureKind::NotFound => {
            match new_target(args, &named, &mut places)? {
                Some(made) => made,
                None => return count(args, as_json, places),
            }
        }
        opened => opened?,
    };
    check_place(args, &mut places, &to)?;
    place::check_apart(&named, &to)?;
    let cannot = |error| other(format!("cannot open '{}': {error}", args.target.display()));
    // Another copy into it would take files of this one for its own. It ends with this process.
    let lock = to.open().map_err(cannot)?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Failure::new(
            FailureKind::Busy,
            format!("another command copies into '{}'", args.target.display()),
        ),
        TryLockError::Error(error) => cannot(error),
    })?;
    let root = place::open(&args.target)?;
    if root.identity() != to.identity() {
        return Err(other("the target was exchanged by another program"));
    }
    copy(args, as_json, places, (root, Some(to)))
}

/// Makes the directory that is missing, in one that exists. None in a dry run.
fn new_target(
    args: &Adopt,
    source: &FileNode,
    places: &mut FileSystems,
) -> Result<Option<FileNode>> {
    let above = above_target(args)?;
    check_place(args, places, &above)?;
    place::check_outside(source, &above)?;
    if args.dry_run {
        return Ok(None);
    }
    let made = make(&above, &args.target);
    made.map(Some)
        .map_err(|error| other(format!("cannot make '{}': {error}", args.target.display())))
}

/// The directory that TARGET is in.
fn above_target(args: &Adopt) -> Result<FileNode> {
    match args.target.parent() {
        Some(above) if !above.as_os_str().is_empty() => place::open(above),
        _ => place::open(Path::new(".")),
    }
}

fn check_place(args: &Adopt, places: &mut FileSystems, dir: &FileNode) -> Result<()> {
    let checked = places.check(dir.meta.dev());
    checked.map_err(|trouble| usage(format!("'{}': {}", args.target.display(), trouble.why)))
}

/// Counts what would be copied into a directory that would be made.
fn count(args: &Adopt, as_json: bool, places: FileSystems) -> Result<Outcome> {
    copy(args, as_json, places, (above_target(args)?, None))
}

/// Copies into a directory, which is missing in a dry run if it would be made.
fn copy(
    args: &Adopt,
    as_json: bool,
    places: FileSystems,
    (root, to): (FileNode, Option<FileNode>),
) -> Result<Outcome> {
    let source = CopySource::open(args)?;
    more_files();
    let bar = (std::io::stderr().is_terminal() && !args.dry_run).then(|| counter("adopt"));
    let signals = Interruptions::hold().map_err(|error| other(error.to_string()))?;
    let rules = AttributeRules {
        owner: !args.no_owner,
        // Who writes an encrypted directory chooses what it shows.
        privileged: matches!(source, CopySource::Plain(_)),
    };
    let is_verbose = args.verbose && !as_json;
    let copier = Copier::new(args, root, bar, signals, rules, is_verbose);
    let copier = walk(copier, places, source.dir()?, to);
    Ok(copier.tally.outcome(as_json))
}
