//! Volumes beside a plain row of bytes: random requests, commits, snapshots, clones and other sizes; what a
//! power cut, a full pool and changed bytes make of them.

#[path = "../common/mod.rs"]
mod common;
mod trouble;

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::Suite;
use common::*;
use dataset::{Compression, Settings, SyncMode, Volume, WriteCache};
use pool::{ArrayKind, NewClone, NewDataset, Pool, Reseal};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);
const BLOCK: u64 = 16 << 10;

fn create(device: &Arc<FaultDevice>, suite: Option<Suite>, size: u64, block: u64) -> Pool {
    let pool = create_pool(device, None);
    let new = new_volume(suite, size, block);
    pool.create_dataset("tank/vol", new, &origin()).unwrap();
    pool
}

fn open(pool: &Pool, name: &str, suite: Option<Suite>, settings: Settings) -> Volume {
    try_open(pool, name, suite, settings).unwrap()
}

fn try_open(
    pool: &Pool,
    name: &str,
    suite: Option<Suite>,
    settings: Settings,
) -> dataset::Result<Volume> {
    let id = pool.find(name).unwrap().id;
    Volume::open(&engine(7, 0), pool, id, suite.map(data_keys), settings)
}

fn close(volume: Volume) {
    volume.close().unwrap();
}

fn write(volume: &Volume, offset: u64, data: &[u8]) -> block::Result<()> {
    volume.write_at(offset, &[IoSlice::new(data)])
}

fn read_all(volume: &Volume) -> Vec<u8> {
    let mut all = vec![0; volume.size() as usize];
    volume.read_at(0, &mut all).unwrap();
    all
}

fn contents(dice: &mut Dice, len: usize) -> Vec<u8> {
    let seed = dice.below(u64::MAX);
    let mut own = Dice(seed);
    let words = (0..len.div_ceil(8)).flat_map(|_| own.below(u64::MAX).to_le_bytes());
    words.take(len).collect()
}

/// A random request, of both.
fn request(volume: &Volume, model: &mut [u8], dice: &mut Dice) -> block::Result<()> {
    let size = model.len() as u64;
    let offset = match dice.below(3) {
        0 => dice.below(size / BLOCK) * BLOCK,
        1 => dice.below(size / 512) * 512,
        _ => dice.below(size),
    };
    let len = match dice.below(5) {
        0 => BLOCK,
        1 => 4096,
        2 => 1 + dice.below(700),
        3 => 1 + dice.below(5 * BLOCK),
        _ => 512,
    };
    let len = len.min(size - offset);
    let range = offset as usize..(offset + len) as usize;
    match dice.below(10) {
        0..=5 => {
            let data = contents(dice, len as usize);
            let (a, b) = data.split_at(data.len() / 3);
            model[range].copy_from_slice(&data);
            match dice.below(2) {
                0 => write(volume, offset, &data),
                _ => volume.write_at(offset, &[IoSlice::new(a), IoSlice::new(b)]),
            }
        }
        6 => {
            model[range].fill(0);
            volume.zero(offset, len)
        }
        7 => {
            model[range].fill(0);
            volume.discard(offset, len)
        }
        _ => {
            let mut found = vec![0xee; len as usize];
            volume.read_at(offset, &mut found)?;
            assert!(found == model[range], "{offset}+{len}");
            Ok(())
        }
    }
}

fn settings(dice: &mut Dice) -> Settings {
    Settings {
        compression: [Compression::Off, Compression::Lz4][dice.below(2) as usize],
        dedup: dice.below(4) == 0,
        sync: [SyncMode::Standard, SyncMode::Always][dice.below(4) as usize / 3],
        ..Settings::default()
    }
}

#[test]
fn neighbouring_blocks_are_written_with_one_call() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new(32 << 20, &clock));
    let pool = create(&device, SUITE, 8 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    pool.commit().unwrap();
    let mut dice = Dice(3);
    let mut model = vec![0; volume.size() as usize];

    // Whole blocks are written at once, 16 of them together.
    let large = contents(&mut dice, 1 << 20);
    model[..large.len()].copy_from_slice(&large);
    let before = clock.now();
    write(&volume, 0, &large).unwrap();
    assert_eq!(clock.now() - before, 4);

    // Small changes of many blocks wait for a commit. It writes them together too, wherever they are in the volume.
    for block in (0..512).step_by(8) {
        let at = (block * BLOCK) as usize;
        let small = contents(&mut dice, 4096);
        model[at..at + small.len()].copy_from_slice(&small);
        write(&volume, at as u64, &small).unwrap();
    }
    let before = clock.now();
    pool.commit().unwrap();
    let writes = clock.now() - before;
    assert!(writes < 64 / 2, "{writes} writes");

    assert!(read_all(&volume) == model);
    close(volume);
}

