//! Login protectors of stacked directories, at login. All of it happens with the rights of the user who mounted.

use std::path::PathBuf;

use cipher::SystemRandom;
use console::outcome::Result;
use keys::HashWork;
use protocol::api::{Failure, FailureKind};
use secret::{Key, Secret};
use stack::formats::fscrypt::KeyName;
use stack::formats::fscrypt::tool::{
    MetadataStore, ProtectedPolicy, Protector, ProtectorEntry, ProtectorSource,
};

use super::keyring::PolicyKeyring;
use super::place::failure;
use crate::stack::run::{StackedMount, open_directory};

/// The greatest cost of a passphrase at all protectors, in KiB of memory times passes: 64 GiB.
const WORK_MAX: u64 = 1 << 26;

/// A login protector of a user, and the mount whose policies it opens.
struct LoginProtector {
    keyring: PolicyKeyring,
    place: PathBuf,
    store: MetadataStore,
    protector: Protector,
}

/// The login protectors of a user, below the mounts of the user whose rights this process has.
pub(crate) struct Logins(Vec<LoginProtector>);

impl Logins {
    /// All of them. Metadata that cannot be read has none.
    pub(crate) fn find(uid: u32) -> Logins {
        let own = rustix::process::geteuid().as_raw();
        let mut logins = Vec::new();
        for mounted in StackedMount::of_user(own) {
            let place = mounted.lower().to_owned();
            let store = open_directory(&place).ok();
            let store = store.and_then(|root| MetadataStore::open(&root, &place, Some(uid)).ok());
            let Some(store) = store else {
                continue;
            };
            // With the rights of root nothing of a user is changed.
            if own == 0 && store.owner().ok() != Some(0) {
                continue;
            }
            if let Some(protector) = of_user(&store, ProtectorSource::Login(uid)) {
                logins.push(LoginProtector {
                    keyring: PolicyKeyring::Mount(mounted),
                    place,
                    store,
                    protector,
                });
            }
        }
        Logins(logins)
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys of the protectors.
    fn keys(&self, passphrase: &Secret) -> Result<Vec<Key>> {
        let mut work = HashWork::new(WORK_MAX);
        let key = |login: &LoginProtector| {
            let costs = login.protector.costs();
            let cost = costs.map_or(0, |costs| {
                u64::from(costs.memory_kib) * u64::from(costs.time)
            });
            work.spend(cost)?;
            let key = login.protector.unlock(passphrase);
            key.map_err(|error| login.failed(error))
        };
        self.0.iter().map(key).collect()
    }

    /// Fails if the passphrase does not open all of them.
    pub(crate) fn check(&self, passphrase: &Secret) -> Result<()> {
        self.keys(passphrase).map(drop)
    }

    /// Gives the mounts the keys of the policies that they open.
    pub(crate) fn open(&self, passphrase: &Secret) -> Result<()> {
        for (login, key) in self.0.iter().zip(self.keys(passphrase)?) {
            for (name, policy) in login.policies()? {
                let master = policy.unlock(&login.protector.descriptor, &key);
                let master = master.map_err(|error| login.failed(error))?;
                match login.keyring.add(&name, &master) {
                    // Another session has added it.
                    Err(failure) if failure.kind == FailureKind::Exists => {}
                    added => added?,
                }
            }
        }
        Ok(())
    }

    /// Takes the keys of these policies away.
    pub(crate) fn close(&self) -> Result<()> {
        for login in &self.0 {
            for (name, _) in login.policies()? {
                login.keyring.remove(&name, false)?;
            }
        }
        Ok(())
    }

    /// Has the new passphrase open all of them. If one cannot be stored, all keep the old one.
    pub(crate) fn change(&self, old: &Secret, new: &Secret) -> Result<()> {
        let mut changed = Vec::new();
        for (login, key) in self.0.iter().zip(self.keys(old)?) {
            let mut protector = login.protector.clone();
            let done = protector.change_passphrase(&key, new, &SystemRandom);
            done.map_err(|error| login.failed(error))?;
            changed.push(protector);
        }
        for (at, (login, protector)) in self.0.iter().zip(&changed).enumerate() {
            if let Err(error) = login.store.put_protector(protector, None) {
                for before in &self.0[..at] {
                    before
                        .store
                        .put_protector(&before.protector, None)
                        .map_err(|error| {
                            let place = before.place.display();
                            Failure::other(format!("{place}: {error}; it has the new passphrase"))
                        })?;
                }
                return Err(login.failed(error));
            }
        }
        Ok(())
    }
}

impl LoginProtector {
    /// The policies that the protector opens.
    fn policies(&self) -> Result<Vec<(KeyName, ProtectedPolicy)>> {
        let mut found = Vec::new();
        for name in self.store.policies().map_err(|error| self.failed(error))? {
            // Other users may have made this one.
            if let Ok(policy) = self.store.policy(&name)
                && policy
                    .protectors()
                    .any(|id| id == self.protector.descriptor)
            {
                found.push((name, policy));
            }
        }
        Ok(found)
    }

    fn failed(&self, error: stack::formats::fscrypt::tool::Error) -> Failure {
        failure(&self.place.display().to_string(), error)
    }
}

pub(super) fn of_user(store: &MetadataStore, login: ProtectorSource) -> Option<Protector> {
    let mut listed = store.protectors().ok()?.into_iter();
    listed.find_map(|descriptor| match store.protector(&descriptor) {
        Ok(ProtectorEntry::Here(protector)) if protector.source == login => Some(*protector),
        _ => None,
    })
}
