//! Adds and removes groups of devices that are for logs only.

use crate::engine::gate::CommitEngine;
use std::sync::Arc;
use std::sync::Weak;
use store::{MemberState, NewMember};

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_own};
use crate::engine::log::{GroupBar, LogReader, copy_log};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::records::extent::StoredExtent;
use crate::format::superblock::config::{
    ConfigDevice, DeviceState, Purpose, ROLE_SEGMENTS_MAX, Role,
};
use crate::ops::devices::new_group::{LOG_SEGMENTS_MAX, add_group};
use crate::ops::pool::Pool;
use crate::storage::writer::txg::TxgWriter;

/// The commits after which a log in use has left a group, even while it is written to.
const COMMITS_MAX: usize = 8;

/// The groups of devices that hold only logs.
#[derive(Clone, Copy)]
pub struct LogDevices<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The groups of devices that hold only logs.
    pub fn log_devices(&self) -> LogDevices<'_> {
        LogDevices {
            engine: &self.engine,
        }
    }
}

impl<'a> LogDevices<'a> {
    /// Adds a mirror for logs only. Synced data goes there as long as one of its devices works. Until the next
    /// commit, the data is as safe as these devices.
    ///
    /// # Errors
    /// [`Error::Device`] if the pool has had too many log devices; as [`Pool::add_group`].
    pub fn add(&self, devices: &[NewMember], origin: &Origin) -> Result<()> {
        self.refuse_many(devices)?;
        add_group(self.engine, devices, 0, Purpose::Logs, origin)
    }

    /// Says whether [`LogDevices::add`](crate::LogDevices::add) would refuse these devices. Nothing is written.
    ///
    /// # Errors
    /// As [`LogDevices::add`](crate::LogDevices::add).
    pub fn check(&self, devices: &[NewMember]) -> Result<()> {
        self.refuse_many(devices)?;
        let store = &self.engine.disk.store;
        Ok(store.check_group(devices, 0, LOG_SEGMENTS_MAX)?)
    }

    fn refuse_many(&self, devices: &[NewMember]) -> Result<()> {
        let known = self.engine.state.read().config.role_segments();
        if known > ROLE_SEGMENTS_MAX - LOG_SEGMENTS_MAX {
            let name = devices.first().map(|new| new.device.name());
            let reason = "the pool has had too many log devices";
            return Err(Error::of_device(&name.unwrap_or_default(), reason));
        }
        Ok(())
    }

    /// Removes a log group from the pool. Waiting logs move to other places.
    ///
    /// # Errors
    /// [`Error::Device`] if the group is not for logs;
    /// [`Error::Store`] if a device that leaves fails; as [`Pool::commit`].
    pub fn remove(&self, group: u16, origin: &Origin) -> Result<()> {
        self.engine.state.read().refuse_with_checkpoint()?;
        let engine = self.engine;
        let _barred = self.leave_group(group)?;
        let (devices, spares) = engine.commit_with(|commit, state| {
            let store = &commit.core.disk.store;
            let segments = store.groups()[usize::from(group)];
            let members: Vec<ConfigDevice> = state.config.group(group).cloned().collect();
            let guids = |was_spare: bool| -> Vec<u64> {
                let members = members
                    .iter()
                    .filter(|device| device.was_spare == was_spare);
                members.map(|device| device.guid).collect()
            };
            let (devices, spares) = (guids(false), guids(true));
            for guid in &spares {
                state.take_out(commit, *guid);
            }
            for guid in &devices {
                store.set_state(*guid, MemberState::Offline);
            }
            let listed = &mut state.config.devices;
            listed.retain(|device| !devices.contains(&device.guid));
            let purpose = Purpose::Gone;
            state.config.set_role(group, Role { purpose, segments });
            state.devices_left();
            log(commit, state, origin, None);
            Ok((devices, spares))
        })?;
        engine.release(&devices, false)?;
        engine.release(&spares, true)
    }

