//! Encrypted directories, unlocked and locked.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cipher::SystemRandom;
use daemon::Failure;
use keys::kernel::{self, KeyStatus, Removed};
use protocol::api::FailureKind;
use rustix::io::Errno;
use secret::Secret;
use stack::formats::fscrypt::Policy;
use stack::formats::fscrypt::tool::{Config, Options, ProtectedPolicy, Protector, Store};

use super::place::{self, failure, specifier};
use super::secrets;
use super::sure::be_sure;
use crate::cmd::fscrypt::args::{Encrypt, Lock, Purge, Unlock};
use crate::outcome::LocalResult as Result;

/// A directory with its policy.
pub(super) struct Encrypted {
    pub(super) place: PathBuf,
    pub(super) store: Store,
    pub(super) policy: ProtectedPolicy,
}

pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| place::io(path, &error))
}

fn kernel_failure(path: &Path, error: Errno) -> Failure {
    place::io(path, &io::Error::from(error))
}

impl Encrypted {
    /// The policy of a directory or file, which its metadata must agree with.
    pub(super) fn find(path: &Path, config: &Config) -> Result<Encrypted> {
        let bytes = kernel::policy(open(path)?).map_err(|error| kernel_failure(path, error))?;
        let unknown = || Failure::other(format!("{}: its policy is not known", path.display()));
        let policy = Policy::from_kernel(&bytes).ok_or_else(unknown)?;
        let place = place::of_path(path)?;
        let store = place::store(&place, Some(config))?;
        let stored = store.policy(&policy.key);
        let stored = stored.map_err(|error| failure(&place.display().to_string(), error))?;
        if stored.options != Options::of(&policy) {
            let message = format!(
                "the policy of {} is not as the metadata on {} has it",
                path.display(),
                place.display()
            );
            return Err(Failure::new(FailureKind::Damaged, message));
        }
        let policy = stored;
        Ok(Encrypted {
            place,
            store,
            policy,
        })
    }

    fn status(&self) -> Result<KeyStatus> {
        key_status(&self.place, &self.policy)
    }
}

/// Whether the kernel has the key of a policy.
pub(super) fn key_status(place: &Path, policy: &ProtectedPolicy) -> Result<KeyStatus> {
    let status = kernel::key_status(open(place)?, &specifier(&policy.name));
    status.map_err(|error| kernel_failure(place, error))
}

fn add_key(place: &Path, policy: &ProtectedPolicy, master: &Secret) -> Result<()> {
    let added = kernel::add_key(open(place)?, &specifier(&policy.name), master);
    added.map_err(|error| kernel_failure(place, error))
}

pub(super) fn unlock(args: &Unlock) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let encrypted = Encrypted::find(path, &config)?;
    if encrypted.status()? == (KeyStatus::Present { is_own: true }) {
        return Err(Failure::other(format!(
            "{} is unlocked already",
            path.display()
        )));
    }
    let Encrypted {
        place,
        store,
        policy,
    } = &encrypted;
    let parts = (place.as_path(), store, policy);
    let master = secrets::open_policy(parts, &config, args.unlock_with.as_deref(), &args.key)?;
    add_key(place, policy, &master)?;
    Ok(format!("{} is unlocked", path.display()))
}

pub(super) fn lock(args: &Lock) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let Encrypted { place, policy, .. } = Encrypted::find(path, &config)?;
    let removed = kernel::remove_key(open(&place)?, &specifier(&policy.name), args.all_users);
    let shown = path.display();
    let busy = |why: &str| Err(Failure::new(FailureKind::Busy, format!("{shown} {why}")));
    match removed {
        Ok(Removed::Whole) => Ok(format!("{shown} is locked")),
        Ok(Removed::FilesBusy) => {
            busy("is not locked whole: files in it are open; close them, and lock it again")
        }
        Ok(Removed::OtherUsers) => {
            busy("is still unlocked by other users; root locks it with --all-users")
        }
        Err(Errno::NOKEY) => match key_status(&place, &policy)? {
            KeyStatus::Present { .. } => {
                busy("is unlocked by other users; root locks it with --all-users")
            }
            _ => Err(Failure::other(format!("{shown} is locked already"))),
        },
        Err(error) => Err(kernel_failure(path, error)),
    }
}

pub(super) fn purge(args: &Purge) -> Result<String> {
    let config = place::config()?;
    let place = &args.mountpoint;
    let store = place::store(place, Some(&config))?;
    be_sure(
        args.force,
        &format!("this locks all directories of {}", place.display()),
    )?;
    let listed = store.policies();
    let listed = listed.map_err(|error| failure(&place.display().to_string(), error))?;
    let mut busy = 0;
    for name in listed {
        match kernel::remove_key(open(place)?, &specifier(&name), false) {
            Ok(Removed::Whole) | Err(Errno::NOKEY) => {}
            Ok(Removed::FilesBusy | Removed::OtherUsers) => busy += 1,
            Err(error) => return Err(kernel_failure(place, error)),
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
    match kernel::policy(&directory) {
        Err(Errno::NODATA) => {}
        Ok(_) => {
            let message = format!("{} is encrypted already", path.display());
            return Err(Failure::new(FailureKind::Exists, message));
        }
        Err(error) => return Err(kernel_failure(path, error)),
    }
    let mut entries = fs::read_dir(path).map_err(|error| place::io(path, &error))?;
    if entries.next().is_some() {
        return Err(kernel_failure(path, Errno::NOTEMPTY));
    }
    let place = place::of_path(path)?;
    let store = place::store(&place, Some(&config))?;
    let mut made = Made::default();
    let done = apply(args, &config, (&place, &store), &mut made, &directory);
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
    (place, store): (&Path, &Store),
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
    let was_present = matches!(
        key_status(place, &policy)?,
        KeyStatus::Present { is_own: true }
    );
    // First: ordinary users may set a policy only with its key.
    add_key(place, &policy, &master)?;
    let set = kernel::set_policy(directory, &policy.policy().to_kernel());
    if !was_present && (set.is_err() || args.skip_unlock) {
        let removed = kernel::remove_key(open(place)?, &specifier(&policy.name), false);
        removed.map_err(|error| kernel_failure(place, error))?;
    }
    set.map_err(|error| kernel_failure(&args.directory, error))?;
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
