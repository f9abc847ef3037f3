//! A pool in use: its lives, how each ends, and what has to be there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use block::BlockDevice;
use block::fault::Survival;
use cipher::SeededRandom;
use dataset::{Dataset, Engine, EngineOptions};
use keys::WrappingKey;
use pool::{AtCheckpoint, DeviceState, Pool, Purpose};
use store::{CreateOptions, NewGroup, Store};

use crate::administration::checkpoints::{Kept, is_refusal};
use crate::common::*;
use crate::devices::guids::Guids;
use crate::model::device::{Power, SimDevice};
use crate::model::shapes::{SHAPES, Shape};
use crate::model::world::{World, shape_of};
use crate::programs::volumes::AllInUse;

/// Keys that are loaded, by the guid of their key root.
pub type Keys = Arc<Mutex<BTreeMap<u64, WrappingKey>>>;

/// True if a command is to be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    None,
    /// The model does not know.
    Possible,
    Due,
}

impl From<bool> for Refusal {
    fn from(is_due: bool) -> Refusal {
        match is_due {
            true => Refusal::Due,
            false => Refusal::None,
        }
    }
}

/// The number of times that the subjects of a run happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Records that were found on a cache device.
    pub hits: u64,
    /// A group of devices had more space than before.
    pub grown: u64,
    /// A stream became a clone.
    pub clones: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.hits += other.hits;
        self.grown += other.grown;
        self.clones += other.clones;
    }
}

/// A machine with a pool.
pub struct Sim {
    pub seed: u64,
    pub dice: Dice,
    pub random: Arc<SeededRandom>,
    pub power: Arc<Power>,
    /// Every device there ever was.
    pub devices: Vec<Arc<SimDevice>>,
    /// The devices with flipped bits, or that are about to fail, since they were last whole.
    pub rotten: BTreeSet<u64>,
    pub pool: Option<Pool>,
    engine: Arc<Engine>,
    /// Datasets in use, by guid.
    pub mounted: AllInUse,
    pub keys: Keys,
    pub world: World,
    /// The checkpoint of the pool.
    pub kept: Kept,
    pub guids: Guids,
    /// The worlds that may be instead, if the last command was cut short.
    maybe: Vec<World>,
    /// True if a failure happened that no redundancy covers: this life is over.
    pub is_over: bool,
    /// Reads fail where nothing else can be read.
    pub is_hostile: bool,
    /// Devices that may be away at the next import.
    may_be_away: Vec<u64>,
    /// The devices among them that were there for logs.
    logs: Vec<u64>,
    /// Cache devices that may hold or do something wrong.
    pub spoilt: BTreeSet<u64>,
    /// The devices that may have lost their label.
    pub unlabelled: BTreeSet<u64>,
    pub tally: Tally,
    next: u64,
    log: Vec<String>,
}

impl Sim {
    pub fn new(seed: u64) -> Sim {
        let power = Power::new();
        let mut dice = Dice(seed);
        let shape = &SHAPES[seed as usize % SHAPES.len()];
        let mut sim = Sim {
            seed,
            random: Arc::new(SeededRandom::new(seed)),
            devices: make_devices(shape, &mut dice, &power),
            power,
            rotten: BTreeSet::new(),
            pool: None,
            engine: new_engine(seed, &mut dice),
            mounted: AllInUse::new(),
            keys: Keys::default(),
            world: World {
                datasets: BTreeMap::new(),
                partials: BTreeMap::new(),
                caches: BTreeSet::new(),
            },
            kept: Kept::default(),
            guids: Guids::FIRST,
            maybe: Vec::new(),
            is_over: false,
            is_hostile: false,
            may_be_away: Vec::new(),
            logs: Vec::new(),
            spoilt: BTreeSet::new(),
            unlabelled: BTreeSet::new(),
            tally: Tally::default(),
            next: 100,
            log: Vec::new(),
            dice,
        };
        sim.create(shape);
        sim
    }

    fn create(&mut self, shape: &Shape) {
        let mut rest = dynamic(&self.devices).into_iter();
        let group = |(members, parity): &(usize, usize)| NewGroup {
            devices: rest.by_ref().take(*members).collect(),
            parity: *parity,
        };
        let groups: Vec<NewGroup> = shape.groups.iter().map(group).collect();
        let options = CreateOptions {
            pool_guid: Guids::FIRST.now,
            device_guids: self.devices.iter().map(|device| device.guid).collect(),
            created: 1,
            force: false,
        };
        let store = Store::create_groups(groups, rest.collect(), &options).unwrap();
        let store = Arc::new(store);
        let (top, dataset) = self.new_dataset(None);
        let pool = Pool::create(Arc::clone(&store), env(self.seed), "tank", top);
        store.commit_labels().unwrap();
        self.pool = Some(pool.unwrap());
        self.add_logs(shape.logs);
        self.world.datasets.insert("tank".into(), dataset);
        if self.dice.below(2) == 0 {
            self.add_cache();
        }
    }

