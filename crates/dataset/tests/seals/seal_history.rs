//! The history of seals: a state proves which states it grew from, after commits, power cuts, rollbacks and resizes; a
//! forged or damaged history proves nothing.

use std::sync::Arc;

use crate::common::*;
use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::Suite;
use dataset::{Ancestry, Dataset, Resealer, SealedState, Settings, Volume, ancestry};
use pool::{ArrayKind, Pool, Reseal, SealInput};
use vfs::{FileSystem, ROOT};

const SUITE: Suite = Suite::Xaes256Gcm;
/// More commits than a page of the history has seals.
const MANY: usize = 180;

fn state(pool: &Pool, id: u64) -> SealedState {
    let entry = pool.entry(id).unwrap();
    SealedState {
        sequence: entry.sequence,
        seal: entry.seal,
    }
}

fn compare(pool: &Pool, id: u64, earlier: &SealedState) -> Ancestry {
    ancestry(pool, id, data_keys(SUITE), earlier).unwrap().1
}

/// A small change, and a commit.
fn commit(files: &Dataset, mode: u16) {
    let change = vfs::SetAttr {
        mode: Some(mode % 0o777),
        ..Default::default()
    };
    files.setattr(&ROOT_USER, ROOT, &change).unwrap();
    files.sync_all().unwrap();
}

/// Commits, and returns the state before each.
fn grow(pool: &Pool, id: u64, files: &Dataset, times: usize) -> Vec<SealedState> {
    let commits = 0..times;
    let step = |n| {
        let before = state(pool, id);
        commit(files, n as u16 + 1);
        before
    };
    commits.map(step).collect()
}

fn forged(state: &SealedState) -> SealedState {
    let mut forged = *state;
    forged.seal[0] ^= 1;
    forged
}

#[test]
fn a_state_proves_all_that_it_grew_from() {
    let (device, pool, files) = opened(16 << 20, Some(SUITE), 0);
    let id = files.id();
    let mut states = grow(&pool, id, &files, MANY);
    // The history goes on after the dataset was closed.
    drop((files, pool));
    let pool = open_image(device.to_bytes()).unwrap();
    let files = open_files(&pool, Some(SUITE), Settings::default(), 0);
    states.extend(grow(&pool, id, &files, MANY));
    for state in &states {
        assert_eq!(compare(&pool, id, state), Ancestry::Later);
        if state.sequence > 0 {
            assert_eq!(compare(&pool, id, &forged(state)), Ancestry::Forked);
        }
    }
    let now = state(&pool, id);
    assert_eq!(compare(&pool, id, &now), Ancestry::Same);
    assert_eq!(compare(&pool, id, &forged(&now)), Ancestry::Forked);
    let future = SealedState {
        sequence: now.sequence + 1,
        ..now
    };
    assert_eq!(compare(&pool, id, &future), Ancestry::RolledBack);
    let features = pool.features();
    let has = |name| {
        features
            .iter()
            .any(|(feature, is_on)| feature.name == name && *is_on)
    };
    assert!(has("seal-history"));
    assert_clean(&pool);
}

#[test]
fn devices_that_were_put_back_are_older_and_later_forked() {
    let (device, pool, files) = opened(16 << 20, Some(SUITE), 0);
    let id = files.id();
    grow(&pool, id, &files, 5);
    let old = device.to_bytes();
    let common = state(&pool, id);
    grow(&pool, id, &files, 5);
    let anchor = state(&pool, id);
    drop((files, pool));

    let pool = open_image(old).unwrap();
    let files = open_files(&pool, Some(SUITE), Settings::default(), 0);
    assert_eq!(compare(&pool, id, &anchor), Ancestry::RolledBack);
    grow(&pool, id, &files, MANY);
    assert_eq!(compare(&pool, id, &anchor), Ancestry::Forked);
    assert_eq!(compare(&pool, id, &common), Ancestry::Later);
}

