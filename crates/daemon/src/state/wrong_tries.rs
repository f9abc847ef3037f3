//! Wrong keys that users other than root tried. Each user has a few tries on each dataset, and then one in a while. So a
//! user cannot guess quickly, and the tries of one user do not lock out another user.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keys::HashPayer;
use parking_lot::Mutex;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};

/// The wrong keys that a user may try at once on a dataset.
const AT_ONCE: u32 = 9;
/// The time after which a user may try one more.
const PERIOD: Duration = Duration::from_secs(10);
/// The most entries of the table. The entry that ends first is forgotten.
const ENTRIES_MAX: usize = 4096;

/// Wrong keys by user and guid of the dataset.
#[derive(Default)]
pub(crate) struct WrongTries {
    /// The time at which all tries are forgotten: each try moves it by [`PERIOD`].
    until: Mutex<BTreeMap<(HashPayer, u64), Instant>>,
}

impl WrongTries {
    /// Refuses a user who tried too many wrong keys lately.
    pub(crate) fn check(&self, payer: HashPayer, guid: u64, now: Instant) -> Result<()> {
        let key = (payer, guid);
        let Some(until) = self.until.lock().get(&key).copied() else {
            return Ok(());
        };
        let wait = until.saturating_duration_since(now + PERIOD * (AT_ONCE - 1));
        match wait.is_zero() {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "you tried too many wrong keys; try again in {} s",
                    wait.as_secs() + 1
                ),
            )),
        }
    }

    /// Notes a wrong key. Root may try as many as there are.
    pub(crate) fn add(&self, payer: HashPayer, guid: u64, now: Instant) {
        if payer == HashPayer::Root {
            return;
        }
        let mut all = self.until.lock();
        all.retain(|_, until| *until > now);
        if all.len() >= ENTRIES_MAX {
            let first = all.iter().min_by_key(|(_, until)| **until);
            let first = first.map(|(key, _)| *key);
            first.map(|key| all.remove(&key));
        }
        let until = all.entry((payer, guid)).or_insert(now);
        *until += PERIOD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_few_tries_and_then_one_in_a_while() {
        let (tries, start) = (WrongTries::default(), Instant::now());
        let user = HashPayer::User(1001);
        for _ in 0..AT_ONCE {
            tries.check(user, 7, start).unwrap();
            tries.add(user, 7, start);
        }
        let refused = tries.check(user, 7, start).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Busy);
        assert!(refused.message.contains("in 11 s"), "{}", refused.message);
        // Another dataset, another user, and root.
        tries.check(user, 8, start).unwrap();
        tries.check(HashPayer::Tenant(7), 7, start).unwrap();
        for _ in 0..100 {
            tries.add(HashPayer::Root, 7, start);
        }
        tries.check(HashPayer::Root, 7, start).unwrap();
        let later = start + PERIOD;
        tries.check(user, 7, later).unwrap();
        tries.add(user, 7, later);
        tries.check(user, 7, later).unwrap_err();
        // All are forgotten in the end.
        tries.add(HashPayer::User(1), 1, start + PERIOD * 99);
        assert_eq!(tries.until.lock().len(), 1);
    }

    #[test]
    fn the_table_is_bounded() {
        let (tries, start) = (WrongTries::default(), Instant::now());
        for guid in 0..ENTRIES_MAX as u64 + 9 {
            tries.add(HashPayer::User(1001), guid, start);
        }
        assert_eq!(tries.until.lock().len(), ENTRIES_MAX);
    }
}
