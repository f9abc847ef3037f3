//! Snapshots that nothing destroys before a time of the pool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use block::fault::{Dice, FaultClock, FaultDevice, Survival};
use pool::{AtCheckpoint, DeviceRetention, Env, Error, Pool, PoolState, Reach};
use store::Store;

const DAY: u64 = 86_400;
const BEGIN: u64 = 1_800_000_000;

/// The clock of a machine, which root sets, and the time that really passes.
struct Machine {
    clock: AtomicU64,
    passed: AtomicU64,
    dice: Mutex<Dice>,
}

impl Machine {
    fn new() -> Arc<Machine> {
        Arc::new(Machine {
            clock: AtomicU64::new(BEGIN),
            passed: AtomicU64::new(0),
            dice: Mutex::new(Dice(9)),
        })
    }

    fn pass(&self, secs: u64) {
        self.clock.fetch_add(secs, Ordering::Relaxed);
        self.passed.fetch_add(secs, Ordering::Relaxed);
    }

    fn set(&self, time: u64) {
        self.clock.store(time, Ordering::Relaxed);
    }
}

impl Env for Machine {
    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn lease_clock(&self) -> Duration {
        Duration::from_secs(self.passed.load(Ordering::Relaxed))
    }

    fn guid(&self) -> u64 {
        self.dice.lock().unwrap().below(u64::MAX)
    }
}

fn import_at(
    devices: &[Arc<FaultDevice>],
    machine: &Arc<Machine>,
    at: AtCheckpoint,
) -> pool::Result<Pool> {
    let store = Arc::new(Store::open(dynamic(devices))?);
    let env: Arc<dyn Env> = Arc::clone(machine) as Arc<dyn Env>;
    Pool::open_at(store, env, false, at)
}

fn import(devices: &[Arc<FaultDevice>], machine: &Arc<Machine>) -> Pool {
    let pool = import_at(devices, machine, AtCheckpoint::Keep).unwrap();
    pool.claim("host").unwrap();
    pool
}

/// `tank/a` with the snapshots `@1` to `@3`, on a machine whose clock is right.
fn pool(clock: &FaultClock) -> (Vec<Arc<FaultDevice>>, Arc<Machine>, Pool) {
    let devices = fault_devices(1, clock);
    let made = create_on(&devices);
    made.create_dataset("tank/a", new_dataset(100), &origin())
        .unwrap();
    for name in ["tank/a@1", "tank/a@2", "tank/a@3", "tank@2"] {
        snapshot(&made, name);
    }
    export(made);
    let machine = Machine::new();
    let pool = import(&devices, &machine);
    (devices, machine, pool)
}

fn retain(pool: &Pool, name: &str, until: u64) -> pool::Result<()> {
    pool.hold_until(&[name.into()], ("keep", until), false, &origin())
}

fn release(pool: &Pool, name: &str) -> pool::Result<()> {
    pool.release(&[name.into()], "keep", false, &origin())
}

#[track_caller]
fn assert_retained<T: std::fmt::Debug>(result: pool::Result<T>) {
    assert!(matches!(result, Err(Error::Retained { .. })), "{result:?}");
}

/// Every operation that could destroy `tank/a@2`, its dataset or the pool.
fn attack(pool: &Pool) {
    let by = &origin();
    for (name, reach) in [
        ("tank/a@2", Reach::Named),
        ("tank/a@%", Reach::Clones),
        ("tank@2", Reach::Below),
        ("tank/a", Reach::Below),
        ("tank/a", Reach::Clones),
    ] {
        assert_retained(pool.destroy_dataset(name, reach, by));
        assert_retained(pool.doomed(name, reach));
    }
    assert_retained(pool.destroy_or_defer("tank/a@2", false, by));
    assert_retained(pool.destroy_or_defer("tank@2", true, by));
    assert_retained(pool.rollback("tank/a@1", Reach::Below, by));
    assert_retained(pool.rollback("tank/a@1", Reach::Clones, by));
    assert_retained(release(pool, "tank/a@2"));
    assert_retained(retain(pool, "tank/a@2", BEGIN + 10 * DAY - 1));
    assert_retained(pool.destroy());
    let entry = pool.find("tank/a@2").unwrap();
    assert!(pool.prune(&[entry], by).unwrap().is_empty());
    pool.destroy_due().unwrap();
    assert!(pool.find("tank/a@2").is_ok());
    assert_eq!(pool.superblock().state, PoolState::Active);
}

