//! The expected contents of a pool.

use std::collections::{BTreeMap, BTreeSet};

use cipher::Suite;
use pool::{Entry, Pool};

use crate::common::history::History;
use crate::common::model::Model;
use crate::programs::volumes::volume_mark;

/// A dataset with its snapshots.
#[derive(Clone)]
pub struct ModelDataset {
    /// 0 while the pool has not said.
    pub guid: u64,
    pub suite: Option<Suite>,
    /// The guid of the dataset whose secret opens it; 0 if it is clear.
    pub key_root: u64,
    /// The secret that opens a key root, or those that may.
    pub secrets: Vec<u64>,
    /// The family: datasets of the same family have the same data keys; 0 while the pool has not said.
    pub family: u64,
    /// The data keys in its keyring, each by a number that no others have; none if it is clear.
    pub generations: Vec<u64>,
    /// True if there may be others too.
    pub may_be_rotated: bool,
    pub props: BTreeMap<String, String>,
    /// Bytes of a block, if it is a volume.
    pub block_size: Option<u64>,
    pub history: History,
    /// The oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The snapshot from which a clone was made.
    pub origin: Option<SnapshotId>,
    /// True if the dataset was not in use since its newest snapshot.
    pub is_untouched: bool,
}

/// Names a snapshot, of any dataset.
pub type SnapshotId = u64;

#[derive(Clone)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub name: String,
    /// Copies have the same; 0 while the pool has not said.
    pub guid: u64,
    /// The first of those that are sealed as it is.
    pub sealed_as: SnapshotId,
    /// The snapshot that it is to a stream in the clear. A copy that was sealed anew and then sent sealed is another.
    pub lineage: SnapshotId,
    /// The data keys that it needs.
    pub generations: Vec<u64>,
    pub history: History,
}

impl ModelDataset {
    pub fn new(
        guid: u64,
        suite: Option<Suite>,
        key_root: u64,
        secret: Option<u64>,
    ) -> ModelDataset {
        ModelDataset {
            guid,
            suite,
            key_root,
            secrets: secret.into_iter().collect(),
            family: guid,
            may_be_rotated: false,
            generations: suite.map(|_| guid).into_iter().collect(),
            props: BTreeMap::new(),
            block_size: None,
            history: History::new(Model::new()),
            snapshots: Vec::new(),
            origin: None,
            is_untouched: false,
        }
    }
}

/// The received part of a stream that was broken off.
#[derive(Clone)]
pub struct Partial {
    /// The guids of the snapshots that it brings, and that it goes on from, or 0.
    pub to: u64,
    pub from: u64,
    /// The snapshot from which the stream goes on, on the receiving side.
    pub base: Option<SnapshotId>,
    /// The snapshot as which its records were sealed.
    pub sealed_as: SnapshotId,
}

/// The guid of the dataset above, and the last part of the name of the dataset that it is to be.
pub type Place = (u64, String);

#[derive(Clone)]
pub struct World {
    /// By name.
    pub datasets: BTreeMap<String, ModelDataset>,
    pub partials: BTreeMap<Place, Partial>,
    /// The guids of the cache devices.
    pub caches: BTreeSet<u64>,
}

/// The visible facts of a pool without a key: of each dataset the guid, that of its key root, and its
/// properties; of snapshots, of what was received in part, and of cache devices, that they are there.
pub type Shape = BTreeMap<String, (u64, u64, BTreeMap<String, String>)>;

impl World {
    pub fn names(&self) -> Vec<String> {
        self.datasets.keys().cloned().collect()
    }

    /// A dataset and those below it.
    pub fn subtree(&self, name: &str) -> Vec<String> {
        let below = format!("{name}/");
        let mut names = self.names();
        names.retain(|other| other == name || other.starts_with(&below));
        names
    }

    pub fn by_guid(&self, guid: u64) -> Option<(&String, &ModelDataset)> {
        self.datasets
            .iter()
            .find(|(_, dataset)| dataset.guid == guid)
    }

