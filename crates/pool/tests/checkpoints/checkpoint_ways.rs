//! Ways back to a checkpoint that are not smooth: what is later is damaged, a device that is older than it comes back, and the
//! power fails while it is given up.

use std::sync::Arc;

use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, AtCheckpoint, DeviceState, Pool};
use store::Store;

const HEADER: u64 = (65 * 4096_u64).next_multiple_of(64 << 10);

/// The offsets of the roots of arrays in a superblock: the dataset table, the segment table, the bitmaps, the free
/// queue.
const ROOTS: [usize; 4] = [48, 176, 304, 560];

fn open_at(devices: &[Arc<FaultDevice>], at: AtCheckpoint) -> pool::Result<Pool> {
    let store = Store::open(dynamic(devices))?;
    Pool::open_at(Arc::new(store), TestEnv::new(5), false, at)
}

fn rewind(devices: &[Arc<FaultDevice>]) -> Pool {
    open_at(devices, AtCheckpoint::Rewind).unwrap()
}

/// Returns the addresses of the copies of the root of an array.
fn copies(superblock: &[u8], root: usize) -> Vec<u64> {
    let at = |addr: &[u8]| {
        let number = |at: usize, len: usize| {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(&addr[at..at + len]);
            u64::from_le_bytes(bytes)
        };
        (number(12, 4) > 0).then(|| HEADER + (number(0, 8) << 20) + number(8, 4))
    };
    superblock[root..root + 32]
        .chunks(16)
        .filter_map(at)
        .collect()
}

/// Changes a bit of both copies of the root of an array.
fn damage(device: &FaultDevice, superblock: &[u8], root: usize) {
    for at in copies(superblock, root) {
        device.flip(at + 100, 1);
    }
}

fn newest(devices: &[Arc<FaultDevice>]) -> Vec<u8> {
    let store = Store::open(dynamic(devices)).unwrap();
    store.superblocks().unwrap().remove(0).1
}

/// The devices after a power cut at each write of a run.
fn cuts(
    devices: &[Arc<FaultDevice>],
    (first, end): (u64, u64),
    mut each: impl FnMut(String, &dyn Fn() -> Vec<Arc<FaultDevice>>),
) {
    let journals: Vec<_> = devices.iter().map(|d| d.take_journal()).collect();
    for cut in first..=end {
        let survival = Survival::in_turn(cut, cut);
        let images = || after_cut(&journals, cut, survival);
        each(format!("cut {cut}, {survival:?}"), &images);
    }
}

/// A pool with a checkpoint and changes since, and what it had in both.
fn with_checkpoint(
    widths: &[(usize, usize)],
    seed: u64,
) -> (Vec<Arc<FaultDevice>>, FaultClock, Model, Model) {
    let clock = FaultClock::new();
    let devices = fault_devices(widths.iter().map(|(width, _)| width).sum(), &clock);
    let mut workload = Workload::new(create_groups(&devices, widths), seed);
    workload.run(30);
    workload.make_checkpoint(&origin()).unwrap();
    let kept = normal(workload.model.clone());
    workload.run(40);
    let (pool, now) = workload.close();
    settle(&pool);
    drop(pool);
    (devices, clock, kept, normal(now))
}

#[test]
fn a_damaged_later_state_does_not_keep_it_from_going_back() {
    for (root, width) in ROOTS.into_iter().zip([1, 1, 2, 1]) {
        let (devices, clock, kept, _) = with_checkpoint(&[(width, 0)], 90 + root as u64);
        let superblock = newest(&devices);
        devices.iter().for_each(|d| damage(d, &superblock, root));
        let when = format!("root at {root}");
        let is_there = superblock[root + 12..root + 16] != [0; 4];
        assert_eq!(open_on(&devices).is_err(), is_there, "{when}");
        for device in &devices {
            device.take_journal();
        }
        let first = clock.now();
        let pool = rewind(&devices);
        let end = clock.now();
        assert_eq!(read_pool(&pool), kept, "{when}");
        assert_sound(&pool, &when);
        drop(pool);
        let pool = open_on(&devices).unwrap();
        assert_eq!(read_pool(&pool), kept, "{when}");
        // A power cut meanwhile leaves the way back, or the end of it.
        let (mut before, mut after) = (0, 0);
        cuts(&devices, (first, end), |cut, images| {
            let pool = match open_at(&images(), AtCheckpoint::Rewind) {
                Ok(pool) => pool,
                Err(error) => {
                    assert!(
                        error.to_string().contains("no checkpoint"),
                        "{when}, {cut}: {error}"
                    );
                    after += 1;
                    open_on(&images()).unwrap_or_else(|error| panic!("{when}, {cut}: {error}"))
                }
            };
            before += 1;
            assert_eq!(read_pool(&pool), kept, "{when}, {cut}");
            assert_clean(&pool);
        });
        assert!(before > after && after > 0, "{when}: {before} {after}");
    }
}

