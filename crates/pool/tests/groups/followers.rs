//! An image of the pool follows its commits: at any moment it has the whole state of one of them.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::logs::*;
use crate::common::model::*;
use crate::common::pools::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice};
use block::{AtomicDevice, BlockDevice, MemoryDevice};
use pool::{ArrayKind, AtCheckpoint, LOG_HEADER, NewPool, OpenDataset, Pool, ReserveFor};
use store::{ErrorCounts, Store};

/// The pool has space for what is freed while a state is copied.
const SIZE: usize = 2 * DEVICE_SIZE;

type Hook = Box<dyn FnMut(&[u8]) + Send>;

/// A device in memory on which batches count as a whole.
struct BatchDevice {
    now: MemoryDevice,
    /// The bytes that a power cut leaves.
    counted: Mutex<Vec<u8>>,
    /// Called before each write, with these bytes.
    hook: Mutex<Option<Hook>>,
    /// The ranges that were overwritten, whether they had anything or not.
    overwritten: Mutex<Vec<Range<u64>>>,
    /// True if the next batch counts, and its end fails all the same.
    fails_at_end: AtomicBool,
}

impl BatchDevice {
    fn new() -> Arc<BatchDevice> {
        BatchDevice::from_bytes(vec![0; SIZE])
    }

    fn from_bytes(bytes: Vec<u8>) -> Arc<BatchDevice> {
        Arc::new(BatchDevice {
            now: MemoryDevice::from_bytes(bytes.clone()),
            counted: Mutex::new(bytes),
            hook: Mutex::default(),
            overwritten: Mutex::default(),
            fails_at_end: AtomicBool::new(false),
        })
    }

    fn counted(&self) -> Vec<u8> {
        self.counted.lock().unwrap().clone()
    }

    /// The device after a power cut.
    fn after_cut(&self) -> Arc<BatchDevice> {
        BatchDevice::from_bytes(self.counted())
    }

    /// Calls the hook once. It may use the device.
    fn call(&self) {
        let Some(mut hook) = self.hook.lock().unwrap().take() else {
            return;
        };
        hook(&self.counted());
        self.hook.lock().unwrap().get_or_insert(hook);
    }
}

impl BlockDevice for BatchDevice {
    block::delegate!(self => self.now; size refresh_size sector_sizes claim check_unreserved read_at write_durably_at
        write_in_place waits_on_write would_wait io_mode settle flush order drop_cached begin_anew zero zero_fast is_blank
        status_at);

    fn name(&self) -> String {
        "image".into()
    }

    fn write_at(&self, at: u64, data: &[IoSlice<'_>]) -> block::Result<()> {
        self.call();
        self.now.write_at(at, data)
    }

    fn overwrite(&self, at: u64, len: u64) -> block::Result<()> {
        self.overwritten.lock().unwrap().push(at..at + len);
        self.now.overwrite(at, len)
    }

    /// Leaves bytes on which no reader may rely.
    fn discard(&self, at: u64, len: u64) -> block::Result<()> {
        self.now
            .write_at(at, &[IoSlice::new(&vec![0xdb; len as usize])])
    }
}

impl AtomicDevice for BatchDevice {
    fn begin_batch(&self) -> block::Result<()> {
        Ok(())
    }

    fn end_batch(&self) -> block::Result<()> {
        self.call();
        *self.counted.lock().unwrap() = self.now.to_bytes();
        match self.fails_at_end.swap(false, Ordering::Relaxed) {
            false => Ok(()),
            true => Err(block::Error::Io {
                device: self.name(),
                operation: "end of a batch",
                offset: 0,
                len: 0,
                source: io::ErrorKind::PermissionDenied.into(),
            }),
        }
    }
}

fn devices(count: usize) -> Vec<Arc<FaultDevice>> {
    let clock = FaultClock::new();
    let device = |_| Arc::new(FaultDevice::new(SIZE, &clock));
    (0..count).map(device).collect()
}

fn attach(pool: &Pool, image: &Arc<BatchDevice>) {
    let image = Arc::clone(image);
    pool.follower().attach(image, 30, &origin()).unwrap();
}

fn connect(pool: &Pool, image: &Arc<BatchDevice>) {
    let image = Arc::clone(image);
    pool.follower().connect(image);
}

fn copy(pool: &Pool) -> pool::Result<bool> {
    pool.follower().copy(&|| false)
}

/// The contents of an image, imported without the pool.
#[track_caller]
fn state_of(bytes: &[u8]) -> Model {
    let pool = open_images(vec![bytes.to_vec()]).unwrap();
    assert_clean(&pool);
    assert_sound(&pool, "an image");
    let state = read_pool(&pool);
    // And it goes on from there.
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 7, 7).unwrap();
    pool.commit().unwrap();
    assert_clean(&pool);
    state
}

