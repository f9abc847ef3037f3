//! The password hashes of this process: who pays for them, and what they may cost.
//!
//! A process that sets no budget, as a command of one user, has none to share.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::hash::queue::{
    HashDemand, HashLimits, HashMemory, HashPayer, HashQueue, MEMORY_KIB_LEAST,
};
use crate::{Error, Result};

/// The work for one passphrase of a user is one part in so many of the root's.
const WORK_SHARE: u64 = 8;

static QUEUE: HashQueue = HashQueue::new();

thread_local! {
    static CALLER: RefCell<HashCaller> = RefCell::new(HashCaller::default());
}

/// The caller for whom a thread hashes.
#[derive(Clone)]
pub struct HashCaller {
    /// The user who pays for the hashes.
    pub payer: HashPayer,
    /// The memory that one hash may take, in KiB, also if that is more than the budget. It runs alone then.
    pub allowed_kib: u64,
    /// Says that the caller has gone: then its hashes leave the queue.
    pub is_gone: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Default for HashCaller {
    /// The process itself.
    fn default() -> HashCaller {
        HashCaller {
            payer: HashPayer::Root,
            allowed_kib: 0,
            is_gone: None,
        }
    }
}

impl fmt::Debug for HashCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashCaller")
            .field("payer", &self.payer)
            .field("allowed_kib", &self.allowed_kib)
            .finish_non_exhaustive()
    }
}

impl HashCaller {
    /// The caller for whom this thread hashes.
    pub fn present() -> HashCaller {
        CALLER.with_borrow(HashCaller::clone)
    }
}

/// The caller of a thread, until it is dropped.
#[derive(Debug)]
#[must_use = "the caller from before is back when this is dropped"]
pub struct HashScope(HashCaller);

impl Drop for HashScope {
    fn drop(&mut self) {
        CALLER.set(std::mem::take(&mut self.0));
    }
}

/// Makes this thread hash for a caller.
pub fn hash_for(caller: HashCaller) -> HashScope {
    HashScope(CALLER.replace(caller))
}

/// Gives all password hashes of this process together this much memory, in KiB.
pub fn set_hash_memory(kib: u64) {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    QUEUE.limit(HashLimits {
        memory_kib: kib,
        running: (processors / 2).max(1),
    });
}

/// The most memory of a new slot, in KiB: half of the machine's, so that it does not swap. Where all hashes share
/// limited memory, it is the share that is reserved for root. Then root opens such a slot at once, and users can
/// open it.
pub(crate) fn new_slot_memory_kib() -> u32 {
    let kib = QUEUE.limits().map_or_else(
        || machine_memory_kib().map_or(MEMORY_KIB_LEAST.into(), |kib| kib / 2),
        HashLimits::reserved_for_root,
    );
    u32::try_from(kib).unwrap_or(u32::MAX)
}

/// The memory of this machine, in KiB, if the kernel says it.
pub fn machine_memory_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.parse().ok()
}

/// Memory for a password hash with so many passes, until it is dropped. Waits until it is this hash's turn. A hash
/// that takes no memory waits for its turn too.
///
/// # Errors
/// [`Error::KdfBudget`] if it is more than there is in all; [`Error::KdfBusy`] if too many wait; [`Error::KdfGone`]
/// if the caller has gone.
pub fn hash_memory(kib: u32, passes: u32) -> Result<HashMemory> {
    let caller = HashCaller::present();
    let cost = HashDemand {
        memory_kib: kib.into(),
        passes,
        allowed_kib: caller.allowed_kib,
    };
    let is_gone = || caller.is_gone.as_ref().is_some_and(|is_gone| is_gone());
    QUEUE.enter(caller.payer, cost, &is_gone)
}

/// The work that may be spent on one passphrase at several slots, in KiB of memory times passes.
#[derive(Debug)]
pub struct HashWork {
    left: u64,
    max: u64,
}

impl HashWork {
    /// Makes a budget of `max` for all slots together. A caller who is not root gets less.
    pub fn new(max: u64) -> HashWork {
        let max = match HashCaller::present().payer {
            HashPayer::Root => max,
            HashPayer::User(_) | HashPayer::Tenant(_) | HashPayer::Login(_) => max / WORK_SHARE,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_slot_fits_the_share_of_root_and_of_users() {
        // In MiB: the memory of all hashes, and that of a new slot.
        for (memory, new) in [(128, 64), (256, 64), (512, 128), (2048, 512), (6144, 1536)] {
            let limits = HashLimits {
                memory_kib: memory << 10,
                running: 1,
            };
            assert_eq!(limits.reserved_for_root(), new << 10);
            assert!(limits.reserved_for_root() <= limits.of_users());
        }
    }

    #[test]
    fn slots_together_cost_at_most_so_much() {
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
    fn the_passphrase_of_a_user_costs_less() {
        let user = HashCaller {
            payer: HashPayer::User(1000),
            ..HashCaller::default()
        };
        let scope = hash_for(user);
        let refused = HashWork::new(1 << 28).spend((1 << 25) + 1).unwrap_err();
        assert!(matches!(refused, Error::KdfWork { limit_gib: 32 }));
        drop(scope);
        assert_eq!(HashCaller::present().payer, HashPayer::Root);
        HashWork::new(1 << 28).spend((1 << 25) + 1).unwrap();
    }
}
