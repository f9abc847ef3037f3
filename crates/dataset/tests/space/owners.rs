//! The use of users and groups is what their files take; and quotas are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::driver::Driver;
use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Dataset, Owner, Settings, Usage};
use pool::Pool;
use vfs::{Caller, Error, Fallocate, FileSystem, Ino, Kind, NewNode, ROOT, SetAttr};

const SUITE: Option<Suite> = Some(Suite::Xaes256Gcm);
const ANN: Caller = Caller { uid: 5, gid: 6 };
const BOB: Caller = Caller { uid: 7, gid: 6 };
const KIB: u64 = 1 << 10;

fn new_files() -> (Pool, Arc<Dataset>) {
    let pool = create_pool(&fault_device(64 << 20, &FaultClock::new()), SUITE);
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    (pool, files)
}

fn make(files: &Dataset, who: &Caller, name: &str) -> vfs::Result<Ino> {
    let node = NewNode::new(Kind::File, 0o644);
    files
        .create(who, ROOT, name.as_bytes(), &node)
        .map(|attr| attr.ino)
}

fn write(files: &Dataset, ino: Ino, offset: u64, len: u64) -> vfs::Result<()> {
    files.write(ino, offset, &vec![1; len as usize], false)
}

fn chown(files: &Dataset, ino: Ino, who: &Caller) -> vfs::Result<()> {
    let set = SetAttr {
        uid: Some(who.uid),
        gid: Some(who.gid),
        ..SetAttr::default()
    };
    files.setattr(&ROOT_USER, ino, &set).map(drop)
}

fn used(files: &Dataset, owner: Owner) -> Usage {
    files.account(owner).unwrap().expect("it is counted").used
}

fn user(files: &Dataset, who: &Caller) -> Usage {
    used(files, Owner::User(who.uid))
}

fn limit(files: &Dataset, owner: Owner, bytes: u64, objects: u64) {
    let set = files.set_account_limits(owner, |account| {
        account.quota = bytes;
        account.object_quota = objects;
    });
    set.unwrap();
}

fn assert_right(files: &Dataset, when: &str) {
    assert_eq!(files.check_owners().unwrap(), [], "{when}");
}

/// Returns the number of inodes found by walking the directories; links are counted once.
fn walked(files: &Dataset) -> BTreeMap<Owner, u64> {
    let mut all: BTreeMap<Owner, u64> = BTreeMap::new();
    let mut seen = Vec::new();
    let mut waiting = vec![ROOT];
    while let Some(ino) = waiting.pop() {
        if seen.contains(&ino) {
            continue;
        }
        seen.push(ino);
        let attr = files.getattr(ino).unwrap();
        for owner in [Owner::User(attr.uid), Owner::Group(attr.gid)] {
            *all.entry(owner).or_default() += 1;
        }
        if attr.kind == Kind::Directory {
            let mut emit = |entry: &vfs::DirEntry<'_>| {
                if !entry.name.starts_with(b".") {
                    waiting.push(entry.ino);
                }
                true
            };
            files.readdir(ino, 0, false, &mut emit).unwrap();
        }
    }
    all
}

#[test]
fn after_random_operations_each_user_has_what_the_files_take() {
    for seed in seeds(1, 12) {
        let (pool, files) = new_files();
        let mut driver = Driver::new(seed);
        for _ in 0..60 {
            driver.step(files.as_ref()).unwrap();
        }
        // Some begin with files that were not counted.
        files.count_owners().unwrap();
        for round in 0..6 {
            for _ in 0..40 {
                driver.step(files.as_ref()).unwrap();
            }
            assert_right(&files, &format!("seed {seed}, round {round}"));
            if round % 2 == 0 {
                pool.commit().unwrap();
            }
        }
        files.forget_all();
        let found = walked(&files);
        for (owner, account) in files.accounts().unwrap() {
            let found = found.get(&owner).copied().unwrap_or_default();
            assert_eq!(account.used.objects, found, "seed {seed}, {owner:?}");
        }
        let before = files.accounts().unwrap();
        files.close().unwrap();
        drop(files);
        let files = open_files(&pool, SUITE, Settings::default(), 0);
        assert_eq!(files.accounts().unwrap(), before);
        assert_right(&files, &format!("seed {seed}, opened again"));
    }
}

