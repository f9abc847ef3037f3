//! The capabilities of the node, and the state and statistics of volumes on it.

use std::os::fd::AsFd;

use protocol::api::{PoolReport, Reply, command};

use super::mounts::{KernelMount, number};
use super::target::{MountTarget, given, itself};
use crate::daemon::not_understood;
use crate::demands::SizeRange;
use crate::driver::CsiDriver;
use crate::names::shown;
use crate::proto::node_service_capability::rpc::Type as Can;
use crate::proto::node_service_capability::{self, Rpc};
use crate::proto::volume_usage::Unit;
use crate::proto::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodeServiceCapability, VolumeCondition,
    VolumeUsage,
};
use crate::status::{GrpcStatus, Result};
use crate::volumes::{Kind, VolumeDataset};

const CAN: [Can; 5] = [
    Can::StageUnstageVolume,
    Can::GetVolumeStats,
    Can::ExpandVolume,
    Can::VolumeCondition,
    Can::SingleNodeMultiWriter,
];

impl CsiDriver {
    pub(crate) fn node_capabilities(
        &self,
        _: &NodeGetCapabilitiesRequest,
    ) -> Result<NodeGetCapabilitiesResponse> {
        let capability = |is: Can| NodeServiceCapability {
            r#type: Some(node_service_capability::Type::Rpc(Rpc {
                r#type: is.into(),
            })),
        };
        Ok(NodeGetCapabilitiesResponse {
            capabilities: CAN.map(capability).into(),
        })
    }

    pub(crate) fn node_info(&self, _: &NodeGetInfoRequest) -> Result<NodeGetInfoResponse> {
        Ok(NodeGetInfoResponse {
            node_id: self.settings.node_id.clone(),
            max_volumes_per_node: 0,
            accessible_topology: Some(self.topology()),
        })
    }

    pub(crate) fn volume_stats(
        &self,
        request: &NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse> {
        let path = given(&request.volume_id, &request.volume_path)?;
        let volume = self.volume(&request.volume_id)?;
        let target = self.published(&volume, path)?;
        let (usage, trouble) = match volume.kind {
            Kind::Block => (vec![of_device(volume.size)], None),
            Kind::Files => match of_files(&target) {
                Ok(usage) => (usage, None),
                Err(status) => (
                    Vec::new(),
                    Some(format!("the mount does not answer: {}", status.message)),
                ),
            },
        };
        let trouble = match trouble {
            Some(trouble) => Some(trouble),
            None => self.pool_trouble()?,
        };
        Ok(NodeGetVolumeStatsResponse {
            usage,
            volume_condition: Some(VolumeCondition {
                abnormal: trouble.is_some(),
                message: trouble
                    .unwrap_or_else(|| "the volume is mounted, and its pool is online".into()),
            }),
        })
    }

    /// Makes a volume larger, if the controller did not. Its mount follows by itself; a device has
    /// the new size when it is attached again.
    pub(crate) fn expand_on_node(
        &self,
        request: &NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse> {
        let path = given(&request.volume_id, &request.volume_path)?;
        let range = SizeRange::of(request.capacity_range.as_ref())?;
        let _turn = self.busy.take(&request.volume_id)?;
        let volume = self.volume(&request.volume_id)?;
        let is_here = match volume.kind {
            // It has no mount at the path at which it is staged.
            Kind::Block => self
                .daemon
                .kernel_device_of(&volume.id.dataset(&self.settings.parent))?
                .is_some(),
            Kind::Files => false,
        };
        if !is_here {
            self.published(&volume, path)?;
        }
        let volume = self.enlarge(volume, range)?;
        Ok(NodeExpandVolumeResponse {
            capacity_bytes: i64::try_from(volume.size).unwrap_or(i64::MAX),
        })
    }

    /// A path where a volume is published.
    fn published(&self, volume: &VolumeDataset, path: &str) -> Result<MountTarget> {
        let dataset = volume.id.dataset(&self.settings.parent);
        let device = match volume.kind {
            Kind::Files => None,
            Kind::Block => self.daemon.kernel_device_of(&dataset)?,
        };
        let device = device.as_deref().and_then(number);
        let files = self.served(&volume.id)?;
        let is_it = |target: &MountTarget, mount: &KernelMount| match volume.kind {
            Kind::Files => target.has(&files, mount),
            Kind::Block => device.is_some() && mount.kernel_device() == device,
        };
        let target = MountTarget::find(&self.settings.kubelet_dir, path);
        let target = target.ok().flatten().filter(|target| {
            let mount = target.mounted().ok().flatten();
            mount.is_some_and(|mount| is_it(target, &mount))
        });
        target.ok_or_else(|| {
            GrpcStatus::not_found(format!(
                "'{}' is not published at '{}'",
                volume.id,
                shown(path)
            ))
        })
    }

    /// The problem of the pool of the volumes, if it has one.
    fn pool_trouble(&self) -> Result<Option<String>> {
        let parent = &self.settings.parent;
        let pool = parent.split('/').next().unwrap_or(parent);
        let status = command::PoolStatus {
            pools: vec![pool.into()],
            names_files: false,
        };
        let Reply::Pools(pools) = self.daemon.call(status)? else {
            return Err(not_understood().into());
        };
        Ok(pools.first().and_then(trouble_of))
    }
}

fn trouble_of(pool: &PoolReport) -> Option<String> {
    let (name, health) = (&pool.name, &pool.health);
    match &pool.trouble {
        Some(trouble) => Some(format!("pool '{name}' is {health}: {trouble}")),
        None if health != "ONLINE" => Some(format!("pool '{name}' is {health}")),
        None => None,
    }
}

/// The space and the files of a mount. Of a dead one there is an error.
fn of_files(target: &MountTarget) -> Result<Vec<VolumeUsage>> {
    let gone = || GrpcStatus::internal("it is gone");
    let root = target.open()?.ok_or_else(gone)?;
    let is = rustix::fs::statvfs(itself(root.as_fd())).map_err(std::io::Error::from)?;
    let of = |unit: Unit, total: u64, free: u64, available: u64, size: u64| {
        let count = |count: u64| i64::try_from(count.saturating_mul(size)).unwrap_or(i64::MAX);
        VolumeUsage {
            available: count(available),
            total: count(total),
            used: count(total.saturating_sub(free)),
            unit: unit.into(),
        }
    };
    Ok(vec![
        of(
            Unit::Bytes,
            is.f_blocks,
            is.f_bfree,
            is.f_bavail,
            is.f_frsize,
        ),
        of(Unit::Inodes, is.f_files, is.f_ffree, is.f_favail, 1),
    ])
}

fn of_device(size: u64) -> VolumeUsage {
    VolumeUsage {
        total: i64::try_from(size).unwrap_or(i64::MAX),
        unit: Unit::Bytes.into(),
        ..VolumeUsage::default()
    }
}