    pub fn pool(&self) -> Pool {
        self.pool.clone().expect("a pool")
    }

    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn say(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    /// Returns the latest steps, the oldest first.
    pub fn log(&self) -> String {
        let from = self.log.len().saturating_sub(60);
        self.log[from..].join("\n")
    }

    /// The devices as they are, and everything that was ever written to them.
    pub fn hash(&self) -> blake3::Hash {
        let mut hash = blake3::Hasher::new();
        for device in &self.devices {
            hash.update(device.hash().as_bytes());
            hash.update(&device.to_bytes());
        }
        hash.finalize()
    }

    /// A step. Each has dice of its own, so that some can be left out.
    pub fn step(&mut self, number: u64) {
        self.dice = Dice(Dice(self.seed ^ number << 32).below(u64::MAX));
        self.say(format!("-- {number}"));
        if self.pool.is_none() {
            self.import();
        }
        self.act();
        self.feed_caches();
        if self.is_over || self.pool.as_ref().is_some_and(|pool| self.is_failing(pool)) {
            self.end();
        }
    }

    fn act(&mut self) {
        match self.dice.below(230) {
            0..=109 => self.file_step(),
            212..=219 => self.cache_step(),
            220..=223 => self.growth_step(),
            224..=229 => self.checkpoint_step(),
            200..=211 => self.transfer(),
            110..=124 => self.sync_step(),
            125..=139 => self.use_step(),
            140..=163 => self.command_step(),
            164..=191 => self.device_step(),
            192..=195 => self.leave(),
            _ => self.schedule_cut(),
        }
    }

    fn schedule_cut(&mut self) {
        let bits = self.dice.below(9);
        let writes = self.dice.below(1 << bits);
        self.say(format!("the power will fail after {writes} writes"));
        self.power.cut_after(writes);
    }

    /// Exports the pool, or ends the process as it is; the machine goes on.
    fn leave(&mut self) {
        let mut may_be_away = self.dispensable();
        may_be_away.extend(self.sole_log_devices());
        self.logs = self.log_devices();
        self.may_be_away = may_be_away.iter().map(|device| device.guid).collect();
        if self.dice.below(2) == 0 {
            self.say("kill");
            self.is_over = true;
            return;
        }
        self.say("export");
        let devices = match self.dice.below(3) == 0 && self.may_be_renumbered() {
            true => self.pool().devices(),
            false => Vec::new(),
        };
        for guid in self.mounted.keys().copied().collect::<Vec<_>>() {
            self.close(guid);
        }
        let exported = self.pool().export();
        if self.survive(exported).is_some() {
            if std::mem::take(&mut self.is_hostile) {
                self.devices.iter().for_each(|device| device.repair());
            }
            self.keys.lock().unwrap().clear();
            self.count_caches();
            self.pool = None;
            if !devices.is_empty() {
                let devices: Vec<u64> = devices.iter().map(|device| device.guid).collect();
                self.renumber(&devices);
            }
        }
    }

    fn is_failing(&self, pool: &Pool) -> bool {
        self.power.is_off() || pool.suspended().is_some()
    }

    /// Returns whether what fails now has a reason.
    pub fn may_fail(&self) -> bool {
        self.is_hostile || self.pool.as_ref().is_none_or(|pool| self.is_failing(pool))
    }

    /// Returns the answer of a pool; `None` if it failed for a known reason.
    pub fn survive<T>(&mut self, result: pool::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(pool::Error::NoSpace | pool::Error::KeyAreaFull { .. }) => {
                self.say("   no free space");
                None
            }
            Err(error) if self.has_checkpoint() && is_refusal(&error) => {
                self.say(format!("   {error}"));
                None
            }
            Err(error) => {
                let waits = matches!(error, pool::Error::LogsLost { .. });
                assert!(waits && self.lacks_logs() || self.may_fail(), "{error}");
                self.say(format!("   {error}"));
                self.is_over = true;
                None
            }
        }
    }

