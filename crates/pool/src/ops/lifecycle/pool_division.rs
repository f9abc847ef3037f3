//! Splits a member off each mirror. These members become a pool of their own, with the state of one commit.
//!
//! After that commit all members have all data, and no log has entries that count. Then the members get labels that
//! name both pools, and the next commit removes them from the configuration. That commit decides: before it they are
//! still members. After it they are the new pool, and its import uses the state of the commit before. A power cut in
//! between leaves labels, which the next import completes or undoes. Until they are imported, only labels are written
//! to them. This needs no key.

use std::sync::Weak;

use store::MemberState;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log};
use crate::error::{Error, Result};
use crate::format::jobs::scrub_status::ScrubPhase;
use crate::format::superblock::config::{Config, ConfigDevice, DeviceState, Purpose, Role};
use crate::format::superblock::root::{DEVICES_MAX, PoolRoot};
use crate::names::check_pool_name;
use crate::ops::datasets::renames::check_name_lengths;
use crate::ops::pool::Pool;

/// A pool that is split off.
#[derive(Clone, Copy, Debug)]
pub struct NewPool<'a> {
    /// The guid of the new pool.
    pub guid: u64,
    /// The name of the new pool.
    pub name: &'a str,
}

impl Pool {
    /// The members that a split would take: from each mirror the named one, otherwise the last one.
    ///
    /// # Errors
    /// [`Error::Device`] if a named device is no member of a mirror, or two of one mirror are named;
    /// [`Error::Refused`] if a group is no mirror, or something is under way.
    pub fn split_members(&self, named: &[u64]) -> Result<Vec<u64>> {
        let state = self.engine.state.read();
        let config = &state.config;
        let groups = 0..u16::try_from(state.root.groups.get()).unwrap_or(u16::MAX);
        let mut members = Vec::new();
        for group in groups.filter(|group| config.purpose(*group).holds_data()) {
            let all: Vec<&ConfigDevice> = config.group(group).collect();
            let mut chosen = all.iter().filter(|device| named.contains(&device.guid));
            let first = chosen.next();
            if let Some(second) = chosen.next() {
                let reason = "one device of each mirror is split off, and this is the second";
                return Err(Error::of_device(&second.path, reason));
            }
            members.extend(first.or(all.last()).map(|device| device.guid));
        }
        let is_no_member = |guid: &&u64| !members.contains(guid);
        if let Some(guid) = named.iter().find(is_no_member) {
            let device = config.devices.iter().find(|device| device.guid == *guid);
            let device = device.ok_or_else(|| Error::no_device(*guid))?;
            let reason = "it is no member of a mirror that holds data";
            return Err(Error::of_device(&device.path, reason));
        }
        check(&state, &members)?;
        Ok(members)
    }

    /// Makes these members a pool of their own, which is not imported. They are closed when this returns. Returns why
    /// one of them does not say so yet: the next import of this pool, or of the new one, completes it.
    ///
    /// # Errors
    /// The pool was not split, unless it is suspended. As [`Pool::split_members`]; [`Error::BadName`], also for the
    /// name of a dataset that gets too long; [`Error::Store`] if a device fails; as [`Pool::commit`].
    pub fn split(
        &self,
        new: NewPool<'_>,
        members: &[u64],
        origin: &Origin,
    ) -> Result<Option<Error>> {
        let engine = &self.engine;
        engine.check_writable()?;
        check_pool_name(new.name)?;
        {
            let state = engine.state.read();
            check(&state, members)?;
            check_name_lengths(&state, state.top()?.id, new.name)?;
        }
        let logs: Vec<u16> = {
            let state = engine.state.read();
            let roles = state.config.roles.iter().zip(0..);
            let logs = roles.filter(|(role, _)| role.purpose == Purpose::Logs);
            logs.map(|(_, group)| group).collect()
        };
        let barred: Result<Vec<_>> = logs
            .into_iter()
            .map(|n| self.log_devices().leave_group(n))
            .collect();
        let _barred = barred?;
        let committing = engine.lock_commits();
        engine.commit_holding(&committing, |_, _| Ok(()))?;
        self.refuse_waiting_logs()?;
        let store = &engine.disk.store;
        let txg = engine.gate.read().txg;
        let undo = || {
            if let Err(error) = store.undo_split(members) {
                tracing::warn!(%error, "a label still says that its device is to be split off");
            }
        };
        store
            .prepare_split(members, (new.guid, new.name), txg)
            .inspect_err(|_| undo())?;
        let done = engine.commit_holding(&committing, |commit, state| {
            // A member may have failed meanwhile.
            check(state, members)?;
            let present = commit.core.disk.store.members();
            let has_all = |guid: &u64| {
                let mut present = present.iter().filter(|member| member.guid == *guid);
                present.any(|member| member.state == MemberState::Online)
            };
            if let Some(guid) = members.iter().find(|guid| !has_all(guid)) {
                let path = state.device(*guid)?.path.clone();
                return Err(Error::of_device(&path, "it has just failed"));
            }
            for guid in members {
                let reason = "no other device holds all of its part of the pool";
                state.check_dispensable(commit, *guid, reason)?;
            }
            log(commit, state, origin, None);
            for guid in members {
                state.take_out(commit, *guid);
            }
            state.devices_left();
            state.config.add_split(new.guid);
            state.config_dirty = true;
            Ok(())
        });
        if done.is_err() && engine.suspension.now().is_none() {
            // A commit happened without the change. After a failed commit the next import decides.
            undo();
        }
        done?;
        Ok(store.split_off(members).err().map(Error::from))
    }

