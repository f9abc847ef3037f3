//! Larger volumes.

use super::about::signed;
use super::create::limits;
use crate::demands::SizeRange;
use crate::driver::CsiDriver;
use crate::proto::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use crate::status::{GrpcCode, GrpcStatus, Result};
use crate::volumes::{Kind, VolumeDataset};

impl CsiDriver {
    pub(crate) fn expand_volume(
        &self,
        request: &ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse> {
        if request.volume_id.is_empty() {
            return Err(GrpcStatus::invalid("the id of the volume is missing"));
        }
        if request.capacity_range.is_none() {
            return Err(GrpcStatus::invalid("the size of the volume is missing"));
        }
        let range = SizeRange::of(request.capacity_range.as_ref())?;
        let _turn = self.busy.take(&request.volume_id)?;
        let volume = self.volume(&request.volume_id)?;
        let volume = self.enlarge(volume, range)?;
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: signed(volume.size),
            node_expansion_required: false,
        })
    }

    /// Makes a volume larger, unless its size is in the range.
    pub(crate) fn enlarge(&self, volume: VolumeDataset, range: SizeRange) -> Result<VolumeDataset> {
        if range.holds(volume.size) {
            return Ok(volume);
        }
        let size = range.size(volume.kind, 0)?;
        match size < volume.size {
            true => Err(GrpcStatus::new(
                GrpcCode::OutOfRange,
                format!(
                    "'{}' has {} bytes, and volumes never shrink",
                    volume.id, volume.size
                ),
            )),
            false => {
                self.refuse_too_large(size)?;
                self.grow(&volume, size, volume.is_reserved)
            }
        }
    }

    /// Makes a volume at least this large; 0 is without a limit.
    pub(super) fn grow(
        &self,
        volume: &VolumeDataset,
        size: u64,
        is_reserved: bool,
    ) -> Result<VolumeDataset> {
        let name = volume.id.dataset(&self.settings.parent);
        let is_larger = size > volume.size && volume.size > 0;
        let size = if is_larger { size } else { volume.size };
        match volume.kind {
            Kind::Files if is_larger || is_reserved != volume.is_reserved => {
                self.daemon.set(&name, limits(size, is_reserved))?;
            }
            Kind::Block => {
                if is_larger {
                    self.daemon
                        .set(&name, vec![("volsize".into(), size.to_string())])?;
                }
                if is_reserved && (is_larger || !volume.is_reserved) {
                    let reserved = ("refreservation".into(), size.to_string());
                    self.daemon.set(&name, vec![reserved])?;
                }
            }
            Kind::Files => {}
        }
        Ok(VolumeDataset {
            id: volume.id.clone(),
            kind: volume.kind,
            size,
            is_reserved,
            source: volume.source.clone(),
        })
    }
}
