//! Changed logs, and logs beside an older state: the dataset is not opened, or shows a state that existed.

use std::sync::Arc;

use crate::common::look::list;
use crate::common::*;
use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::Suite;
use dataset::{Dataset, Error, LostEntries, Settings};
use pool::{LOG_HEADER, Pool};
use twox_hash::XxHash3_128;
use vfs::{FileSystem, Kind};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);
const UNIT: usize = 4096;

/// A dataset in use whose log is set up.
fn files_with_log() -> (Arc<FaultDevice>, Pool, Arc<Dataset>) {
    let (device, pool, files) = opened(64 << 20, SUITE, 0);
    make(&files, "first");
    files.fsync(vfs::ROOT, false).unwrap();
    (device, pool, files)
}

fn make(files: &Dataset, name: &str) -> vfs::Ino {
    let node = vfs::NewNode::new(Kind::File, 0o600);
    let made = files.mknod(&ROOT_USER, vfs::ROOT, name.as_bytes(), &node);
    made.unwrap().ino
}

/// Makes a file with an entry in the log, and no commit.
fn make_logged(pool: &Pool, files: &Dataset, name: &str) {
    let committed = pool.committed_txg();
    make(files, name);
    files.fsync(vfs::ROOT, false).unwrap();
    assert_eq!(pool.committed_txg(), committed, "it is in the log");
}

fn image(device: &FaultDevice) -> Vec<u8> {
    device.take_journal().image(u64::MAX, Survival::None)
}

fn open(image: &[u8], gives_up_log: bool) -> dataset::Result<(Pool, Arc<Dataset>)> {
    let pool = open_image(image.to_vec())?;
    let id = pool.top()?.id;
    let settings = Settings {
        gives_up_log,
        ..Settings::default()
    };
    let keys = SUITE.map(data_keys);
    let files = Dataset::open(&engine(8, 0), &pool, id, keys, settings, &ROOT_USER)?;
    Ok((pool, files))
}

/// Opening is refused after so many good entries, again and again, and with the log given up it shows these files.
fn is_refused(image: &[u8], good: u64, lost: u64, shown: &[&str]) {
    let lost = LostEntries {
        entries: lost,
        bytes: lost * (UNIT - LOG_HEADER) as u64,
    };
    is_refused_with(image, good, lost, shown);
}

fn is_refused_with(image: &[u8], good: u64, expected: LostEntries, shown: &[&str]) {
    let (pool, device) = {
        let device = Arc::new(FaultDevice::from_bytes(image.to_vec(), &FaultClock::new()));
        (open_pool(Arc::clone(&device)).unwrap(), device)
    };
    let id = pool.top().unwrap().id;
    for _ in 0..2 {
        let keys = SUITE.map(data_keys);
        let settings = Settings::default();
        let refused = Dataset::open(&engine(8, 0), &pool, id, keys, settings, &ROOT_USER);
        match refused.map(drop).unwrap_err() {
            Error::ForeignLog { good: n, lost, .. } => assert_eq!((n, lost), (good, expected)),
            other => panic!("{other}"),
        }
    }
    drop(pool);
    let after = device.take_journal().image(u64::MAX, Survival::All);
    let (pool, files) = open(&after, true).unwrap();
    let names = list(files.as_ref(), vfs::ROOT).unwrap();
    assert_eq!(names.len(), shown.len(), "{names:?}");
    for name in shown {
        files.lookup(vfs::ROOT, name.as_bytes()).unwrap();
    }
    let history = pool.history().unwrap();
    let noted = format!("gave up {expected}");
    assert!(history.iter().any(|line| line.text.contains(&noted)));
    files.close().unwrap();
    drop(files);
    assert_clean(&pool);
}

/// The units of entries of the log, in their order.
fn entries(image: &[u8]) -> Vec<usize> {
    let units = (0..image.len()).step_by(UNIT);
    let mut found: Vec<_> = units
        .filter(|at| image[*at..].starts_with(b"SR-LOGE3"))
        .collect();
    found.sort_by_key(|at| image[at + 32..at + 40].to_vec());
    found
}

