//! Directories in the format of fscrypt, opened by a passphrase: the metadata of the tool is in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cipher::SystemRandom;
use console::outcome::Result;
use fuse::FuseMount;
use keys::HashWork;
use protocol::api::{Failure, FailureKind};
use secret::{Key, Secret};
use stack::formats::fscrypt::tool::{
    Costs, DIRECTORY_NAME, Error, MetadataStore, Options, ProtectedPolicy, Protector,
    ProtectorEntry, ProtectorSource, Writers,
};
use stack::formats::fscrypt::{
    EncryptionPolicy, FscryptFormat, FscryptMasterKey, FscryptNode, KeyName, KeyState,
    XattrNamespace,
};
use stack::{Entry, StackedDirectory};

use super::control::{Control, ControlAnswer, KeyOwner, MasterState, Request};
use super::lower;
use crate::stack::args::StackKey;

/// The time that a try at a new passphrase takes.
const TRY: Duration = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 1000 });

/// The greatest cost of a passphrase at all protectors, in KiB of memory times passes: 256 GiB.
const WORK_MAX: u64 = 1 << 28;

fn failed(dir: &Path, error: Error) -> Failure {
    metadata_failure(&dir.display().to_string(), error)
}

/// Prepares an empty directory with a new master key, and with metadata that opens it by a passphrase.
/// `policy` says how it encrypts; its key is replaced.
pub(super) fn init(
    dir: &Path,
    root: &Entry,
    space: XattrNamespace,
    policy: &EncryptionPolicy,
    key: &StackKey,
) -> Result<()> {
    let refused = |error| lower::failure(dir, error);
    if XattrNamespace::of(root).map_err(refused)?.is_some() {
        return Err(refused(vfs::Error::Exists));
    }
    stack::prepare(root, &[]).map_err(refused)?;
    let passphrase = lower::passphrase(dir, key, true)?;
    let costs = Costs::calibrate(TRY)?;
    let failed = |error| failed(dir, error);
    let (source, random) = (ProtectorSource::Passphrase, &SystemRandom);
    let made = Protector::with_passphrase(source, "passphrase", &costs, &passphrase, random);
    let (protector, key) = made.map_err(failed)?;
    let options = Options {
        padding: policy.padding,
        contents: policy.contents,
        names: policy.names,
        version: match policy.key {
            KeyName::Descriptor(_) => 1,
            KeyName::Identifier(_) => 2,
        },
    };
    let made = ProtectedPolicy::create(options, protector.descriptor, &key, random);
    let (protected, _) = made.map_err(failed)?;
    MetadataStore::create(root, dir, Writers::Owner).map_err(failed)?;
    let policy = EncryptionPolicy {
        key: protected.name,
        ..*policy
    };
    // The policy comes last: a directory with one can be opened.
    let done = MetadataStore::open(root, dir, None)
        .and_then(|store| {
            store.put_protector(&protector, None)?;
            store.put_policy(&protected, None)
        })
        .map_err(failed)
        .and_then(|()| FscryptFormat::set_policy(root, space, &policy, random).map_err(refused));
    if done.is_err() {
        // Nothing is encrypted with it.
        let _ = MetadataStore::destroy(root);
    }
    done
}

/// Returns whether the directory has metadata of the tool.
pub(super) fn has_metadata(root: &Entry) -> bool {
    root.entry(DIRECTORY_NAME.as_bytes()).is_ok()
}

/// The master key of a policy, by a passphrase of one of its protectors.
pub(super) fn unlock(
    (dir, root): (&Path, &Entry),
    name: &KeyName,
    key: &StackKey,
) -> Result<FscryptMasterKey> {
    let failed = |error| failed(dir, error);
    let (store, policy) = metadata((dir, root), name)?;
    let passphrase = lower::passphrase(dir, key, false)?;
    let mut work = HashWork::new(WORK_MAX);
    for descriptor in policy.protectors() {
        let found = store.protector(&descriptor).map_err(failed)?;
        let ProtectorEntry::Here(protector) = found else {
            continue;
        };
        let Some(costs) = protector.costs() else {
            continue;
        };
        work.spend(u64::from(costs.memory_kib) * u64::from(costs.time))?;
        let opened = match protector.unlock(&passphrase) {
            Err(Error::WrongKey) => continue,
            opened => opened.map_err(failed)?,
        };
        let master: Secret = policy.unlock(&descriptor, &opened).map_err(failed)?;
        return Ok(FscryptMasterKey::new(master).expect("64 bytes"));
    }
    let message = format!("{}: the passphrase is wrong", dir.display());
    Err(Failure::new(FailureKind::WrongKey, message))
}

