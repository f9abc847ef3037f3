//! A home of pefs: what root decides, and the work with the rights of the user.

use std::path::{Path, PathBuf};

use console::outcome::Result;
use console::session::other;
use protocol::api::{Failure, FailureKind};
use secret::Secret;

use super::passphrases;
use super::worker::{self, ProcessRights, WorkerStep};
use crate::login::args::{LoginArgs, LoginPart, LoginStep};
use crate::pefs::run::PefsHomeDirectory;
use crate::stack::run::{CoveredDirectory, StackedMount};

/// A home of pefs, as root sees it.
#[derive(Debug)]
pub(super) struct PefsHome<'a> {
    args: &'a LoginArgs,
    rights: ProcessRights,
    lower: PathBuf,
    /// Holds `lower` open.
    _covered: Option<CoveredDirectory>,
}

impl<'a> PefsHome<'a> {
    /// The home, if it is one. Files are read with the rights of the user, or of root if root has mounted the home.
    pub(super) fn find(args: &'a LoginArgs) -> Result<Option<PefsHome<'a>>> {
        let mounted = StackedMount::at(&args.home);
        let rights = match mounted.as_ref().map(StackedMount::user) {
            None => ProcessRights::of_user(args),
            Some(user) if user == args.uid => ProcessRights::of_user(args),
            Some(0) => ProcessRights::ROOT,
            // Not the user's: it could be anything.
            Some(_) => return Ok(None),
        };
        let (lower, covered) = match &mounted {
            Some(mounted) if is_same(mounted.lower(), &args.home) => {
                let covered = CoveredDirectory::below(&args.home)
                    .map_err(|error| other(format!("{}: {error}", args.home.display())))?;
                (covered.path(), Some(covered))
            }
            Some(mounted) => (mounted.lower().to_owned(), None),
            None => (args.home.clone(), None),
        };
        let home = PefsHome {
            args,
            rights,
            lower,
            _covered: covered,
        };
        match home.run(LoginStep::Find, &[], false) {
            Ok(()) => Ok(Some(home)),
            Err(failure) if failure.kind == FailureKind::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(super) fn is_mounted(&self) -> bool {
        StackedMount::at(&self.args.home).is_some()
    }

    /// Has a process do a step.
    pub(super) fn run(
        &self,
        step: LoginStep,
        passphrases: &[&Secret],
        unmounts: bool,
    ) -> Result<()> {
        let work = WorkerStep {
            part: LoginPart::Pefs,
            step,
            lower: Some(&self.lower),
            passphrases,
            unmounts,
        };
        worker::run(self.args, self.rights, &work)
    }
}

fn is_same(lower: &Path, home: &Path) -> bool {
    lower.components().eq(home.components())
}

/// A step, in the process that has the rights.
pub(super) fn work(args: &LoginArgs) -> Result<()> {
    let lower = args.lower.as_deref().unwrap_or(&args.home);
    let nothing = || {
        let message = "there is no home of pefs";
        Failure::new(FailureKind::NotFound, message.to_owned())
    };
    let home = PefsHomeDirectory::find(&args.home, lower)?.ok_or_else(nothing)?;
    let mut lines = match args.step {
        LoginStep::Find | LoginStep::Close => Default::default(),
        _ => passphrases::read()?,
    };
    match args.step {
        LoginStep::Find => Ok(()),
        LoginStep::Auth => home.check(&passphrases::next(&mut lines)?, args.ignore_missing),
        LoginStep::Check => home.check(&passphrases::next(&mut lines)?, false),
        LoginStep::Open => home.open(&passphrases::next(&mut lines)?, args.ignore_missing),
        LoginStep::Close => home.close(args.unmounts),
        LoginStep::Password => {
            let old = passphrases::next(&mut lines)?;
            home.change(&old, &passphrases::next(&mut lines)?)
        }
    }
}
