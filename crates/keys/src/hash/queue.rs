//! The queue of password hashes: which hash runs next, and with which memory.
//!
//! A stored slot says what a try at its passphrase costs, and another user may have written that. All hashes of a
//! daemon share memory and processors:
//!
//! - Root is next, always, and has a reserved share of the memory. So a hash of root starts
//!   at once, or after hashes that run already.
//! - Users take turns: the user with the fewest running hashes is next. Then it is the user with the least work so
//!   far. Work is memory times passes. A user who comes back from a pause has no credit for it (start-time fair
//!   queueing).
//! - Each user has one running hash and a few that wait; all users together have few running hashes.
//! - The logins of a user count as another user, because other users cause them. They take no place of a user in the
//!   queue.
//! - A hash whose caller has gone leaves the queue.
//!
//! A process without a limit, such as a command, has no queue.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Error, Result};

/// The most hashes of one user that run at a time.
const RUNNING_PER_USER: usize = 1;
/// The most hashes of one user that wait.
const WAITING_PER_USER: usize = 8;
/// The most hashes of all users that wait. As many of the root's wait, and as many of logins.
const WAITING_MAX: usize = 256;
/// The root's share of the memory: one part in so many, and at least [`RESERVE_LEAST`].
const RESERVE: u64 = 4;
/// The least share of root, in KiB, if it is not more than half: the least new slot of a dataset.
const RESERVE_LEAST: u64 = MEMORY_KIB_LEAST as u64;
/// The least memory of a new slot, in KiB, where the machine has it: 64 MiB.
pub(crate) const MEMORY_KIB_LEAST: u32 = 64 << 10;
/// The time after which a waiting hash looks whether its caller is still there.
const LOOK: Duration = Duration::from_millis(100);

/// The user who pays for hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HashPayer {
    /// Root, or the user who runs the daemon.
    Root,
    /// A user of this machine, by uid.
    User(u32),
    /// All users of a zone, by the guid of its root.
    Tenant(u64),
    /// The logins of a user, by uid. Each local user can cause some.
    Login(u32),
}

impl HashPayer {
    /// Returns whether the waiting hashes of both share one limit of the queue.
    fn shares_places(self, other: HashPayer) -> bool {
        let kind = |payer| match payer {
            HashPayer::Root => 0,
            HashPayer::User(_) | HashPayer::Tenant(_) => 1,
            HashPayer::Login(_) => 2,
        };
        kind(self) == kind(other)
    }
}

/// The cost of one hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashDemand {
    pub(crate) memory_kib: u64,
    pub(crate) passes: u32,
    /// The memory that it may take besides the limit, in KiB. It runs alone then.
    pub(crate) allowed_kib: u64,
}