#[test]
fn nothing_destroys_it_before_its_end() {
    let (devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + 10 * DAY).unwrap();
    assert_eq!(pool.retained_until(), Some(BEGIN + 10 * DAY));
    attack(&pool);
    // A second tag without an end changes nothing, and is released.
    pool.hold(&["tank/a@2".into()], "also", false, &origin())
        .unwrap();
    attack(&pool);
    pool.release(&["tank/a@2".into()], "also", false, &origin())
        .unwrap();
    machine.pass(9 * DAY);
    attack(&pool);

    // Other snapshots are not concerned.
    pool.destroy_dataset("tank/a@3", false, &origin()).unwrap();
    export(pool);
    let pool = import(&devices, &machine);
    attack(&pool);

    machine.pass(DAY);
    assert_eq!(pool.retained_until(), None);
    // It is over: the hold keeps nothing, and can be released.
    let entry = pool.find("tank/a@2").unwrap();
    assert_eq!(pool.prunable(&[entry]).len(), 1);
    release(&pool, "tank/a@2").unwrap();
    pool.destroy_dataset("tank/a", Reach::Below, &origin())
        .unwrap();
    model::settle(&pool);
    assert_clean(&pool);
    pool.destroy().unwrap();
}

#[test]
fn a_hold_that_has_ended_keeps_nothing() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + DAY).unwrap();
    machine.pass(DAY);
    assert_eq!(pool.holds(&["tank/a@2".into()], false).unwrap().len(), 1);
    pool.destroy_dataset("tank/a@2", false, &origin()).unwrap();
    retain(&pool, "tank/a@1", BEGIN + 2 * DAY).unwrap();
    machine.pass(DAY);
    let gone = pool.destroy_or_defer("tank/a@1", false, &origin()).unwrap();
    assert_eq!(gone, ["tank/a@1"]);
}

#[test]
fn its_end_is_only_moved_away() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    let until = |pool: &Pool| pool.find("tank/a@2").unwrap().retained_until();
    // In the past, and too far away.
    for bad in [0, BEGIN, BEGIN + 31 * 366 * DAY, u64::MAX] {
        let refused = retain(&pool, "tank/a@2", bad);
        assert!(matches!(refused, Err(Error::Refused { .. })), "{bad}");
        assert_eq!(pool.retained_until(), None);
    }
    retain(&pool, "tank/a@2", BEGIN + 5 * DAY).unwrap();
    retain(&pool, "tank/a@2", BEGIN + 5 * DAY).unwrap();
    retain(&pool, "tank/a@2", BEGIN + 7 * DAY).unwrap();
    assert_retained(retain(&pool, "tank/a@2", BEGIN + 6 * DAY));
    assert_eq!(until(&pool), BEGIN + 7 * DAY);
    // A tag without an end does not replace it, nor the other way round.
    let exists = pool.hold(&["tank/a@2".into()], "keep", false, &origin());
    assert!(matches!(exists, Err(Error::Exists { .. })));
    pool.hold(&["tank/a@1".into()], "keep", false, &origin())
        .unwrap();
    let exists = retain(&pool, "tank/a@1", BEGIN + 7 * DAY);
    assert!(matches!(exists, Err(Error::Exists { .. })));
    // All or none.
    let names = ["tank/a@3".to_owned(), "tank/a@2".to_owned()];
    let both = |until| pool.hold_until(&names, ("keep", until), false, &origin());
    assert_retained(both(BEGIN + 6 * DAY));
    assert_eq!(pool.find("tank/a@3").unwrap().retained_until(), 0);
    both(BEGIN + 8 * DAY).unwrap();
    machine.pass(8 * DAY);
    both(BEGIN + 9 * DAY).unwrap();
    assert_eq!(until(&pool), BEGIN + 9 * DAY);
}