    /// Moves all logs out of a log group. Nothing is placed there until the returned value is dropped.
    pub(crate) fn leave_group(&self, group: u16) -> Result<GroupBar<'a>> {
        self.engine.check_writable()?;
        let purpose = self.engine.state.read().config.purpose(group);
        if purpose != Purpose::Logs {
            return Err(Error::of_device(
                &format!("group {group}"),
                "it is not for logs",
            ));
        }
        let barred = GroupBar::new(&self.engine.context, group);
        self.leave(group)?;
        Ok(barred)
    }

    /// The log group that would have no working device without this one.
    pub(crate) fn is_last(&self, guid: u64) -> Option<u16> {
        let state = self.engine.state.read();
        let config = &state.config;
        let device = config.devices.iter().find(|device| device.guid == guid)?;
        let is_for_logs = config.purpose(device.group) == Purpose::Logs && device.is_member();
        let is_whole =
            |other: &ConfigDevice| other.state == DeviceState::Online && other.guid != guid;
        (is_for_logs && !config.is_complete(device.group, is_whole)).then_some(device.group)
    }

    /// Cuts lost parts off logs, and reports it. Earlier entries can still be replayed.
    pub(crate) fn give_up_lost(&self) -> Result<Vec<String>> {
        self.engine.commit_with(|commit, state| {
            let mut said = Vec::new();
            let lost: Vec<u64> = state.with_lost_logs().map(|entry| entry.id).collect();
            for id in lost {
                let known = state.known_chunks(&state.entry(id)?.log);
                say_given_up(commit, state, id, &mut said)?;
                let log = &mut state.edit(id)?.log;
                let given_up = log.chunks.split_off(known);
                commit.free_extents(given_up.iter().map(StoredExtent::of));
                if log.chunks.is_empty() {
                    *log = log.without_chunks();
                }
            }
            let disk = &commit.core.disk;
            let is_unreadable = |entry: &&Entry| {
                let mut log = LogReader::new(disk, &entry.log, entry.guid);
                log.raw().for_each(drop);
                log.unreadable().is_some()
            };
            let all = state.all().map(AsRef::as_ref);
            let waiting = all.filter(|entry: &&Entry| entry.log.exists());
            let unreadable: Vec<u64> = waiting.filter(is_unreadable).map(|e| e.id).collect();
            for id in unreadable {
                say_given_up(commit, state, id, &mut said)?;
                let (readable, _) = copy_log(commit, state.entry(id)?)?;
                state.edit(id)?.log = readable;
            }
            Ok(said)
        })
    }

    /// Moves all logs out of a group in which nothing is placed any more.
    pub(crate) fn leave(&self, group: u16) -> Result<()> {
        let engine = self.engine;
        for _ in 0..COMMITS_MAX {
            if !engine
                .state
                .read()
                .all()
                .any(|entry| entry.log.is_in(group))
            {
                return Ok(());
            }
            engine.commit_with(|commit, state| move_waiting(engine, commit, state, group))?;
        }
        let state = engine.state.read();
        let entry = state.all().find(|entry| entry.log.is_in(group));
        entry.map_or(Ok(()), |entry| {
            Err(Error::Refused {
                name: state.name_of(entry),
                reason: "its log is being replayed from there; try again when that is done".into(),
            })
        })
    }
}

fn say_given_up(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    id: u64,
    said: &mut Vec<String>,
) -> Result<()> {
    let entry = state.entry(id)?;
    let text = format!(
        "gave up what was synced to {} after txg {}: the log device is lost",
        state.name_of(entry),
        entry.log.base
    );
    tracing::warn!("{text}");
    said.push(text.clone());
    log_own(commit, state, text);
    Ok(())
}

/// Moves the logs of datasets that are not open. Logs of open datasets move with their commits.
fn move_waiting(
    engine: &CommitEngine,
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    group: u16,
) -> Result<()> {
    let open = engine.open.lock();
    let is_closed = |id: u64| open.get(&id).and_then(Weak::upgrade).is_none();
    let waiting = state
        .all()
        .filter(|entry| entry.log.is_in(group) && is_closed(entry.id));
    let waiting: Vec<u64> = waiting.map(|entry| entry.id).collect();
    for id in waiting {
        let entry = state.entry(id)?;
        if !state.config.knows_logs(group) {
            return Err(Error::Refused {
                name: state.name_of(entry),
                reason:
                    "its waiting log is on this failed device; bring the device back with 'pool online', or export the \
                     pool and give up the data synced last with 'pool import -m'"
                        .into(),
            });
        }
        let (moved, log) = copy_log(commit, entry)?;
        state.refuse_unreadable(entry, &log)?;
        state.edit(id)?.log = moved;
    }
    Ok(())
}
