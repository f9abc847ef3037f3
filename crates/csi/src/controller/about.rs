//! The capabilities of controller and volumes, the free space, and the list of volumes.

use super::pages::ListPage;
use crate::daemon::bytes;
use crate::demands::{Parameters, VolumeUse};
use crate::driver::CsiDriver;
use crate::proto::controller_service_capability::rpc::Type as Can;
use crate::proto::controller_service_capability::{self, Rpc};
use crate::proto::validate_volume_capabilities_response::Confirmed;
use crate::proto::volume_content_source::{self, SnapshotSource, VolumeSource};
use crate::proto::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerServiceCapability, GetCapacityRequest, GetCapacityResponse, ListVolumesRequest,
    ListVolumesResponse, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    VolumeContentSource, VolumeMessage, list_volumes_response,
};
use crate::status::{GrpcStatus, Result};
use crate::volumes::{Kind, VolumeDataset};

const CAN: [Can; 7] = [
    Can::CreateDeleteVolume,
    Can::ListVolumes,
    Can::GetCapacity,
    Can::CreateDeleteSnapshot,
    Can::ListSnapshots,
    Can::CloneVolume,
    Can::SingleNodeMultiWriter,
];

impl CsiDriver {
    pub(crate) fn controller_capabilities(
        &self,
        _: &ControllerGetCapabilitiesRequest,
    ) -> Result<ControllerGetCapabilitiesResponse> {
        let capability = |is: Can| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(Rpc {
                r#type: is.into(),
            })),
        };
        // The resizer of Kubernetes asks one controller for the volumes of all nodes.
        let expand = self.settings.single_node.then_some(Can::ExpandVolume);
        Ok(ControllerGetCapabilitiesResponse {
            capabilities: CAN.into_iter().chain(expand).map(capability).collect(),
        })
    }

    pub(crate) fn validate_volume(
        &self,
        request: &ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse> {
        let volume = self.volume(&request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(GrpcStatus::invalid(
                "the capabilities of the volume are missing",
            ));
        }
        let kind = VolumeUse::of_all(&request.volume_capabilities).and_then(|kind| {
            let is_clone = volume.source.is_some();
            let sources = &self.settings.key_sources;
            Parameters::of(&request.parameters, (kind, is_clone), sources)?;
            Ok(kind)
        });
        let other = match kind {
            Ok(kind) if kind == volume.kind => None,
            Ok(Kind::Files) => Some(format!("'{}' is a block device", volume.id)),
            Ok(Kind::Block) => Some(format!("'{}' is a file system", volume.id)),
            Err(status) => Some(status.message),
        };
        let confirmed = other.is_none().then(|| Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            ..Confirmed::default()
        });
        Ok(ValidateVolumeCapabilitiesResponse {
            confirmed,
            message: other.unwrap_or_default(),
        })
    }

    pub(crate) fn capacity(&self, request: &GetCapacityRequest) -> Result<GetCapacityResponse> {
        let is_here = request.accessible_topology.as_ref();
        let kind = match request.volume_capabilities.as_slice() {
            [] => Ok(Kind::Files),
            some => VolumeUse::of_all(some),
        };
        let sources = &self.settings.key_sources;
        let fits = kind.and_then(|kind| {
            Parameters::of(&request.parameters, (kind, false), sources).map(|_| ())
        });
        // No volume of that sort can be made here.
        if !is_here.is_none_or(|topology| self.is_here(topology)) || fits.is_err() {
            return Ok(GetCapacityResponse::default());
        }
        let rows = self.daemon.get(&self.settings.parent, 0, &["available"]);
        let rows = rows.map_err(|failure| self.no_parent(failure))?;
        let free = rows.first().and_then(|row| bytes(row, "available"));
        Ok(GetCapacityResponse {
            available_capacity: signed(free.unwrap_or_default()),
            ..GetCapacityResponse::default()
        })
    }

    pub(crate) fn list_volumes(&self, request: &ListVolumesRequest) -> Result<ListVolumesResponse> {
        let page = ListPage::of(&request.starting_token, request.max_entries)?;
        let (volumes, next_token) = page.cut(self.volumes()?, |volume| volume.id.to_string());
        let entry = |volume: VolumeDataset| list_volumes_response::Entry {
            volume: Some(self.info(&volume)),
            status: None,
        };
        Ok(ListVolumesResponse {
            entries: volumes.into_iter().map(entry).collect(),
            next_token,
        })
    }

    /// A volume, as calls return it.
    pub(super) fn info(&self, volume: &VolumeDataset) -> VolumeMessage {
        VolumeMessage {
            capacity_bytes: signed(volume.size),
            volume_id: volume.id.to_string(),
            content_source: volume.source.as_deref().map(source_of),
            accessible_topology: vec![self.topology()],
            ..VolumeMessage::default()
        }
    }
}

/// The source of a clone: an id with `@` is that of a snapshot.
fn source_of(id: &str) -> VolumeContentSource {
    let id = id.to_owned();
    let is = match id.contains('@') {
        true => volume_content_source::Type::Snapshot(SnapshotSource { snapshot_id: id }),
        false => volume_content_source::Type::Volume(VolumeSource { volume_id: id }),
    };
    VolumeContentSource { r#type: Some(is) }
}

/// A size as the protocol has it.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