#[test]
fn a_volume_is_a_row_of_bytes() {
    for seed in seeds(0, 12) {
        let mut dice = Dice(seed);
        let suite = SUITE.filter(|_| seed % 3 > 0);
        let device = fault_device(48 << 20, &FaultClock::new());
        let size = 40 * BLOCK;
        let mut pool = create(
            &device,
            suite,
            size,
            [4096, BLOCK, 1 << 17][seed as usize % 3],
        );
        let mut volume = open(&pool, "tank/vol", suite, settings(&mut dice));
        let mut model = vec![0; size as usize];
        for _ in 0..400 {
            match dice.below(40) {
                0 => pool.commit().unwrap(),
                1..=3 => volume.flush().unwrap(),
                4 => {
                    close(volume);
                    pool.export().unwrap();
                    drop(pool);
                    pool = open_pool(Arc::clone(&device)).unwrap();
                    volume = open(&pool, "tank/vol", suite, settings(&mut dice));
                    assert!(read_all(&volume) == model);
                }
                _ => request(&volume, &mut model, &mut dice).unwrap(),
            }
        }
        assert!(read_all(&volume) == model, "{seed}");
        close(volume);
        assert_clean(&pool);
    }
}

#[test]
fn discarded_blocks_use_no_space() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 16 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let mut dice = Dice(1);
    for at in 0..16 {
        write(&volume, at << 20, &contents(&mut dice, 1 << 20)).unwrap();
    }
    pool.commit().unwrap();
    let referenced = || pool.find("tank/vol").unwrap().referenced;
    assert!(referenced() >= 16 << 20);
    // Less than a block at each end, more blocks than the log says, and some that only memory has.
    write(&volume, 5 << 20, &contents(&mut dice, 1 << 20)).unwrap();
    volume.discard(512, (16 << 20) - 1024).unwrap();
    volume.flush().unwrap();
    assert!(referenced() < 1 << 20, "{}", referenced());
    let all = read_all(&volume);
    assert!(all[512..all.len() - 512].iter().all(|byte| *byte == 0));
    assert!(all[..512].iter().any(|byte| *byte != 0));
    close(volume);
    assert_clean(&pool);
}

