//! A checkpoint keeps the whole pool as it was, until it is discarded.

use std::sync::Arc;

use crate::common::logs::{append, change, entry, open_top};
use crate::common::model::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, AtCheckpoint, Pool, ReserveFor};
use store::Store;

fn open_at(devices: &[Arc<FaultDevice>], at: AtCheckpoint) -> pool::Result<Pool> {
    let store = Store::open(dynamic(devices))?;
    Pool::open_at(Arc::new(store), TestEnv::new(5), false, at)
}

fn rewind(devices: &[Arc<FaultDevice>]) -> Pool {
    open_at(devices, AtCheckpoint::Rewind).unwrap()
}

/// The pool on these devices as a program finds it that only reads the checkpoint.
fn read_checkpoint(devices: &[Arc<FaultDevice>]) -> Pool {
    let store = Store::open(dynamic(devices)).unwrap();
    Pool::open_at(Arc::new(store), TestEnv::new(5), true, AtCheckpoint::Rewind).unwrap()
}

const SHAPES: [&[(usize, usize)]; 5] = [
    &[(1, 0)],
    &[(2, 0)],
    &[(3, 1)],
    &[(1, 0), (1, 0)],
    &[(4, 2), (1, 0)],
];

fn workload(shape: &[(usize, usize)], seed: u64) -> (Vec<Arc<FaultDevice>>, FaultClock, Workload) {
    let clock = FaultClock::new();
    let devices = fault_devices(shape.iter().map(|(width, _)| width).sum(), &clock);
    let workload = Workload::new(create_groups(&devices, shape), seed);
    (devices, clock, workload)
}

fn used(pool: &Pool) -> u64 {
    let space = pool.space();
    space.total - space.free
}

#[test]
fn a_rewind_gives_back_the_state_of_one_commit() {
    for seed in seeds(1, 5) {
        let shape = SHAPES[seed as usize % SHAPES.len()];
        let (devices, _, mut workload) = workload(shape, seed);
        workload.steps(60);
        workload.make_checkpoint(&origin()).unwrap();
        let kept = normal(workload.model.clone());
        // Imports in between keep it.
        for _ in 0..3 {
            workload.run(40);
            assert_clean(&workload);
            workload.reopened(|| open_on(&devices).unwrap());
            assert!(workload.checkpoint_info().is_some(), "seed {seed}");
        }
        let (pool, now) = workload.close();
        assert_sound(&pool, seed);
        let last = pool.superblock();
        let newest = pool.create_dataset("tank/new", new_dataset(999), &origin());
        let newest = newest.unwrap().id;
        pool.destroy_dataset("tank/new", true, &origin()).unwrap();
        drop(pool);
        let pool = read_checkpoint(&devices);
        assert_eq!(read_pool(&pool), kept, "seed {seed}, read-only");
        drop(pool);
        let pool = open_on(&devices).unwrap();
        assert_eq!(read_pool(&pool), normal(now), "seed {seed}, not rewound");
        drop(pool);

        let pool = rewind(&devices);
        assert_eq!(read_pool(&pool), kept, "seed {seed}");
        assert_clean(&pool);
        assert_sound(&pool, seed);
        assert!(pool.checkpoint_info().is_none());
        let root = pool.superblock();
        assert!(root.txg > last.txg, "no transaction group comes twice");
        let made = pool.create_dataset("tank/new", new_dataset(999), &origin());
        assert!(made.unwrap().id > newest, "no id comes twice");
        // It goes on from there, and can have another one.
        let dataset = pool.open_dataset(1).unwrap();
        put(&pool, &dataset, ArrayKind::Data, 7, 7).unwrap();
        pool.make_checkpoint(&origin()).unwrap();
        put(&pool, &dataset, ArrayKind::Data, 7, 8).unwrap();
        settle(&pool);
        drop(dataset);
        pool.discard_checkpoint(&origin()).unwrap();
        settle(&pool);
        assert_clean(&pool);
        export(pool);
        assert_clean(&open_on(&devices).unwrap());
    }
}

