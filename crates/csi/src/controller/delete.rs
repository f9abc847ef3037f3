//! The end of volumes.

use protocol::api::{DatasetRow, command};

use crate::daemon::word;
use crate::driver::CsiDriver;
use crate::names::{VolumeId, is_unseen, shown};
use crate::proto::{DeleteVolumeRequest, DeleteVolumeResponse};
use crate::status::{GrpcStatus, Result};
use crate::volumes::MARK;

impl CsiDriver {
    pub(crate) fn delete_volume(
        &self,
        request: &DeleteVolumeRequest,
    ) -> Result<DeleteVolumeResponse> {
        if request.volume_id.is_empty() {
            return Err(GrpcStatus::invalid("the id of the volume is missing"));
        }
        // An id that no volume can have is that of none.
        let Ok(id) = VolumeId::parse(&request.volume_id) else {
            return Ok(DeleteVolumeResponse {});
        };
        let _turn = self.busy.take(id.as_str())?;
        let Some(row) = self.dataset_row(&id)? else {
            return Ok(DeleteVolumeResponse {});
        };
        let dataset = row.name;
        if self.find_volume(&id)?.is_none() {
            return Err(GrpcStatus::precondition(format!(
                "'{dataset}' was not made by this driver, because it has no property {MARK}; destroy it by hand"
            )));
        }
        if let Some(mount) = self.daemon.mount_of(&dataset)? {
            return Err(GrpcStatus::precondition(format!(
                "'{id}' is in use: it is mounted at {}",
                shown(&mount.dir)
            )));
        }
        if let Some(device) = self.daemon.kernel_device_of(&dataset)? {
            return Err(GrpcStatus::precondition(format!(
                "'{id}' is in use as {device}"
            )));
        }
        self.hand_over_snapshots(&dataset)?;
        self.daemon.call(command::Destroy {
            name: dataset,
            ..command::Destroy::default()
        })?;
        Ok(DeleteVolumeResponse {})
    }

    /// Gives snapshots that only clones keep to one of these. Refuses for other snapshots.
    fn hand_over_snapshots(&self, dataset: &str) -> Result<()> {
        self.let_go_unseen(dataset)?;
        loop {
            let rows = self.daemon.get(dataset, 1, &["defer_destroy", "clones"])?;
            let snapshots = rows.iter().filter(|row| row.name.contains('@'));
            let snapshots: Vec<&DatasetRow> = snapshots.collect();
            let is_kept = |row: &&&DatasetRow| word(row, "defer_destroy") != Some("on");
            if let Some(kept) = snapshots.iter().find(is_kept) {
                return Err(GrpcStatus::precondition(format!(
                    "the volume has snapshots, such as '{}'; delete them first",
                    kept.name
                )));
            }
            let clone = snapshots.iter().find_map(|row| word(row, "clones"));
            let Some(clone) = clone.and_then(|clones| clones.split(',').next()) else {
                return Ok(());
            };
            // The snapshots move to the clone, up to the one that it came from. They stay from then on.
            self.daemon.call(command::Promote { name: clone.into() })?;
            self.let_go_unseen(clone)?;
        }
    }

    /// Destroys the snapshots that callers do not see, as soon as nothing keeps them.
    pub(super) fn let_go_unseen(&self, dataset: &str) -> Result<()> {
        for row in self.daemon.get(dataset, 1, &["defer_destroy"])? {
            let is_unseen = row
                .name
                .split_once('@')
                .is_some_and(|(_, name)| is_unseen(name));
            if is_unseen && word(&row, "defer_destroy") != Some("on") {
                self.let_go(&row.name)?;
            }
        }
        Ok(())
    }
}
