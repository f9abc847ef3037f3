//! Key holders of open datasets, and what a commit owes them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;

use crate::common::*;
use block::fault::FaultClock;
use parking_lot::Mutex;
use pool::{ArrayKind, DatasetHooks, OpenDataset, Pool, Result, SealInput, TxgWriter};

/// Seals with a number of its own, and does something in the middle of a commit.
struct Holder {
    number: u8,
    in_commit: Box<dyn Fn() + Send + Sync>,
    /// The number of commits that have visited the holder.
    visits: AtomicUsize,
}

impl DatasetHooks for Holder {
    fn freeze(&self, _: u64) {
        self.visits.fetch_add(1, Ordering::SeqCst);
    }

    fn sync(&self, _: &TxgWriter<'_>) -> Result<()> {
        (self.in_commit)();
        Ok(())
    }

    fn seal(&self, input: &SealInput) -> [u8; 32] {
        seal(self.number, input.sequence)
    }

    fn synced(&self, _: u64) {}
}

fn seal(number: u8, sequence: u64) -> [u8; 32] {
    [number ^ sequence as u8; 32]
}

fn dataset(pool: &Pool, name: &str) -> Arc<OpenDataset> {
    let guid = name.bytes().map(u64::from).sum();
    let entry = pool.create_dataset(name, new_dataset(guid), &origin());
    pool.open_dataset(entry.unwrap().id).unwrap()
}

fn hold(dataset: &OpenDataset, number: u8, in_commit: Box<dyn Fn() + Send + Sync>) -> Arc<Holder> {
    let visits = AtomicUsize::new(0);
    let holder = Arc::new(Holder {
        number,
        in_commit,
        visits,
    });
    let weak: Weak<Holder> = Arc::downgrade(&holder);
    dataset.attach(weak);
    holder
}

/// Someone closes a dataset while a commit is at work on it.
#[test]
fn a_holder_that_goes_during_a_commit_has_sealed_what_it_did() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let open = [dataset(&pool, "tank/a"), dataset(&pool, "tank/b")];
    // Each drops the other's holder, whichever comes first.
    let holders: Arc<Mutex<[Option<Arc<Holder>>; 2]>> = Arc::default();
    for (n, dataset) in open.iter().enumerate() {
        let all = Arc::clone(&holders);
        let drop_other = move || drop(all.lock()[1 - n].take());
        let holder = hold(dataset, 5 + n as u8, Box::new(drop_other));
        holders.lock()[n] = Some(holder);
    }
    for dataset in &open {
        put(&pool, dataset, ArrayKind::Data, 1, 7).unwrap();
    }
    pool.commit().unwrap();
    assert!(holders.lock().iter().all(Option::is_none));
    for (n, dataset) in open.iter().enumerate() {
        let entry = pool.entry(dataset.id()).unwrap();
        assert!(entry.sequence > 0 && !entry.roots[1].is_empty());
        assert_eq!(entry.seal, seal(5 + n as u8, entry.sequence));
    }
}

/// Changes that cannot be sealed any more are not committed.
#[test]
fn changes_of_a_holder_that_is_gone_are_dropped() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let open = dataset(&pool, "tank/a");
    let holder = hold(&open, 5, Box::new(|| ()));
    put(&pool, &open, ArrayKind::Data, 1, 7).unwrap();
    pool.commit().unwrap();
    let before = pool.entry(open.id()).unwrap();
    put(&pool, &open, ArrayKind::Data, 2, 8).unwrap();
    drop(holder);
    pool.commit().unwrap();
    let after = pool.entry(open.id()).unwrap();
    assert_eq!((after.roots, after.seal), (before.roots, before.seal));
    drop(open);
    pool.commit().unwrap();
    assert_clean(&pool);
}

