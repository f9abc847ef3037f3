//! Differences between snapshots: they match two whole listings, and are found without reading the equal parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::driver::Driver;
use crate::common::look::list;
use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Dataset, Difference, DifferenceKind, Settings, diff};
use pool::{Entry, Pool};
use vfs::{Attr, FileSystem, Ino, Kind, NewNode, ROOT};

/// Enough memory for each comparison here.
const MEMORY: u64 = 1 << 30;
const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);

/// The listing of a snapshot: by inode its attributes and paths.
type Listing = BTreeMap<Ino, (Attr, BTreeSet<Vec<u8>>)>;

fn listing(pool: &Pool, entry: &Entry) -> Listing {
    let engine = engine(5, 0);
    let settings = Settings::default();
    let files = Dataset::open(
        &engine,
        pool,
        entry.id,
        SUITE.map(data_keys),
        settings,
        &ROOT_USER,
    );
    let mut all = Listing::new();
    below(files.unwrap().as_ref(), ROOT, b"", &mut all);
    all
}

fn below(fs: &dyn FileSystem, ino: Ino, path: &[u8], all: &mut Listing) {
    let attr = fs.getattr(ino).unwrap();
    let shown = if path.is_empty() { b"/" } else { path };
    let known = all.entry(ino).or_insert_with(|| (attr, BTreeSet::new()));
    known.1.insert(shown.to_vec());
    if attr.kind == Kind::Directory {
        for (name, child) in list(fs, ino).unwrap() {
            below(fs, child, &[path, b"/", &name].concat(), all);
        }
    }
}

/// The names that were told, by what became of them; of what was renamed both.
fn told(differences: &[Difference]) -> BTreeSet<(DifferenceKind, Vec<u8>)> {
    let mut all = BTreeSet::new();
    for found in differences {
        match &found.new_path {
            None => all.insert((found.change, found.path.clone())),
            Some(new_path) => {
                assert_eq!(found.change, DifferenceKind::Renamed);
                all.insert((DifferenceKind::Removed, found.path.clone()))
                    && all.insert((DifferenceKind::Added, new_path.clone()))
            }
        };
    }
    all
}

/// A name as it is seen: of which inode, in which directory.
fn names(all: &Listing) -> BTreeMap<Vec<u8>, (Ino, Ino)> {
    let by_path: BTreeMap<&Vec<u8>, Ino> = all
        .iter()
        .flat_map(|(ino, (_, paths))| paths.iter().map(move |path| (path, *ino)))
        .collect();
    let dir_of = |path: &Vec<u8>| {
        let at = path.iter().rposition(|byte| *byte == b'/').unwrap();
        match at {
            0 => ROOT,
            at => by_path[&path[..at].to_vec()],
        }
    };
    let all = by_path.iter().filter(|(path, _)| path.as_slice() != b"/");
    all.map(|(path, ino)| ((*path).clone(), (dir_of(path), *ino)))
        .collect()
}

/// Returns the expected differences of names: those of which the last part, the directory or the inode is another one.
fn expected(old: &Listing, new: &Listing) -> BTreeSet<(DifferenceKind, Vec<u8>)> {
    let last = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap().to_vec();
    let key = |(path, (dir, ino)): (&Vec<u8>, &(Ino, Ino))| (*dir, last(path), *ino);
    let (old, new) = (names(old), names(new));
    let old_keys: BTreeSet<_> = old.iter().map(key).collect();
    let new_keys: BTreeSet<_> = new.iter().map(key).collect();
    let gone = old.iter().filter(|name| !new_keys.contains(&key(*name)));
    let came = new.iter().filter(|name| !old_keys.contains(&key(*name)));
    gone.map(|(path, _)| (DifferenceKind::Removed, path.clone()))
        .chain(came.map(|(path, _)| (DifferenceKind::Added, path.clone())))
        .collect()
}

