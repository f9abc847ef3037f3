//! New volumes.

use protocol::api::{FailureKind, NewVolume, Props, command};

use crate::daemon::{bytes, not_understood};
use crate::demands::{Parameters, STEP, SizeRange, VolumeUse};
use crate::driver::CsiDriver;
use crate::names::VolumeId;
use crate::proto::{CreateVolumeRequest, CreateVolumeResponse};
use crate::status::{GrpcCode, GrpcStatus, Result};
use crate::volumes::{Kind, MARK, ORIGIN, VolumeDataset};

impl CsiDriver {
    pub(crate) fn create_volume(
        &self,
        request: &CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse> {
        if request.name.is_empty() {
            return Err(GrpcStatus::invalid("the name of the volume is missing"));
        }
        let id = VolumeId::parse(&request.name)?;
        let kind = VolumeUse::of_all(&request.volume_capabilities)?;
        let range = SizeRange::of(request.capacity_range.as_ref())?;
        let source = request.volume_content_source.as_ref();
        let wanted = (kind, source.is_some());
        let parameters = Parameters::of(&request.parameters, wanted, &self.settings.key_sources)?;
        if !request.mutable_parameters.is_empty() {
            return Err(GrpcStatus::invalid(
                "parameters that change later are not supported",
            ));
        }
        if !self.is_accessible(request.accessibility_requirements.as_ref()) {
            return Err(GrpcStatus::new(
                GrpcCode::ResourceExhausted,
                format!(
                    "the volumes of this driver are on node '{}' only",
                    self.settings.node_id
                ),
            ));
        }
        let _turn = self.busy.take(id.as_str())?;
        let there = self.find_volume(&id)?;
        let volume = match source {
            Some(source) => self.create_clone(id, range, &parameters, (kind, source), there)?,
            None => match there {
                Some(there) if there.source.is_none() && there.is_as(kind, range) => there,
                Some(there) => return Err(there.differs()),
                None => {
                    let size = self.size_of_new(kind, range)?;
                    self.create_empty(id, kind, size, parameters)?
                }
            },
        };
        Ok(CreateVolumeResponse {
            volume: Some(self.info(&volume)),
        })
    }

    /// The size of a new volume. One for which no size is wanted fits.
    fn size_of_new(&self, kind: Kind, range: SizeRange) -> Result<u64> {
        let size = range.size(kind, 0)?;
        if range.wants_any() {
            let fits = self.storable()? / STEP * STEP;
            return Ok(size.min(fits.max(STEP)));
        }
        self.refuse_too_large(size)?;
        Ok(size)
    }

    /// Refuses a size that no volume here could ever fill. Without `reserve`, volumes together may be larger.
    pub(super) fn refuse_too_large(&self, size: u64) -> Result<()> {
        let most = self.storable()?;
        match size > most {
            true => Err(GrpcStatus::new(
                GrpcCode::OutOfRange,
                format!(
                    "the volume would have {size} bytes, and all volumes here together can store {most}"
                ),
            )),
            false => Ok(()),
        }
    }

    /// The bytes that a volume could store if all others were destroyed.
    fn storable(&self) -> Result<u64> {
        let parent = &self.settings.parent;
        let rows = self.daemon.get(parent, 0, &["available", "used"]);
        let rows = rows.map_err(|failure| self.no_parent(failure))?;
        let row = rows.first().ok_or_else(not_understood)?;
        let part = |name| bytes(row, name).ok_or_else(not_understood);
        Ok(part("available")?.saturating_add(part("used")?))
    }

    fn create_empty(
        &self,
        id: VolumeId,
        kind: Kind,
        size: u64,
        parameters: Parameters,
    ) -> Result<VolumeDataset> {
        let is_reserved = parameters.reserve;
        let mut props = parameters.props;
        props.extend(own_props(&id, None));
        if kind == Kind::Files {
            props.extend(size_of_files(size, is_reserved));
        }
        let create = command::Create {
            name: id.dataset(&self.settings.parent),
            props,
            no_mount: true,
            volume: (kind == Kind::Block).then_some(NewVolume {
                size,
                sparse: !is_reserved,
            }),
            ..command::Create::default()
        };
        self.daemon
            .call(create)
            .map_err(|failure| match failure.kind {
                FailureKind::NotFound => self.no_parent(failure),
                _ => failure.into(),
            })?;
        Ok(VolumeDataset {
            id,
            kind,
            size,
            is_reserved,
            source: None,
        })
    }
}

impl VolumeDataset {
    /// Returns whether this volume is the one that a repeated call asks for.
    pub(super) fn is_as(&self, kind: Kind, range: SizeRange) -> bool {
        self.kind == kind && range.holds(self.size)
    }

    pub(super) fn differs(&self) -> GrpcStatus {
        GrpcStatus::new(
            GrpcCode::AlreadyExists,
            format!(
                "a volume '{}' exists, with another size, type or source",
                self.id
            ),
        )
    }
}

/// The properties that are set on each volume. Pods and schedules of the parent do not change them.
pub(super) fn own_props(id: &VolumeId, source: Option<&str>) -> Props {
    let mut props = vec![
        (MARK.into(), id.to_string()),
        ("snapshot-schedule".into(), "none".into()),
    ];
    props.extend(source.map(|source| (ORIGIN.into(), source.into())));
    props
}

/// The size of a file system, which only the node mounts.
pub(super) fn size_of_files(size: u64, is_reserved: bool) -> Props {
    let mut props: Props = vec![
        ("mountpoint".into(), "none".into()),
        ("canmount".into(), "noauto".into()),
    ];
    props.extend(limits(size, is_reserved));
    props
}

/// The properties of the size of a file system.
pub(super) fn limits(size: u64, is_reserved: bool) -> Props {
    let size = match size {
        0 => return Props::new(),
        size => size.to_string(),
    };
    let mut props: Props = vec![("refquota".into(), size.clone())];
    if is_reserved {
        props.push(("refreservation".into(), size));
    }
    props
}