/// Follows a workload that goes on while states are copied, `pace` times before 100 writes. Imports the image at random
/// moments. Some copies end early.
fn follow(workload: Workload, seed: u64, pace: u64) {
    let (mut image, pool) = (BatchDevice::new(), workload.pool.clone());
    let workload = Arc::new(Mutex::new(workload));
    attach(&pool, &image);
    let mut dice = Dice(seed + 1000);
    let mut shown: Option<Model> = None;
    let mut copies = 0;
    for _ in 0..8 {
        let state = {
            let mut workload = workload.lock().unwrap();
            let steps = dice.below(30) as usize;
            workload.run(steps);
            normal(workload.model.clone())
        };
        let writes = dice.below(300);
        let is_cut = dice.below(10) < 3;
        let left = Arc::new(Mutex::new((writes, false)));
        let (writer, told, before) = (Arc::clone(&workload), Arc::clone(&left), shown.clone());
        let mut dice_of_hook = Dice(dice.below(u64::MAX));
        *image.hook.lock().unwrap() = Some(Box::new(move |counted| {
            let mut left = told.lock().unwrap();
            left.0 = left.0.saturating_sub(1);
            left.1 |= is_cut && left.0 == 0;
            drop(left);
            match (dice_of_hook.below(100), &before) {
                (below, _) if below < pace => writer.lock().unwrap().steps(2),
                (99, Some(state)) => assert_eq!(state_of(counted), *state, "seed {seed}"),
                _ => {}
            }
        }));
        let fails_at_end = dice.below(3) == 0;
        image.fails_at_end.store(fails_at_end, Ordering::Relaxed);
        let copied = pool.follower().copy(&|| left.lock().unwrap().1);
        *image.hook.lock().unwrap() = None;
        let counts = fails_at_end && !image.fails_at_end.swap(false, Ordering::Relaxed);
        match copied {
            Ok(is_copied) => {
                assert!(is_copied || shown.as_ref() == Some(&state), "seed {seed}");
                assert_eq!(state_of(&image.counted()), state, "seed {seed}");
                shown = Some(state);
                copies += 1;
            }
            Err(_) if counts => {
                assert_eq!(state_of(&image.counted()), state, "seed {seed}");
                shown = Some(state);
                copies += 1;
            }
            Err(error) => {
                let is_early =
                    left.lock().unwrap().1 || error.to_string().contains("programs need its space");
                assert!(is_early, "seed {seed}: {error}");
                if let Some(shown) = &shown {
                    assert_eq!(state_of(&image.counted()), *shown, "seed {seed}");
                }
            }
        }
        if dice.below(4) == 0 {
            image = image.after_cut();
            connect(&pool, &image);
        }
    }
    assert!(copies > 1, "seed {seed}");
    let workload = workload.lock().unwrap();
    workload.pool.commit().unwrap();
    assert_clean(&workload.pool);
    // Reads of space that was used again are no errors of devices.
    for device in workload.pool.devices() {
        assert_eq!(device.errors, ErrorCounts::default(), "seed {seed}");
    }
}

#[test]
fn at_any_moment_an_image_has_the_state_of_one_commit() {
    for seed in seeds(5, 2) {
        let devices = devices(1 + (seed % 2) as usize);
        let pool = create_mirrors(&devices, &[devices.len()]);
        follow(Workload::new(pool, seed), seed, 3);
    }
}

#[test]
fn an_image_of_records_in_pieces_has_their_maps() {
    for seed in seeds(1, 1) {
        let devices = devices(1);
        follow(Workload::on_fragments(create_on(&devices), seed), seed, 0);
    }
}

/// A pool with some records, and its image.
fn followed() -> (Vec<Arc<FaultDevice>>, Pool, Arc<BatchDevice>) {
    let devices = devices(1);
    let (pool, image) = (create_on(&devices), BatchDevice::new());
    attach(&pool, &image);
    write(&pool, 0);
    assert!(copy(&pool).unwrap());
    (devices, pool, image)
}