#[test]
fn without_changes_it_takes_nothing_and_its_end_gives_all_back() {
    let (devices, _, mut workload) = workload(&[(1, 0)], 3);
    workload.run(60);
    let (pool, _) = workload.close();
    settle(&pool);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..20 {
        put(&pool, &dataset, ArrayKind::Data, 500 + slot, sized(slot, 8)).unwrap();
    }
    settle(&pool);
    let before = used(&pool);
    pool.make_checkpoint(&origin()).unwrap();
    assert!(used(&pool) - before < 200 << 10);
    let info = pool.checkpoint_info().unwrap();
    assert!(info.bytes < 200 << 10, "{info:?}");
    for slot in 0..20 {
        punch(&pool, &dataset, ArrayKind::Data, 500 + slot).unwrap();
    }
    settle(&pool);
    let info = pool.checkpoint_info().unwrap();
    assert!(info.bytes >= 20 * 8 * 4096, "{info:?}");
    assert!(used(&pool) >= before);
    // An import counts the same.
    drop((dataset, pool));
    let pool = open_on(&devices).unwrap();
    assert_eq!(pool.checkpoint_info().unwrap().bytes, info.bytes);
    assert!(pool.make_checkpoint(&origin()).is_err(), "one at a time");
    pool.discard_checkpoint(&origin()).unwrap();
    assert!(used(&pool) <= before - 20 * 8 * 4096 + (200 << 10));
    assert!(pool.discard_checkpoint(&origin()).is_err(), "there is none");
    assert_clean(&pool);
}

#[test]
fn a_full_pool_can_discard_it() {
    let (devices, _, workload) = workload(&[(1, 0)], 3);
    let (pool, _) = workload.close();
    let dataset = pool.open_dataset(1).unwrap();
    let mut kept = 0;
    while put_reserved(&pool, &dataset, ArrayKind::Data, kept, sized(kept, 4)).is_ok() {
        kept += 1;
        if kept == 100 {
            pool.make_checkpoint(&origin()).unwrap();
        }
    }
    assert!(kept > 200);
    pool.commit().unwrap();
    // Deletes free nothing that the checkpoint has. They work as long as there is space for them.
    for slot in 0..100 {
        let bytes = dataset.record_space(ArrayKind::Data, 0);
        let Ok(_reserved) = pool.reserve(bytes, ReserveFor::Freeing) else {
            break;
        };
        punch(&pool, &dataset, ArrayKind::Data, slot).unwrap();
        pool.commit().unwrap();
    }
    assert!(put_reserved(&pool, &dataset, ArrayKind::Data, 1 << 20, 4).is_err());
    assert_clean(&pool);
    pool.discard_checkpoint(&origin()).unwrap();
    assert_clean(&pool);
    put_reserved(&pool, &dataset, ArrayKind::Data, 1 << 20, 4).unwrap();
    pool.commit().unwrap();
    drop((dataset, pool));
    assert_clean(&open_on(&devices).unwrap());
}

/// The new addresses of a removed group's data are part of the state too.
#[test]
fn of_a_pool_that_removed_a_group() {
    let (devices, _, mut workload) = workload(&[(1, 0), (1, 0)], 8);
    workload.run(40);
    workload.removal().begin(0, &origin()).unwrap();
    while workload.removal().step(1 << 20).unwrap() {
        workload.commit().unwrap();
    }
    workload.make_checkpoint(&origin()).unwrap();
    let kept = normal(workload.model.clone());
    workload.run(120);
    let (pool, _) = workload.close();
    for dataset in pool.list(pool.top().unwrap().id).unwrap() {
        // Nothing may be left that the removed group had.
        if !dataset.name.contains(['/', '@']) {
            continue;
        }
        let _ = pool.destroy_dataset(&dataset.name, pool::Reach::Clones, &origin());
    }
    settle(&pool);
    assert_clean(&pool);
    assert_sound(&pool, "kept");
    drop(pool);
    let pool = rewind(&devices[1..]);
    assert_eq!(read_pool(&pool), kept);
    assert_clean(&pool);
    assert_sound(&pool, "rewound");
}

