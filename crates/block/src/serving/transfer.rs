//! The memory of transfers: buffers for the data of clients on the network, which are counted against one total.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A shorter buffer is not worth keeping for the next transfer.
const KEPT_LEAST: usize = 64 << 10;
/// The number of buffers that stay in memory for the next transfers, and their largest size.
const KEPT_MAX: usize = 16;
const KEPT_SIZE: usize = 2 << 20;

/// The origin of a client: an IPv4 address, or the network of an IPv6 address. `None` is this machine.
pub type TransferOrigin = Option<IpAddr>;

/// A total of memory that the clients of a protocol share.
///
/// A client gets more as long as at least as much stays free as all buffers of its origin have then. So one origin gets
/// at most half, and something is left for the next one.
#[derive(Debug)]
pub struct TransferPool {
    total: usize,
    taken: Mutex<MemoryUse>,
    freed: Condvar,
    spare: Mutex<Vec<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct MemoryUse {
    all: usize,
    by_origin: BTreeMap<TransferOrigin, usize>,
}

/// The part of the clients of one origin in a [`TransferPool`].
#[derive(Clone, Debug)]
pub struct TransferShare {
    pool: Arc<TransferPool>,
    origin: TransferOrigin,
}

/// Some bytes of a [`TransferPool`], until it is dropped.
#[derive(Debug)]
pub struct TransferClaim {
    share: TransferShare,
    len: usize,
}

/// A buffer of a [`TransferPool`]. Its contents have no meaning at first.
#[derive(Debug, Default)]
pub struct TransferBuffer {
    /// The memory, which may be longer.
    bytes: Vec<u8>,
    /// `None` for a buffer without bytes.
    claim: Option<TransferClaim>,
}

impl TransferPool {
    /// A pool of `total` bytes.
    pub fn new(total: usize) -> Arc<TransferPool> {
        Arc::new(TransferPool {
            total,
            taken: Mutex::default(),
            freed: Condvar::new(),
            spare: Mutex::default(),
        })
    }

    /// The bytes that are in use.
    pub fn used(&self) -> usize {
        self.taken().all
    }

    /// The part of the clients of an origin.
    pub fn share(self: &Arc<Self>, origin: TransferOrigin) -> TransferShare {
        let pool = Arc::clone(self);
        TransferShare { pool, origin }
    }

    fn taken(&self) -> MutexGuard<'_, MemoryUse> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spare buffer that was used last, of those with `len` bytes. One that is much longer than what is counted for it
    /// stays.
    fn take_spare(&self, len: usize) -> Option<Vec<u8>> {
        if len < KEPT_LEAST {
            return None;
        }
        let mut spare = self.spare();
        let fits = |bytes: &Vec<u8>| (len..=2 * len).contains(&bytes.len());
        let at = spare.iter().rposition(fits)?;
        Some(spare.remove(at))
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryUse {
    /// Takes `len` bytes of `total` for an origin, if its share allows that.
    fn take(&mut self, origin: TransferOrigin, len: usize, total: usize) -> bool {
        let own = self.by_origin.get(&origin).copied().unwrap_or(0) + len;
        let all = self.all + len;
        if all > total || own > total - all {
            return false;
        }
        self.all = all;
        self.by_origin.insert(origin, own);
        true
    }

    fn give_back(&mut self, origin: TransferOrigin, len: usize) {
        self.all -= len;
        if let Some(own) = self.by_origin.get_mut(&origin) {
            *own -= len;
            if *own == 0 {
                self.by_origin.remove(&origin);
            }
        }
    }
}

impl TransferShare {
    /// Counts `len` bytes; `None` if they are more than the share.
    pub fn claim(&self, len: usize) -> Option<TransferClaim> {
        let is_taken = self.pool.taken().take(self.origin, len, self.pool.total);
        is_taken.then(|| self.claimed(len))
    }

    /// Does the same as [`TransferShare::claim`]; waits for others to free memory, but no longer than `patience`.
    pub fn await_claim(&self, len: usize, patience: Duration) -> Option<TransferClaim> {
        let pool = &self.pool;
        let misses = |taken: &mut MemoryUse| !taken.take(self.origin, len, pool.total);
        let waited = pool
            .freed
            .wait_timeout_while(pool.taken(), patience, misses);
        let (taken, result) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(taken);
        (!result.timed_out()).then(|| self.claimed(len))
    }

    /// A buffer; `None` if it is more than the share.
    pub fn buffer(&self, len: usize) -> Option<TransferBuffer> {
        match len {
            0 => Some(TransferBuffer::default()),
            _ => self.claim(len).map(TransferClaim::into_buffer),
        }
    }

    fn claimed(&self, len: usize) -> TransferClaim {
        let share = self.clone();
        TransferClaim { share, len }
    }
}

impl TransferClaim {
    /// A buffer with as many bytes as were claimed.
    pub fn into_buffer(self) -> TransferBuffer {
        let bytes = self.share.pool.take_spare(self.len);
        let bytes = bytes.unwrap_or_else(|| vec![0; self.len]);
        let claim = Some(self);
        TransferBuffer { bytes, claim }
    }
}

impl Drop for TransferClaim {
    fn drop(&mut self) {
        let pool = &self.share.pool;
        pool.taken().give_back(self.share.origin, self.len);
        pool.freed.notify_all();
    }
}

impl TransferBuffer {
    fn size(&self) -> usize {
        self.claim.as_ref().map_or(0, |claim| claim.len)
    }
}

impl Deref for TransferBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.size()]
    }
}

