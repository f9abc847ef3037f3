//! The command.

use std::fs::TryLockError;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;

use protocol::api::{Failure, FailureKind};

use super::attributes::Rules;
use super::copier::Copier;
use super::place::{self, Places};
use super::source::Source;
use super::walk::walk;
use crate::cmd::adopt::args::Adopt;
use crate::cmd::stack::run::more_files;
use crate::outcome::{Outcome, Result};
use crate::session::{other, usage};
use crate::terminal::{Interruptions, counter};

pub(crate) fn run(args: &Adopt, as_json: bool) -> Result<Outcome> {
    let named = place::open(&args.source)?;
    let to = place::open(&args.target)?;
    let mut places = Places::default();
    places
        .check(to.meta.dev())
        .map_err(|trouble| usage(format!("'{}': {}", args.target.display(), trouble.why)))?;
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
    let source = Source::open(args)?;
    more_files();
    let bar = (std::io::stderr().is_terminal() && !args.dry_run).then(|| counter("adopt"));
    let signals = Interruptions::hold().map_err(|error| other(error.to_string()))?;
    let root = place::open(&args.target)?;
    if root.identity() != to.identity() {
        return Err(other("the target was exchanged by another program"));
    }
    let rules = Rules {
        owner: !args.no_owner,
        // Who writes an encrypted directory chooses what it shows.
        privileged: matches!(source, Source::Plain(_)),
    };
    let is_verbose = args.verbose && !as_json;
    let copier = Copier::new(args, root, bar, signals, rules, is_verbose);
    let copier = walk(copier, places, source.dir()?, to);
    Ok(copier.tally.outcome(as_json))
}