/// Writes records, and commits.
fn write(pool: &Pool, first: u64) {
    write_to(pool, &pool.open_dataset(1).unwrap(), first);
}

fn write_to(pool: &Pool, dataset: &OpenDataset, first: u64) {
    for number in first..first + 20 {
        put(
            pool,
            dataset,
            ArrayKind::Data,
            number % 30,
            sized(number, 16),
        )
        .unwrap();
    }
    pool.commit().unwrap();
}

#[test]
fn nothing_is_copied_to_an_image_that_has_the_newest_state() {
    let (_devices, pool, image) = followed();
    assert!(!copy(&pool).unwrap());
    let info = pool.follower().info().unwrap();
    assert_eq!(info.txg, Some(pool.committed_txg()));
    assert!(info.is_current);
    write(&pool, 20);
    assert!(!pool.follower().info().unwrap().is_current);
    assert!(copy(&pool).unwrap());
    assert_eq!(state_of(&image.counted()), read_pool(&pool));
}

#[test]
fn an_image_follows_after_an_import_of_the_pool() {
    let (devices, pool, image) = followed();
    drop(pool);
    for first in [20, 40] {
        let pool = open_on(&devices).unwrap();
        let again = image.after_cut();
        connect(&pool, &again);
        let before = pool.follower().info().unwrap().copied;
        write(&pool, first);
        assert!(copy(&pool).unwrap());
        assert_eq!(state_of(&again.counted()), read_pool(&pool));
        *image.counted.lock().unwrap() = again.counted();
        let copied = pool.follower().info().unwrap().copied - before;
        assert!(
            copied < 3 << 20,
            "only what is new is copied, and not {copied} bytes"
        );
    }
}

#[test]
fn an_image_with_another_history_is_left_as_it_is() {
    let (_devices, pool, image) = followed();
    // Another host imports the image, and writes to it.
    let changed = Arc::new(FaultDevice::from_bytes(image.counted(), &FaultClock::new()));
    write(&open_on(&[Arc::clone(&changed)]).unwrap(), 100);
    let changed = BatchDevice::from_bytes(changed.to_bytes());
    connect(&pool, &changed);
    write(&pool, 20);
    let before = changed.counted();
    assert!(matches!(copy(&pool), Err(pool::Error::OtherHistory { .. })));
    assert!(pool.follower().info().unwrap().problem.is_some());
    assert!(before == changed.counted());
    // The pool came back from an older copy of its disk.
    let (devices, pool, image) = followed();
    let older = copy_of(&devices[0]);
    write(&pool, 20);
    assert!(copy(&pool).unwrap());
    let pool = open_on(&[older]).unwrap();
    connect(&pool, &image.after_cut());
    write(&pool, 40);
    assert!(matches!(copy(&pool), Err(pool::Error::OtherHistory { .. })));
}

#[test]
fn an_image_of_a_pool_with_a_log_device_has_all_data() {
    let devices = devices(2);
    let (pool, image) = (create_on(&devices[..1]), BatchDevice::new());
    pool.log_devices()
        .add(&[new_member(&devices[1], 50)], &origin())
        .unwrap();
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    write_to(&pool, &dataset, 0);
    attach(&pool, &image);
    let state_of = |bytes: &[u8]| {
        let device = Arc::new(FaultDevice::from_bytes(bytes.to_vec(), &FaultClock::new()));
        let store = Store::open(vec![device]).unwrap();
        let (copied, _) = Pool::open_without_logs(Arc::new(store), TestEnv::new(3)).unwrap();
        assert_sound(&copied, "an image");
        read_all(&open_top(&copied), ArrayKind::Data).unwrap()
    };
    for first in [20, 40, 60] {
        // The log frees the chunks that it leaves.
        for slot in 0..4 {
            while append(&dataset, vec![1; 65536 - LOG_HEADER]).is_some() {}
            change(&pool, &dataset, slot);
            pool.commit().unwrap();
        }
        write_to(&pool, &dataset, first);
        assert!(copy(&pool).unwrap());
        let expected = read_all(&dataset, ArrayKind::Data).unwrap();
        assert_eq!(state_of(&image.counted()), expected);
    }
}

/// The header of a device of this size: a label, 32 superblocks, and 32 key blocks.
const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

