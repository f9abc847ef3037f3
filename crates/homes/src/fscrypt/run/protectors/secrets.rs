//! Opening protectors and policies.

use std::path::{Path, PathBuf};

use cipher::SystemRandom;
use console::key_file::{ask, key_file};
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use secret::{Key, Secret};
use stack::formats::fscrypt::tool::{
    Config, Descriptor, MetadataStore, ProtectedPolicy, Protector, ProtectorEntry, ProtectorSource,
    descriptor_text,
};

use super::questions::{self, label};
use crate::fscrypt::args::{KeyFile, NewProtector, NewSource};
use crate::fscrypt::run::link;
use crate::fscrypt::run::login;
use crate::fscrypt::run::place::{self, failure};

pub(crate) fn open_protector(protector: &Protector, key: &KeyFile) -> Result<Key> {
    let label = label(protector);
    let opened = match protector.source {
        ProtectorSource::RawKey => protector.unlock_raw(&raw_key(key)?),
        _ => protector.unlock(&ask(Path::new(&label), false)?),
    };
    opened.map_err(|error| failure(&label, error))
}

fn raw_key(key: &KeyFile) -> Result<Key> {
    let Some(path) = &key.key else {
        return Err(Failure::usage("a raw_key protector needs --key FILE"));
    };
    let bytes = key_file(path)?;
    let bytes = bytes.expose().try_into().map_err(|_| {
        let message = format!(
            "the key file {} has {} bytes; a raw key has {}",
            path.display(),
            bytes.len(),
            Key::LEN
        );
        Failure::new(FailureKind::NoKey, message)
    })?;
    Ok(Key::from_bytes(bytes)?)
}

/// A protector that is open, and where it is.
pub(crate) struct OpenProtector {
    pub(crate) place: PathBuf,
    pub(crate) protector: Protector,
    pub(crate) key: Key,
}

impl OpenProtector {
    pub(crate) fn named(text: &str, config: &Config, key: &KeyFile) -> Result<OpenProtector> {
        let (place, protector) = place::protector(text, config)?;
        let key = open_protector(&protector, key)?;
        Ok(OpenProtector {
            place,
            protector,
            key,
        })
    }

    /// The owner of what is made for it, if root makes it for another user.
    pub(crate) fn owner(&self) -> Option<u32> {
        match self.protector.source {
            ProtectorSource::Login(uid) if rustix::process::geteuid().is_root() => Some(uid),
            _ => None,
        }
    }
}

/// A new protector for policies in `place`, which is stored.
pub(crate) fn new_protector(
    place: &Path,
    config: &Config,
    new: &NewProtector,
    key: &KeyFile,
) -> Result<OpenProtector> {
    let source = source(new, config)?;
    let place = match source {
        NewSource::Login => link::login_place(place)?,
        _ => std::fs::canonicalize(place).map_err(|error| place::io(place, &error))?,
    };
    let store = place::store(&place, Some(config))?;
    let where_ = place.display().to_string();
    let failed = |error| failure(&where_, error);
    let exists = |what: &str| {
        let message = format!("{where_}: there is {what} already");
        Failure::new(FailureKind::Exists, message)
    };
    let login = ProtectorSource::Login(user(new)?);
    let asked = match (source, &new.name) {
        (NewSource::Passphrase | NewSource::RawKey, None) => questions::name()?,
        _ => None,
    };
    let name = match (source, new.name.as_deref().or(asked.as_deref())) {
        // A user has one of them.
        (NewSource::Login, None) => match login::of_user(&store, login) {
            None => "",
            Some(known) => {
                let id = descriptor_text(&known.descriptor);
                let what = format!("a login protector of this user (--protector {where_}:{id})");
                return Err(exists(&what));
            }
        },
        (NewSource::Login, Some(_)) => {
            return Err(Failure::usage("a login protector has no name"));
        }
        (_, Some(name)) if !name.is_empty() => name,
        _ => return Err(Failure::usage("a new protector needs a name: --name NAME")),
    };
    if !name.is_empty() && names(&place, &store)?.contains(&name.to_owned()) {
        return Err(exists(&format!("a protector named '{name}'")));
    }
    let made = match source {
        NewSource::RawKey => Protector::with_raw_key(name, &raw_key(key)?, &SystemRandom),
        NewSource::Login | NewSource::Passphrase => {
            let (label, source) = match source {
                NewSource::Login => ("login protector".to_owned(), login),
                _ => (
                    format!("custom protector \"{name}\""),
                    ProtectorSource::Passphrase,
                ),
            };
            let passphrase = new_passphrase(&label)?;
            let costs = &config.costs;
            Protector::with_passphrase(source, name, costs, &passphrase, &SystemRandom)
        }
    };
    let (protector, key) = made.map_err(failed)?;
    let opened = OpenProtector {
        place: place.clone(),
        protector,
        key,
    };
    let put = store.put_protector(&opened.protector, opened.owner());
    put.map_err(failed)?;
    Ok(opened)
}