/// The attack: a clock that is set forward, kept over imports, and set in steps.
#[test]
fn a_clock_that_is_set_forward_ends_nothing() {
    let (devices, machine, mut pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + 10 * DAY).unwrap();
    machine.set(BEGIN + 3_650 * DAY);
    attack(&pool);
    for _ in 0..5 {
        export(pool);
        pool = import(&devices, &machine);
        machine.pass(DAY / 2);
        attack(&pool);
        machine.set(machine.now() + 100 * DAY);
        attack(&pool);
    }
    // It is believed for twice the time that really passed: two and a half days.
    assert_eq!(pool.time(), BEGIN + 5 * DAY);
    // Set back, it goes on with the time that really passes.
    machine.set(5);
    pool.commit().unwrap();
    assert_eq!(pool.time(), BEGIN + 5 * DAY);
    attack(&pool);
    export(pool);
    let pool = import(&devices, &machine);
    machine.pass(DAY);
    assert_eq!(pool.time(), BEGIN + 6 * DAY);
}

/// A clock that is right after all is believed once the pool was imported for as long as it was away.
#[test]
fn a_pool_that_was_away_catches_up() {
    let (devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + 10 * DAY).unwrap();
    export(pool);
    machine.set(BEGIN + 8 * DAY);
    let pool = import(&devices, &machine);
    assert_eq!(pool.time(), BEGIN);
    machine.pass(4 * DAY);
    assert_eq!(pool.time(), BEGIN + 8 * DAY);
    attack(&pool);
    machine.pass(4 * DAY);
    assert_eq!(pool.time(), BEGIN + 16 * DAY);
    release(&pool, "tank/a@2").unwrap();
}

#[test]
fn the_retention_moves_with_a_promotion_and_a_new_name() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + 10 * DAY).unwrap();
    pool.clone_snapshot("tank/a@3", "tank/b", new_clone(101), &origin())
        .unwrap();
    pool.promote("tank/b", None, &origin()).unwrap();
    pool.rename_snapshots("tank/b@2", "@two", &origin())
        .unwrap();
    pool.rename("tank/b", "tank/c", &origin()).unwrap();
    pool.rename_pool("lake", &origin()).unwrap();
    let destroy = |name: &str, reach| pool.destroy_dataset(name, reach, &origin());
    // The dataset that had it before can go.
    destroy("lake/a", Reach::Named).unwrap();
    assert_retained(destroy("lake/c@two", Reach::Named));
    assert_retained(destroy("lake/c", Reach::Clones));
    assert_retained(pool.destroy());
    machine.pass(10 * DAY);
    destroy("lake/c", Reach::Below).unwrap();
}

#[test]
fn one_that_was_to_be_destroyed_stays_until_its_end() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    pool.hold(&["tank/a@2".into()], "also", false, &origin())
        .unwrap();
    pool.destroy_or_defer("tank/a@2", false, &origin()).unwrap();
    retain(&pool, "tank/a@2", BEGIN + 10 * DAY).unwrap();
    let names = ["tank/a@2".to_owned()];
    assert!(
        pool.freed_by_release(&names, "also", false)
            .unwrap()
            .is_empty()
    );
    pool.release(&names, "also", false, &origin()).unwrap();
    attack(&pool);
    machine.pass(10 * DAY);
    pool.destroy_due().unwrap();
    assert!(pool.find("tank/a@2").is_err());
}

