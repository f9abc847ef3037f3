//! Directories in the format of gocryptfs.

use std::path::Path;
use std::sync::Arc;

use cipher::{Random, SystemRandom};
use daemon::Failure;
use protocol::api::FailureKind;
use secret::Key;
use stack::Entry;
use stack::formats::gocryptfs::{
    CONFIG_MAX, CONFIG_NAME, Config, ConfigError, Content, Features, Gocryptfs,
};
use vfs::Error;

use super::lower;
use crate::cmd::stack::args::{StackCipher, StackInit, StackKey};
use crate::outcome::LocalResult as Result;

/// The cost of a guess at a passphrase: scrypt with 2^16 passes, as gocryptfs has it.
const LOG_N: u8 = 16;

/// The configuration of a directory, if it has one.
pub(super) fn config(dir: &Path, lower: &Entry) -> Result<Option<Config>> {
    match lower.read_small(CONFIG_NAME.as_bytes(), CONFIG_MAX) {
        Ok(bytes) => Config::decode(&bytes)
            .map(Some)
            .map_err(|error| failure(dir, error)),
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(lower::failure(dir, error)),
    }
}

/// The format of a directory, opened by its passphrase.
pub(super) fn open(dir: &Path, config: &Config, key: &StackKey) -> Result<Gocryptfs> {
    if key.key_file.is_some() {
        let message = "gocryptfs is opened by a passphrase: use --passfile, or type it";
        return Err(Failure::usage(message));
    }
    let passphrase = lower::passphrase(dir, key, false)?;
    config
        .unlock(&passphrase)
        .and_then(|master| Gocryptfs::new(config, &master, Arc::new(SystemRandom)))
        .map_err(|error| failure(dir, error))
}

/// Prepares an empty directory.
pub(super) fn init(args: &StackInit) -> Result<()> {
    let content = match args.cipher {
        StackCipher::Aes256 => Content::AesGcm,
        StackCipher::Xchacha20 => Content::XChaCha20Poly1305,
        _ => {
            return Err(Failure::usage(
                "gocryptfs has the ciphers aes-256 and xchacha20",
            ));
        }
    };
    if args.key.key_file.is_some() || args.padding.is_some() || args.attributes.is_some() {
        let message = "--key-file, --padding and --attributes are for the format fscrypt";
        return Err(Failure::usage(message));
    }
    let lower = lower::open(&args.dir)?;
    if config(&args.dir, &lower)?.is_some() {
        return Err(lower::failure(&args.dir, Error::Exists));
    }
    // That it is empty is checked before the passphrase is asked for, and again when files are made.
    stack::prepare(&lower, &[]).map_err(|error| lower::failure(&args.dir, error))?;
    let passphrase = lower::passphrase(&args.dir, &args.key, true)?;
    let features = Features {
        content,
        ..Features::default()
    };
    let made =
        Key::fill_with(|key| Ok::<(), ConfigError>(SystemRandom.fill(key)?)).and_then(|master| {
            let config = Config::create(features, &master, &passphrase, LOG_N, &SystemRandom)?;
            let format = Gocryptfs::new(&config, &master, Arc::new(SystemRandom))?;
            Ok((config, format))
        });
    let (config, format) = made.map_err(|error| failure(&args.dir, error))?;
    let failed = |error| lower::failure(&args.dir, error);
    let mut files = format.new_directory().map_err(failed)?.files;
    // Last: a directory with it is complete.
    files.push((CONFIG_NAME, config.encode()));
    stack::prepare(&lower, &files).map_err(failed)
}

fn failure(dir: &Path, error: ConfigError) -> Failure {
    let kind = match &error {
        ConfigError::WrongPassphrase => FailureKind::WrongKey,
        ConfigError::Damaged(_) => FailureKind::Damaged,
        _ => FailureKind::Other,
    };
    Failure::new(kind, format!("{}: {error}", dir.display()))
}