fn check(pool: &Pool, older: &Entry, newer: &Entry, context: &str) {
    let found = diff(
        pool,
        older,
        newer,
        SUITE.map(data_keys),
        &Arc::default(),
        MEMORY,
    )
    .unwrap();
    let (old, new) = (listing(pool, older), listing(pool, newer));
    let mut told = told(&found);
    told.retain(|(change, _)| *change != DifferenceKind::Modified);
    assert_eq!(told, expected(&old, &new), "{context}");
    let modified: BTreeSet<&Vec<u8>> = found
        .iter()
        .filter(|found| found.change == DifferenceKind::Modified)
        .map(|found| &found.path)
        .collect();
    for (ino, (attr, paths)) in &new {
        let Some((before, old_paths)) = old.get(ino) else {
            continue;
        };
        let is_told = paths.iter().any(|path| modified.contains(path));
        if before.ctime == attr.ctime {
            assert!(!is_told, "{context}: {paths:?}");
        } else if paths == old_paths && before.mtime != attr.mtime {
            assert!(is_told, "{context}: {paths:?}");
        }
    }
}

#[test]
fn random_histories() {
    for seed in seeds(0, 5) {
        let device = fault_device(192 << 20, &FaultClock::new());
        let pool = create_pool(&device, SUITE);
        let files = open_files(&pool, SUITE, Settings::default(), 0);
        let mut driver = Driver::new(seed);
        let mut all: Vec<Arc<Entry>> = Vec::new();
        for round in 0..6 {
            for _ in 0..[200, 1, 5, 40, 0, 20][round] {
                driver.step(files.as_ref()).unwrap();
            }
            let name = format!("tank@s{round}");
            pool.snapshot(std::slice::from_ref(&name), false, &origin())
                .unwrap();
            all.push(pool.find(&name).unwrap());
            device.take_journal();
        }
        for (at, older) in all.iter().enumerate() {
            for newer in &all[at..] {
                let context = format!("seed {seed}, {} to {}", older.name, newer.name);
                check(&pool, older, newer, &context);
            }
            let now = pool.entry(files.id()).unwrap();
            let found = diff(
                &pool,
                older,
                &now,
                SUITE.map(data_keys),
                &Arc::default(),
                MEMORY,
            )
            .unwrap();
            let last = diff(
                &pool,
                older,
                all.last().unwrap(),
                SUITE.map(data_keys),
                &Arc::default(),
                MEMORY,
            );
            assert_eq!(told(&found), told(&last.unwrap()));
        }
    }
}

/// The name that an inode was made under is gone, and it has another one elsewhere.
#[test]
fn what_lost_the_name_that_it_was_made_under() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let pool = create_pool(&device, SUITE);
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    let node = |kind| NewNode::new(kind, 0o755);
    let dir = files
        .mkdir(&ROOT_USER, ROOT, b"dir", &node(Kind::Directory))
        .unwrap();
    let file = files
        .create(&ROOT_USER, dir.ino, b"first", &node(Kind::File))
        .unwrap();
    files.link(file.ino, ROOT, b"second").unwrap();
    files.unlink(ROOT, b"second").unwrap();
    let snapshot = |name: &str| {
        snapshot(&pool, &format!("tank@{name}"));
        pool.find(&format!("tank@{name}")).unwrap()
    };
    let before = snapshot("before");
    files.write(file.ino, 0, b"new", false).unwrap();
    let after = snapshot("after");
    let found = diff(
        &pool,
        &before,
        &after,
        SUITE.map(data_keys),
        &Arc::default(),
        MEMORY,
    )
    .unwrap();
    let ended = Arc::new(true.into());
    let late = diff(&pool, &before, &after, SUITE.map(data_keys), &ended, MEMORY);
    assert!(late.is_err());
    let narrow = diff(
        &pool,
        &before,
        &after,
        SUITE.map(data_keys),
        &Arc::default(),
        100,
    );
    let error = narrow.unwrap_err();
    assert!(
        matches!(error, dataset::Error::Fs(vfs::Error::NoMemory)),
        "{error}"
    );
    let found: Vec<_> = found
        .iter()
        .map(|d| (d.change, d.path.as_slice()))
        .collect();
    assert_eq!(found, [(DifferenceKind::Modified, &b"/dir/first"[..])]);
}
