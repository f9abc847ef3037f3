//! `fsync` through the intent log: what was synced is there after a power cut at any write, whether
//! the cut comes before, between or after commits, or in the middle of a replay.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::fault::{FaultClock, FaultDevice, Journal, Survival};
use cipher::Suite;
use common::model::*;
use common::*;
use dataset::{Files, Settings, SyncMode};
use pool::Pool;
use vfs::{FileSystem, Kind};

fn suite(seed: u64) -> Option<Suite> {
    [Some(Suite::Xaes256Gcm), None, Some(Suite::Aes128Ccm)][seed as usize % 3]
}

fn settings(seed: u64) -> Settings {
    Settings {
        record_size: [4096, 131_072, 16_384][seed as usize % 3],
        ..Settings::default()
    }
}

/// A state that was there once.
struct Moment {
    time: u64,
    model: Model,
    /// Whether the operation before it took several steps.
    took_steps: bool,
    /// What was durable from then on: everything, or names and one file.
    synced: Option<Synced>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    All,
    Names,
    File(Id),
}

/// A run of random operations, and what it did to the device.
struct Run {
    seed: u64,
    moments: Vec<Moment>,
    journal: Journal,
    /// How many `fsync` did not commit.
    logged: u64,
}

impl Run {
    fn new(seed: u64, steps: usize) -> Run {
        let clock = FaultClock::new();
        let device = fault_device(32 << 20, &clock);
        let pool = create_pool(&device, suite(seed));
        let files = open_files(&pool, suite(seed), settings(seed), 0);
        files.sync_all().unwrap();
        device.take_journal();
        let mut driver = Driver::new(seed);
        driver.size_max = 200_000;
        let mut run = Run {
            seed,
            moments: Vec::new(),
            journal: device.take_journal(),
            logged: 0,
        };
        run.note(&clock, &driver, Some(Synced::All));
        for _ in 0..steps {
            driver.step(files.as_ref());
            run.note(&clock, &driver, None);
            run.sync(&clock, &mut driver, &pool, &files);
        }
        run.journal = device.take_journal();
        run
    }

    fn note(&mut self, clock: &FaultClock, driver: &Driver, synced: Option<Synced>) {
        self.moments.push(Moment {
            time: clock.now(),
            model: driver.model.clone(),
            took_steps: driver
                .log()
                .lines()
                .last()
                .is_some_and(|op| op.starts_with("copy")),
            synced,
        });
    }

    fn sync(&mut self, clock: &FaultClock, driver: &mut Driver, pool: &Pool, files: &Arc<Files>) {
        match driver.dice.below(10) {
            0 => {
                files.sync_all().unwrap();
                self.note(clock, driver, Some(Synced::All));
            }
            1 => files.reap_dead().unwrap(),
            2 => {
                self.fsync(pool, files, vfs::ROOT);
                self.note(clock, driver, Some(Synced::Names));
            }
            3..=6 => {
                let Some((id, path)) = driver.pick(Some(Kind::File)) else {
                    return;
                };
                let ino = resolve(files.as_ref(), &path);
                self.fsync(pool, files, ino);
                self.note(clock, driver, Some(Synced::File(id)));
            }
            _ => {}
        }
    }

    fn fsync(&mut self, pool: &Pool, files: &Files, ino: vfs::Ino) {
        let before = pool.committed_txg();
        files.fsync(ino, false).unwrap();
        self.logged += u64::from(pool.committed_txg() == before);
    }

    /// Whether a file system can be what is left after a cut. Names are those of one moment, of the
    /// last sync or later; what each file holds is of a moment since it was synced itself.
    fn check(&self, fs: &dyn FileSystem, cut: u64, context: &str) {
        let last = self.moments.iter().position(|moment| moment.time > cut);
        let last = last.unwrap_or(self.moments.len() - 1);
        let past = |moment: &Moment| moment.time <= cut;
        let durable = |is: &dyn Fn(Synced) -> bool| {
            let mut moments = self.moments.iter();
            let synced = |m: &Moment| past(m) && m.synced.is_some_and(is);
            moments.rposition(synced).unwrap_or(0)
        };
        let from = durable(&|_| true);
        let found = look(fs);
        let of = |model: &Model| -> BTreeMap<Vec<u8>, (Kind, u32)> {
            let picture = model.picture();
            let shape = |(path, seen): (Vec<u8>, Seen)| (path, (seen.kind, seen.nlink));
            picture.into_iter().map(shape).collect()
        };
        let shape: BTreeMap<_, _> = found
            .iter()
            .map(|(path, seen)| (path.clone(), (seen.kind, seen.nlink)))
            .collect();
        let mut same = (from..=last).filter(|n| of(&self.moments[*n].model) == shape);
        let fits = same.any(|n| {
            let paths = paths_of(&self.moments[n].model);
            paths.iter().all(|(path, id)| {
                let since = durable(&|s| s == Synced::All || s == Synced::File(*id));
                held(&self.moments[since..=last], *id, &found[path].contents)
            })
        });
        assert!(fits, "{context}");
    }
}

