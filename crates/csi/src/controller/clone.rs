//! Volumes that begin as a snapshot, or as another volume.
//!
//! A clone of a volume is a clone of a snapshot `VOLUME@clone-HASH` that is made for it. The snapshot is then destroyed
//! as soon as nothing keeps it, so it goes when the clone does.

use protocol::api::{Failure, FailureKind, command};

use super::create::{own_props, size_of_files};
use crate::daemon::bytes;
use crate::demands::{Parameters, STEP, SizeRange};
use crate::driver::CsiDriver;
use crate::names::{MADE, SnapshotId, VolumeId, shown};
use crate::proto::VolumeContentSource;
use crate::proto::volume_content_source::Type;
use crate::status::{GrpcStatus, Result};
use crate::volumes::{Kind, VolumeDataset};

/// The contents that a new volume begins with.
enum CloneOrigin {
    Snapshot(SnapshotId),
    Volume(VolumeId),
}

impl CsiDriver {
    /// `there`: what has the name already.
    pub(super) fn create_clone(
        &self,
        id: VolumeId,
        range: SizeRange,
        parameters: &Parameters,
        (kind, source): (Kind, &VolumeContentSource),
        there: Option<VolumeDataset>,
    ) -> Result<VolumeDataset> {
        let (text, origin) = origin_of(source)?;
        if let Some(there) = &there
            && (there.kind != kind || there.source.as_deref() != Some(text))
        {
            return Err(there.differs());
        }
        let of = self.origin_volume(text, &origin)?;
        let _turn = match of.id == id {
            true => {
                return Err(GrpcStatus::invalid(format!(
                    "'{id}' cannot be a clone of itself"
                )));
            }
            false => self.busy.take(of.id.as_str())?,
        };
        if of.kind != kind {
            return Err(GrpcStatus::invalid(format!(
                "the source '{text}' is of the other type"
            )));
        }
        let is_reserved = parameters.reserve;
        let size = match there {
            Some(there) if range.holds(there.size) => there.size,
            // A call before was interrupted between the clone and its growth.
            Some(there) if kind == Kind::Block && there.size == of.size => {
                range.size(kind, of.size)?
            }
            Some(there) => return Err(there.differs()),
            None => {
                let snapshot = self.snapshot_for(&origin, &id)?;
                let made = self.clone_of(&snapshot, &of, (&id, text), range, parameters);
                if made.is_err() && matches!(origin, CloneOrigin::Volume(_)) {
                    let _ = self.let_go(&snapshot);
                }
                made?
            }
        };
        if let CloneOrigin::Volume(volume) = &origin {
            self.let_go(&made_for(volume, &id, &self.settings.parent))?;
        }
        let volume = self.volume(id.as_str())?;
        self.grow(&volume, size, is_reserved)
    }

    /// The volume that an origin is, or is a snapshot of.
    fn origin_volume(&self, text: &str, origin: &CloneOrigin) -> Result<VolumeDataset> {
        let id = match origin {
            CloneOrigin::Volume(id) => id,
            CloneOrigin::Snapshot(id) => {
                if self.snapshot(id)?.is_none() {
                    return Err(no_source(text));
                }
                &id.volume
            }
        };
        self.find_volume(id)?.ok_or_else(|| no_source(text))
    }

    /// The snapshot that a clone begins as.
    fn snapshot_for(&self, origin: &CloneOrigin, id: &VolumeId) -> Result<String> {
        let parent = &self.settings.parent;
        let volume = match origin {
            CloneOrigin::Snapshot(id) => return Ok(id.snapshot(parent)),
            CloneOrigin::Volume(volume) => volume,
        };
        let name = made_for(volume, id, parent);
        // What a call left that was interrupted before the clone.
        self.let_go(&name)?;
        self.daemon.call(command::Snapshot {
            names: vec![name.clone()],
            recursive: false,
        })?;
        Ok(name)
    }

    /// Makes a clone of a snapshot of the volume `of`. Returns the size that it is to have.
    fn clone_of(
        &self,
        snapshot: &str,
        of: &VolumeDataset,
        (id, source): (&VolumeId, &str),
        range: SizeRange,
        parameters: &Parameters,
    ) -> Result<u64> {
        let mut props = parameters.props.clone();
        props.extend(own_props(id, Some(source)));
        let mut least = of.size;
        if of.kind == Kind::Files && least > 0 {
            // A volume that is full may have a little more than its size.
            let rows = self.daemon.get(snapshot, 0, &["referenced"])?;
            let stored = rows.first().and_then(|row| bytes(row, "referenced"));
            least = least.max(stored.unwrap_or_default().next_multiple_of(STEP));
        }
        let size = range.size(of.kind, least)?;
        if size > of.size {
            self.refuse_too_large(size)?;
        }
        if of.kind == Kind::Files {
            props.extend(size_of_files(size, parameters.reserve));
        }
        self.daemon.call(command::Clone {
            snapshot: snapshot.into(),
            name: id.dataset(&self.settings.parent),
            props,
            rekey: false,
            parents: false,
            no_mount: true,
        })?;
        Ok(size)
    }

    /// Destroys a snapshot as soon as nothing keeps it. Does nothing if there is none.
    pub(super) fn let_go(&self, snapshot: &str) -> Result<()> {
        let gone = self.daemon.call(command::DestroyLater {
            name: snapshot.into(),
            recursive: false,
            force: false,
            dry_run: false,
        });
        match gone {
            Ok(_) => Ok(()),
            Err(Failure {
                kind: FailureKind::NotFound,
                ..
            }) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn origin_of(source: &VolumeContentSource) -> Result<(&str, CloneOrigin)> {
    match &source.r#type {
        Some(Type::Snapshot(is)) => {
            let text = is.snapshot_id.as_str();
            let id = SnapshotId::parse(text).map_err(|_| no_source(text))?;
            Ok((text, CloneOrigin::Snapshot(id)))
        }
        Some(Type::Volume(is)) => {
            let text = is.volume_id.as_str();
            let id = VolumeId::parse(text).map_err(|_| no_source(text))?;
            Ok((text, CloneOrigin::Volume(id)))
        }
        None => Err(GrpcStatus::invalid("the source of the volume is missing")),
    }
}

fn no_source(text: &str) -> GrpcStatus {
    GrpcStatus::not_found(format!(
        "there is no snapshot or volume '{}' to begin with",
        shown(text)
    ))
}

/// The snapshot of `volume` that is made for the clone `id`. Both names together may be too long for a name.
fn made_for(volume: &VolumeId, id: &VolumeId, parent: &str) -> String {
    // FNV-1a. Two clones with the same hash get in each other's way, and neither gets wrong data.
    let hash = id
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{}@{MADE}{hash:016x}", volume.dataset(parent))
}
