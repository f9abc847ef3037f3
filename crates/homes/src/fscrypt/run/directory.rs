//! Encrypted directories, unlocked and locked.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cipher::SystemRandom;
use console::key_file::key_file;
use console::outcome::Result;
use console::terminal::be_sure;
use keys::kernel::{KernelKeyStatus, KeyRemoval};
use protocol::api::{Failure, FailureKind};
use rustix::fs::Dir;
use rustix::io::Errno;
use secret::Secret;
use stack::formats::fscrypt::KeyName;
use stack::formats::fscrypt::tool::{Config, Descriptor, MetadataStore, ProtectedPolicy};

use super::keyring::{self, PolicyKeyring, kernel_failure};
use super::link;
use super::open_path::OpenPath;
use super::place::{self, failure};
use super::policy_directory::PolicyDirectory;
use super::protectors::questions;
use super::protectors::recovery::Recovery;
use super::protectors::secrets::{self, OpenProtector};
use crate::fscrypt::args::{Encrypt, Lock, Purge, Unlock};
use crate::stack::run::StackedMount;

pub(super) fn unlock(args: &Unlock) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let encrypted = PolicyDirectory::find(path, &config)?;
    let name = &encrypted.policy.key;
    if encrypted.keyring.status(name)? == (KernelKeyStatus::Present { is_own: true }) {
        return Err(Failure::other(format!(
            "{} is unlocked already",
            path.display()
        )));
    }
    let place = encrypted.place.as_path();
    let master = match (&encrypted.metadata, &args.key.key) {
        (Some((store, policy)), _) => {
            let parts = (place, store, policy);
            secrets::open_policy(parts, &config, args.unlock_with.as_deref(), &args.key)?
        }
        (None, Some(file)) => key_file(file)?,
        (None, None) => {
            let message = format!("{} needs its key: --key FILE", place.display());
            return Err(Failure::usage(message));
        }
    };
    encrypted.keyring.add(name, &master)?;
    Ok(format!("{} is unlocked", path.display()))
}

pub(super) fn lock(args: &Lock) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let PolicyDirectory {
        keyring, policy, ..
    } = PolicyDirectory::find(path, &config)?;
    let shown = path.display();
    let busy = |why: &str| Err(Failure::new(FailureKind::Busy, format!("{shown} {why}")));
    match keyring.remove(&policy.key, args.all_users)? {
        Some(KeyRemoval::Whole) => Ok(format!("{shown} is locked")),
        Some(KeyRemoval::FilesBusy) => {
            busy("is not locked whole: files in it are open; close them, and lock it again")
        }
        Some(KeyRemoval::OtherUsers) => {
            busy("is still unlocked by other users; root locks it with --all-users")
        }
        None => match keyring.status(&policy.key)? {
            KernelKeyStatus::Present { .. } => {
                busy("is unlocked by other users; root locks it with --all-users")
            }
            _ => Err(Failure::other(format!("{shown} is locked already"))),
        },
    }
}

pub(super) fn purge(args: &Purge) -> Result<String> {
    let config = place::config()?;
    let (place, keyring) = match StackedMount::find(&args.mountpoint)? {
        Some(mounted) => (mounted.lower().to_owned(), PolicyKeyring::Mount(mounted)),
        None => {
            let place = args.mountpoint.clone();
            let keyring = PolicyKeyring::of_place(&place)?;
            (place, keyring)
        }
    };
    let place = place.as_path();
    let store = place::store(place, Some(&config))?;
    be_sure(
        args.force,
        "to do it without a question, use --force",
        &format!("this locks all directories of {}", place.display()),
    )?;
    let listed = store.policies();
    let listed = listed.map_err(|error| failure(&place.display().to_string(), error))?;
    let mut busy = 0;
    for name in listed {
        match keyring.remove(&name, false)? {
            Some(KeyRemoval::Whole) | None => {}
            Some(KeyRemoval::FilesBusy | KeyRemoval::OtherUsers) => busy += 1,
        }
    }
    match busy {
        0 => Ok(format!("{} has no keys any more", place.display())),
        busy => Err(Failure::new(
            FailureKind::Busy,
            format!(
                "{}: {busy} of the policies are still in use by open files or other users",
                place.display()
            ),
        )),
    }
}

/// Metadata that was made for a directory, and is removed if it is not encrypted in the end.
#[derive(Default)]
struct NewMetadata {
    policy: Option<KeyName>,
    /// Protectors and links, and the places of their metadata.
    protectors: Vec<(PathBuf, Descriptor)>,
}

impl NewMetadata {
    /// Removes it. Nothing uses it, and what cannot be removed does no harm.
    fn revert(self, store: &MetadataStore, config: &Config) {
        let _ = self.policy.map(|name| store.remove_policy(&name));
        for (place, descriptor) in self.protectors {
            if let Ok(store) = place::store(&place, Some(config)) {
                let _ = store.remove_protector(&descriptor);
            }
        }
    }
}

struct OpenPolicy {
    policy: ProtectedPolicy,
    master: Secret,
    recovery: Option<Recovery>,
    owner: Option<u32>,
}

