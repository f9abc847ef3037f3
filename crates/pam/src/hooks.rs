//! The work of the module for each call of PAM.

use std::ffi::c_int;

use libc::{LOG_DEBUG, LOG_ERR, LOG_NOTICE};
use secret::Secret;

use crate::handle::{Account, Code, Handle, Item, Kept, PRELIM_CHECK, SILENT};
use crate::options::{Options, Passphrase};
use crate::program::{self, Done, NOT_FOUND, WRONG_KEY};

/// A call of PAM.
struct Call<'a> {
    handle: &'a Handle,
    options: Options,
    account: Account,
}

impl<'a> Call<'a> {
    fn begin(handle: &'a Handle, words: &[&str]) -> Result<Call<'a>, Code> {
        let options = Options::parse(words.iter().copied());
        for word in &options.unknown {
            handle.log(LOG_ERR, &format!("the argument '{word}' is not known"));
        }
        if !rustix::process::geteuid().is_root() {
            if options.debug {
                handle.log(LOG_DEBUG, "not root: nothing is done");
            }
            return Err(Code::Ignore);
        }
        let account = handle.account().ok_or(Code::UserUnknown)?;
        Ok(Call {
            handle,
            options,
            account,
        })
    }

    /// Runs a step of the program, and logs what it says. `None`: it could not run, or did not end in time.
    fn run(&self, step: &str, passphrases: &[&Secret]) -> Done {
        self.run_for(step, None, passphrases)
    }

    /// Runs a step for the dataset that an earlier step has checked.
    fn run_for(&self, step: &str, dataset: Option<u64>, passphrases: &[&Secret]) -> Done {
        let done = program::run(step, &self.account, &self.options, dataset, passphrases);
        let done = done.unwrap_or_else(|why| Done {
            code: None,
            said: why,
            dataset: None,
        });
        let Done { code, said, .. } = &done;
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
    fn find(&self) -> Result<(), Code> {
        match self.run("find", &[]).code {
            Some(0) => Ok(()),
            Some(NOT_FOUND) => Err(Code::UserUnknown),
            _ => Err(Code::AuthinfoUnavail),
        }
    }
}

/// The code of a hook that failed or not.
fn code(done: Result<(), Code>) -> Code {
    done.err().unwrap_or(Code::Success)
}

/// Checks the passphrase, and keeps it for the session.
pub(crate) fn authenticate(handle: &Handle, words: &[&str], _: c_int) -> Code {
    code(Call::begin(handle, words).and_then(|call| call.authenticate()))
}

impl Call<'_> {
    fn authenticate(&self) -> Result<(), Code> {
        self.find()?;
        let how = self.options.passphrase;
        if how == Passphrase::Typed {
            self.handle.forget(Item::Current);
        }
        let known = self.handle.known(Item::Current);
        let was_known = known.is_some();
        let passphrase = match (known, how) {
            (Some(known), _) => known,
            (None, Passphrase::Use) => return Err(Code::AuthErr),
            (None, _) => self.ask()?,
        };
        match self.check(passphrase) {
            Err(Code::AuthErr)
                if was_known && how == Passphrase::Try && !self.options.ignore_missing =>
            {
                self.handle.forget(Item::Current);
                self.check(self.ask()?)
            }
            checked => checked,
        }
    }

    fn ask(&self) -> Result<Secret, Code> {
        self.handle
            .ask(Item::Current, Some(c"Strongroom passphrase: "))
            .ok_or(Code::AuthErr)
    }

    fn check(&self, passphrase: Secret) -> Result<(), Code> {
        if passphrase.is_empty() {
            return Err(Code::AuthErr);
        }
        let done = self.run("auth", &[&passphrase]);
        match done.code {
            Some(0) => {}
            Some(WRONG_KEY) => return Err(Code::AuthErr),
            Some(NOT_FOUND) => return Err(Code::UserUnknown),
            _ => return Err(Code::AuthinfoUnavail),
        }
        let kept = Kept {
            passphrase: Some(passphrase),
            dataset: done.dataset,
            is_counted: false,
        };
        match self.handle.keep(kept) {
            true => Ok(()),
            false => Err(Code::AuthinfoUnavail),
        }
    }
}

/// Does nothing: keys belong to the session.
pub(crate) fn set_credentials(_: &Handle, _: &[&str], _: c_int) -> Code {
    Code::Success
}

/// Mounts and unlocks with the passphrase of the authentication. What fails is in the log: the session begins in
/// any case.
pub(crate) fn open_session(handle: &Handle, words: &[&str], _: c_int) -> Code {
    let call = match Call::begin(handle, words) {
        Ok(call) => call,
        Err(_) => return Code::Success,
    };
    let kept = handle.with_kept(|kept| (kept.passphrase.take(), kept.dataset.take()));
    let Some((Some(passphrase), dataset)) = kept else {
        call.debug("no passphrase was given: the session does not count");
        return Code::Success;
    };
    let done = call.run_for("open", dataset, &[&passphrase]).code;
    // A failure can have left something open: the end of this session closes it.
    handle.with_kept(|kept| kept.is_counted = done != Some(NOT_FOUND));
    Code::Success
}

/// Closes what the last session of the user leaves.
pub(crate) fn close_session(handle: &Handle, words: &[&str], _: c_int) -> Code {
    let call = match Call::begin(handle, words) {
        Ok(call) => call,
        Err(_) => return Code::Success,
    };
    let is_counted = handle.with_kept(|kept| std::mem::take(&mut kept.is_counted));
    if is_counted != Some(true) {
        return Code::Success;
    }
    match call.run("close", &[]).code {
        Some(0 | NOT_FOUND) => Code::Success,
        _ => Code::SessionErr,
    }
}

/// Changes the passphrase of all that the old one opens.
pub(crate) fn change_passphrase(handle: &Handle, words: &[&str], flags: c_int) -> Code {
    let call = match Call::begin(handle, words) {
        Ok(call) => call,
        Err(Code::UserUnknown) => return Code::Ignore,
        Err(code) => return code,
    };
    if call.find() == Err(Code::UserUnknown) {
        return Code::Ignore;
    }
    match flags & PRELIM_CHECK {
        0 => code(call.change(flags)),
        _ => code(call.check_old()),
    }
}

impl Call<'_> {
    /// The old passphrase. `passwd` of root may have none.
    fn old(&self) -> Option<Secret> {
        match self.options.passphrase {
            Passphrase::Use => self.handle.known(Item::Old),
            _ => self
                .handle
                .ask(Item::Old, Some(c"Current Strongroom passphrase: ")),
        }
    }

