//! Snapshots of volumes.

use protocol::api::command;

use super::about::signed;
use super::pages::ListPage;
use crate::daemon::{bytes, not_understood, word};
use crate::driver::CsiDriver;
use crate::names::{GONE, SnapshotId, shown};
use crate::proto::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, SnapshotMessage, Timestamp,
    list_snapshots_response,
};
use crate::status::{GrpcCode, GrpcStatus, Result};
use crate::volumes::VolumeSnapshot;

/// The prefix of parameters that the sidecars of Kubernetes add.
const OF_SIDECARS: &str = "csi.storage.k8s.io/";

impl CsiDriver {
    pub(crate) fn create_snapshot(
        &self,
        request: &CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse> {
        if request.name.is_empty() || request.source_volume_id.is_empty() {
            return Err(GrpcStatus::invalid(
                "the name of the snapshot, or the id of its volume, is missing",
            ));
        }
        let mut parameters = request.parameters.keys();
        if let Some(name) = parameters.find(|name| !name.starts_with(OF_SIDECARS)) {
            return Err(GrpcStatus::invalid(format!(
                "parameter '{}' is not known",
                shown(name)
            )));
        }
        // Snapshots of two volumes must not get one name at the same time.
        let _turns = (
            self.busy.take(&format!("@{}", request.name))?,
            self.busy.take(&request.source_volume_id)?,
        );
        let volume = self.volume(&request.source_volume_id)?;
        let id = SnapshotId::new(volume.id, &request.name)?;
        let all = self.snapshots()?;
        let there = all
            .iter()
            .find(|there| there.id.name == id.name && !there.is_leaving);
        if let Some(there) = there {
            return match there.id == id {
                true => Ok(created(there)),
                false => Err(GrpcStatus::new(
                    GrpcCode::AlreadyExists,
                    format!(
                        "a snapshot '{}' of another volume exists, '{}'",
                        id.name, there.id
                    ),
                )),
            };
        }
        self.daemon.call(command::Snapshot {
            names: vec![id.snapshot(&self.settings.parent)],
            recursive: false,
        })?;
        let gone = || GrpcStatus::internal(format!("the new snapshot '{id}' is gone"));
        Ok(created(&self.snapshot(&id)?.ok_or_else(gone)?))
    }

    pub(crate) fn delete_snapshot(
        &self,
        request: &DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse> {
        if request.snapshot_id.is_empty() {
            return Err(GrpcStatus::invalid("the id of the snapshot is missing"));
        }
        // An id that no snapshot can have is that of none.
        if let Ok(id) = SnapshotId::parse(&request.snapshot_id) {
            let _turn = self.busy.take(id.volume.as_str())?;
            if self.find_volume(&id.volume)?.is_some() {
                self.remove_snapshot(&id)?;
            }
        }
        Ok(DeleteSnapshotResponse {})
    }

    /// Destroys a snapshot. One with clones gets another name, and goes with the last clone: by its name it is known as
    /// deleted, also if it moves to a clone.
    fn remove_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let parent = &self.settings.parent;
        if self.snapshot(id)?.is_some() {
            let name = id.snapshot(parent);
            let rows = self.daemon.get(&name, 0, &["clones", "guid"])?;
            let row = rows.first().ok_or_else(not_understood)?;
            match (word(row, "clones"), bytes(row, "guid")) {
                (Some(_), Some(guid)) => {
                    self.daemon.call(command::Rename {
                        from: name,
                        to: format!("{}@{GONE}{guid:016x}", id.volume.dataset(parent)),
                        recursive: false,
                        parents: false,
                        force: false,
                    })?;
                }
                _ => self.let_go(&name)?,
            }
        }
        self.let_go_unseen(&id.volume.dataset(parent))
    }

    pub(crate) fn list_snapshots(
        &self,
        request: &ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse> {
        let page = ListPage::of(&request.starting_token, request.max_entries)?;
        let (id, volume) = (&request.snapshot_id, &request.source_volume_id);
        let is_wanted = |it: &VolumeSnapshot| {
            !it.is_leaving
                && (id.is_empty() || it.id.to_string() == *id)
                && (volume.is_empty() || it.id.volume.as_str() == volume)
        };
        let all = self.snapshots()?.into_iter().filter(is_wanted).collect();
        let (snapshots, next_token) =
            page.cut(all, |snapshot: &VolumeSnapshot| snapshot.id.to_string());
        let entry = |snapshot: &VolumeSnapshot| list_snapshots_response::Entry {
            snapshot: Some(info(snapshot)),
        };
        Ok(ListSnapshotsResponse {
            entries: snapshots.iter().map(entry).collect(),
            next_token,
        })
    }

    /// A snapshot that was not deleted.
    pub(super) fn snapshot(&self, id: &SnapshotId) -> Result<Option<VolumeSnapshot>> {
        let mut all = self.snapshots()?.into_iter();
        Ok(all.find(|there| there.id == *id && !there.is_leaving))
    }
}

fn created(snapshot: &VolumeSnapshot) -> CreateSnapshotResponse {
    CreateSnapshotResponse {
        snapshot: Some(info(snapshot)),
    }
}

fn info(snapshot: &VolumeSnapshot) -> SnapshotMessage {
    SnapshotMessage {
        size_bytes: signed(snapshot.size),
        snapshot_id: snapshot.id.to_string(),
        source_volume_id: snapshot.id.volume.to_string(),
        creation_time: Some(Timestamp {
            seconds: signed(snapshot.created),
            nanos: 0,
        }),
        ready_to_use: true,
        ..SnapshotMessage::default()
    }
}
