//! Keys: what makes them, loads them, takes them away and puts others in their place. The pool's part
//! of it; key sources that ask for a passphrase are left out.

use std::collections::BTreeSet;
use std::sync::mpsc;

use cipher::Suite;
use dataset::{NewGeneration, OpenSnapshot, Resealer};
use keys::{
    Argon2Params, DataKeys, KeyGeneration, KeyMaterial, Keyring, WrappingKey, WrappingKeyAccess,
};
use pool::{ArrayKind, Entry, NewDataset, NewKeyring, NewKeys, RecordPtr, SealInput};
use secret::Key;

use crate::administration::clones::not_its_own;
use crate::common::{ROOT_USER, new_dataset, origin};
use crate::model::world::ModelDataset;
use crate::sim::Sim;

const SUITES: &[Suite] = &[Suite::Xaes256Gcm, Suite::Aes128Ccm, Suite::Aes256Gcm];

fn material(secret: u64) -> KeyMaterial {
    let mut key = [0x5e; 32];
    key[..8].copy_from_slice(&secret.to_le_bytes());
    KeyMaterial::Key(Key::from_bytes(&key).unwrap())
}

impl Sim {
    /// A dataset to make below another: clear, with the key of that, or with one of its own.
    pub fn new_dataset(&mut self, parent: Option<&ModelDataset>) -> (NewDataset, ModelDataset) {
        let guid = self.number();
        let above = parent.and_then(|parent| parent.suite.map(|suite| (suite, parent.key_root)));
        let (suite, key_root, secret) = match (above, self.dice.below(3)) {
            (Some((suite, root)), 0 | 1) => (Some(suite), root, None),
            (None, 0) => (None, 0, None),
            _ => {
                let suite = self.pick(SUITES.to_vec());
                (suite, guid, Some(self.number()))
            }
        };
        let mut new = new_dataset(guid, suite);
        new.is_key_root = secret.is_some();
        if let Some(suite) = suite {
            let (wrapping, key) = match secret {
                Some(secret) => self.new_wrapping(secret),
                None => {
                    let key = self.key(key_root).unwrap();
                    (WrappingKeyAccess::Inherited { id: *key.id() }, key)
                }
            };
            if secret.is_some() {
                self.keys
                    .lock()
                    .unwrap()
                    .insert(guid, key.try_clone().unwrap());
            }
            let random = std::sync::Arc::clone(&self.random);
            new.keyring = Some(Box::new(move |txg| {
                let generation =
                    KeyGeneration::create(&key, guid, 1, txg, suite, 0, random.as_ref());
                let (generation, _) = generation.map_err(|error| error.to_string())?;
                let keyring = Keyring::new(guid, wrapping, vec![generation]);
                Ok(keyring.map_err(|error| error.to_string())?.encode())
            }));
        }
        (new, ModelDataset::new(guid, suite, key_root, secret))
    }

    pub fn new_wrapping(&self, secret: u64) -> (WrappingKeyAccess, WrappingKey) {
        let params = Argon2Params::insecure_for_tests();
        WrappingKeyAccess::create(&material(secret), &params, 0, self.random.as_ref()).unwrap()
    }

    /// The key of a key root, if it is loaded.
    pub fn key(&self, root: u64) -> Option<WrappingKey> {
        let loaded = self.keys.lock().unwrap();
        loaded.get(&root).map(|key| key.try_clone().unwrap())
    }

    /// Returns whether what is made below a dataset finds the key that it may inherit.
    pub fn can_inherit(&self, above: &str) -> bool {
        let root = self.world.datasets[above].key_root;
        root == 0 || self.key(root).is_some()
    }

    /// Loads the key of a dataset, if it has one. False if that fails.
    pub fn load_key(&mut self, name: &str) -> bool {
        let root = self.world.datasets[name].key_root;
        if root == 0 || self.key(root).is_some() {
            return true;
        }
        let (root_name, dataset) = self.world.by_guid(root).unwrap();
        let (root_name, secrets) = (root_name.clone(), dataset.secrets.clone());
        self.say(format!("load the key of {root_name}"));
        let pool = self.pool();
        let bytes = pool.keyring(pool.find(&root_name).unwrap().id);
        let Some(bytes) = self.survive(bytes) else {
            return false;
        };
        let keyring = Keyring::decode(&bytes).unwrap();
        for secret in &secrets {
            match keyring.unlock(&material(*secret)) {
                Ok(key) => {
                    self.keys.lock().unwrap().insert(root, key);
                    self.dataset_mut(root).secrets = vec![*secret];
                    return true;
                }
                Err(error) => assert!(matches!(error, keys::Error::WrongKey), "{error}"),
            }
        }
        panic!("no secret of {secrets:?} opens {root_name}");
    }