#[test]
fn a_power_cut_while_an_import_discards_it_leaves_all_of_it_or_none() {
    let mut kept_some = 0;
    for (seed, is_damaged) in [(1, false), (2, true)] {
        let (devices, clock, kept, now) = with_checkpoint(&[(1, 0)], seed);
        // What an import needs of the checkpoint: its record, which is whole again after the cut.
        let superblock = newest(&devices);
        let flip = |devices: &[Arc<FaultDevice>]| {
            if is_damaged {
                devices.iter().for_each(|d| damage(d, &superblock, 816));
            }
        };
        flip(&devices);
        for device in &devices {
            device.take_journal();
        }
        let first = clock.now();
        drop(open_at(&devices, AtCheckpoint::Discard).unwrap());
        let (mut stays, mut went) = (0, 0);
        cuts(&devices, (first, clock.now()), |cut, images| {
            let when = format!("seed {seed}, {cut}");
            let names_it = pool::Superblock::decode(1, &newest(&images())).unwrap();
            if names_it.checkpoint.is_empty() {
                let pool = open_on(&images()).unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(pool.checkpoint_info().is_none(), "{when}");
                assert_clean(&pool);
                went += 1;
                return;
            }
            stays += 1;
            let whole = images();
            flip(&whole);
            assert_eq!(read_pool(&rewind(&whole)), kept, "{when}");
            let whole = images();
            flip(&whole);
            assert_eq!(read_pool(&open_on(&whole).unwrap()), now, "{when}");
        });
        kept_some += stays;
        assert!(went > 0, "{seed}");
    }
    assert!(kept_some > 0);
}

/// A mirror of which one side is from before the checkpoint, as after a device that lost what it had confirmed. Also
/// returns the superblock of the state in the checkpoint, and what that state has.
fn with_older_device() -> (Vec<Arc<FaultDevice>>, Vec<u8>, Model) {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let mut workload = Workload::new(create_groups(&devices, &[(2, 0)]), 4);
    workload.run(30);
    let (pool, _) = workload.close();
    let older = copy_of(&devices[1]);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..60 {
        put(&pool, &dataset, ArrayKind::Data, 500 + slot, sized(slot, 5)).unwrap();
        if slot % 20 == 0 {
            snapshot(&pool, &format!("tank@before{slot}"));
        }
    }
    drop(dataset);
    pool.commit().unwrap();
    let superblock = newest(&devices);
    pool.make_checkpoint(&origin()).unwrap();
    let kept = read_pool(&pool);
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..60 {
        punch(&pool, &dataset, ArrayKind::Data, 500 + slot).unwrap();
    }
    drop(dataset);
    for slot in [0, 20, 40] {
        pool.destroy_dataset(&format!("tank@before{slot}"), false, &origin())
            .unwrap();
    }
    settle(&pool);
    drop(pool);
    (vec![Arc::clone(&devices[0]), older], superblock, kept)
}

/// The older device has all of the checkpoint, and nobody needs the other one.
fn assert_has_all(pool: Pool, device: &FaultDevice, kept: &Model) {
    assert_eq!(states(&pool)[1], DeviceState::Online);
    assert_eq!(pool.resilverer().status().progress.errors, 0);
    assert_eq!(scrub_all(&pool).repaired, 0, "it has all copies");
    export(pool);
    let alone = [copy_of(device)];
    assert_eq!(read_pool(&rewind(&alone)), *kept);
}

#[test]
fn a_device_that_is_older_than_it_gets_all_of_it() {
    let (devices, _, kept) = with_older_device();
    let pool = open_on(&devices).unwrap();
    assert_eq!(states(&pool)[1], DeviceState::Resilvering);
    pool.claim("host").unwrap();
    resilver(&pool);
    assert_has_all(pool, &devices[1], &kept);
}

