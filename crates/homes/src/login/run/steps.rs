//! The steps of a login.

use std::path::Path;

use console::outcome::{Outcome, Result};
use console::session::{other, usage};
use protocol::api::{Failure, FailureKind};
use protocol::client::SYSTEM_DIR;
use secret::Secret;

use super::parts::HomePart;
use super::sessions::Sessions;
use super::{fscrypt, passphrases, pefs};
use crate::login::args::{LoginArgs, LoginPart, LoginStep};

/// The directory with the sessions, in the one of root's processes.
const SESSIONS: &str = "logins";

/// Carries out the command.
pub fn run(args: &LoginArgs) -> Result {
    match args.part {
        Some(LoginPart::Pefs) => {
            pefs::work(args)?;
            return Ok(Outcome::done());
        }
        Some(LoginPart::Fscrypt) => {
            fscrypt::work(args)?;
            return Ok(Outcome::done());
        }
        None => {}
    }
    if !rustix::process::geteuid().is_root() {
        let message = "'strongroom login' is for the PAM module, which starts it as root";
        return Err(Failure::new(FailureKind::Permission, message.to_owned()));
    }
    if !args.home.is_absolute() {
        return Err(usage("--home takes an absolute path"));
    }
    // What is mounted does not change meanwhile.
    let sessions = match args.step {
        LoginStep::Open | LoginStep::Close | LoginStep::Password => Some(sessions(args)?),
        LoginStep::Find | LoginStep::Auth | LoginStep::Check => None,
    };
    let notes = sessions.as_ref().map(|sessions| &sessions.opened[..]);
    let parts = HomePart::all(args, notes.unwrap_or_default())?;
    match (args.step, sessions) {
        (LoginStep::Open, Some(sessions)) => open(args, &parts, sessions),
        (LoginStep::Close, Some(sessions)) => close(args, &parts, sessions),
        (LoginStep::Password, _) => change(&parts),
        (LoginStep::Find, _) => found(&parts).map(|()| Outcome::done()),
        (step, _) => check(step, &parts),
    }
}

/// Fails if there is nothing.
fn found(parts: &[HomePart<'_>]) -> Result<()> {
    match parts.is_empty() {
        true => Err(Failure::new(
            FailureKind::NotFound,
            "there is nothing to open for this user".to_owned(),
        )),
        false => Ok(()),
    }
}

/// The passphrase opens all of them: a user could add one that any passphrase opens.
fn check(step: LoginStep, parts: &[HomePart<'_>]) -> Result {
    found(parts)?;
    let passphrase = passphrases::next(&mut passphrases::read()?)?;
    for part in parts {
        let opens = part.check(step, &passphrase);
        // The module keeps it for the session.
        if let (LoginStep::Auth, Some(dataset)) = (step, opens.map_err(|f| of(part, f))?) {
            println!("{dataset}");
        }
    }
    Ok(Outcome::done())
}

fn open(args: &LoginArgs, parts: &[HomePart<'_>], mut sessions: Sessions) -> Result {
    found(parts)?;
    let process = process(args)?;
    let passphrase = passphrases::next(&mut passphrases::read()?)?;
    sessions.add(process)?;
    for part in parts {
        // What was open before stays open.
        if !part.is_open() {
            sessions.note(&part.note());
        }
    }
    // First: if this program ends early, the last session still closes what is open by then.
    sessions.store()?;
    let mut outcome = Outcome::done();
    for part in parts {
        if let Err(failure) = part.open(&passphrase) {
            outcome.failures.push(of(part, failure));
        }
    }
    Ok(outcome)
}

fn close(args: &LoginArgs, parts: &[HomePart<'_>], mut sessions: Sessions) -> Result {
    sessions.remove(process(args)?);
    let mut outcome = Outcome::done();
    if sessions.is_empty() {
        let opened = std::mem::take(&mut sessions.opened);
        for part in parts {
            let note = part.note();
            let is_own = opened.contains(&note);
            // What is in use stays for the end of the next session.
            let is_closed = part.close(is_own, args.delkeys).unwrap_or_else(|failure| {
                outcome.failures.push(of(part, failure));
                false
            });
            if is_own && !is_closed {
                sessions.note(&note);
            }
        }
    }
    sessions.store()?;
    Ok(outcome)
}

fn sessions(args: &LoginArgs) -> Result<Sessions> {
    Sessions::open(&Path::new(SYSTEM_DIR).join(SESSIONS), args.uid)
}

fn process(args: &LoginArgs) -> Result<i32> {
    args.process
        .ok_or_else(|| usage("--process is missing: a session belongs to a process"))
}

fn change(parts: &[HomePart<'_>]) -> Result {
    found(parts)?;
    let mut lines = passphrases::read()?;
    let (old, new) = (
        passphrases::next(&mut lines)?,
        passphrases::next(&mut lines)?,
    );
    // Nothing changes if the old passphrase does not open all of them.
    for part in parts {
        part.check(LoginStep::Check, &old)
            .map_err(|failure| of(part, failure))?;
    }
    // Those that can be changed back come first.
    let (back, last): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.changes_back());
    let mut changed: Vec<&HomePart<'_>> = Vec::new();
    for part in back.into_iter().chain(last) {
        if let Err(failure) = part.change(&old, &new) {
            return Ok(undo(&changed, (&old, &new), of(part, failure)));
        }
        changed.push(part);
    }
    Ok(Outcome::done())
}

/// Gives what was changed its old passphrase again, after a failure. Says so, and what has the new one.
fn undo(changed: &[&HomePart<'_>], (old, new): (&Secret, &Secret), failure: Failure) -> Outcome {
    let mut outcome = Outcome::failed(failure);
    for part in changed.iter().rev() {
        if let Err(failure) = part.change(new, old) {
            let failure = of(part, failure);
            outcome.failures.push(Failure {
                message: format!("{}; it has the new passphrase", failure.message),
                ..failure
            });
        }
    }
    let message = match outcome.failures.len() {
        1 => "the encrypted home keeps the old passphrase",
        _ => "all other parts of the encrypted home keep the old passphrase",
    };
    outcome.failures.push(other(message));
    outcome
}

/// A failure, with the part that it is about.
fn of(part: &HomePart<'_>, failure: Failure) -> Failure {
    Failure {
        message: format!("{}: {}", part.name(), failure.message),
        ..failure
    }
}
