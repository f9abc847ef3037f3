//! Receivers of streams, and the keys and properties of the datasets that they make.

use std::collections::BTreeMap;
use std::sync::Arc;

use cipher::{Random, Suite};
use dataset::{Engine, RecordSealer, Settings};
use keys::{KeyGeneration, Keyring, WrappingKey, WrappingKeyAccess};
use pool::{Begin, ReceivePolicy, StreamSealer};

use crate::administration::commands::settings;
use crate::sim::Sim;
use crate::streams::transfer::Stream;

/// A receiver.
pub struct Taker {
    engine: Arc<Engine>,
    random: Arc<dyn Random>,
    settings: Settings,
    /// The encryption of a dataset that comes in the clear: its suite, its key, and how that is wrapped.
    seal: Option<(Suite, WrappingKey, WrappingKeyAccess)>,
    keyring: Option<Keyring>,
}

impl ReceivePolicy for Taker {
    /// Returns the keyring with the new entries behind the present ones.
    fn keyring(&self, begin: &Begin, now: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        let Some(now) = now else {
            return Ok(Some(begin.keyring.clone()));
        };
        let text = |error: keys::Error| error.to_string();
        let own = Keyring::decode(now).map_err(text)?;
        let sent = Keyring::decode(&begin.keyring).map_err(text)?;
        let mut all = own.generations().to_vec();
        for generation in sent.generations() {
            match own.generation(generation.number()) {
                None => all.push(generation.clone()),
                Some(known) if known.is_same(generation) => {}
                Some(_) => return Err("it was rotated apart".into()),
            }
        }
        let is_same = own.wrapping().id() == sent.wrapping().id();
        match all.len() > own.generations().len() {
            false => Ok(None),
            true if !is_same => Err("new keys, wrapped by another one".into()),
            true => {
                let merged = Keyring::new(own.family(), own.wrapping().clone(), all);
                Ok(Some(merged.map_err(text)?.encode()))
            }
        }
    }

    fn sealing(
        &self,
        _: &Begin,
        family: u64,
        txg: u64,
        _: Option<&[u8]>,
    ) -> Result<StreamSealer, String> {
        let text = |error: keys::Error| error.to_string();
        let mut made = None;
        let keys = match (&self.seal, &self.keyring) {
            (None, _) => None,
            (Some((_, key, _)), Some(keyring)) => Some(keyring.open(key).map_err(text)?),
            (Some((suite, key, wrapping)), None) => {
                let random = self.random.as_ref();
                let new = KeyGeneration::create(key, family, 1, txg, *suite, 0, random);
                let generations = vec![new.map_err(text)?.0];
                let keyring = Keyring::new(family, wrapping.clone(), generations).map_err(text)?;
                made = Some(keyring.encode());
                Some(keyring.open(key).map_err(text)?)
            }
        };
        let records = RecordSealer::new(&self.engine, family, keys, &self.settings);
        Ok(StreamSealer {
            records: Arc::new(records.map_err(|error| error.to_string())?),
            suite: self.seal.as_ref().map_or(0, |(suite, ..)| suite.id()),
            is_key_root: matches!(self.seal, Some((_, _, WrappingKeyAccess::Own { .. }))),
            keyring: made,
        })
    }

    fn props(&self, _: &Begin) -> Result<BTreeMap<String, String>, String> {
        Ok(BTreeMap::new())
    }

    fn received(&self, _: &str) {}
}

/// The way in which a new dataset is opened.
pub struct Secrets {
    pub suite: Option<Suite>,
    /// The guid of its key root; 0 if it is one, or clear.
    pub key_root: u64,
    pub own: Vec<u64>,
}

impl Sim {
    /// Returns the receiver of a stream, and the secrets that open its dataset; `None` if a key cannot be read.
    pub fn taker(&mut self, stream: &Stream, target: &str) -> Option<(Taker, Secrets)> {
        let mut taker = Taker {
            engine: Arc::clone(self.engine()),
            random: Arc::clone(&self.random) as Arc<dyn Random>,
            settings: Settings::default(),
            seal: None,
            keyring: None,
        };
        let mut secrets = Secrets {
            suite: stream.suite,
            key_root: 0,
            own: stream.secrets.clone(),
        };
        if !stream.is_plain {
            return Some((taker, secrets));
        }
        if let Some(dataset) = self.world.datasets.get(target).cloned() {
            taker.settings = settings(&dataset);
            if let Some(suite) = dataset.suite {
                if !self.load_key(target) {
                    return None;
                }
                let pool = self.pool();
                let bytes = pool.keyring(pool.find(target).unwrap().id);
                let keyring = Keyring::decode(&self.survive(bytes)?).unwrap();
                let key = self.key(dataset.key_root).unwrap();
                taker.seal = Some((suite, key, keyring.wrapping().clone()));
                taker.keyring = Some(keyring);
            }
            return Some((taker, secrets));
        }
        let (above, _) = target.rsplit_once('/').unwrap();
        if !self.load_key(above) {
            return None;
        }
        let parent = self.world.datasets[above].clone();
        let (_, new) = self.new_dataset(Some(&parent));
        secrets.suite = new.suite;
        secrets.own = new.secrets.clone();
        taker.settings.dedup = self.dice.below(2) == 0;
        if let Some(suite) = new.suite {
            let (wrapping, key) = match new.secrets.first() {
                Some(secret) => {
                    self.keys.lock().unwrap().remove(&new.guid);
                    self.new_wrapping(*secret)
                }
                None => {
                    secrets.key_root = parent.key_root;
                    let key = self.key(parent.key_root).unwrap();
                    (WrappingKeyAccess::Inherited { id: *key.id() }, key)
                }
            };
            taker.seal = Some((suite, key, wrapping));
        }
        Some((taker, secrets))
    }
}