/// The keys in files, by all names that policies have for them. Such a file can also have the key of a protector of this
/// policy, whose metadata is in the directory.
pub(super) fn keys_of_files(
    of: (&Path, &Entry),
    files: &[PathBuf],
    protected: Option<&KeyName>,
) -> Result<HashMap<KeyName, FscryptMasterKey>> {
    let other = |error: vfs::Error| Failure::other(error.to_string());
    let mut keys = HashMap::new();
    for file in files {
        let bytes = lower::master_key(file)?;
        if let Some(name) = protected
            && let Some(key) = unlock_raw(of, name, &bytes)?
        {
            keys.insert(*name, key);
        }
        let key = FscryptMasterKey::new(bytes).expect("a length that a key can have");
        keys.insert(key.descriptor(), key.try_clone().map_err(other)?);
        keys.insert(key.identifier().map_err(other)?, key);
    }
    Ok(keys)
}

/// The master key of a policy, by the raw key of one of its protectors.
fn unlock_raw(
    (dir, root): (&Path, &Entry),
    name: &KeyName,
    raw: &Secret,
) -> Result<Option<FscryptMasterKey>> {
    let Ok(raw) = raw.expose().try_into() else {
        return Ok(None);
    };
    let failed = |error| failed(dir, error);
    let (raw, (store, policy)) = (Key::from_bytes(raw)?, metadata((dir, root), name)?);
    for descriptor in policy.protectors() {
        let ProtectorEntry::Here(protector) = store.protector(&descriptor).map_err(failed)? else {
            continue;
        };
        if protector.source != ProtectorSource::RawKey {
            continue;
        }
        let opened = match protector.unlock_raw(&raw) {
            Err(Error::WrongKey) => continue,
            opened => opened.map_err(failed)?,
        };
        let master = policy.unlock(&descriptor, &opened).map_err(failed)?;
        return Ok(FscryptMasterKey::new(master));
    }
    Ok(None)
}

/// The metadata in a directory, and a policy of it.
fn metadata(
    (dir, root): (&Path, &Entry),
    name: &KeyName,
) -> Result<(MetadataStore, ProtectedPolicy)> {
    let failed = |error| failed(dir, error);
    let user = rustix::process::geteuid();
    let trusted = (!user.is_root()).then_some(user.as_raw());
    let store = MetadataStore::open(root, dir, trusted).map_err(failed)?;
    let policy = store.policy(name).map_err(failed)?;
    Ok((store, policy))
}

/// The default location of contexts.
pub(super) fn usual_space() -> XattrNamespace {
    match rustix::process::geteuid().is_root() {
        true => XattrNamespace::Trusted,
        false => XattrNamespace::User,
    }
}

/// Prepares a directory in which other directories will be encrypted, and nothing else.
pub(super) fn init_for_directories(dir: &Path, root: &Entry) -> Result<()> {
    if XattrNamespace::of(root)
        .map_err(|error| lower::failure(dir, error))?
        .is_some()
    {
        return Err(lower::failure(dir, vfs::Error::Exists));
    }
    MetadataStore::create(root, dir, Writers::Owner).map_err(|error| failed(dir, error))
}

/// The name by which a policy knows a key, if it is the right one.
pub(super) fn right(key: &FscryptMasterKey, name: &KeyName, dir: &Path) -> Result<KeyName> {
    // A policy of version 1 does not have to name its key in this way; what the tool makes does.
    let found = match name {
        KeyName::Descriptor(_) => Ok(key.descriptor()),
        KeyName::Identifier(_) => key.identifier(),
    };
    match found {
        Ok(found) if found == *name => Ok(found),
        Ok(_) => Err(Failure::new(
            FailureKind::WrongKey,
            format!("the key is not the one of {}", dir.display()),
        )),
        Err(error) => Err(Failure::other(error.to_string())),
    }
}

/// Has commands change the keys of a mount.
pub(super) fn control(
    view: Arc<StackedDirectory<FscryptFormat>>,
    mount: &Arc<FuseMount>,
) -> Result<Option<Control>> {
    let keys = FscryptMountKeys {
        view,
        mount: Arc::downgrade(mount),
    };
    Control::start(mount.number(), keys).map(Some)
}

struct FscryptMountKeys {
    view: Arc<StackedDirectory<FscryptFormat>>,
    mount: Weak<FuseMount>,
}

