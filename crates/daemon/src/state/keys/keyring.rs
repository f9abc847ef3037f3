//! The loaded keys of a pool: makes and loads keys, which `key_material` gets. `ops::keys` changes them.
//!
//! A dataset either has key slots of its own (it is a *key root*) or inherits the wrapping key of the
//! key root above it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cipher::{Suite, SystemRandom};
use keys::{
    Argon2Params, DataKeys, GuessCost, HashCaller, KeyGeneration, KeyMaterial, KeySource, Keyring,
    SlotHash, WrappingKey, WrappingKeyAccess,
};
use pool::{Entry, MakeKeyring};
use protocol::api::{FailureKind, Pbkdf};

use crate::failure::{Failure, Result};
use crate::host::process::system::now_secs;
use crate::state::callers::channel::Channel;
use crate::state::callers::decision::{DatasetGuid, Decide};
use crate::state::datasets::properties;
use crate::state::keys::key_material::{
    Materials, OpenedSlot, first_that_opens, materials, typed_again,
};
use crate::state::keys::wrong_keys::{LockedObject, WrongKey};
use crate::state::pools::active_pool::ActivePool;

/// The time to try a passphrase.
// A program with assertions is one for tests, which open hundreds of passphrases. The least memory and passes hold there
// too.
const KDF_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 1000 });

/// The number of times that a user may type a key.
const TRIES: usize = 3;

/// A wrapping key of its own for a dataset, and the slot that unwraps it.
pub(crate) fn new_wrapping(material: &KeyMaterial, pbkdf: Option<Pbkdf>) -> Result<OwnKey> {
    let cost = cost(material, pbkdf)?;
    Ok(WrappingKeyAccess::create(
        material,
        cost,
        now_secs(),
        &SystemRandom,
    )?)
}

/// The cost of guessing the key of a new slot, with the chosen password hash or the usual one.
pub(crate) fn cost(material: &KeyMaterial, pbkdf: Option<Pbkdf>) -> Result<GuessCost> {
    let hash = pbkdf.map_or_else(SlotHash::usual, |pbkdf| match pbkdf {
        Pbkdf::Argon2id => SlotHash::Argon2id,
        Pbkdf::Pbkdf2 => SlotHash::Pbkdf2,
    });
    Ok(match material {
        KeyMaterial::Passphrase(_) => GuessCost::calibrate(hash, KDF_TIME)?,
        _ if pbkdf.is_some() => {
            return Err(Failure::usage(
                "--pbkdf is for passphrases; this key needs no password hash",
            ));
        }
        KeyMaterial::Key(_)
        | KeyMaterial::Short(_)
        | KeyMaterial::Token(_)
        | KeyMaterial::Tang(_)
        | KeyMaterial::Tpm(_)
        | KeyMaterial::Shared(_) => GuessCost::from(&Argon2Params::RECOMMENDED),
    })
}

/// A wrapping key of its own, and the slot that unwraps it.
pub(crate) type OwnKey = (WrappingKeyAccess, WrappingKey);

/// The origin of the wrapping key of a new dataset.
pub(crate) enum KeyOrigin {
    /// From a key of its own.
    Own(OwnKey),
    /// From the key of the dataset above.
    Inherited(WrappingKey),
}

/// Makes the keys of a new encrypted dataset: its keyring, once the transaction group is known, and its
/// wrapping key, if it has one of its own.
pub(crate) fn new_keyring(
    key: KeyOrigin,
    family: u64,
    suite: Suite,
) -> Result<(MakeKeyring, Option<WrappingKey>)> {
    let (wrapping, key, own) = match key {
        KeyOrigin::Own((wrapping, key)) => {
            let own = key.try_clone()?;
            (wrapping, key, Some(own))
        }
        KeyOrigin::Inherited(key) => (WrappingKeyAccess::Inherited { id: *key.id() }, key, None),
    };
    let make = move |txg| {
        let (generation, _) =
            KeyGeneration::create(&key, family, 1, txg, suite, now_secs(), &SystemRandom)?;
        Ok(Keyring::new(family, wrapping, vec![generation])?.encode())
    };
    let make: MakeKeyring =
        Box::new(move |txg| make(txg).map_err(|error: keys::Error| error.to_string()));
    Ok((make, own))
}

