//! Keys, as the options of a command give them.

use std::path::PathBuf;

use console::key_file::{ask, key_file};
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::Secret;
use stack::formats::pefs::{Algorithm, Config, DEFAULT_ITERATIONS, PefsMasterKey};

use super::place::{Lower, failure};
use crate::pefs::args::{ChildOf, KeyOf};

/// The most key files that make one key.
const KEY_FILES_MAX: usize = 16;
/// The longest passphrase, in bytes.
const PASSPHRASE_MAX: usize = 1023;

/// The algorithm of a key: the directory's, or the one of an option, or none.
pub(super) fn algorithm(typed: Option<&str>, config: &Config) -> Result<Option<Algorithm>> {
    let typed = typed.map(|name| {
        Algorithm::from_name(name).ok_or_else(|| {
            Failure::usage(format!(
                "'{name}' is no algorithm; 'strongroom pefs showalgs' shows them"
            ))
        })
    });
    Ok(config.algorithm.or(typed.transpose()?))
}

/// The first key of a chain; with `new` its passphrase is asked for twice.
pub(super) fn parent(
    lower: &Lower,
    key: &KeyOf,
    config: &Config,
    new: bool,
) -> Result<PefsMasterKey> {
    let how = How {
        place: lower.path().to_owned(),
        no_passphrase: key.no_passphrase,
        iterations: config.iterations.or(key.iterations),
        passfiles: &key.passfiles,
        key_files: &key.key_files,
        new,
    };
    how.read()
}

/// The next key of a chain.
pub(super) fn child(lower: &Lower, key: &ChildOf, config: &Config) -> Result<PefsMasterKey> {
    let how = How {
        place: format!("{}, next key", lower.path().display()).into(),
        no_passphrase: key.child_no_passphrase,
        iterations: config.iterations.or(key.child_iterations),
        passfiles: &key.child_passfiles,
        key_files: &key.child_key_files,
        new: true,
    };
    how.read()
}

/// The parts that make a key.
struct How<'a> {
    /// The name in the question for the passphrase.
    place: PathBuf,
    no_passphrase: bool,
    iterations: Option<u32>,
    passfiles: &'a [PathBuf],
    key_files: &'a [PathBuf],
    new: bool,
}

impl How<'_> {
    fn read(&self) -> Result<PefsMasterKey> {
        if self.key_files.len() > KEY_FILES_MAX {
            return Err(Failure::usage(format!(
                "a key has at most {KEY_FILES_MAX} key files"
            )));
        }
        let files: Result<Vec<Secret>> = self.key_files.iter().map(|path| key_file(path)).collect();
        let files = files?;
        let passphrase = match self.no_passphrase {
            true => None,
            false if self.passfiles.is_empty() => Some(ask(&self.place, self.new)?),
            false => Some(self.first_lines()?),
        };
        let iterations = self.iterations.unwrap_or(DEFAULT_ITERATIONS);
        let passphrase = passphrase.as_ref().map(|secret| (secret, iterations));
        PefsMasterKey::from_parts(&files, passphrase).map_err(|error| failure(&self.place, error))
    }

    /// The first lines of the files, together.
    fn first_lines(&self) -> Result<Secret> {
        let mut all = Secret::new();
        for path in self.passfiles {
            let file = key_file(path)?;
            let line = file.expose().split(|byte| *byte == b'\n').next();
            all.push_slice(line.unwrap_or_default())
                .map_err(Failure::from)?;
        }
        let is_right = all.len() <= PASSPHRASE_MAX && !all.expose().contains(&0);
        match is_right {
            true => Ok(all),
            false => Err(Failure::new(
                FailureKind::NoKey,
                format!("a passphrase has at most {PASSPHRASE_MAX} bytes, and none that is zero"),
            )),
        }
    }
}
