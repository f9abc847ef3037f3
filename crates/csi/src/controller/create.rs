//! New volumes.

use protocol::api::{FailureKind, NewVolume, Props, command};

use crate::driver::Driver;
use crate::names::VolumeId;
use crate::proto::{CreateVolumeRequest, CreateVolumeResponse};
use crate::status::{Code, Result, Status};
use crate::volumes::{Kind, MARK, ORIGIN, Volume};
use crate::wanted::{Parameters, Range, Use};

impl Driver {
    pub(crate) fn create_volume(
        &self,
        request: &CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse> {
        if request.name.is_empty() {
            return Err(Status::invalid("the name of the volume is missing"));
        }
        let id = VolumeId::parse(&request.name)?;
        let kind = Use::of_all(&request.volume_capabilities)?;
        let range = Range::of(request.capacity_range.as_ref())?;
        let source = request.volume_content_source.as_ref();
        let wanted = (kind, source.is_some());
        let parameters = Parameters::of(&request.parameters, wanted, &self.settings.key_sources)?;
        if !request.mutable_parameters.is_empty() {
            return Err(Status::invalid(
                "parameters that change later are not supported",
            ));
        }
        if !self.is_accessible(request.accessibility_requirements.as_ref()) {
            return Err(Status::new(
                Code::ResourceExhausted,
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
                None => self.create_empty(id, kind, range.size(kind, 0)?, parameters)?,
            },
        };
        Ok(CreateVolumeResponse {
            volume: Some(self.info(&volume)),
        })
    }

    fn create_empty(
        &self,
        id: VolumeId,
        kind: Kind,
        size: u64,
        parameters: Parameters,
    ) -> Result<Volume> {
        let is_reserved = parameters.reserve;
        let mut props = parameters.props;
        props.extend(own_props(&id, None));
        if kind == Kind::Files {
            props.extend(size_of_files(size, is_reserved));
        }
        let create = command::Create {
            name: id.dataset(&self.settings.parent),
            props,
            parents: false,
            no_mount: true,
            volume: (kind == Kind::Block).then_some(NewVolume {
                size,
                sparse: !is_reserved,
            }),
            dry_run: false,
        };
        self.daemon
            .call(create)
            .map_err(|failure| match failure.kind {
                FailureKind::NotFound => self.no_parent(failure),
                _ => failure.into(),
            })?;
        Ok(Volume {
            id,
            kind,
            size,
            is_reserved,
            source: None,
        })
    }
}

impl Volume {
    /// Whether this is what a call wants that makes it again.
    pub(super) fn is_as(&self, kind: Kind, range: Range) -> bool {
        self.kind == kind && range.holds(self.size)
    }

    pub(super) fn differs(&self) -> Status {
        Status::new(
            Code::AlreadyExists,
            format!(
                "a volume '{}' exists, with another size, type or source",
                self.id
            ),
        )
    }
}

/// What is set on each volume. Pods and schedules of the parent have no part in it.
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
