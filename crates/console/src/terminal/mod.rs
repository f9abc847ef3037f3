//! Asking people: for secrets, and whether they mean it.
//!
//! The standard input decides, as for `zfs`. If it is a terminal, secrets are asked for on the
//! controlling terminal and never shown. If it is not, they are read from it, one line each, so that a
//! script can pipe them; without a terminal there is no question, and commands that destroy need `-f`.
//! A command whose standard input is data, such as a stream, says so with [`input_is_data`]. Then secrets come from
//! the controlling terminal alone.
//!
//! Secrets are read byte by byte into locked memory and sent from there. Buffered readers would leave
//! copies behind.

mod bar;
mod confirm;
mod line;
mod signals;
mod tty;

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keys::{PASSPHRASE_MAX, PASSPHRASE_MIN, mistyped_group};
use protocol::api::{Ask, AskFormat, Failure, FailureKind};
use protocol::client::Terminal;
use rustix::io::Errno;
use secret::Secret;

pub use bar::{bar, counter};
pub use confirm::{ask_line, be_sure, confirm, confirm_by_name, is_interactive};
pub use signals::Interruptions;

use line::{ReadStep, SecretLine, other};
use tty::Tty;

/// The number of tries that there are to type the same passphrase twice.
const TRIES: u32 = 3;

/// True if the standard input is data, and so no place to read secrets from.
static INPUT_IS_DATA: AtomicBool = AtomicBool::new(false);

/// True if a person has typed a secret that exists, so that another one is asked for in other words.
static EXISTING_IS_TYPED: AtomicBool = AtomicBool::new(false);

/// From now on no secret is read from the standard input: a command reads data there.
pub fn input_is_data() {
    INPUT_IS_DATA.store(true, Ordering::Relaxed);
}

/// Asks for secrets.
#[derive(Default)]
pub struct Prompter {
    tty: Option<Tty>,
    /// The number of times that a person may type a secret that is wrong; as often as it is asked for if not said.
    tries: Option<u32>,
    wrong: u32,
    /// The time that a person may take for a line.
    timeout: Option<Duration>,
}

impl Terminal for Prompter {
    fn ask(&mut self, ask: &Ask) -> Result<Option<Secret>, Failure> {
        secret::harden_process().map_err(other)?;
        let answer = match INPUT_IS_DATA.load(Ordering::Relaxed) || std::io::stdin().is_terminal() {
            true => self.ask_person(ask),
            false if ask.again => Ok(None),
            false => read_from_script(std::io::stdin(), ask),
        };
        match answer? {
            Some(long) if long.len() > PASSPHRASE_MAX => Err(too_long(ask)),
            answer => Ok(answer),
        }
    }

    fn notice(&mut self, text: &str) {
        eprintln!("strongroom: {}", crate::show::text::message(text));
    }
}

impl Prompter {
    /// Limits how often a wrong secret may be typed again, and how long typing may take.
    pub fn limit(&mut self, tries: u32, timeout: Option<Duration>) {
        (self.tries, self.timeout) = (Some(tries), timeout);
    }

    fn ask_person(&mut self, ask: &Ask) -> Result<Option<Secret>, Failure> {
        let tty = match &mut self.tty {
            Some(tty) => tty,
            none => {
                let is_data = INPUT_IS_DATA.load(Ordering::Relaxed);
                none.insert(Tty::open(!is_data).map_err(|error| match is_data {
                    true => nowhere_to_ask(ask, &error),
                    false => other(error),
                })?)
            }
        };
        let what = noun(ask.format);
        let new = match ask.twice && EXISTING_IS_TYPED.load(Ordering::Relaxed) {
            true => "new ",
            false => "",
        };
        let prompt = format!("Enter {new}{what} for '{}': ", ask.dataset);
        if ask.again {
            self.wrong += 1;
            if self.tries.is_some_and(|tries| self.wrong >= tries) {
                return Ok(None);
            }
            tty.say(&format!("That {what} is wrong; try again.\n"));
        }
        let mut is_too_short = false;
        let mut mistyped: Option<Secret> = None;
        for _ in 0..TRIES {
            let Some(secret) = tty.read(&prompt, self.timeout)? else {
                return Ok(None);
            };
            // The same text again is a passphrase that happens to look like a recovery key.
            let is_meant = ask.twice || mistyped.as_ref() == Some(&secret);
            if let Some(group) = mistyped_group(secret.expose())?.filter(|_| !is_meant) {
                tty.say(&format!(
                    "Group {group} of this recovery key has a mistake; type the key again.\n"
                ));
                mistyped = Some(secret);
                continue;
            }
            if !ask.twice {
                EXISTING_IS_TYPED.store(true, Ordering::Relaxed);
                return Ok(Some(secret));
            }
            is_too_short = ask.format == AskFormat::Passphrase && secret.len() < PASSPHRASE_MIN;
            if is_too_short {
                tty.say(&format!(
                    "It is too short; use at least {PASSPHRASE_MIN} characters.\n"
                ));
                continue;
            }
            match tty.read(&format!("Re-enter {what}: "), self.timeout)? {
                Some(again) if again == secret => return Ok(Some(secret)),
                Some(_) => tty.say("They do not match.\n"),
                None => return Ok(None),
            }
        }
        match (mistyped, is_too_short) {
            (Some(secret), _) => Ok(Some(secret)),
            (None, true) => Err(too_short(ask)),
            (None, false) => Err(mismatch(ask)),
        }
    }
}