    pub fn unload_key(&mut self, name: &str) {
        let root = self.world.datasets[name].key_root;
        let users = self.mounted.keys().copied();
        let users: Vec<u64> = users
            .filter(|guid| self.world.by_guid(*guid).unwrap().1.key_root == root)
            .collect();
        if root == 0 {
            return;
        }
        self.say(format!("unload the key of {root}"));
        for guid in users {
            self.close(guid);
        }
        if !self.is_over {
            self.keys.lock().unwrap().remove(&root);
        }
    }

    /// Keys of datasets that are gone.
    pub fn forget_keys(&mut self) {
        let world = &self.world;
        self.keys
            .lock()
            .unwrap()
            .retain(|guid, _| world.by_guid(*guid).is_some());
    }

    /// The keys of a dataset whose wrapping key is loaded, if it is encrypted; none if they cannot be
    /// read.
    pub fn data_keys(
        &mut self,
        entry: &Entry,
        dataset: &ModelDataset,
    ) -> Option<Option<Vec<DataKeys>>> {
        if dataset.suite.is_none() {
            return Some(None);
        }
        let bytes = self.pool().keyring(entry.id);
        let keyring = Keyring::decode(&self.survive(bytes)?).unwrap();
        let key = self.key(dataset.key_root).unwrap();
        Some(Some(keyring.open(&key).unwrap()))
    }

    pub fn open_snapshot(&self, dataset: &ModelDataset) -> OpenSnapshot {
        let (pool, engine) = (self.pool(), std::sync::Arc::clone(self.engine()));
        let (loaded, is_sealed) = (std::sync::Arc::clone(&self.keys), dataset.suite.is_some());
        Box::new(move |entry: &Entry| {
            // As it is now: a snapshot follows its dataset.
            let root = pool.entry(pool.entry(entry.parent)?.key_root);
            let keys = match is_sealed {
                true => {
                    let loaded = loaded.lock().unwrap();
                    let key = &loaded[&root?.guid];
                    Some(Keyring::decode(&pool.keyring(entry.id)?)?.open(key)?)
                }
                false => None,
            };
            let settings = dataset::Settings {
                read_only: true,
                ..Default::default()
            };
            dataset::Dataset::open(&engine, &pool, entry.id, keys, settings, &ROOT_USER)
        })
    }

    /// Accepts the state that a rollback or a stream has left, if its seal is older than the last rotation. False if
    /// that cannot be.
    pub fn accept(&mut self, name: &str, dataset: &ModelDataset) -> bool {
        let pool = self.pool();
        let entry = pool.find(name).unwrap();
        let mut keys = || self.data_keys(&entry, dataset);
        let (Some(first), Some(second)) = (keys(), keys()) else {
            return false;
        };
        let (Some(first), Some(second)) = (first, second) else {
            return true;
        };
        if !matches!(
            dataset::verify_seal(&pool, &entry, first),
            Err(dataset::Error::OldSeal { .. })
        ) {
            return true;
        }
        let snapshots = pool.snapshots(entry.id).unwrap();
        let newest = snapshots.iter().max_by_key(|snapshot| snapshot.created_txg);
        let newest = pool.name_of(newest.unwrap().id).unwrap();
        self.say(format!("accept {newest}"));
        let resealer = Resealer::new(entry.family, second).unwrap();
        let guid = entry.guid;
        let accept = Box::new(move |snapshot: &Entry, input: &SealInput| {
            let old = SealInput::of(snapshot, guid);
            let seal = resealer.reseal_head(&old, &snapshot.seal, input);
            seal.ok_or_else(|| not_its_own(snapshot))
        });
        let accepted = pool.rollback_and_accept(&newest, false, accept, &origin());
        self.command(self.world.clone(), accepted)
    }

    /// New data keys for what is written from now on.
    pub fn rotate_key(&mut self, name: &str) {
        let dataset = self.world.datasets[name].clone();
        if dataset.suite.is_none() || !self.load_key(name) {
            return;
        }
        self.say(format!("rotate the key of {name}"));
        let pool = self.pool();
        let id = pool.find(name).unwrap().id;
        let Some(bytes) = self.survive(pool.keyring(id)) else {
            return;
        };
        let mut ring = Keyring::decode(&bytes).unwrap();
        let key = self.key(dataset.key_root).unwrap();
        let random = std::sync::Arc::clone(&self.random);
        if !self.accept(name, &dataset) {
            return;
        }
        let guid = dataset.guid;
        let files = (self.mounted.contains_key(&guid)).then(|| self.files(guid));
        let is_waiting = files.is_none() && pool.find(name).unwrap().log.exists();
        let user = files.clone();
        let (sender, made) = mpsc::channel();
        let before = Resealer::new(dataset.family, ring.open(&key).unwrap()).unwrap();
        let (to_reseal, resealers) = mpsc::channel();
        let rotation = NewKeys {
            make: Box::new(move |txg| {
                let suite = ring.newest().suite();
                let keys = ring.rotate(&key, txg, suite, 0, random.as_ref());
                let new = keys.and_then(NewGeneration::new);
                sender
                    .send(new.map_err(|error| error.to_string())?)
                    .unwrap();
                let after = Resealer::new(ring.family(), ring.open(&key).unwrap());
                to_reseal.send(after.unwrap()).unwrap();
                Ok(ring.encode())
            }),
            reseal: Box::new(move |entry, input| {
                let was = SealInput::of(entry, guid);
                assert!(before.seals_head(&was, &entry.seal));
                let after = resealers.recv().unwrap();
                let seal = after.reseal_head(&was, &entry.seal, input);
                seal.ok_or_else(|| not_its_own(entry))
            }),
            done: Box::new(move || {
                if let Some(files) = user {
                    files.use_generation(made.recv().unwrap());
                }
            }),
        };
        let rotate = || pool.rotate_keyring(id, rotation, &origin());
        let rotated = match &files {
            Some(files) => files.with_log_held(rotate),
            None => rotate(),
        };
        let mut after = self.world.clone();
        let number = self.number();
        let changed = after.datasets.get_mut(name).unwrap();
        changed.generations.push(number);
        if !self.command_or_refusal(after, rotated, is_waiting.into()) && self.is_over {
            // Whether it has happened cannot be seen from outside.
            self.dataset_mut(dataset.guid).may_be_rotated = true;
        }
    }