/// Decodes a keyring, and checks that it is one of a dataset of this family and suite.
pub(crate) fn keyring_of(bytes: &[u8], family: u64, suite: u8) -> keys::Result<Keyring> {
    let keyring = Keyring::decode(bytes)?;
    if keyring.family() != family {
        return Err(keys::Error::Damaged("it belongs to another dataset"));
    }
    if keyring.newest().suite().id() != suite {
        return Err(keys::Error::Damaged(
            "its cipher is not the one of the dataset",
        ));
    }
    Ok(keyring)
}

/// Numbers of generations for people; `None` if there are none.
pub(crate) fn numbers(generations: &[u32]) -> Option<String> {
    let numbers: Vec<String> = generations.iter().map(u32::to_string).collect();
    (!numbers.is_empty()).then(|| numbers.join(", "))
}

/// Replaces slots by those that were made from `before`, if no other command has changed them since.
pub(crate) fn replace_slots(
    wrapping: &mut WrappingKeyAccess,
    before: &WrappingKeyAccess,
    new: WrappingKeyAccess,
    name: &str,
) -> Result<()> {
    if wrapping != before {
        return Err(changed_meanwhile(name));
    }
    *wrapping = new;
    Ok(())
}

pub(crate) fn changed_meanwhile(name: &str) -> Failure {
    Failure::new(
        FailureKind::Busy,
        format!("the key of '{name}' was changed meanwhile; try again"),
    )
}

impl ActivePool {
    /// The id of the dataset whose slots unwrap the keys of this one, 0 if it is clear. A snapshot
    /// follows its dataset: its own entry says what was so when it was made.
    pub(crate) fn key_root(&self, entry: &Entry) -> Result<u64> {
        Ok(self.head(entry)?.key_root)
    }

    /// The present entry of a dataset, or of the dataset of a snapshot.
    pub(crate) fn head(&self, entry: &Entry) -> Result<Arc<Entry>> {
        let id = match entry.is_snapshot() {
            true => entry.parent,
            false => entry.id,
        };
        Ok(self.pool.entry(id)?)
    }

    /// The keyring of a dataset; of a snapshot, its dataset's.
    pub(crate) fn keyring(&self, entry: &Entry) -> Result<Keyring> {
        let bytes = self.pool.keyring(entry.id)?;
        let name = self.pool.name_of(entry.id)?;
        keyring_of(&bytes, entry.family, entry.suite)
            .map_err(|error| Failure::from(error).context(format_args!("the keyring of '{name}'")))
    }

    /// The keyring of a dataset with those generations only that its key opens, and the numbers of the others.
    /// If the key is not loaded they cannot be told apart.
    pub(crate) fn opened_keyring(&self, entry: &Entry) -> Result<(Keyring, Vec<u32>)> {
        let keyring = self.keyring(entry)?;
        let Some(key) = self.keys.copy_of(self.key_root(entry)?)? else {
            return Ok((keyring, Vec::new()));
        };
        let name = self.pool.name_of(entry.id)?;
        keyring
            .opened_by(&key)
            .map_err(|error| Failure::from(error).context(format_args!("the keyring of '{name}'")))
    }

    pub(crate) fn keysource(&self, key_root: &Entry) -> Result<KeySource> {
        let (value, _) = properties::effective(&self.pool, key_root, "keysource")?;
        // It was checked when it was set.
        value.parse::<KeySource>().map_err(|error| {
            let text = format!("'{value}' is no key source that this version knows: {error}");
            Failure::new(FailureKind::TooNew, text)
        })
    }

    /// Returns whether the key of a key root is loaded.
    pub(crate) fn has_key(&self, key_root: u64) -> bool {
        self.keys.has(key_root)
    }

    /// A copy of the wrapping key of a key root. Fails if it is not loaded.
    pub(crate) fn loaded_key(&self, key_root: u64) -> Result<WrappingKey> {
        self.keys.copy_of(key_root)?.ok_or_else(|| {
            let name = self.pool.name_of(key_root).unwrap_or_default();
            Failure::new(
                FailureKind::NoKey,
                format!(
                    "the key of '{name}' is not loaded; load it with 'strongroom key load {name}'"
                ),
            )
        })
    }

