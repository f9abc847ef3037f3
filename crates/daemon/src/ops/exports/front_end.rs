//! The exports, as a front end.

use std::sync::Arc;

use iscsi::IscsiTarget;
use parking_lot::MutexGuard;
use pool::Entry as PoolEntry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::exports::attached_place::AttachedPlace;
use crate::state::exports::device::Exportable;
use crate::state::exports::listen::ListenAddress;
use crate::state::exports::registry::{Entry, ExportDefinition, State, VolumeGuid};
use crate::state::exports::servers::ServerExport;
use crate::state::front_end::{ExclusiveUse, FrontEnd, FrontEndGuard, offers_nothing};
use crate::state::pools::active_pool::ActivePool;

pub(crate) struct ExportFrontEnd;

impl FrontEnd<Daemon> for ExportFrontEnd {
    /// Ends devices of the kernel that the last daemon did not leave on purpose, even if their volumes cannot be opened
    /// later: their requests would wait for ever. Those of ublk lost nothing, and go on when their volumes are open.
    fn prepare(&self, daemon: &Daemon) {
        let _changing = daemon.exported.changing.lock();
        let all = daemon.exported.recall();
        for is in all.values() {
            daemon.exported.note_loss(&is.device, daemon.last_run.end);
        }
        let by_ublk = |is: &ExportDefinition| matches!(is.listen, ListenAddress::Ublk(_));
        for (export, is) in { all.into_iter() }.filter(|(_, is)| !is.waits && !by_ublk(is)) {
            if let Err(failure) = daemon.end_waiting(&is, true) {
                let reason = failure.message;
                tracing::error!(export, reason, "the kernel's device could not be ended");
            }
        }
    }

    fn start(&self, daemon: &Arc<Daemon>) {
        self.restore(daemon);
    }

    /// Opens all exports that are not open, those from the last run of the daemon included.
    fn restore(&self, daemon: &Daemon) {
        let _changing = daemon.exported.changing.lock();
        let closed = daemon.exported.closed();
        let mut has_changed = false;
        for (name, is) in closed {
            match daemon.offer(&name, &is) {
                // The volume may have another name now.
                Ok(()) => has_changed |= matches!(is.device, Exportable::Volume(_)),
                Err(failure) => {
                    daemon.end_without_source(&is, &failure);
                    // The attempt may have noted something.
                    let is = daemon.exported.get(&name).map_or(is, |entry| entry.is);
                    let reason = failure.message;
                    tracing::error!(export = name, reason, "it could not be exported again");
                    daemon.exported.set(&name, is, State::Failed(reason));
                }
            }
        }
        let remembered = match has_changed {
            true => daemon.exported.remember(),
            false => Ok(()),
        };
        if let Err(failure) = remembered {
            let reason = failure.message;
            tracing::warn!(reason, "the names of exported volumes are not remembered");
        }
    }

