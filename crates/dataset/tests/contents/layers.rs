//! Layers: a pool on a LUKS mapping on a volume of another pool. Whatever makes a block device can be under
//! whatever takes one:
//!
//! ```text
//! inner pool -> luks::Mapping -> dataset::Volume -> outer pool -> device
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use block::BlockDevice;
use block::fault::{FaultClock, Survival};
use cipher::{Suite, SystemRandom};
use dataset::{Dataset, Engine, EngineOptions, Settings, Volume};
use luks::{
    Container, ContainerFormat, ContainerVersion, KdfChoice, KdfKind, Mapping, MappingFlags,
    SlotChoice, Variant,
};
use pool::Pool;
use secret::Secret;
use store::{CreateOptions, Store};
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);

fn small_engine(threads: usize) -> Arc<Engine> {
    let options = EngineOptions {
        cache_bytes: 1 << 20,
        dirty_bytes: 4 << 20,
        seal_threads: threads,
    };
    Engine::new(options, Arc::new(SystemRandom), test_clock(), || {})
}

fn make_volume(outer: &Pool, size: u64) {
    let new = new_volume(SUITE, size, 16 << 10);
    outer.create_dataset("tank/vol", new, &origin()).unwrap();
}

fn open_volume(outer: &Pool, engine: &Arc<Engine>) -> Arc<dyn BlockDevice> {
    let id = outer.find("tank/vol").unwrap().id;
    let keys = SUITE.map(data_keys);
    let volume = Volume::open(engine, outer, id, keys, Settings::default());
    Arc::new(volume.unwrap())
}

fn passphrase() -> Secret {
    Secret::from_slice(b"between the two").unwrap()
}

/// Makes a LUKS2 container whose password hash costs next to nothing.
fn format(device: &Arc<dyn BlockDevice>) {
    let kind = KdfKind::Argon2(Variant::Argon2id);
    let slot = SlotChoice {
        kdf: KdfChoice {
            force_iterations: Some(4),
            memory_kib: 32,
            lanes: Some(1),
            ..KdfChoice::new(kind)
        },
        ..SlotChoice::new(ContainerVersion::V2)
    };
    let how = ContainerFormat {
        cipher: "aes-xts-plain64".into(),
        key_len: 64,
        sector_size: 4096,
        data_offset: Some(1 << 20),
        slot,
        ..ContainerFormat::new(
            ContainerVersion::V2,
            "5ae2903e-22b6-43a2-b884-f5e9640ee47b".into(),
        )
    };
    luks::format(Arc::clone(device), &how, &passphrase(), &SystemRandom).unwrap();
}

fn unlock(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    let container = Container::open(Arc::clone(&device), &SystemRandom).unwrap();
    let unlocked = container.unlock(&passphrase(), None).unwrap();
    let flags = MappingFlags {
        allow_discards: true,
        ..MappingFlags::default()
    };
    Arc::new(Mapping::open(&container, device, &unlocked.key, flags).unwrap())
}

fn make_inner(device: Arc<dyn BlockDevice>) -> Pool {
    let options = CreateOptions {
        pool_guid: 5,
        device_guids: vec![50],
        created: 1,
        // What was never written decrypts to noise.
        force: true,
    };
    let store = Arc::new(Store::create(vec![device], &options).unwrap());
    let pool = Pool::create(Arc::clone(&store), env(9), "inner", new_dataset(6, None));
    store.commit_labels().unwrap();
    pool.unwrap()
}

fn open_top(pool: &Pool, suite: Option<Suite>, engine: &Arc<Engine>) -> Arc<Dataset> {
    let id = pool.top().unwrap().id;
    let keys = suite.map(data_keys);
    Dataset::open(engine, pool, id, keys, Settings::default(), &ROOT_USER).unwrap()
}

fn file(files: &Dataset, name: &str) -> Ino {
    let node = NewNode::new(Kind::File, 0o600);
    files
        .create(&ROOT_USER, ROOT, name.as_bytes(), &node)
        .unwrap()
        .ino
}