/// Entries that were synced after the checkpoint are in logs, which go with it.
#[test]
fn logs_are_not_replayed_into_an_earlier_state() {
    let (devices, _, workload) = workload(&[(1, 0)], 3);
    let (pool, _) = workload.close();
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 77);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    assert!(append(&dataset, entry(1)).is_some());
    pool.make_checkpoint(&origin()).unwrap();
    assert!(append(&dataset, entry(2)).is_some());
    drop((dataset, pool));
    let pool = open_on(&devices).unwrap();
    let log = open_top(&pool).waiting_log();
    assert!(log.is_some(), "it waits where nothing goes back");
    // A state with a log that waits cannot be kept: the log is written to when it was replayed.
    pool.discard_checkpoint(&origin()).unwrap();
    let refused = pool.make_checkpoint(&origin()).unwrap_err().to_string();
    assert!(refused.contains("load the key"), "{refused}");
    drop(pool);

    let pool = open_on(&devices).unwrap();
    let dataset = open_top(&pool);
    dataset.log_replayed();
    change(&pool, &dataset, 2);
    pool.make_checkpoint(&origin()).unwrap();
    dataset.want_log(256 << 10, 78);
    change(&pool, &dataset, 3);
    pool.commit().unwrap();
    assert!(append(&dataset, entry(3)).is_some());
    drop((dataset, pool));
    let pool = rewind(&devices);
    assert!(open_top(&pool).waiting_log().is_none());
    assert_clean(&pool);
}

#[test]
fn a_power_cut_at_any_write_leaves_one_state_or_the_other() {
    for seed in seeds(30, 1) {
        let shape = SHAPES[seed as usize % 4];
        let (devices, clock, mut workload) = workload(shape, seed);
        workload.run(50);
        for device in &devices {
            device.take_journal();
        }
        let first = clock.now();
        let before = normal(workload.model.clone());
        workload.make_checkpoint(&origin()).unwrap();
        let made = clock.now();
        workload.steps(40);
        workload.commit().unwrap();
        let changed = clock.now();
        let after = normal(workload.model.clone());
        workload.discard_checkpoint(&origin()).unwrap();
        workload.commit().unwrap();
        let end = clock.now();
        let journals: Vec<_> = devices.iter().map(|d| d.take_journal()).collect();
        let (mut went_back, mut stayed) = (0, 0);
        for cut in (first..=made).chain(changed..=end) {
            let survival = Survival::in_turn(cut, seed + cut);
            let images = || after_cut(&journals, cut, survival);
            let when = format!("seed {seed}, cut {cut}, {survival:?}");
            let now = images();
            let pool = open_on(&now).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_clean(&pool);
            let is_there = pool.checkpoint_info().is_some();
            assert!(is_there || cut < made || cut >= changed, "{when}");
            assert!(!is_there || cut < end, "{when}");
            let found = read_pool(&pool);
            assert_eq!(
                found,
                if cut < changed {
                    before.clone()
                } else {
                    after.clone()
                }
            );
            let dataset = pool.open_dataset(1).unwrap();
            put(&pool, &dataset, ArrayKind::Data, 7, 7).unwrap();
            settle(&pool);
            assert_clean(&pool);
            drop((dataset, pool));
            match open_at(&images(), AtCheckpoint::Rewind) {
                Ok(pool) => {
                    assert!(is_there, "{when}");
                    assert_eq!(read_pool(&pool), before, "{when}");
                    assert_clean(&pool);
                    went_back += 1;
                }
                Err(error) => {
                    assert!(!is_there, "{when}: {error}");
                    stayed += 1;
                }
            }
        }
        assert!(went_back > 0 && stayed > 0);
    }
}

#[test]
fn a_power_cut_while_it_goes_back() {
    for seed in seeds(41, 1) {
        let shape = SHAPES[seed as usize % 4];
        let (devices, clock, mut workload) = workload(shape, seed);
        workload.run(40);
        workload.make_checkpoint(&origin()).unwrap();
        let kept = normal(workload.model.clone());
        workload.run(60);
        let (pool, now) = workload.close();
        settle(&pool);
        let now = normal(now);
        drop(pool);
        for device in &devices {
            device.take_journal();
        }
        let first = clock.now();
        let pool = rewind(&devices);
        let done = clock.now();
        let dataset = pool.open_dataset(1).unwrap();
        for slot in 0..30 {
            put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 3)).unwrap();
        }
        // What was written now is not durable.
        let end = clock.now();
        let journals: Vec<_> = devices.iter().map(|d| d.take_journal()).collect();
        let (mut old, mut new) = (0, 0);
        for cut in first..=end {
            let survival = Survival::in_turn(cut, seed + cut);
            let images = after_cut(&journals, cut, survival);
            let when = format!("seed {seed}, cut {cut}, {survival:?}");
            let pool = open_on(&images).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert_clean(&pool);
            let found = read_pool(&pool);
            if pool.checkpoint_info().is_none() {
                assert_eq!(found, kept, "{when}");
                new += 1;
                continue;
            }
            assert!(cut < done, "{when}");
            assert_eq!(found, now, "{when}");
            drop(pool);
            let pool = rewind(&images);
            assert_eq!(read_pool(&pool), kept, "{when}");
            assert_clean(&pool);
            old += 1;
        }
        assert!(old > 0 && new > 0);
    }
}

