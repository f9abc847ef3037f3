//! Backs keyrings up, and restores them.
//!
//! A restore must not lose keys. It refuses a keyring of another dataset, and one that lacks a generation of the
//! dataset or of its records. While the present keyring can be read, it is replaced only by a keyring that was opened,
//! and whose keys seal the dataset.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use keys::{Backup, BackupKeyring, Keyring, WrappingKey, WrappingKeyAccess};
use pool::{Entry, NewKeyring, Origin};
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::host::process::system::now_secs;
use crate::ops::keys::change::check_has_keyring;
use crate::state::callers::channel::Channel;
use crate::state::callers::decision::Decide;
use crate::state::keys::key_material::{material, unlocked};
use crate::state::keys::keyring::{changed_meanwhile, keyring_of};
use crate::state::pools::active_pool::ActivePool;

impl ActivePool {
    /// Copies the keyring of a dataset, and those of the datasets that inherit its key; of the root dataset of a pool, all
    /// keyrings of the pool. No key is needed.
    pub(crate) fn backup_keys(&self, entry: &Entry) -> Result<Vec<u8>> {
        let name = self.pool.name_of(entry.id)?;
        let is_whole = entry.id == self.pool.top()?.id;
        if !is_whole {
            check_has_keyring(entry, &name)?;
        }
        let heads = self.heads_below(entry)?;
        let with_it = |head: &&Arc<Entry>| {
            let inherits = entry.key_root == entry.id && head.key_root == entry.id;
            head.id == entry.id || inherits || is_whole
        };
        let encrypted = heads.iter().filter(|head| head.suite != 0);
        let chosen: Vec<_> = encrypted.filter(with_it).collect();
        if chosen.is_empty() {
            return Err(Failure::other(format!(
                "no dataset of the pool '{name}' is encrypted"
            )));
        }
        let keyrings = chosen.into_iter().map(|head| {
            let keyring = self.keyring(head)?;
            Ok(BackupKeyring {
                guid: head.guid,
                name: self.pool.name_of(head.id)?,
                keysource: match keyring.wrapping() {
                    WrappingKeyAccess::Own { .. } => self.keysource(head)?.to_string(),
                    WrappingKeyAccess::Inherited { .. } => String::new(),
                },
                bytes: keyring.encode(),
            })
        });
        let backup = Backup {
            created: now_secs(),
            keyrings: keyrings.collect::<Result<_>>()?,
        };
        Ok(backup.encode()?)
    }

    /// Replaces the keyrings of a dataset, and of the datasets that inherit its key, by those of a backup. Keyrings
    /// that the backup lacks stay. Returns the names of the changed datasets. `keysource` is given if the key that
    /// opens the backup comes from another place than before. Takes the lock of the pool, but not while a user is
    /// asked.
    pub(crate) fn restore_keys(
        &self,
        entry: &Entry,
        bytes: &[u8],
        keysource: Option<&str>,
        decision: &dyn Decide,
        origin: &Origin,
        channel: &mut dyn Channel,
    ) -> Result<Vec<String>> {
        let backup = Backup::decode(bytes)?;
        let name = self.pool.name_of(entry.id)?;
        check_has_keyring(entry, &name)?;
        self.check_copies(entry, &backup, &name)?;
        let key = self.key_of_copy(entry, &backup, keysource, &name, channel)?;
        let _admin = self.lock(decision)?;
        let now = self.again(entry, &name, decision)?;
        let changes = self.copies_for(&now, &backup, key.as_ref())?;
        let ids: Vec<u64> = changes.iter().map(|change| change.id).collect();
        if let Some(id) = ids.iter().find(|id| self.files_of(**id).is_some()) {
            let mounted = self.pool.name_of(*id)?;
            return Err(Failure::new(
                FailureKind::Busy,
                format!("'{mounted}' is in use; unmount it first"),
            ));
        }
        self.replace_keyrings(&changes, origin)?;
        // The backup may have another wrapping key.
        self.keys.remove(&ids);
        ids.iter().map(|id| Ok(self.pool.name_of(*id)?)).collect()
    }

    /// Refuses a backup of other datasets.
    fn check_copies(&self, entry: &Entry, backup: &Backup, name: &str) -> Result<()> {
        if backup.keyrings.iter().any(|k| k.guid == entry.guid) {
            return Ok(());
        }
        let names = backup.keyrings.iter().map(|k| format!("'{}'", k.name));
        let names: Vec<String> = names.collect();
        Err(Failure::usage(format!(
            "the backup has the keys of {}, and not those of '{name}'",
            names.join(", ")
        )))
    }

    /// The wrapping key that opens the copies for a dataset. `None` if the keyring of the dataset is lost: then
    /// the copies need not be opened.
    fn key_of_copy(
        &self,
        entry: &Entry,
        backup: &Backup,
        keysource: Option<&str>,
        name: &str,
        channel: &mut dyn Channel,
    ) -> Result<Option<WrappingKey>> {
        let copy = backup.keyrings.iter().find(|k| k.guid == entry.guid);
        let (Some(copy), Ok(_)) = (copy, self.keyring(entry)) else {
            return Ok(None);
        };
        let context = |failure: Failure| failure.context(format_args!("the backup of '{name}'"));
        let keyring = keyring_of(&copy.bytes, entry.family, entry.suite)
            .map_err(|error| context(error.into()))?;
        match keyring.wrapping() {
            WrappingKeyAccess::Own { .. } => {
                let source: keys::KeySource = keysource.unwrap_or(&copy.keysource).parse()?;
                if keysource.is_none() && self.is_proposed(entry, &source) {
                    return Err(Failure::new(
                        FailureKind::NoKey,
                        format!(
                            "the key of the backup of '{name}' was not read: the backup names '{source}', which \
                             was not accepted here; say where the key is: -o keysource=FORMAT,LOCATION"
                        ),
                    ));
                }
                let material = material(&source, (name, entry.suite), false, channel)?;
                let key = unlocked(keyring.wrapping(), material);
                Ok(Some(key.map_err(|error| context(error.into()))?))
            }
            WrappingKeyAccess::Inherited { .. } => {
                let above = match entry.key_root == entry.id {
                    true => self.pool.entry(entry.parent)?.key_root,
                    false => entry.key_root,
                };
                Ok(Some(self.loaded_key(above)?))
            }
        }
    }

