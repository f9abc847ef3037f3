//! Secrets of stacked directories and containers: key files, objects in tokens, passphrases that are asked for.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use keys::TokenUri;
use protocol::api::{Ask, AskFormat, Failure, FailureKind};
use protocol::client::Terminal;
use secret::Secret;

use crate::outcome::Result;
use crate::session::absolute;
use crate::terminal::{Prompter, input_is_data};

/// No key file is longer, in bytes: as cryptsetup has it.
const KEY_FILE_MAX: usize = protocol::wire::KEY_FILE_MAX as usize;

/// A part of a key file.
#[derive(Clone, Default)]
pub struct KeyFilePart {
    /// The list of PKCS#11 modules, if it is not the usual one.
    pub list: Option<PathBuf>,
    /// The number of bytes that come before it.
    pub offset: u64,
    /// The number of bytes that it has; as many as there are if not said.
    pub len: Option<usize>,
    /// The number of bytes that are taken of a file that may have fewer or more.
    pub at_most: Option<usize>,
}

/// Asks for a passphrase, twice for a new one.
pub fn ask(device: &Path, new: bool) -> Result<Secret> {
    ask_with(&mut Prompter::default(), device, new)
}

/// The question for a passphrase, twice for a new one.
pub fn question(device: &Path, new: bool) -> Ask {
    Ask {
        again: false,
        dataset: device.display().to_string(),
        format: AskFormat::Passphrase,
        twice: new,
    }
}

/// Asks for the PIN of a token. Once, since a wrong one counts.
pub fn ask_pin(device: &Path) -> Result<Secret> {
    let ask = Ask {
        format: AskFormat::Pin,
        ..question(device, false)
    };
    Prompter::default().ask(&ask)?.ok_or_else(|| {
        let message = format!("the PIN of '{}' was not given", ask.dataset);
        Failure::new(FailureKind::NoKey, message)
    })
}

/// Asks for a passphrase with a prompter.
pub fn ask_with(prompter: &mut Prompter, device: &Path, new: bool) -> Result<Secret> {
    let ask = question(device, new);
    prompter.ask(&ask)?.ok_or_else(|| {
        let message = format!("the passphrase of '{}' was not given", ask.dataset);
        Failure::new(FailureKind::NoKey, message)
    })
}

/// The URI of an object in a PKCS#11 token, if it stands in place of a key file.
pub fn token_uri(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with("pkcs11:"))
}

/// All that is in a key file, with newlines. An empty one is no key.
pub fn key_file(path: &Path) -> Result<Secret> {
    let key = KeyFilePart::default().read(path)?;
    match key.is_empty() {
        true => Err(unreadable(path, "it is empty")),
        false => Ok(key),
    }
}

fn unreadable(path: &Path, reason: impl std::fmt::Display) -> Failure {
    let message = format!("the key file {}: {reason}", path.display());
    Failure::new(FailureKind::NoKey, message)
}

impl KeyFilePart {
    /// Reads the secret of an object in a token.
    fn read_object(&self, uri: &str) -> Result<Secret> {
        if self.offset > 0 || self.len.is_some() {
            return Err(Failure::usage(
                "an object in a token is taken whole; leave out --keyfile-offset and --keyfile-size",
            ));
        }
        let uri = TokenUri::from_text(uri)?;
        let pin = match uri.pin_source() {
            Some(path) => keys::read_pin(path)?,
            None => ask_pin(Path::new(uri.shown()))?,
        };
        let list = self.list.as_deref().map(absolute).transpose()?;
        let modules = daemon::token_modules(list.as_deref());
        Ok(keys::token_secret(&modules, &uri, pin)?)
    }

    /// Reads it. The file may be a pipe: the calling user waits for it, and the daemon does not. A file may
    /// be empty, as with cryptsetup; the standard input may not.
    pub fn read(&self, path: &Path) -> Result<Secret> {
        secret::harden_process().map_err(Failure::from)?;
        if let Some(uri) = token_uri(path) {
            return self.read_object(uri);
        }
        let is_input = path.as_os_str() == "-";
        let mut from: Box<dyn Read> = match is_input {
            true => {
                input_is_data();
                Box::new(std::io::stdin())
            }
            false => Box::new(File::open(path).map_err(|error| unreadable(path, error))?),
        };
        let skipped = std::io::copy(&mut from.by_ref().take(self.offset), &mut std::io::sink());
        let skipped = skipped.map_err(|error| unreadable(path, error))?;
        if skipped < self.offset {
            let reason = format!(
                "it has {skipped} bytes, and byte {} is asked for",
                self.offset
            );
            return Err(unreadable(path, reason));
        }
        let wanted = self.len.or(self.at_most);
        let limit = wanted.unwrap_or(KEY_FILE_MAX + 1).min(KEY_FILE_MAX + 1);
        let key = Secret::from_reader(&mut from, limit).map_err(|error| match error {
            secret::Error::Read(error) => unreadable(path, error),
            other => Failure::from(other),
        })?;
        match (key.len(), self.len) {
            (0, None) if is_input => Err(unreadable(path, "it is empty")),
            (len, _) if len > KEY_FILE_MAX => Err(unreadable(path, "it is too long to be a key")),
            (len, Some(all)) if len < all => {
                let reason = format!("{all} bytes are asked for, and there are {len}");
                Err(unreadable(path, reason))
            }
            _ => Ok(key),
        }
    }
}
