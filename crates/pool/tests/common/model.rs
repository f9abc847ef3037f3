//! A random workload on a pool, and what the pool should hold at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::{ArrayKind, OpenDataset, Pool, ReserveFor};

use super::*;

/// The two arrays of a dataset: slot to number.
pub type Arrays = [BTreeMap<u64, u64>; 2];

/// Every dataset and snapshot by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub datasets: BTreeMap<String, Arrays>,
    /// The snapshots of each dataset, the oldest first.
    pub snapshots: BTreeMap<String, Vec<(String, Arrays)>>,
}

pub struct Workload {
    pub pool: Pool,
    pub dice: Dice,
    pub model: Model,
    open: BTreeMap<String, Arc<OpenDataset>>,
    numbers: u64,
    /// Records have up to this many units; 0: as their numbers say.
    units_max: u64,
}

impl Workload {
    pub fn new(pool: Pool, seed: u64) -> Workload {
        let mut workload = Workload {
            pool,
            dice: Dice(seed),
            model: Model::default(),
            open: BTreeMap::new(),
            numbers: 0,
            units_max: 0,
        };
        workload
            .model
            .datasets
            .insert("tank".into(), Arrays::default());
        workload
    }

    /// A workload of longer records on a pool that is nearly full and has no long free runs.
    pub fn on_fragments(pool: Pool, seed: u64) -> Workload {
        let mut workload = Workload::new(pool, seed);
        workload.units_max = 60;
        let dataset = workload.open("tank");
        let left = fragment(&workload.pool, &dataset);
        workload.model.datasets.get_mut("tank").unwrap()[ArrayKind::Data as usize] = left;
        workload
    }

