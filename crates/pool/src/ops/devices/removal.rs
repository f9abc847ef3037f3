//! Removes a group of devices that holds data. Its records are copied to other groups, a part with each commit. Then
//! the group leaves the pool. This needs no key.
//!
//! The group keeps all its data until the end ([`mod@crate::storage::remap`]). So a power cut, the failure of a device
//! or a stopped removal wastes only the copies. Nothing new is allocated in the group. A walk over the pool finds the
//! records to copy, and the bitmaps show when it is complete: the group leaves when each of its allocated units has a
//! copy.

use crate::engine::gate::CommitEngine;
use crate::ops::devices::logs::LogDevices;
use std::sync::Arc;
use store::MemberState;

use crate::engine::datasets::table::DatasetTable;
use crate::engine::devices::removal::Removal;
use crate::engine::history::{Origin, log, log_own};
use crate::engine::limits::reservation::Slacks;
use crate::error::{Error, Result};
use crate::format::jobs::scrub_status::ScrubStatus;
use crate::format::superblock::config::{
    Config, ConfigDevice, DeviceState, Purpose, ROLE_SEGMENTS_MAX, Role,
};
use crate::ops::devices::freeing::{Frees, end_frees};
use crate::ops::pool::Pool;
use crate::ops::scrub::{EvacuatedCopies, VisitStep, VisitTask};
use crate::storage::space::{ReserveFor, SpaceReservation};
use crate::storage::writer::txg::TxgWriter;

use crate::format::jobs::removal_status::{RemovalPhase, RemovalStatus};

/// The pages of the remap table that are changed in a commit that does nothing else.
const PAGES: usize = 512;

const NO_SPACE: &str = "the rest of the pool has no free space for the remaining data";

/// The seconds after which failed work is tried again.
pub(crate) const RETRY_SECS: u64 = 60;

/// The removal of a group of devices that holds data.
#[derive(Clone, Copy)]
pub struct GroupRemoval<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The removal of a group of devices that holds data.
    pub fn removal(&self) -> GroupRemoval<'_> {
        GroupRemoval {
            engine: &self.engine,
        }
    }
}

