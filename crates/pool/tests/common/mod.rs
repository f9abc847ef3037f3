//! A pool in memory, driven from a seed, beside a model of what it should hold.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod forgery;
pub mod logs;
pub mod model;
pub mod pools;
pub mod streams;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use block::BlockDevice;
// Not each program of tests cuts the power.
#[allow(unused_imports)]
pub use block::fault::{Dice, after_cut, copies};
use block::fault::{FaultClock, FaultDevice};
use pool::{
    ArrayKind, DatasetKind, DeviceState, Env, NewClone, NewDataset, OpenDataset, Origin, Pool,
    RecordIdentity, ReserveFor, Result,
};
use store::{CreateOptions, NewGroup, NewMember, Store};

pub const DEVICE_SIZE: usize = 12 << 20;

pub struct TestEnv {
    dice: Mutex<Dice>,
    time: AtomicU64,
}

impl TestEnv {
    pub fn new(seed: u64) -> Arc<TestEnv> {
        Arc::new(TestEnv {
            dice: Mutex::new(Dice(seed)),
            time: AtomicU64::new(1_700_000_000),
        })
    }
}

impl Env for TestEnv {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    fn guid(&self) -> u64 {
        self.dice.lock().unwrap().below(u64::MAX)
    }
}

pub fn origin() -> Origin {
    Origin {
        who: "test".into(),
        text: "test".into(),
        uid: None,
    }
}

pub fn new_dataset(guid: u64) -> NewDataset {
    NewDataset {
        kind: DatasetKind::FileSystem,
        guid,
        suite: 0,
        keyring: None,
        is_key_root: false,
        props: BTreeMap::new(),
    }
}

pub fn new_clone(guid: u64) -> NewClone {
    NewClone {
        guid,
        keyring: None,
        is_key_root: false,
        reseal: None,
        props: BTreeMap::new(),
        is_rekeyed: false,
        rotation: None,
    }
}

pub fn fault_devices(count: usize, clock: &FaultClock) -> Vec<Arc<FaultDevice>> {
    (0..count)
        .map(|_| Arc::new(FaultDevice::new(DEVICE_SIZE, clock)))
        .collect()
}

pub fn create_on(devices: &[Arc<FaultDevice>]) -> Pool {
    create_mirrors(devices, &vec![1; devices.len()])
}

pub fn open_devices(devices: Vec<Arc<dyn BlockDevice>>) -> Result<Pool> {
    Pool::open(Arc::new(Store::open(devices)?), TestEnv::new(3), false)
}

pub fn open_on(devices: &[Arc<FaultDevice>]) -> Result<Pool> {
    open_devices(dynamic(devices))
}

pub fn open_images(images: Vec<Vec<u8>>) -> Result<Pool> {
    let clock = FaultClock::new();
    open_devices(
        images
            .into_iter()
            .map(|image| Arc::new(FaultDevice::from_bytes(image, &clock)) as Arc<dyn BlockDevice>)
            .collect(),
    )
}

/// Exports a pool, and lets it go.
#[track_caller]
pub fn export(pool: Pool) {
    pool.export().unwrap();
}

/// The number of a record of so many units.
pub fn sized(number: u64, units: u64) -> u64 {
    units << 32 | number
}

/// A record whose contents are told by its number, and its length, unless that was chosen.
pub fn contents(number: u64) -> Vec<u8> {
    let units = match number >> 32 {
        0 => 1 + number % 5,
        units => units,
    };
    (0..units * 4096)
        .map(|i| (number.wrapping_mul(31).wrapping_add(i / 7)) as u8)
        .collect()
}

pub fn identity(number: u64) -> RecordIdentity {
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&number.to_le_bytes());
    RecordIdentity::record([0; 24], tag, 0, 0, 0, 4096)
}

/// Records of data whose numbers have this bit are shared with others of the same number.
pub const EQUAL: u64 = 1 << 24;

/// The nonce tells the contents.
pub fn identity_of_contents(number: u64) -> RecordIdentity {
    let mut dice = Dice(number);
    let nonce = [(); 24].map(|()| dice.below(256) as u8);
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&number.to_le_bytes());
    RecordIdentity::record(nonce, tag, 0, 0, 0, 4096)
}

pub fn put(
    pool: &Pool,
    dataset: &OpenDataset,
    array: ArrayKind,
    slot: u64,
    number: u64,
) -> Result<()> {
    let placed = match array {
        ArrayKind::Data if number & EQUAL > 0 => {
            dataset.place_shared(identity_of_contents(number), &contents(number))?
        }
        _ => dataset.place(array, identity(number), &contents(number))?,
    };
    let hold = pool.enter()?;
    dataset.put(&hold, array, slot, placed);
    Ok(())
}

/// Writes a record if there is space for it, committing once to make some.
pub fn put_reserved(
    pool: &Pool,
    dataset: &OpenDataset,
    array: ArrayKind,
    slot: u64,
    number: u64,
) -> Result<()> {
    let bytes = dataset.record_space(array, contents(number).len());
    let reserved = pool.reserve(bytes, ReserveFor::Writing);
    let _reserved = match reserved {
        Err(pool::Error::NoSpace) => {
            pool.commit().unwrap();
            pool.reserve(bytes, ReserveFor::Writing)?
        }
        reserved => reserved?,
    };
    put(pool, dataset, array, slot, number).unwrap();
    Ok(())
}