    /// One random step. True if everything so far is durable now.
    pub fn step(&mut self) -> bool {
        let name = self.pick_dataset();
        match self.dice.below(40) {
            0..=19 => self.put(&name),
            20..=24 => self.punch(&name),
            25 => self.create(&name),
            26..=27 => self.snapshot(&name),
            28 => self.destroy_snapshot(&name),
            29 => self.rollback(&name),
            30 => self.destroy(&name),
            31 => self.rename(&name),
            _ => {
                self.pool.commit().unwrap();
                true
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn pick_dataset(&mut self) -> String {
        let count = self.model.datasets.len() as u64;
        let index = self.dice.below(count) as usize;
        self.model.datasets.keys().nth(index).unwrap().clone()
    }

    fn open(&mut self, name: &str) -> Arc<OpenDataset> {
        let pool = &self.pool;
        let open = || pool.open_dataset(pool.find(name).unwrap().id).unwrap();
        Arc::clone(self.open.entry(name.into()).or_insert_with(open))
    }

    fn slot(&mut self) -> u64 {
        match self.dice.below(4) {
            0 => self.dice.below(8),
            1 => self.dice.below(200),
            2 => 4000 + self.dice.below(100),
            _ => (1 << 40) + self.dice.below(64),
        }
    }

    fn array(&mut self) -> ArrayKind {
        ArrayKind::ALL[self.dice.below(2) as usize]
    }

    fn put(&mut self, name: &str) -> bool {
        let dataset = self.open(name);
        for _ in 0..=self.dice.below(6) {
            let (array, slot, mut number) = (self.array(), self.slot(), self.number());
            if self.units_max > 0 {
                number = sized(number, 1 + self.dice.below(self.units_max));
            }
            let bytes = dataset.record_room(array, contents(number).len());
            let Ok(_room) = self.pool.reserve(bytes, ReserveFor::Writing) else {
                return false;
            };
            put(&self.pool, &dataset, array, slot, number).unwrap();
            let arrays = self.model.datasets.get_mut(name).unwrap();
            arrays[array as usize].insert(slot, number);
        }
        false
    }

    fn punch(&mut self, name: &str) -> bool {
        let array = self.array();
        let slots: Vec<u64> = self.model.datasets[name][array as usize]
            .keys()
            .copied()
            .collect();
        let dataset = self.open(name);
        for slot in slots {
            if self.dice.below(3) == 0 {
                let bytes = dataset.punch_room(array, &[slot]);
                let Ok(_room) = self.pool.reserve(bytes, ReserveFor::Freeing) else {
                    return false;
                };
                punch(&self.pool, &dataset, array, slot).unwrap();
                self.model.datasets.get_mut(name).unwrap()[array as usize].remove(&slot);
            }
        }
        false
    }

    fn create(&mut self, above: &str) -> bool {
        let number = self.number();
        let name = format!("{above}/d{number}");
        if name.len() > 60 {
            return false;
        }
        let new = new_dataset(1000 + number);
        if !has_room(self.pool.create_dataset(&name, new, &origin())) {
            return true;
        }
        self.model.datasets.insert(name, Arrays::default());
        true
    }

    fn snapshot(&mut self, name: &str) -> bool {
        let snapshot = format!("s{}", self.number());
        let recursive = self.dice.below(4) == 0;
        let names = [format!("{name}@{snapshot}")];
        if !has_room(self.pool.snapshot(&names, recursive, &origin())) {
            return true;
        }
        let below = format!("{name}/");
        let concerned: Vec<String> = self
            .model
            .datasets
            .keys()
            .filter(|other| *other == name || recursive && other.starts_with(&below))
            .cloned()
            .collect();
        for dataset in concerned {
            let arrays = self.model.datasets[&dataset].clone();
            self.model
                .snapshots
                .entry(dataset)
                .or_default()
                .push((snapshot.clone(), arrays));
        }
        true
    }

    fn destroy_snapshot(&mut self, name: &str) -> bool {
        let count = self.model.snapshots.get(name).map_or(0, Vec::len) as u64;
        if count == 0 {
            return false;
        }
        let index = self.dice.below(count) as usize;
        let (snapshot, _) = self.model.snapshots.get_mut(name).unwrap().remove(index);
        self.pool
            .destroy_dataset(&format!("{name}@{snapshot}"), false, &origin())
            .unwrap();
        true
    }

    fn rollback(&mut self, name: &str) -> bool {
        let count = self.model.snapshots.get(name).map_or(0, Vec::len) as u64;
        if count == 0 {
            return false;
        }
        let keep = self.dice.below(count) as usize + 1;
        self.open.remove(name);
        let snapshots = self.model.snapshots.get_mut(name).unwrap();
        snapshots.truncate(keep);
        let (snapshot, arrays) = snapshots.last().unwrap().clone();
        self.pool
            .rollback(&format!("{name}@{snapshot}"), true, &origin())
            .unwrap();
        self.model.datasets.insert(name.into(), arrays);
        true
    }

    fn subtree(&self, name: &str) -> Vec<String> {
        let below = format!("{name}/");
        self.model
            .datasets
            .keys()
            .filter(|other| *other == name || other.starts_with(&below))
            .cloned()
            .collect()
    }

    fn destroy(&mut self, name: &str) -> bool {
        if name == "tank" {
            return false;
        }
        for gone in self.subtree(name) {
            self.open.remove(&gone);
            self.model.datasets.remove(&gone);
            self.model.snapshots.remove(&gone);
        }
        self.pool.destroy_dataset(name, true, &origin()).unwrap();
        true
    }

    fn rename(&mut self, name: &str) -> bool {
        if name == "tank" {
            return false;
        }
        let (above, _) = name.rsplit_once('/').unwrap();
        let new = format!("{above}/r{}", self.number());
        self.pool.rename(name, &new, &origin()).unwrap();
        for old in self.subtree(name) {
            let renamed = old.replacen(name, &new, 1);
            let arrays = self.model.datasets.remove(&old).unwrap();
            self.model.datasets.insert(renamed.clone(), arrays);
            if let Some(snapshots) = self.model.snapshots.remove(&old) {
                self.model.snapshots.insert(renamed.clone(), snapshots);
            }
            if let Some(dataset) = self.open.remove(&old) {
                self.open.insert(renamed, dataset);
            }
        }
        true
    }

    /// Goes on with the pool as it was imported again, after a commit.
    pub fn reopened(&mut self, open: impl FnOnce() -> Pool) {
        self.open.clear();
        self.pool = open();
        assert_eq!(read_pool(&self.pool), normal(self.model.clone()));
    }

    /// Closes what is open, so that the pool can be exported or dropped.
    pub fn close(self) -> (Pool, Model) {
        (self.pool, self.model)
    }
}

/// False if a command was refused for want of room; the group is committed all the same.
fn has_room<T>(result: pool::Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(pool::Error::NoSpace) => false,
        Err(error) => panic!("{error}"),
    }
}

/// What a pool holds, every record verified.
pub fn read_pool(pool: &Pool) -> Model {
    let mut model = Model::default();
    for listed in pool.list(pool.top().unwrap().id).unwrap() {
        let dataset = pool.open_dataset(listed.entry.id).unwrap();
        let arrays = ArrayKind::ALL.map(|array| read_all(&dataset, array).unwrap());
        match listed.name.split_once('@') {
            Some((head, snapshot)) => model
                .snapshots
                .entry(head.into())
                .or_default()
                .push((snapshot.into(), arrays)),
            None => {
                model.datasets.insert(listed.name, arrays);
            }
        }
    }
    model.snapshots.retain(|_, snapshots| !snapshots.is_empty());
    model
}

pub fn normal(mut model: Model) -> Model {
    model.snapshots.retain(|_, snapshots| !snapshots.is_empty());
    model
}

/// Commits until nothing is left to destroy.
pub fn settle(pool: &Pool) {
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
    pool.commit().unwrap();
}
