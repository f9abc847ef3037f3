//! Memory for password hashes that run at the same time.
//!
//! A stored slot says what a try at its passphrase costs, and another user may have written that. A daemon
//! gives all hashes together a part of the machine's memory. Hashes wait in turn for it: first those of
//! the user who has least of it, then the oldest. What needs more than there is in all is refused.
//!
//! A process that sets no budget, as a command of one user, has none to share.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// So many hashes wait at one time, at most.
const WAITING_MAX: usize = 256;

static BUDGET: Budget = Budget::new();

thread_local! {
    static USER: Cell<u32> = const { Cell::new(0) };
    static ALLOWED: Cell<u64> = const { Cell::new(0) };
}

/// Gives all password hashes of this process together this much memory, in KiB.
pub fn set_hash_memory(kib: u64) {
    BUDGET.set(kib);
}

/// What this thread hashes from now on counts as this user's.
pub fn hash_for(user: u32) {
    USER.set(user);
}

/// Lets one hash of this thread take up to so much memory, in KiB, also if that is more than the budget. It
/// runs alone then.
pub fn allow_hash_memory(kib: u64) {
    ALLOWED.set(kib);
}

/// Memory of a password hash with so many passes, until it is dropped. Waits until it is this hash's turn.
///
/// # Errors
/// [`Error::KdfBudget`] if it is more than there is in all; [`Error::KdfBusy`] if too many wait.
pub fn hash_memory(kib: u32, passes: u32) -> Result<HashMemory> {
    let cost = Cost {
        kib: kib.into(),
        passes,
        allowed: ALLOWED.get(),
    };
    BUDGET.take(USER.get(), cost)
}

/// What a hash takes.
#[derive(Clone, Copy, Debug)]
struct Cost {
    kib: u64,
    passes: u32,
    /// What it may take besides the budget, in KiB.
    allowed: u64,
}

/// What may be spent on trying one passphrase at several slots, in KiB of memory times passes.
#[derive(Debug)]
pub struct HashWork {
    left: u64,
    max: u64,
}

impl HashWork {
    /// So much for all slots together.
    pub fn new(max: u64) -> HashWork {
        HashWork { left: max, max }
    }

    /// Pays for a try, if there is enough left.
    ///
    /// # Errors
    /// [`Error::KdfWork`]; a cheaper try may still be paid for.
    pub fn spend(&mut self, work: u64) -> Result<()> {
        self.left = self.left.checked_sub(work).ok_or(Error::KdfWork {
            limit_gib: self.max >> 20,
        })?;
        Ok(())
    }
}

/// A share of the memory for password hashes.
#[derive(Debug)]
pub struct HashMemory {
    budget: &'static Budget,
    user: u32,
    kib: u64,
}

impl Drop for HashMemory {
    fn drop(&mut self) {
        self.budget.give_back(self.user, self.kib);
    }
}

/// One hash that has memory, or waits for it.
#[derive(Clone, Copy, Debug)]
struct Claim {
    ticket: u64,
    user: u32,
    kib: u64,
}

#[derive(Debug)]
struct State {
    /// Memory in all, in KiB; no bound if not said.
    limit: Option<u64>,
    running: Vec<Claim>,
    waiting: Vec<Claim>,
    next_ticket: u64,
}

impl State {
    /// The claim whose turn it is.
    fn first(&self) -> Option<u64> {
        let held = |user| -> u64 {
            let of_user = self.running.iter().filter(|claim| claim.user == user);
            of_user.map(|claim| claim.kib).sum()
        };
        let waiting = self.waiting.iter();
        let first = waiting.min_by_key(|claim| (held(claim.user), claim.ticket));
        first.map(|claim| claim.ticket)
    }

    fn fits(&self, kib: u64) -> bool {
        let used: u64 = self.running.iter().map(|claim| claim.kib).sum();
        // What is larger than the budget was allowed, and runs alone.
        used == 0 || self.limit.is_none_or(|limit| used + kib <= limit)
    }
}

#[derive(Debug)]
struct Budget {
    state: Mutex<State>,
    changed: Condvar,
}