pub(super) fn encrypt(args: &Encrypt) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let held = OpenPath::open(path)?;
    let directory = held.reopen()?;
    let (keyring, place, policy) = keyring::find(&held)?;
    if policy.is_some() {
        let message = format!("{} is encrypted already", path.display());
        return Err(Failure::new(FailureKind::Exists, message));
    }
    check_empty(&directory).map_err(|error| kernel_failure(path, error))?;
    let store = place::store(&place, Some(&config))?;
    let mut made = NewMetadata::default();
    let parts = (place.as_path(), &store);
    let applied = policy_of(args, &config, parts, &mut made).and_then(|open| {
        let was_present = apply(path, &keyring, &directory, &open)?;
        Ok((open, was_present))
    });
    let (mut open, was_present) = match applied {
        Ok(applied) => applied,
        Err(error) => {
            made.revert(&store, &config);
            return Err(error);
        }
    };
    // The directory is encrypted: what opens it stays from here on.
    let written = write_recovery(&mut open, &directory, path, parts);
    if args.skip_unlock && !was_present {
        keyring.remove(&open.policy.name, false)?;
    }
    let recovery = written?;
    directory
        .set_permissions(Permissions::from_mode(0o700))
        .map_err(|error| place::io(path, &error))?;
    let state = match args.skip_unlock {
        true => "locked",
        false => "unlocked",
    };
    Ok(format!(
        "{} is encrypted and {state}{recovery}",
        path.display()
    ))
}

fn check_empty(directory: &File) -> rustix::io::Result<()> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Err(Errno::NOTEMPTY);
        }
    }
    Ok(())
}

/// Writes the recovery passphrase into the new directory. Returns another line to show.
fn write_recovery(
    open: &mut OpenPolicy,
    directory: &File,
    path: &Path,
    parts: (&Path, &MetadataStore),
) -> Result<String> {
    let Some(recovery) = &open.recovery else {
        return Ok(String::new());
    };
    match recovery.write(directory, path, (parts.0, &open.policy), open.owner) {
        Ok(said) => Ok(format!("\n{said}")),
        Err(error) => {
            recovery.revert(parts, &mut open.policy)?;
            let why = &error.message;
            let message = format!(
                "{} is encrypted, without a recovery passphrase: {why}",
                path.display()
            );
            Err(Failure::new(error.kind, message))
        }
    }
}

/// Gives the directory its policy, and the keyring its key. Returns whether the key was there before.
fn apply(
    path: &Path,
    keyring: &PolicyKeyring,
    directory: &File,
    open: &OpenPolicy,
) -> Result<bool> {
    let policy = &open.policy;
    let was_present = keyring.status(&policy.name)? == (KernelKeyStatus::Present { is_own: true });
    // First: ordinary users may set a policy only with its key.
    keyring.add(&policy.name, &open.master)?;
    let set = keyring.set_policy(directory, path, &policy.policy());
    let set = set.and_then(|()| {
        directory
            .sync_all()
            .map_err(|error| place::io(path, &error))
    });
    if !was_present && set.is_err() {
        keyring.remove(&policy.name, false)?;
    }
    set.map(|()| was_present)
}

/// The policy that is named, or a new one.
fn policy_of(
    args: &Encrypt,
    config: &Config,
    (place, store): (&Path, &MetadataStore),
    made: &mut NewMetadata,
) -> Result<OpenPolicy> {
    let Some(text) = &args.policy else {
        return new_policy(args, config, (place, store), made);
    };
    let (there, _, policy) = place::policy(text, config)?;
    if there != place {
        let message = "a policy is for directories of its own file system";
        return Err(Failure::usage(message));
    }
    if policy.options.has_clear_names() {
        let message = "a policy with unencrypted names is for the directory of its stack init only";
        return Err(Failure::usage(message));
    }
    let (with, parts) = (args.unlock_with.as_deref(), (place, store, &policy));
    let master = secrets::open_policy(parts, config, with, &args.key)?;
    Ok(OpenPolicy {
        policy,
        master,
        recovery: None,
        owner: None,
    })
}

fn new_policy(
    args: &Encrypt,
    config: &Config,
    (place, store): (&Path, &MetadataStore),
    made: &mut NewMetadata,
) -> Result<OpenPolicy> {
    let asked = match &args.protector {
        Some(_) => None,
        None => questions::existing(place, store, config, &args.new)?,
    };
    let opened = match args.protector.as_ref().or(asked.as_ref()) {
        Some(text) => OpenProtector::named(text, config, &args.key)?,
        None => {
            let new = secrets::new_protector(place, config, &args.new, &args.key)?;
            let known = (new.place.clone(), new.protector.descriptor);
            made.protectors.push(known);
            new
        }
    };
    let failed = |error| failure(&place.display().to_string(), error);
    let (descriptor, owner) = (opened.protector.descriptor, opened.owner());
    let new = ProtectedPolicy::create(config.options, descriptor, &opened.key, &SystemRandom);
    let (mut policy, master) = new.map_err(failed)?;
    let mut recovery = None;
    if opened.place != place {
        if link::add((place, store), &opened.place, &descriptor, config, owner)? {
            made.protectors.push((place.to_owned(), descriptor));
        }
        if !args.no_recovery {
            let whose = (args.directory.as_path(), owner);
            let new = Recovery::add((place, store), &mut policy, &master, config, whose)?;
            let known = new.protector().descriptor;
            made.protectors.push((place.to_owned(), known));
            recovery = Some(new);
        }
    }
    store.put_policy(&policy, owner).map_err(failed)?;
    made.policy = Some(policy.name);
    Ok(OpenPolicy {
        policy,
        master,
        recovery,
        owner,
    })
}
