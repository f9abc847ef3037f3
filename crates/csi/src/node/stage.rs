//! Volumes on this node: mounted by the daemon, or attached to the kernel.

use protocol::api::command;
use rustix::mount::{MountFlags, UnmountFlags};

use super::mounts;
use super::target::{MountTarget, given};
use crate::demands::VolumeUse;
use crate::driver::CsiDriver;
use crate::names::VolumeId;
use crate::proto::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse,
};
use crate::status::{GrpcStatus, Result};
use crate::volumes::{Kind, VolumeDataset};

impl CsiDriver {
    pub(crate) fn stage(
        &self,
        request: &NodeStageVolumeRequest,
    ) -> Result<NodeStageVolumeResponse> {
        let path = given(&request.volume_id, &request.staging_target_path)?;
        let wanted = VolumeUse::of_one(request.volume_capability.as_ref())?;
        let target = MountTarget::find(&self.settings.kubelet_dir, path)?
            .ok_or_else(|| GrpcStatus::invalid("the staging path does not exist"))?;
        let _turn = self.busy.take(&request.volume_id)?;
        let volume = self.volume_as(&request.volume_id, wanted.kind)?;
        match wanted.kind {
            // The options are those of each target path.
            Kind::Files => self.stage_files(&volume, &target)?,
            Kind::Block => drop(self.attach(&volume)?),
        }
        Ok(NodeStageVolumeResponse {})
    }

    /// Shows the files of a volume at its staging path. If that fails, nothing stays mounted that was not before.
    pub(super) fn stage_files(&self, volume: &VolumeDataset, target: &MountTarget) -> Result<()> {
        let dataset = volume.id.dataset(&self.settings.parent);
        let was_mounted = self.daemon.mount_of(&dataset)?.is_some();
        let staged = self.show_files(volume, (target, false), MountFlags::empty());
        if staged.is_err() && !was_mounted && self.daemon.mount_of(&dataset)?.is_some() {
            self.daemon.call(command::Unmount {
                target: Some(dataset),
                force: false,
            })?;
            self.remove_mount_dir(&volume.id)?;
        }
        staged
    }

    /// Removes the directory of the daemon's mount: without it a volume is not staged.
    fn remove_mount_dir(&self, id: &VolumeId) -> Result<()> {
        match std::fs::remove_dir(self.mount_dir(id)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Ends what [`CsiDriver::stage`] did, also for what a dead daemon left.
    pub(crate) fn unstage(
        &self,
        request: &NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse> {
        let path = given(&request.volume_id, &request.staging_target_path)?;
        // An id that no volume can have is that of none.
        let Ok(id) = VolumeId::parse(&request.volume_id) else {
            return Ok(NodeUnstageVolumeResponse {});
        };
        let _turn = self.busy.take(id.as_str())?;
        let dataset = id.dataset(&self.settings.parent);
        let files = self.served(&id)?;
        let own = self.own_mount(&id, &files)?.map(|(_, mount)| mount);
        let target = MountTarget::find(&self.settings.kubelet_dir, path)?;
        let staged = target.as_ref().map_or(Ok(None), MountTarget::mounted)?;
        let is_other = |it: &&mounts::KernelMount| ![&own, &staged].contains(&&Some((*it).clone()));
        let device = self.daemon.kernel_device_of(&dataset)?;
        // The next volume may get the number of this device.
        let nodes = mounts::of_device(device.as_deref())?;
        let places = files.mounts()?;
        if let Some(other) = places.iter().find(is_other).or(nodes.first()) {
            return Err(GrpcStatus::precondition(format!(
                "'{id}' is still published at {}",
                other.place.display()
            )));
        }
        if let Some(target) = target {
            target.unmount(|there| target.has(&files, there))?;
        }
        if let Some(device) = device {
            self.daemon.call(command::NbdDetach {
                device,
                force: false,
            })?;
        }
        if files.device.is_some() {
            self.daemon.call(command::Unmount {
                target: Some(dataset),
                force: false,
            })?;
        } else if own.is_some() {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            rustix::mount::unmount(self.mount_dir(&id), flags).map_err(std::io::Error::from)?;
        }
        self.remove_mount_dir(&id)?;
        Ok(NodeUnstageVolumeResponse {})
    }

    /// A volume by an id from outside, if it is of this kind.
    pub(super) fn volume_as(&self, id: &str, kind: Kind) -> Result<VolumeDataset> {
        let volume = self.volume(id)?;
        match (volume.kind, kind) {
            (is, wanted) if is == wanted => Ok(volume),
            (Kind::Files, _) => Err(GrpcStatus::invalid(format!(
                "'{id}' is a file system, not a block device"
            ))),
            (Kind::Block, _) => Err(GrpcStatus::invalid(format!(
                "'{id}' is a block device, not a file system"
            ))),
        }
    }
}