#[test]
fn a_rewind_does_not_lose_it() {
    let (devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@1", BEGIN + 5 * DAY).unwrap();
    pool.make_checkpoint(&origin()).unwrap();
    // Another end, and another snapshot.
    retain(&pool, "tank/a@1", BEGIN + 6 * DAY).unwrap();
    snapshot(&pool, "tank/a@4");
    retain(&pool, "tank/a@4", BEGIN + 10 * DAY).unwrap();
    export(pool);
    let rewind = || import_at(&devices, &machine, AtCheckpoint::Rewind);
    assert_retained(rewind().map(drop));
    machine.set(BEGIN + 3_650 * DAY);
    assert_retained(rewind().map(drop));
    // The refusals changed nothing.
    let pool = import(&devices, &machine);
    assert!(pool.find("tank/a@4").is_ok() && pool.checkpoint_info().is_some());
    // Twice the time that passes.
    machine.pass(5 * DAY);
    export(pool);
    let pool = rewind().unwrap();
    assert!(pool.find("tank/a@4").is_err());
    assert_eq!(pool.time(), BEGIN + 10 * DAY);
}

/// With the retained snapshots in the checkpoint too, nothing is lost.
#[test]
fn a_rewind_keeps_the_time() {
    let (devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@1", BEGIN + 5 * DAY).unwrap();
    pool.make_checkpoint(&origin()).unwrap();
    machine.pass(DAY);
    snapshot(&pool, "tank/a@4");
    export(pool);
    let pool = import_at(&devices, &machine, AtCheckpoint::Rewind).unwrap();
    assert_eq!(pool.time(), BEGIN + DAY);
    assert_retained(pool.destroy_dataset("tank/a@1", false, &origin()));
    assert_clean(&pool);
}

/// A power cut at any write leaves the hold and its end, or the state before.
#[test]
fn a_power_cut_leaves_one_state_or_the_next() {
    let clock = FaultClock::new();
    let (devices, machine, pool) = pool(&clock);
    let state = |pool: &Pool| {
        let ends = pool.snapshots(pool.find("tank/a").unwrap().id).unwrap();
        let ends: BTreeMap<String, u64> = ends
            .iter()
            .map(|entry| (entry.name.clone(), entry.retained_until()))
            .collect();
        (ends, pool.superblock().pool_time, pool.retained_until())
    };
    devices[0].take_journal();
    let mut states = vec![(clock.now(), state(&pool))];
    retain(&pool, "tank/a@2", BEGIN + 2 * DAY).unwrap();
    states.push((clock.now(), state(&pool)));
    machine.pass(DAY);
    retain(&pool, "tank/a@2", BEGIN + 3 * DAY).unwrap();
    states.push((clock.now(), state(&pool)));
    machine.pass(2 * DAY);
    release(&pool, "tank/a@2").unwrap();
    states.push((clock.now(), state(&pool)));
    let journal = devices[0].take_journal();
    for cut in states[0].0..=clock.now() {
        for survival in [Survival::None, Survival::All, Survival::Seeded(cut)] {
            let image = journal.image(cut, survival);
            let device = Arc::new(FaultDevice::from_bytes(image, &FaultClock::new()));
            let pool = import(&[device], &machine);
            let last = states.iter().rposition(|(time, _)| *time <= cut).unwrap();
            let allowed = &states[last..(last + 2).min(states.len())];
            let found = state(&pool);
            assert!(
                allowed.iter().any(|(_, state)| *state == found),
                "cut {cut}: {found:?}"
            );
            assert_clean(&pool);
        }
    }
}

/// A flipped bit in the newest superblock leaves the one before, which is retained too.
#[test]
fn a_flipped_bit_ends_nothing() {
    let (devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + 10 * DAY).unwrap();
    machine.pass(DAY);
    snapshot(&pool, "tank/a@4");
    drop(pool);
    let whole = devices[0].to_bytes();
    // The value of the hold, and the fields of the root.
    let end = (BEGIN + 10 * DAY).to_string();
    let texts = places(&whole, end.as_bytes());
    let fields = places(&whole, &(BEGIN + 10 * DAY).to_le_bytes());
    let times = places(&whole, &(BEGIN + DAY).to_le_bytes());
    assert!(!texts.is_empty() && !fields.is_empty() && !times.is_empty());
    for at in [texts, fields, times].concat() {
        let mut image = whole.clone();
        image[at] ^= 1;
        let device = Arc::new(FaultDevice::from_bytes(image, &FaultClock::new()));
        let store = Store::open(dynamic(&[device])).map(Arc::new);
        let env: Arc<dyn Env> = Arc::clone(&machine) as Arc<dyn Env>;
        let opened = store
            .map_err(Error::from)
            .and_then(|store| Pool::open(store, env, false));
        // It is refused as damaged, or it has the retention.
        if let Ok(pool) = opened {
            assert_retained(pool.destroy_dataset("tank/a@2", false, &origin()));
            assert_retained(pool.destroy());
        }
    }
}

fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(wanted.len()).enumerate();
    windows
        .filter(|(_, window)| *window == wanted)
        .map(|(at, _)| at)
        .collect()
}

fn set(pool: &Pool, name: &str, value: Option<&str>) {
    let change = ("retention".to_owned(), value.map(str::to_owned));
    pool.set_props(&[name.into()], &[change], &origin())
        .unwrap();
}

fn end_of(pool: &Pool, name: &str) -> u64 {
    pool.find(name).unwrap().retained_until()
}

#[test]
fn the_property_retains_later_snapshots() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    set(&pool, "tank", Some("10d"));
    snapshot(&pool, "tank/a@4");
    assert_eq!(end_of(&pool, "tank/a@4"), BEGIN + 10 * DAY);
    assert_eq!(end_of(&pool, "tank/a@3"), 0);
    let holds = pool.holds(&["tank/a@4".into()], false).unwrap();
    assert_eq!(holds[0].tag, "retention");
    // A lower value, and none, are for later ones only.
    set(&pool, "tank/a", Some("1d"));
    snapshot(&pool, "tank/a@5");
    assert_eq!(end_of(&pool, "tank/a@5"), BEGIN + DAY);
    set(&pool, "tank/a", Some("off"));
    snapshot(&pool, "tank/a@6");
    assert_eq!(end_of(&pool, "tank/a@6"), 0);
    set(&pool, "tank/a", None);
    set(&pool, "tank", None);
    assert_retained(pool.destroy_dataset("tank/a@4", false, &origin()));
    assert_retained(pool.destroy_dataset("tank/a@5", false, &origin()));
    // A schedule prunes the others, and says nothing about these.
    let id = pool.find("tank/a").unwrap().id;
    let all = pool.snapshots(id).unwrap();
    let gone = pool.prune(&all, &origin()).unwrap();
    assert_eq!(gone.len(), 4);
    machine.pass(DAY);
    let all = pool.snapshots(id).unwrap();
    assert_eq!(pool.prune(&all, &origin()).unwrap(), ["tank/a@5"]);
}