    fn check_old(&self) -> Result<(), Code> {
        // Without an old passphrase the change says what keeps it.
        let Some(old) = self.old() else {
            return Ok(());
        };
        match self.run("check", &[&old]).code {
            Some(0) => Ok(()),
            Some(WRONG_KEY) => {
                self.handle
                    .say("The current passphrase does not open the encrypted home.");
                Err(Code::AuthErr)
            }
            Some(NOT_FOUND) => Err(Code::Ignore),
            _ => Err(Code::AuthtokErr),
        }
    }

    fn change(&self, flags: c_int) -> Result<(), Code> {
        let Some(old) = self.old().filter(|old| !old.is_empty()) else {
            let user = &self.account.name;
            let text = format!(
                "The encrypted home of {user} keeps its passphrase: the old one is not known."
            );
            self.handle.log(LOG_NOTICE, &text);
            self.handle.say(&text);
            return Err(Code::AuthtokErr);
        };
        let new = match self.options.use_authtok {
            true => self.handle.known(Item::Current),
            false => self.handle.ask(Item::Current, None),
        };
        let Some(new) = new.filter(|new| !new.is_empty()) else {
            return Err(Code::AuthtokErr);
        };
        let Done { code, said, .. } = self.run("password", &[&old, &new]);
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
            Some(NOT_FOUND) => Err(Code::Ignore),
            Some(WRONG_KEY) => Err(Code::AuthErr),
            _ => Err(Code::AuthtokErr),
        }
    }
}
