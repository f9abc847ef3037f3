//! Waiting for a key that may never come: a file on a mount that hangs, a server, a program.
//!
//! The kernel cannot be told to stop waiting for a file. So the work is done on a thread of its own. A thread that
//! is waited for no more ends when its work does, and what it finds then is wiped.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Error, HashCaller, HashPayer, Result, hash_for};

/// The most threads that wait at one time.
const WAITING_MAX: usize = 128;
/// The most threads that wait for users other than root.
const WAITING_OF_USERS: usize = 96;
/// The most threads that wait for one of these users.
const WAITING_PER_USER: usize = 8;

static WAITING: Mutex<BTreeMap<HashPayer, usize>> = Mutex::new(BTreeMap::new());

/// Does what may never end, for at most this long, for the caller of this thread. `origin` is what is waited for, for
/// the error.
///
/// # Errors
/// Those of the work; [`Error::KeyLate`] if it takes longer, or too many others are waited for.
pub fn in_time<T: Send + 'static>(
    origin: &str,
    time_max: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let late = |reason: String| Error::KeyLate {
        origin: origin.to_owned(),
        reason,
    };
    let caller = HashCaller::present();
    let counted = WaitPermit::new(caller.payer).ok_or_else(|| {
        late("the daemon waits for too many other keys already; try again later".into())
    })?;
    let (sender, receiver) = sync_channel(1);
    let work = move || {
        let _scope = hash_for(caller);
        let result = work();
        drop(counted);
        // The receiver may have given up.
        let _ = sender.send(result);
    };
    threads::start("key", work).map_err(|error| late(error.to_string()))?;
    match receiver.recv_timeout(time_max) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(late(format!(
            "no answer within {} s; check its file system, server or program",
            time_max.as_secs()
        ))),
        Err(RecvTimeoutError::Disconnected) => Err(late("reading it failed".into())),
    }
}

/// The permit of one thread that waits for a user. Dropping it ends the wait.
struct WaitPermit(HashPayer);

impl WaitPermit {
    fn new(payer: HashPayer) -> Option<WaitPermit> {
        let mut waiting = waiting();
        let all: usize = waiting.values().sum();
        let of_admin = waiting.get(&HashPayer::Root).copied().unwrap_or_default();
        let of_payer = waiting.get(&payer).copied().unwrap_or_default();
        let is_full = payer != HashPayer::Root
            && (of_payer >= WAITING_PER_USER || all - of_admin >= WAITING_OF_USERS);
        if is_full || all >= WAITING_MAX {
            return None;
        }
        waiting.insert(payer, of_payer + 1);
        Some(WaitPermit(payer))
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        let mut waiting = waiting();
        match waiting.get_mut(&self.0) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waiting.remove(&self.0)),
        }
    }
}

/// The number of threads that wait for each user.
fn waiting() -> MutexGuard<'static, BTreeMap<HashPayer, usize>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_never_comes_is_not_waited_for() {
        let (release, released) = channel::<()>();
        let released = std::sync::Arc::new(std::sync::Mutex::new(released));
        let wait = |payer| {
            let _scope = hash_for(HashCaller {
                payer,
                ..HashCaller::default()
            });
            let released = Arc::clone(&released);
            in_time("the file", Duration::ZERO, move || {
                let _ = released.lock().map(|released| released.recv());
                Ok(())
            })
        };
        let refused = |payer, n, max| {
            let error = wait(payer).unwrap_err().to_string();
            let expected = match n < max {
                true => "no answer",
                false => "other keys already",
            };
            assert!(error.contains(expected), "{n}: {error}");
        };
        // A user who waits for all of the time leaves places for others, and all users for root.
        (0..=WAITING_PER_USER).for_each(|n| refused(HashPayer::User(1), n, WAITING_PER_USER));
        let others = WAITING_OF_USERS - WAITING_PER_USER;
        (0..=others).for_each(|n| refused(HashPayer::User(2 + n as u32), n, others));
        let rest = WAITING_MAX - WAITING_OF_USERS;
        (0..=rest).for_each(|n| refused(HashPayer::Root, n, rest));
        drop(release);
        while !waiting().is_empty() {
            std::thread::yield_now();
        }
        let day = Duration::from_secs(86_400);
        assert_eq!(in_time("x", day, || Ok(7)).unwrap(), 7);
        let failed = in_time("x", day, || Err::<(), _>(Error::WrongKey));
        assert!(matches!(failed, Err(Error::WrongKey)));
    }
}
