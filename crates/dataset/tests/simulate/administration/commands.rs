//! Commands of an administrator on datasets.

use std::sync::Arc;

use dataset::{
    Atime, Compression, Dataset, Owner, PrimaryCache, Settings, SnapshotDirFs, SyncMode, Volume,
    WriteCache,
};

use pool::SecondaryCache;

use crate::common::{ROOT_USER, origin};
use crate::model::world::{ModelDataset, Snapshot};
use crate::programs::volumes::{InUse, make_volume};
use crate::sim::Sim;

/// Properties that the simulation sets, and their values.
const PROPERTIES: &[(&str, &[&str])] = &[
    ("sync", &["standard", "always", "disabled"]),
    ("recordsize", &["4096", "16384", "131072", "1048576"]),
    ("compression", &["off", "lz4", "zstd"]),
    ("atime", &["on", "off"]),
    ("dedup", &["on", "off"]),
    ("copies", &["1", "2"]),
    ("primarycache", &["all", "metadata", "none"]),
    ("secondarycache", &["all", "metadata", "none"]),
    ("writecache", &["on", "off", "volatile"]),
    ("user:note", &["a", "b"]),
];

pub fn settings(dataset: &ModelDataset) -> Settings {
    let is = |name: &str| dataset.props.get(name).map_or("", String::as_str);
    Settings {
        sync: match is("sync") {
            "always" => SyncMode::Always,
            "disabled" => SyncMode::Disabled,
            _ => SyncMode::Standard,
        },
        write_cache: match is("writecache") {
            "off" => WriteCache::Off,
            "volatile" => WriteCache::Volatile,
            _ => WriteCache::On,
        },
        record_size: is("recordsize").parse().unwrap_or(16_384),
        compression: match is("compression") {
            "off" => Compression::Off,
            "zstd" => Compression::Zstd(1),
            _ => Compression::Lz4,
        },
        atime: match is("atime") {
            "off" => Atime::Off,
            _ => Atime::default(),
        },
        primary_cache: match is("primarycache") {
            "metadata" => PrimaryCache::Metadata,
            "none" => PrimaryCache::None,
            _ => PrimaryCache::All,
        },
        secondary_cache: match is("secondarycache") {
            "metadata" => SecondaryCache::Metadata,
            "none" => SecondaryCache::None,
            _ => SecondaryCache::All,
        },
        dedup: is("dedup") == "on",
        copies: if is("copies") == "2" { 2 } else { 1 },
        read_only: false,
        limited: false,
        gives_up_log: false,
    }
}

impl Sim {
    pub fn pick_dataset(&mut self) -> String {
        let names = self.world.names();
        self.pick(names).expect("one is always there")
    }

    /// Datasets come into use and go out of it, and so do keys.
    pub fn use_step(&mut self) {
        let name = self.pick_dataset();
        let guid = self.world.datasets[&name].guid;
        match self.dice.below(16) {
            0 | 1 if self.mounted.contains_key(&guid) => self.close(guid),
            2 => self.unload_key(&name),
            3..=5 => self.look_at_snapshot(&name),
            _ => self.open(&name),
        }
    }

    /// Brings a dataset into use, with its key.
    pub fn open(&mut self, name: &str) {
        let dataset = self.world.datasets[name].clone();
        if self.mounted.contains_key(&dataset.guid) || !self.load_key(name) {
            return;
        }
        self.say(format!("open {name} ({})", dataset.guid));
        let pool = self.pool();
        let entry = pool.find(name).unwrap();
        if !self.accept(name, &dataset) {
            return;
        }
        let Some(keys) = self.data_keys(&entry, &dataset) else {
            return;
        };
        let settings = settings(&dataset);
        let engine = self.engine();
        let opened = match dataset.block_size {
            None => {
                Dataset::open(engine, &pool, entry.id, keys, settings, &ROOT_USER).map(|files| {
                    let mounted = SnapshotDirFs::new(files, self.open_snapshot(&dataset), false);
                    InUse::Files(Arc::new(mounted))
                })
            }
            Some(_) => Volume::open(engine, &pool, entry.id, keys, settings)
                .map(|volume| InUse::Volume(Arc::new(volume))),
        };
        let Some(in_use) = self.survive_dataset(opened) else {
            return;
        };
        self.mounted.insert(dataset.guid, in_use);
        self.dataset_mut(dataset.guid).is_untouched = false;
        if !dataset.history.is_settled() {
            self.settle(dataset.guid);
        } else if self.dice.below(3) == 0 {
            self.verify(dataset.guid);
        }
        self.limit_users(dataset.guid);
    }

