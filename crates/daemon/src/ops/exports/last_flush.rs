//! The last flush of exported files, disks and mappings: what their clients were told is then durable. Volumes are made
//! durable when they are closed.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use block::BlockDevice;

use crate::state::daemon::Daemon;
use crate::state::exports::device::Exportable;
use crate::state::exports::registry::{Entry, ExportDefinition, State};
use crate::state::exports::servers::ServerExport;
use crate::state::pools::last_end::LastEnd;

/// A device that takes longer does not hold up the end of the daemon.
const LIMIT: Duration = Duration::from_secs(5);

/// A device whose clients were told of changes.
pub(crate) struct UnflushedDevice(Exportable, Arc<dyn BlockDevice>);

impl UnflushedDevice {
    pub(super) fn of(entry: &Entry) -> Option<UnflushedDevice> {
        let Entry { is, state } = entry;
        match state {
            // The kernel flushes what it detaches.
            State::Open(ServerExport::Kernel(_), _) | State::Opening | State::Failed(_) => None,
            State::Open(offered, _) => has_own_flush(is)
                .then(|| UnflushedDevice(is.device.clone(), Arc::clone(offered.device()))),
        }
    }

    /// Returns whether a flush does not wait for a command: that of a suspended mapping does.
    pub(super) fn is_prompt(&self) -> bool {
        !matches!(self.0, Exportable::Luks(_))
    }
}

fn has_own_flush(is: &ExportDefinition) -> bool {
    !is.read_only && !matches!(is.device, Exportable::Volume(_))
}

impl Daemon {
    /// The devices to be flushed when their clients are gone.
    pub(crate) fn unflushed(&self) -> Vec<UnflushedDevice> {
        let entries = self.exported.entries();
        { entries.iter() }
            .filter_map(|(_, entry)| UnflushedDevice::of(entry))
            .collect()
    }

    /// Flushes devices that have no clients any more. False if one may have lost what its clients were told; they are told
    /// when they come again.
    pub(crate) fn flush_last(&self, devices: Vec<UnflushedDevice>) -> bool {
        let end = Instant::now() + LIMIT;
        let flushing = devices.into_iter().map(|UnflushedDevice(name, device)| {
            let (done, waiting) = channel();
            let flush = move || {
                let _ = done.send(device.flush().is_ok());
            };
            // It may end with the process. Without a thread nothing is sent.
            drop(threads::start("last-flush", flush));
            (name, waiting)
        });
        let flushing: Vec<_> = flushing.collect();
        let mut is_durable = true;
        for (name, waiting) in flushing {
            let left = end.saturating_duration_since(Instant::now());
            if waiting.recv_timeout(left) != Ok(true) {
                is_durable = false;
                let device = name.shown();
                tracing::error!(
                    device,
                    "not flushed after the last client; its changes may be lost"
                );
                self.exported.note_loss(&name, LastEnd::Machine);
            }
        }
        is_durable
    }
}
