//! The work of the module for each call of PAM.

use std::ffi::c_int;

use libc::{LOG_DEBUG, LOG_ERR, LOG_NOTICE};
use secret::Secret;

use crate::handle::{Handle, PRELIM_CHECK, PamItem, ReturnCode, SILENT, SessionData, UserAccount};
use crate::options::{Options, Passphrase};
use crate::program::{self, NOT_FOUND, ProgramResult, WRONG_KEY};

struct PamCall<'a> {
    handle: &'a Handle,
    options: Options,
    account: UserAccount,
}

impl<'a> PamCall<'a> {
    fn begin(handle: &'a Handle, words: &[&str]) -> Result<PamCall<'a>, ReturnCode> {
        let options = Options::parse(words.iter().copied());
        for word in &options.unknown {
            handle.log(LOG_ERR, &format!("the argument '{word}' is not known"));
        }
        if !rustix::process::geteuid().is_root() {
            if options.debug {
                handle.log(LOG_DEBUG, "not root: nothing is done");
            }
            return Err(ReturnCode::Ignore);
        }
        let account = handle.account().ok_or(ReturnCode::UserUnknown)?;
        Ok(PamCall {
            handle,
            options,
            account,
        })
    }

    /// Runs a step of the program, and logs what it says. `None`: it could not run, or did not end in time.
    fn run(&self, step: &str, passphrases: &[&Secret]) -> ProgramResult {
        self.run_for(step, None, passphrases)
    }

    /// Runs a step for the dataset that an earlier step has checked.
    fn run_for(&self, step: &str, dataset: Option<u64>, passphrases: &[&Secret]) -> ProgramResult {
        let done = program::run(step, &self.account, &self.options, dataset, passphrases);
        let done = done.unwrap_or_else(|why| ProgramResult {
            code: None,
            said: why,
            dataset: None,
        });
        let ProgramResult { code, said, .. } = &done;
        let priority = match code {
            Some(0 | NOT_FOUND) => LOG_NOTICE,
            _ => LOG_ERR,
        };
        for line in said.lines() {
            self.handle.log(priority, line);
        }
        match code {
            None => {
                let why = "the program did not run to its end";
                self.handle.log(LOG_ERR, &format!("login {step}: {why}"));
            }
            Some(code) => self.debug(&format!("login {step}: exit code {code}")),
        }
        done
    }

    fn debug(&self, text: &str) {
        if self.options.debug {
            self.handle.log(LOG_DEBUG, text);
        }
    }

    /// Returns success if anything of the user is encrypted by this program.
    fn find(&self) -> Result<(), ReturnCode> {
        match self.run("find", &[]).code {
            Some(0) => Ok(()),
            Some(NOT_FOUND) => Err(ReturnCode::UserUnknown),
            _ => Err(ReturnCode::AuthinfoUnavail),
        }
    }
}

/// The code of a hook that failed or not.
fn code(done: Result<(), ReturnCode>) -> ReturnCode {
    done.err().unwrap_or(ReturnCode::Success)
}

/// Checks the passphrase, and keeps it for the session.
pub(crate) fn authenticate(handle: &Handle, words: &[&str], _: c_int) -> ReturnCode {
    code(PamCall::begin(handle, words).and_then(|call| call.authenticate()))
}

impl PamCall<'_> {
    fn authenticate(&self) -> Result<(), ReturnCode> {
        self.find()?;
        let how = self.options.passphrase;
        if how == Passphrase::Typed {
            self.handle.forget(PamItem::Current);
        }
        let known = self.handle.known(PamItem::Current);
        let was_known = known.is_some();
        let passphrase = match (known, how) {
            (Some(known), _) => known,
            (None, Passphrase::Use) => return Err(ReturnCode::AuthErr),
            (None, _) => self.ask()?,
        };
        match self.check(passphrase) {
            Err(ReturnCode::AuthErr)
                if was_known && how == Passphrase::Try && !self.options.ignore_missing =>
            {
                self.handle.forget(PamItem::Current);
                self.check(self.ask()?)
            }
            checked => checked,
        }
    }

    fn ask(&self) -> Result<Secret, ReturnCode> {
        self.handle
            .ask(PamItem::Current, Some(c"Strongroom passphrase: "))
            .ok_or(ReturnCode::AuthErr)
    }

    fn check(&self, passphrase: Secret) -> Result<(), ReturnCode> {
        if passphrase.is_empty() {
            return Err(ReturnCode::AuthErr);
        }
        let done = self.run("auth", &[&passphrase]);
        match done.code {
            Some(0) => {}
            Some(WRONG_KEY) => return Err(ReturnCode::AuthErr),
            Some(NOT_FOUND) => return Err(ReturnCode::UserUnknown),
            _ => return Err(ReturnCode::AuthinfoUnavail),
        }
        let kept = SessionData {
            passphrase: Some(passphrase),
            dataset: done.dataset,
            is_counted: false,
        };
        match self.handle.keep(kept) {
            true => Ok(()),
            false => Err(ReturnCode::AuthinfoUnavail),
        }
    }
}