    /// Sometimes begins to count what users have, and says how much that may be.
    fn limit_users(&mut self, guid: u64) {
        let is_volume = matches!(self.mounted.get(&guid), Some(InUse::Volume(_)));
        if self.is_over || is_volume || self.dice.below(3) > 0 {
            return;
        }
        let quota = [0, 50_000, 1_000_000][self.dice.below(3) as usize];
        self.say(format!("a quota of {quota} in {guid}"));
        let set = self
            .files(guid)
            .set_account_limits(Owner::User(5), |user| user.quota = quota);
        self.survive_dataset(set);
    }

    /// Takes a dataset out of use.
    pub fn close(&mut self, guid: u64) {
        if self.is_over {
            return;
        }
        self.say(format!("close {guid}"));
        if let InUse::Files(mounted) = &self.mounted[&guid] {
            vfs::FileSystem::forget_all(mounted.as_ref());
        }
        let closed = self.files(guid).close();
        if self.survive_dataset(closed).is_some() {
            self.committed();
            self.mounted.remove(&guid);
        }
    }

    /// Takes a dataset and those below it out of use. False if that fails.
    pub fn close_below(&mut self, name: &str) -> bool {
        for name in self.world.subtree(name) {
            let guid = self.world.datasets[&name].guid;
            if self.mounted.contains_key(&guid) {
                self.close(guid);
            }
            if self.mounted.contains_key(&guid) {
                return false;
            }
        }
        true
    }

    fn look_at_snapshot(&mut self, name: &str) {
        let dataset = &self.world.datasets[name];
        let (guid, count) = (dataset.guid, dataset.snapshots.len() as u64);
        if count > 0 && self.mounted.contains_key(&guid) {
            let index = self.dice.below(count) as usize;
            self.verify_snapshot(guid, index);
        }
    }

    pub fn command_step(&mut self) {
        let name = self.pick_dataset();
        match self.dice.below(42) {
            30..=33 => self.rotate_key(&name),
            34..=41 => self.reencrypt(&name),
            24..=26 => self.clone_snapshot(&name),
            27..=29 => self.promote(),
            0..=3 => self.create_dataset(&name),
            4..=8 => self.snapshot(&name),
            9..=11 => self.destroy_snapshot(&name),
            12 | 13 => self.rollback(&name),
            14 => self.destroy(&name),
            15 | 16 => self.rename(&name),
            17..=20 => self.set_property(&name),
            21 | 22 => self.change_key(&name),
            23 if self.world.datasets[&name].block_size.is_some() => self.resize(&name),
            _ => {
                self.say("history");
                let recorded = self.pool().record(&origin());
                let world = self.world.clone();
                self.command(world, recorded);
            }
        }
    }

    fn create_dataset(&mut self, above: &str) {
        let is_volume = self.world.datasets[above].block_size.is_some();
        if self.world.datasets.len() > 8 || above.len() > 60 || is_volume {
            return;
        }
        let name = format!("{above}/d{}", self.number());
        if !self.can_inherit(above) && !self.load_key(above) {
            return;
        }
        let parent = self.world.datasets[above].clone();
        let (mut new, mut dataset) = self.new_dataset(Some(&parent));
        if self.dice.below(3) == 0 {
            make_volume(&mut self.dice, &mut new, &mut dataset);
        }
        self.say(format!("create {name} ({})", dataset.guid));
        let made = self.pool().create_dataset(&name, new, &origin());
        let mut after = self.world.clone();
        after.datasets.insert(name.clone(), dataset);
        if self.command(after, made) {
            self.open(&name);
        }
    }

    fn snapshot(&mut self, name: &str) {
        let snapshot = format!("s{}", self.number());
        let recursive = self.dice.below(4) == 0;
        self.say(format!(
            "snapshot {name}@{snapshot}, recursive: {recursive}"
        ));
        let names = [format!("{name}@{snapshot}")];
        let made = self.pool().snapshot(&names, recursive, &origin());
        let mut after = self.world.clone();
        let concerned = match recursive {
            true => after.subtree(name),
            false => vec![name.to_owned()],
        };
        for name in concerned {
            let in_use = self.mounted.contains_key(&after.datasets[&name].guid);
            let id = self.number();
            let dataset = after.datasets.get_mut(&name).unwrap();
            let mut history = dataset.history.without_log();
            if in_use {
                history.committed();
            }
            dataset.snapshots.push(Snapshot {
                id,
                name: snapshot.clone(),
                guid: 0,
                sealed_as: id,
                lineage: id,
                generations: dataset.generations.clone(),
                history,
            });
            dataset.is_untouched = !in_use && dataset.history.is_settled();
        }
        self.command(after, made);
    }

    pub fn close_snapshots(&self, name: &str) {
        if let Some(mounted) = self.mounted.get(&self.world.datasets[name].guid) {
            mounted.close_snapshots();
        }
    }

    pub fn pick_snapshot(&mut self, name: &str) -> Option<(usize, String)> {
        let count = self.world.datasets[name].snapshots.len() as u64;
        let index = self.dice.below(count.max(1)) as usize;
        let snapshots = &self.world.datasets[name].snapshots;
        let picked = snapshots.get(index);
        picked.map(|snapshot| (index, snapshot.name.clone()))
    }