/// A commit that is under way has everything, and is not done.
#[test]
fn committing_waits_for_the_commit_under_way() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let open = dataset(&pool, "tank/a");
    let (begun, has_begun) = channel();
    let (go_on, may_go_on): (Sender<()>, Receiver<()>) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let _holder = hold(
        &open,
        5,
        Box::new(move || {
            begun.send(()).unwrap();
            let _ = may_go_on.lock().recv();
        }),
    );
    put(&pool, &open, ArrayKind::Data, 1, 7).unwrap();
    let txg = pool.enter().unwrap().txg();
    let first = pool.clone();
    let first = thread::spawn(move || first.commit_through(txg).unwrap());
    has_begun.recv().unwrap();
    let is_back = Arc::new(AtomicBool::new(false));
    let second = thread::spawn({
        let (pool, is_back) = (pool.clone(), Arc::clone(&is_back));
        move || {
            pool.commit().unwrap();
            is_back.store(true, Ordering::SeqCst);
            pool.committed_txg()
        }
    });
    // It is given time to come back too early, as it would at once.
    for _ in 0..1000 {
        thread::yield_now();
    }
    assert!(!is_back.load(Ordering::SeqCst), "nothing is durable yet");
    drop(go_on);
    assert!(second.join().unwrap() >= txg);
    first.join().unwrap();
}

/// No change is said to be durable that a commit lost by panicking.
#[test]
fn a_commit_that_panics_suspends_the_pool() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let open = dataset(&pool, "tank/a");
    let _holder = hold(&open, 5, Box::new(|| panic!("a defect")));
    put(&pool, &open, ArrayKind::Data, 1, 7).unwrap();
    let txg = pool.enter().unwrap().txg();
    let other = pool.clone();
    assert!(thread::spawn(move || other.commit()).join().is_err());
    for _ in 0..2 {
        let refused = pool.commit_through(txg).unwrap_err();
        assert!(
            matches!(refused, pool::Error::Suspended { .. }),
            "{refused}"
        );
    }
    assert!(pool.commit().is_err());
}

/// A commit costs what changed, and not what is open.
#[test]
fn commits_visit_datasets_that_changed_and_no_others() {
    const COUNT: usize = 50;
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    let names = (0..COUNT).map(|n| format!("tank/{n}"));
    let open: Vec<_> = names.map(|name| dataset(&pool, &name)).collect();
    let holders: Vec<_> = open.iter().map(|d| hold(d, 5, Box::new(|| ()))).collect();
    let visits = || {
        let taken = holders.iter().map(|h| h.visits.swap(0, Ordering::SeqCst));
        taken.collect::<Vec<usize>>()
    };
    let only = |changed: usize| (0..COUNT).map(|n| usize::from(n == changed)).collect();
    let made = AtomicUsize::new(COUNT);
    let create = || {
        let number = made.fetch_add(1, Ordering::SeqCst);
        drop(dataset(&pool, &format!("tank/{number}")));
    };
    // What a holder had before it was attached is part of the next commit.
    create();
    assert_eq!(visits(), [1; COUNT]);
    // One more visit, for what a holder keeps until a commit is done.
    create();
    assert_eq!(visits(), [1; COUNT]);
    create();
    assert_eq!(visits(), [0; COUNT]);

    put(&pool, &open[7], ArrayKind::Data, 1, 7).unwrap();
    pool.commit().unwrap();
    let once: Vec<usize> = only(7);
    assert_eq!(visits(), once);
    assert!(!pool.entry(open[7].id()).unwrap().roots[1].is_empty());
    create();
    assert_eq!(visits(), once);
    create();
    assert_eq!(visits(), [0; COUNT]);

    // A dataset with a log is visited until it has none.
    open[9].want_log(1 << 20, 77);
    open[9].mark_changed(&pool.enter().unwrap());
    (0..5).for_each(|_| create());
    let mut found = visits();
    assert_eq!(std::mem::take(&mut found[9]), 5);
    assert_eq!(found, [0; COUNT]);
    assert!(pool.entry(open[9].id()).unwrap().log.exists());
    open[9].want_log(0, 0);
    (0..4).for_each(|_| create());
    visits();
    create();
    assert_eq!(visits(), [0; COUNT]);
    assert!(!pool.entry(open[9].id()).unwrap().log.exists());
    assert_clean(&pool);
}
