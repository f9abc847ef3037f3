//! A home directory of pefs, at login. All of it happens with the rights of the user.

use std::path::Path;

use cipher::SystemRandom;
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::Secret;
use stack::formats::pefs::{Algorithm, DEFAULT_ITERATIONS, PefsMasterKey};

use super::keys::{add_one, lines, no_record};
use super::mounts;
use super::place::{Lower, failure};
use crate::pefs::args::PefsMount;
use crate::stack::run::{Request, StackedMount, unmount};

/// A home directory, and the directory with its encrypted files.
pub(crate) struct PefsHomeDirectory<'a> {
    home: &'a Path,
    lower: Lower,
}

impl<'a> PefsHomeDirectory<'a> {
    /// The home, if it is of pefs: it is mounted so, or `.pefs.db` or `.pefs.conf` is in it.
    pub(crate) fn find(home: &'a Path, lower: &Path) -> Result<Option<PefsHomeDirectory<'a>>> {
        let lower = Lower::at(lower)?;
        let is_pefs = match StackedMount::at(home) {
            // Mounts of other formats refuse the question, or nothing answers.
            Some(mounted) => mounted
                .ask(&Request::Keys, None)
                .is_ok_and(|keys| lines(keys).is_ok()),
            None => lower.is_pefs(),
        };
        Ok(is_pefs.then_some(PefsHomeDirectory { home, lower }))
    }

    /// The keys that a passphrase leads to. Without a record it leads to none, or to one with `ignore_missing`.
    fn keys(
        &self,
        passphrase: &Secret,
        ignore_missing: bool,
    ) -> Result<Vec<(PefsMasterKey, Algorithm)>> {
        let first = self.key(passphrase)?;
        let alone = first.try_clone().map_err(|error| self.failed(error))?;
        let algorithm = self.lower.config()?.algorithm.unwrap_or_default();
        let chains = self.lower.chains()?;
        if chains
            .is_retired(&first)
            .map_err(|error| self.failed(error))?
        {
            let why = "the passphrase was changed; this is an old one";
            return Err(Failure::new(FailureKind::WrongKey, why));
        }
        let opened = chains.open(first, algorithm);
        match opened.map_err(|error| self.failed(error))? {
            Some(keys) => Ok(keys),
            None if ignore_missing => Ok(vec![(alone, algorithm)]),
            None => Err(no_record(alone.id(), &self.lower)),
        }
    }

    fn key(&self, passphrase: &Secret) -> Result<PefsMasterKey> {
        let iterations = self
            .lower
            .config()?
            .iterations
            .unwrap_or(DEFAULT_ITERATIONS);
        let key = PefsMasterKey::from_parts(&[], Some((passphrase, iterations)));
        key.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: stack::formats::pefs::KeyError) -> Failure {
        failure(self.home, error)
    }

    /// Fails if the passphrase opens nothing.
    pub(crate) fn check(&self, passphrase: &Secret, ignore_missing: bool) -> Result<()> {
        self.keys(passphrase, ignore_missing).map(drop)
    }

    /// Mounts the home if it is not mounted, and adds the keys.
    pub(crate) fn open(&self, passphrase: &Secret, ignore_missing: bool) -> Result<()> {
        let keys = self.keys(passphrase, ignore_missing)?;
        let mounted = match StackedMount::at(self.home) {
            Some(mounted) => mounted,
            None => {
                let done = mounts::mount(&PefsMount {
                    options: Vec::new(),
                    from: Some(self.home.to_owned()),
                    mountpoint: Some(self.home.to_owned()),
                })?;
                let why = "it cannot be mounted; the line above says why";
                StackedMount::at(self.home)
                    .filter(|_| done.exit_code.is_none())
                    .ok_or_else(|| Failure::other(why))?
            }
        };
        for key in &keys {
            match add_one(&mounted, key) {
                // Another session has added it.
                Err(failure) if failure.kind == FailureKind::Exists => {}
                added => added?,
            }
        }
        Ok(())
    }

    /// Removes all keys, and unmounts what a login has mounted.
    pub(crate) fn close(&self, unmounts: bool) -> Result<()> {
        if let Some(mounted) = StackedMount::at(self.home) {
            mounted.ask(&Request::Flush, None)?;
            if unmounts {
                unmount(self.home, false)?;
            }
        }
        Ok(())
    }

    /// Has the new passphrase lead to the keys of the old one. Logins accept the old one no longer.
    pub(crate) fn change(&self, old: &Secret, new: &Secret) -> Result<()> {
        let algorithm = self.lower.config()?.algorithm.unwrap_or_default();
        let (old, new) = (self.key(old)?, self.key(new)?);
        let id = old.id();
        if id == new.id() {
            return Ok(());
        }
        self.lower.change(|chains| {
            if chains.has(new.id()) {
                let why = "the new passphrase was used before; take another one";
                return Err(Failure::new(FailureKind::Exists, why));
            }
            let is_done = chains.rekey(old, (&new, algorithm), &SystemRandom);
            match is_done.map_err(|error| self.failed(error))? {
                true => Ok(()),
                false => Err(no_record(id, &self.lower)),
            }
        })
    }
}
