//! Clones, and which dataset owns what they share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dataset::Resealer;
use keys::{DataKeys, Heads, Keyring, WrappingKeyAccess};
use pool::{Entry, MakeKeyring, NewClone, Reseal, SealInput};

use crate::common::origin;
use crate::model::world::ModelDataset;
use crate::sim::{Refusal, Sim};

/// The largest number of datasets.
pub const DATASETS_MAX: usize = 9;

impl Sim {
    pub fn clone_snapshot(&mut self, name: &str) {
        let Some((index, snapshot)) = self.pick_snapshot(name) else {
            return;
        };
        let above = self.pick_dataset();
        let (source, parent) = (
            self.world.datasets[name].clone(),
            self.world.datasets[&above].clone(),
        );
        if self.world.datasets.len() >= DATASETS_MAX
            || parent.block_size.is_some()
            || above.len() > 60
            || !self.load_key(name)
            || !self.load_key(&above)
        {
            return;
        }
        let clone = format!("{above}/c{}", self.number());
        let guid = self.number();
        let inherits = parent.suite.is_some() && self.dice.below(2) == 0;
        let own = (source.suite.is_some() && !inherits).then(|| self.number());
        let key_root = match (source.suite, own) {
            (None, _) => 0,
            (Some(_), Some(_)) => guid,
            (Some(_), None) => parent.key_root,
        };
        self.say(format!("clone {name}@{snapshot} as {clone} ({guid})"));
        let of = source.snapshots[index].clone();
        let mut dataset = ModelDataset {
            family: source.family,
            generations: of.generations.clone(),
            may_be_rotated: source.may_be_rotated,
            block_size: source.block_size,
            history: of.history.clone(),
            origin: Some(of.id),
            ..ModelDataset::new(guid, source.suite, key_root, own)
        };
        dataset.follow_size();
        let whole = format!("{name}@{snapshot}");
        let keys = match source.suite {
            None => None,
            Some(_) => match self.clone_keys(&whole, &source, key_root, own) {
                Some((keys, is_rotated)) => {
                    dataset.generations.extend(is_rotated.then_some(guid));
                    Some(keys)
                }
                None => return,
            },
        };
        let (keyring, reseal) = keys.unzip();
        let new = NewClone {
            guid,
            keyring,
            is_key_root: own.is_some(),
            reseal,
            props: BTreeMap::new(),
            is_rekeyed: false,
            rotation: None,
        };
        let made = self.pool().clone_snapshot(&whole, &clone, new, &origin());
        let mut after = self.world.clone();
        after.datasets.insert(clone.clone(), dataset);
        if self.command(after, made) {
            self.open(&clone);
        } else if !self.is_over {
            self.forget_keys();
        }
    }

    /// Makes the keyring of a clone, and its seal, and whether it gets a generation of its own, as of a snapshot
    /// from before a rotation; none if what is there cannot be read.
    fn clone_keys(
        &mut self,
        snapshot: &str,
        source: &ModelDataset,
        key_root: u64,
        own: Option<u64>,
    ) -> Option<((MakeKeyring, Reseal), bool)> {
        let pool = self.pool();
        let origin = pool.find(snapshot).unwrap();
        let (bytes, until) = (pool.keyring(origin.id), origin.keys_txg());
        let ring = Keyring::decode(&self.survive(bytes)?).unwrap();
        let mut taken = ring.generations().iter().filter(|g| g.txg() <= until);
        let is_rotated = taken.next_back()?.heads() == Heads::Later;
        let old = self.key(source.key_root).unwrap();
        let (wrapping, new) = match own {
            Some(secret) => {
                let (wrapping, key) = self.new_wrapping(secret);
                let loaded = key.try_clone().unwrap();
                self.keys.lock().unwrap().insert(key_root, loaded);
                (wrapping, key)
            }
            None => {
                let key = self.key(key_root).unwrap();
                (WrappingKeyAccess::Inherited { id: *key.id() }, key)
            }
        };
        let (random, family) = (Arc::clone(&self.random), source.family);
        let made: Arc<Mutex<Option<Resealer>>> = Arc::default();
        let place = Arc::clone(&made);
        let keyring: MakeKeyring = Box::new(move |txg| {
            let ring = ring.for_clone((until, false), &old, wrapping, &new, random.as_ref());
            let mut ring = ring.map_err(|error| error.to_string())?;
            assert_eq!(ring.seals_no_heads(), is_rotated);
            if is_rotated {
                let suite = ring.newest().suite();
                let rotated = ring.rotate(&new, txg, suite, 0, random.as_ref());
                rotated.map_err(|error| error.to_string())?;
            }
            let keys = ring.open(&new).map_err(|error| error.to_string())?;
            *place.lock().unwrap() = Some(Resealer::new(family, keys).unwrap());
            Ok(ring.encode())
        });
        let owner = source.guid;
        let reseal: Reseal = Box::new(move |snapshot, input| {
            let made = made.lock().unwrap();
            let resealer = made.as_ref().expect("made before");
            let old = SealInput::of(snapshot, owner);
            let seal = resealer.reseal_head(&old, &snapshot.seal, input);
            seal.ok_or_else(|| not_its_own(snapshot))
        });
        Some(((keyring, reseal), is_rotated))
    }

    pub fn promote(&mut self) {
        let clones = self.world.datasets.iter();
        let clones = clones.filter(|(_, dataset)| dataset.origin.is_some());
        let clones = clones.map(|(name, _)| name.clone()).collect();
        let Some(name) = self.pick(clones) else {
            return;
        };
        if !self.load_key(&name) {
            return;
        }
        self.say(format!("promote {name}"));
        let clone = self.world.datasets[&name].clone();
        let (owner, at) = self.world.owner(clone.origin.unwrap()).unwrap();
        let (owner, guid) = (owner.clone(), self.world.datasets[owner].guid);
        let of_owner = self.world.datasets[&owner].clone();
        if !(self.load_key(&owner) && self.accept(&owner, &of_owner)) {
            return;
        }
        let pool = self.pool();
        let Some(keys) = self.data_keys(&pool.find(&name).unwrap(), &clone) else {
            return;
        };
        let reseal = keys.map(|keys| reseal_with(clone.family, keys, guid));
        let promoted = pool.promote(&name, reseal, &origin());
        let mut after = self.world.clone();
        let old = after.datasets.get_mut(&owner).unwrap();
        let mut moving: Vec<_> = old.snapshots.drain(..=at).collect();
        let above = std::mem::replace(&mut old.origin, clone.origin);
        let new = after.datasets.get_mut(&name).unwrap();
        let is_taken = |name: &str| new.snapshots.iter().any(|own| own.name == name);
        let refusal = Refusal::from(moving.iter().any(|snapshot| is_taken(&snapshot.name)));
        moving.append(&mut new.snapshots);
        new.snapshots = moving;
        new.origin = above;
        self.command_or_refusal(after, promoted, refusal);
    }
}

/// Makes the seals of snapshots that the dataset with the guid `owner` had.
fn reseal_with(family: u64, keys: Vec<DataKeys>, owner: u64) -> Reseal {
    let resealer = Resealer::new(family, keys).unwrap();
    Box::new(move |snapshot, input| {
        let old = SealInput::of(snapshot, owner);
        let seal = resealer.reseal(&old, &snapshot.seal, input);
        seal.ok_or_else(|| not_its_own(snapshot))
    })
}

pub fn not_its_own(snapshot: &Entry) -> String {
    format!("the seal of @{} is another one's", snapshot.name)
}