impl DerefMut for TransferBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.size();
        &mut self.bytes[..len]
    }
}

impl Drop for TransferBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let Some(claim) = &self.claim else {
            return;
        };
        if (KEPT_LEAST..=KEPT_SIZE).contains(&bytes.len()) {
            let mut spare = claim.share.pool.spare();
            if spare.len() == KEPT_MAX {
                spare.remove(0);
            }
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(last: u8) -> TransferOrigin {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn an_origin_leaves_as_much_as_it_has() {
        let pool = TransferPool::new(1200);
        let (one, two) = (pool.share(origin(1)), pool.share(origin(2)));
        let first = one.claim(600).unwrap();
        assert!(one.claim(1).is_none(), "half is the most of one");
        let second = two.claim(300).unwrap();
        assert!(two.claim(1).is_none() && one.claim(1).is_none());
        // Of three, each has a quarter at least.
        drop(first);
        let first = one.claim(400).unwrap();
        assert!(pool.share(origin(3)).claim(250).is_some());
        drop((first, second));
        assert_eq!(pool.used(), 0);
        assert!(pool.taken().by_origin.is_empty());
    }

    #[test]
    fn nobody_waits_for_more_than_there_can_be() {
        let pool = TransferPool::new(100);
        let share = pool.share(None);
        assert!(share.await_claim(51, Duration::ZERO).is_none());
        let held = share.claim(50).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| share.await_claim(50, Duration::from_secs(60)).is_some());
            drop(held);
            assert!(waits.join().unwrap());
        });
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn few_buffers_are_kept() {
        let pool = TransferPool::new(1 << 30);
        let share = pool.share(None);
        let all: Vec<_> = (0..2 * KEPT_MAX).map(|_| share.buffer(KEPT_SIZE)).collect();
        assert_eq!(pool.used(), 2 * KEPT_MAX * KEPT_SIZE);
        drop(all);
        assert_eq!((pool.used(), pool.spare().len()), (0, KEPT_MAX));
        let again = share.buffer(KEPT_SIZE / 2).unwrap();
        assert_eq!(
            (again.len(), pool.spare().len()),
            (KEPT_SIZE / 2, KEPT_MAX - 1)
        );
        drop(again);
        let short = share.buffer(KEPT_LEAST).unwrap();
        assert_eq!(
            (short.bytes.len(), pool.spare().len()),
            (KEPT_LEAST, KEPT_MAX)
        );
        drop(short);
        assert!(share.buffer(0).unwrap().is_empty());
        assert_eq!(share.buffer(10).unwrap().len(), 10);
        assert_eq!(pool.spare().len(), KEPT_MAX);
    }
}
