//! How the last use of pools and exports ended: whether changes may be lost that clients were told were done.
//!
//! Clients go on with the next process or machine. What they flush then would be taken for durable, with all that they
//! were told before. See [`block::LossNotice`].

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{IoMode, LossNotice};
use parking_lot::Mutex;
use pool::Pool;

use crate::host::identity::boot_id;
use crate::state::memory::StateDir;

/// The file in the state directory, which is there as long as the daemon runs, with the boot of the machine.
const FILE: &str = "running.json";

/// An end, and with it what was in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastEnd {
    /// Everything was made durable.
    Clean,
    /// The process was gone. The disks, and the caches of the system, were not.
    Process,
    /// The machine was gone, or this is not known. What its disks had in their caches may be lost.
    Machine,
}

impl LastEnd {
    /// How the last daemon with this state directory ended. From now on this one runs.
    pub(crate) fn take(state: &StateDir) -> LastEnd {
        let boot = boot_id();
        let last = match state.read::<String>(FILE) {
            Ok(None) => LastEnd::Clean,
            Ok(Some(last)) if last == boot && !boot.is_empty() => LastEnd::Process,
            Ok(Some(_)) | Err(_) => LastEnd::Machine,
        };
        if let Err(failure) = state.remember(FILE, &boot) {
            let reason = failure.0.message;
            tracing::warn!(
                reason,
                "the next start does not know that this one ended with the machine"
            );
        }
        last
    }

    /// Notes that this daemon made everything durable.
    pub(crate) fn note_clean(state: &StateDir) {
        if let Err(error) = state.remove(FILE) {
            tracing::warn!(%error, "the next start takes this for the end of a process");
        }
    }

    /// How the last use of a pool ended that was not exported. `of_daemon` is the end of the last daemon, if that used it.
    pub(crate) fn of_pool(pool: &Pool, of_daemon: Option<LastEnd>) -> LastEnd {
        let devices = pool.devices();
        let mut modes = devices.iter().map(|device| device.io_mode);
        let is_remote = modes.clone().all(|mode| mode.is_none());
        let is_shared = pool.is_multihost().unwrap_or(false);
        // Disks that several machines reach, and exports of other servers, do not lose their power with this machine.
        let outlives = is_remote || is_shared && modes.all(|mode| mode != Some(IoMode::Buffered));
        match of_daemon {
            _ if outlives => LastEnd::Process,
            Some(LastEnd::Process) => LastEnd::Process,
            // It has not exported the pool, so its end was not clean.
            Some(LastEnd::Clean | LastEnd::Machine) | None => LastEnd::Machine,
        }
    }
}

/// What clients of volumes have to be told of, by the id of the volume.
#[derive(Default)]
pub(crate) struct VolumeLosses(Mutex<BTreeMap<u64, Arc<LossNotice>>>);

impl VolumeLosses {
    pub(crate) fn of(&self, id: u64) -> Arc<LossNotice> {
        Arc::clone(self.0.lock().entry(id).or_default())
    }
}