fn source(new: &NewProtector, config: &Config) -> Result<NewSource> {
    let asked = match new.source {
        Some(source) => Some(source),
        None => questions::source(new, config)?,
    };
    let source = match (asked, config.source.as_str()) {
        (Some(source), _) => source,
        (None, "raw_key") => NewSource::RawKey,
        (None, "custom_passphrase") => NewSource::Passphrase,
        (None, _) => {
            let message = "the configuration asks for login passphrases; say --source pam_passphrase, custom_passphrase or raw_key";
            return Err(Failure::usage(message));
        }
    };
    match (source, &new.user) {
        (NewSource::Passphrase | NewSource::RawKey, Some(_)) => {
            let message = "--user is for --source pam_passphrase";
            Err(Failure::usage(message))
        }
        _ => Ok(source),
    }
}

/// The user of a new login protector.
fn user(new: &NewProtector) -> Result<u32> {
    let own = rustix::process::geteuid();
    let Some(name) = &new.user else {
        return Ok(own.as_raw());
    };
    let uid = protocol::accounts::uid_of(name).ok_or_else(|| {
        let message = format!("there is no user '{name}'");
        Failure::new(FailureKind::NotFound, message)
    })?;
    match own.is_root() || own.as_raw() == uid {
        true => Ok(uid),
        false => Err(Failure::new(
            FailureKind::Permission,
            "only root makes protectors of other users",
        )),
    }
}

pub(crate) fn names(place: &Path, store: &MetadataStore) -> Result<Vec<String>> {
    let listed = store.protectors();
    let listed = listed.map_err(|error| failure(&place.display().to_string(), error))?;
    let name = |descriptor: &Descriptor| match store.protector(descriptor) {
        Ok(ProtectorEntry::Here(protector)) => Some(protector.name),
        _ => None,
    };
    Ok(listed.iter().filter_map(name).collect())
}

/// A passphrase, typed twice.
pub(crate) fn new_passphrase(label: &str) -> Result<Secret> {
    let passphrase = ask(Path::new(label), true)?;
    match passphrase.is_empty() {
        true => Err(Failure::new(FailureKind::NoKey, "the passphrase is empty")),
        false => Ok(passphrase),
    }
}

/// The master key of a policy.
pub(crate) fn open_policy(
    (place, store, policy): (&Path, &MetadataStore, &ProtectedPolicy),
    config: &Config,
    unlock_with: Option<&str>,
    key: &KeyFile,
) -> Result<Secret> {
    let descriptor = choose((place, store, policy), config, unlock_with, key)?;
    let (_, protector) = place::follow(place, store, &descriptor, config)?;
    let opened = open_protector(&protector, key)?;
    let master = policy.unlock(&descriptor, &opened);
    master.map_err(|error| failure(&place.display().to_string(), error))
}

fn choose(
    (place, store, policy): (&Path, &MetadataStore, &ProtectedPolicy),
    config: &Config,
    unlock_with: Option<&str>,
    key: &KeyFile,
) -> Result<Descriptor> {
    if let Some(text) = unlock_with {
        let (_, descriptor): (PathBuf, _) = place::descriptor(text)?;
        return Ok(descriptor);
    }
    let all: Vec<Descriptor> = policy.protectors().collect();
    if let [only] = all[..] {
        return Ok(only);
    }
    let takes_file = |descriptor: &&Descriptor| {
        place::follow(place, store, descriptor, config).is_ok_and(|(_, protector)| {
            (protector.source == ProtectorSource::RawKey) == key.key.is_some()
        })
    };
    match all.iter().filter(takes_file).collect::<Vec<_>>()[..] {
        [only] => Ok(*only),
        _ => {
            let ids: Vec<String> = all.iter().map(|id| descriptor_text(id)).collect();
            Err(Failure::usage(format!(
                "the policy has several protectors; choose with --unlock-with {}:ID, one of {}",
                place.display(),
                ids.join(", ")
            )))
        }
    }
}