    /// The data keys of a dataset or snapshot, if it is encrypted.
    pub(crate) fn data_keys(&self, entry: &Entry) -> Result<Option<Vec<DataKeys>>> {
        let name = self.pool.name_of(entry.id)?;
        if entry.suite == 0 {
            // An attacker who writes to a device could clear the suite.
            return match &self.head(entry)?.keyring {
                None => Ok(None),
                Some(_) => Err(Failure::new(
                    FailureKind::Damaged,
                    format!("'{name}' has keys, and is marked as not encrypted"),
                )),
            };
        }
        let key = self.loaded_key(self.key_root(entry)?)?;
        let (keyring, foreign) = self.opened_keyring(entry)?;
        if let Some(foreign) = numbers(&foreign) {
            tracing::warn!(
                dataset = name,
                foreign,
                "its keyring has generations that its key does not open; they are not used"
            );
        }
        let opened = keyring.open(&key);
        opened
            .map(Some)
            .map_err(|error| Failure::from(error).context(format_args!("the keyring of '{name}'")))
    }

    /// Adds to a failure that the data may need generations of keys that are missing.
    pub(crate) fn explain_foreign(&self, entry: &Entry, failure: Failure) -> Failure {
        let foreign = self.opened_keyring(entry).map(|(_, foreign)| foreign);
        let Some(foreign) = foreign.ok().as_deref().and_then(numbers) else {
            return failure;
        };
        Failure::new(
            failure.kind,
            format!(
                "{}. Generation {foreign} of its keyring does not open with its key: it came with a stream \
                 that was sent without the key, or it was changed. Older snapshots still open: 'strongroom \
                 rollback -r' takes the dataset back to one of them",
                failure.message
            ),
        )
    }

    /// Loads the key of a key root, from the first of `sources` that has it, or from where its property says if there are
    /// none. If there are several, the caller learns which one has it, and which slot opened. With `dry_run` only tries it, and the caller learns the same of one source that is given. Takes the right to change the pool, but not while someone is asked.
    pub(crate) fn load_key(
        &self,
        key_root: &Entry,
        sources: &[KeySource],
        dry_run: bool,
        decision: &dyn Decide,
        channel: &mut dyn Channel,
    ) -> Result<()> {
        let name = self.pool.name_of(key_root.id)?;
        let loaded = || {
            Failure::new(
                FailureKind::Exists,
                format!("the key of '{name}' is loaded already"),
            )
        };
        if !dry_run && self.has_key(key_root.id) {
            return Err(loaded());
        }
        let keyring = self.keyring(key_root)?;
        let own = match sources {
            [] => vec![self.accepted_source(key_root)?],
            given => given.to_vec(),
        };
        let payer = HashCaller::present().payer;
        let may_try = || {
            let checked = self.wrong_tries.check(payer, key_root.guid, Instant::now());
            checked.map_err(|failure| failure.context(format_args!("the key of '{name}'")))
        };
        let unlock = |found: Materials| {
            let key = self.wrong_tries.attempt(payer, key_root.guid, || {
                first_that_opens(keyring.wrapping(), found)
            });
            if key
                .as_ref()
                .is_err_and(|failure| failure.kind == FailureKind::WrongKey)
            {
                self.count_wrong_key(key_root, &name);
            }
            key.map_err(|failure| failure.context(format_args!("the key of '{name}'")))
        };
        // Fails before the user is asked in vain.
        may_try()?;
        let suite = key_root.suite;
        let mut opened = materials(&own, (&name, suite), channel).and_then(&unlock);
        for _ in 1..TRIES {
            let is_wrong = opened
                .as_ref()
                .is_err_and(|f| f.kind == FailureKind::WrongKey);
            if !is_wrong {
                break;
            }
            match typed_again(&own, &name, channel).transpose() {
                Some(again) => {
                    opened = again.and_then(&unlock);
                }
                None => break,
            }
        }
        let OpenedSlot { source, slot, key } = opened?;
        let is_tried = dry_run && !sources.is_empty();
        if is_tried || own.len() > 1 {
            channel.notice(format!(
                "slot {slot} of '{name}' opens with that key, in the format '{}'",
                source.format()
            ));
        }
        let _admin = self.lock(decision)?;
        let entry = self.again(key_root, &name, decision)?;
        if dry_run {
            return Ok(());
        }
        if self.keyring(&entry)?.wrapping().id() != key.id() {
            return Err(changed_meanwhile(&name));
        }
        if !self.keys.put_first(key_root.id, key) {
            return Err(loaded());
        }
        self.report_changed_facts(key_root.id, channel);
        // A caller who names the same place as the property has accepted it.
        if !sources.is_empty() && self.keysource(&entry).is_ok_and(|own| own == source) {
            self.accept_as_set(entry.id);
        }
        Ok(())
    }