#[test]
fn a_rollback_and_a_clone_have_the_history_of_the_snapshot() {
    let (_, pool, files) = opened(16 << 20, Some(SUITE), 0);
    let id = files.id();
    let before = grow(&pool, id, &files, 4);
    snapshot(&pool, "tank@a");
    let at_snapshot = state(&pool, id);
    grow(&pool, id, &files, 3);
    let dropped = state(&pool, id);
    files.close().unwrap();
    drop(files);

    let sealer = Resealer::new(2, data_keys(SUITE)).unwrap();
    let clone = pool::NewClone {
        rotation: None,
        guid: 3,
        keyring: Some(Box::new(|_: u64| Ok(vec![1u8; 40]))),
        is_key_root: true,
        reseal: Some(Box::new(move |was: &pool::Entry, new: &SealInput| {
            let old = SealInput::of(was, 2);
            sealer
                .reseal(&old, &was.seal, new)
                .ok_or("another seal".into())
        })),
        props: Default::default(),
        is_rekeyed: false,
    };
    let made = pool
        .clone_snapshot("tank@a", "tank/copy", clone, &origin())
        .unwrap();
    let copy = pool.find("tank/copy").unwrap().id;
    drop(made);
    let of_clone = state(&pool, copy);
    assert_eq!(compare(&pool, copy, &of_clone), Ancestry::Same);
    let keys = Some(data_keys(SUITE));
    let settings = Settings::default();
    let open = Dataset::open(&engine(7, 0), &pool, copy, keys, settings, &ROOT_USER).unwrap();
    grow(&pool, copy, &open, 2);
    assert_eq!(compare(&pool, copy, &of_clone), Ancestry::Later);
    drop(open);

    pool.rollback("tank@a", false, &origin()).unwrap();
    assert_eq!(compare(&pool, id, &dropped), Ancestry::RolledBack);
    let files = open_files(&pool, Some(SUITE), settings, 0);
    grow(&pool, id, &files, 5);
    assert_eq!(compare(&pool, id, &dropped), Ancestry::Forked);
    assert_eq!(compare(&pool, id, &at_snapshot), Ancestry::Later);
    for state in before {
        assert_eq!(compare(&pool, id, &state), Ancestry::Later);
    }
}

fn write(volume: &Volume, byte: u8) {
    let bytes = [byte; 4096];
    volume
        .write_at(0, &[std::io::IoSlice::new(&bytes)])
        .unwrap();
    volume.dataset().sync_all().unwrap();
}

#[test]
fn a_volume_has_a_history_through_every_resize() {
    let device = fault_device(32 << 20, &FaultClock::new());
    let pool = create_pool(&device, Some(SUITE));
    let new = new_volume(Some(SUITE), 4 << 20, 4096);
    let id = pool.create_dataset("tank/vol", new, &origin()).unwrap().id;
    let keys = Some(data_keys(SUITE));
    let volume = Volume::open(&engine(7, 0), &pool, id, keys, Settings::default()).unwrap();
    let mut states = Vec::new();
    for round in 0..MANY {
        states.push(state(&pool, id));
        match round % 20 {
            // The last seals are those of resizes without a write, more than wait in the entry.
            0 => volume
                .resize((4 << 20) + 4096 * (round as u64 / 20 % 2), &origin())
                .unwrap(),
            _ => write(&volume, round as u8),
        }
    }
    volume.close().unwrap();
    drop(volume);
    for state in &states {
        assert_eq!(compare(&pool, id, state), Ancestry::Later, "{state:?}");
    }
    // Seals of a closed dataset wait in its entry; the oldest are dropped when there are too many.
    let resize = |size| {
        let sealer = Resealer::new(4, data_keys(SUITE)).unwrap();
        let reseal: Reseal = Box::new(move |was, new| {
            let old = SealInput::of(was, 4);
            sealer.reseal(&old, &was.seal, new).ok_or("another".into())
        });
        pool.resize_volume("tank/vol", size, Some(reseal), &origin())
            .unwrap();
    };
    let first = states.pop().unwrap();
    let mut waiting = Vec::new();
    for round in 0..80 {
        waiting.push(state(&pool, id));
        resize((4 << 20) + 4096 * (round % 2));
    }
    let found: Vec<Ancestry> = waiting.iter().map(|at| compare(&pool, id, at)).collect();
    assert!(
        found[..10]
            .iter()
            .all(|found| *found == Ancestry::BeginsLater)
    );
    assert!(found[20..].iter().all(|found| *found == Ancestry::Later));
    assert_eq!(compare(&pool, id, &first), Ancestry::Later);
}

