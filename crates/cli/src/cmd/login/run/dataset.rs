//! A dataset of a pool as home: the passphrase opens its key.

use std::collections::VecDeque;
use std::path::Path;

use protocol::api::{
    Ask, Command, DatasetRow, Failure, FailureKind, KeyRow, Reply, Value, command,
};
use protocol::client::{Client, SYSTEM_SOCKET, Terminal};
use secret::Secret;

use crate::outcome::Result;
use crate::session::unexpected;

/// The dataset whose mountpoint is a home, and whose key a passphrase opens.
#[derive(Debug)]
pub(super) struct Home {
    name: String,
}

impl Home {
    /// Asks the daemon of root. Without a daemon there are no datasets.
    pub(super) fn find(home: &Path) -> Result<Option<Home>> {
        let Some(home) = home.to_str() else {
            return Ok(None);
        };
        let home = match home.trim_end_matches('/') {
            "" => return Ok(None),
            home => home,
        };
        let get = command::Get {
            names: Vec::new(),
            depth: None,
            snapshots: false,
            bookmarks: false,
            props: vec!["mountpoint".into()],
        };
        let rows = match call(get, &[]) {
            Ok(Reply::Datasets(rows)) => rows,
            Ok(reply) => return Err(unexpected(&reply)),
            Err(failure) if failure.kind == FailureKind::NoDaemon => return Ok(None),
            Err(failure) => return Err(failure),
        };
        for row in rows.iter().filter(|row| is_at(row, home)) {
            if let Some(key) = key(&row.name)?
                && key.key_root == row.name
                && key.keysource.split(',').next() == Some("passphrase")
            {
                let name = row.name.clone();
                return Ok(Some(Home { name }));
            }
        }
        Ok(None)
    }

    /// What it is called in messages and notes.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_loaded(&self) -> Result<bool> {
        Ok(key(&self.name)?.is_some_and(|key| key.status == "available"))
    }

    pub(super) fn is_mounted(&self) -> Result<bool> {
        match call(Command::Mounts, &[])? {
            Reply::Mounts(rows) => Ok(rows.iter().any(|row| row.name == self.name)),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Whether the passphrase is the right one. Nothing changes.
    pub(super) fn check(&self, passphrase: &Secret) -> Result<()> {
        self.load_key(passphrase, true)
    }

    fn load_key(&self, passphrase: &Secret, dry_run: bool) -> Result<()> {
        let load = command::KeyLoad {
            names: vec![self.name.clone()],
            recursive: false,
            location: None,
            keysource: None,
            dry_run,
        };
        call(load, &[passphrase]).map(drop)
    }

    fn unload_key(&self) -> Result<()> {
        let unload = command::KeyUnload {
            names: vec![self.name.clone()],
            recursive: false,
            force: false,
        };
        call(unload, &[]).map(drop)
    }

    /// Loads the key and mounts.
    pub(super) fn open(&self, passphrase: &Secret) -> Result<()> {
        if !self.is_loaded()? {
            self.load_key(passphrase, false)?;
        }
        if self.is_mounted()? {
            return Ok(());
        }
        let mount = command::Mount {
            name: Some(self.name.clone()),
            dir: None,
            load_keys: false,
            read_only: false,
            // Files that were made in the directory below must not keep the user out.
            overlay: true,
            allowed: Default::default(),
        };
        call(mount, &[]).map(drop)
    }

    /// Unmounts and unloads the key. What is in use stays, with an error.
    pub(super) fn close(&self) -> Result<()> {
        if self.is_mounted()? {
            let target = Some(self.name.clone());
            let force = false;
            call(command::Unmount { target, force }, &[])?;
        }
        match self.is_loaded()? {
            true => self.unload_key(),
            false => Ok(()),
        }
    }

    /// Puts the key under another passphrase.
    pub(super) fn change(&self, old: &Secret, new: &Secret) -> Result<()> {
        let was_loaded = self.is_loaded()?;
        match was_loaded {
            true => self.check(old)?,
            false => self.load_key(old, false)?,
        }
        let change = command::KeyChange {
            name: self.name.clone(),
            keysource: None,
            slot: None,
            only: false,
            inherit: false,
        };
        let changed = call(change, &[new]).map(drop);
        if !was_loaded {
            self.unload_key()?;
        }
        changed
    }
}

fn is_at(row: &DatasetRow, home: &str) -> bool {
    let mut props = row.props.iter();
    row.kind == "filesystem"
        && props
            .any(|prop| prop.property == "mountpoint" && prop.value == Value::Text(home.to_owned()))
}

/// The key of a dataset, if it is encrypted.
fn key(name: &str) -> Result<Option<KeyRow>> {
    let names = vec![name.to_owned()];
    match call(command::KeyStatus { names }, &[])? {
        Reply::Keys(rows) => Ok(rows.into_iter().find(|row| row.name == name)),
        reply => Err(unexpected(&reply)),
    }
}

/// Has the daemon of root do something. It gets these passphrases when it asks.
fn call(command: impl Into<Command>, passphrases: &[&Secret]) -> Result<Reply> {
    let client = Client::connect(Path::new(SYSTEM_SOCKET))?;
    let copies = passphrases.iter().map(|secret| secret.try_clone());
    let copies: std::result::Result<_, _> = copies.collect();
    let mut known = Known {
        secrets: copies.map_err(daemon::Failure::from)?,
    };
    client.call(command, &mut known)
}

struct Known {
    secrets: VecDeque<Secret>,
}

impl Terminal for Known {
    fn ask(&mut self, _: &Ask) -> std::result::Result<Option<Secret>, Failure> {
        Ok(self.secrets.pop_front())
    }

    fn notice(&mut self, text: &str) {
        eprintln!("strongroom: {}", crate::show::text::message(text));
    }
}
