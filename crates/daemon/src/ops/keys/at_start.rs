//! Loads keys when a pool is imported: from the places in their keysources, without a prompt.
//!
//! Several keys are fetched at the same time, on threads of their own. At the start of the daemon there is a common
//! time limit. A later key is loaded when it arrives, and its datasets are mounted then. Nothing waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use parking_lot::Mutex;
use pool::Entry;
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::NonInteractive;
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// The number of key sources that are read at the same time.
const AT_ONCE: usize = 8;

/// The result of loading a key.
struct LoadResult {
    result: Result<()>,
    notices: Vec<String>,
}

impl Daemon {
    /// Loads the keys of a pool that need no prompt, until this time if one is given. It reports failures.
    pub(crate) fn load_keys_of(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        until: Option<Instant>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let heads = active.all_heads()?;
        let roots = heads.into_iter().filter(|entry| entry.key_root == entry.id);
        let roots: VecDeque<_> = roots.collect();
        let mut missing = roots.len();
        let loaded = load_on_threads(active, roots)?;
        while missing > 0 {
            let next = match until {
                None => loaded.recv().map_err(RecvTimeoutError::from),
                Some(until) => loaded.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match next {
                Ok(loaded) => {
                    missing -= 1;
                    loaded
                        .notices
                        .into_iter()
                        .for_each(|notice| context.channel.notice(notice));
                    context.tell(loaded.result.err().into_iter().collect());
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let name = active.pool.name();
                    context.tell(vec![Failure::other(format!(
                        "{missing} keys of pool '{name}' did not arrive in time; the start continues, and \
                         their datasets are mounted when the keys arrive"
                    ))]);
                    return self.load_late(active, loaded);
                }
            }
        }
        Ok(())
    }

    /// Mounts the datasets whose keys arrive late, and opens the exports that waited for these keys.
    fn load_late(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        late: Receiver<LoadResult>,
    ) -> Result<()> {
        let (daemon, active) = (Arc::clone(self), Arc::clone(active));
        let name = active.pool.name();
        let mount = move || {
            for loaded in late {
                let failures = match loaded.result {
                    Ok(()) => daemon.mount_what_has_keys(&active),
                    Err(failure) => vec![failure],
                };
                for failure in failures {
                    tracing::error!(pool = name, reason = failure.message, "a late key");
                }
            }
        };
        on_thread(mount)
    }

    fn mount_what_has_keys(self: &Arc<Self>, active: &Arc<ActivePool>) -> Vec<Failure> {
        let mounted = active.lock(&Internal).and_then(|_admin| {
            let entries = active.all_heads()?;
            Ok(self.offer_datasets(active, &entries, Caller::default()))
        });
        self.restore_offers();
        mounted.unwrap_or_else(|failure| vec![failure])
    }
}

/// Loads these keys on threads, and returns the results as they arrive.
fn load_on_threads(
    active: &Arc<ActivePool>,
    roots: VecDeque<Arc<Entry>>,
) -> Result<Receiver<LoadResult>> {
    let (sender, receiver) = channel();
    let threads = AT_ONCE.min(roots.len());
    let roots = Arc::new(Mutex::new(roots));
    for _ in 0..threads {
        let (active, roots, sender) = (Arc::clone(active), Arc::clone(&roots), sender.clone());
        on_thread(move || {
            while let Some(root) = next(&roots) {
                let mut nobody = NonInteractive::default();
                let result = active.load_key(&root, &[], false, &Internal, &mut nobody);
                let notices = nobody.notices;
                // This fails only if the import has ended.
                if sender.send(LoadResult { result, notices }).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(receiver)
}

fn next(roots: &Mutex<VecDeque<Arc<Entry>>>) -> Option<Arc<Entry>> {
    roots.lock().pop_front()
}

fn on_thread(work: impl FnOnce() + Send + 'static) -> Result<()> {
    match threads::start("keys", work) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::other(format!("keys cannot be loaded: {error}"))),
    }
}
