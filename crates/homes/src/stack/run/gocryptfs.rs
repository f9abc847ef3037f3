//! Directories in the format of gocryptfs.

use std::path::Path;
use std::sync::Arc;

use cipher::{Random, SystemRandom};
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::Key;
use stack::Entry;
use stack::formats::gocryptfs::{
    CONFIG_MAX, CONFIG_NAME, Config, ConfigError, ContentCipher, Features, GocryptfsFormat,
    REVERSE_CONFIG_NAME, Reverse,
};
use vfs::Error;

use super::lower;
use crate::stack::args::{StackCipher, StackInit, StackKey, StackPasswd};

/// The cost of a guess at a passphrase: scrypt with 2^16 passes, as gocryptfs has it.
const LOG_N: u8 = 16;

/// The configuration of a directory, if it has one.
pub(super) fn config(dir: &Path, lower: &Entry) -> Result<Option<Config>> {
    Ok(stored(dir, lower, CONFIG_NAME)?.map(|(_, config)| config))
}

/// The configuration with which a plain directory is shown encrypted, if it has one.
pub(super) fn reverse_config(dir: &Path, lower: &Entry) -> Result<Option<Config>> {
    Ok(stored(dir, lower, REVERSE_CONFIG_NAME)?.map(|(_, config)| config))
}

/// The configuration of this name in a directory, and the file that has it.
fn stored(dir: &Path, lower: &Entry, name: &str) -> Result<Option<(Vec<u8>, Config)>> {
    // One byte more than a configuration has: the decoder says of a longer file that it is too long.
    match lower.read_start(name.as_bytes(), CONFIG_MAX + 1) {
        Ok(bytes) => match Config::decode(&bytes) {
            Ok(config) => Ok(Some((bytes, config))),
            Err(error) => Err(failure(dir, error)),
        },
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(lower::failure(dir, error)),
    }
}

/// The format of a directory, opened by its passphrase.
pub(super) fn open(dir: &Path, config: &Config, key: &StackKey) -> Result<GocryptfsFormat> {
    let master = unlock(dir, config, key)?;
    GocryptfsFormat::new(config, &master, Arc::new(SystemRandom))
        .map_err(|error| failure(dir, error))
}

/// The keys that encrypt a plain directory, opened by its passphrase.
pub(super) fn open_reverse(dir: &Path, lower: &Entry, key: &StackKey) -> Result<Reverse> {
    let Some(config) = reverse_config(dir, lower)? else {
        let message = format!(
            "{} has no {REVERSE_CONFIG_NAME}: use `stack init --format gocryptfs --reverse` first",
            dir.display()
        );
        return Err(Failure::other(message));
    };
    let master = unlock(dir, &config, key)?;
    Reverse::new(&config, &master, Arc::new(SystemRandom)).map_err(|error| failure(dir, error))
}

fn unlock(dir: &Path, config: &Config, key: &StackKey) -> Result<Key> {
    if !key.key_file.is_empty() {
        let message = "gocryptfs is opened by a passphrase: use --passfile, or type it";
        return Err(Failure::usage(message));
    }
    let passphrase = lower::passphrase(dir, key, false)?;
    (config.unlock(&passphrase)).map_err(|error| failure(dir, error))
}

/// Prepares an empty directory, or a plain one to be shown encrypted.
pub(super) fn init(args: &StackInit) -> Result<()> {
    let content = match args.cipher {
        StackCipher::Aes256 if args.reverse => ContentCipher::AesSiv,
        StackCipher::Xchacha20 if args.reverse => {
            return Err(Failure::usage("with --reverse there is no other cipher"));
        }
        StackCipher::Aes256 => ContentCipher::AesGcm,
        StackCipher::Xchacha20 => ContentCipher::XChaCha20Poly1305,
        _ => {
            return Err(Failure::usage(
                "gocryptfs has the ciphers aes-256 and xchacha20",
            ));
        }
    };
    if !args.key.key_file.is_empty() || args.padding.is_some() || args.attributes.is_some() {
        let message = "--key-file, --padding and --attributes are for the format fscrypt";
        return Err(Failure::usage(message));
    }
    let lower = lower::open(&args.dir)?;
    let has_config = config(&args.dir, &lower)?.is_some();
    if has_config || reverse_config(&args.dir, &lower)?.is_some() {
        return Err(lower::failure(&args.dir, Error::Exists));
    }
    // That it is empty is checked before the passphrase is asked for, and again when files are made.
    if !args.reverse {
        stack::prepare(&lower, &[]).map_err(|error| lower::failure(&args.dir, error))?;
    }
    let passphrase = lower::passphrase(&args.dir, &args.key, true)?;
    let features = Features {
        content,
        ..Features::default()
    };
    let made =
        Key::fill_with(|key| Ok::<(), ConfigError>(SystemRandom.fill(key)?)).and_then(|master| {
            let config = Config::create(features, &master, &passphrase, LOG_N, &SystemRandom)?;
            let format = GocryptfsFormat::new(&config, &master, Arc::new(SystemRandom))?;
            Ok((config, format))
        });
    let (config, format) = made.map_err(|error| failure(&args.dir, error))?;
    let failed = |error| lower::failure(&args.dir, error);
    if args.reverse {
        return stack::add(&lower, REVERSE_CONFIG_NAME, &config.encode()).map_err(failed);
    }
    let mut files = format.new_directory().map_err(failed)?.files;
    // Last: a directory with it is complete.
    files.push((CONFIG_NAME, config.encode()));
    stack::prepare(&lower, &files).map_err(failed)
}

/// Seals the key of a directory under another passphrase.
pub(super) fn change_passphrase(args: &StackPasswd) -> Result<()> {
    let lower = lower::open(&args.dir)?;
    let failed = |error| failure(&args.dir, error);
    let found = |name: &'static str| -> Result<_> {
        Ok(stored(&args.dir, &lower, name)?.map(|found| (name, found)))
    };
    let config = match found(CONFIG_NAME)? {
        None => found(REVERSE_CONFIG_NAME)?,
        config => config,
    };
    let Some((name, (old_file, mut config))) = config else {
        let message = format!(
            "{} has no {CONFIG_NAME}; `strongroom fscrypt metadata change-passphrase` is for fscrypt",
            args.dir.display()
        );
        return Err(Failure::other(message));
    };
    let old = lower::passphrase_in(&args.dir, args.passfile.as_deref(), false)?;
    // Before another passphrase is asked for.
    config.unlock(&old).map_err(failed)?;
    let new = lower::passphrase_in(&args.dir, args.new_passfile.as_deref(), true)?;
    let changed = config.change_passphrase(&old, &new, &SystemRandom);
    changed.map_err(failed)?;
    let new_file = config.encode();
    // The key would be lost with a file that does not open.
    Config::decode(&new_file)
        .and_then(|config| config.unlock(&new))
        .map_err(failed)?;
    stack::replace(&lower, name, &old_file, &new_file).map_err(|error| match error {
        Error::Busy => {
            let message = format!("{}: {name} was changed meanwhile", args.dir.display());
            Failure::new(FailureKind::Busy, message)
        }
        error => lower::failure(&args.dir, error),
    })
}

fn failure(dir: &Path, error: ConfigError) -> Failure {
    let kind = match &error {
        ConfigError::WrongPassphrase => FailureKind::WrongKey,
        ConfigError::Damaged(_) => FailureKind::Damaged,
        _ => FailureKind::Other,
    };
    Failure::new(kind, format!("{}: {error}", dir.display()))
}
