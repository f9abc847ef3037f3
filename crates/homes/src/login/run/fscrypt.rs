//! Login protectors of fscrypt: what root decides, and the work with the rights of the user who mounted.

use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::Secret;

use super::passphrases;
use super::worker::{self, ProcessRights, WorkerStep};
use crate::fscrypt::run::Logins;
use crate::login::args::{LoginArgs, LoginPart, LoginStep};
use crate::stack::run::StackedMount;

/// The login protectors of a user below mounts of one user.
#[derive(Debug)]
pub(super) struct Protectors<'a> {
    args: &'a LoginArgs,
    rights: ProcessRights,
}

impl<'a> Protectors<'a> {
    /// The protectors below mounts of the user, and those below mounts of root.
    pub(super) fn find(args: &'a LoginArgs) -> Result<Vec<Protectors<'a>>> {
        let mut found = Vec::new();
        let mut all = vec![ProcessRights::of_user(args)];
        if args.uid != 0 {
            all.push(ProcessRights::ROOT);
        }
        for rights in all {
            if StackedMount::of_user(rights.uid).is_empty() {
                continue;
            }
            let protectors = Protectors { args, rights };
            match protectors.run(LoginStep::Find, &[]) {
                Ok(()) => found.push(protectors),
                Err(failure) if failure.kind == FailureKind::NotFound => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }

    pub(super) fn name(&self) -> &'static str {
        match self.rights.uid {
            0 => "fscrypt, mounted by root",
            _ => "fscrypt",
        }
    }

    /// Has a process do a step.
    pub(super) fn run(&self, step: LoginStep, passphrases: &[&Secret]) -> Result<()> {
        let work = WorkerStep {
            part: LoginPart::Fscrypt,
            step,
            lower: None,
            passphrases,
            unmounts: false,
        };
        worker::run(self.args, self.rights, &work)
    }
}

/// A step, in the process that has the rights.
pub(super) fn work(args: &LoginArgs) -> Result<()> {
    let logins = Logins::find(args.uid);
    if logins.is_empty() {
        let message = "there is no login protector".to_owned();
        return Err(Failure::new(FailureKind::NotFound, message));
    }
    let mut lines = match args.step {
        LoginStep::Find | LoginStep::Close => Default::default(),
        _ => passphrases::read()?,
    };
    match args.step {
        LoginStep::Find => Ok(()),
        LoginStep::Auth | LoginStep::Check => logins.check(&passphrases::next(&mut lines)?),
        LoginStep::Open => logins.open(&passphrases::next(&mut lines)?),
        LoginStep::Close => logins.close(),
        LoginStep::Password => {
            let old = passphrases::next(&mut lines)?;
            logins.change(&old, &passphrases::next(&mut lines)?)
        }
    }
}