impl Budget {
    const fn new() -> Budget {
        Budget {
            state: Mutex::new(State {
                limit: None,
                running: Vec::new(),
                waiting: Vec::new(),
                next_ticket: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// The state is consistent between statements, so a panic of another thread is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, kib: u64) {
        self.lock().limit = Some(kib);
        self.changed.notify_all();
    }

    fn take(&'static self, user: u32, cost: Cost) -> Result<HashMemory> {
        let kib = cost.kib;
        let mut state = self.lock();
        let limit = state.limit.filter(|limit| kib > *limit);
        if let Some(limit) = limit.filter(|_| kib > cost.allowed) {
            return Err(Error::KdfBudget {
                needed_mib: kib.div_ceil(1024),
                passes: cost.passes,
                limit_mib: limit / 1024,
            });
        }
        if state.waiting.len() >= WAITING_MAX {
            return Err(Error::KdfBusy);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let claim = Claim { ticket, user, kib };
        state.waiting.push(claim);
        while state.first() != Some(ticket) || !state.fits(kib) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.retain(|waiting| waiting.ticket != ticket);
        state.running.push(claim);
        // The next one may fit beside it.
        self.changed.notify_all();
        Ok(HashMemory {
            budget: self,
            user,
            kib,
        })
    }

    fn give_back(&self, user: u32, kib: u64) {
        let mut state = self.lock();
        let found = state
            .running
            .iter()
            .position(|claim| claim.user == user && claim.kib == kib);
        if let Some(index) = found {
            state.running.swap_remove(index);
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn budget(kib: u64) -> &'static Budget {
        let budget = Box::leak(Box::new(Budget::new()));
        budget.set(kib);
        budget
    }

    fn cost(kib: u64) -> Cost {
        Cost {
            kib,
            passes: 7,
            allowed: 0,
        }
    }

    fn wait_for(budget: &Budget, waiting: usize) {
        while budget.lock().waiting.len() < waiting {
            thread::yield_now();
        }
    }

    #[test]
    fn what_is_too_much_is_refused_with_its_cost() {
        let budget = budget(2 << 20);
        let error = budget.take(0, cost(4 << 20)).unwrap_err().to_string();
        assert!(
            error.contains("4096 MiB of memory in 7 passes") && error.contains("2048 MiB"),
            "{error}"
        );
        assert!(error.contains("--hash-memory 4096"), "{error}");
        drop(budget.take(0, cost(2 << 20)).unwrap());
        drop(budget.take(0, cost(2 << 20)).unwrap());
    }

    #[test]
    fn what_was_allowed_runs_alone() {
        let budget = budget(100);
        let allowed = Cost {
            allowed: 500,
            ..cost(500)
        };
        let refused = Cost {
            allowed: 499,
            ..allowed
        };
        budget.take(0, refused).unwrap_err();
        let held = budget.take(1, cost(40)).unwrap();
        let large = thread::spawn(move || drop(budget.take(0, allowed).unwrap()));
        wait_for(budget, 1);
        assert_eq!(budget.lock().running.len(), 1);
        drop(held);
        large.join().unwrap();
    }

    #[test]
    fn no_more_runs_than_fits() {
        let budget = budget(100);
        let workers: Vec<_> = (0..12)
            .map(|n| {
                thread::spawn(move || {
                    for _ in 0..50 {
                        let _held = budget.take(n % 3, cost(40)).unwrap();
                        let state = budget.lock();
                        let used: u64 = state.running.iter().map(|claim| claim.kib).sum();
                        assert!(used <= 100, "{used}");
                        drop(state);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        let state = budget.lock();
        assert!(state.running.is_empty() && state.waiting.is_empty());
    }

    /// One user has all of it and waits for more; the other one is next.
    #[test]
    fn users_take_turns() {
        let budget = budget(100);
        let held = budget.take(1, cost(60)).unwrap();
        let (done, order) = channel();
        let mut waiting = Vec::new();
        for (n, user) in [1, 1, 2].into_iter().enumerate() {
            let done = done.clone();
            waiting.push(thread::spawn(move || {
                let held = budget
                    .take(user, cost(if user == 2 { 40 } else { 60 }))
                    .unwrap();
                done.send(user).unwrap();
                drop(held);
            }));
            if user == 1 {
                wait_for(budget, n + 1);
            }
        }
        // It fits beside what the first one has, and does not wait for those that came before.
        assert_eq!(order.recv().unwrap(), 2);
        drop(held);
        assert_eq!((order.recv().unwrap(), order.recv().unwrap()), (1, 1));
        waiting
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn what_costs_too_much_in_all_is_not_paid_for() {
        let mut work = HashWork::new(1 << 28);
        for _ in 0..4 {
            work.spend(60 << 20).unwrap();
        }
        let refused = work.spend(60 << 20).unwrap_err();
        assert!(
            matches!(refused, Error::KdfWork { limit_gib: 256 }),
            "{refused}"
        );
        work.spend(16 << 20).unwrap();
        work.spend(0).unwrap();
        assert!(work.spend(1).is_err());
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let budget = budget(1);
        let held = budget.take(0, cost(1)).unwrap();
        let waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| thread::spawn(|| drop(budget.take(0, cost(1)).unwrap())))
            .collect();
        wait_for(budget, WAITING_MAX);
        assert!(matches!(budget.take(0, cost(1)), Err(Error::KdfBusy)));
        drop(held);
        waiting
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}
