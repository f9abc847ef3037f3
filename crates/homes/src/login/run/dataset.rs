//! A dataset of a pool as home: the passphrase opens its key.

use std::collections::VecDeque;
use std::path::Path;

use console::outcome::Result;
use console::session::unexpected;
use protocol::api::{Ask, Command, Failure, FailureKind, HomeRow, HomeStep, Reply, command};
use protocol::client::{DaemonConnection, SYSTEM_SOCKET, Terminal};
use secret::Secret;

use crate::login::args::LoginArgs;

/// The beginning of the note of a session that has opened a dataset. The guid follows.
const NOTE: &str = "dataset ";

/// A dataset whose mountpoint is a home, and whose key a passphrase opens. The daemon decides which datasets may be.
#[derive(Debug)]
pub(super) struct DatasetHome<'a> {
    args: &'a LoginArgs,
    row: HomeRow,
}

impl<'a> DatasetHome<'a> {
    /// The dataset that may be the home; with `dataset`, only the one with this guid. Asks the daemon of root. Without
    /// a daemon there are no datasets.
    pub(super) fn find(
        args: &'a LoginArgs,
        dataset: Option<u64>,
    ) -> Result<Option<DatasetHome<'a>>> {
        match call(args, HomeStep::Find, dataset, &[]) {
            Ok(row) => Ok(Some(DatasetHome { args, row })),
            Err(failure) => match failure.kind {
                FailureKind::NotFound | FailureKind::NoDaemon => Ok(None),
                _ => Err(failure),
            },
        }
    }

    /// The dataset of the note of a session, whatever its name is now.
    pub(super) fn of_note(args: &'a LoginArgs, note: &str) -> Option<DatasetHome<'a>> {
        let dataset = note.strip_prefix(NOTE)?.parse().ok()?;
        let row = HomeRow {
            name: format!("with the guid {dataset}"),
            dataset,
            is_open: true,
        };
        Some(DatasetHome { args, row })
    }

    /// The note of a session that opens it.
    pub(super) fn note(&self) -> String {
        format!("{NOTE}{}", self.row.dataset)
    }

    /// The name of the dataset in messages.
    pub(super) fn name(&self) -> &str {
        &self.row.name
    }

    pub(super) fn is_open(&self) -> bool {
        self.row.is_open
    }

    /// Checks the passphrase, also if the key is loaded. Nothing changes. Returns the guid of the dataset that it
    /// opens.
    pub(super) fn check(&self, passphrase: &Secret) -> Result<u64> {
        let row = call(self.args, HomeStep::Check, None, &[passphrase])?;
        Ok(row.dataset)
    }

    /// Checks the passphrase, loads the key and mounts.
    pub(super) fn open(&self, passphrase: &Secret) -> Result<()> {
        let dataset = Some(self.row.dataset);
        call(self.args, HomeStep::Open, dataset, &[passphrase]).map(drop)
    }

    /// Unmounts and unloads the key. What is in use stays, with an error.
    pub(super) fn close(&self) -> Result<()> {
        match call(self.args, HomeStep::Close, Some(self.row.dataset), &[]) {
            Err(failure) if failure.kind == FailureKind::NotFound => Ok(()),
            closed => closed.map(drop),
        }
    }

    /// Puts the key under another passphrase.
    pub(super) fn change(&self, old: &Secret, new: &Secret) -> Result<()> {
        call(self.args, HomeStep::Change, None, &[old, new]).map(drop)
    }
}

/// Has the daemon of root do a step. It gets these passphrases when it asks.
fn call(
    args: &LoginArgs,
    step: HomeStep,
    dataset: Option<u64>,
    passphrases: &[&Secret],
) -> Result<HomeRow> {
    let dir = args.home.to_str().unwrap_or_default();
    let home = command::Home {
        step,
        dir: dir.trim_end_matches('/').to_owned(),
        uid: args.uid,
        dataset,
    };
    let client = DaemonConnection::connect(Path::new(SYSTEM_SOCKET))?;
    let copies = passphrases.iter().map(|secret| secret.try_clone());
    let copies: std::result::Result<_, _> = copies.collect();
    let mut known = QueuedAnswers {
        secrets: copies.map_err(Failure::from)?,
    };
    match client.call(Command::from(home), &mut known)? {
        Reply::Home(row) => Ok(row),
        reply => Err(unexpected(&reply)),
    }
}

struct QueuedAnswers {
    secrets: VecDeque<Secret>,
}

impl Terminal for QueuedAnswers {
    fn ask(&mut self, _: &Ask) -> std::result::Result<Option<Secret>, Failure> {
        Ok(self.secrets.pop_front())
    }

    fn notice(&mut self, text: &str) {
        eprintln!("strongroom: {}", console::show::text::message(text));
    }
}
