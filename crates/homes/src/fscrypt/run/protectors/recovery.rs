//! Recovery passphrases: they open a directory whose protector was lost with another file system.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use cipher::{Random, SystemRandom};
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use rustix::fs::{AtFlags, Mode, OFlags, Uid};
use rustix::io::Errno;
use secret::Secret;
use stack::formats::fscrypt::tool::{
    Config, MetadataStore, ProtectedPolicy, Protector, ProtectorSource, descriptor_text, key_name,
};

use super::secrets;
use crate::fscrypt::args::Recover;
use crate::fscrypt::run::keyring::kernel_failure;
use crate::fscrypt::run::open_path::OpenPath;
use crate::fscrypt::run::place::{self, failure};
use crate::fscrypt::run::policy_directory::PolicyDirectory;

/// The file with the passphrase. It is in the directory that the passphrase opens.
const README: &str = "fscrypt_recovery_readme.txt";

/// The length of a passphrase, in letters: 94 bits.
const LETTERS: usize = 20;

/// A recovery passphrase of a policy, and its protector.
pub(crate) struct Recovery {
    passphrase: Secret,
    protector: Protector,
}

impl Recovery {
    /// A new one for a policy. Its protector is stored, and the policy is not.
    pub(crate) fn add(
        (place, store): (&Path, &MetadataStore),
        policy: &mut ProtectedPolicy,
        master: &Secret,
        config: &Config,
        (directory, owner): (&Path, Option<u32>),
    ) -> Result<Recovery> {
        let failed = |error| failure(&place.display().to_string(), error);
        let passphrase = random_letters()?;
        let name = free_name(place, store, directory)?;
        let (costs, random) = (&config.costs, &SystemRandom);
        let made = Protector::with_passphrase(
            ProtectorSource::Passphrase,
            &name,
            costs,
            &passphrase,
            random,
        );
        let (protector, key) = made.map_err(failed)?;
        let added = policy.add(protector.descriptor, &key, master, random);
        added.map_err(failed)?;
        store.put_protector(&protector, owner).map_err(failed)?;
        Ok(Recovery {
            passphrase,
            protector,
        })
    }

    /// Writes the passphrase into the directory, which has to be unlocked. Returns what the user has to know.
    pub(crate) fn write(
        &self,
        directory: &File,
        path: &Path,
        (place, policy): (&Path, &ProtectedPolicy),
        owner: Option<u32>,
    ) -> Result<String> {
        let before = "This is a recovery passphrase for this directory:\n\n    ";
        let place = place.display();
        let (id, policy) = (
            descriptor_text(&self.protector.descriptor),
            key_name(&policy.name),
        );
        let after = format!(
            "\n
It opens the directory if its other protectors are lost. That happens to a login protector when the operating system
is installed again, or when the disk is moved to another machine. Copy the passphrase to a safe place.

To open the directory with it:

    strongroom fscrypt unlock --unlock-with {place}:{id} DIRECTORY

The tool fscrypt asks which protector it is to use: this is \"{}\".

To have it not open the directory any more:

    strongroom fscrypt metadata remove-protector-from-policy --force \\
        --protector {place}:{id} --policy {place}:{policy}
",
            self.protector.name
        );
        let file = path.join(README);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
        let made = rustix::fs::openat(
            directory,
            README,
            flags | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        );
        let mut made = File::from(made.map_err(|error| kernel_failure(&file, error))?);
        let parts = [
            before.as_bytes(),
            self.passphrase.expose(),
            after.as_bytes(),
        ];
        let written = rustix::fs::fchown(&made, owner.map(Uid::from_raw), None)
            .map_err(std::io::Error::from)
            .and_then(|()| parts.iter().try_for_each(|part| made.write_all(part)))
            .and_then(|()| made.sync_all())
            .and_then(|()| directory.sync_all());
        match written {
            Ok(()) => Ok(format!(
                "{} has a recovery passphrase: copy it to a safe place",
                file.display()
            )),
            Err(error) => {
                let _ = rustix::fs::unlinkat(directory, README, AtFlags::empty());
                Err(place::io(&file, &error))
            }
        }
    }

    /// Takes it away again: nobody has the passphrase.
    pub(crate) fn revert(
        &self,
        (place, store): (&Path, &MetadataStore),
        policy: &mut ProtectedPolicy,
    ) -> Result<()> {
        let descriptor = &self.protector.descriptor;
        let done = policy
            .remove(descriptor)
            .and_then(|()| store.put_policy(policy, None))
            .and_then(|()| store.remove_protector(descriptor));
        done.map_err(|error| failure(&place.display().to_string(), error))
    }

    pub(crate) fn protector(&self) -> &Protector {
        &self.protector
    }
}

/// Gives a directory that is encrypted already a recovery passphrase.
pub(crate) fn recover(args: &Recover) -> Result<String> {
    let (config, path) = (place::config()?, &args.directory);
    let held = OpenPath::open(path)?;
    let PolicyDirectory {
        place, metadata, ..
    } = PolicyDirectory::of(&held, &config)?;
    let Some((store, mut policy)) = metadata else {
        let message = format!("{} has a key file and no protectors", path.display());
        return Err(Failure::usage(message));
    };
    let directory = held.reopen()?;
    match rustix::fs::statat(&directory, README, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Err(error) => return Err(kernel_failure(&path.join(README), error)),
        Ok(_) => {
            let message = format!("there is {} already", path.join(README).display());
            return Err(Failure::new(FailureKind::Exists, message));
        }
    }
    let with = args.unlock_with.as_deref();
    let master = secrets::open_policy((&place, &store, &policy), &config, with, &args.key)?;
    let parts = (place.as_path(), &store);
    let made = Recovery::add(parts, &mut policy, &master, &config, (path, None))?;
    let stored = store.put_policy(&policy, None);
    let stored = stored.map_err(|error| failure(&place.display().to_string(), error));
    let written = stored.and_then(|()| made.write(&directory, path, (&place, &policy), None));
    if written.is_err() {
        made.revert(parts, &mut policy)?;
    }
    written
}

/// Letters that are equally probable.
fn random_letters() -> Result<Secret> {
    let failed = |error: &dyn std::fmt::Display| Failure::other(error.to_string());
    let mut letters = Secret::zeroed(LETTERS).map_err(|error| failed(&error))?;
    for letter in letters.expose_mut() {
        let mut byte = [u8::MAX];
        // The last ones would make some letters more probable.
        while byte[0] >= 26 * 9 {
            SystemRandom
                .fill(&mut byte)
                .map_err(|error| failed(&error))?;
        }
        *letter = b'a' + byte[0] % 26;
    }
    Ok(letters)
}

/// The name that the tool gives such a protector, with the first number that is free.
fn free_name(place: &Path, store: &MetadataStore, directory: &Path) -> Result<String> {
    let whole = std::fs::canonicalize(directory).map_err(|error| place::io(directory, &error))?;
    let last = whole.file_name().unwrap_or_default().to_string_lossy();
    let base = format!("Recovery passphrase for {last}");
    let taken = secrets::names(place, store)?;
    let numbered = (2..).map(|number: u32| format!("{base} ({number})"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    Ok(names
        .find(|name| !taken.contains(name))
        .expect("there are many numbers"))
}