    /// The dataset that has a snapshot, by name, and which of its snapshots that is.
    pub fn owner(&self, id: SnapshotId) -> Option<(&String, usize)> {
        self.datasets.iter().find_map(|(name, dataset)| {
            let at = dataset.snapshots.iter().position(|s| s.id == id)?;
            Some((name, at))
        })
    }

    /// The earlier snapshots of a line, which goes on in that of an origin, the newest first.
    pub fn before(&self, name: &str, index: usize) -> Vec<&Snapshot> {
        let dataset = &self.datasets[name];
        let mut line: Vec<&Snapshot> = dataset.snapshots[..index].iter().rev().collect();
        if let Some((owner, at)) = dataset.origin.and_then(|origin| self.owner(origin)) {
            line.push(&self.datasets[owner].snapshots[at]);
            line.extend(self.before(owner, at));
        }
        line
    }

    /// Returns the place at which received records of a dataset wait.
    pub fn place(&self, target: &str) -> Place {
        match target.rsplit_once('/') {
            Some((above, last)) => (self.datasets[above].guid, last.into()),
            None => (self.datasets[target].guid, String::new()),
        }
    }

    /// The dataset that something is received into.
    pub fn target(&self, place: &Place) -> String {
        let (above, _) = self.by_guid(place.0).unwrap();
        match place.1.as_str() {
            "" => above.clone(),
            last => format!("{above}/{last}"),
        }
    }

    /// Returns whether something that stays was made of one of these snapshots, or goes on from one.
    pub fn are_needed(
        &self,
        snapshots: &[Snapshot],
        stays: impl Fn(&str) -> bool,
        waits: impl Fn(&Place) -> bool,
    ) -> bool {
        let ids: BTreeSet<SnapshotId> = snapshots.iter().map(|snapshot| snapshot.id).collect();
        let is_one = |id: Option<SnapshotId>| id.is_some_and(|id| ids.contains(&id));
        let mut datasets = self.datasets.iter();
        let mut partials = self.partials.iter();
        datasets.any(|(name, dataset)| stays(name) && is_one(dataset.origin))
            || partials.any(|(place, partial)| waits(place) && is_one(partial.base))
    }

    pub fn rename(&mut self, name: &str, new: &str) {
        let (old_place, guid) = (self.place(name), self.datasets[name].guid);
        for old in self.subtree(name) {
            let dataset = self.datasets.remove(&old).unwrap();
            self.datasets.insert(old.replacen(name, new, 1), dataset);
        }
        debug_assert!(self.by_guid(guid).is_some());
        if let Some(partial) = self.partials.remove(&old_place) {
            self.partials.insert(self.place(new), partial);
        }
    }

    pub fn destroy(&mut self, name: &str) {
        self.partials.remove(&self.place(name));
        for gone in self.subtree(name) {
            let dataset = self.datasets.remove(&gone).unwrap();
            self.partials.retain(|(above, _), _| *above != dataset.guid);
        }
    }

    /// Notes that all changes are durable. Changes that wait in logs are as unknown as before.
    pub fn committed(&mut self, is_in_use: impl Fn(u64) -> bool) {
        for dataset in self
            .datasets
            .values_mut()
            .filter(|dataset| is_in_use(dataset.guid))
        {
            dataset.history.committed();
        }
    }

    /// The snapshot that an entry of the pool was made of, or goes on from.
    fn origin_of(&self, pool: &Pool, entry: &Entry) -> Option<SnapshotId> {
        let name = pool.name_of(entry.origin).ok()?;
        let (owner, last) = name.split_once('@')?;
        let mut snapshots = self.datasets.get(owner)?.snapshots.iter();
        let origin = snapshots.find(|snapshot| snapshot.name == last);
        origin.map(|snapshot| snapshot.id)
    }