#[test]
fn the_devices_stay_as_they_are() {
    let (devices, clock, mut workload) = workload(&[(2, 0), (1, 0)], 5);
    workload.run(30);
    workload.make_checkpoint(&origin()).unwrap();
    let kept = normal(workload.model.clone());
    workload.run(30);
    let (pool, now) = workload.close();
    let more = fault_devices(2, &clock);
    let guids: Vec<u64> = pool.devices().iter().map(|device| device.guid).collect();
    let new = |n: usize| new_member(&more[n], 90 + n as u64);
    let refused = [
        pool.attach_device(guids[0], &new(0), false, &origin()),
        pool.attach_device(guids[0], &new(0), true, &origin()),
        pool.add_group(&[new(0)], 0, &origin()),
        pool.log_devices().add(&[new(0)], &origin()),
        pool.detach_device(guids[0], &origin()),
        pool.removal().begin(1, &origin()),
    ];
    for refused in refused {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("pool checkpoint -d tank"), "{error}");
    }
    // A spare would lack what only the checkpoint has.
    pool.add_spare(&new(1), &origin()).unwrap();
    devices[0].inject(Fault::DeadFrom(clock.now()));
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 7, 7).unwrap();
    pool.commit().unwrap();
    pool.commit().unwrap();
    drop(dataset);
    assert!(!pool.resilverer().use_spares().unwrap());
    drop((pool, now));

    // It goes back without the device, and the device comes back.
    let mut present = devices.clone();
    present.push(Arc::clone(&more[1]));
    let pool = rewind(&present[1..]);
    assert_eq!(read_pool(&pool), kept);
    assert_clean(&pool);
    pool.claim("host").unwrap();
    let copy = copy_of(&devices[0]);
    pool.online_device(guids[0], dynamic(&[copy]).remove(0), &origin())
        .unwrap();
    resilver(&pool);
    assert_sound(&pool, "back");
    assert_eq!(read_pool(&pool), kept);
}

fn keyed(guid: u64, keyring: &[u8]) -> pool::NewDataset {
    let keyring = keyring.to_vec();
    pool::NewDataset {
        suite: 1,
        keyring: Some(Box::new(move |_| Ok(keyring))),
        is_key_root: true,
        ..new_dataset(guid)
    }
}

