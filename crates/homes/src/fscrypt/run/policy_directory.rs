//! An encrypted directory, and what is known of it.

use std::path::{Path, PathBuf};

use console::outcome::Result;
use protocol::api::{Failure, FailureKind};
use stack::formats::fscrypt::EncryptionPolicy;
use stack::formats::fscrypt::tool::{Config, MetadataStore, Options, ProtectedPolicy};

use super::keyring::{self, PolicyKeyring};
use super::open_path::OpenPath;
use super::place::{self, failure};

pub(super) struct PolicyDirectory {
    pub(super) place: PathBuf,
    pub(super) keyring: PolicyKeyring,
    pub(super) policy: EncryptionPolicy,
    /// A stacked directory with a key of its own has none.
    pub(super) metadata: Option<(MetadataStore, ProtectedPolicy)>,
}

impl PolicyDirectory {
    /// The policy of a directory or file, which its metadata must agree with.
    pub(super) fn find(path: &Path, config: &Config) -> Result<PolicyDirectory> {
        PolicyDirectory::of(&OpenPath::open(path)?, config)
    }

    /// Finds the policy of an open file or directory, as [`PolicyDirectory::find`] does.
    pub(super) fn of(held: &OpenPath<'_>, config: &Config) -> Result<PolicyDirectory> {
        let (keyring, place, policy) = keyring::policy(held)?;
        let metadata = match (metadata(held.path(), &place, &policy, config), &keyring) {
            // A directory of a mount can have a key that nothing else opens.
            (Err(failure), PolicyKeyring::Mount(_)) if failure.kind == FailureKind::NotFound => {
                None
            }
            (found, _) => Some(found?),
        };
        Ok(PolicyDirectory {
            place,
            keyring,
            policy,
            metadata,
        })
    }
}

fn metadata(
    path: &Path,
    place: &Path,
    policy: &EncryptionPolicy,
    config: &Config,
) -> Result<(MetadataStore, ProtectedPolicy)> {
    let store = place::store(place, Some(config))?;
    let stored = store.policy(&policy.key);
    let stored = stored.map_err(|error| failure(&place.display().to_string(), error))?;
    match stored.options == Options::of(policy) {
        true => Ok((store, stored)),
        false => {
            let message = format!(
                "the policy of {} differs from the metadata on {}",
                path.display(),
                place.display()
            );
            Err(Failure::new(FailureKind::Damaged, message))
        }
    }
}
