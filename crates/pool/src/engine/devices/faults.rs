//! Failed devices, and their entry into the configuration.

use store::MemberState;

use crate::engine::context::PoolContext;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::log_own;
use crate::format::superblock::config::DeviceState;
use crate::storage::writer::txg::TxgWriter;

impl PoolContext {
    /// Marks a member as failed: the pool stops using it.
    pub(crate) fn fault(&self, guid: u64, error: store::Error) {
        self.disk.store.set_state(guid, MemberState::Faulted);
        let members = self.disk.store.members();
        let member = members.into_iter().find(|member| member.guid == guid);
        self.faults.lock().new.push(store::DeviceFault {
            guid,
            name: member.map(|member| member.name).unwrap_or_default(),
            error,
        });
    }

    /// Returns whether a device has failed and the configuration on the devices does not say so yet.
    pub(crate) fn has_faults(&self) -> bool {
        let mut faults = self.faults.lock();
        faults.new.extend(self.disk.store.take_faults());
        !faults.new.is_empty() || faults.are_entering
    }

    /// The commit that entered the failed devices is durable.
    pub(crate) fn faults_entered(&self) {
        self.faults.lock().are_entering = false;
    }

    /// Enters failed devices and error counts into the configuration.
    pub(crate) fn enter_faults(&self, commit: &TxgWriter<'_>, state: &mut DatasetTable) {
        if !self.has_faults() {
            return;
        }
        // The devices may have failed during the last commit.
        let has_all_until = commit.txg.saturating_sub(2);
        let faults = {
            let mut faults = self.faults.lock();
            faults.are_entering = true;
            std::mem::take(&mut faults.new)
        };
        for store::DeviceFault { guid, name, error } in faults {
            tracing::error!(%error, device = name, "a device failed; the pool stops using it");
            state.leave(guid, DeviceState::Faulted, has_all_until);
            log_own(commit, state, format!("fault {name}: {error}"));
        }
        for member in self.disk.store.members() {
            if let Some(device) = state.config.device(member.guid) {
                device.errors = member.errors;
            }
        }
        state.devices_left();
    }
}