#[test]
fn after_each_open_all_keys_are_overwritten() {
    let (_devices, pool, image) = followed();
    write(&pool, 20);
    // The state counts, and what was overwritten could not be removed.
    image.fails_at_end.store(true, Ordering::Relaxed);
    copy(&pool).unwrap_err();
    assert_eq!(state_of(&image.counted()), read_pool(&pool));
    for is_new in [false, true] {
        let image = match is_new {
            true => image.after_cut(),
            false => Arc::clone(&image),
        };
        image.overwritten.lock().unwrap().clear();
        if is_new {
            connect(&pool, &image);
        }
        assert!(!pool.follower().info().unwrap().is_current);
        assert!(copy(&pool).unwrap());
        assert!(pool.follower().info().unwrap().is_current);
        let overwritten = image.overwritten.lock().unwrap().clone();
        let [front, back] = &overwritten[..] else {
            panic!("both key areas as a whole, and not {overwritten:?}");
        };
        assert_eq!(*front, 33 * 4096..65 * 4096);
        assert_eq!(back.end - back.start, 32 * 4096);
        assert!(back.start >= SIZE as u64 - HEADER);
    }
    // From then on it is known which keys are there.
    image.overwritten.lock().unwrap().clear();
    write(&pool, 40);
    assert!(copy(&pool).unwrap());
    assert!(image.overwritten.lock().unwrap().is_empty());
}

#[test]
fn a_record_that_cannot_be_read_now_is_copied_later() {
    let (devices, pool, image) = followed();
    let before = read_pool(&pool);
    write(&pool, 20);
    let dataset = pool.open_dataset(1).unwrap();
    let addr = dataset.get(ArrayKind::Data, 25).unwrap().place.addr[0];
    drop(dataset);
    let segment = u64::from(addr.segment().index()) << 20;
    devices[0].inject(Fault::BadBytes {
        offset: HEADER + segment + u64::from(addr.offset()),
        len: 4096,
    });
    let error = copy(&pool).unwrap_err();
    assert!(matches!(error, pool::Error::Unreadable { .. }), "{error}");
    assert_eq!(state_of(&image.counted()), before);
    devices[0].heal();
    assert!(copy(&pool).unwrap());
    assert_eq!(state_of(&image.counted()), read_pool(&pool));
}

#[test]
fn damaged_records_are_counted_until_the_whole_pool_is_copied() {
    let (devices, pool, _image) = followed();
    let lost = || pool.follower().info().unwrap().lost;
    let dataset = pool.open_dataset(1).unwrap();
    write_to(&pool, &dataset, 20);
    let addr = dataset.get(ArrayKind::Data, 25).unwrap().place.addr[0];
    let segment = u64::from(addr.segment().index()) << 20;
    devices[0].flip(HEADER + segment + u64::from(addr.offset()) + 100, 1);
    assert!(copy(&pool).unwrap());
    assert_eq!(lost(), 1);
    // The next copy does not visit it.
    write_to(&pool, &dataset, 0);
    assert!(copy(&pool).unwrap());
    assert_eq!(lost(), 1);
    // An empty image gets everything. The record was written anew.
    write_to(&pool, &dataset, 20);
    connect(&pool, &BatchDevice::new());
    assert!(copy(&pool).unwrap());
    assert_eq!(lost(), 0);
}

#[test]
fn an_image_of_a_pool_with_a_checkpoint_has_none() {
    let (_devices, pool, image) = followed();
    pool.make_checkpoint(&origin()).unwrap();
    write(&pool, 20);
    assert!(copy(&pool).unwrap());
    let copied = open_images(vec![image.counted()]).unwrap();
    assert_eq!(copied.checkpoint_info(), None);
    assert_clean(&copied);
    assert_eq!(read_pool(&copied), read_pool(&pool));
}

#[test]
fn an_image_follows_a_pool_that_went_back_to_its_checkpoint() {
    let devices = devices(1);
    let (pool, image) = (create_on(&devices), BatchDevice::new());
    attach(&pool, &image);
    write(&pool, 0);
    pool.make_checkpoint(&origin()).unwrap();
    write(&pool, 20);
    write(&pool, 10);
    assert!(copy(&pool).unwrap());
    drop(pool);
    let store = Arc::new(Store::open(dynamic(&devices)).unwrap());
    let pool = Pool::open_at(store, TestEnv::new(3), false, AtCheckpoint::Rewind).unwrap();
    let image = image.after_cut();
    connect(&pool, &image);
    pool.commit().unwrap();
    assert!(copy(&pool).unwrap());
    assert_eq!(state_of(&image.counted()), read_pool(&pool));
}