/// Does nothing: keys belong to the session.
pub(crate) fn set_credentials(_: &Handle, _: &[&str], _: c_int) -> ReturnCode {
    ReturnCode::Success
}

/// Mounts and unlocks with the passphrase of the authentication. What fails is in the log: the session begins in
/// any case.
pub(crate) fn open_session(handle: &Handle, words: &[&str], _: c_int) -> ReturnCode {
    let call = match PamCall::begin(handle, words) {
        Ok(call) => call,
        Err(_) => return ReturnCode::Success,
    };
    let kept = handle.with_kept(|kept| (kept.passphrase.take(), kept.dataset.take()));
    let Some((Some(passphrase), dataset)) = kept else {
        call.debug("no passphrase was given: the session does not count");
        return ReturnCode::Success;
    };
    let done = call.run_for("open", dataset, &[&passphrase]).code;
    // A failure can have left something open: the end of this session closes it.
    handle.with_kept(|kept| kept.is_counted = done != Some(NOT_FOUND));
    ReturnCode::Success
}

/// Closes what the last session of the user leaves.
pub(crate) fn close_session(handle: &Handle, words: &[&str], _: c_int) -> ReturnCode {
    let call = match PamCall::begin(handle, words) {
        Ok(call) => call,
        Err(_) => return ReturnCode::Success,
    };
    let is_counted = handle.with_kept(|kept| std::mem::take(&mut kept.is_counted));
    if is_counted != Some(true) {
        return ReturnCode::Success;
    }
    match call.run("close", &[]).code {
        Some(0 | NOT_FOUND) => ReturnCode::Success,
        _ => ReturnCode::SessionErr,
    }
}

/// Changes the passphrase of all that the old one opens.
pub(crate) fn change_passphrase(handle: &Handle, words: &[&str], flags: c_int) -> ReturnCode {
    let call = match PamCall::begin(handle, words) {
        Ok(call) => call,
        Err(ReturnCode::UserUnknown) => return ReturnCode::Ignore,
        Err(code) => return code,
    };
    if call.find() == Err(ReturnCode::UserUnknown) {
        return ReturnCode::Ignore;
    }
    match flags & PRELIM_CHECK {
        0 => code(call.change(flags)),
        _ => code(call.check_old()),
    }
}

impl PamCall<'_> {
    /// The old passphrase. `passwd` of root may have none.
    fn old(&self) -> Option<Secret> {
        match self.options.passphrase {
            Passphrase::Use => self.handle.known(PamItem::Old),
            _ => self
                .handle
                .ask(PamItem::Old, Some(c"Current Strongroom passphrase: ")),
        }
    }

    fn check_old(&self) -> Result<(), ReturnCode> {
        // Without an old passphrase the change says what keeps it.
        let Some(old) = self.old() else {
            return Ok(());
        };
        match self.run("check", &[&old]).code {
            Some(0) => Ok(()),
            Some(WRONG_KEY) => {
                self.handle
                    .say("The current passphrase does not open the encrypted home.");
                Err(ReturnCode::AuthErr)
            }
            Some(NOT_FOUND) => Err(ReturnCode::Ignore),
            _ => Err(ReturnCode::AuthtokErr),
        }
    }

    fn change(&self, flags: c_int) -> Result<(), ReturnCode> {
        let Some(old) = self.old().filter(|old| !old.is_empty()) else {
            let user = &self.account.name;
            let text = format!(
                "The encrypted home of {user} keeps its passphrase: the old one is not known."
            );
            self.handle.log(LOG_NOTICE, &text);
            self.handle.say(&text);
            return Err(ReturnCode::AuthtokErr);
        };
        let new = match self.options.use_authtok {
            true => self.handle.known(PamItem::Current),
            false => self.handle.ask(PamItem::Current, None),
        };
        let Some(new) = new.filter(|new| !new.is_empty()) else {
            return Err(ReturnCode::AuthtokErr);
        };
        let ProgramResult { code, said, .. } = self.run("password", &[&old, &new]);
        if flags & SILENT == 0 {
            for line in said.lines() {
                self.handle.say(line);
            }
        }
        match code {
            Some(0) => {
                // At a login whose password has expired, the session comes after this.
                self.handle.with_kept(|kept| {
                    if kept.passphrase.is_some() {
                        kept.passphrase = Some(new);
                    }
                });
                Ok(())
            }
            Some(NOT_FOUND) => Err(ReturnCode::Ignore),
            Some(WRONG_KEY) => Err(ReturnCode::AuthErr),
            _ => Err(ReturnCode::AuthtokErr),
        }
    }
}