/// Version after version of a file is written and synced in the inner pool. After a power cut at any moment it
/// is one that was synced, or the one after that.
#[test]
fn what_was_synced_is_there_after_a_power_cut() {
    const LEN: usize = 9000;
    let clock = FaultClock::new();
    let device = fault_device(48 << 20, &clock);
    let outer = create_pool(&device, SUITE);
    make_volume(&outer, 24 << 20);
    let engine = small_engine(0);
    let volume = open_volume(&outer, &engine);
    format(&volume);
    let inner = make_inner(unlock(volume));
    let files = open_top(&inner, None, &engine);
    let ino = file(&files, "versions");
    files.fsync(ROOT, false).unwrap();
    // By when which version was synced.
    let mut synced = Vec::new();
    for version in 1..=12u8 {
        files.write(ino, 0, &[version; LEN], false).unwrap();
        match version % 4 {
            0 => inner.commit().unwrap(),
            _ => files.fsync(ino, false).unwrap(),
        }
        synced.push((clock.now(), version));
        if version % 5 == 0 {
            outer.commit().unwrap();
        }
    }
    let begin = synced[0].0;
    let end = clock.now();
    drop((files, inner, outer));
    let journal = device.take_journal();
    let mut found = std::collections::BTreeSet::new();
    for cut in (begin..=end).step_by(3) {
        let outer = open_cut(&journal, cut, Survival::Seeded(cut)).unwrap();
        let engine = small_engine(0);
        let mapping = unlock(open_volume(&outer, &engine));
        let store = Store::open(vec![mapping]).unwrap();
        let inner = Pool::open(Arc::new(store), env(11), false).unwrap();
        let files = open_top(&inner, None, &engine);
        let ino = files.lookup(ROOT, b"versions").unwrap().ino;
        let bytes = look::read_all(files.as_ref(), ino, 0, 1 << 20).unwrap();
        let version = bytes[0];
        assert!(bytes == [version; LEN], "cut at {cut}");
        let is_before = |(at, _): &&(u64, u8)| *at <= cut;
        let (_, least) = *synced.iter().rfind(is_before).unwrap();
        assert!(
            (least..=least + 1).contains(&version),
            "cut at {cut}: {version}"
        );
        found.insert(version);
        drop(files);
        assert_clean(&inner);
        drop(inner);
        assert_clean(&outer);
    }
    assert!(found.len() > 8, "{found:?}");
}

/// Programs write to both pools, more than may wait in memory, with one thread that seals for both; commits of
/// both go on all the time. No thread waits for ever.
#[test]
fn both_pools_are_busy() {
    const LEN: usize = 3 << 20;
    let device = fault_device(400 << 20, &FaultClock::new());
    let outer = create_pool(&device, SUITE);
    make_volume(&outer, 100 << 20);
    let engine = small_engine(1);
    let volume = open_volume(&outer, &engine);
    format(&volume);
    let inner = make_inner(unlock(volume));
    let both = [
        open_top(&inner, None, &engine),
        open_top(&outer, SUITE, &engine),
    ];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let committers = [&inner, &outer].map(|pool| {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    pool.commit().unwrap();
                    std::thread::yield_now();
                }
            })
        });
        let writers: Vec<_> = (0..4usize)
            .map(|thread| {
                let files = &both[thread % 2];
                scope.spawn(move || {
                    let ino = file(files, &format!("{thread}"));
                    for version in 0..6 {
                        let data = vec![(thread * 10 + version) as u8; LEN];
                        for (n, piece) in data.chunks(256 << 10).enumerate() {
                            let offset = (n * (256 << 10)) as u64;
                            files.write(ino, offset, piece, false).unwrap();
                        }
                        if version % 2 == 0 {
                            files.fsync(ino, false).unwrap();
                        }
                    }
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        for committer in committers {
            committer.join().unwrap();
        }
    });
    for thread in 0..4usize {
        let files = &both[thread % 2];
        let name = format!("{thread}");
        let ino = files.lookup(ROOT, name.as_bytes()).unwrap().ino;
        let found = look::read_all(files.as_ref(), ino, 0, 1 << 30).unwrap();
        assert!(found == vec![(thread * 10 + 5) as u8; LEN], "{thread}");
    }
    let [of_inner, of_outer] = both;
    of_inner.close().unwrap();
    drop(of_inner);
    assert_clean(&inner);
    drop(inner);
    of_outer.close().unwrap();
    drop(of_outer);
    assert_clean(&outer);
}
