//! Volumes as devices of the kernel, by its network block device.

use std::os::fd::{AsFd, OwnedFd};

use protocol::api::{Failure, FailureKind, Reply, command};
use rustix::fs::FileType;

use super::mounts::{self, number};
use super::target::{MountTarget, elsewhere, open_own, taken};
use crate::daemon::not_understood;
use crate::driver::CsiDriver;
use crate::names::VolumeId;
use crate::status::{GrpcCode, GrpcStatus, Result};
use crate::volumes::VolumeDataset;

impl CsiDriver {
    /// Attaches a volume to the kernel, if it is not. Returns its device.
    pub(super) fn attach(&self, volume: &VolumeDataset) -> Result<String> {
        let dataset = volume.id.dataset(&self.settings.parent);
        let place = match self.daemon.kernel_device_of(&dataset)? {
            Some(place) => place,
            None => {
                let attached = self.daemon.call(command::NbdAttach {
                    device: dataset,
                    kernel: None,
                    read_only: false,
                });
                let attached = attached.map_err(|failure| no_device(&volume.id, failure))?;
                let Reply::Exports(rows) = attached else {
                    return Err(not_understood().into());
                };
                let row = rows.into_iter().next();
                let place = row.ok_or_else(not_understood)?.listen;
                self.refuse_old_paths(volume, &place)?;
                place
            }
        };
        match number(&place) {
            Some(_) => Ok(place),
            // To clients on the network.
            None => Err(GrpcStatus::precondition(format!(
                "'{}' is exported already, at {place}",
                volume.id
            ))),
        }
    }

    /// The kernel gives a number again when its device is gone. A path that was left from that device would show this
    /// volume, whichever it was of.
    fn refuse_old_paths(&self, volume: &VolumeDataset, device: &str) -> Result<()> {
        let shown = mounts::of_device(Some(device))?;
        let Some(old) = shown.first() else {
            return Ok(());
        };
        let why = format!(
            "'{}' would be {device}, which {} shows since before; unpublish that path",
            volume.id,
            old.place.display()
        );
        let detached = self.daemon.call(command::NbdDetach {
            device: device.into(),
            force: false,
        });
        detached.map_err(|failure| GrpcStatus::internal(format!("{why}; {}", failure.message)))?;
        Err(GrpcStatus::precondition(why))
    }

    /// Has the device of a volume at a path, and at no other one if `is_single`.
    pub(super) fn show_device(
        &self,
        volume: &VolumeDataset,
        target: &MountTarget,
        is_single: bool,
    ) -> Result<()> {
        let device = self.attach(volume)?;
        let shown = mounts::of_device(Some(&device))?;
        match target.mounted()? {
            None => {}
            // The kubelet may have shown it at a path of its own by now.
            Some(there) if shown.contains(&there) => return Ok(()),
            Some(there) => return Err(taken(&there.place)),
        }
        if let Some(other) = shown.first().filter(|_| is_single) {
            return Err(elsewhere(&volume.id, &other.place));
        }
        let source = block_device(&device)?;
        let is_new = target.make_file()?;
        target.mount(source.as_fd(), None).inspect_err(|_| {
            if is_new {
                let _ = target.remove();
            }
        })
    }
}

fn no_device(id: &VolumeId, failure: Failure) -> GrpcStatus {
    let code = match failure.kind {
        FailureKind::NoDaemon => GrpcCode::Unavailable,
        _ => GrpcCode::FailedPrecondition,
    };
    let why = failure.message;
    GrpcStatus::new(
        code,
        format!("'{id}' cannot be a block device on this node: {why}"),
    )
}

fn block_device(path: &str) -> Result<OwnedFd> {
    let found = open_own(path).and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
    let (is, file) = found.map_err(|error| {
        GrpcStatus::precondition(format!(
            "the driver does not see {path}, and needs /dev of the node: {error}"
        ))
    })?;
    match FileType::from_raw_mode(is.st_mode) {
        FileType::BlockDevice => Ok(file),
        _ => Err(GrpcStatus::precondition(format!(
            "{path} is no block device"
        ))),
    }
}
