//! Directories in the format of pefs.

use std::path::Path;
use std::sync::Arc;

use cipher::SystemRandom;
use daemon::Failure;
use protocol::api::FailureKind;
use secret::Secret;
use stack::Entry;
use stack::formats::pefs::{
    CONFIG_NAME, Config, DATABASE_MAX, DATABASE_NAME, DEFAULT_ITERATIONS, Database, KeyError,
    MasterKey, Pefs, chain,
};
use vfs::Error;

use super::lower;
use crate::cmd::luks::run::key_file;
use crate::cmd::stack::args::StackKey;
use crate::outcome::LocalResult as Result;

/// What a directory says about its keys.
pub(super) struct Keys {
    pub(super) config: Config,
    /// The file with key chains.
    database: Option<Vec<u8>>,
}

/// What a directory says about its keys, if it is one of pefs and says anything.
pub(super) fn keys(dir: &Path, lower: &Entry) -> Result<Option<Keys>> {
    let target = lower.entry(CONFIG_NAME.as_bytes());
    let config = match target.and_then(|link| link.target()) {
        Ok(target) => Some(Config::decode(&target).map_err(|error| failure(dir, error))?),
        // A file with this name that is no link says nothing.
        Err(Error::NotFound | Error::Invalid) => None,
        Err(error) => return Err(lower::failure(dir, error)),
    };
    let database = match lower.read_small(DATABASE_NAME.as_bytes(), DATABASE_MAX) {
        Ok(bytes) => Some(bytes),
        Err(Error::NotFound) => None,
        Err(error) => return Err(lower::failure(dir, error)),
    };
    let is_pefs = config.is_some() || database.is_some();
    let config = config.unwrap_or_default();
    Ok(is_pefs.then_some(Keys { config, database }))
}

/// The format of a directory, with the keys that the given one leads to. Without one: as it is stored.
pub(super) fn open(dir: &Path, keys: &Keys, key: Option<&StackKey>) -> Result<Pefs> {
    let format = Pefs::new(Arc::new(SystemRandom));
    let Some(key) = key else {
        return Ok(format);
    };
    let failed = |error| failure(dir, error);
    let first = master_key(dir, keys, key)?;
    let algorithm = keys.config.algorithm.unwrap_or_default();
    let database = keys.database.as_deref().map(Database::new);
    let database = database.transpose().map_err(failed)?;
    let (chained, has_record) = chain::open(database.as_ref(), first, algorithm).map_err(failed)?;
    // Without chains any key is as good as another.
    if database.is_some() && !has_record {
        let message = format!("the key is none of those of {}", dir.display());
        return Err(Failure::new(FailureKind::WrongKey, message));
    }
    for key in chained {
        format
            .add_key(key)
            .map_err(|error| lower::failure(dir, error))?;
    }
    Ok(format)
}

/// The key of a file, or of a passphrase.
fn master_key(dir: &Path, keys: &Keys, key: &StackKey) -> Result<MasterKey> {
    let iterations = keys.config.iterations.unwrap_or(DEFAULT_ITERATIONS);
    let (files, passphrase): (Vec<Secret>, _) = match &key.key_file {
        Some(path) => (vec![key_file(path)?], None),
        None => (Vec::new(), Some(lower::passphrase(dir, key, false)?)),
    };
    let passphrase = passphrase.as_ref().map(|secret| (secret, iterations));
    MasterKey::from_parts(&files, passphrase).map_err(|error| failure(dir, error))
}

fn failure(dir: &Path, error: KeyError) -> Failure {
    let kind = match &error {
        KeyError::NoInput => FailureKind::NoKey,
        KeyError::Config | KeyError::Database(_) | KeyError::Record | KeyError::Circle => {
            FailureKind::Damaged
        }
        KeyError::Random | KeyError::Cipher(_) | KeyError::Memory(_) => FailureKind::Other,
    };
    Failure::new(kind, format!("{}: {error}", dir.display()))
}