    /// Counts a wrong key of a dataset, which the present caller tried.
    pub(crate) fn count_wrong_key(&self, key_root: &Entry, name: &str) {
        let wrong = WrongKey {
            thing: LockedObject::Dataset(self.pool.guid(), key_root.guid),
            name,
            payer: HashCaller::present().payer,
        };
        self.events.add_wrong_key(&self.pool.name(), &wrong);
    }

    /// Loads a key unless it is loaded. Returns whether it did.
    pub(crate) fn ensure_key(
        &self,
        key_root: u64,
        decision: &dyn Decide,
        channel: &mut dyn Channel,
    ) -> Result<bool> {
        if self.has_key(key_root) {
            return Ok(false);
        }
        match self.load_key(&*self.pool.entry(key_root)?, &[], false, decision, channel) {
            // Another command was faster.
            Err(failure) if failure.kind == FailureKind::Exists => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// The present entry, if it still exists and the decision is about it. The caller holds the lock of the pool.
    pub(crate) fn again(
        &self,
        entry: &Entry,
        name: &str,
        decision: &dyn Decide,
    ) -> Result<Arc<Entry>> {
        let now = self.pool.entry(entry.id).ok();
        let now = now.filter(|now| now.guid == entry.guid).ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!("'{name}' was destroyed meanwhile"),
            )
        })?;
        decision.covers(self.dataset_guid(&now)?, name)?;
        Ok(now)
    }

    /// Refuses if a name means another entry now, for a command that goes on by the name.
    pub(crate) fn same(
        &self,
        entry: &Entry,
        name: &str,
        decision: &dyn Decide,
    ) -> Result<Arc<Entry>> {
        let now = self.again(entry, name, decision)?;
        match self.pool.find(name).is_ok_and(|named| named.id == now.id) {
            true => Ok(now),
            false => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{name}' was renamed or replaced meanwhile; nothing was changed, try again"
                ),
            )),
        }
    }

    /// The guids of the pool and of a dataset, or of the dataset of a snapshot.
    pub(crate) fn dataset_guid(&self, entry: &Entry) -> Result<DatasetGuid> {
        let guid = match entry.is_snapshot() {
            true => self.pool.entry(entry.parent)?.guid,
            false => entry.guid,
        };
        Ok((self.pool.guid(), guid))
    }

    /// Every dataset, without snapshots.
    pub(crate) fn all_heads(&self) -> Result<Vec<Arc<Entry>>> {
        self.heads_below(self.pool.top()?.as_ref())
    }

    /// A dataset and the datasets below it, without snapshots.
    pub(crate) fn heads_below(&self, entry: &Entry) -> Result<Vec<Arc<Entry>>> {
        Ok(self.pool.datasets_below(entry.id)?)
    }
}

/// Returns whether a keyring has this generation: the same keys, not only the same number.
pub(crate) fn has_generation(keyring: &Keyring, wanted: &keys::KeyGeneration) -> bool {
    let found = keyring.generation(wanted.number());
    found.is_some_and(|found| (found.txg(), found.suite()) == (wanted.txg(), wanted.suite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyring_is_the_one_of_its_dataset() {
        let material = KeyMaterial::Key(keys::random_key(&SystemRandom).unwrap());
        let (wrapping, key) = new_wrapping(&material, None).unwrap();
        let suite = Suite::Aes256Gcm;
        let (generation, _) =
            KeyGeneration::create(&key, 7, 1, 1, suite, now_secs(), &SystemRandom).unwrap();
        let bytes = Keyring::new(7, wrapping, vec![generation])
            .unwrap()
            .encode();
        keyring_of(&bytes, 7, suite.id()).unwrap();
        let damaged = |result| matches!(result, Err(keys::Error::Damaged(_)));
        assert!(damaged(keyring_of(&bytes, 8, suite.id())));
        assert!(damaged(keyring_of(&bytes, 7, Suite::Aes128Gcm.id())));
    }
}