    /// Does the same as [`Sim::survive`], of a dataset.
    pub fn survive_dataset<T>(&mut self, result: dataset::Result<T>) -> Option<T> {
        match result {
            Err(dataset::Error::Pool(error)) => self.survive(Err(error)),
            Err(dataset::Error::Fs(vfs::Error::NoSpace)) => self.survive(Err(pool::Error::NoSpace)),
            Err(error) => {
                assert!(self.may_fail(), "{error}");
                self.say(format!("   {error}"));
                self.is_over = true;
                None
            }
            Ok(value) => Some(value),
        }
    }

    /// A command that makes `after` of the world, and commits, has returned this. True if it is done.
    pub fn command<T>(&mut self, after: World, result: pool::Result<T>) -> bool {
        let is_done = self.survive(result).is_some();
        if is_done {
            self.enter(after);
        } else if self.is_over {
            self.may_be(after);
        }
        is_done
    }

    /// Does the same as [`Sim::command`], of one that may be refused.
    pub fn command_or_refusal<T>(
        &mut self,
        after: World,
        result: pool::Result<T>,
        refusal: Refusal,
    ) -> bool {
        use pool::Error::{Exists, HasClones, Refused};
        match result {
            Err(error @ (Exists { .. } | HasClones { .. } | Refused { .. })) => {
                self.say(format!("   {error}"));
                let is_kept = self.has_checkpoint() && is_refusal(&error);
                assert!(is_kept || refusal != Refusal::None, "{error}");
                false
            }
            Ok(_) if refusal == Refusal::Due => panic!("it was to be refused"),
            other => self.command(after, other),
        }
    }

    /// Takes over the world that a command makes.
    pub fn enter(&mut self, after: World) {
        self.world = after;
        self.world.learn(&self.pool());
        self.committed();
    }

    /// Adds the world that a command may have made.
    pub fn may_be(&mut self, mut after: World) {
        after.committed(|guid| self.mounted.contains_key(&guid));
        self.maybe.push(after);
    }

    /// A commit has succeeded.
    pub fn committed(&mut self) {
        let mounted = &self.mounted;
        self.world.committed(|guid| mounted.contains_key(&guid));
    }

    /// The process ends, or the machine does, without a warning.
    fn end(&mut self) {
        self.mounted.clear();
        self.keys.lock().unwrap().clear();
        self.count_caches();
        self.pool = None;
        self.is_over = false;
        self.is_hostile = false;
        // Where the power was to fail it may have been the process.
        if self.dice.below(3) > 0 {
            self.restart();
        }
        self.power.restore();
        for device in &self.devices {
            device.repair();
        }
    }

    /// The machine starts again, without what was not flushed.
    fn restart(&mut self) {
        self.say("the machine starts again");
        for device in &self.devices {
            let survival = match self.dice.below(4) {
                0 => Survival::None,
                1 => Survival::All,
                _ => Survival::Seeded(self.dice.below(u64::MAX)),
            };
            device.restart(survival);
        }
    }

    fn import(&mut self) {
        let may_be_away = std::mem::take(&mut self.may_be_away);
        let mut absent = match self.dice.below(3) {
            0 => self.pick(may_be_away),
            _ => None,
        };
        if self.dice.below(6) == 0 {
            self.power.cut_after(self.dice.below(60));
        }
        self.engine = new_engine(self.dice.below(u64::MAX), &mut self.dice);
        let mut at = self.at_checkpoint();
        loop {
            self.say(format!("import without {absent:?}"));
            let there = self.devices.iter().filter(|d| absent != Some(d.guid));
            let there: Vec<_> = there.map(Arc::clone).collect();
            let there = self.own(&there);
            let number = self.number();
            let seed = self.seed;
            let opened = Store::open(dynamic(&there))
                .map_err(pool::Error::from)
                .and_then(|store| {
                    Pool::open_at(Arc::new(store), env(seed ^ number << 32), false, at)
                })
                .and_then(|pool| pool.claim("here").map(|()| pool));
            match opened {
                Ok(pool) => {
                    self.find_guid(pool.guid());
                    self.pool = Some(pool);
                    break;
                }
                Err(pool::Error::LogsLost { .. }) => {
                    let was_away = absent.take().is_some_and(|guid| self.logs.contains(&guid));
                    assert!(was_away || self.mend_logs(), "nothing is away");
                }
                Err(error) => {
                    assert!(self.power.is_off(), "import: {error}");
                    self.end();
                    // It may have gone back before.
                    at = AtCheckpoint::Keep;
                }
            }
        }
        self.find_world();
        if self.dice.below(4) > 0 {
            self.use_caches();
        }
        self.check();
    }