#[test]
fn a_power_cut_at_any_write_leaves_a_whole_history() {
    let clock = FaultClock::new();
    let device = fault_device(16 << 20, &clock);
    let pool = create_pool(&device, Some(SUITE));
    let files = open_files(&pool, Some(SUITE), Settings::default(), 0);
    let id = files.id();
    // The next page of the history begins within the following commits.
    let mut states = grow(&pool, id, &files, 167);
    device.take_journal();
    let first = clock.now();
    states.extend(grow(&pool, id, &files, 6));
    let end = clock.now();
    let journal = device.take_journal();
    for cut in first..=end {
        for survival in [Survival::None, Survival::All, Survival::Seeded(cut)] {
            let pool = open_cut(&journal, cut, survival).unwrap();
            let now = state(&pool, id);
            for earlier in states.iter().filter(|at| at.sequence < now.sequence) {
                let found = compare(&pool, id, earlier);
                assert_eq!(found, Ancestry::Later, "cut {cut}");
            }
            if cut % 5 == 0 {
                let files = open_files(&pool, Some(SUITE), Settings::default(), 0);
                grow(&pool, id, &files, 1);
                assert_eq!(compare(&pool, id, &now), Ancestry::Later, "cut {cut}");
            }
        }
    }
}

#[test]
fn a_damaged_history_proves_nothing_and_does_not_stop_the_dataset() {
    let (device, pool, files) = opened(16 << 20, Some(SUITE), 0);
    let id = files.id();
    let states = grow(&pool, id, &files, 2 * MANY);
    files.close().unwrap();
    let (guid, image) = (pool.guid(), device.to_bytes());
    let open = pool.state_of(&pool.entry(id).unwrap()).unwrap();
    let is_history = |slot: &u64| {
        let ptr = open.get(ArrayKind::Pages, *slot).unwrap();
        *slot > 0 && ptr.identity.logical_size() == 4096
    };
    let slots: Vec<u64> = (0..100).filter(is_history).collect();
    assert_eq!(slots.len(), 3);
    for slot in slots {
        let ptr = open.get(ArrayKind::Pages, slot).unwrap();
        let sum = ptr.place.checksum;
        let mut damaged = image.clone();
        let blocks = damaged.chunks_exact_mut(4096);
        let mut copies = 0;
        for block in blocks.filter(|block| blake3::hash(block).as_bytes()[..16] == sum) {
            block[77] ^= 1;
            copies += 1;
        }
        assert_eq!(copies, 2);
        let device = Arc::new(FaultDevice::from_bytes(damaged, &FaultClock::new()));
        let pool = open_pool(device).unwrap();
        assert_eq!(pool.guid(), guid);
        let found: Vec<Ancestry> = states.iter().map(|at| compare(&pool, id, at)).collect();
        assert!(found.contains(&Ancestry::Unreadable));
        assert!(
            found
                .iter()
                .all(|found| [Ancestry::Unreadable, Ancestry::Later].contains(found))
        );
        let files = open_files(&pool, Some(SUITE), Settings::default(), 0);
        let now = grow(&pool, id, &files, 3);
        assert!(
            now.iter()
                .all(|at| compare(&pool, id, at) == Ancestry::Later)
        );
        for at in &states {
            let found = compare(&pool, id, at);
            assert_ne!(found, Ancestry::Forked);
        }
    }
}

#[test]
fn a_clear_dataset_has_no_history() {
    let (_, pool, files) = opened(16 << 20, None, 0);
    for n in 0..5 {
        commit(&files, n + 1);
    }
    let mut features = pool.features().into_iter();
    assert!(!features.any(|(feature, is_on)| feature.name == "seal-history" && is_on));
}