    /// A piece of a re-encryption, with or without a commit after it; or all of it.
    pub fn reencrypt(&mut self, name: &str) {
        let guid = self.world.datasets[name].guid;
        if self.world.datasets[name].suite.is_none() || !self.mounted.contains_key(&guid) {
            return;
        }
        let files = self.files(guid);
        let budget = self.dice.below(400_000);
        let (is_whole, commits) = (self.dice.below(3) == 0, self.dice.below(4) > 0);
        self.say(format!(
            "re-encrypt {budget} bytes of {name}, or all: {is_whole}"
        ));
        loop {
            let stepped = files.reencrypt_step(budget + 1);
            let Some(progress) = self.survive_dataset(stepped) else {
                return;
            };
            if is_whole || commits {
                self.commit();
            }
            if self.is_over || !is_whole || progress.waits {
                return;
            }
            if progress.is_done {
                break;
            }
        }
        self.check_generations(name, &files);
    }

    /// After a re-encryption the newest keys open everything, as far as it could be read.
    fn check_generations(&mut self, name: &str, files: &dataset::Dataset) {
        if self.may_fail() || files.reencrypted().damaged > 0 {
            return;
        }
        let pool = self.pool();
        let mut found = BTreeSet::new();
        for array in ArrayKind::ALL {
            let mut see = |ptr: &RecordPtr| {
                found.insert(ptr.identity.generation());
            };
            let seen = pool.each_record_of(files.id(), array, &mut see, &mut || Ok(()));
            if self.survive(seen).is_none() {
                return;
            }
        }
        let sealed_by = files.sealed_by(&pool, files.id()).unwrap();
        let newest = Keyring::decode(&pool.keyring(files.id()).unwrap()).unwrap();
        let newest = newest.newest().number();
        assert!(
            found.iter().all(|number| *number == newest),
            "{name}: {found:?}"
        );
        assert!(found.is_empty() || sealed_by == Some(newest), "{name}");
    }

    /// Another secret, or one of its own for what has inherited one.
    pub fn change_key(&mut self, name: &str) {
        let dataset = self.world.datasets[name].clone();
        if dataset.suite.is_none() || !self.load_key(name) {
            return;
        }
        let secret = self.number();
        self.say(format!("change the key of {name}"));
        let (wrapping, new) = self.new_wrapping(secret);
        let pool = self.pool();
        let root = pool.find(name).unwrap().id;
        let mut after = self.world.clone();
        let mut changes = Vec::new();
        for below in self.world.subtree(name) {
            if self.world.datasets[&below].key_root != dataset.key_root {
                continue;
            }
            let id = pool.find(&below).unwrap().id;
            let Some(bytes) = self.survive(pool.keyring(id)) else {
                return;
            };
            let wrapping = match id == root {
                true => wrapping.clone(),
                false => WrappingKeyAccess::Inherited { id: *new.id() },
            };
            let old = &self.key(dataset.key_root).unwrap();
            let keyring = Keyring::decode(&bytes).unwrap();
            let keyring = keyring.rewrap(old, wrapping, &new, self.random.as_ref());
            changes.push(NewKeyring {
                id,
                keyring: keyring.unwrap().encode(),
                key_root: root,
                props: Vec::new(),
                done: "keyring rewrapped".into(),
            });
            after.datasets.get_mut(&below).unwrap().key_root = dataset.guid;
        }
        after.datasets.get_mut(name).unwrap().secrets = vec![secret];
        let changed = pool.replace_keyrings(&changes, &origin());
        if self.command(after, changed) {
            self.keys.lock().unwrap().insert(dataset.guid, new);
        } else if self.is_over {
            // Which of the two it is cannot be seen from outside if it was its own before.
            self.dataset_mut(dataset.guid).secrets.push(secret);
        }
    }
}
