//! Passphrases and key files of containers, and the cost of a guess.

use std::time::Duration;

use console::key_file::{KeyFilePart, ask_with, question};
use console::outcome::Result;
use console::terminal::Prompter;
use protocol::api::{Ask, Failure};
use protocol::client::Terminal;
use secret::Secret;

use crate::cmd::luks::args::{LuksContainer, LuksKdf, LuksKey};

/// Reads or asks for the passphrase of the container.
pub(super) fn passphrase(key: &LuksKey, container: &LuksContainer) -> Result<Secret> {
    match &key.key_file {
        Some(path) => key.part().read(path),
        None => ask_with(&mut key.prompter(), container.header_device(), false),
    }
}

/// Unlocks the container. Returns the passphrase, and what `open` makes of it. A person who typed a wrong passphrase
/// is asked again.
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

impl LuksKey {
    /// The part of its key file that is the passphrase.
    pub(super) fn part(&self) -> KeyFilePart {
        self.part_of(self.keyfile_offset, self.keyfile_size)
    }

    /// A part of another key file of the command.
    pub(super) fn part_of(&self, offset: u64, len: Option<usize>) -> KeyFilePart {
        KeyFilePart {
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

/// The cost of a guess at a new passphrase.
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
