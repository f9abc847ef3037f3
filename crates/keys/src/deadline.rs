//! Waiting for a key that may never come: a file on a mount that hangs, a server, a program.
//!
//! The kernel cannot be told to stop waiting for a file, so the work is done on a thread of its own. A
//! thread that is waited for no more ends when its work does, and what it finds then is wiped.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::{Error, Result};

/// So many threads wait at one time, at most.
const WAITING_MAX: usize = 128;

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Does what may never end, for at most this long. `origin` is what is waited for, for the error.
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
    let counted = Counted::new().ok_or_else(|| {
        late(format!(
            "the daemon waits for {WAITING_MAX} other keys already; try again later"
        ))
    })?;
    let (sender, receiver) = sync_channel(1);
    let work = move || {
        let result = work();
        drop(counted);
        // The receiver may have given up.
        let _ = sender.send(result);
    };
    let thread = std::thread::Builder::new().name("key".into());
    thread
        .spawn(work)
        .map_err(|error| late(error.to_string()))?;
    match receiver.recv_timeout(time_max) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(late(format!(
            "no answer within {} s; check its file system, server or program",
            time_max.as_secs()
        ))),
        Err(RecvTimeoutError::Disconnected) => Err(late("reading it failed".into())),
    }
}

/// One of the threads that wait.
struct Counted;

impl Counted {
    fn new() -> Option<Counted> {
        let counted = Counted;
        // If there are too many, dropping this one takes it off again.
        (WAITING.fetch_add(1, Ordering::Relaxed) < WAITING_MAX).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_never_comes_is_not_waited_for() {
        let (release, released) = channel::<()>();
        let released = std::sync::Arc::new(std::sync::Mutex::new(released));
        let wait = || {
            let released = std::sync::Arc::clone(&released);
            in_time("the file", Duration::ZERO, move || {
                let _ = released.lock().map(|released| released.recv());
                Ok(())
            })
        };
        for n in 0..=WAITING_MAX {
            let error = wait().unwrap_err().to_string();
            let expected = match n < WAITING_MAX {
                true => "no answer",
                false => "other keys already",
            };
            assert!(error.contains(expected), "{n}: {error}");
        }
        drop(release);
        while WAITING.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        let day = Duration::from_secs(86_400);
        assert_eq!(in_time("x", day, || Ok(7)).unwrap(), 7);
        let failed = in_time("x", day, || Err::<(), _>(Error::WrongKey));
        assert!(matches!(failed, Err(Error::WrongKey)));
    }
}
