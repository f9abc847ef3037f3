//! Directories in the format of fscrypt, opened by a passphrase: the metadata of the tool is in them.

use std::path::Path;
use std::time::Duration;

use cipher::SystemRandom;
use daemon::Failure;
use keys::{Argon2Params, HashWork};
use protocol::api::FailureKind;
use secret::Secret;
use stack::Entry;
use stack::formats::fscrypt::tool::{
    DIRECTORY_NAME, Error, Found, Options, ProtectedPolicy, Protector, Source, Store, Writers,
};
use stack::formats::fscrypt::{Fscrypt, KeyName, MasterKey, Policy, Space};

use super::lower;
use crate::cmd::fscrypt::run::failure;
use crate::cmd::stack::args::StackKey;
use crate::outcome::LocalResult as Result;

/// How long a try at a new passphrase takes.
const TRY: Duration = Duration::from_secs(1);

/// What one passphrase may cost at all protectors, in KiB of memory times passes: 256 GiB.
const WORK_MAX: u64 = 1 << 28;

fn failed(dir: &Path, error: Error) -> Failure {
    failure(&dir.display().to_string(), error)
}

/// Prepares an empty directory with a new master key, and with metadata that opens it by a passphrase.
/// `policy` says how it encrypts; its key is replaced.
pub(super) fn init(
    dir: &Path,
    root: &Entry,
    space: Space,
    policy: &Policy,
    key: &StackKey,
) -> Result<()> {
    let refused = |error| lower::failure(dir, error);
    if Space::of(root).map_err(refused)?.is_some() {
        return Err(refused(vfs::Error::Exists));
    }
    stack::prepare(root, &[]).map_err(refused)?;
    let passphrase = lower::passphrase(dir, key, true)?;
    let costs = Argon2Params::calibrate(TRY)?.into();
    let failed = |error| failed(dir, error);
    let (source, random) = (Source::Passphrase, &SystemRandom);
    let made = Protector::with_passphrase(source, "passphrase", &costs, &passphrase, random);
    let (protector, key) = made.map_err(failed)?;
    let options = Options {
        padding: policy.padding,
        contents: policy.contents,
        names: policy.names,
        version: 2,
    };
    let made = ProtectedPolicy::create(options, protector.descriptor, &key, random);
    let (protected, _) = made.map_err(failed)?;
    Store::create(dir, Writers::Owner).map_err(failed)?;
    let policy = Policy {
        key: protected.name,
        ..*policy
    };
    // The policy comes last: a directory with one can be opened.
    let done = Store::open(dir, None)
        .and_then(|store| {
            store.put_protector(&protector, None)?;
            store.put_policy(&protected, None)
        })
        .map_err(failed)
        .and_then(|()| Fscrypt::set_policy(root, space, &policy, random).map_err(refused));
    if done.is_err() {
        // Nothing is encrypted with it.
        let _ = Store::destroy(dir);
    }
    done
}

/// Whether the directory has metadata of the tool.
pub(super) fn has_metadata(root: &Entry) -> bool {
    root.entry(DIRECTORY_NAME.as_bytes()).is_ok()
}

/// The master key of a policy, by a passphrase of one of its protectors.
pub(super) fn unlock(dir: &Path, name: &KeyName, key: &StackKey) -> Result<MasterKey> {
    let failed = |error| failed(dir, error);
    let user = rustix::process::geteuid();
    let trusted = (!user.is_root()).then_some(user.as_raw());
    let store = Store::open(dir, trusted).map_err(failed)?;
    let policy = store.policy(name).map_err(failed)?;
    let passphrase = lower::passphrase(dir, key, false)?;
    let mut work = HashWork::new(WORK_MAX);
    for descriptor in policy.protectors() {
        let found = store.protector(&descriptor).map_err(failed)?;
        let Found::Here(protector) = found else {
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
        return Ok(MasterKey::new(master).expect("64 bytes"));
    }
    let message = format!("{}: the passphrase is wrong", dir.display());
    Err(Failure::new(FailureKind::WrongKey, message))
}
