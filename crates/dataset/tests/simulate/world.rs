//! What a pool should hold.

use std::collections::BTreeMap;

use cipher::Suite;
use pool::Pool;

use crate::common::history::History;
use crate::common::model::Model;

/// A dataset with its snapshots.
#[derive(Clone)]
pub struct Dataset {
    pub guid: u64,
    pub suite: Option<Suite>,
    /// The guid of the dataset whose secret opens it; 0 if it is clear.
    pub key_root: u64,
    /// Of a key root: the secret that opens it, or those that may.
    pub secrets: Vec<u64>,
    pub props: BTreeMap<String, String>,
    /// Bytes of a block, if it is a volume.
    pub block_size: Option<u64>,
    pub history: History,
    /// The oldest first.
    pub snapshots: Vec<(String, History)>,
}

impl Dataset {
    pub fn new(guid: u64, suite: Option<Suite>, key_root: u64, secret: Option<u64>) -> Dataset {
        Dataset {
            guid,
            suite,
            key_root,
            secrets: secret.into_iter().collect(),
            props: BTreeMap::new(),
            block_size: None,
            history: History::new(Model::new()),
            snapshots: Vec::new(),
        }
    }
}

/// Datasets by name.
#[derive(Clone)]
pub struct World(pub BTreeMap<String, Dataset>);

/// What can be seen of a pool's datasets without a key: of each the guid, that of its key root, and
/// its properties; of snapshots that they are there.
pub type Shape = BTreeMap<String, (u64, u64, BTreeMap<String, String>)>;

impl World {
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// A dataset and those below it.
    pub fn subtree(&self, name: &str) -> Vec<String> {
        let below = format!("{name}/");
        let mut names = self.names();
        names.retain(|other| other == name || other.starts_with(&below));
        names
    }

    pub fn by_guid(&self, guid: u64) -> Option<(&String, &Dataset)> {
        self.0.iter().find(|(_, dataset)| dataset.guid == guid)
    }

    pub fn rename(&mut self, name: &str, new: &str) {
        for old in self.subtree(name) {
            let dataset = self.0.remove(&old).unwrap();
            self.0.insert(old.replacen(name, new, 1), dataset);
        }
    }

    pub fn destroy(&mut self, name: &str) {
        for gone in self.subtree(name) {
            self.0.remove(&gone);
        }
    }

    /// Everything that has happened is durable. Of what waits in logs nobody knows more than before.
    pub fn committed(&mut self, is_in_use: impl Fn(u64) -> bool) {
        for dataset in self
            .0
            .values_mut()
            .filter(|dataset| is_in_use(dataset.guid))
        {
            dataset.history.committed();
        }
    }

    pub fn shape(&self) -> Shape {
        let mut shape = Shape::new();
        for (name, dataset) in &self.0 {
            let own = (dataset.guid, dataset.key_root, dataset.props.clone());
            shape.insert(name.clone(), own);
            for (snapshot, _) in &dataset.snapshots {
                let of = (0, 0, BTreeMap::new());
                shape.insert(format!("{name}@{snapshot}"), of);
            }
        }
        shape
    }
}

/// As [`World::shape`], of a pool.
pub fn shape_of(pool: &Pool) -> Shape {
    let listed = pool.list(pool.top().unwrap().id).unwrap();
    let see = |listed: pool::Listed| {
        let entry = listed.entry;
        let seen = match entry.is_snapshot() {
            true => (0, 0, BTreeMap::new()),
            false => {
                let root = match entry.key_root {
                    0 => 0,
                    id => pool.entry(id).unwrap().guid,
                };
                (entry.guid, root, entry.props.clone())
            }
        };
        (listed.name, seen)
    };
    listed.into_iter().map(see).collect()
}
