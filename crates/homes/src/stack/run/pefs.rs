//! Directories in the format of pefs.

use std::path::Path;
use std::sync::{Arc, Weak};

use cipher::SystemRandom;
use console::key_file::key_file;
use console::outcome::Result;
use fuse::FuseMount;
use protocol::api::{Failure, FailureKind};
use secret::Secret;
use stack::formats::fscrypt::XattrNamespace;
use stack::formats::pefs::{
    Algorithm, CONFIG_NAME, Config, DATABASE_MAX, DATABASE_NAME, DEFAULT_ITERATIONS, Database,
    KeyError, KeyId, PefsFormat, PefsKey, PefsMasterKey, chain, default_algorithm,
};
use stack::{Entry, StackedDirectory};
use vfs::Error;

use super::control::{Control, ControlAnswer, KeyLine, KeyOwner, Request};
use super::{gocryptfs, lower};
use crate::stack::args::StackKey;

/// The settings and key chains of a directory.
pub(super) struct PefsKeys {
    pub(super) config: Config,
    /// The file with key chains.
    database: Option<Vec<u8>>,
}

/// Reads the settings and key chains of a directory, if it is one of pefs and says anything.
pub(super) fn keys(dir: &Path, lower: &Entry) -> Result<Option<PefsKeys>> {
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
    Ok(is_pefs.then_some(PefsKeys { config, database }))
}

/// The format of a directory, with the keys that the given one leads to. Without one: as it is stored.
pub(super) fn open(dir: &Path, keys: &PefsKeys, key: Option<&StackKey>) -> Result<PefsFormat> {
    let format = without_keys();
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

/// Checks that a directory is of no other format.
pub(super) fn check_free(dir: &Path, lower: &Entry) -> Result<()> {
    let has_config = gocryptfs::config(dir, lower)?.is_some();
    match has_config || matches!(XattrNamespace::of(lower), Ok(Some(_))) {
        true => Err(lower::failure(dir, Error::Exists).context("another format")),
        false => Ok(()),
    }
}

/// A directory of pefs before its first key.
pub(super) fn without_keys() -> PefsFormat {
    PefsFormat::new(Arc::new(SystemRandom))
}

/// Has commands change the keys of a mount.
pub(super) fn control(
    view: Arc<StackedDirectory<PefsFormat>>,
    mount: &Arc<FuseMount>,
) -> Result<Option<Control>> {
    let keys = PefsMountKeys {
        view,
        mount: Arc::downgrade(mount),
    };
    Control::start(mount.number(), keys).map(Some)
}

struct PefsMountKeys {
    view: Arc<StackedDirectory<PefsFormat>>,
    mount: Weak<FuseMount>,
}

impl KeyOwner for PefsMountKeys {
    fn control(&self, request: Request, secret: Option<Secret>) -> Result<ControlAnswer> {
        let format = self.view.format();
        match request {
            Request::Keys => Ok(answer(&format.keys())),
            Request::DefaultAlgorithm => {
                let has_keys = !format.keys().is_empty();
                let settle = |lower: &Entry| default_algorithm(lower, has_keys);
                let algorithm = self.view.with_lower(settle).map_err(|error| {
                    Failure::new(FailureKind::Device, format!("{CONFIG_NAME}: {error}"))
                })?;
                Ok(ControlAnswer::Algorithm(algorithm.to_string()))
            }
            Request::Add { algorithm } => {
                let algorithm = Algorithm::from_name(&algorithm);
                let master = secret.and_then(PefsMasterKey::new);
                let (Some(algorithm), Some(master)) = (algorithm, master) else {
                    return Err(Failure::usage("such a key is not known here"));
                };
                let key = PefsKey::new(&master, algorithm);
                let key = key.map_err(|error| Failure::other(error.to_string()))?;
                let id = key.id();
                format.add_key(key).map_err(|error| refused(id, error))?;
                self.outlive_names();
                Ok(ControlAnswer::Done)
            }
            Request::Delete { id } => self.delete(KeyId(id)),
            Request::Flush => {
                for key in format.keys() {
                    self.delete(key.id())?;
                }
                Ok(ControlAnswer::Done)
            }
            Request::KeyOf { ino } => {
                let key = self.view.with_node(ino, |node| node.key().cloned());
                let key = key.map_err(|error| Failure::other(error.to_string()))?;
                Ok(answer(&Vec::from_iter(key)))
            }
            Request::SetKey { parent, name, id } => {
                let id = KeyId(id);
                self.view
                    .remake_directory(parent, &name, |node| format.under_key(node, id, &name))
                    .map_err(|error| refused(id, error))?;
                Ok(ControlAnswer::Done)
            }
            _ => Err(Failure::other("the mount is one of pefs")),
        }
    }
}

impl PefsMountKeys {
    /// Takes a key away. What programs have written is written before, and nothing that was read with it
    /// stays in the kernel.
    fn delete(&self, id: KeyId) -> Result<ControlAnswer> {
        let forget = || {
            let inodes = self.view.with_contents(|node| node.is_under(id));
            if let Some(mount) = self.mount.upgrade() {
                mount.forget_contents(&inodes);
            }
        };
        forget();
        let removed = self.view.format().remove_key(id);
        removed.map_err(|error| refused(id, error))?;
        forget();
        self.outlive_names();
        Ok(ControlAnswer::Done)
    }

    /// Names are others under other keys.
    fn outlive_names(&self) {
        if let Some(mount) = self.mount.upgrade() {
            mount.outlive_names();
        }
    }
}

fn answer(keys: &[Arc<PefsKey>]) -> ControlAnswer {
    let line = |key: &Arc<PefsKey>| KeyLine {
        id: key.id().to_string(),
        algorithm: key.algorithm().to_string(),
    };
    ControlAnswer::Keys(keys.iter().map(line).collect())
}

fn refused(id: KeyId, error: Error) -> Failure {
    let (kind, why) = match error {
        Error::Exists => (FailureKind::Exists, "the mount has it already"),
        Error::NotFound => (FailureKind::NotFound, "the mount does not have it"),
        Error::Invalid => (
            FailureKind::Damaged,
            "the directory has no key, or has this one already",
        ),
        error => return Failure::new(FailureKind::Device, format!("key {id}: {error}")),
    };
    Failure::new(kind, format!("key {id}: {why}"))
}

/// The key of a file, or of a passphrase.
fn master_key(dir: &Path, keys: &PefsKeys, key: &StackKey) -> Result<PefsMasterKey> {
    let iterations = keys.config.iterations.unwrap_or(DEFAULT_ITERATIONS);
    let (files, passphrase): (Vec<Secret>, _) = match lower::one_key_file(key)? {
        Some(path) => (vec![key_file(path)?], None),
        None => (Vec::new(), Some(lower::passphrase(dir, key, false)?)),
    };
    let passphrase = passphrase.as_ref().map(|secret| (secret, iterations));
    PefsMasterKey::from_parts(&files, passphrase).map_err(|error| failure(dir, error))
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