impl KeyOwner for FscryptMountKeys {
    fn control(&self, request: Request, secret: Option<Secret>) -> Result<ControlAnswer> {
        let name = |bytes: &[u8]| {
            let unknown = || Failure::usage("such a key is not known here");
            key_name(bytes).ok_or_else(unknown)
        };
        match request {
            Request::PolicyOf { ino } => {
                let policy = self
                    .view
                    .with_node(ino, |node| node.policy().map(|policy| policy.to_kernel()));
                match policy {
                    Ok(policy) => Ok(ControlAnswer::Policy(policy.ok())),
                    Err(error) => Err(Failure::other(error.to_string())),
                }
            }
            Request::MasterState { name: bytes } => Ok(self.state(&name(&bytes)?)),
            Request::AddMaster { name: bytes } => self.add(name(&bytes)?, secret),
            Request::RemoveMaster { name: bytes } => self.remove(&name(&bytes)?),
            Request::SetPolicy { ino, policy } => {
                let format = self.view.format();
                let policy = EncryptionPolicy::from_kernel(&policy)
                    .ok_or_else(|| Failure::usage("such a policy is not known here"))?;
                let set = self
                    .view
                    .change_directory(ino, |entry, node| format.encrypt(entry, node, &policy));
                set.map_err(|error| lower::failure(Path::new("the directory"), error))?;
                Ok(ControlAnswer::Done)
            }
            _ => Err(Failure::other("the mount is one of fscrypt")),
        }
    }
}

impl FscryptMountKeys {
    fn state(&self, name: &KeyName) -> ControlAnswer {
        ControlAnswer::Master(match self.view.format().key_state(name) {
            KeyState::Absent => MasterState::Absent,
            KeyState::Present => MasterState::Present,
            KeyState::Leaving => MasterState::Leaving,
        })
    }

    fn add(&self, name: KeyName, secret: Option<Secret>) -> Result<ControlAnswer> {
        let key = secret.and_then(FscryptMasterKey::new);
        let key = key.ok_or_else(|| Failure::usage("a key has 16 to 64 bytes"))?;
        right(&key, &name, Path::new("the directory"))?;
        let added = self.view.format().add_key(name, key);
        added.map_err(|error| Failure::new(FailureKind::Exists, error.to_string()))?;
        // Targets of links were read without the key.
        self.view.sweep(|node| node.is_under(&name), |_| ());
        self.forget_contents(&name);
        self.outlive_names();
        Ok(ControlAnswer::Done)
    }

    /// Takes a key away. Files that are open keep theirs, and nothing that was read of others stays in the
    /// kernel.
    fn remove(&self, name: &KeyName) -> Result<ControlAnswer> {
        if let Some(mount) = self.mount.upgrade() {
            mount.settle();
        }
        self.forget_contents(name);
        let format = self.view.format();
        let removed = format.remove_key(name);
        removed.map_err(|error| Failure::new(FailureKind::NotFound, error.to_string()))?;
        if self
            .view
            .sweep(|node| node.is_under(name), FscryptNode::forget_key)
            == 0
        {
            format.has_left(name);
        }
        self.forget_contents(name);
        self.outlive_names();
        Ok(self.state(name))
    }

    /// Names are others under other keys.
    fn outlive_names(&self) {
        if let Some(mount) = self.mount.upgrade() {
            mount.outlive_names();
        }
    }

    fn forget_contents(&self, name: &KeyName) {
        let inodes = self.view.with_contents(|node| node.is_under(name));
        if let Some(mount) = self.mount.upgrade() {
            mount.forget_contents(&inodes);
        }
    }
}

/// The name of a key as it travels.
fn key_name(bytes: &[u8]) -> Option<KeyName> {
    let descriptor = || bytes.try_into().ok().map(KeyName::Descriptor);
    let identifier = || bytes.try_into().ok().map(KeyName::Identifier);
    descriptor().or_else(identifier)
}

pub(crate) fn metadata_failure(place: &str, error: Error) -> Failure {
    use vfs::Error as Lower;
    let kind = match error {
        Error::Keys(error) => return Failure::from(error),
        Error::WrongKey => FailureKind::WrongKey,
        Error::Damaged(_) => FailureKind::Damaged,
        Error::Unknown(_) => FailureKind::TooNew,
        Error::NotFound(_) | Error::Lower(Lower::NotFound) => FailureKind::NotFound,
        Error::Exists(_) => FailureKind::Exists,
        Error::Foreign(_) | Error::Lower(Lower::Access | Lower::NotPermitted | Lower::ReadOnly) => {
            FailureKind::Permission
        }
        Error::Lower(Lower::NoSpace | Lower::Quota) => FailureKind::NoSpace,
        Error::Lower(_) => FailureKind::Device,
        Error::Refused(_) | Error::Cipher(_) | Error::Memory(_) => FailureKind::Other,
    };
    Failure::new(kind, format!("{place}: {error}"))
}
