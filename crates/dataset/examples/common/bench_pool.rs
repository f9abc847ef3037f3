//! A pool with one encrypted dataset on a device in memory, to be measured.
#![allow(dead_code)]

use std::sync::Arc;

use block::BlockDevice;
use cipher::{SeededRandom, Suite, SystemRandom};
use dataset::{Clock, Dataset, Engine, EngineOptions, Settings};
use keys::{Argon2Params, DataKeys, KeyGeneration, KeyMaterial, WrappingKeyAccess};
use pool::{DatasetKind, Env, NewDataset, Origin, Pool};
use secret::Key;
use store::{CreateOptions, NewMember, Store};
use vfs::{Caller, Time};

pub(crate) const SUITE: Suite = Suite::Xaes256Gcm;
pub(crate) const OWNER: Caller = Caller { uid: 0, gid: 0 };

pub(crate) struct BenchPool {
    pool: Pool,
    options: EngineOptions,
}

impl BenchPool {
    pub(crate) fn create(device: Arc<dyn BlockDevice>, options: EngineOptions) -> BenchPool {
        let create = CreateOptions {
            pool_guid: 1,
            device_guids: vec![1],
            created: 0,
            force: false,
        };
        let store = Arc::new(Store::create(vec![device], &create).expect("a store"));
        let top = NewDataset {
            kind: DatasetKind::FileSystem,
            guid: 2,
            suite: SUITE.id(),
            keyring: None,
            is_key_root: true,
            props: Default::default(),
        };
        let pool = Pool::create(Arc::clone(&store) as _, Arc::new(Now), "bench", top);
        store.commit_labels().expect("labels");
        BenchPool {
            pool: pool.expect("a pool"),
            options,
        }
    }

    pub(crate) fn import(device: Arc<dyn BlockDevice>, options: EngineOptions) -> BenchPool {
        let store = Arc::new(Store::open(vec![device]).expect("a store"));
        let pool = Pool::open(store, Arc::new(Now), false).expect("a pool");
        BenchPool { pool, options }
    }

    pub(crate) fn export(self) {
        self.pool.export().expect("nothing is open");
    }

    /// Opens the dataset.
    pub(crate) fn open(&self, settings: Settings) -> Arc<Dataset> {
        let engine = self.engine();
        let id = self.pool.top().expect("a dataset").id;
        let keys = Some(vec![keys()]);
        Dataset::open(&engine, &self.pool, id, keys, settings, &OWNER).expect("the dataset")
    }

    /// Gives the pool a cache device.
    pub(crate) fn add_cache(&self, device: Arc<dyn BlockDevice>) {
        let new = NewMember {
            device,
            guid: 8,
            created: 0,
            force: false,
        };
        self.pool
            .cache_devices()
            .add(&new, &origin())
            .expect("it is empty");
    }

    pub(crate) fn drain_caches(&self) {
        self.pool.cache_devices().drain();
    }

    /// Makes a dataset beside it, which is number `number`.
    pub(crate) fn make(&self, number: u64) -> u64 {
        let new = NewDataset {
            kind: DatasetKind::FileSystem,
            guid: 100 + number,
            suite: SUITE.id(),
            keyring: None,
            is_key_root: true,
            props: Default::default(),
        };
        let name = format!("bench/{number}");
        let made = self.pool.create_dataset(&name, new, &origin());
        made.expect("a dataset").id
    }

    /// Makes a dataset beside it, and opens that.
    pub(crate) fn dataset(&self, number: u64) -> Arc<Dataset> {
        let id = self.make(number);
        let (keys, settings) = (Some(vec![keys()]), Settings::default());
        let opened = Dataset::open(&self.engine(), &self.pool, id, keys, settings, &OWNER);
        opened.expect("the dataset")
    }

    pub(crate) fn commit(&self) {
        self.pool.commit().expect("a commit");
    }

    fn engine(&self) -> Arc<Engine> {
        let (random, clock) = (Arc::new(SystemRandom), Arc::new(Now));
        Engine::new(self.options, random, clock, || {})
    }

    /// Bytes that are taken.
    pub(crate) fn used(&self) -> u64 {
        let space = self.pool.space();
        space.total - space.free
    }
}

/// The same each time, as if unwrapped from a keyring.
fn keys() -> DataKeys {
    let random = SeededRandom::new(1);
    let key = KeyMaterial::Key(Key::from_bytes(&[1; 32]).expect("a key"));
    let params = Argon2Params::insecure_for_tests();
    let (_, wrapping) =
        WrappingKeyAccess::create(&key, &params, 0, &random).expect("a wrapping key");
    let made = KeyGeneration::create(&wrapping, 2, 1, 1, SUITE, 0, &random);
    made.expect("keys").1
}

fn origin() -> Origin {
    Origin {
        who: "bench".into(),
        text: "bench".into(),
        uid: None,
    }
}

/// Neither time nor names matter here.
struct Now;

impl Clock for Now {
    fn now(&self) -> Time {
        Time { secs: 0, nanos: 0 }
    }
}

impl Env for Now {
    fn now(&self) -> u64 {
        0
    }

    fn guid(&self) -> u64 {
        7
    }
}
