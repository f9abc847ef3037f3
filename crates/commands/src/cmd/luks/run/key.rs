//! Passphrases and key files of containers, and the cost of a guess.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keys::TokenUri;
use protocol::api::{Ask, AskFormat, Failure, FailureKind};
use protocol::client::Terminal;
use secret::Secret;

use crate::cmd::luks::args::{LuksContainer, LuksKdf, LuksKey};
use crate::outcome::Result;
use crate::session::absolute;
use crate::terminal::{Prompter, input_is_data};

/// No key file is longer, in bytes: as cryptsetup has it.
const KEY_FILE_MAX: usize = protocol::wire::KEY_FILE_MAX as usize;

/// What opens the container.
pub(super) fn passphrase(key: &LuksKey, container: &LuksContainer) -> Result<Secret> {
    match &key.key_file {
        Some(path) => key.part().read(path),
        None => ask_with(&mut key.prompter(), container.header_device(), false),
    }
}

/// What opens the container, and what `open` makes of it. A person who typed a wrong passphrase is asked again.
pub(super) fn unlock<T>(
    key: &LuksKey,
    container: &LuksContainer,
    open: impl Fn(&Secret) -> luks::Result<T>,
) -> Result<(Secret, T)> {
    if let Some(path) = &key.key_file {
        let given = key.part().read(path)?;
        let opened = open(&given)?;
        return Ok((given, opened));
    }
    let mut prompter = key.prompter();
    let device = container.header_device();
    let mut given = ask_with(&mut prompter, device, false)?;
    loop {
        let failure = match open(&given) {
            Ok(opened) => return Ok((given, opened)),
            Err(wrong @ luks::Error::WrongPassphrase { .. }) => wrong,
            Err(other) => return Err(other.into()),
        };
        let ask = Ask {
            again: true,
            ..question(device, false)
        };
        given = match prompter.ask(&ask)? {
            Some(next) => next,
            None => return Err(failure.into()),
        };
    }
}

/// A part of a key file.
#[derive(Clone, Default)]
pub(super) struct Part {
    /// The list of PKCS#11 modules, if it is not the usual one.
    list: Option<PathBuf>,
    /// How many bytes come before it.
    offset: u64,
    /// How many bytes it has; as many as there are if not said.
    len: Option<usize>,
    /// How many bytes are taken of a file that may have fewer or more.
    pub(super) at_most: Option<usize>,
}

impl LuksKey {
    /// The part of its key file that is the passphrase.
    pub(super) fn part(&self) -> Part {
        self.part_of(self.keyfile_offset, self.keyfile_size)
    }

    /// A part of another key file of the command.
    pub(super) fn part_of(&self, offset: u64, len: Option<usize>) -> Part {
        Part {
            list: self.pkcs11_list.clone(),
            offset,
            // As with cryptsetup, which writes "no limit" so.
            len: len.filter(|len| *len > 0),
            at_most: None,
        }
    }

    /// Asks as often and as long as was said.
    pub(super) fn prompter(&self) -> Prompter {
        let mut prompter = Prompter::default();
        self.limit(&mut prompter);
        prompter
    }

    pub(super) fn limit(&self, prompter: &mut Prompter) {
        let timeout = Some(self.timeout).filter(|seconds| *seconds > 0);
        prompter.limit(self.tries, timeout.map(Duration::from_secs));
    }
}

/// Asks for a passphrase, twice for a new one.
pub(crate) fn ask(device: &Path, new: bool) -> Result<Secret> {
    ask_with(&mut Prompter::default(), device, new)
}

fn question(device: &Path, new: bool) -> Ask {
    Ask {
        again: false,
        dataset: device.display().to_string(),
        format: AskFormat::Passphrase,
        twice: new,
    }
}

/// Asks for the PIN of a token. Once, since a wrong one counts.
pub(super) fn ask_pin(device: &Path) -> Result<Secret> {
    let ask = Ask {
        format: AskFormat::Pin,
        ..question(device, false)
    };
    Prompter::default().ask(&ask)?.ok_or_else(|| {
        let message = format!("the PIN of '{}' was not given", ask.dataset);
        Failure::new(FailureKind::NoKey, message)
    })
}

pub(super) fn ask_with(prompter: &mut Prompter, device: &Path, new: bool) -> Result<Secret> {
    let ask = question(device, new);
    prompter.ask(&ask)?.ok_or_else(|| {
        let message = format!("the passphrase of '{}' was not given", ask.dataset);
        Failure::new(FailureKind::NoKey, message)
    })
}

/// The URI of an object in a PKCS#11 token, if it stands in place of a key file.
pub(super) fn token_uri(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with("pkcs11:"))
}

/// All that is in a key file, with newlines. An empty one is no key.
pub(crate) fn key_file(path: &Path) -> Result<Secret> {
    let key = Part::default().read(path)?;
    match key.is_empty() {
        true => Err(unreadable(path, "it is empty")),
        false => Ok(key),
    }
}

fn unreadable(path: &Path, reason: impl std::fmt::Display) -> Failure {
    let message = format!("the key file {}: {reason}", path.display());
    Failure::new(FailureKind::NoKey, message)
}

impl Part {
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
    pub(super) fn read(&self, path: &Path) -> Result<Secret> {
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

/// What a guess at a new passphrase costs.
pub(super) fn slot_choice(
    kdf: &LuksKdf,
    version: luks::ContainerVersion,
) -> Result<luks::SlotChoice> {
    let mut choice = luks::SlotChoice::new(version);
    choice.af_hash = kdf.hash.clone();
    let cost = &mut choice.kdf;
    cost.hash = kdf.hash.clone();
    cost.kind = kdf.pbkdf.map_or(cost.kind, |pbkdf| pbkdf.kind());
    cost.force_iterations = kdf.pbkdf_force_iterations;
    cost.memory_kib = kdf.pbkdf_memory.unwrap_or(cost.memory_kib);
    cost.lanes = kdf.pbkdf_parallel;
    cost.time = kdf.iter_time.map_or(cost.time, Duration::from_millis);
    if let (Some(cipher), Some(bits)) = (&kdf.keyslot_cipher, kdf.keyslot_key_size) {
        choice.cipher = Some((cipher.clone(), key_len(bits)?));
    }
    Ok(choice)
}

/// The length of a key in bytes.
pub(super) fn key_len(bits: usize) -> Result<usize> {
    match bits.is_multiple_of(8) {
        true => Ok(bits / 8),
        false => Err(Failure::usage(
            "the length of a key must be a multiple of 8 bits",
        )),
    }
}
