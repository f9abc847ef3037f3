//! Encrypted directories, unlocked and locked.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cipher::SystemRandom;
use daemon::Failure;
use keys::kernel::{KeyStatus, Removed};
use protocol::api::FailureKind;
use rustix::io::Errno;
use secret::Secret;
use stack::formats::fscrypt::Policy;
use stack::formats::fscrypt::tool::{Config, Options, ProtectedPolicy, Protector, Store};

use super::keyring::{self, Keyring, kernel_failure, open};
use super::place::{self, failure};
use super::secrets;
use super::sure::be_sure;
use crate::cmd::fscrypt::args::{Encrypt, Lock, Purge, Unlock};
use crate::cmd::luks::run::key_file;
use crate::cmd::stack::run::Mounted;
use crate::outcome::LocalResult as Result;

/// A directory with its policy.
pub(super) struct Encrypted {
    pub(super) place: PathBuf,
    pub(super) keyring: Keyring,
    pub(super) policy: Policy,
    /// A stacked directory with a key of its own has none.
    pub(super) metadata: Option<(Store, ProtectedPolicy)>,
}

impl Encrypted {
    /// The policy of a directory or file, which its metadata must agree with.
    pub(super) fn find(path: &Path, config: &Config) -> Result<Encrypted> {
        let (keyring, place, policy) = keyring::policy(path)?;
        let metadata = match (metadata(path, &place, &policy, config), &keyring) {
            // A directory of a mount can have a key that nothing else opens.
            (Err(failure), Keyring::Mount(_)) if failure.0.kind == FailureKind::NotFound => None,
            (found, _) => Some(found?),
        };
        Ok(Encrypted {
            place,
            keyring,
            policy,
            metadata,
        })
    }
}

/// The metadata of a policy.
fn metadata(
    path: &Path,
    place: &Path,
    policy: &Policy,
    config: &Config,
) -> Result<(Store, ProtectedPolicy)> {
    let store = place::store(place, Some(config))?;
    let stored = store.policy(&policy.key);
    let stored = stored.map_err(|error| failure(&place.display().to_string(), error))?;
    match stored.options == Options::of(policy) {
        true => Ok((store, stored)),
        false => {
            let message = format!(
                "the policy of {} is not as the metadata on {} has it",
                path.display(),
                place.display()
            );
            Err(Failure::new(FailureKind::Damaged, message))
        }
    }
}

pub(super) fn unlock(args: &Unlock) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let encrypted = Encrypted::find(path, &config)?;
    let name = &encrypted.policy.key;
    if encrypted.keyring.status(name)? == (KeyStatus::Present { is_own: true }) {
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
    let Encrypted {
        keyring, policy, ..
    } = Encrypted::find(path, &config)?;
    let shown = path.display();
    let busy = |why: &str| Err(Failure::new(FailureKind::Busy, format!("{shown} {why}")));
    match keyring.remove(&policy.key, args.all_users)? {
        Some(Removed::Whole) => Ok(format!("{shown} is locked")),
        Some(Removed::FilesBusy) => {
            busy("is not locked whole: files in it are open; close them, and lock it again")
        }
        Some(Removed::OtherUsers) => {
            busy("is still unlocked by other users; root locks it with --all-users")
        }
        None => match keyring.status(&policy.key)? {
            KeyStatus::Present { .. } => {
                busy("is unlocked by other users; root locks it with --all-users")
            }
            _ => Err(Failure::other(format!("{shown} is locked already"))),
        },
    }
}

