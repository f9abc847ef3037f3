//! Everything of a user that a passphrase opens at login, behind one interface.

use std::path::Path;

use secret::Secret;

use super::dataset;
use crate::outcome::Result;

/// One thing that a passphrase opens.
#[derive(Debug)]
pub(super) enum Part {
    Dataset(dataset::Home),
}

impl Part {
    /// All that the user has.
    pub(super) fn all(home: &Path) -> Result<Vec<Part>> {
        let dataset = dataset::Home::find(home)?.map(Part::Dataset);
        Ok(dataset.into_iter().collect())
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        match self {
            Part::Dataset(home) => format!("dataset {}", home.name()),
        }
    }

    /// Fails if the passphrase does not open it. Nothing changes.
    pub(super) fn check(&self, passphrase: &Secret) -> Result<()> {
        match self {
            Part::Dataset(home) => home.check(passphrase),
        }
    }

    /// Whether it is open already, by whatever opened it.
    pub(super) fn is_open(&self) -> Result<bool> {
        match self {
            Part::Dataset(home) => Ok(home.is_loaded()? && home.is_mounted()?),
        }
    }

    /// Opens it.
    pub(super) fn open(&self, passphrase: &Secret) -> Result<()> {
        match self {
            Part::Dataset(home) => home.open(passphrase),
        }
    }

    /// Closes what a session opened.
    pub(super) fn close(&self) -> Result<()> {
        match self {
            Part::Dataset(home) => home.close(),
        }
    }

    /// Has the new passphrase open it, and the old one no longer.
    pub(super) fn change(&self, old: &Secret, new: &Secret) -> Result<()> {
        match self {
            Part::Dataset(home) => home.change(old, new),
        }
    }
}
