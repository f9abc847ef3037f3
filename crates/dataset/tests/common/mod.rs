//! A dataset on devices in memory, driven from a seed, beside a model of what it should hold.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod compare;
pub mod driver;
pub mod history;
pub mod look;
pub mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::BlockDevice;
pub use block::fault::Dice;
use block::fault::{FaultClock, FaultDevice, Journal, Survival, after_cut};
use cipher::{Random, SeededRandom, Suite};
use dataset::{Clock, Dataset, Engine, EngineOptions, Settings};
use keys::{Argon2Params, DataKeys, KeyGeneration, KeyMaterial, WrappingKeyAccess};
use pool::{DatasetKind, Env, NewDataset, Origin, Pool, VolumeShape};
use secret::Key;
use store::{CreateOptions, NewGroup, Store};
use vfs::{Caller, FileSystem, Ino, Kind, NewNode, ROOT, Time};

pub struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        let tick = self.0.fetch_add(1, Ordering::Relaxed);
        Time {
            secs: 1_700_000_000 + (tick / 1000) as i64,
            nanos: (tick % 1000) as u32 * 1000,
        }
    }
}

pub fn test_clock() -> Arc<dyn Clock> {
    Arc::new(TestClock(AtomicU64::new(0)))
}

pub struct TestEnv(SeededRandom, AtomicU64);

impl Env for TestEnv {
    fn now(&self) -> u64 {
        self.1.fetch_add(1, Ordering::Relaxed)
    }

    fn guid(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn has_threads(&self) -> bool {
        false
    }
}

pub fn env(seed: u64) -> Arc<TestEnv> {
    Arc::new(TestEnv(
        SeededRandom::new(seed),
        AtomicU64::new(1_700_000_000),
    ))
}

pub fn engine(seed: u64, threads: usize) -> Arc<Engine> {
    let options = EngineOptions {
        cache_bytes: 4 << 20,
        dirty_bytes: 4 << 20,
        seal_threads: threads,
    };
    let random = Arc::new(SeededRandom::new(seed));
    Engine::new(options, random, test_clock(), || {})
}

/// The same keys each time, as if unwrapped from a keyring.
pub fn data_keys(suite: Suite) -> Vec<DataKeys> {
    let random = SeededRandom::new(99);
    let material = KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap());
    let params = Argon2Params::insecure_for_tests();
    let (_, wrapping) = WrappingKeyAccess::create(&material, &params, 0, &random).unwrap();
    vec![
        KeyGeneration::create(&wrapping, 2, 1, 1, suite, 0, &random)
            .unwrap()
            .1,
    ]
}

pub fn origin() -> Origin {
    Origin {
        who: "test".into(),
        text: "test".into(),
        uid: None,
    }
}

pub const ROOT_USER: Caller = Caller { uid: 0, gid: 0 };

pub fn fault_device(size: usize, clock: &FaultClock) -> Arc<FaultDevice> {
    Arc::new(FaultDevice::new(size, clock))
}

pub fn create_pool(device: &Arc<FaultDevice>, suite: Option<Suite>) -> Pool {
    create_pool_of(std::slice::from_ref(device), 0, suite)
}

/// A pool of one group, with so many parity devices.
pub fn create_pool_of(devices: &[Arc<FaultDevice>], parity: usize, suite: Option<Suite>) -> Pool {
    create_pool_with_guid(1, devices, parity, suite)
}

pub fn create_pool_with_guid(
    pool_guid: u64,
    devices: &[Arc<FaultDevice>],
    parity: usize,
    suite: Option<Suite>,
) -> Pool {
    let devices = devices.iter();
    let devices = devices.map(|d| Arc::clone(d) as Arc<dyn BlockDevice>);
    create_pool_on(pool_guid, devices.collect(), parity, new_dataset(2, suite))
}

/// A pool of one group, whose first dataset this is.
pub fn create_pool_on(
    pool_guid: u64,
    devices: Vec<Arc<dyn BlockDevice>>,
    parity: usize,
    top: NewDataset,
) -> Pool {
    let options = CreateOptions {
        pool_guid,
        device_guids: (10..).take(devices.len()).collect(),
        created: 1,
        force: false,
    };
    let group = NewGroup { devices, parity };
    let store = Arc::new(Store::create_groups(vec![group], Vec::new(), &options).unwrap());
    let pool = Pool::create(Arc::clone(&store), env(1), "tank", top).unwrap();
    store.commit_labels().unwrap();
    pool
}

/// A dataset whose keys are no keyring's.
pub fn new_dataset(guid: u64, suite: Option<Suite>) -> NewDataset {
    NewDataset {
        kind: DatasetKind::FileSystem,
        guid,
        suite: suite.map_or(0, |suite| suite.id()),
        keyring: None,
        is_key_root: suite.is_some(),
        props: BTreeMap::new(),
    }
}

pub fn new_volume(suite: Option<Suite>, size: u64, block: u64) -> NewDataset {
    NewDataset {
        kind: DatasetKind::Volume,
        props: [VolumeShape::new(size, block as u32).unwrap().mark()].into(),
        ..new_dataset(4, suite)
    }
}

pub fn open_pool(device: Arc<FaultDevice>) -> pool::Result<Pool> {
    open_devices(vec![device as Arc<dyn BlockDevice>])
}

pub fn open_devices(devices: Vec<Arc<dyn BlockDevice>>) -> pool::Result<Pool> {
    Pool::open(Arc::new(Store::open(devices)?), env(3), false)
}

/// Opens the pool on a device after a power cut.
pub fn open_cut(journal: &Journal, cut: u64, survival: Survival) -> pool::Result<Pool> {
    open_pool(after_cut([journal], cut, survival).remove(0))
}

pub fn open_image(image: Vec<u8>) -> pool::Result<Pool> {
    open_pool(Arc::new(FaultDevice::from_bytes(image, &FaultClock::new())))
}

pub fn open_files(
    pool: &Pool,
    suite: Option<Suite>,
    settings: Settings,
    threads: usize,
) -> Arc<Dataset> {
    let id = pool.top().unwrap().id;
    let keys = suite.map(data_keys);
    Dataset::open(&engine(7, threads), pool, id, keys, settings, &ROOT_USER).unwrap()
}

include!("../../../pool/tests/common/seeds.rs");

pub fn snapshot(pool: &Pool, name: &str) {
    pool.snapshot(&[name.into()], false, &origin()).unwrap();
}

pub fn assert_clean(pool: &Pool) {
    let report = pool.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// A device with a pool, and its dataset, open.
pub fn opened(
    size: usize,
    suite: Option<Suite>,
    threads: usize,
) -> (Arc<FaultDevice>, Pool, Arc<Dataset>) {
    let device = fault_device(size, &FaultClock::new());
    let pool = create_pool(&device, suite);
    let files = open_files(&pool, suite, Settings::default(), threads);
    (device, pool, files)
}

/// Makes a file in the root, which nothing looks at then.
pub fn create_file(files: &Dataset, name: &str) -> vfs::Result<Ino> {
    let node = NewNode::new(Kind::File, 0o644);
    let attr = files.create(&ROOT_USER, ROOT, name.as_bytes(), &node)?;
    files.forget(attr.ino, 1);
    Ok(attr.ino)
}
