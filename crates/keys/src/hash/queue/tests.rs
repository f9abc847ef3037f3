use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use super::*;

const FIRST: HashPayer = HashPayer::User(1001);
const SECOND: HashPayer = HashPayer::User(1002);

/// A queue with this much memory for all, and this many hashes of users.
fn queue(memory_kib: u64, running: usize) -> &'static HashQueue {
    let queue = Box::leak(Box::new(HashQueue::new()));
    queue.limit(HashLimits {
        memory_kib,
        running,
    });
    queue
}

fn cost(memory_kib: u64) -> HashDemand {
    HashDemand {
        memory_kib,
        passes: 7,
        allowed_kib: 0,
    }
}

impl HashQueue {
    /// Enters for a caller who stays.
    fn take(&'static self, payer: HashPayer, cost: HashDemand) -> Result<HashMemory> {
        self.enter(payer, cost, &|| false)
    }

    fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

fn wait_for(queue: &HashQueue, waiting: usize) {
    while queue.waiting() != waiting {
        thread::yield_now();
    }
}

/// Hashes that wait in the order of the list, and then run one after the other, because `held` has all places.
/// Returns the order in which they ran.
fn order_of(
    queue: &'static HashQueue,
    held: HashMemory,
    hashes: &[(HashPayer, HashDemand)],
) -> Vec<HashPayer> {
    let (done, order) = channel();
    let before = queue.waiting();
    let mut threads = Vec::new();
    for (n, (payer, cost)) in hashes.iter().cloned().enumerate() {
        let done = done.clone();
        threads.push(thread::spawn(move || {
            let held = queue.take(payer, cost).unwrap();
            done.send(payer).unwrap();
            drop(held);
        }));
        wait_for(queue, before + n + 1);
    }
    drop((held, done));
    let order = order.iter().collect();
    join(threads);
    order
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_hash_larger_than_the_budget_is_refused_with_its_cost() {
    let queue = queue(2 << 20, 1);
    let admin = HashPayer::Root;
    let error = queue.take(admin, cost(4 << 20)).unwrap_err().to_string();
    assert!(
        error.contains("4096 MiB of memory in 7 passes") && error.contains("2048 MiB"),
        "{error}"
    );
    assert!(error.contains("--hash-memory 4096"), "{error}");
    drop(queue.take(admin, cost(2 << 20)).unwrap());
    drop(queue.take(FIRST, cost(2 << 20)).unwrap());
}

#[test]
fn an_allowed_hash_runs_alone() {
    let queue = queue(100, 9);
    let allowed = HashDemand {
        allowed_kib: 500,
        ..cost(500)
    };
    let refused = HashDemand {
        allowed_kib: 499,
        ..allowed
    };
    queue.take(HashPayer::Root, refused).unwrap_err();
    let held = queue.take(FIRST, cost(40)).unwrap();
    let large = thread::spawn(move || drop(queue.take(HashPayer::Root, allowed).unwrap()));
    wait_for(queue, 1);
    assert_eq!(queue.lock().running.len(), 1);
    drop(held);
    large.join().unwrap();
}

#[test]
fn no_more_runs_than_fits() {
    let queue = queue(100, 9);
    let work = |n: u32| {
        let payer = match n % 3 {
            0 => HashPayer::Root,
            n => HashPayer::User(n),
        };
        for _ in 0..50 {
            let _held = queue.take(payer, cost(40)).unwrap();
            let state = queue.lock();
            let used: u64 = state.running.iter().map(|claim| claim.memory_kib).sum();
            assert!(used <= 100, "{used}");
            drop(state);
            thread::yield_now();
        }
    };
    join((0..12).map(|n| thread::spawn(move || work(n))).collect());
    let state = queue.lock();
    assert!(state.running.is_empty() && state.waiting.is_empty() && state.finish.is_empty());
}

/// A user queued many hashes; root comes last, and is next.
#[test]
fn root_is_next() {
    let queue = queue(100, 1);
    let held = queue.take(SECOND, cost(60)).unwrap();
    let mut hashes = vec![(FIRST, cost(60)); WAITING_PER_USER];
    hashes.push((HashPayer::Root, cost(60)));
    let order = order_of(queue, held, &hashes);
    assert_eq!(order[0], HashPayer::Root);
    assert_eq!(order.len(), hashes.len());
}

/// Other users cause logins of the first user.
#[test]
fn logins_take_no_turn_of_their_user() {
    let queue = queue(100, 1);
    let held = queue.take(SECOND, cost(60)).unwrap();
    let login = (HashPayer::Login(1001), cost(60));
    let mut hashes = vec![login; WAITING_PER_USER];
    hashes.push((FIRST, cost(60)));
    hashes.push((HashPayer::Root, cost(60)));
    let order = order_of(queue, held, &hashes);
    assert_eq!(order[..3], [HashPayer::Root, login.0, FIRST]);
}

/// Users cannot take the share that is reserved, in memory or in processors.
#[test]
fn root_starts_at_once_in_the_reserved_share() {
    let queue = queue(400 << 10, 2);
    let users = [FIRST, SECOND].map(|user| queue.take(user, cost(150 << 10)).unwrap());
    let admin = queue.take(HashPayer::Root, cost(100 << 10)).unwrap();
    drop((users, admin));
    // A third user would fit into the memory, and waits for a processor.
    let _users = [FIRST, SECOND].map(|user| queue.take(user, cost(10)).unwrap());
    let third = thread::spawn(|| drop(queue.take(HashPayer::User(3), cost(10)).unwrap()));
    wait_for(queue, 1);
    drop(queue.take(HashPayer::Root, cost(10)).unwrap());
    drop(_users);
    third.join().unwrap();
}

/// A hash larger than the share of users runs alone among users.
#[test]
fn a_large_hash_of_a_user_runs_without_other_users() {
    let queue = queue(100, 9);
    let large = queue.take(FIRST, cost(90)).unwrap();
    let other = thread::spawn(|| drop(queue.take(SECOND, cost(5)).unwrap()));
    wait_for(queue, 1);
    drop(queue.take(HashPayer::Root, cost(10)).unwrap());
    assert_eq!(queue.waiting(), 1);
    drop(large);
    other.join().unwrap();
}

/// The first user queued many hashes before the second one came.
#[test]
fn users_take_turns() {
    let queue = queue(100, 1);
    let held = queue.take(HashPayer::User(9), cost(40)).unwrap();
    let first = (FIRST, cost(40));
    let second = (SECOND, cost(40));
    let hashes = [&first, &first, &first, &second, &second].map(Clone::clone);
    let order = order_of(queue, held, &hashes);
    assert_eq!(order, [FIRST, SECOND, FIRST, SECOND, FIRST]);
}

/// The user whose hashes cost most waits longest.
#[test]
fn the_user_with_the_least_work_is_next() {
    let queue = queue(100, 1);
    let held = queue.take(HashPayer::User(9), cost(40)).unwrap();
    let (dear, cheap) = ((FIRST, cost(40)), (SECOND, cost(10)));
    let hashes = [&dear, &dear, &cheap, &cheap, &cheap, &cheap].map(Clone::clone);
    let order = order_of(queue, held, &hashes);
    assert_eq!(order, [FIRST, SECOND, SECOND, SECOND, SECOND, FIRST]);
}

/// The first user has run a costly hash, and then root many costlier ones.
#[test]
fn hashes_of_root_leave_the_work_of_users_counted() {
    let queue = queue(100, 2);
    // The queue is never empty.
    let running = queue.take(HashPayer::User(8), cost(1)).unwrap();
    drop(queue.take(FIRST, cost(40)).unwrap());
    for _ in 0..3 {
        drop(queue.take(HashPayer::Root, cost(90)).unwrap());
    }
    let held = queue.take(HashPayer::User(9), cost(40)).unwrap();
    let order = order_of(queue, held, &[(FIRST, cost(40)), (SECOND, cost(40))]);
    assert_eq!(order, [SECOND, FIRST]);
    drop(running);
}

#[test]
fn a_user_has_one_running_hash() {
    let queue = queue(100, 9);
    let held = queue.take(FIRST, cost(10)).unwrap();
    let again = thread::spawn(|| drop(queue.take(FIRST, cost(10)).unwrap()));
    wait_for(queue, 1);
    // Another one has a place.
    drop(queue.take(SECOND, cost(10)).unwrap());
    assert_eq!(queue.waiting(), 1);
    drop(held);
    again.join().unwrap();
}

#[test]
fn the_hash_of_a_caller_who_has_gone_leaves_the_queue() {
    let queue = queue(100, 1);
    let held = queue.take(FIRST, cost(60)).unwrap();
    let has_gone = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_gone);
    let gone = thread::spawn(move || {
        let is_gone = || flag.load(Ordering::Acquire);
        queue.enter(SECOND, cost(60), &is_gone).map(drop)
    });
    wait_for(queue, 1);
    has_gone.store(true, Ordering::Release);
    let left = gone.join().unwrap();
    assert!(matches!(left, Err(Error::KdfGone)), "{left:?}");
    // The one that runs keeps its place.
    assert_eq!((queue.waiting(), queue.lock().running.len()), (0, 1));
    let refused = queue.enter(SECOND, cost(1), &|| true);
    assert!(matches!(refused, Err(Error::KdfGone)));
    drop(held);
}

#[test]
fn the_queue_of_one_user_is_full_and_others_still_wait() {
    let queue = queue(1, 1);
    let held = queue.take(HashPayer::Root, cost(1)).unwrap();
    let wait = |payer: HashPayer| thread::spawn(move || drop(queue.take(payer, cost(1)).unwrap()));
    let mut waiting: Vec<_> = (0..WAITING_PER_USER).map(|_| wait(FIRST)).collect();
    wait_for(queue, waiting.len());
    assert!(matches!(queue.take(FIRST, cost(1)), Err(Error::KdfBusy)));
    for user in 0..(WAITING_MAX - WAITING_PER_USER) as u32 {
        waiting.push(wait(HashPayer::User(user)));
    }
    wait_for(queue, WAITING_MAX);
    assert!(matches!(queue.take(SECOND, cost(1)), Err(Error::KdfBusy)));
    // Users do not fill the root's places, nor those of logins.
    waiting.push(wait(HashPayer::Root));
    waiting.push(wait(HashPayer::Login(1001)));
    wait_for(queue, WAITING_MAX + 2);
    drop(held);
    join(waiting);
}
