//! Tells the clients of a device that changes may be lost which they were told were done.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of clients that are remembered. If there are more, all are told again.
const CLIENTS_MAX: usize = 4096;

/// The notice that changes may be lost which were answered and not flushed, with the clients that know.
///
/// A client that connects again takes a flush for the proof that all its earlier changes are durable. So after a loss a
/// server has the first flush of each client fail.
#[derive(Debug, Default)]
pub struct LossNotice {
    is_lost: AtomicBool,
    told: Mutex<HashSet<String>>,
}

impl LossNotice {
    /// Notes a loss: each client is to be told, also those that were told of an earlier one.
    pub fn note(&self) {
        let mut told = self.told();
        told.clear();
        self.is_lost.store(true, SeqCst);
    }

    /// Tells a client, once for each loss. True if it has to be told now.
    pub fn tell(&self, client: &str) -> bool {
        if !self.is_lost.load(SeqCst) {
            return false;
        }
        let mut told = self.told();
        if told.contains(client) {
            return false;
        }
        if told.len() == CLIENTS_MAX {
            told.clear();
        }
        told.insert(client.to_owned())
    }

    fn told(&self) -> MutexGuard<'_, HashSet<String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_is_told_once_of_each_loss() {
        let notice = LossNotice::default();
        assert!(!notice.tell("a"));
        notice.note();
        assert!(notice.tell("a") && !notice.tell("a"));
        assert!(notice.tell("b") && !notice.tell("b"));
        notice.note();
        assert!(notice.tell("a") && !notice.tell("a"));
    }

    #[test]
    fn clients_that_are_forgotten_are_told_again() {
        let notice = LossNotice::default();
        notice.note();
        assert!((0..=CLIENTS_MAX).all(|n| notice.tell(&n.to_string())));
        assert!(notice.tell("0"));
        assert!(!notice.tell(&CLIENTS_MAX.to_string()));
    }
}
