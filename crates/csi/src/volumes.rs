//! The volumes and snapshots that there are.

use protocol::api::{DatasetRow, Failure, FailureKind, ValueSource};

use crate::daemon::{bytes, word};
use crate::driver::CsiDriver;
use crate::names::{SnapshotId, VolumeId};
use crate::status::{GrpcCode, GrpcStatus, Result};

/// The property of datasets that are volumes of the driver.
pub(crate) const MARK: &str = "csi:volume";
/// The property that names the snapshot or volume that a volume began as.
pub(crate) const ORIGIN: &str = "csi:source";

const PROPS: [&str; 5] = [MARK, ORIGIN, "refquota", "volsize", "refreservation"];

/// Files or blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file system.
    Files,
    /// A block device.
    Block,
}

/// A volume.
#[derive(Debug)]
pub(crate) struct VolumeDataset {
    pub(crate) id: VolumeId,
    pub(crate) kind: Kind,
    /// The size in bytes; 0 without a limit.
    pub(crate) size: u64,
    /// True if space is reserved for the volume.
    pub(crate) is_reserved: bool,
    /// The id of the snapshot or volume that this one is a clone of.
    pub(crate) source: Option<String>,
}

/// A snapshot of a volume.
#[derive(Debug)]
pub(crate) struct VolumeSnapshot {
    pub(crate) id: SnapshotId,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// The size of its volume in bytes.
    pub(crate) size: u64,
    /// True if the snapshot was deleted; it is destroyed with its last clone.
    pub(crate) is_leaving: bool,
}

impl CsiDriver {
    /// The row of a dataset with the name of a volume, whether it is one or not.
    pub(crate) fn dataset_row(&self, id: &VolumeId) -> Result<Option<DatasetRow>> {
        let parent = &self.settings.parent;
        match self.daemon.get(&id.dataset(parent), 0, &PROPS) {
            Ok(rows) => Ok(rows.into_iter().next()),
            Err(failure) if failure.kind == FailureKind::NotFound => {
                // A volume of a pool that is not imported is not gone.
                self.daemon
                    .get(parent, 0, &["type"])
                    .map_err(|it| self.no_parent(it))?;
                Ok(None)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// A volume of the driver, if there is such a one.
    pub(crate) fn find_volume(&self, id: &VolumeId) -> Result<Option<VolumeDataset>> {
        Ok(self.dataset_row(id)?.and_then(|row| self.volume_of(&row)))
    }

    /// A volume of the driver by an id from outside.
    pub(crate) fn volume(&self, id: &str) -> Result<VolumeDataset> {
        if id.is_empty() {
            return Err(GrpcStatus::invalid("the id of the volume is missing"));
        }
        let none =
            || GrpcStatus::not_found(format!("there is no volume '{}'", crate::names::shown(id)));
        let id = VolumeId::parse(id).map_err(|_| none())?;
        self.find_volume(&id)?.ok_or_else(none)
    }

    /// All volumes, by id.
    pub(crate) fn volumes(&self) -> Result<Vec<VolumeDataset>> {
        let rows = self.below(1, &PROPS)?;
        let mut all: Vec<VolumeDataset> =
            rows.iter().filter_map(|row| self.volume_of(row)).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    /// All snapshots of volumes, by id.
    pub(crate) fn snapshots(&self) -> Result<Vec<VolumeSnapshot>> {
        let mut props = PROPS.to_vec();
        props.extend(["creation", "defer_destroy"]);
        let rows = self.below(2, &props)?;
        let volumes: Vec<VolumeDataset> =
            rows.iter().filter_map(|row| self.volume_of(row)).collect();
        let snapshot = |row: &DatasetRow| {
            let (dataset, name) = row.name.split_once('@')?;
            let is_it =
                |volume: &&VolumeDataset| volume.id.dataset(&self.settings.parent) == dataset;
            let volume = volumes.iter().find(is_it)?;
            Some(VolumeSnapshot {
                id: SnapshotId::of_snapshot(&volume.id, name)?,
                created: bytes(row, "creation").unwrap_or_default(),
                size: volume.size,
                is_leaving: word(row, "defer_destroy") == Some("on"),
            })
        };
        let mut all: Vec<VolumeSnapshot> = rows.iter().filter_map(snapshot).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    fn below(&self, depth: u32, props: &[&str]) -> Result<Vec<DatasetRow>> {
        let rows = self.daemon.get(&self.settings.parent, depth, props);
        rows.map_err(|failure| self.no_parent(failure))
    }

    fn volume_of(&self, row: &DatasetRow) -> Option<VolumeDataset> {
        let below = row.name.strip_prefix(&self.settings.parent)?;
        let id = VolumeId::parse(below.strip_prefix('/')?).ok()?;
        let mark = row.props.iter().find(|prop| prop.property == MARK)?;
        if mark.source != ValueSource::Local {
            return None;
        }
        let (kind, size) = match row.kind.as_str() {
            "filesystem" => (Kind::Files, "refquota"),
            "volume" => (Kind::Block, "volsize"),
            _ => return None,
        };
        Some(VolumeDataset {
            id,
            kind,
            size: bytes(row, size).unwrap_or_default(),
            is_reserved: bytes(row, "refreservation").is_some_and(|bytes| bytes > 0),
            source: word(row, ORIGIN).map(str::to_owned),
        })
    }

    /// The status of a call if the parent of the volumes cannot be used.
    pub(crate) fn no_parent(&self, failure: Failure) -> GrpcStatus {
        match failure.kind {
            FailureKind::NotFound => GrpcStatus::new(
                GrpcCode::Unavailable,
                format!(
                    "the dataset '{}' of the volumes is missing on node '{}': import its pool, or create it",
                    self.settings.parent, self.settings.node_id
                ),
            ),
            _ => failure.into(),
        }
    }
}