    fn failed_logs(&self) -> impl Iterator<Item = &Arc<SimDevice>> {
        let logs = |device: &&Arc<SimDevice>| self.logs.contains(&device.guid);
        self.devices.iter().filter(logs).filter(|d| d.has_faults())
    }

    /// Returns whether what waits in a log may be on a device that is not to be read now.
    fn lacks_logs(&self) -> bool {
        let devices = self.pool.as_ref().map(|pool| pool.devices());
        let mut logs = devices.into_iter().flatten();
        let is_away = logs.any(|d| d.purpose == Purpose::Logs && d.state != DeviceState::Online);
        is_away || self.failed_logs().next().is_some()
    }

    /// Brings the log devices back; returns false if there are none.
    fn mend_logs(&self) -> bool {
        self.failed_logs().inspect(|device| device.repair()).count() > 0
    }

    fn find_world(&mut self) {
        let pool = self.pool();
        let found = shape_of(&pool);
        let mut maybe = std::mem::take(&mut self.maybe);
        if self.find_checkpoint(&pool) {
            maybe.clear();
        }
        self.world.learn(&pool);
        maybe.iter_mut().for_each(|after| after.learn(&pool));
        if self.world.shape() != found
            && let Some(after) = maybe.into_iter().find(|after| after.shape() == found)
        {
            self.world = after;
        }
        assert_eq!(self.world.shape(), found);
    }

    pub fn dataset_mut(&mut self, guid: u64) -> &mut crate::model::world::ModelDataset {
        let mut datasets = self.world.datasets.values_mut();
        datasets.find(|dataset| dataset.guid == guid).unwrap()
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The files of a dataset that is in use.
    pub fn files(&self, guid: u64) -> Arc<Dataset> {
        Arc::clone(self.mounted[&guid].head())
    }

    /// Ends well: all devices are there and whole, and everything is what it should be.
    pub fn finish(&mut self) {
        self.dice = Dice(self.seed ^ u64::MAX);
        self.say("-- the end");
        self.power.restore();
        while self.pool.is_none() || self.power.is_off() {
            if self.power.is_off() {
                self.end();
            }
            self.import();
        }
        self.power.restore();
        self.devices.iter().for_each(|device| device.repair());
        self.is_hostile = false;
        if self.has_checkpoint() {
            self.discard_checkpoint();
        }
        self.bring_all_back();
        self.use_caches();
        self.remove_all();
        self.use_what_was_gained();
        for name in self.world.names() {
            self.open(&name);
            let guid = self.world.datasets[&name].guid;
            self.verify(guid);
            for index in 0..self.world.datasets[&name].snapshots.len() {
                self.verify_snapshot(guid, index);
            }
        }
        self.check_caches();
        for guid in self.mounted.keys().copied().collect::<Vec<_>>() {
            self.close(guid);
        }
        let pool = self.pool();
        while pool.space().freeing > 0 {
            pool.commit().unwrap();
        }
        self.scrub_all();
        assert_eq!(pool.scrubber().status().repaired, 0);
        self.check();
        assert!(!self.is_over);
        self.count_caches();
        let members = self.members();
        pool.export().unwrap();
        self.check_with_few(members);
    }
}

fn make_devices(shape: &Shape, dice: &mut Dice, power: &Arc<Power>) -> Vec<Arc<SimDevice>> {
    let members: usize = shape.groups.iter().map(|(members, _)| members).sum();
    let count = members + shape.spares;
    let size = (10 << 20) + (dice.below(15) << 20) as usize;
    (0..count as u64)
        .map(|n| SimDevice::new(10 + n, size + (dice.below(3) << 20) as usize, power))
        .collect()
}

fn new_engine(seed: u64, dice: &mut Dice) -> Arc<Engine> {
    let options = EngineOptions {
        cache_bytes: [64 << 10, 1 << 20, 16 << 20][dice.below(3) as usize],
        dirty_bytes: 4 << 20,
        // What they do depends on who is faster.
        seal_threads: 0,
    };
    let random = Arc::new(SeededRandom::new(seed));
    Engine::new(options, random, test_clock(), || {})
}

pub fn dynamic(devices: &[Arc<SimDevice>]) -> Vec<Arc<dyn BlockDevice>> {
    let devices = devices.iter();
    devices
        .map(|device| Arc::clone(device) as Arc<dyn BlockDevice>)
        .collect()
}
