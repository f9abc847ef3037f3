//! Wrong keys that users other than root tried. Each user has a few tries on each dataset, and then one in a while. So a
//! user cannot guess quickly, and the tries of one user do not lock out another user. Logins of a user, which others cause,
//! wait a little instead of being refused.
//!
//! A try counts as wrong from its start, because many may wait for their password hashes at the same time. A try with
//! another outcome is taken back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::time::{Duration, Instant};

use keys::HashPayer;
use parking_lot::Mutex;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};

/// The wrong keys that a user may try at once on a dataset.
const AT_ONCE: u32 = 9;
/// The time after which a user may try one more.
const PERIOD: Duration = Duration::from_secs(10);
/// The longest wait of a login, so that nobody is locked out.
const DELAY_MAX: Duration = Duration::from_secs(3);
/// The most entries of the table. The entry that ends first is forgotten.
const ENTRIES_MAX: usize = 4096;

/// Wrong keys by user and guid of the dataset.
#[derive(Default)]
pub(crate) struct WrongTries {
    until: Mutex<TryDeadlines>,
}

/// The time at which all tries are forgotten: each try moves it by [`PERIOD`].
type TryDeadlines = BTreeMap<(HashPayer, u64), Instant>;

/// The time until a user may try one more.
fn wait_of(all: &TryDeadlines, payer: HashPayer, guid: u64, now: Instant) -> Duration {
    let until = all.get(&(payer, guid)).copied().unwrap_or(now);
    until.saturating_duration_since(now + PERIOD * (AT_ONCE - 1))
}

fn check(all: &TryDeadlines, payer: HashPayer, guid: u64, now: Instant) -> Result<()> {
    let wait = wait_of(all, payer, guid, now);
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

/// Counts a try. Root may try as many as there are.
fn count(all: &mut TryDeadlines, payer: HashPayer, guid: u64, now: Instant) {
    if payer == HashPayer::Root {
        return;
    }
    all.retain(|_, until| *until > now);
    if all.len() >= ENTRIES_MAX {
        let first = all.iter().min_by_key(|(_, until)| **until);
        let first = first.map(|(key, _)| *key);
        first.map(|key| all.remove(&key));
    }
    let until = all.entry((payer, guid)).or_insert(now);
    *until = (*until + PERIOD).min(now + PERIOD * AT_ONCE);
}

impl WrongTries {
    /// Refuses a user who tried too many wrong keys lately.
    pub(crate) fn check(&self, payer: HashPayer, guid: u64, now: Instant) -> Result<()> {
        check(&self.until.lock(), payer, guid, now)
    }

    /// Tries a key. Refuses a user who tried too many wrong keys lately, or tries them now; a login is not refused.
    pub(crate) fn attempt<T>(
        &self,
        payer: HashPayer,
        guid: u64,
        attempt: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        {
            let mut all = self.until.lock();
            let now = Instant::now();
            if !matches!(payer, HashPayer::Login(_)) {
                check(&all, payer, guid, now)?;
            }
            count(&mut all, payer, guid, now);
        }
        let tried = attempt();
        let is_wrong = |failure: &Failure| failure.kind == FailureKind::WrongKey;
        if !tried.as_ref().is_err_and(is_wrong) {
            self.take_back(payer, guid);
        }
        tried
    }

    fn take_back(&self, payer: HashPayer, guid: u64) {
        if let MapEntry::Occupied(mut until) = self.until.lock().entry((payer, guid)) {
            match until.get().checked_sub(PERIOD) {
                Some(before) => *until.get_mut() = before,
                None => drop(until.remove()),
            }
        }
    }

    /// The time that a login waits before a try.
    pub(crate) fn delay(&self, payer: HashPayer, guid: u64, now: Instant) -> Duration {
        wait_of(&self.until.lock(), payer, guid, now).min(DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl WrongTries {
        fn add(&self, payer: HashPayer, guid: u64, now: Instant) {
            count(&mut self.until.lock(), payer, guid, now);
        }
    }

    fn wrong() -> Result<()> {
        Err(Failure::new(FailureKind::WrongKey, "wrong"))
    }

    /// Tries wait for their password hashes inside each other, as if all had come before the first hash ended.
    fn nested(
        tries: &WrongTries,
        payer: HashPayer,
        depth: u32,
        outcome: &dyn Fn() -> Result<()>,
    ) -> u32 {
        let mut began = 0;
        let _ = tries.attempt(payer, 7, || {
            began = 1;
            if depth > 1 {
                began += nested(tries, payer, depth - 1, outcome);
            }
            outcome()
        });
        began
    }

    #[test]
    fn tries_at_the_same_time_are_counted_before_their_outcome() {
        let (tries, user) = (WrongTries::default(), HashPayer::User(1001));
        // Keys that are right cost nothing.
        assert_eq!(nested(&tries, user, AT_ONCE, &|| Ok(())), AT_ONCE);
        let other = || Err(Failure::other("gone"));
        assert_eq!(nested(&tries, user, AT_ONCE, &other), AT_ONCE);
        for _ in 1..AT_ONCE {
            tries.attempt(user, 7, wrong).unwrap_err();
        }
        assert_eq!(nested(&tries, user, AT_ONCE, &wrong), 1);
        assert_eq!(nested(&tries, HashPayer::Root, 20, &wrong), 20);
    }

    #[test]
    fn a_login_waits_a_little_and_is_not_refused() {
        let (tries, login) = (WrongTries::default(), HashPayer::Login(1001));
        for _ in 0..100 {
            let refused = tries.attempt(login, 7, wrong).unwrap_err();
            assert_eq!(refused.kind, FailureKind::WrongKey);
        }
        let now = Instant::now();
        assert_eq!(tries.delay(login, 7, now), DELAY_MAX);
        tries.attempt(login, 7, || Ok(())).unwrap();
        // Other logins do not wait, and it is over soon.
        assert!(tries.delay(HashPayer::Login(1002), 7, now).is_zero());
        assert!(tries.delay(login, 8, now).is_zero());
        assert!(tries.delay(login, 7, now + PERIOD).is_zero());
    }

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