/// Whether a file held this at one of these moments.
fn held(moments: &[Moment], id: Id, contents: &[u8]) -> bool {
    let states = || {
        moments
            .iter()
            .filter_map(|m| Some(&m.model.nodes.get(&id)?.contents))
    };
    if states().any(|state| state == contents) {
        return true;
    }
    // Between two steps parts may be of either side.
    let parts = || contents.chunks(512).enumerate();
    let part_was = |n: usize, part: &[u8]| {
        states().any(|state| {
            state
                .get(n * 512..)
                .is_some_and(|rest| rest.starts_with(part))
        })
    };
    moments.iter().any(|m| m.took_steps)
        && states().any(|state| state.len() == contents.len())
        && parts().all(|(n, part)| part_was(n, part))
}

fn paths_of(model: &Model) -> BTreeMap<Vec<u8>, Id> {
    fn below(model: &Model, id: Id, path: &[u8], paths: &mut BTreeMap<Vec<u8>, Id>) {
        paths.insert(path.to_vec(), id);
        for (name, child) in &model.nodes[&id].children {
            below(model, *child, &[path, b"/", name].concat(), paths);
        }
    }
    let mut paths = BTreeMap::new();
    below(model, 0, b"", &mut paths);
    paths
}

fn survival(n: u64, dice: &mut Dice) -> Survival {
    match n % 4 {
        0 => Survival::None,
        1 => Survival::All,
        _ => Survival::Seeded(dice.below(u64::MAX)),
    }
}

fn device_of(image: Vec<u8>, clock: &FaultClock) -> Arc<FaultDevice> {
    Arc::new(FaultDevice::from_bytes(image, clock))
}

#[test]
fn what_was_synced_is_there_after_a_power_cut() {
    let mut logged = 0;
    for seed in seeds(0, 8) {
        let run = Run::new(seed, 80);
        logged += run.logged;
        let first = run.moments[0].time;
        let end = run.moments.last().unwrap().time;
        let mut dice = Dice(seed);
        for n in 0..30 {
            let cut = first + dice.below(end - first + 1);
            let survival = survival(n, &mut dice);
            let context = format!("seed {seed}, cut {cut}, {survival:?}");
            let pool = open_image(run.journal.image(cut, survival)).unwrap();
            assert_clean(&pool);
            let files = open_files(&pool, suite(run.seed), settings(seed), 0);
            run.check(files.as_ref(), cut, &context);
            files.sync_all().unwrap();
            assert_clean(&pool);
            files.close().unwrap();
            assert_clean(&pool);
            assert!(!pool.top().unwrap().log.exists(), "{context}");
        }
    }
    assert!(logged > 15, "only {logged} times was anything logged");
}

#[test]
fn a_power_cut_during_replay_loses_nothing() {
    for seed in seeds(100, 5) {
        let run = Run::new(seed, 60);
        let first = run.moments[0].time;
        let end = run.moments.last().unwrap().time;
        let mut dice = Dice(seed);
        for n in 0..6 {
            let cut = first + dice.below(end - first + 1);
            let image = run.journal.image(cut, survival(n, &mut dice));
            let clock = FaultClock::new();
            let device = device_of(image, &clock);
            let pool = open_pool(Arc::clone(&device)).unwrap();
            let files = open_files(&pool, suite(seed), settings(seed), 0);
            let whole = look(files.as_ref());
            files.sync_all().unwrap();
            drop((files, pool));
            let replay = device.take_journal();
            let times = replay.times();
            for m in 0..8 {
                let at = times
                    .first()
                    .map_or(0, |first| first + dice.below(times.len() as u64 + 1));
                let context = format!("seed {seed}, cut {cut}, then {at}");
                let again = open_image(replay.image(at, survival(m, &mut dice))).unwrap();
                assert_clean(&again);
                // Any number of imports lies between.
                again.commit().unwrap();
                let files = open_files(&again, suite(seed), settings(seed), 0);
                assert_eq!(look(files.as_ref()), whole, "{context}");
                assert_clean(&again);
            }
        }
    }
}

