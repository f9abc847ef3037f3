//! Opening protectors and policies.

use std::path::{Path, PathBuf};

use cipher::SystemRandom;
use daemon::Failure;
use protocol::api::FailureKind;
use secret::{Key, Secret};
use stack::formats::fscrypt::tool::{
    Config, Descriptor, Found, ProtectedPolicy, Protector, Source, Store, descriptor_text,
};

use super::login;
use super::place::{self, failure};
use crate::cmd::fscrypt::args::{KeyFile, NewProtector, NewSource};
use crate::cmd::luks::run::{ask, key_file};
use crate::outcome::LocalResult as Result;

/// What a protector is called where it is asked for.
pub(super) fn label(protector: &Protector) -> String {
    match protector.source {
        Source::Login(uid) => format!("login protector of user {uid}"),
        Source::Passphrase => format!("custom protector \"{}\"", protector.name),
        Source::RawKey => format!("raw key protector \"{}\"", protector.name),
    }
}

/// The key of a protector.
pub(super) fn open_protector(protector: &Protector, key: &KeyFile) -> Result<Key> {
    let label = label(protector);
    let opened = match protector.source {
        Source::RawKey => protector.unlock_raw(&raw_key(key)?),
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

/// A new protector, which is stored.
pub(super) fn new_protector(
    place: &Path,
    store: &Store,
    config: &Config,
    new: &NewProtector,
    key: &KeyFile,
) -> Result<(Protector, Key)> {
    let source = match (new.source, config.source.as_str()) {
        (Some(source), _) => source,
        (None, "raw_key") => NewSource::RawKey,
        (None, "custom_passphrase") => NewSource::Passphrase,
        (None, _) => {
            let message = "the configuration asks for login passphrases; say --source pam_passphrase, custom_passphrase or raw_key";
            return Err(Failure::usage(message));
        }
    };
    let where_ = place.display().to_string();
    let failed = |error| failure(&where_, error);
    let own = Source::Login(rustix::process::geteuid().as_raw());
    let name = match (source, new.name.as_deref()) {
        // A user has one of them.
        (NewSource::Login, None) if login::of_user(store, own).is_none() => "",
        (NewSource::Login, None) => {
            let message = format!("{where_}: there is a login protector of this user already");
            return Err(Failure::new(FailureKind::Exists, message));
        }
        (NewSource::Login, Some(_)) => {
            return Err(Failure::usage("a login protector has no name"));
        }
        (_, Some(name)) if !name.is_empty() => name,
        _ => return Err(Failure::usage("a new protector needs a name: --name NAME")),
    };
    for descriptor in store.protectors().map_err(failed)? {
        let is_named = |known: &Protector| !name.is_empty() && known.name == name;
        if matches!(store.protector(&descriptor), Ok(Found::Here(known)) if is_named(&known)) {
            let message = format!("{where_}: there is a protector named '{name}' already");
            return Err(Failure::new(FailureKind::Exists, message));
        }
    }
    let made = match source {
        NewSource::RawKey => Protector::with_raw_key(name, &raw_key(key)?, &SystemRandom),
        NewSource::Login | NewSource::Passphrase => {
            let (label, source) = match source {
                NewSource::Login => ("login protector".to_owned(), own),
                _ => (format!("custom protector \"{name}\""), Source::Passphrase),
            };
            let passphrase = new_passphrase(&label)?;
            let costs = &config.costs;
            Protector::with_passphrase(source, name, costs, &passphrase, &SystemRandom)
        }
    };
    let (protector, key) = made.map_err(failed)?;
    store.put_protector(&protector, None).map_err(failed)?;
    Ok((protector, key))
}

/// A passphrase, typed twice.
pub(super) fn new_passphrase(label: &str) -> Result<Secret> {
    let passphrase = ask(Path::new(label), true)?;
    match passphrase.is_empty() {
        true => Err(Failure::new(FailureKind::NoKey, "the passphrase is empty")),
        false => Ok(passphrase),
    }
}

/// The master key of a policy.
pub(super) fn open_policy(
    (place, store, policy): (&Path, &Store, &ProtectedPolicy),
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

/// The protector that is to open a policy.
fn choose(
    (place, store, policy): (&Path, &Store, &ProtectedPolicy),
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
        place::follow(place, store, descriptor, config)
            .is_ok_and(|(_, protector)| (protector.source == Source::RawKey) == key.key.is_some())
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