/// A machine without a battery starts in 1970.
#[test]
fn the_first_retention_does_not_begin_long_ago() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    pool.commit().unwrap();
    set(&pool, "tank/a", Some("1d"));
    machine.set(5);
    snapshot(&pool, "tank/a@4");
    assert_eq!(end_of(&pool, "tank/a@4"), BEGIN + DAY);
    assert_eq!(pool.time(), BEGIN);
    machine.pass(DAY);
    pool.destroy_dataset("tank/a@4", false, &origin()).unwrap();
}

/// The pool catches up while the snapshot is retained. It is retained for all of the time all the same.
#[test]
fn a_pool_that_catches_up_retains_for_as_long() {
    for away in [DAY / 2, 5 * DAY, 100 * DAY] {
        let (devices, machine, pool) = pool(&FaultClock::new());
        retain(&pool, "tank/a@1", BEGIN + DAY).unwrap();
        export(pool);
        machine.set(BEGIN + away);
        let pool = import(&devices, &machine);
        set(&pool, "tank", Some("4d"));
        snapshot(&pool, "tank/a@4");
        machine.pass(4 * DAY - 1);
        assert_retained(pool.destroy_dataset("tank/a@4", false, &origin()));
        machine.pass(1);
        pool.destroy_dataset("tank/a@4", false, &origin()).unwrap();
    }
}