    fn may_go(&self, daemon: &Daemon, going: &ExclusiveUse<'_>) -> Result<()> {
        let all = daemon.exported.entries();
        let holds = |entry: &Entry| match going {
            ExclusiveUse::Devices(paths) => {
                !matches!(entry.state, State::Failed(_)) && entry.is.device.is_at(paths)
            }
            // The leases of volumes and mappings check this.
            ExclusiveUse::Datasets(..) => false,
            ExclusiveUse::Guid(active) => {
                let volume = entry.is.volume;
                volume.is_some_and(|volume| volume.pool == active.pool.guid())
            }
        };
        match all.iter().find(|(_, entry)| holds(entry)) {
            None => Ok(()),
            Some((name, entry)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{}' is exported as '{name}'; take that back first: {}",
                    entry.is.device.shown(),
                    entry.is.listen.protocol().taking_back(name)
                ),
            )),
        }
    }

    fn awaits(&self, daemon: &Daemon, active: &ActivePool, entry: &PoolEntry) -> Result<bool> {
        let volume = active.pool.name_of(entry.id)?;
        let own = VolumeGuid::of(active, entry);
        let is_it =
            |name: &str, guid: Option<VolumeGuid>| guid.map_or(name == volume, |it| it == own);
        Ok(!daemon.exported.of_volumes(is_it).is_empty())
    }

    fn hold<'a>(&self, daemon: &'a Daemon) -> Option<Box<dyn FrontEndGuard + 'a>> {
        Some(Box::new(HeldExports {
            daemon,
            _changing: daemon.exported.changing.lock(),
        }))
    }

    fn forget(&self, daemon: &Daemon, pool: u64, is_gone: &dyn Fn(&str) -> bool) -> Result<()> {
        let _changing = daemon.exported.changing.lock();
        let is_of_pool = |guid: Option<VolumeGuid>| guid.is_none_or(|guid| guid.pool == pool);
        let gone = daemon
            .exported
            .of_volumes(|name, guid| is_of_pool(guid) && is_gone(name));
        if gone.is_empty() {
            return Ok(());
        }
        for (name, is) in gone {
            daemon.end_offer(&name, &is, true)?;
            daemon.exported.remove(&name);
            daemon.exported.typed.forget(&name);
        }
        daemon.exported.remember()
    }

    fn close(&self, daemon: &Daemon, force: bool) -> Result<()> {
        let _changing = daemon.exported.changing.lock();
        let all = daemon.exported.entries();
        for (name, entry) in all.iter().filter(|_| !force) {
            match &entry.state {
                State::Open(ServerExport::Kernel(attachment), _) => attachment.may_detach()?,
                State::Open(export, _) if export.clients() > 0 => {
                    let (name, clients) = (name.clone(), export.clients());
                    return Err(nbd::Error::InUse { name, clients }.into());
                }
                _ => {}
            }
        }
        if force {
            end_sessions(all.iter().filter_map(|(_, entry)| match &entry.state {
                State::Open(offered, _) => Some(offered),
                _ => None,
            }));
        }
        let mut result = Ok(());
        for (name, Entry { mut is, state }) in all {
            let ended = match state {
                State::Open(ServerExport::Kernel(attachment), _) if force => {
                    daemon.leave_to_next(&name, &mut is, &*attachment)
                }
                _ if force && (is.waits || waits_after_crash(&is)) => Ok(()),
                _ => daemon.end_offer(&name, &is, force),
            };
            // With force the others end even if one fails.
            if !force {
                ended?;
            } else {
                result = result.and(ended);
            }
            let why = "the daemon is ending".to_owned();
            let waits = is.waits;
            daemon.exported.set(&name, is, State::Failed(why));
            if waits {
                // Stored at once, so that the next daemon takes it over even after a crash.
                result = result.and(daemon.exported.remember());
            }
        }
        result.and(daemon.exported.remember())
    }

    offers_nothing!(Daemon: offer withdraw withdraw_what_can stop);
}

/// Returns whether the device of an export waits since a daemon was killed. Its contents were noted, so a later daemon
/// finds out whether it may take the device over.
fn waits_after_crash(is: &ExportDefinition) -> bool {
    let is_there = || AttachedPlace::of(is).is_some_and(|device| device.is_there());
    is.contents.is_some() && is_there()
}

/// Ends the sessions of targets, all at the same time: each initiator has a second to log out.
fn end_sessions<'a>(offered: impl Iterator<Item = &'a ServerExport>) {
    let targets = offered.filter_map(|offered| match offered {
        ServerExport::Iscsi(target, _) => Some(Arc::clone(target)),
        ServerExport::Nbd(_) | ServerExport::Kernel(_) => None,
    });
    for error in IscsiTarget::end_sessions(&targets.collect::<Vec<_>>()) {
        tracing::warn!(%error, "sessions do not end");
    }
}

/// The exports while this thread alone may change them.
struct HeldExports<'a> {
    daemon: &'a Daemon,
    _changing: MutexGuard<'a, ()>,
}

impl FrontEndGuard for HeldExports<'_> {
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()> {
        let is_one = |volume: &str, _| volumes.iter().any(|name| name == volume);
        let exports = self.daemon.exported.of_volumes(is_one);
        let offered = exports
            .iter()
            .filter_map(|(name, _)| self.daemon.exported.offered(name));
        end_sessions(offered.collect::<Vec<_>>().iter());
        for (name, is) in exports {
            self.daemon.end_offer(&name, &is, true)?;
            // The volume may be another one when it comes back.
            let is = ExportDefinition {
                waits: false,
                contents: None,
                ..is
            };
            self.daemon
                .exported
                .set(&name, is, State::Failed(why.into()));
        }
        Ok(())
    }
}
