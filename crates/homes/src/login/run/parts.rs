//! All homes of a user that a passphrase opens at login, behind one interface.

use console::outcome::Result;
use secret::Secret;

use super::dataset;
use super::fscrypt::Protectors;
use super::pefs::PefsHome;
use crate::login::args::{LoginArgs, LoginStep};

/// A home that a passphrase opens.
#[derive(Debug)]
pub(super) enum HomePart<'a> {
    Pefs(PefsHome<'a>),
    Dataset(dataset::DatasetHome<'a>),
    Fscrypt(Protectors<'a>),
}

impl<'a> HomePart<'a> {
    /// All that the user has. A session opens the dataset whose passphrase its authentication has checked, and closes
    /// the datasets that sessions have opened (`notes`).
    pub(super) fn all(args: &'a LoginArgs, notes: &[String]) -> Result<Vec<HomePart<'a>>> {
        let pefs = PefsHome::find(args)?.map(HomePart::Pefs);
        let dataset: Vec<_> = match (args.step, args.dataset) {
            (LoginStep::Close, _) => notes
                .iter()
                .filter_map(|note| dataset::DatasetHome::of_note(args, note))
                .collect(),
            (LoginStep::Open, None) => Vec::new(),
            (_, chosen) => dataset::DatasetHome::find(args, chosen)?
                .into_iter()
                .collect(),
        };
        let dataset = dataset.into_iter().map(HomePart::Dataset);
        let fscrypt = Protectors::find(args)?.into_iter().map(HomePart::Fscrypt);
        Ok(pefs.into_iter().chain(dataset).chain(fscrypt).collect())
    }

    pub(super) fn name(&self) -> String {
        match self {
            HomePart::Pefs(_) => "pefs".to_owned(),
            HomePart::Dataset(home) => format!("dataset {}", home.name()),
            HomePart::Fscrypt(protectors) => protectors.name().to_owned(),
        }
    }

    /// The note of a session that opens it.
    pub(super) fn note(&self) -> String {
        match self {
            HomePart::Dataset(home) => home.note(),
            HomePart::Pefs(_) | HomePart::Fscrypt(_) => self.name(),
        }
    }

    /// Fails if the passphrase does not open it. Nothing changes. `step` is the one for which it is checked.
    /// Returns the guid of the dataset that it opens.
    pub(super) fn check(&self, step: LoginStep, passphrase: &Secret) -> Result<Option<u64>> {
        match self {
            HomePart::Pefs(home) => home.run(step, &[passphrase], false).map(|()| None),
            HomePart::Dataset(home) => home.check(passphrase).map(Some),
            HomePart::Fscrypt(protectors) => protectors.run(step, &[passphrase]).map(|()| None),
        }
    }

    /// Returns whether it is open already, by whatever opened it.
    pub(super) fn is_open(&self) -> bool {
        match self {
            HomePart::Pefs(home) => home.is_mounted(),
            HomePart::Dataset(home) => home.is_open(),
            // `delkeys` alone decides what becomes of keys.
            HomePart::Fscrypt(_) => true,
        }
    }

    pub(super) fn open(&self, passphrase: &Secret) -> Result<()> {
        match self {
            HomePart::Pefs(home) => home.run(LoginStep::Open, &[passphrase], false),
            HomePart::Dataset(home) => home.open(passphrase),
            HomePart::Fscrypt(protectors) => protectors.run(LoginStep::Open, &[passphrase]),
        }
    }

    /// Closes it. `is_own`: a session has opened it. `delkeys`: keys go in any case. Returns whether it is as before
    /// the first session.
    pub(super) fn close(&self, is_own: bool, delkeys: bool) -> Result<bool> {
        match self {
            HomePart::Pefs(home) if delkeys => {
                home.run(LoginStep::Close, &[], is_own).map(|()| true)
            }
            HomePart::Fscrypt(protectors) if delkeys => {
                protectors.run(LoginStep::Close, &[]).map(|()| true)
            }
            HomePart::Dataset(home) if is_own => home.close().map(|()| true),
            HomePart::Pefs(_) | HomePart::Dataset(_) | HomePart::Fscrypt(_) => Ok(!is_own),
        }
    }

    /// Returns whether it takes a passphrase that it had before.
    pub(super) fn changes_back(&self) -> bool {
        !matches!(self, HomePart::Pefs(_))
    }

    /// Has the new passphrase open it, and the old one no longer.
    pub(super) fn change(&self, old: &Secret, new: &Secret) -> Result<()> {
        match self {
            HomePart::Pefs(home) => home.run(LoginStep::Password, &[old, new], false),
            HomePart::Dataset(home) => home.change(old, new),
            HomePart::Fscrypt(protectors) => protectors.run(LoginStep::Password, &[old, new]),
        }
    }
}