    /// Takes from the pool which of equal snapshots it has chosen for what was received.
    fn learn_origins(&mut self, pool: &Pool, new: &[String]) {
        for name in new {
            let Ok(entry) = pool.find(name) else { continue };
            let origin = self.origin_of(pool, &entry);
            let dataset = self.datasets.get_mut(name).unwrap();
            dataset.origin = dataset.origin.or(origin);
        }
        if self.partials.values().all(|partial| partial.base.is_some()) {
            return;
        }
        for entry in partials(pool) {
            let Ok(above) = pool.entry(entry.parent) else {
                continue;
            };
            let place = (above.guid, entry.name.trim_start_matches('%').to_owned());
            let origin = self.origin_of(pool, &entry);
            if let Some(partial) = self.partials.get_mut(&place) {
                partial.base = partial.base.or(origin);
            }
        }
    }

    /// Takes from the pool which numbers it has drawn.
    pub fn learn(&mut self, pool: &Pool) {
        let new = self
            .datasets
            .iter()
            .filter(|(_, dataset)| dataset.guid == 0);
        let new: Vec<String> = new.map(|(name, _)| name.clone()).collect();
        self.learn_numbers(pool);
        self.learn_origins(pool, &new);
    }

    fn learn_numbers(&mut self, pool: &Pool) {
        for (name, dataset) in &mut self.datasets {
            if dataset.guid == 0
                && let Ok(entry) = pool.find(name)
            {
                dataset.guid = entry.guid;
                if dataset.suite.is_some() && dataset.key_root == 0 {
                    dataset.key_root = entry.guid;
                }
                if dataset.family == 0 {
                    dataset.family = entry.family;
                }
            }
            let unknown = dataset.snapshots.iter_mut().filter(|s| s.guid == 0);
            for snapshot in unknown {
                if let Ok(entry) = pool.find(&format!("{name}@{}", snapshot.name)) {
                    snapshot.guid = entry.guid;
                }
            }
        }
    }

    pub fn shape(&self) -> Shape {
        let mut shape = Shape::new();
        let nothing = || (0, 0, BTreeMap::new());
        for (name, dataset) in &self.datasets {
            let own = (dataset.guid, dataset.key_root, dataset.props.clone());
            shape.insert(name.clone(), own);
            for snapshot in &dataset.snapshots {
                shape.insert(format!("{name}@{}", snapshot.name), nothing());
            }
        }
        for (above, last) in self.partials.keys() {
            let (above, _) = self.by_guid(*above).unwrap();
            shape.insert(format!("{above}/%{last}"), nothing());
        }
        let caches = self.caches.iter().map(|guid| format!("cache {guid}"));
        shape.extend(caches.map(|cache| (cache, nothing())));
        shape
    }
}

/// Returns the parts of streams that were received, which are not shown.
fn partials(pool: &Pool) -> impl Iterator<Item = std::sync::Arc<Entry>> {
    const IDS: u64 = 10_000;
    let all = (1..IDS).filter_map(|id| pool.entry(id).ok());
    all.filter(|entry| entry.is_partial())
}

/// Does the same as [`World::shape`], of a pool.
pub fn shape_of(pool: &Pool) -> Shape {
    let listed = pool.list(pool.top().unwrap().id).unwrap();
    let see = |listed: pool::DatasetListing| {
        let entry = listed.entry;
        let seen = match entry.is_snapshot() {
            true => (0, 0, BTreeMap::new()),
            false => {
                let root = match entry.key_root {
                    0 => 0,
                    id => pool.entry(id).unwrap().guid,
                };
                let mut props = entry.props.clone();
                props.retain(|name, _| !name.starts_with('@') || *name == volume_mark());
                (entry.guid, root, props)
            }
        };
        (listed.name, seen)
    };
    let mut shape: Shape = listed.into_iter().map(see).collect();
    for partial in partials(pool) {
        let above = pool.name_of(partial.parent).unwrap();
        let name = format!("{above}/{}", partial.name);
        shape.insert(name, (0, 0, BTreeMap::new()));
    }
    for cache in pool.cache_devices().list() {
        shape.insert(format!("cache {}", cache.guid), (0, 0, BTreeMap::new()));
    }
    shape
}
