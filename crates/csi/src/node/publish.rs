//! Volumes at the paths of containers.

use rustix::mount::MountFlags;

use super::mounts::{KernelMount, ServedFiles, number};
use super::target::{MountTarget, elsewhere, given};
use crate::demands::VolumeUse;
use crate::driver::CsiDriver;
use crate::names::{VolumeId, shown};
use crate::proto::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};
use crate::status::{GrpcStatus, Result};
use crate::volumes::{Kind, VolumeDataset};

impl CsiDriver {
    pub(crate) fn publish(
        &self,
        request: &NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse> {
        let path = given(&request.volume_id, &request.target_path)?;
        let mut wanted = VolumeUse::of_one(request.volume_capability.as_ref())?;
        if request.readonly || wanted.read_only {
            wanted.flags |= MountFlags::RDONLY;
        }
        let staging = request.staging_target_path.as_str();
        if staging.is_empty() {
            return Err(GrpcStatus::precondition(
                "the volume is not staged: the staging path is missing",
            ));
        }
        let kubelet_dir = &self.settings.kubelet_dir;
        let target = MountTarget::find(kubelet_dir, path)?.ok_or_else(|| {
            GrpcStatus::invalid("the directory that the target path is in does not exist")
        })?;
        let staging = MountTarget::find(kubelet_dir, staging)?
            .ok_or_else(|| not_staged(&request.volume_id, "the staging path does not exist"))?;
        let _turn = self.busy.take(&request.volume_id)?;
        let volume = self.volume_as(&request.volume_id, wanted.kind)?;
        let dataset = volume.id.dataset(&self.settings.parent);
        match wanted.kind {
            Kind::Files => {
                self.need_staged_files(&volume, &staging)?;
                if wanted.is_single {
                    self.refuse_second(&volume, &[&target, &staging])?;
                }
                self.show_files(&volume, (&target, true), wanted.flags)?;
            }
            Kind::Block if wanted.flags.contains(MountFlags::RDONLY) => {
                return Err(GrpcStatus::invalid(
                    "a block device cannot be published for reading only",
                ));
            }
            Kind::Block if self.daemon.kernel_device_of(&dataset)?.is_none() => {
                return Err(not_staged(&request.volume_id, "it has no device"));
            }
            Kind::Block => self.show_device(&volume, &target, wanted.is_single)?,
        }
        Ok(NodePublishVolumeResponse {})
    }

    /// Ends what [`CsiDriver::publish`] did. It works without a daemon, and for what a dead one left.
    pub(crate) fn unpublish(
        &self,
        request: &NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse> {
        let path = given(&request.volume_id, &request.target_path)?;
        // An id that no volume can have is that of none.
        let Ok(id) = VolumeId::parse(&request.volume_id) else {
            return Ok(NodeUnpublishVolumeResponse {});
        };
        let _turn = self.busy.take(id.as_str())?;
        let dataset = id.dataset(&self.settings.parent);
        // Without a daemon, all that it had mounted has no server.
        let files = self.served(&id).unwrap_or_else(|_| ServedFiles {
            dataset: dataset.clone(),
            device: None,
        });
        if let Some(target) = MountTarget::find(&self.settings.kubelet_dir, path)? {
            // The device of another volume stays.
            let device = self.daemon.kernel_device_of(&dataset).ok().flatten();
            let device = device.as_deref().and_then(number);
            let is_its = |it: u32| device.is_none_or(|device| device == it);
            target.unmount(|there| {
                target.has(&files, there) || there.kernel_device().is_some_and(is_its)
            })?;
            target.remove()?;
        }
        Ok(NodeUnpublishVolumeResponse {})
    }

    /// Checks that a volume is at its staging path. After a daemon that ended without an unstage, it is staged there again.
    fn need_staged_files(&self, volume: &VolumeDataset, staging: &MountTarget) -> Result<()> {
        let files = self.served(&volume.id)?;
        let staged = staging.mounted()?;
        let staged = staged.filter(|there| staging.has(&files, there));
        let own = self.own_mount(&volume.id, &files)?;
        match (own, staged) {
            (Some(_), Some(_)) => Ok(()),
            (Some(_), None) => Err(not_staged(
                volume.id.as_str(),
                "it is not at the staging path",
            )),
            (None, _) if self.mount_dir(&volume.id).exists() => self.stage_files(volume, staging),
            (None, _) => Err(not_staged(volume.id.as_str(), "it is not mounted")),
        }
    }

    /// Checks that a volume is at none but these paths, and where the daemon mounts it.
    fn refuse_second(&self, volume: &VolumeDataset, targets: &[&MountTarget]) -> Result<()> {
        let files = self.served(&volume.id)?;
        let mut own: Vec<KernelMount> = Vec::new();
        own.extend(self.own_mount(&volume.id, &files)?.map(|(_, mount)| mount));
        for target in targets {
            own.extend(target.mounted()?);
        }
        match files.mounts()?.iter().find(|mount| !own.contains(mount)) {
            None => Ok(()),
            Some(other) => Err(elsewhere(&volume.id, &other.place)),
        }
    }
}

fn not_staged(id: &str, why: &str) -> GrpcStatus {
    GrpcStatus::precondition(format!("'{}' is not staged: {why}", shown(id)))
}