    /// Refuses logs that wait to be replayed: their entries name this pool, and no pool with another guid would know
    /// them. What is synced to the logs of open datasets is in the next commit.
    ///
    /// # Errors
    /// [`Error::Refused`] for the first of them.
    pub fn refuse_waiting_logs(&self) -> Result<()> {
        let state = self.engine.state.read();
        state.refuse_with_checkpoint()?;
        let open = self.engine.open.lock();
        let waits = |id: u64| {
            let dataset = open.get(&id).and_then(Weak::upgrade);
            dataset.is_none_or(|dataset| dataset.waiting_log().is_some())
        };
        let mut logs = state.all().filter(|entry| entry.log.exists());
        match logs.find(|entry| waits(entry.id)) {
            None => Ok(()),
            Some(entry) => Err(Error::refused(
                state.name_of(entry),
                "synced writes wait in its log; load its key and mount it first",
            )),
        }
    }

    /// Completes or undoes a split that a power cut interrupted.
    pub(crate) fn settle_splits(&self) -> Result<()> {
        let done = self.engine.state.read().config.splits.clone();
        tell(&self.engine.disk.store.settle_splits(&done)?);
        Ok(())
    }

    /// Makes the labels of all devices name this pool, and the pool before too.
    pub(crate) fn confirm_labels(&self) -> Result<()> {
        tell(&self.engine.disk.store.confirm_labels()?);
        Ok(())
    }

    /// Makes the labels of the devices name this pool only, after its first commit as a pool that was split off or got
    /// another guid. It waits while a device is missing or failed: that device would not be recognized later, or has
    /// nothing of this pool.
    pub(crate) fn finish_change(&self) -> Result<()> {
        let engine = &self.engine;
        let store = &engine.disk.store;
        if !store.is_changing() {
            return Ok(());
        }
        let _committing = engine.lock_commits();
        let present = store.members();
        let is_ready = |device: &ConfigDevice| {
            let mut own = present.iter().filter(|member| member.guid == device.guid);
            own.any(|member| {
                let is_used =
                    matches!(member.state, MemberState::Online | MemberState::Resilvering);
                member.is_spare || is_used
            })
        };
        let missing = {
            let state = engine.state.read();
            let missing = state.config.devices.iter().find(|d| !is_ready(d));
            missing.map(|device| device.path.clone())
        };
        if let Some(device) = missing {
            tracing::warn!(
                device,
                "labels name the guid from before too, until this device is there and in use"
            );
            return Ok(());
        }
        tell(&store.finish_change(&engine.key_blocks_in_use())?);
        Ok(())
    }
}

fn tell(failures: &[String]) {
    for reason in failures {
        tracing::warn!(reason, "a device keeps the label from before");
    }
}

/// The configuration of a pool that was split off, from that of the pool before. Its own devices are online.
pub(crate) fn become_own(config: &mut Config, root: &mut PoolRoot, name: &str) {
    config
        .devices
        .retain(|device| device.state == DeviceState::Online);
    config.caches.clear();
    config.splits.clear();
    // The image is of the pool before, and only that one may write to it and remove it.
    config.follower = None;
    let roles: Vec<(usize, Role)> = config.roles.iter().copied().enumerate().collect();
    for (group, role) in roles {
        if role.purpose == Purpose::Logs {
            let purpose = Purpose::Gone;
            config.roles[group] = Role { purpose, ..role };
        }
    }
    config.restart_resilver();
    root.missed = [0; DEVICES_MAX / 8];
    root.set_name(name);
}

/// Refuses members that cannot be split off, and a pool with background work.
fn check(state: &DatasetTable, members: &[u64]) -> Result<()> {
    // It names the devices of the pool before.
    state.refuse_with_checkpoint()?;
    let config = &state.config;
    let refused = |reason: &str| Err(Error::refused(state.pool_name(), reason));
    let mut removal = config.removal.iter();
    if removal.any(|removal| removal.is_under_way()) {
        return refused("a group is being removed; wait for that, or stop it (pool remove -s)");
    }
    if config.resilver.is_running() {
        return refused("a resilver runs; wait for its end (pool wait -t resilver)");
    }
    if config.scrub.phase == ScrubPhase::Running {
        return refused(
            "a scrub runs, which may repair copies; wait for its end (pool wait -t scrub)",
        );
    }
    for device in config.devices.iter().filter(|device| device.is_member()) {
        if device.replaces != 0 {
            let reason = "it is replacing another device; wait for that, or detach one of both";
            return Err(Error::of_device(&device.path, reason));
        }
    }
    let groups = 0..u16::try_from(state.root.groups.get()).unwrap_or(u16::MAX);
    for group in groups.filter(|group| config.purpose(*group).holds_data()) {
        let all: Vec<&ConfigDevice> = config.group(group).collect();
        let Some(first) = all.first() else { continue };
        if config.shape(group).has_parity() || all.len() < 2 {
            let reason = match config.shape(group).has_parity() {
                true => "its group has parity; only a pool of mirrors can be split",
                false => "it has no mirror; only a pool of mirrors can be split",
            };
            return Err(Error::of_device(&first.path, reason));
        }
        let leaves = |device: &&&ConfigDevice| members.contains(&device.guid);
        let Some(leaving) = all.iter().find(leaves) else {
            return refused("a member of each mirror has to be split off");
        };
        let is_whole = |device: &&&ConfigDevice| device.state == DeviceState::Online;
        let stays = all.iter().filter(|device| !leaves(device));
        if !is_whole(&leaving) || stays.filter(is_whole).count() == 0 {
            let reason = "it does not hold all data, or no other device of its mirror does";
            return Err(Error::of_device(&leaving.path, reason));
        }
    }
    Ok(())
}