/// The slot of the first record that [`fragment`] leaves.
pub const FILLER: u64 = 1 << 20;

/// Fills a pool with records of one unit and takes every second away, so that there is no long run
/// of free units, and returns what is left.
pub fn fragment(pool: &Pool, dataset: &OpenDataset) -> BTreeMap<u64, u64> {
    let mut left = BTreeMap::new();
    for n in 0.. {
        let (slot, number) = (FILLER + n, sized(n, 1));
        // Into the space that is kept for frees, so that little of the pool is in long runs.
        let bytes = dataset.record_space(ArrayKind::Data, 4096);
        let Ok(_reserved) = pool.reserve(bytes, ReserveFor::Freeing) else {
            break;
        };
        put(pool, dataset, ArrayKind::Data, slot, number).unwrap();
        left.insert(slot, number);
    }
    pool.commit().unwrap();
    left.retain(|slot, _| {
        if slot % 2 == 1 {
            punch(pool, dataset, ArrayKind::Data, *slot).unwrap();
        }
        slot % 2 == 0
    });
    pool.commit().unwrap();
    left
}

pub fn punch(pool: &Pool, dataset: &OpenDataset, array: ArrayKind, slot: u64) -> Result<()> {
    let hold = pool.enter()?;
    dataset.punch(&hold, array, slot);
    Ok(())
}

/// Returns the contents of an array: the numbers of its records, verified.
pub fn read_all(dataset: &OpenDataset, array: ArrayKind) -> Result<BTreeMap<u64, u64>> {
    let mut all = BTreeMap::new();
    let mut from = 0;
    let mut buf = Vec::new();
    while let Some(slot) = dataset.next(array, from, u64::MAX)? {
        let ptr = dataset
            .read(array, slot, &mut buf, &mut |ptr, bytes| {
                dataset.is_undamaged(ptr, bytes)
            })?
            .expect("next() found it");
        let number = u64::from_le_bytes(ptr.identity.tag()[..8].try_into().unwrap());
        assert_eq!(buf, contents(number), "slot {slot}");
        all.insert(slot, number);
        from = slot + 1;
    }
    Ok(all)
}

include!("seeds.rs");

pub fn snapshot(pool: &Pool, name: &str) {
    pool.snapshot(&[name.into()], false, &origin()).unwrap();
}

pub fn assert_clean(pool: &Pool) {
    let report = pool.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert_eq!(pool.history_chain().unwrap().fault, None);
}

/// A pool with mirrors of the devices, as many in each as `widths` say.
pub fn create_mirrors(devices: &[Arc<FaultDevice>], widths: &[usize]) -> Pool {
    let groups: Vec<_> = widths.iter().map(|width| (*width, 0)).collect();
    create_groups(devices, &groups)
}

/// A pool with groups of so many devices, of which so many are parity. The rest are spares.
pub fn create_groups(devices: &[Arc<FaultDevice>], groups: &[(usize, usize)]) -> Pool {
    create_groups_on(dynamic(devices), groups)
}

pub fn create_groups_on(devices: Vec<Arc<dyn BlockDevice>>, groups: &[(usize, usize)]) -> Pool {
    let guids = (10..).take(devices.len()).collect();
    let mut rest = devices.into_iter();
    let group = |(width, parity): &(usize, usize)| NewGroup {
        devices: rest.by_ref().take(*width).collect(),
        parity: *parity,
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: guids,
        created: 1,
        force: false,
    };
    let store = Arc::new(Store::create_groups(groups, rest.collect(), &options).unwrap());
    let env = TestEnv::new(1);
    let pool = Pool::create(store.clone(), env, "tank", new_dataset(2)).unwrap();
    store.commit_labels().unwrap();
    pool
}

pub fn dynamic(devices: &[Arc<FaultDevice>]) -> Vec<Arc<dyn BlockDevice>> {
    let devices = devices.iter();
    devices
        .map(|d| Arc::clone(d) as Arc<dyn BlockDevice>)
        .collect()
}

pub fn new_member(device: &Arc<FaultDevice>, guid: u64) -> NewMember {
    NewMember {
        device: Arc::clone(device) as Arc<dyn BlockDevice>,
        guid,
        created: 2,
        force: true,
    }
}

pub fn states(pool: &Pool) -> Vec<DeviceState> {
    pool.devices().iter().map(|device| device.state).collect()
}

/// Resilvers to the end.
pub fn resilver(pool: &Pool) {
    while pool.resilverer().step(256 << 10).unwrap() {}
}

/// Scrubs to the end.
pub fn scrub_all(pool: &Pool) -> pool::ScrubStatus {
    pool.scrubber().start().unwrap();
    while pool.scrubber().step(u64::MAX).unwrap() {}
    pool.scrubber().status()
}

/// A scrub finds nothing wrong, and nothing to repair.
#[track_caller]
pub fn assert_sound(pool: &Pool, when: impl std::fmt::Display) {
    let status = scrub_all(pool);
    assert_eq!(
        (status.errors, status.repaired),
        (0, 0),
        "{when}: {status:?}"
    );
}

/// A device with the same bytes, on a clock of its own.
pub fn copy_of(device: &FaultDevice) -> Arc<FaultDevice> {
    Arc::new(device.copy(&FaultClock::new()))
}