#[test]
fn keyrings_are_kept_and_not_replaced() {
    let (devices, _, workload) = workload(&[(1, 0)], 5);
    let (pool, _) = workload.close();
    let on_device = |mark: &[u8]| devices[0].to_bytes().windows(mark.len()).any(|w| w == mark);
    let (first, second) = (b"the keyring of a dataset", b"the keyring of another one");
    let make = |name: &str, guid, keyring: &[u8]| {
        let made = pool.create_dataset(name, keyed(guid, keyring), &origin());
        made.unwrap().id
    };
    let kept = make("tank/kept", 50, first);
    pool.make_checkpoint(&origin()).unwrap();
    let later = make("tank/later", 51, second);
    let change = |id| pool::NewKeyring {
        id,
        keyring: b"third keyring".to_vec(),
        key_root: id,
        props: Vec::new(),
        done: "changed".into(),
    };
    assert!(pool.checkpoint_has_keys(kept).unwrap());
    assert!(!pool.checkpoint_has_keys(later).unwrap());
    // A clone has the data keys of its origin.
    snapshot(&pool, "tank/kept@s");
    let clone = pool::NewClone {
        keyring: keyed(0, b"the keyring of a clone").keyring,
        is_key_root: true,
        ..new_clone(52)
    };
    let made = pool.clone_snapshot("tank/kept@s", "tank/young", clone, &origin());
    let young = made.unwrap().id;
    assert!(pool.checkpoint_has_keys(young).unwrap());
    pool.destroy_dataset("tank/young", false, &origin())
        .unwrap();
    let refused = pool.replace_keyrings(&[change(later), change(kept)], &origin());
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("tank/kept") && refused.contains("checkpoint -d"),
        "{refused}"
    );
    assert_eq!(pool.keyring(later).unwrap(), second, "all or none");
    pool.replace_keyrings(&[change(later)], &origin()).unwrap();
    assert!(!on_device(second), "only the current state had it");
    // A destroyed dataset comes back with its keyring.
    pool.destroy_dataset("tank/kept", true, &origin()).unwrap();
    settle(&pool);
    assert!(on_device(first));
    assert_sound(&pool, "both");
    drop(pool);
    let images = || vec![copy_of(&devices[0])];
    let back = images();
    let pool = rewind(&back);
    assert_eq!(pool.keyring(kept).unwrap(), first);
    assert!(pool.find("tank/later").is_err());
    let bytes = back[0].to_bytes();
    assert!(
        !bytes.windows(13).any(|w| w == b"third keyring"),
        "made later"
    );
    drop(pool);
    // Its end is the end of the keyring.
    let pool = open_on(&devices).unwrap();
    assert!(on_device(first));
    pool.discard_checkpoint(&origin()).unwrap();
    assert!(!on_device(first) && on_device(b"third keyring"));
    assert_clean(&pool);
    drop(pool);
    assert_clean(&open_on(&devices).unwrap());
}

/// A scrub reads what only the checkpoint has, and repairs it.
#[test]
fn a_flipped_bit_is_found() {
    const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);
    let (devices, _, workload) = workload(&[(2, 0)], 6);
    let (pool, _) = workload.close();
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..50 {
        put(&pool, &dataset, ArrayKind::Data, slot, sized(slot, 2)).unwrap();
    }
    pool.make_checkpoint(&origin()).unwrap();
    let data = dataset.get(ArrayKind::Data, 40).unwrap();
    for slot in 30..50 {
        punch(&pool, &dataset, ArrayKind::Data, slot).unwrap();
    }
    settle(&pool);
    drop(dataset);
    let addr = data.place.addr[0];
    let at = HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset());
    devices[0].flip(at + 9, 1);
    let status = scrub_all(&pool);
    assert_eq!((status.errors, status.repaired), (0, 1), "{status:?}");
    assert_sound(&pool, "repaired");
    devices[0].flip(at + 9, 1);
    devices[1].flip(at + 9, 1);
    let status = scrub_all(&pool);
    assert_eq!((status.errors, status.repaired), (1, 0), "{status:?}");
    assert_eq!((status.damage[0].dataset, status.damage[0].slot), (1, 40));
    let name = status.damage[0].in_checkpoint.as_deref();
    assert_eq!(name, Some("tank"), "the current state has no damage");
    // Nothing of this is part of the current state.
    pool.discard_checkpoint(&origin()).unwrap();
    assert_sound(&pool, "discarded");
}

/// Without its record nothing is overwritten unasked: space that only the checkpoint has is unknown.
#[test]
fn one_that_cannot_be_read_is_discarded_by_a_wish_only() {
    const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);
    let (devices, _, mut workload) = workload(&[(1, 0)], 7);
    workload.run(20);
    workload.make_checkpoint(&origin()).unwrap();
    workload.run(20);
    let (pool, now) = workload.close();
    settle(&pool);
    let record = pool.superblock().checkpoint;
    drop(pool);
    for addr in record.place.copies() {
        let at = HEADER + (u64::from(addr.segment().index()) << 20) + u64::from(addr.offset());
        devices[0].flip(at + 2000, 1);
    }
    for at in [AtCheckpoint::Keep, AtCheckpoint::Rewind] {
        let error = open_at(&devices, at).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    let pool = open_at(&devices, AtCheckpoint::Discard).unwrap();
    assert_eq!(read_pool(&pool), normal(now));
    assert!(pool.checkpoint_info().is_none());
    assert_clean(&pool);
}
