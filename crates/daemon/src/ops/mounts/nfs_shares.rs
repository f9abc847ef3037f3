//! Exports mounted datasets by the kernel's NFS server, as their property `sharenfs` says.
//!
//! The callers hold the lock of the pool. `exportfs` waits for no user: see `state::mounts::nfs_share`.

use fuse::MountDirectory;
use protocol::property::Property;

use crate::failure::{Failure, Result};
use crate::host::nfs_server::{NfsServer, write_exports};
use crate::state::datasets::properties;
use crate::state::mounts::nfs_share::NfsShare;
use crate::state::pools::active_pool::{ActivePool, MountState};

/// Refuses to share where no server is.
pub(crate) fn check_server<'a>(
    changes: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<()> {
    let is_share = |(name, value): (&str, Option<&str>)| {
        Property::settable(name).is_some_and(|property| property.name == "sharenfs")
            && value.is_some_and(|value| value != "off")
    };
    match changes.into_iter().any(is_share) {
        true => NfsServer::find().map(drop),
        false => Ok(()),
    }
}

/// A mount that is not exported as its properties say.
struct ShareChange {
    id: u64,
    was: Option<NfsShare>,
    wanted: Option<NfsShare>,
}

impl ActivePool {
    /// Exports what is mounted as the properties say now, and withdraws other exports. Returns failures for those that
    /// could not be exported; their mounts stay.
    pub(crate) fn follow_sharenfs(&self) -> Vec<Failure> {
        self.share(self.shareable(|_| true))
    }

    /// Exports one mount as its property says. The mount succeeds all the same. No other mount is looked at, because
    /// an import makes thousands.
    pub(in crate::ops) fn share_again(&self, id: u64) {
        for failure in self.share(self.shareable(|mounted| mounted == id)) {
            tracing::warn!(reason = failure.message, "a dataset is not exported by NFS");
        }
    }

    fn share(&self, mounts: Vec<(u64, MountDirectory, Option<NfsShare>)>) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut differences = Vec::new();
        for (id, place, was) in mounts {
            let wanted = self.wanted_share(id, &place).unwrap_or_else(|failure| {
                failures.push(failure);
                None
            });
            if wanted != was {
                differences.push(ShareChange { id, was, wanted });
            }
        }
        let has_changed = !differences.is_empty();
        for ShareChange { id, was, wanted } in differences {
            // The program looks into the mount, so the table of mounts is not locked.
            failures.extend(was.and_then(|share| withdraw(&share).err()));
            let exported = wanted.and_then(|share| {
                let failed = export(&share).err();
                let is_exported = failed.is_none();
                failures.extend(failed);
                is_exported.then_some(share)
            });
            if let Some(state) = self.mounts.lock().get_mut(&id) {
                state.shared = exported;
            }
        }
        if has_changed {
            failures.extend(self.remember_shares().err());
        }
        failures
    }

    /// The chosen mounts by properties, with their places and exports.
    fn shareable(
        &self,
        is_chosen: impl Fn(u64) -> bool,
    ) -> Vec<(u64, MountDirectory, Option<NfsShare>)> {
        let mounts = self.mounts.lock();
        let by_property =
            { mounts.iter() }.filter(|(id, state)| state.by_property && is_chosen(**id));
        by_property
            .map(|(id, state)| (*id, state.place.clone(), state.shared.clone()))
            .collect()
    }

    fn wanted_share(&self, id: u64, place: &MountDirectory) -> Result<Option<NfsShare>> {
        let entry = self.pool.entry(id)?;
        if entry.is_snapshot() {
            return Ok(None);
        }
        let (value, _) = properties::effective(&self.pool, &entry, "sharenfs")?;
        let guids = (self.pool.guid(), entry.guid);
        let Some(share) = NfsShare::new(&value, place.path(), guids) else {
            return Ok(None);
        };
        match place.has_safe_way() {
            Ok(true) => Ok(Some(share)),
            _ => Err(Failure::other(format!(
                "'{}' is not exported by NFS: another user than root can change where {} is",
                self.pool.name_of(id)?,
                share.dir.display()
            ))),
        }
    }

    /// Withdraws the export of a mount that is about to end. Returns whether there was one.
    pub(in crate::ops) fn withdraw_share(&self, state: &mut MountState) -> bool {
        let Some(share) = state.shared.take() else {
            return false;
        };
        let ended = withdraw(&share).and_then(|()| self.remember_shares());
        if let Err(failure) = ended {
            let reason = failure.message;
            tracing::warn!(reason, "an export by NFS was not withdrawn");
        }
        true
    }

    fn remember_shares(&self) -> Result<()> {
        let lines = || {
            let mounts = self.mounts.lock();
            let shares = mounts.values().filter_map(|state| state.shared.as_ref());
            let mut lines: Vec<String> = shares.map(NfsShare::line).collect();
            lines.sort();
            lines
        };
        write_exports(self.pool.guid(), lines).map_err(|error| {
            Failure::other(format!(
                "the exports by NFS are not in /etc/exports.d: {error}"
            ))
        })
    }
}

fn export(share: &NfsShare) -> Result<()> {
    let server = NfsServer::find()?;
    let mut clients = share.clients.iter();
    let done = clients.try_for_each(|(client, options)| server.export(client, &share.dir, options));
    if done.is_err() {
        // It may be exported to the first clients.
        let _ = withdraw(share);
    }
    done
}

fn withdraw(share: &NfsShare) -> Result<()> {
    let server = NfsServer::find()?;
    let clients = share.clients.iter();
    let ended = clients.map(|(client, _)| server.withdraw(client, &share.dir));
    ended.fold(Ok(()), Result::and)
}