impl HashDemand {
    fn work(&self) -> u64 {
        self.memory_kib.max(1) * u64::from(self.passes)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HashLimits {
    /// The memory of all hashes together, in KiB.
    pub(crate) memory_kib: u64,
    /// The running hashes of all users together, without the root's.
    pub(crate) running: usize,
}

impl HashLimits {
    /// The memory of all users together, in KiB, without the root's share.
    pub(crate) fn of_users(&self) -> u64 {
        self.memory_kib - self.reserved_for_root()
    }

    /// The root's share, in KiB. No slot that is made here takes more.
    pub(crate) fn reserved_for_root(self) -> u64 {
        let reserve = (self.memory_kib / RESERVE).max(RESERVE_LEAST);
        reserve.min(self.memory_kib / 2)
    }
}

/// A hash that runs or waits.
#[derive(Clone, Debug)]
struct HashJob {
    ticket: u64,
    payer: HashPayer,
    memory_kib: u64,
    work: u64,
}

#[derive(Debug, Default)]
struct State {
    limits: Option<HashLimits>,
    running: Vec<HashJob>,
    waiting: Vec<HashJob>,
    next_ticket: u64,
    /// The end of the work of each user, in the time of `now`.
    finish: BTreeMap<HashPayer, u64>,
    /// The start of the hash of a user that began last, in units of work.
    now: u64,
}

impl State {
    fn running_of(&self, payer: HashPayer) -> usize {
        self.running.iter().filter(|c| c.payer == payer).count()
    }

    fn start_of(&self, payer: HashPayer) -> u64 {
        let finish = self.finish.get(&payer).copied().unwrap_or_default();
        finish.max(self.now)
    }

    /// The claim that is next.
    fn first(&self) -> Option<&HashJob> {
        let order = |claim: &&HashJob| match claim.payer {
            HashPayer::Root => (0, 0, claim.ticket),
            _ => {
                let running = self.running_of(claim.payer);
                (1 + running, self.start_of(claim.payer), claim.ticket)
            }
        };
        let may = |claim: &&HashJob| {
            claim.payer == HashPayer::Root || self.running_of(claim.payer) < RUNNING_PER_USER
        };
        self.waiting.iter().filter(may).min_by_key(order)
    }

    fn fits(&self, claim: &HashJob) -> bool {
        let Some(limits) = self.limits else {
            return true;
        };
        let sum = |claims: &mut dyn Iterator<Item = &HashJob>| -> u64 {
            claims.map(|claim| claim.memory_kib).sum()
        };
        let used = sum(&mut self.running.iter());
        // A hash larger than the limit was allowed, and runs alone.
        let fits = used == 0 || used + claim.memory_kib <= limits.memory_kib;
        if claim.payer == HashPayer::Root {
            return fits;
        }
        let users = || self.running.iter().filter(|c| c.payer != HashPayer::Root);
        // So does a hash of a user that is larger than the share of users, apart from the root's.
        let has_share =
            users().next().is_none() || sum(&mut users()) + claim.memory_kib <= limits.of_users();
        fits && has_share && users().count() < limits.running
    }

    /// Refuses a hash that can never run, and one too many.
    fn check(&self, payer: HashPayer, cost: HashDemand) -> Result<()> {
        let Some(limits) = self.limits else {
            return Ok(());
        };
        if cost.memory_kib > limits.memory_kib.max(cost.allowed_kib) {
            return Err(Error::KdfBudget {
                needed_mib: cost.memory_kib.div_ceil(1024),
                passes: cost.passes,
                limit_mib: limits.memory_kib / 1024,
            });
        }
        let waiting = self.waiting.iter().map(|claim| claim.payer);
        let of_kind = waiting.clone().filter(|other| other.shares_places(payer));
        let of_payer = waiting.filter(|other| *other == payer);
        let is_full = payer != HashPayer::Root && of_payer.count() >= WAITING_PER_USER;
        match is_full || of_kind.count() >= WAITING_MAX {
            true => Err(Error::KdfBusy),
            false => Ok(()),
        }
    }

    fn start(&mut self, ticket: u64) {
        let Some(index) = self.waiting.iter().position(|c| c.ticket == ticket) else {
            return;
        };
        let claim = self.waiting.remove(index);
        // Root takes no turns, so the time of users stands still meanwhile.
        if claim.payer != HashPayer::Root {
            self.now = self.start_of(claim.payer);
            let finish = self.now.saturating_add(claim.work);
            self.finish.insert(claim.payer, finish);
        }
        self.running.push(claim);
    }

    /// Forgets a claim. Work counts among users who want something at the same time, so an empty queue forgets it.
    fn leave(&mut self, ticket: u64) {
        self.waiting.retain(|claim| claim.ticket != ticket);
        self.running.retain(|claim| claim.ticket != ticket);
        if self.waiting.is_empty() && self.running.is_empty() {
            self.finish.clear();
            self.now = 0;
        }
    }
}

/// The hashes of a process.
#[derive(Debug)]
pub(crate) struct HashQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl HashQueue {
    pub(crate) const fn new() -> HashQueue {
        HashQueue {
            state: Mutex::new(State {
                limits: None,
                running: Vec::new(),
                waiting: Vec::new(),
                next_ticket: 0,
                finish: BTreeMap::new(),
                now: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// The state is consistent between statements, so a panic of another thread is no reason to stop.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> Option<HashLimits> {
        self.lock().limits
    }

    pub(crate) fn limit(&self, limits: HashLimits) {
        self.lock().limits = Some(limits);
        self.changed.notify_all();
    }

    /// Waits until a hash may run. `is_gone` says whether its caller has gone.
    pub(crate) fn enter(
        &'static self,
        payer: HashPayer,
        cost: HashDemand,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<HashMemory> {
        let mut state = self.lock();
        state.check(payer, cost)?;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let claim = HashJob {
            ticket,
            payer,
            memory_kib: cost.memory_kib,
            work: cost.work(),
        };
        state.waiting.push(claim.clone());
        // From here on, dropping it leaves the queue.
        let place = HashMemory {
            queue: self,
            ticket,
        };
        loop {
            drop(state);
            // It may be a system call, and the caller of another hash may be next.
            if is_gone() {
                return Err(Error::KdfGone);
            }
            state = self.lock();
            let is_next = state.first().is_some_and(|first| first.ticket == ticket);
            if is_next && state.fits(&claim) {
                break;
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.start(ticket);
        drop(state);
        // The next one may fit beside it.
        self.changed.notify_all();
        Ok(place)
    }
}

/// The place of a hash in the queue, and its memory once it runs. Dropping it gives both back.
#[derive(Debug)]
pub struct HashMemory {
    queue: &'static HashQueue,
    ticket: u64,
}

impl Drop for HashMemory {
    fn drop(&mut self) {
        self.queue.lock().leave(self.ticket);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