#[test]
fn promised_blocks_are_shown_and_not_counted() {
    let (_pool, files) = new_files();
    files.count_owners().unwrap();
    let ino = make(&files, &ANN, "a").unwrap();
    let shown = || files.getattr(ino).unwrap().blocks * 512;
    let counted = || files.account(Owner::User(5)).unwrap().unwrap().used.bytes;
    let extend = Fallocate::Allocate { keep_size: false };
    let keep = Fallocate::Allocate { keep_size: true };
    // Two bytes in two records.
    let record = u64::from(files.getattr(ino).unwrap().blksize);
    files.fallocate(ino, record - 1, 2, extend).unwrap();
    let promised = shown();
    assert_eq!((promised, counted()), (record + 4096, 0));
    write(&files, ino, record - 1, 2).unwrap();
    assert_eq!((shown(), counted()), (promised, promised));
    // The end of the file moves, and then what is promised with it.
    files.fallocate(ino, 0, 8 * record, extend).unwrap();
    assert_eq!((shown(), counted()), (8 * record, promised));
    let set = SetAttr {
        size: Some(6 * record),
        ..SetAttr::default()
    };
    files.setattr(&Caller::default(), ino, &set).unwrap();
    assert_eq!(shown(), 6 * record);
    files.fallocate(ino, 0, 6 * record, extend).unwrap();
    assert_eq!(shown(), 6 * record, "promised already");
    files
        .fallocate(ino, 2 * record, 3 * record, Fallocate::Punch)
        .unwrap();
    assert_eq!(shown(), 3 * record);
    // Beyond the end.
    files.fallocate(ino, 6 * record, record, keep).unwrap();
    assert_eq!((shown(), counted()), (4 * record, promised));
    let set = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    files.setattr(&Caller::default(), ino, &set).unwrap();
    assert_eq!((shown(), counted()), (0, 0));
    assert_right(&files, "in the end");
}

#[test]
fn what_is_counted_follows_owners() {
    let (_pool, files) = new_files();
    let ino = make(&files, &ANN, "a").unwrap();
    write(&files, ino, 0, 300 * KIB).unwrap();
    assert_eq!(
        files.account(Owner::User(5)).unwrap(),
        None,
        "counting has not been asked for"
    );
    files.count_owners().unwrap();
    let had = user(&files, &ANN);
    assert_eq!((had.bytes, had.objects), (300 * KIB, 1));
    assert_eq!(used(&files, Owner::Group(6)), had);
    write(&files, ino, 0, 100 * KIB).unwrap();
    assert_eq!(user(&files, &ANN), had, "the same is written over");
    chown(&files, ino, &BOB).unwrap();
    assert_eq!(user(&files, &ANN), Usage::default());
    assert_eq!(user(&files, &BOB), had);
    assert_eq!(used(&files, Owner::Group(6)), had);
    // A small file is in the tree.
    let small = make(&files, &ANN, "small").unwrap();
    write(&files, small, 0, 100).unwrap();
    assert_eq!(user(&files, &ANN).bytes, 100);
    // Open, and without a name: still there.
    files.unlink(ROOT, b"a").unwrap();
    assert_eq!(user(&files, &BOB), had);
    files.forget(ino, 1);
    assert_eq!(user(&files, &BOB), Usage::default());
    assert!(!files.accounts().unwrap().contains_key(&Owner::User(7)));
    assert_right(&files, "in the end");
}

#[test]
fn a_quota_is_kept_to_the_byte() {
    let (_pool, files) = new_files();
    limit(&files, Owner::User(5), 256 * KIB, 0);
    let ino = make(&files, &ANN, "a").unwrap();
    write(&files, ino, 0, 252 * KIB).unwrap();
    assert_eq!(write(&files, ino, 252 * KIB, 4097), Err(Error::Quota));
    write(&files, ino, 252 * KIB, 4096).unwrap();
    assert_eq!(user(&files, &ANN).bytes, 256 * KIB);
    assert_eq!(write(&files, ino, 256 * KIB, 1), Err(Error::Quota));
    let size = files.getattr(ino).unwrap().size;
    assert_eq!(size, 256 * KIB, "what was refused changed nothing");
    // What another user writes counts for the owner.
    let small = make(&files, &ANN, "small").unwrap();
    assert_eq!(write(&files, small, 0, 1), Err(Error::Quota));
    // What is there can be overwritten, and given away; no more can be given to this user.
    write(&files, ino, 0, 256 * KIB).unwrap();
    let other = make(&files, &BOB, "b").unwrap();
    write(&files, other, 0, 4 * KIB).unwrap();
    assert_eq!(chown(&files, other, &ANN), Err(Error::Quota));
    assert_eq!(files.getattr(other).unwrap().uid, BOB.uid);
    chown(&files, ino, &BOB).unwrap();
    chown(&files, other, &ANN).unwrap();
    // A copy counts, also where it shares what it copies.
    let copy = make(&files, &ANN, "copy").unwrap();
    let copied = files.copy_range(ino, 0, copy, 0, 256 * KIB);
    assert_eq!(copied, Err(Error::Quota));
    assert_eq!(files.copy_range(ino, 0, copy, 0, 128 * KIB), Ok(128 * KIB));
    // What goes is space at once.
    write(&files, copy, 128 * KIB, 124 * KIB).unwrap();
    assert_eq!(write(&files, other, 4 * KIB, 1), Err(Error::Quota));
    let cut = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    files.setattr(&ROOT_USER, copy, &cut).unwrap();
    write(&files, other, 4 * KIB, 252 * KIB).unwrap();
    // Less than there is refuses what is more, and nothing else.
    limit(&files, Owner::User(5), KIB, 0);
    write(&files, other, 0, 4 * KIB).unwrap();
    assert_eq!(write(&files, other, 256 * KIB, 1), Err(Error::Quota));
    files.unlink(ROOT, b"b").unwrap();
    limit(&files, Owner::User(5), 0, 0);
    write(&files, copy, 0, 1000 * KIB).unwrap();
    assert_right(&files, "in the end");
}

