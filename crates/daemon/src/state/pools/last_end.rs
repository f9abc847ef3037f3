//! The end of the last use of pools and exports: whether changes may be lost that clients were told were done.
//!
//! Clients go on with the next process or machine. What they flush then would be taken for durable, with all that they
//! were told before. See [`block::LossNotice`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::{IoMode, LossNotice};
use parking_lot::Mutex;
use pool::Pool;
use serde::{Deserialize, Serialize};

use crate::host::identity::boot_id;
use crate::state::memory::StateDir;

/// The file in the state directory, which is there as long as the daemon runs.
const FILE: &str = "running.json";

/// An end, and with it what was in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastEnd {
    /// All changes were made durable.
    Clean,
    /// The process was gone. The disks, and the caches of the system, were not.
    Process,
    /// The machine was gone, or this is not known. What its disks had in their caches may be lost.
    Machine,
}

/// The file in the state directory while a daemon runs. It stays after a daemon that was killed, and with it each loss:
/// clients may come back only when the daemon after the next one runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LossRecord {
    /// The boot of the machine.
    boot: String,
    /// True if the machine was lost since the last orderly end.
    is_machine_lost: bool,
    /// The guids of pools that lost something since then by themselves.
    pools: BTreeSet<u64>,
}

/// The end of the last daemon with this state directory, and the losses that it leaves to the next one.
pub(crate) struct LastRun {
    pub(crate) end: LastEnd,
    state: Arc<StateDir>,
    running: Mutex<LossRecord>,
}

impl LastRun {
    /// Reads how the last daemon ended. From now on this one runs.
    pub(crate) fn new(state: &Arc<StateDir>) -> LastRun {
        let boot = boot_id();
        let (end, before) = match state.read::<LossRecord>(FILE) {
            Ok(None) => (LastEnd::Clean, LossRecord::default()),
            Ok(Some(last)) if last.boot == boot && !boot.is_empty() && !last.is_machine_lost => {
                (LastEnd::Process, last)
            }
            Ok(Some(last)) => (LastEnd::Machine, last),
            Err(_) => (LastEnd::Machine, LossRecord::default()),
        };
        let run = LastRun {
            end,
            state: Arc::clone(state),
            running: Mutex::new(LossRecord {
                boot,
                is_machine_lost: end == LastEnd::Machine,
                pools: before.pools,
            }),
        };
        run.remember(&run.running.lock());
        run
    }

    /// Returns whether a pool lost something since the last orderly end.
    pub(crate) fn has_lost(&self, pool: u64) -> bool {
        self.running.lock().pools.contains(&pool)
    }

    /// Notes whether a pool lost something, for the daemons after this one.
    pub(crate) fn note_pool(&self, pool: u64, has_lost: bool) {
        let mut running = self.running.lock();
        let is_new = match has_lost {
            true => running.pools.insert(pool),
            false => running.pools.remove(&pool),
        };
        if is_new {
            self.remember(&running);
        }
    }

    fn remember(&self, running: &LossRecord) {
        if let Err(failure) = self.state.remember(FILE, running) {
            let reason = failure.message;
            tracing::warn!(reason, "the next start does not know how this daemon ended");
        }
    }

    /// Notes that this daemon made everything durable.
    pub(crate) fn note_clean(&self) {
        if let Err(error) = self.state.remove(FILE) {
            tracing::warn!(%error, "the next start takes this for the end of a process");
        }
    }
}

impl LastEnd {
    /// Returns how the last use of a pool ended that was not exported. `of_daemon` is the end of the last daemon, if
    /// that used it.
    pub(crate) fn of_pool(pool: &Pool, of_daemon: Option<LastEnd>) -> LastEnd {
        let devices = pool.devices();
        let mut modes = devices.iter().map(|device| device.io_mode);
        let is_remote = modes.clone().all(|mode| mode.is_none());
        // A process that ends takes with it what a log has not sent.
        if modes.clone().any(|mode| mode == Some(IoMode::Log)) {
            return LastEnd::Machine;
        }
        let is_shared = pool.multihost().is_on().unwrap_or(false);
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

/// The losses that clients of volumes have to be told of, by the id of the volume.
#[derive(Default)]
pub(crate) struct VolumeLosses(Mutex<BTreeMap<u64, Arc<LossNotice>>>);

impl VolumeLosses {
    pub(crate) fn of(&self, id: u64) -> Arc<LossNotice> {
        Arc::clone(self.0.lock().entry(id).or_default())
    }
}