/// Gives an entry of one unit the checksum that anyone can compute.
fn sum(entry: &mut [u8]) {
    let payload = XxHash3_128::oneshot(&entry[LOG_HEADER..UNIT]);
    let covered = [&entry[..160], &payload.to_le_bytes()].concat();
    let sum = cipher::hash(&covered);
    entry[160..192].copy_from_slice(&sum);
}

fn cut_superblocks_after(image: &mut [u8], txg: u64) {
    for frame in image.chunks_exact_mut(UNIT) {
        let number = u64::from_le_bytes(frame[16..24].try_into().unwrap());
        if frame.starts_with(b"SR-SUPER") && number > txg {
            frame.fill(0);
        }
    }
}

#[test]
fn an_older_state_does_not_take_newer_entries() {
    let (device, pool, files) = files_with_log();
    make_logged(&pool, &files, "a");
    let older = pool.committed_txg();
    // In no entry, only in the newer state.
    make(&files, "b");
    pool.commit().unwrap();
    make_logged(&pool, &files, "c");
    let mut image = image(&device);
    drop((files, pool));
    let (_, files) = open(&image, false).unwrap();
    for name in ["first", "a", "b", "c"] {
        files.lookup(vfs::ROOT, name.as_bytes()).unwrap();
    }
    drop(files);
    cut_superblocks_after(&mut image, older);
    is_refused(&image, 1, 1, &["first", "a"]);
}

/// Three entries, of which a hand changes one.
fn changed(change: impl FnOnce(&mut Vec<u8>, &[usize])) -> Vec<u8> {
    let (device, pool, files) = files_with_log();
    for name in ["a", "b", "c"] {
        make_logged(&pool, &files, name);
    }
    let mut image = image(&device);
    drop((files, pool));
    let found = entries(&image);
    assert_eq!(found.len(), 3);
    change(&mut image, &found);
    image
}

#[test]
fn a_changed_entry_does_not_end_a_log_in_silence() {
    for byte in [40, 56, 64, 128, 144, LOG_HEADER, LOG_HEADER + 100] {
        let image = changed(|image, found| {
            image[found[1] + byte] ^= 1;
            sum(&mut image[found[1]..]);
        });
        let is_bound = byte != 56;
        match is_bound {
            true => is_refused(&image, 1, 2, &["first", "a"]),
            // A byte that means nothing.
            false => drop(open(&image, false).unwrap()),
        }
    }
}

/// The entry after it says that it was durable.
#[test]
fn a_damaged_entry_does_not_end_a_log_in_silence() {
    let image = changed(|image, found| image[found[1] + 1000] ^= 1);
    let lost = LostEntries {
        entries: 1,
        bytes: 0,
    };
    is_refused_with(&image, 1, lost, &["first", "a"]);
}

#[test]
fn an_entry_is_taken_only_at_its_place() {
    let moved = changed(|image, found| {
        let (second, third) = (found[1], found[2]);
        let tag = image[second + 88..second + 104].to_vec();
        image.copy_within(second..second + UNIT, third);
        image[third + 32] += 1;
        image[third + 144..third + 160].copy_from_slice(&tag);
        sum(&mut image[third..]);
    });
    is_refused(&moved, 2, 1, &["first", "a", "b"]);
}

#[test]
fn an_entry_of_the_older_kind_is_not_taken_in_a_log_of_the_newer_one() {
    let older = changed(|image, found| {
        image[found[2]..][..8].copy_from_slice(b"SR-LOGE2");
        sum(&mut image[found[2]..]);
    });
    is_refused(&older, 2, 1, &["first", "a", "b"]);
}

#[test]
fn a_log_that_was_cut_off_is_replayed_as_far_as_it_goes() {
    let cut = changed(|image, found| image[found[2]..][..UNIT].fill(0));
    let (_pool, files) = open(&cut, false).unwrap();
    assert_eq!(list(files.as_ref(), vfs::ROOT).unwrap().len(), 3);
}