pub(super) fn purge(args: &Purge) -> Result<String> {
    let config = place::config()?;
    let place = &match Mounted::find(&args.mountpoint)? {
        Some(mounted) => mounted.lower().to_owned(),
        None => args.mountpoint.clone(),
    };
    let store = place::store(place, Some(&config))?;
    be_sure(
        args.force,
        &format!("this locks all directories of {}", place.display()),
    )?;
    let listed = store.policies();
    let listed = listed.map_err(|error| failure(&place.display().to_string(), error))?;
    let keyring = Keyring::of_place(place);
    let mut busy = 0;
    for name in listed {
        match keyring.remove(&name, false)? {
            Some(Removed::Whole) | None => {}
            Some(Removed::FilesBusy | Removed::OtherUsers) => busy += 1,
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

/// What was made for a directory, and goes if it is not encrypted in the end.
#[derive(Default)]
struct Made {
    policy: Option<ProtectedPolicy>,
    protector: Option<Protector>,
}

pub(super) fn encrypt(args: &Encrypt) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let directory = open(path)?;
    let (keyring, place, policy) = keyring::find(path)?;
    if policy.is_some() {
        let message = format!("{} is encrypted already", path.display());
        return Err(Failure::new(FailureKind::Exists, message));
    }
    let mut entries = fs::read_dir(path).map_err(|error| place::io(path, &error))?;
    if entries.next().is_some() {
        return Err(kernel_failure(path, Errno::NOTEMPTY));
    }
    let store = place::store(&place, Some(&config))?;
    let mut made = Made::default();
    let done = apply(
        args,
        &config,
        (&keyring, &place, &store),
        &mut made,
        &directory,
    );
    if let Err(error) = done {
        // Nothing uses them. What cannot be removed does no harm.
        let _ = made.policy.map(|policy| store.remove_policy(&policy.name));
        let _ = made
            .protector
            .map(|protector| store.remove_protector(&protector.descriptor));
        return Err(error);
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(|error| place::io(path, &error))?;
    Ok(match args.skip_unlock {
        true => format!("{} is encrypted and locked", path.display()),
        false => format!("{} is encrypted and unlocked", path.display()),
    })
}

fn apply(
    args: &Encrypt,
    config: &Config,
    (keyring, place, store): (&Keyring, &Path, &Store),
    made: &mut Made,
    directory: &File,
) -> Result<()> {
    let (policy, master) = match &args.policy {
        Some(text) => {
            let (there, _, policy) = place::policy(text, config)?;
            if there != place {
                let message = "a policy is for directories of its own file system";
                return Err(Failure::usage(message));
            }
            let (with, parts) = (args.unlock_with.as_deref(), (place, store, &policy));
            let master = secrets::open_policy(parts, config, with, &args.key)?;
            (policy, master)
        }
        None => new_policy(args, config, (place, store), made)?,
    };
    let was_present = keyring.status(&policy.name)? == (KeyStatus::Present { is_own: true });
    // First: ordinary users may set a policy only with its key.
    keyring.add(&policy.name, &master)?;
    let set = keyring.set_policy(directory, &args.directory, &policy.policy());
    if !was_present && (set.is_err() || args.skip_unlock) {
        keyring.remove(&policy.name, false)?;
    }
    set?;
    directory
        .sync_all()
        .map_err(|error| place::io(&args.directory, &error))
}

fn new_policy(
    args: &Encrypt,
    config: &Config,
    (place, store): (&Path, &Store),
    made: &mut Made,
) -> Result<(ProtectedPolicy, Secret)> {
    let (protector, key) = match &args.protector {
        Some(text) => {
            let (there, protector) = place::protector(text, config)?;
            if there != place {
                let message = "the protector is on another file system; make one on this";
                return Err(Failure::usage(message));
            }
            let key = secrets::open_protector(&protector, &args.key)?;
            (protector, key)
        }
        None => {
            let new = secrets::new_protector(place, store, config, &args.new, &args.key)?;
            made.protector = Some(new.0.clone());
            new
        }
    };
    let failed = |error| failure(&place.display().to_string(), error);
    let new = ProtectedPolicy::create(config.options, protector.descriptor, &key, &SystemRandom);
    let (policy, master) = new.map_err(failed)?;
    store.put_policy(&policy, None).map_err(failed)?;
    made.policy = Some(policy.clone());
    Ok((policy, master))
}