impl GroupRemoval<'_> {
    /// The present removal of a group with data, or the last one.
    pub fn status(&self) -> Option<RemovalStatus> {
        let mut status = self.engine.state.read().config.removal.clone()?;
        if status.is_under_way() {
            let taken = self.engine.space.taken_units(status.group);
            let left = taken.saturating_sub(self.engine.disk.remap.copied_units());
            status.left = left * u64::from(store::UNIT);
            let removal = self.engine.removal.try_lock();
            let waits = removal.and_then(|removal| removal.waits.clone());
            status.waits = waits.map(|(why, _)| why);
        }
        Some(status)
    }

    /// Begins to remove a group that holds data: what lies there is copied to the other groups by
    /// [`GroupRemoval::step`](crate::GroupRemoval::step).
    ///
    /// # Errors
    /// [`Error::Device`] if it does not fit there, if devices of the group are not whole, or for other
    /// reasons that it says.
    pub fn begin(&self, group: u16, origin: &Origin) -> Result<()> {
        self.engine.state.read().refuse_with_checkpoint()?;
        let engine = self.engine;
        engine.check_writable()?;
        let mut removal = engine.removal.lock();
        let name = self.check_removable(group)?;
        engine.space.leave(group, true);
        let reserved = self
            .reserve_and_begin(group, &name, origin)
            .inspect_err(|_| engine.space.leave(group, false))?;
        *removal = Removal::new(reserved);
        Ok(())
    }

    /// The name of a group, or why it cannot be removed.
    fn check_removable(&self, group: u16) -> Result<String> {
        let store = &self.engine.disk.store;
        let state = self.engine.state.read();
        let config = &state.config;
        let members: Vec<&ConfigDevice> = config.group(group).collect();
        let Some(first) = members.first() else {
            let reason = "the pool has no such group";
            return Err(Error::of_device(&format!("group {group}"), reason));
        };
        let name = name_of(config, group, &first.path);
        let refuse = |reason: String| Err(Error::of_device(&name, reason));
        let others = 0..store.groups().len() as u16;
        let others = others.filter(|other| {
            *other != group
                && config.purpose(*other) == Purpose::Data
                && config.group(*other).next().is_some()
        });
        if config.leaving().is_some() {
            return refuse("another group is being removed; wait for that to end".into());
        }
        if config.purpose(group) != Purpose::Data {
            return refuse("it holds no data".into());
        }
        if others.count() == 0 {
            return refuse("it is the last that holds data".into());
        }
        let present = store.members();
        let is_whole = |device: &&ConfigDevice| {
            let member = present.iter().find(|member| member.guid == device.guid);
            device.state == DeviceState::Online
                && member.is_some_and(|member| member.state == MemberState::Online)
        };
        if let Some(broken) = members.iter().find(|device| !is_whole(device)) {
            return refuse(format!(
                "{} of its group does not hold everything; bring it back or replace it first",
                broken.path
            ));
        }
        if config.resilver.is_running() {
            return refuse("a resilver is running; wait for that to end".into());
        }
        if let Some(why) = self.waits_for_log(group, &state) {
            return refuse(why);
        }
        let segments = store.groups()[usize::from(group)];
        if config.role_segments() > ROLE_SEGMENTS_MAX.saturating_sub(segments) {
            return refuse("groups of too many segments were removed from the pool before".into());
        }
        Ok(name.clone())
    }

    /// Returns the reason to wait, if a log that will be replayed points into the group. No bitmap has such records.
    fn waits_for_log(&self, group: u16, state: &DatasetTable) -> Option<String> {
        let dataset = self.engine.claims.dataset_in(group)?;
        let name = state.get(dataset).map(|entry| state.name_of(entry));
        Some(format!(
            "the log of {} is there and waits for its key; mount this dataset first",
            name.unwrap_or_default()
        ))
    }

    fn reserve_and_begin(
        &self,
        group: u16,
        name: &str,
        origin: &Origin,
    ) -> Result<SpaceReservation> {
        let engine = self.engine;
        let space = &engine.space;
        let remap = &engine.disk.remap;
        let taken = space.taken_units(group);
        let table = space.system_bytes_without(group)
            + remap.space_for(engine.disk.store.as_ref(), group, taken);
        let wanted = space.bytes_of_units(group, taken).saturating_add(table);
        let kept = Slacks::of(&engine.state.read()).total();
        let reserved = space.reserve_besides(wanted, ReserveFor::Writing, kept);
        let mut reserved = reserved.map_err(|error| match error {
            Error::NoSpace => Error::of_device(
                name,
                too_large(wanted, space.available_bytes().saturating_sub(kept)),
            ),
            other => other,
        })?;
        LogDevices {
            engine: self.engine,
        }
        .leave(group)?;
        // Records that are in the group already must be in a tree before the walk begins.
        engine.in_flight.devices_changed();
        let now = engine.env.now();
        let total = space.taken_units(group) * u64::from(store::UNIT);
        reserved.shrink(space.bytes_of_units(group, taken));
        engine.commit_with(|commit, state| {
            let moved_till = state
                .config
                .removal
                .as_ref()
                .map_or(0, |last| last.moved_till);
            state.config.removal = Some(RemovalStatus {
                group,
                started: now,
                total,
                moved_till,
                name: name.into(),
                ..RemovalStatus::default()
            });
            set_role(&mut state.config, group, Purpose::Leaving, 0);
            state.make_redundant(commit);
            log(commit, state, origin, None);
            space.move_system(group).map_err(|error| match error {
                Error::NoSpace => {
                    Error::of_device(name, "no whole segments are free in the rest of the pool")
                }
                other => other,
            })
        })?;
        Ok(reserved)
    }

    /// Stops the removal under way. The group stays in use, as it was.
    ///
    /// # Errors
    /// [`Error::Refused`] if no group is being removed; as [`Pool::commit`].
    pub fn stop(&self, origin: &Origin) -> Result<()> {
        let engine = self.engine;
        let mut removal = engine.removal.lock();
        engine.commit_with(|commit, state| {
            let name = state.pool_name();
            let status = state.config.removal.as_mut();
            let Some(status) = status.filter(|status| status.is_under_way()) else {
                return Err(Error::refused(name, "no group is being removed"));
            };
            status.phase = RemovalPhase::Stopping;
            state.config_dirty = true;
            log(commit, state, origin, None);
            Ok(())
        })?;
        while self.give_up_step(&mut removal)? {}
        Ok(())
    }

    /// Copies about `budget` more bytes of the group that is being removed. False if nothing is left to do now.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Inconsistent`] if a
    /// node cannot be read; [`Error::Store`] if a device fails. As [`Pool::commit`].
    pub fn step(&self, budget: u64) -> Result<bool> {
        let engine = self.engine;
        let status = engine.state.read().config.removal.clone();
        let Some(status) = status.filter(|status| status.is_under_way() && !engine.read_only)
        else {
            return Ok(false);
        };
        let mut removal = engine.removal.lock();
        if status.phase == RemovalPhase::Stopping {
            return self.give_up_step(&mut removal);
        }
        let waits_till = removal.waits.as_ref().map(|(_, till)| *till);
        if waits_till.is_some_and(|till| engine.env.now() < till) {
            return Ok(false);
        }
        removal.waits = None;
        if self.engine.is_resilvering() {
            let why = "it goes on when the resilver is done".to_owned();
            removal.waits = Some((why, 0));
            return Ok(false);
        }
        if !engine.in_flight.is_settled() {
            std::thread::yield_now();
            return Ok(true);
        }
        if !removal.is_table_out {
            removal.is_table_out = !self.move_table()?;
            return Ok(true);
        }
        match removal.has_walked {
            false => self.walk(&status, &mut removal, budget),
            true => self.end(&status, &mut removal),
        }
    }

    /// Moves pages of the remap table of earlier removals out of the group. False if the group has none.
    fn move_table(&self) -> Result<bool> {
        self.engine.commit_with(|commit, state| {
            state.config_dirty = true;
            commit.core.disk.remap.leave(PAGES)
        })
    }

    /// The allocated units of the group that have no copy.
    fn left(&self, group: u16) -> Result<u64> {
        let _committing = self.engine.lock_commits();
        let copied: u64 = self
            .engine
            .disk
            .remap
            .covered()?
            .values()
            .map(|n| u64::from(*n))
            .sum();
        Ok(self.engine.space.taken_units(group).saturating_sub(copied))
    }

    fn walk(&self, status: &RemovalStatus, removal: &mut Removal, budget: u64) -> Result<bool> {
        let engine = self.engine;
        let left = self.left(status.group)?;
        if removal.walk == ScrubStatus::default() {
            removal.left_before = left;
        }
        let reserved = engine.space.bytes_of_units(status.group, left);
        removal.reserved.set(reserved);
        if matches!(
            engine.space.reserve(0, ReserveFor::Freeing),
            Err(Error::NoSpace)
        ) {
            return Ok(self.wait(removal, NO_SPACE.into()));
        }
        let evacuated = EvacuatedCopies::new(status.group, engine.in_flight.ticket());
        let mut step = VisitStep {
            engine: self.engine,
            task: VisitTask::Evacuate(evacuated),
            left: budget,
            in_use: None,
            status: &mut removal.walk,
        };
        let walked = step.evacuate();
        let VisitTask::Evacuate(evacuated) = step.task else {
            return Ok(false);
        };
        self.enter_copies(evacuated)?;
        match walked {
            Ok(done) => removal.has_walked = done,
            Err(Error::NoSpace) => return Ok(self.wait(removal, NO_SPACE.into())),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Enters copies into the remap table, if their originals still exist.
    fn enter_copies(&self, evacuated: EvacuatedCopies) -> Result<()> {
        if evacuated.copies.is_empty() {
            return Ok(());
        }
        self.engine.commit_with(|commit, state| {
            let space = &commit.core.space;
            for (extent, pieces) in &evacuated.copies {
                let is_there = space.is_on_disk(extent)?;
                if is_there && commit.core.disk.remap.enter(extent, pieces.clone())? {
                    pieces
                        .iter()
                        .for_each(|piece| commit.note_allocated(*piece));
                } else {
                    space.release(pieces.iter().copied());
                }
            }
            if let Some(removal) = &mut state.config.removal {
                removal.moved_till = commit.txg;
            }
            state.config_dirty = true;
            Ok(())
        })
    }

    /// Remembers why the removal cannot continue now.
    fn wait(&self, removal: &mut Removal, why: String) -> bool {
        tracing::warn!("the removal of a group of devices waits: {why}");
        removal.restart_walk();
        removal.waits = Some((why, self.engine.env.now() + RETRY_SECS));
        false
    }

    /// Ends the removal after the walk. The free queue is emptied first. Then the group leaves, if all its units have
    /// copies.
    fn end(&self, status: &RemovalStatus, removal: &mut Removal) -> Result<bool> {
        let engine = self.engine;
        match end_frees(engine)? {
            Frees::Done => {}
            Frees::More => return Ok(true),
            Frees::Wait(why) => {
                removal.waits = Some((why, engine.env.now() + RETRY_SECS));
                return Ok(false);
            }
        }
        if self.drop_group(status)? {
            removal.reserved.shrink(0);
            return Ok(false);
        }
        let left = self.left(status.group)?;
        let damaged = removal.walk.errors;
        removal.restart_walk();
        if left < removal.left_before {
            return Ok(true);
        }
        let bytes = left * u64::from(store::UNIT);
        let waits = self.waits_for_log(status.group, &engine.state.read());
        let why = waits.unwrap_or_else(|| match damaged {
            0 => format!(
                "{bytes} bytes are allocated there, and nothing that could be copied is found in them"
            ),
            _ => format!(
                "{damaged} records there cannot be read; destroy what has them (scrub names it)"
            ),
        });
        Ok(self.wait(removal, why))
    }

    /// Puts the remap table into use, and releases the devices. False if a unit has no copy.
    fn drop_group(&self, status: &RemovalStatus) -> Result<bool> {
        let engine = self.engine;
        let now = engine.env.now();
        let group = status.group;
        let gone = engine.commit_with(|commit, state| {
            let copied = commit.core.disk.remap.covered()?;
            if !commit.core.space.drop_group(group, &copied) {
                return Ok(None);
            }
            let store = &commit.core.disk.store;
            let segments = store.groups()[usize::from(group)];
            store.make_dispensable(group, segments);
            let devices = unlist_group(state, group);
            set_role(&mut state.config, group, Purpose::Moved, segments);
            if let Some(shape) = state.config.shapes.get_mut(usize::from(group)) {
                *shape = store::Shape::WHOLE;
            }
            if let Some(removal) = &mut state.config.removal {
                removal.phase = RemovalPhase::Finished;
                removal.ended = now;
            }
            state.devices_left();
            log_own(commit, state, format!("removed {}", status.name));
            Ok(Some(devices))
        })?;
        let Some((devices, spares)) = gone else {
            return Ok(false);
        };
        for guid in devices.iter().chain(&spares) {
            engine.disk.store.set_state(*guid, MemberState::Offline);
        }
        engine.release(&devices, false)?;
        engine.release(&spares, true)?;
        engine.disk.grow();
        Ok(true)
    }

    /// Frees a part of the copies. False if none is left, and the group is in use again.
    fn give_up_step(&self, removal: &mut Removal) -> Result<bool> {
        let engine = self.engine;
        let now = engine.env.now();
        let still = engine.commit_with(|commit, state| give_up(commit, state, now))?;
        if let Some(group) = still {
            engine.space.leave(group, false);
            removal.reserved.shrink(0);
        }
        Ok(still.is_none())
    }
}

/// Frees a part of the copies. When none is left, the group is in use again, and is returned.
fn give_up(commit: &TxgWriter<'_>, state: &mut DatasetTable, now: u64) -> Result<Option<u16>> {
    if commit.core.disk.remap.give_up(commit, PAGES)? {
        return Ok(None);
    }
    let Some(group) = state.config.leaving() else {
        return Ok(None);
    };
    set_role(&mut state.config, group, Purpose::Data, 0);
    if let Some(removal) = &mut state.config.removal {
        removal.phase = RemovalPhase::Stopped;
        removal.ended = now;
    }
    state.config_dirty = true;
    Ok(Some(group))
}

/// Unlists the devices of a group: those that leave the pool, and those that are spares again.
fn unlist_group(state: &mut DatasetTable, group: u16) -> (Vec<u64>, Vec<u64>) {
    let members: Vec<ConfigDevice> = state.config.group(group).cloned().collect();
    let (spares, devices): (Vec<_>, Vec<_>) = members.into_iter().partition(|d| d.was_spare);
    let guids = |devices: Vec<ConfigDevice>| devices.iter().map(|d| d.guid).collect::<Vec<u64>>();
    let (devices, spares) = (guids(devices), guids(spares));
    spares.iter().for_each(|guid| state.unlist(*guid));
    let listed = &mut state.config.devices;
    listed.retain(|device| !devices.contains(&device.guid));
    (devices, spares)
}

/// The name of a group in messages: its only device, or its kind and number.
fn name_of(config: &Config, group: u16, first: &str) -> String {
    match (config.shape(group).parity(), config.group(group).count()) {
        (0, 1) => first.into(),
        (0, _) => format!("mirror-{group}"),
        (parity, _) => format!("raidz{parity}-{group}"),
    }
}

fn set_role(config: &mut Config, group: u16, purpose: Purpose, segments: u32) {
    config.set_role(group, Role { purpose, segments });
}

fn too_large(wanted: u64, free: u64) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    format!(
        "its data does not fit on the rest of the pool: it takes {} MiB there, and {} MiB are free",
        mib(wanted),
        free >> 20
    )
}