    fn destroy_snapshot(&mut self, name: &str) {
        let Some((index, snapshot)) = self.pick_snapshot(name) else {
            return;
        };
        let dataset = self.world.datasets[name].clone();
        let is_newest = index + 1 == dataset.snapshots.len();
        // The way to accept what it holds would be gone with it.
        if is_newest && !(self.load_key(name) && self.accept(name, &dataset)) {
            return;
        }
        self.say(format!("destroy {name}@{snapshot}"));
        self.close_snapshots(name);
        let whole = format!("{name}@{snapshot}");
        let gone = self.pool().destroy_dataset(&whole, false, &origin());
        let of_it = &self.world.datasets[name].snapshots[index..=index];
        let is_needed = self.world.are_needed(of_it, |_| true, |_| true);
        let mut after = self.world.clone();
        let dataset = after.datasets.get_mut(name).unwrap();
        dataset.snapshots.remove(index);
        dataset.is_untouched &= dataset.snapshots.len() > index;
        self.command_or_refusal(after, gone, is_needed.into());
    }

    fn rollback(&mut self, name: &str) {
        let Some((index, snapshot)) = self.pick_snapshot(name) else {
            return;
        };
        let guid = self.world.datasets[name].guid;
        let was_in_use = self.mounted.contains_key(&guid);
        if was_in_use {
            self.close(guid);
        }
        if self.mounted.contains_key(&guid) {
            return;
        }
        self.say(format!("roll back to {name}@{snapshot}"));
        let whole = format!("{name}@{snapshot}");
        let done = self.pool().rollback(&whole, true, &origin());
        let later = &self.world.datasets[name].snapshots[index + 1..];
        let is_needed = self.world.are_needed(later, |_| true, |_| true);
        let mut after = self.world.clone();
        let dataset = after.datasets.get_mut(name).unwrap();
        dataset.snapshots.truncate(index + 1);
        dataset.is_untouched = true;
        let history = dataset.snapshots[index].history.clone();
        dataset.history = history.clone();
        dataset.follow_size();
        if !self.command_or_refusal(after, done, is_needed.into()) && self.is_over {
            // Whether it has happened cannot be seen from outside.
            self.dataset_mut(guid).history.or(&history);
        } else if was_in_use {
            self.open(name);
        }
    }

    fn destroy(&mut self, name: &str) {
        if name == "tank" || !self.close_below(name) {
            return;
        }
        self.say(format!("destroy {name}"));
        let gone = self.pool().destroy_dataset(name, true, &origin());
        let mut after = self.world.clone();
        after.destroy(name);
        let doomed = self.world.subtree(name);
        let snapshots = doomed.iter().flat_map(|name| {
            let dataset = &self.world.datasets[name];
            dataset.snapshots.iter().cloned()
        });
        let is_needed = self.world.are_needed(
            &Vec::from_iter(snapshots),
            |clone| after.datasets.contains_key(clone),
            |place| after.partials.contains_key(place),
        );
        if self.command_or_refusal(after, gone, is_needed.into()) {
            self.forget_keys();
        }
    }

    fn rename(&mut self, name: &str) {
        let above = self.pick_dataset();
        let (dataset, parent) = (&self.world.datasets[name], &self.world.datasets[&above]);
        let inherits = dataset.key_root != 0 && dataset.key_root != dataset.guid;
        let is_possible =
            !above.starts_with(name) && above.len() < 60 && parent.block_size.is_none();
        if name == "tank" || !is_possible || inherits && parent.key_root != dataset.key_root {
            return;
        }
        let new = format!("{above}/r{}", self.number());
        self.say(format!("rename {name} to {new}"));
        let renamed = self.pool().rename(name, &new, &origin());
        let mut after = self.world.clone();
        after.rename(name, &new);
        self.command(after, renamed);
    }

    fn set_property(&mut self, name: &str) {
        let (property, values) = PROPERTIES[self.dice.below(PROPERTIES.len() as u64) as usize];
        let value = match self.dice.below(4) {
            0 => None,
            _ => self.pick(values.to_vec()).map(str::to_owned),
        };
        self.say(format!("{name}: {property}={value:?}"));
        let changes = [(property.to_owned(), value.clone())];
        let set = self
            .pool()
            .set_props(&[name.to_owned()], &changes, &origin());
        let mut after = self.world.clone();
        let dataset = after.datasets.get_mut(name).unwrap();
        match value {
            Some(value) => dataset.props.insert(property.to_owned(), value),
            None => dataset.props.remove(property),
        };
        let settings = settings(dataset);
        let guid = dataset.guid;
        if self.command(after, set) && self.mounted.contains_key(&guid) {
            self.files(guid).set_settings(settings);
        }
    }
}
