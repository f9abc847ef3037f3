//! A random workload on a pool, and what the pool should hold at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pool::{ArrayKind, DEDUP_SPACE, OpenDataset, Pool, Reach, ReserveFor};

use super::*;

/// The two arrays of a dataset: slot to number.
pub type Arrays = [BTreeMap<u64, u64>; 2];

/// Every dataset and snapshot by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub datasets: BTreeMap<String, Arrays>,
    /// The snapshots of each dataset, the oldest first.
    pub snapshots: BTreeMap<String, Vec<(String, Arrays)>>,
    /// The origin of each clone.
    pub origins: BTreeMap<String, String>,
    /// The snapshots that go with their last clone.
    pub deferred: BTreeSet<String>,
}

impl Model {
    fn subtree(&self, name: &str) -> Vec<String> {
        let below = format!("{name}/");
        let is_in = |other: &&String| *other == name || other.starts_with(&below);
        self.datasets.keys().filter(is_in).cloned().collect()
    }

    /// The whole names of the snapshots of a dataset.
    fn snapshots_of(&self, name: &str) -> Vec<String> {
        let all = self.snapshots.get(name).into_iter().flatten();
        all.map(|(snapshot, _)| format!("{name}@{snapshot}"))
            .collect()
    }

    /// Takes datasets and snapshots away, and with `clones` what was cloned of them; false if something
    /// stands in the way.
    fn destroy(&mut self, heads: &[String], snapshots: &[String], clones: bool) -> bool {
        let mut heads: Vec<String> = heads.to_vec();
        let mut snapshots: Vec<String> = snapshots.to_vec();
        let mut at = 0;
        loop {
            for head in &heads {
                for snapshot in self.snapshots_of(head) {
                    if !snapshots.contains(&snapshot) {
                        snapshots.push(snapshot);
                    }
                }
            }
            let Some(snapshot) = snapshots.get(at) else {
                break;
            };
            at += 1;
            for (clone, origin) in &self.origins {
                if origin != snapshot || heads.contains(clone) {
                    continue;
                }
                if !clones || clone == "tank" {
                    return false;
                }
                for below in self.subtree(clone) {
                    if !heads.contains(&below) {
                        heads.push(below);
                    }
                }
            }
        }
        snapshots.iter().for_each(|snapshot| self.forget(snapshot));
        for head in heads {
            self.datasets.remove(&head);
            self.snapshots.remove(&head);
            self.origins.remove(&head);
        }
        for snapshot in self.deferred.clone() {
            if !self.origins.values().any(|origin| *origin == snapshot) {
                self.forget(&snapshot);
            }
        }
        true
    }

    fn forget(&mut self, snapshot: &str) {
        let (head, last) = snapshot.split_once('@').unwrap();
        if let Some(of_head) = self.snapshots.get_mut(head) {
            of_head.retain(|(name, _)| name != last);
        }
        self.deferred.remove(snapshot);
    }

    /// Names snapshots anew wherever they are named.
    fn snapshots_renamed(&mut self, renamed: impl Fn(&str) -> Option<String>) {
        for origin in self.origins.values_mut() {
            *origin = renamed(origin).unwrap_or_else(|| origin.clone());
        }
        let deferred = std::mem::take(&mut self.deferred).into_iter();
        self.deferred = deferred
            .map(|name| renamed(&name).unwrap_or(name))
            .collect();
    }

    fn promote(&mut self, clone: &str) {
        let origin = self.origins.remove(clone).unwrap();
        let (owner, last) = origin.split_once('@').unwrap();
        let of_owner = self.snapshots.get_mut(owner).unwrap();
        let end = of_owner.iter().position(|(name, _)| name == last).unwrap() + 1;
        let mut moved: Vec<_> = of_owner.drain(..end).collect();
        let renamed: Vec<(String, String)> = moved
            .iter()
            .map(|(name, _)| (format!("{owner}@{name}"), format!("{clone}@{name}")))
            .collect();
        let own = self.snapshots.entry(clone.into()).or_default();
        moved.append(own);
        *own = moved;
        if let Some(above) = self.origins.remove(owner) {
            self.origins.insert(clone.into(), above);
        }
        self.origins.insert(owner.into(), origin.clone());
        self.deferred
            .retain(|name| renamed.iter().all(|(old, _)| old != name));
        self.snapshots_renamed(|name| {
            let found = renamed.iter().find(|(old, _)| old == name);
            found.map(|(_, new)| new.clone())
        });
    }