#[test]
fn an_image_that_has_become_too_small_gets_nothing() {
    let (devices, pool, image) = followed();
    let before = image.counted();
    devices[0].resize(2 * SIZE);
    let guid = pool.devices()[0].guid;
    pool.expand_device(guid, &origin()).unwrap();
    write(&pool, 20);
    let writes = Arc::new(Mutex::new(0));
    let told = Arc::clone(&writes);
    *image.hook.lock().unwrap() = Some(Box::new(move |_| *told.lock().unwrap() += 1));
    let error = copy(&pool).unwrap_err().to_string();
    assert!(error.contains("attach an empty address"), "{error}");
    assert_eq!(*writes.lock().unwrap(), 0);
    assert!(before == image.counted());
}

#[test]
fn a_detached_image_gets_nothing() {
    let (_devices, pool, image) = followed();
    let before = image.counted();
    pool.follower().detach(&origin()).unwrap();
    write(&pool, 20);
    // Its device was opened late.
    connect(&pool, &image);
    assert!(!copy(&pool).unwrap());
    assert!(before == image.counted());
}

#[test]
fn an_image_belongs_to_one_pool_of_two() {
    let devices = devices(2);
    let (pool, image) = (create_mirrors(&devices, &[2]), BatchDevice::new());
    attach(&pool, &image);
    write(&pool, 0);
    assert!(copy(&pool).unwrap());
    let members = pool.split_members(&[]).unwrap();
    let new = NewPool {
        guid: NEW,
        name: "half",
    };
    assert!(pool.split(new, &members, &origin()).unwrap().is_none());
    let half = import(&pools(&devices)[&NEW]);
    assert_eq!(half.follower().info(), None);
    write(&pool, 20);
    assert!(copy(&pool).unwrap());
    assert_eq!(state_of(&image.counted()), read_pool(&pool));
}

#[test]
fn the_image_of_another_host_is_told_from_the_own_one() {
    let (_devices, pool, image) = followed();
    let check = |bytes: Vec<u8>| pool.follower().check_own(BatchDevice::from_bytes(bytes));
    check(vec![0; SIZE]).unwrap();
    check(image.counted()).unwrap();
    write(&pool, 20);
    check(image.counted()).unwrap();
    let imported = Arc::new(FaultDevice::from_bytes(image.counted(), &FaultClock::new()));
    write(&open_on(&[Arc::clone(&imported)]).unwrap(), 100);
    let error = check(imported.to_bytes()).unwrap_err();
    assert!(matches!(error, pool::Error::OtherHistory { .. }), "{error}");
}

#[test]
fn space_that_programs_need_is_not_kept_for_an_image() {
    let (_devices, pool, image) = followed();
    let before = state_of(&image.counted());
    let full = |pool: &Pool| {
        let dataset = pool.open_dataset(1).unwrap();
        let mut slots = 0;
        for round in 0..3 {
            for slot in 1000..4000 {
                let bytes = dataset.record_space(ArrayKind::Data, 16 * 4096);
                let Ok(_reserved) = pool.reserve(bytes, ReserveFor::Writing) else {
                    break;
                };
                put(
                    pool,
                    &dataset,
                    ArrayKind::Data,
                    slot,
                    sized(slot + round, 16),
                )
                .unwrap();
                slots += 1;
            }
            pool.commit().unwrap();
            for slot in 1000..4000 {
                punch(pool, &dataset, ArrayKind::Data, slot).unwrap();
            }
            pool.commit().unwrap();
        }
        slots
    };
    let alone = full(&pool);
    let (writer, wrote) = (pool.clone(), Arc::new(Mutex::new(None)));
    let told = Arc::clone(&wrote);
    write(&pool, 20);
    *image.hook.lock().unwrap() = Some(Box::new(move |_| {
        told.lock().unwrap().get_or_insert_with(|| full(&writer));
    }));
    let error = copy(&pool).unwrap_err().to_string();
    assert!(error.contains("programs need its space"), "{error}");
    let wrote = wrote.lock().unwrap().unwrap();
    assert!(
        wrote * 10 > alone * 9,
        "{wrote} records, and {alone} without an image"
    );
    assert_eq!(state_of(&image.counted()), before);
    *image.hook.lock().unwrap() = None;
    assert!(copy(&pool).unwrap());
    assert_eq!(state_of(&image.counted()), read_pool(&pool));
}