/// The retention that the newest superblock of a device shows.
fn shown_on(device: &Arc<FaultDevice>) -> DeviceRetention {
    let store = Store::open(dynamic(std::slice::from_ref(device))).unwrap();
    let (txg, payload) = &store.superblocks().unwrap()[0];
    DeviceRetention::read(*txg, payload).unwrap()
}

/// An end that is counted from the clock of the machine would come early in a pool that is ahead.
#[test]
fn a_pool_that_is_ahead_takes_no_end() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@1", BEGIN + DAY).unwrap();
    machine.set(BEGIN - DAY);
    retain(&pool, "tank/a@2", BEGIN + 5 * DAY).unwrap();
    machine.set(BEGIN - DAY - 1);
    let refused = retain(&pool, "tank/a@3", BEGIN + 5 * DAY).unwrap_err();
    let said = refused.to_string();
    assert!(matches!(refused, Error::Refused { .. }), "{said}");
    assert!(said.contains("the time of the pool is 2027-01-15 08:00 UTC"));
    assert!(said.contains("that of this machine 2027-01-14 07:59 UTC"));
}

/// Neither a date nor the property retains anything for more than 30 years of the pool.
#[test]
fn a_clock_that_is_set_forward_retains_no_longer() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@1", BEGIN + DAY).unwrap();
    machine.set(BEGIN + 3_650 * DAY);
    let most = BEGIN + 30 * 366 * DAY;
    let refused = retain(&pool, "tank/a@2", most + 1);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    set(&pool, "tank/a", Some("30y"));
    snapshot(&pool, "tank/a@new");
    assert_eq!(pool.retained_until(), Some(most));
    retain(&pool, "tank/a@2", most).unwrap();
}

#[test]
fn a_hold_replaces_one_that_has_ended() {
    let (_devices, machine, pool) = pool(&FaultClock::new());
    retain(&pool, "tank/a@2", BEGIN + DAY).unwrap();
    machine.pass(DAY);
    let names = ["tank/a@2".to_owned()];
    pool.hold(&names, "keep", false, &origin()).unwrap();
    let [hold] = &pool.holds(&names, false).unwrap()[..] else {
        panic!("not one hold");
    };
    assert_eq!((hold.until, hold.time), (None, BEGIN + DAY));
    assert!(matches!(
        pool.destroy_dataset("tank/a@2", false, &origin()),
        Err(Error::Held { .. })
    ));
}

/// A later program may know other lengths. A snapshot without retention would be worse than none.
#[test]
fn a_length_that_cannot_be_read_refuses_the_snapshot() {
    let (_devices, _machine, pool) = pool(&FaultClock::new());
    set(&pool, "tank/a", Some("3fortnights"));
    let refused = pool.snapshot(&["tank/a@new".into()], false, &origin());
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert!(pool.find("tank/a@new").is_err());
    set(&pool, "tank/a", Some("off"));
    snapshot(&pool, "tank/a@new");
}

/// The attack: a copy from before the retention is imported and lets its other device go. That the copy knows the device
/// does not say that the retained snapshot is anywhere else.
#[test]
fn a_copy_does_not_prove_that_the_pool_went_on() {
    let machine = Machine::new();
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    export(create_mirrors(&devices, &[2]));
    let copy = copy_of(&devices[0]);
    let pool = import(&devices, &machine);
    snapshot(&pool, "tank@1");
    retain(&pool, "tank@1", BEGIN + 10 * DAY).unwrap();
    export(pool);
    let retained = shown_on(&devices[1]);
    assert_retained(retained.check_ended("b"));

    let forged = import(&[copy], &machine);
    snapshot(&forged, "tank@1");
    retain(&forged, "tank@1", BEGIN + 20 * DAY).unwrap();
    assert!(!forged.went_on_from(&retained));
    // The pool itself did.
    let pool = import(&devices[..1], &machine);
    assert!(pool.went_on_from(&retained));
}