#[test]
fn sync_always_leaves_the_last_moment() {
    for seed in seeds(200, 4) {
        let clock = FaultClock::new();
        let device = fault_device(32 << 20, &clock);
        let pool = create_pool(&device, suite(seed));
        let settings = Settings {
            sync: SyncMode::Always,
            ..settings(seed)
        };
        let files = open_files(&pool, suite(seed), settings, 0);
        files.sync_all().unwrap();
        device.take_journal();
        let mut driver = Driver::new(seed);
        driver.size_max = 200_000;
        for _ in 0..50 {
            driver.step(files.as_ref());
        }
        let now = look(files.as_ref());
        let image = device.take_journal().image(u64::MAX, Survival::None);
        let pool = open_image(image).unwrap();
        let files = open_files(&pool, suite(seed), settings, 0);
        assert_eq!(look(files.as_ref()), now, "seed {seed}");
    }
}

/// A dataset in use whose log is set up, on a device that was flushed just now.
fn files_with_log(device: &Arc<FaultDevice>, suite: Option<Suite>) -> (Pool, Arc<Files>) {
    let pool = create_pool(device, suite);
    let files = open_files(&pool, suite, settings(0), 2);
    make(&files, "first");
    files.fsync(vfs::ROOT, false).unwrap();
    (pool, files)
}

fn make(files: &Files, name: &str) -> vfs::Ino {
    let node = vfs::NewNode {
        kind: Kind::File,
        mode: 0o600,
        umask: 0,
        rdev: 0,
    };
    let made = files.mknod(&ROOT_USER, vfs::ROOT, name.as_bytes(), &node);
    made.unwrap().ino
}

fn after_power_cut(device: &FaultDevice, suite: Option<Suite>) -> (Pool, Arc<Files>) {
    let image = device.take_journal().image(u64::MAX, Survival::None);
    let pool = open_image(image).unwrap();
    let files = open_files(&pool, suite, settings(0), 0);
    (pool, files)
}

#[test]
fn more_than_an_entry_holds_is_durable_too() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let (pool, files) = files_with_log(&device, suite);
    for count in [10, 3000] {
        for n in 0..count {
            make(&files, &format!("{count}-{n:0>200}"));
        }
        files.fsync(vfs::ROOT, false).unwrap();
    }
    drop((files, pool));
    let (_pool, files) = after_power_cut(&device, suite);
    assert_eq!(list(files.as_ref(), vfs::ROOT).len(), 1 + 10 + 3000);
}

#[test]
fn many_threads_sync_what_they_wrote_and_no_more_is_needed() {
    let device = fault_device(96 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let (pool, files) = files_with_log(&device, suite);
    let inos: Vec<_> = (0..6).map(|n| make(&files, &format!("file-{n}"))).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = inos
            .iter()
            .map(|ino| {
                let files = &files;
                scope.spawn(move || {
                    for n in 0..150u64 {
                        let offset = n * 37 % 50 * 4096;
                        files.write(*ino, offset, &[n as u8; 4096], false).unwrap();
                        files.fsync(*ino, false).unwrap();
                    }
                })
            })
            .collect();
        let keeper = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                pool.commit().unwrap();
                std::thread::yield_now();
            }
        });
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        keeper.join().unwrap();
        // No commit takes over what these leave in the log.
        for ino in &inos {
            files.write(*ino, 0, b"the last word", false).unwrap();
            files.fsync(*ino, false).unwrap();
        }
    });
    let before: Vec<_> = inos
        .iter()
        .map(|ino| read_all(files.as_ref(), *ino, 0, 1 << 20))
        .collect();
    drop((files, pool));
    let (pool, files) = after_power_cut(&device, suite);
    for (ino, before) in inos.iter().zip(&before) {
        assert!(before.starts_with(b"the last word"));
        assert!(read_all(files.as_ref(), *ino, 0, 1 << 20) == *before);
    }
    assert_clean(&pool);
}