#[test]
fn what_is_a_hole_is_known() {
    let device = fault_device(32 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 4 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    write(&volume, 3 * BLOCK + 5, b"x").unwrap();
    write(&volume, 4 * BLOCK, &[1; BLOCK as usize]).unwrap();
    for is_stored in [false, true] {
        if is_stored {
            pool.commit().unwrap();
        }
        let status = |offset: u64, len| {
            let status = volume.status_at(offset, len).unwrap();
            assert_eq!(status.is_zero, status.is_hole);
            (status.len, status.is_hole)
        };
        assert_eq!(status(0, 4 << 20), (3 * BLOCK, true));
        assert_eq!(status(100, 1), (1, true));
        assert_eq!(status(3 * BLOCK + 100, 4 << 18), (2 * BLOCK - 100, false));
        assert_eq!(status(4 * BLOCK, 10), (10, false));
        let rest = (4 << 20) - 5 * BLOCK;
        assert_eq!(status(5 * BLOCK, rest), (rest, true));
    }
    assert!(volume.zero_fast(0, 4 << 20).unwrap());
    assert!(volume.status_at(0, 4 << 20).unwrap().is_hole);
}

#[test]
fn requests_outside_are_refused() {
    let device = fault_device(32 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 4 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let is_outside = |result| matches!(result, Err(block::Error::OutOfRange { .. }));
    assert!(is_outside(write(&volume, 4 << 20, b"x")));
    assert!(is_outside(write(&volume, u64::MAX, b"xy")));
    assert!(is_outside(volume.read_at((4 << 20) - 1, &mut [0; 2])));
    assert!(is_outside(volume.discard(0, (4 << 20) + 1)));
    assert!(is_outside(volume.zero(u64::MAX, 5)));
    write(&volume, 4 << 20, b"").unwrap();
}

#[test]
fn snapshots_clones_and_rollback() {
    for suite in [SUITE, None] {
        let device = fault_device(96 << 20, &FaultClock::new());
        let pool = create(&device, suite, 4 << 20, BLOCK);
        let volume = open(&pool, "tank/vol", suite, Settings::default());
        let mut dice = Dice(2);
        let mut model = vec![0; 4 << 20];
        let mut work = |volume: &Volume, model: &mut Vec<u8>| {
            for _ in 0..60 {
                request(volume, model, &mut dice).unwrap();
            }
        };
        work(&volume, &mut model);
        snapshot(&pool, "tank/vol@a");
        let at_a = model.clone();
        work(&volume, &mut model);
        volume.resize(6 << 20, &origin()).unwrap();
        model.resize(6 << 20, 0);
        work(&volume, &mut model);
        snapshot(&pool, "tank/vol@b");
        let at_b = model.clone();
        work(&volume, &mut model);
        assert!(read_all(&volume) == model);
        for (name, expected) in [("tank/vol@a", &at_a), ("tank/vol@b", &at_b)] {
            let snapshot = open(&pool, name, suite, Settings::default());
            assert!(read_all(&snapshot) == *expected, "{name}");
            let refused = write(&snapshot, 0, b"x");
            assert!(matches!(refused, Err(block::Error::ReadOnly { .. })));
            snapshot.flush().unwrap();
        }
        close(volume);

        let sealer =
            suite.map(|_| dataset::Resealer::new(4, data_keys(Suite::Xaes256Gcm)).unwrap());
        let reseal: Option<Reseal> = sealer.map(|sealer| {
            Box::new(move |was: &pool::Entry, new: &pool::SealInput| {
                let old = pool::SealInput::of(was, 4);
                sealer
                    .reseal(&old, &was.seal, new)
                    .ok_or("another seal".to_owned())
            }) as Reseal
        });
        let clone = NewClone {
            guid: 3,
            keyring: suite.map(|_| Box::new(|_: u64| Ok(vec![1u8; 40])) as pool::MakeKeyring),
            is_key_root: suite.is_some(),
            reseal,
            props: Default::default(),
            is_rekeyed: false,
            rotation: None,
        };
        pool.clone_snapshot("tank/vol@a", "tank/copy", clone, &origin())
            .unwrap();
        let copy = open(&pool, "tank/copy", suite, Settings::default());
        let mut of_copy = at_a.clone();
        assert!(read_all(&copy) == of_copy);
        work(&copy, &mut of_copy);
        assert!(read_all(&copy) == of_copy);
        copy.close().unwrap();
        drop(copy);

        pool.rollback("tank/vol@b", false, &origin()).unwrap();
        let volume = open(&pool, "tank/vol", suite, Settings::default());
        assert!(read_all(&volume) == at_b);
        drop(volume);
        pool.rollback("tank/vol@a", true, &origin()).unwrap();
        let volume = open(&pool, "tank/vol", suite, Settings::default());
        assert_eq!(volume.size(), 4 << 20, "it is as large as it was");
        assert!(read_all(&volume) == at_a);
        drop(volume);
        assert_clean(&pool);
    }
}

#[test]
fn other_sizes() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 4 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let mut dice = Dice(3);
    let mut model = contents(&mut dice, 4 << 20);
    write(&volume, 0, &model).unwrap();
    volume.flush().unwrap();
    // Half a block is no size, nor is nothing.
    for size in [(4 << 20) + 512, 0] {
        assert!(volume.resize(size, &origin()).is_err());
        assert_eq!(volume.size(), 4 << 20);
    }
    assert!(read_all(&volume) == model);
    volume.resize(1 << 20, &origin()).unwrap();
    assert!(write(&volume, 1 << 20, b"x").is_err());
    volume.resize(8 << 20, &origin()).unwrap();
    model.truncate(1 << 20);
    model.resize(8 << 20, 0);
    assert!(
        read_all(&volume) == model,
        "what was cut off does not come back"
    );
    drop(volume);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    assert!(read_all(&volume) == model);
    close(volume);
    assert_clean(&pool);
}

/// The power fails at every write of a run of requests, flushes, commits, a snapshot and other sizes. What
/// was flushed is there; each block is as it was at some moment since.
#[test]
fn files_and_volumes_are_not_taken_for_each_other() {
    let device = fault_device(32 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 1 << 20, BLOCK);
    let top = pool.top().unwrap().id;
    let refused = Volume::open(&engine(7, 0), &pool, top, None, Settings::default());
    assert!(refused.err().unwrap().to_string().contains("not a volume"));
    let id = pool.find("tank/vol").unwrap().id;
    let keys = SUITE.map(data_keys);
    let settings = Settings::default();
    let refused = dataset::Dataset::open(&engine(7, 0), &pool, id, keys, settings, &ROOT_USER);
    assert!(refused.err().unwrap().to_string().contains("is a volume"));
    let below = NewDataset {
        guid: 5,
        ..new_volume(None, 1 << 20, BLOCK)
    };
    assert!(
        pool.create_dataset("tank/vol/below", below, &origin())
            .is_err()
    );
    let shapeless = NewDataset {
        guid: 6,
        props: Default::default(),
        ..new_volume(None, 1 << 20, BLOCK)
    };
    assert!(
        pool.create_dataset("tank/shapeless", shapeless, &origin())
            .is_err()
    );
}

/// Threads write to blocks that they share, each to parts of its own, while commits, snapshots and flushes go on.
#[test]
fn threads_do_not_disturb_each_other() {
    const THREADS: u64 = 4;
    const SLICE: u64 = 4096;
    let device = fault_device(160 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 4 << 20, BLOCK);
    let id = pool.find("tank/vol").unwrap().id;
    let keys = SUITE.map(data_keys);
    let volume = Volume::open(&engine(7, 2), &pool, id, keys, Settings::default()).unwrap();
    let done = AtomicBool::new(false);
    let work = |thread: u64| {
        let mut dice = Dice(thread);
        let mut mine = vec![0u64; (4 << 20) / (SLICE * THREADS) as usize];
        for version in 1..1500 {
            let index = dice.below(mine.len() as u64);
            let offset = (index * THREADS + thread) * SLICE;
            let mut found = vec![0; SLICE as usize];
            volume.read_at(offset, &mut found).unwrap();
            let expected = mine[index as usize];
            assert!(found.chunks(8).all(|word| word == expected.to_le_bytes()));
            let new = thread << 32 | version;
            match dice.below(8) {
                0 => {
                    mine[index as usize] = 0;
                    volume.discard(offset, SLICE).unwrap();
                }
                _ => {
                    mine[index as usize] = new;
                    let data = new.to_le_bytes().repeat(SLICE as usize / 8);
                    write(&volume, offset, &data).unwrap();
                }
            }
            if dice.below(20) == 0 {
                volume.flush().unwrap();
            }
        }
        mine
    };
    let all: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let committer = scope.spawn(|| {
            for n in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                pool.commit().unwrap();
                if n % 5 == 0 {
                    let _ = pool.destroy_dataset("tank/vol@s", false, &origin());
                    snapshot(&pool, "tank/vol@s");
                }
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        let all = all.collect();
        done.store(true, Ordering::Relaxed);
        committer.join().unwrap();
        all
    });
    volume.flush().unwrap();
    drop((volume, pool));
    let image = device.take_journal().image(u64::MAX, Survival::None);
    let pool = open_image(image).unwrap();
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let found = read_all(&volume);
    for (n, slice) in found.chunks(SLICE as usize).enumerate() {
        let (index, thread) = (n / THREADS as usize, n % THREADS as usize);
        let expected = all[thread][index].to_le_bytes();
        assert!(slice.chunks(8).all(|word| word == expected), "slice {n}");
    }
    drop(volume);
    assert_clean(&pool);
}

/// The blocks after a sequential read are in the cache before they are requested.
#[test]
fn sequential_reads_are_read_ahead() {
    const STEP: usize = 64 << 10;
    let device = fault_device(64 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 2 << 20, BLOCK);
    let written = contents(&mut Dice(5), 2 << 20);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    write(&volume, 0, &written).unwrap();
    close(volume);

    let id = pool.find("tank/vol").unwrap().id;
    let engine = engine(8, 2);
    let keys = SUITE.map(data_keys);
    let volume = Volume::open(&engine, &pool, id, keys, Settings::default()).unwrap();
    let mut read = vec![0; STEP];
    for n in 0..4 {
        volume.read_at((n * STEP) as u64, &mut read).unwrap();
        assert!(read == written[n * STEP..][..STEP]);
    }
    let begin = std::time::Instant::now();
    while engine.record_cache().bytes < 6 * STEP as u64 {
        assert!(begin.elapsed().as_secs() < 60, "nothing is read ahead");
        std::thread::yield_now();
    }
    assert!(read_all(&volume) == written);
    volume.close().unwrap();
    volume.read_at(0, &mut read).unwrap();
    drop(volume);
    pool.destroy_dataset("tank/vol", false, &origin()).unwrap();
}