/// Reads a line. A second line, where a person would be asked twice, may be left out but not differ.
fn read_from_script(input: impl AsFd, ask: &Ask) -> Result<Option<Secret>, Failure> {
    let Some(secret) = read_line(&input)? else {
        return Ok(None);
    };
    if ask.twice && read_line(&input)?.is_some_and(|again| again != secret) {
        return Err(mismatch(ask));
    }
    Ok(Some(secret))
}

/// Reads up to and without a newline; `None` at the end of the input.
fn read_line(input: impl AsFd) -> Result<Option<Secret>, Failure> {
    let mut line = SecretLine::new()?;
    loop {
        match line.read(&input) {
            Ok(ReadStep::More) | Err(Errno::INTR) => {}
            Ok(ReadStep::Whole) => return Ok(Some(line.take())),
            Ok(ReadStep::End) if line.len == 0 => return Ok(None),
            Ok(ReadStep::End) => return Ok(Some(line.take())),
            Err(error) => return Err(other(format!("cannot read the standard input: {error}"))),
        }
    }
}

fn noun(format: AskFormat) -> &'static str {
    match format {
        AskFormat::Passphrase => "passphrase",
        AskFormat::Hex => "hex key",
        AskFormat::Pin => "PIN",
        AskFormat::KeyFile => "key file",
    }
}

fn too_short(ask: &Ask) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!(
            "the passphrase for '{}' is too short; use at least {PASSPHRASE_MIN} characters",
            ask.dataset
        ),
    }
}

fn too_long(ask: &Ask) -> Failure {
    Failure {
        kind: FailureKind::NoKey,
        message: format!(
            "the {} for '{}' is longer than {PASSPHRASE_MAX} bytes; type less, or use a key file",
            noun(ask.format),
            ask.dataset
        ),
    }
}

/// The standard input is data, and there is no terminal.
fn nowhere_to_ask(ask: &Ask, error: &std::io::Error) -> Failure {
    Failure {
        kind: FailureKind::NoKey,
        message: format!(
            "the {} for '{}' cannot be asked for: the standard input is data, and there is no terminal \
             (/dev/tty: {error}); name a file with the key, as in keysource=raw,file:///etc/keys/k",
            noun(ask.format),
            ask.dataset
        ),
    }
}

fn mismatch(ask: &Ask) -> Failure {
    Failure {
        kind: FailureKind::Usage,
        message: format!(
            "the {} for '{}' was not the same both times",
            noun(ask.format),
            ask.dataset
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};

    use super::*;

    fn input(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    fn ask(twice: bool) -> Ask {
        Ask {
            again: false,
            dataset: "tank/home".into(),
            format: AskFormat::Passphrase,
            twice,
        }
    }

    fn answer(text: &str, twice: bool) -> Option<Vec<u8>> {
        let secret = read_from_script(input(text), &ask(twice)).unwrap();
        secret.map(|secret| secret.expose().to_vec())
    }

    #[test]
    fn one_line_for_each_question() {
        let file = input("first one\nsecond\n\nlast");
        let next = || {
            let secret = read_from_script(&file, &ask(false)).unwrap();
            secret.map(|secret| secret.expose().to_vec())
        };
        assert_eq!(next().unwrap(), b"first one");
        assert_eq!(next().unwrap(), b"second");
        assert_eq!(next().unwrap(), b"");
        assert_eq!(next().unwrap(), b"last");
        assert!(next().is_none());
    }

    #[test]
    fn repetition_may_be_left_out_but_not_differ() {
        assert_eq!(answer("correct horse\n", true).unwrap(), b"correct horse");
        assert_eq!(
            answer("correct horse\ncorrect horse\n", true).unwrap(),
            b"correct horse"
        );
        assert_eq!(answer("", true), None);
        let failure = read_from_script(input("correct horse\ncorrect hors\n"), &ask(true));
        assert_eq!(failure.unwrap_err().kind, FailureKind::Usage);
    }

    /// The end of a long line is not kept, and what is kept is too long, so that it is refused.
    #[test]
    fn endless_lines_are_too_long() {
        let long = "x".repeat(10_000) + "\n";
        let secret = answer(&long, false).unwrap();
        assert_eq!(secret.len(), PASSPHRASE_MAX + 1);
        assert_eq!(
            answer(&long[..PASSPHRASE_MAX], false).unwrap().len(),
            PASSPHRASE_MAX
        );
    }
}