/// Commits wait for one step in the checkpoint. Steps of one record do the same as long ones.
#[test]
fn short_steps_pass_over_nothing() {
    let (devices, _, kept) = with_older_device();
    let pool = open_on(&devices).unwrap();
    pool.claim("host").unwrap();
    while pool.resilverer().step(1).unwrap() {}
    let mut examined = Vec::new();
    for budget in [1, 20 << 10, u64::MAX] {
        pool.scrubber().start().unwrap();
        while pool.scrubber().step(budget).unwrap() {}
        let status = pool.scrubber().status();
        assert_eq!((status.errors, status.repaired), (0, 0), "{budget}");
        examined.push(status.examined);
    }
    assert_eq!(examined, [examined[0]; 3]);
    assert_has_all(pool, &devices[1], &kept);
    let alone = rewind(&[copy_of(&devices[1])]);
    assert_sound(&alone, "alone");
    assert_clean(&alone);
}

/// A device that fails to read for a time.
#[test]
fn a_resilver_waits_while_it_cannot_be_read() {
    let (devices, superblock, kept) = with_older_device();
    let pool = open_on(&devices).unwrap();
    pool.claim("host").unwrap();
    for offset in copies(&superblock, ROOTS[0]) {
        devices[0].inject(Fault::BadBytes { offset, len: 4096 });
    }
    resilver(&pool);
    let status = pool.resilverer().status();
    assert!(status.is_running());
    let why = status.waits.unwrap();
    assert!(why.contains("checkpoint"), "{why}");
    assert_eq!(states(&pool)[1], DeviceState::Resilvering);
    devices[0].heal();
    while pool.resilverer().status().is_running() {
        pool.resilverer().step(256 << 10).unwrap();
    }
    assert_has_all(pool, &devices[1], &kept);
}

#[test]
fn a_device_stays_incomplete_if_it_is_damaged() {
    let (devices, superblock, _) = with_older_device();
    damage(&devices[0], &superblock, ROOTS[0]);
    let pool = open_on(&devices).unwrap();
    pool.claim("host").unwrap();
    resilver(&pool);
    assert_eq!(states(&pool)[1], DeviceState::Resilvering);
    let status = pool.resilverer().status().progress;
    assert_eq!((status.errors, status.unreadable), (1, 0));
    let name = status.damage[0].in_checkpoint.as_deref();
    assert_eq!(name, Some(""), "the checkpoint as a whole");
    let status = scrub_all(&pool);
    assert_eq!((status.errors, status.damage.len()), (1, 1));
    // Without the checkpoint it lacks nothing.
    pool.discard_checkpoint(&origin()).unwrap();
    pool.clear_device_errors(None, &origin()).unwrap();
    resilver(&pool);
    assert_eq!(states(&pool)[1], DeviceState::Online);
    assert_sound(&pool, "");
}

/// No state after the way back has the number of one that was given up, also if that number came with a stream.
#[test]
fn sequences_go_on_after_those_that_were_received() {
    let sender = other_pool();
    sender
        .create_dataset("tank/a", new_dataset(70), &origin())
        .unwrap();
    fill(&sender, "tank/a", ArrayKind::Data, &[(0, 1)]);
    snapshot(&sender, "tank/a@one");
    for n in 1..60 {
        fill(&sender, "tank/a", ArrayKind::Data, &[(n, n)]);
    }
    snapshot(&sender, "tank/a@two");
    for is_destroyed in [false, true] {
        let devices = fault_devices(1, &FaultClock::new());
        let pool = create_on(&devices);
        receive(&pool, &stream(&sender, "tank/a@one", None), "tank/b").unwrap();
        pool.make_checkpoint(&origin()).unwrap();
        let more = stream(&sender, "tank/a@two", Some("tank/a@one"));
        receive(&pool, &more, "tank/b").unwrap();
        fill(&pool, "tank/b", ArrayKind::Data, &[(100, 1)]);
        let given_up = pool.find("tank/b").unwrap().sequence;
        assert!(given_up > 59, "{given_up}");
        if is_destroyed {
            pool.destroy_dataset("tank/b", true, &origin()).unwrap();
        }
        settle(&pool);
        drop(pool);
        if !is_destroyed {
            damage(&devices[0], &newest(&devices), ROOTS[0]);
        }
        let pool = rewind(&devices);
        let before = pool.find("tank/b").unwrap().sequence;
        assert!(before < given_up, "{before}");
        fill(&pool, "tank/b", ArrayKind::Data, &[(100, 2)]);
        let after = pool.find("tank/b").unwrap().sequence;
        assert!(after > given_up, "{is_destroyed}: {after} {given_up}");
        assert!(after < 1000, "{after}");
    }
}