    /// The new keyrings of a dataset and of the datasets that inherit its key.
    fn copies_for(
        &self,
        entry: &Entry,
        backup: &Backup,
        key: Option<&WrappingKey>,
    ) -> Result<Vec<NewKeyring>> {
        let mut changes = Vec::new();
        for head in self.heads_below(entry)? {
            let follows = head.id == entry.id || head.key_root == entry.id;
            let copy = backup.keyrings.iter().find(|k| k.guid == head.guid);
            if let Some(copy) = copy.filter(|_| follows) {
                changes.push(self.restored(&head, copy, key)?);
            }
        }
        Ok(changes)
    }

    /// The new keyring of a dataset, from the copy in a backup.
    fn restored(
        &self,
        entry: &Entry,
        copy: &BackupKeyring,
        key: Option<&WrappingKey>,
    ) -> Result<NewKeyring> {
        let name = self.pool.name_of(entry.id)?;
        let context = |failure: Failure| failure.context(format_args!("the backup of '{name}'"));
        let keyring = keyring_of(&copy.bytes, entry.family, entry.suite)
            .map_err(|error| context(error.into()))?;
        self.check_generations(entry, &keyring, key)
            .map_err(context)?;
        if self.keyring(entry).is_ok() {
            self.check_opens(entry, &keyring, key, &name)
                .map_err(context)?;
        }
        let (key_root, props) = match keyring.wrapping() {
            WrappingKeyAccess::Own { .. } => {
                let source = copy.keysource.parse::<keys::KeySource>()?.to_string();
                (entry.id, vec![("keysource".to_owned(), Some(source))])
            }
            WrappingKeyAccess::Inherited { .. } if entry.key_root == entry.id => {
                let above = self.pool.entry(entry.parent)?;
                (above.key_root, vec![("keysource".to_owned(), None)])
            }
            WrappingKeyAccess::Inherited { .. } => (entry.key_root, Vec::new()),
        };
        Ok(NewKeyring {
            id: entry.id,
            keyring: keyring.encode(),
            key_root,
            props,
            done: "keyring restored".into(),
        })
    }

    /// Refuses a copy that does not open, or that lacks the keys by which the dataset is sealed.
    fn check_opens(
        &self,
        entry: &Entry,
        copy: &Keyring,
        key: Option<&WrappingKey>,
        name: &str,
    ) -> Result<()> {
        let key = key.ok_or_else(|| changed_meanwhile(name))?;
        let (copy, _) = copy.opened_by(key)?;
        match dataset::verify_seal(&self.pool, entry, copy.open(key)?) {
            // A command must accept this state, and needs the key for that. So the copy may be restored.
            Err(dataset::Error::OldSeal { .. } | dataset::Error::KeyringCut { .. }) => Ok(()),
            checked => Ok(checked?),
        }
    }

    /// Refuses a copy that lacks keys by which records are sealed. A key that does not open counts as missing.
    fn check_generations(
        &self,
        entry: &Entry,
        copy: &Keyring,
        key: Option<&WrappingKey>,
    ) -> Result<()> {
        let lacks = |number| {
            Failure::other(format!(
                "the backup does not have generation {number} of the data keys, which was made later and which \
                 records need"
            ))
        };
        let same = |a: &keys::KeyGeneration, b: &keys::KeyGeneration| {
            (a.txg(), a.created(), a.suite()) == (b.txg(), b.created(), b.suite())
        };
        if let Ok(current) = self.keyring(entry) {
            let opened = key.and_then(|key| current.opened_by(key).ok());
            let current = opened.map_or(current, |(opened, _)| opened);
            let mut lost = current.generations().iter().filter(|generation| {
                let kept = copy.generation(generation.number());
                !kept.is_some_and(|kept| same(kept, generation))
            });
            return match lost.next() {
                Some(generation) => Err(lacks(generation.number())),
                None => Ok(()),
            };
        }
        // The keyring is lost. The records still name the generations that they need.
        let used = self.generations_in_use(entry)?;
        match used.iter().find(|n| copy.generation(**n).is_none()) {
            Some(number) => Err(lacks(*number)),
            None => Ok(()),
        }
    }

    /// The generations of keys that the records of a dataset and its snapshots use. Reads every node.
    fn generations_in_use(&self, entry: &Entry) -> Result<BTreeSet<u32>> {
        let mut used = BTreeSet::new();
        let mut trees = self.pool.snapshots(entry.id)?;
        trees.push(self.pool.entry(entry.id)?);
        for root in trees.iter().flat_map(|tree| &tree.roots) {
            self.pool.each_record(root, &mut |_, ptr| {
                used.insert(ptr.identity.generation());
                ControlFlow::Continue(())
            })?;
        }
        Ok(used)
    }
}