    fn rename(&mut self, old: &str, new: &str) {
        let arrays = self.datasets.remove(old).unwrap();
        self.datasets.insert(new.into(), arrays);
        if let Some(snapshots) = self.snapshots.remove(old) {
            self.snapshots.insert(new.into(), snapshots);
        }
        if let Some(origin) = self.origins.remove(old) {
            self.origins.insert(new.into(), origin);
        }
        let prefix = format!("{old}@");
        self.snapshots_renamed(|name| {
            let last = name.strip_prefix(&prefix)?;
            Some(format!("{new}@{last}"))
        });
    }
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

impl std::ops::Deref for Workload {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
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

    /// Makes one random step. True if everything so far is durable now. True if everything so far is durable now.
    pub fn step(&mut self) -> bool {
        let name = self.pick_dataset();
        match self.dice.below(43) {
            0..=19 => self.put(&name),
            20..=24 => self.punch(&name),
            25 => self.create(&name),
            26..=27 => self.snapshot(&name),
            28 => self.destroy_snapshot(&name),
            29 => self.rollback(&name),
            30 => self.destroy(&name),
            31 => self.rename(&name),
            32..=33 => self.clone(&name),
            34 => self.promote(),
            35 => self.defer(&name),
            _ => {
                self.pool.commit().unwrap();
                true
            }
        }
    }

    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    /// Makes so many steps, and a commit.
    pub fn run(&mut self, count: usize) {
        self.steps(count);
        self.pool.commit().unwrap();
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
            if array == ArrayKind::Data && self.dice.below(3) == 0 {
                number = EQUAL + self.dice.below(12);
            }
            if self.units_max > 0 {
                number = sized(number, 1 + self.dice.below(self.units_max));
            }
            let bytes = dataset.record_space(array, contents(number).len()) + DEDUP_SPACE;
            let Ok(_reserved) = self.pool.reserve(bytes, ReserveFor::Writing) else {
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
                let bytes = dataset.punch_space(array, &[slot]);
                let Ok(_reserved) = self.pool.reserve(bytes, ReserveFor::Freeing) else {
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
        if !has_space(self.pool.create_dataset(&name, new, &origin())) {
            return true;
        }
        self.model.datasets.insert(name, Arrays::default());
        true
    }

    fn snapshot(&mut self, name: &str) -> bool {
        let snapshot = format!("s{}", self.number());
        let recursive = self.dice.below(4) == 0;
        let names = [format!("{name}@{snapshot}")];
        if !has_space(self.pool.snapshot(&names, recursive, &origin())) {
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

    fn clone(&mut self, name: &str) -> bool {
        let snapshots = self.model.snapshots.get(name).map_or(0, Vec::len) as u64;
        if snapshots == 0 {
            return false;
        }
        let index = self.dice.below(snapshots) as usize;
        let (snapshot, arrays) = self.model.snapshots[name][index].clone();
        let above = self.pick_dataset();
        let number = self.number();
        let clone = format!("{above}/c{number}");
        if clone.len() > 60 {
            return false;
        }
        let origin_name = format!("{name}@{snapshot}");
        let new = new_clone(100_000 + number);
        let made = self
            .pool
            .clone_snapshot(&origin_name, &clone, new, &origin());
        if has_space(made) {
            self.model.datasets.insert(clone.clone(), arrays);
            self.model.origins.insert(clone, origin_name);
        }
        true
    }

    fn promote(&mut self) -> bool {
        let count = self.model.origins.len() as u64;
        if count == 0 {
            return false;
        }
        let index = self.dice.below(count) as usize;
        let clone = self.model.origins.keys().nth(index).unwrap().clone();
        if has_space(self.pool.promote(&clone, None, &origin())) {
            self.model.promote(&clone);
        }
        true
    }

    /// Destroys a name that stands for these, if the model says that it can be.
    fn destroy_named(&mut self, name: &str, heads: &[String], snapshots: &[String]) {
        let clones = self.dice.below(2) == 0;
        let reach = match (clones, heads.is_empty()) {
            (true, _) => Reach::Clones,
            (false, true) => Reach::Named,
            (false, false) => Reach::Below,
        };
        let mut after = self.model.clone();
        let can_be = after.destroy(heads, snapshots, clones);
        if can_be {
            let stay = |name: &String, _: &mut _| after.datasets.contains_key(name);
            self.open.retain(stay);
            self.model = after;
        }
        let result = self.pool.destroy_dataset(name, reach, &origin());
        assert_eq!(result.is_ok(), can_be, "{name} {reach:?}: {result:?}");
    }

    fn destroy_snapshot(&mut self, name: &str) -> bool {
        let all = self.model.snapshots_of(name);
        if all.is_empty() {
            return false;
        }
        let from = self.dice.below(all.len() as u64) as usize;
        let to = match self.dice.below(3) {
            0 => from + self.dice.below((all.len() - from) as u64) as usize,
            _ => from,
        };
        let last = |at: usize| all[at].split_once('@').unwrap().1;
        let target = match to == from {
            true => all[from].clone(),
            false => format!("{name}@{}%{}", last(from), last(to)),
        };
        // With clones the snapshots of the same names below would go as well; there are none of them
        // but where a snapshot was recursive.
        let recursive = self.model.snapshots.iter().any(|(other, snapshots)| {
            other.starts_with(&format!("{name}/"))
                && snapshots
                    .iter()
                    .any(|(s, _)| (from..=to).any(|at| s == last(at)))
        });
        if recursive {
            return false;
        }
        self.destroy_named(&target, &[], &all[from..=to]);
        true
    }

    /// Destroys a snapshot now, or with its last clone.
    fn defer(&mut self, name: &str) -> bool {
        let all = self.model.snapshots_of(name);
        if all.is_empty() {
            return false;
        }
        let picked = &all[self.dice.below(all.len() as u64) as usize];
        if has_space(self.pool.destroy_or_defer(picked, false, &origin())) {
            match self.model.origins.values().any(|origin| origin == picked) {
                true => drop(self.model.deferred.insert(picked.clone())),
                false => self.model.forget(picked),
            }
        }
        true
    }

    fn rollback(&mut self, name: &str) -> bool {
        let count = self.model.snapshots.get(name).map_or(0, Vec::len) as u64;
        if count == 0 {
            return false;
        }
        let keep = self.dice.below(count) as usize + 1;
        let all = self.model.snapshots_of(name);
        let clones = self.dice.below(2) == 0;
        let reach = match clones {
            true => Reach::Clones,
            false => Reach::Below,
        };
        // It may be destroyed afterwards.
        let (_, arrays) = self.model.snapshots[name][keep - 1].clone();
        let mut after = self.model.clone();
        // A clone may have the dataset itself below it.
        let can_be = after.destroy(&[], &all[keep..], clones) && after.datasets.contains_key(name);
        if can_be {
            let stay = |other: &String| other != name && after.datasets.contains_key(other);
            self.open.retain(|other, _| stay(other));
            self.model = after;
        }
        let result = self.pool.rollback(&all[keep - 1], reach, &origin());
        assert_eq!(result.is_ok(), can_be, "{name} {reach:?}: {result:?}");
        if can_be {
            self.model.datasets.insert(name.into(), arrays);
        }
        true
    }

    fn destroy(&mut self, name: &str) -> bool {
        if name == "tank" {
            return false;
        }
        let heads = self.model.subtree(name);
        self.destroy_named(name, &heads, &[]);
        true
    }

    fn rename(&mut self, name: &str) -> bool {
        if name == "tank" {
            return false;
        }
        let (above, _) = name.rsplit_once('/').unwrap();
        let new = format!("{above}/r{}", self.number());
        self.pool.rename(name, &new, &origin()).unwrap();
        for old in self.model.subtree(name) {
            let renamed = old.replacen(name, &new, 1);
            self.model.rename(&old, &renamed);
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

/// False if a command was refused for lack of space; the group is committed all the same.
fn has_space<T>(result: pool::Result<T>) -> bool {
    match result {
        Ok(_) => true,
        Err(pool::Error::NoSpace) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the contents of a pool, every record verified.
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
    for listed in pool.list(pool.top().unwrap().id).unwrap() {
        if listed.entry.is_deferred() {
            model.deferred.insert(listed.name);
        } else if listed.entry.origin != 0 {
            let origin = pool.name_of(listed.entry.origin).unwrap();
            model.origins.insert(listed.name, origin);
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
