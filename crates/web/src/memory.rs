//! Memory of the site: one total for long bodies, long answers and streams of data, and a share of it for each user.
//!
//! A request that is small takes no share: its head and body have narrow limits. For others the site takes the memory
//! that the request costs at most, before it reads or asks for anything. A request that gets none is answered with 429.
//!
//! At the unix socket each connection has a process of its own. The processes of a user share a file there, and lock
//! it in turn: so one of them at a time has more than a little memory.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};

/// The memory of all users other than root, and as much again of root.
const ALL_MAX: usize = 512 << 20;
/// The memory of each user: enough for the longest answer.
const EACH_MAX: usize = 256 << 20;
/// The time after which a process looks again whether the file is free.
const LOOK: Duration = Duration::from_millis(20);

/// A user: the number, and the zone.
pub(crate) type User = (u32, Option<String>);

/// A user, and whether it is root or the daemon's own user, whose memory is counted apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MemoryAccount {
    pub(crate) user: User,
    pub(crate) is_admin: bool,
}

/// The table of what is taken.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    taken: Mutex<HashMap<MemoryAccount, usize>>,
    freed: Condvar,
    all_max: usize,
    each_max: usize,
    /// Is locked while anything is taken.
    turn: Option<OwnedFd>,
}

/// Memory that is taken while this exists.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    memory: Arc<RequestMemory>,
    account: MemoryAccount,
    size: usize,
}

impl RequestMemory {
    /// The memory of a process that serves all users.
    pub(crate) fn of_all() -> Arc<RequestMemory> {
        RequestMemory::new(ALL_MAX, EACH_MAX, None)
    }

    /// The memory of a process that serves one user. `turn` is the file of the user's processes.
    pub(crate) fn of_one(turn: OwnedFd) -> Arc<RequestMemory> {
        RequestMemory::new(EACH_MAX, EACH_MAX, Some(turn))
    }

    fn new(all_max: usize, each_max: usize, turn: Option<OwnedFd>) -> Arc<RequestMemory> {
        Arc::new(RequestMemory {
            taken: Mutex::default(),
            freed: Condvar::new(),
            all_max,
            each_max,
            turn,
        })
    }

    /// Memory of this size, if it is free or becomes so in this time.
    pub(crate) fn take(
        self: &Arc<Self>,
        account: &MemoryAccount,
        size: usize,
        patience: Duration,
    ) -> Option<MemoryShare> {
        self.add(account, size, patience).then(|| MemoryShare {
            memory: Arc::clone(self),
            account: account.clone(),
            size,
        })
    }

    fn add(&self, account: &MemoryAccount, size: usize, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut taken = self.table();
        while !self.fits(&taken, account, size) || !self.has_turn(&taken) {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            let wait = match self.turn {
                Some(_) => left.min(LOOK),
                None => left,
            };
            let waited = self.freed.wait_timeout(taken, wait);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken.entry(account.clone()).or_default() += size;
        true
    }

    fn fits(
        &self,
        taken: &HashMap<MemoryAccount, usize>,
        account: &MemoryAccount,
        size: usize,
    ) -> bool {
        let is_alike = |other: &&MemoryAccount| other.is_admin == account.is_admin;
        let alike = taken.iter().filter(|(other, _)| is_alike(other));
        let all: usize = alike.map(|(_, size)| size).sum();
        let each = taken.get(account).copied().unwrap_or(0);
        all + size <= self.all_max && each + size <= self.each_max
    }

    /// Returns whether this process may take memory, or has taken some.
    fn has_turn(&self, taken: &HashMap<MemoryAccount, usize>) -> bool {
        let lock = |turn| fcntl_lock(turn, FlockOperation::NonBlockingLockExclusive).is_ok();
        !taken.is_empty() || self.turn.as_ref().is_none_or(lock)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<MemoryAccount, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryShare {
    /// Gives back all but this much.
    pub(crate) fn shrink(&mut self, size: usize) {
        let less = self.size.saturating_sub(size);
        self.size -= less;
        let mut taken = self.memory.table();
        if let Some(all) = taken.get_mut(&self.account) {
            *all -= less;
        }
        self.memory.freed.notify_all();
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink(0);
        let mut taken = self.memory.table();
        taken.retain(|_, size| *size > 0);
        if let (true, Some(turn)) = (taken.is_empty(), &self.memory.turn) {
            // The end of the process unlocks it too.
            let _ = fcntl_lock(turn, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(uid: u32) -> MemoryAccount {
        MemoryAccount {
            user: (uid, None),
            is_admin: uid == 0,
        }
    }

    #[test]
    fn each_has_a_share_of_one_total_and_root_its_own() {
        let memory = RequestMemory::new(100, 60, None);
        let take = |uid, size| memory.take(&account(uid), size, Duration::ZERO);
        let mut first = take(1, 60).unwrap();
        assert!(take(1, 1).is_none(), "the share of the user");
        let second = take(2, 40).unwrap();
        assert!(take(3, 1).is_none(), "the total of all");
        let root = take(0, 60).unwrap();
        assert!(take(0, 1).is_none());
        first.shrink(10);
        assert!(take(3, 50).is_some() && take(3, 51).is_none());
        drop((first, second, root));
        assert!(memory.table().is_empty());
    }

    #[test]
    fn a_share_is_waited_for() {
        let memory = RequestMemory::new(10, 10, None);
        let first = memory.take(&account(1), 10, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waits = || memory.take(&account(2), 10, Duration::from_secs(60));
            let second = scope.spawn(move || waits().is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
    }
}
