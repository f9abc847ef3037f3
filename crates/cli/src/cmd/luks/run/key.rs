//! What opens a container, and what a guess at it costs.

use std::fs::File;
use std::path::Path;

use daemon::Failure;
use protocol::api::{Ask, AskFormat, FailureKind};
use protocol::client::Terminal;
use secret::Secret;

use crate::cmd::luks::args::{LuksContainer, LuksKdf, LuksKey};
use crate::outcome::LocalResult as Result;
use crate::terminal::{Prompter, input_is_data};

/// No key file is longer, in bytes: as cryptsetup has it.
const KEY_FILE_MAX: usize = protocol::wire::KEY_FILE_MAX as usize;

/// What opens the container.
pub(super) fn passphrase(key: &LuksKey, container: &LuksContainer) -> Result<Secret> {
    match &key.key_file {
        Some(path) => key_file(path),
        None => ask(container.header_device(), false),
    }
}

/// Asks for a passphrase, twice for a new one.
pub(crate) fn ask(device: &Path, new: bool) -> Result<Secret> {
    let ask = Ask {
        again: false,
        dataset: device.display().to_string(),
        format: AskFormat::Passphrase,
        twice: new,
    };
    Prompter::default().ask(&ask)?.ok_or_else(|| {
        let message = format!("the passphrase of '{}' was not given", ask.dataset);
        Failure::new(FailureKind::NoKey, message)
    })
}

/// All that is in a key file, with newlines.
pub(crate) fn key_file(path: &Path) -> Result<Secret> {
    read_key_file(path, None)
}

/// What is in a key file, or its beginning of at most `len_max` bytes. The file may be a pipe: the calling
/// user waits for it, and the daemon does not.
pub(super) fn read_key_file(path: &Path, len_max: Option<usize>) -> Result<Secret> {
    secret::harden_process().map_err(Failure::from)?;
    let unreadable = |reason: String| {
        let message = format!("the key file {}: {reason}", path.display());
        Failure::new(FailureKind::NoKey, message)
    };
    let limit = len_max.unwrap_or(KEY_FILE_MAX + 1);
    let key = match path.as_os_str() == "-" {
        true => {
            input_is_data();
            Secret::from_reader(&mut std::io::stdin(), limit)
        }
        false => {
            let mut file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
            Secret::from_reader(&mut file, limit)
        }
    };
    let key = key.map_err(Failure::from)?;
    match key.len() {
        0 => Err(unreadable("it is empty".into())),
        len if len > KEY_FILE_MAX => Err(unreadable("it is too long to be a key".into())),
        _ => Ok(key),
    }
}

/// What a guess at a new passphrase costs.
pub(super) fn slot_choice(kdf: &LuksKdf, version: luks::Version) -> luks::SlotChoice {
    let mut choice = luks::SlotChoice::new(version);
    choice.af_hash = kdf.hash.clone();
    let cost = &mut choice.kdf;
    cost.hash = kdf.hash.clone();
    cost.kind = kdf.pbkdf.map_or(cost.kind, |pbkdf| pbkdf.kind());
    cost.force_iterations = kdf.pbkdf_force_iterations;
    cost.memory_kib = kdf.pbkdf_memory.unwrap_or(cost.memory_kib);
    cost.lanes = kdf.pbkdf_parallel;
    cost.time = kdf
        .iter_time
        .map_or(cost.time, std::time::Duration::from_millis);
    choice
}