#[test]
fn groups_and_numbers_of_files_have_quotas_too() {
    let (pool, files) = new_files();
    limit(&files, Owner::Group(6), 64 * KIB, 0);
    limit(&files, Owner::User(5), 0, 2);
    let a = make(&files, &ANN, "a").unwrap();
    let b = make(&files, &BOB, "b").unwrap();
    write(&files, a, 0, 40 * KIB).unwrap();
    assert_eq!(write(&files, b, 0, 40 * KIB), Err(Error::Quota));
    make(&files, &ANN, "c").unwrap();
    assert_eq!(make(&files, &ANN, "d"), Err(Error::Quota));
    assert_eq!(files.lookup(ROOT, b"d"), Err(Error::NotFound));
    files.unlink(ROOT, b"c").unwrap();
    // It is open still.
    assert_eq!(make(&files, &ANN, "d"), Err(Error::Quota));
    let c = files.getattr(a).unwrap().ino + 2;
    files.forget(c, 1);
    make(&files, &ANN, "d").unwrap();
    // They are there when it is opened again.
    files.forget_all();
    files.close().unwrap();
    drop(files);
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    assert_eq!(make(&files, &ANN, "e"), Err(Error::Quota));
    let b = files.lookup(ROOT, b"b").unwrap().ino;
    assert_eq!(write(&files, b, 0, 40 * KIB), Err(Error::Quota));
    write(&files, b, 0, 24 * KIB).unwrap();
    assert_right(&files, "in the end");
}

#[test]
fn counting_goes_on_while_files_change() {
    let (_pool, files) = new_files();
    for n in 0..1500 {
        let ino = make(&files, &ANN, &format!("f{n}")).unwrap();
        write(&files, ino, 0, 10).unwrap();
        files.forget(ino, 1);
    }
    std::thread::scope(|scope| {
        let files = &files;
        let counter = scope.spawn(move || files.count_owners());
        scope.spawn(move || {
            let mut dice = Dice(1);
            let mut made = 0;
            while !files.counts_owners() || made < 200 {
                let name = format!("f{}", dice.below(1500));
                let Ok(attr) = files.lookup(ROOT, name.as_bytes()) else {
                    continue;
                };
                match dice.below(3) {
                    0 => write(files, attr.ino, 0, dice.below(9000)).unwrap(),
                    1 => chown(
                        files,
                        attr.ino,
                        if dice.below(2) == 0 { &ANN } else { &BOB },
                    )
                    .unwrap(),
                    _ => {
                        files.unlink(ROOT, name.as_bytes()).unwrap();
                        let ino = make(files, &BOB, &name).unwrap();
                        files.forget(ino, 1);
                    }
                }
                files.forget(attr.ino, 1);
                made += 1;
            }
        });
        counter.join().unwrap().unwrap();
    });
    assert_right(&files, "after both");
    assert_eq!(used(&files, Owner::Group(6)).objects, 1500);
}

#[test]
fn a_log_that_is_replayed_counts_too() {
    let clock = FaultClock::new();
    let device = fault_device(64 << 20, &clock);
    let pool = create_pool(&device, SUITE);
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    limit(&files, Owner::User(5), 64 * KIB, 0);
    let first = make(&files, &ANN, "first").unwrap();
    // The first sets the log up.
    files.fsync(first, false).unwrap();
    pool.commit().unwrap();
    let a = make(&files, &ANN, "a").unwrap();
    write(&files, a, 0, 60 * KIB).unwrap();
    chown(&files, first, &BOB).unwrap();
    let committed = pool.committed_txg();
    files.fsync(a, false).unwrap();
    let image = device.to_bytes();
    assert_eq!(pool.committed_txg(), committed, "the log did it");
    let pool = open_image(image).unwrap();
    pool.claim("here").unwrap();
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    assert_right(&files, "after the replay");
    assert_eq!(
        user(&files, &ANN),
        Usage {
            bytes: 60 * KIB,
            objects: 1
        }
    );
    assert_eq!(user(&files, &BOB).objects, 1);
    let a = files.lookup(ROOT, b"a").unwrap().ino;
    assert_eq!(write(&files, a, 60 * KIB, 8 * KIB), Err(Error::Quota));
}

#[test]
fn a_rollback_takes_counts_back() {
    let (pool, files) = new_files();
    files.count_owners().unwrap();
    let a = make(&files, &ANN, "a").unwrap();
    write(&files, a, 0, 40 * KIB).unwrap();
    snapshot(&pool, "tank@1");
    write(&files, a, 40 * KIB, 40 * KIB).unwrap();
    limit(&files, Owner::User(5), 100 * KIB, 0);
    files.close().unwrap();
    drop(files);
    pool.rollback("tank@1", false, &origin()).unwrap();
    let files = open_files(&pool, SUITE, Settings::default(), 0);
    assert_right(&files, "as it was");
    let account = files.account(Owner::User(5)).unwrap().unwrap();
    assert_eq!((account.used.bytes, account.quota), (40 * KIB, 0));
}
