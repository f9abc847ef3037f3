//! Changes the targets of a pool to those of its file, with as few changes as possible.
//!
//! Steps that can fail come first, and change nothing. Then targets and units change. A session stays open unless its
//! target, its user or its initiator has lost access.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::{DeviceAccess, DeviceMeter, MeteredDevice};
use iscsi::{Chap, IscsiTarget, LogicalUnit, LoginRedirect, LunView, TargetAccess};
use protocol::api::{FailureKind, HaReport, HaTargetRow, HaUnitRow};
use protocol::device_name::DeviceName;
use protocol::ha_file::NounRefusal;

use super::plan::{plan, warnings};
use super::volume::LUN_PROPERTY;
use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::exports::ha_targets::{
    HaPlan, PlannedTarget, PlannedUnit, ServedTargets, ServedUnit, UnitNow,
};
use crate::state::exports::keeper::PoolKeeper;
use crate::state::exports::listen::{ListenAddress, Protocol};
use crate::state::exports::registry::ExportDefinition;
use crate::state::exports::servers::ServerExports;
use crate::state::pools::active_pool::ActivePool;

/// Secrets of targets, by name.
type TargetSecrets = BTreeMap<String, Arc<dyn Chap>>;

impl Daemon {
    /// Serves the targets in the file of a pool; with `update` only if the pool is served already.
    pub(crate) fn start_ha(
        &self,
        name: &str,
        update: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool(name)?;
        let guid = active.pool.guid();
        let _changing = self.exported.changing.lock();
        if update && !self.served.0.lock().contains_key(&guid) {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("the targets of '{name}' are not started: strongroom ha start {name}"),
            ));
        }
        let (plan, secrets) = self.ha_plan(&active)?;
        if let Some(serving) = self.served.0.lock().get(&guid) {
            serving.refuse_problem(&active, &plan)?;
        }
        self.refuse_taken(guid, &plan)?;
        self.refuse_changed_identity(guid, name, &plan)?;
        for warning in warnings(&plan) {
            context.channel.notice(warning);
        }
        let old = self.served.0.lock().remove(&guid);
        let mut serving = old.unwrap_or_else(|| ServedTargets {
            plan: HaPlan::default(),
            units: BTreeMap::new(),
            waiting: BTreeMap::new(),
            targets: BTreeMap::new(),
        });
        let waited = serving.waiting.clone();
        let applied = self.apply(&active, &mut serving, plan, &secrets, context);
        self.tell_of_waiting(&active.pool.name(), &waited, &serving);
        for (unit, why) in applied.iter().flat_map(|()| &serving.waiting) {
            let unit = &serving.plan.units[unit].name;
            context
                .channel
                .notice(format!("'{unit}' is not served yet: {why}"));
        }
        if applied.is_ok() || !serving.targets.is_empty() {
            self.served.0.lock().insert(guid, serving);
        }
        self.drop_idle_portals();
        applied
    }

    /// Checks the file of a pool, and changes nothing.
    pub(crate) fn verify_ha(&self, name: &str, context: &mut CallerContext<'_>) -> Result<()> {
        let active = self.pool(name)?;
        let (plan, _) = self.ha_plan(&active)?;
        if let Some(problem) = plan.problem() {
            return Err(refused_file(&active, plan.file, problem));
        }
        self.refuse_taken(active.pool.guid(), &plan)?;
        for warning in warnings(&plan) {
            context.channel.notice(warning);
        }
        for unit in plan.units.values() {
            if let Some(why) = &unit.refused {
                let notice = format!("'{}' would not be served: {why}", unit.name);
                context.channel.notice(notice);
            }
        }
        Ok(())
    }

    /// Ends all targets of a pool, with their sessions.
    pub(crate) fn stop_ha(&self, name: &str, context: &mut CallerContext<'_>) -> Result<()> {
        let guid = self.pool(name)?.pool.guid();
        let _changing = self.exported.changing.lock();
        for failure in self.end_ha(guid) {
            context.channel.notice(failure.message);
        }
        Ok(())
    }

    /// The report on the targets that a pool serves.
    pub(crate) fn ha_report(&self, name: &str) -> Result<HaReport> {
        let active = self.pool(name)?;
        let mut report = HaReport {
            pool: active.pool.name(),
            file: None,
            targets: Vec::new(),
            units: Vec::new(),
        };
        let all = self.served.0.lock();
        let Some(serving) = all.get(&active.pool.guid()) else {
            return Ok(report);
        };
        let (plan, waiting) = (serving.plan.clone(), serving.waiting.clone());
        let targets = serving.targets.clone();
        // Dropped here, because the next calls may wait for units.
        drop(all);
        report.file = Some(plan.file.to_owned());
        for (name, planned) in &plan.targets {
            report.targets.push(HaTargetRow {
                name: name.clone(),
                portals: planned.portals(),
                redirects: planned.moved.iter().map(shown_redirect).collect(),
                chap: planned.chap.is_some(),
                sessions: targets.get(name).map_or(0, |it| it.sessions().len()),
            });
        }
        for (guid, unit) in &plan.units {
            let shows = |planned: &PlannedTarget| planned.views.iter().any(|it| it.unit == *guid);
            let targets = plan.targets.iter();
            let targets = targets.filter(|(_, planned)| shows(planned));
            report.units.push(HaUnitRow {
                volume: unit.name.clone(),
                lun: unit.lun,
                serial: unit.identity.shown_serial(),
                targets: targets.map(|(name, _)| name.clone()).collect(),
                waits: waiting.get(guid).cloned(),
            });
        }
        report
            .units
            .sort_by(|a, b| (a.lun, &a.volume).cmp(&(b.lun, &b.volume)));
        Ok(report)
    }

    /// The targets that pools serve, by name.
    pub(crate) fn ha_targets(&self) -> BTreeMap<String, Arc<IscsiTarget>> {
        let all = self.served.0.lock();
        let targets = all.values().flat_map(|serving| serving.targets.clone());
        targets.collect()
    }

    /// The units that pools have to serve, for metrics.
    pub(crate) fn ha_units(&self) -> Vec<UnitNow> {
        let all = self.served.0.lock();
        let units = all.values().flat_map(|serving| {
            serving.plan.units.iter().map(|(guid, planned)| UnitNow {
                volume: planned.name.clone(),
                is_ambiguous: planned.is_ambiguous,
                meter: { serving.units.get(guid) }.map(|it| Arc::clone(&it.meter)),
            })
        });
        units.collect()
    }

    pub(super) fn ha_plan(&self, active: &ActivePool) -> Result<(HaPlan, TargetSecrets)> {
        let found = self.ha_file(active)?;
        let volumes = self.ha_volumes(active)?;
        let mut plan = plan(&active.pool.name(), &found.file, &volumes)
            .map_err(|refused| refused_file(active, found.name, &refused))?;
        plan.file = found.name;
        self.refuse_foreign_identities(active.pool.guid(), &mut plan);
        let mut secrets = TargetSecrets::new();
        for (name, target) in &plan.targets {
            if let Some(sources) = &target.chap {
                let read = self.exported.typed.secrets(name, sources)?;
                secrets.insert(name.clone(), read as Arc<dyn Chap>);
            }
        }
        Ok((plan, secrets))
    }

    fn apply(
        &self,
        active: &Arc<ActivePool>,
        serving: &mut ServedTargets,
        plan: HaPlan,
        secrets: &TargetSecrets,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        // First the steps that can fail. They do not change `serving`.
        let mut waiting = BTreeMap::new();
        let mut opened = BTreeMap::new();
        for (guid, planned) in &plan.units {
            if let Some(why) = &planned.refused {
                waiting.insert(*guid, why.clone());
                continue;
            }
            if serving.units.contains_key(guid) {
                continue;
            }
            // If a unit cannot be opened, the others are served all the same.
            match self.open_unit(active, *guid, planned) {
                Ok(unit) => drop(opened.insert(*guid, unit)),
                Err(failure) => drop(waiting.insert(*guid, failure.message)),
            }
        }
        let mut portals: BTreeMap<ListenAddress, ServerExports> = BTreeMap::new();
        for place in plan.targets.values().flat_map(|target| &target.places) {
            portals.insert(place.clone(), self.exported.serve_at(place, None)?);
        }
        let unit = |guid: &u64| match plan.is_served(*guid) {
            true => { serving.units.get(guid) }.or_else(|| opened.get(guid)),
            false => None,
        };
        let unit = |guid: &u64| unit(guid).map(|it| &it.unit);
        let mut shown: BTreeMap<&String, Vec<LunView>> = BTreeMap::new();
        for (name, planned) in &plan.targets {
            shown.insert(name, views(&plan, planned, &unit)?);
        }
        remember_luns(active, &plan)?;
        let mut made: BTreeMap<String, Arc<IscsiTarget>> = BTreeMap::new();
        for (name, planned) in &plan.targets {
            if serving.targets.contains_key(name) {
                continue;
            }
            let views = shown.remove(name).unwrap_or_default();
            let target = IscsiTarget::with_views(name, access(planned, secrets.get(name)), views)?;
            let target = Arc::new(target);
            target.set_portals(planned.portals());
            let offered = offer(&target, &planned.places, planned, &portals);
            made.insert(name.clone(), target);
            if let Err(failure) = offered {
                self.take_back(&made.into_values().collect::<Vec<_>>());
                return Err(failure);
            }
        }
        // Then the steps that cannot fail.
        for (name, target) in &serving.targets {
            let Some(planned) = plan.targets.get(name) else {
                continue;
            };
            if let Err(error) = target.set_access(access(planned, secrets.get(name))) {
                context.channel.notice(error.to_string());
            }
            target.set_views(shown.remove(name).unwrap_or_default());
            target.set_portals(planned.portals());
            let had = &serving.plan.targets[name].places;
            let more: BTreeSet<ListenAddress> = planned.places.difference(had).cloned().collect();
            if let Err(failure) = offer(target, &more, planned, &portals) {
                context.channel.notice(failure.message);
            }
            redirect(target, planned, &portals);
            for place in had.difference(&planned.places) {
                self.leave_portal(place, target);
            }
        }
        let gone = serving
            .targets
            .extract_if(.., |name, _| !plan.targets.contains_key(name));
        self.take_back(&gone.map(|(_, target)| target).collect::<Vec<_>>());
        serving.targets.append(&mut made);
        let (stay, gone) = std::mem::take(&mut serving.units)
            .into_iter()
            .partition(|(guid, _)| plan.is_served(*guid));
        serving.units = stay;
        serving.units.append(&mut opened);
        serving.waiting = waiting;
        serving.plan = plan;
        for failure in close_units(gone) {
            context.channel.notice(failure.message);
        }
        Ok(())
    }

    /// Opens a volume for its unit.
    fn open_unit(
        &self,
        active: &ActivePool,
        guid: u64,
        planned: &PlannedUnit,
    ) -> Result<ServedUnit> {
        let name = &planned.name;
        let pool = active.pool.name();
        let user = format!("the targets of '{pool}' (strongroom ha stop {pool})");
        let device = self.open(DeviceName::Volume(name), DeviceAccess::Exclusive, &user)?;
        let (active, entry) = self.find(name)?;
        if entry.guid != guid {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("'{name}' is another volume now: strongroom ha update {pool}"),
            ));
        }
        // Persistent reservations go with the pool.
        let keeper = Arc::new(PoolKeeper::new(&active, entry.id));
        let meter = Arc::new(DeviceMeter::default());
        let device = Arc::new(MeteredDevice::new(device, Arc::clone(&meter)));
        let identity = planned.identity.clone();
        let unit = LogicalUnit::with_keeper(name, identity, device, false, Some(keeper))?;
        Ok(ServedUnit { unit, meter })
    }

    /// Tries again to open the units that could not be opened, of all pools.
    pub(super) fn restore_ha(&self) {
        let _changing = self.exported.changing.lock();
        for active in self.pools() {
            let mut all = self.served.0.lock();
            let Some(mut serving) = all.remove(&active.pool.guid()) else {
                continue;
            };
            drop(all);
            let waiting = std::mem::take(&mut serving.waiting);
            for guid in waiting.keys().copied() {
                let Some(planned) = serving.plan.units.get(&guid) else {
                    continue;
                };
                if let Some(why) = &planned.refused {
                    serving.waiting.insert(guid, why.clone());
                    continue;
                }
                match self.open_unit(&active, guid, planned) {
                    Ok(unit) => drop(serving.units.insert(guid, unit)),
                    Err(failure) => drop(serving.waiting.insert(guid, failure.message)),
                }
            }
            serving.show();
            self.tell_of_waiting(&active.pool.name(), &waiting, &serving);
            self.served.0.lock().insert(active.pool.guid(), serving);
        }
    }

    /// Ends all targets of a pool. Returns failures for those that did not end in time.
    pub(super) fn end_ha(&self, guid: u64) -> Vec<Failure> {
        let Some(serving) = self.served.0.lock().remove(&guid) else {
            return Vec::new();
        };
        let targets: Vec<_> = serving.targets.into_values().collect();
        for target in &targets {
            target.set_views(Vec::new());
        }
        self.take_back(&targets);
        drop(targets);
        self.drop_idle_portals();
        close_units(serving.units)
    }

    /// Removes targets from all portals, and ends their sessions: all at once, because a disk that does not answer may
    /// hold up each of them.
    fn take_back(&self, gone: &[Arc<IscsiTarget>]) {
        for error in IscsiTarget::end_sessions(gone) {
            tracing::warn!(%error, "sessions do not end");
        }
        for exports in self.exported.served() {
            if let ServerExports::Iscsi(targets) = exports {
                gone.iter().for_each(|target| targets.take(target));
            }
        }
    }

    /// Refuses a plan with the name of a target that an export or another pool has.
    pub(super) fn refuse_taken(&self, guid: u64, plan: &HaPlan) -> Result<()> {
        let served = self.served.0.lock();
        for name in plan.targets.keys() {
            let mut others = served.iter().filter(|(pool, _)| **pool != guid);
            let is_served = others.any(|(_, it)| it.targets.contains_key(name));
            if is_served || self.exported.get(name).is_some() {
                let by = if is_served {
                    "another pool"
                } else {
                    "an export"
                };
                return Err(Failure::new(
                    FailureKind::Exists,
                    format!("{by} has a target '{name}' already"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses an export with the name of a target that a pool serves.
    pub(crate) fn refuse_served(&self, name: &str, is: &ExportDefinition) -> Result<()> {
        let is_iscsi = is.listen.protocol() == Protocol::Iscsi;
        if is_iscsi && self.ha_targets().contains_key(name) {
            return Err(Failure::new(
                FailureKind::Exists,
                format!(
                    "a pool serves a target '{name}' by its file; give this one another name: --name"
                ),
            ));
        }
        Ok(())
    }

    /// Removes a target from one portal. Sessions through this portal continue.
    fn leave_portal(&self, place: &ListenAddress, target: &Arc<IscsiTarget>) {
        if let Some(ServerExports::Iscsi(targets)) = self.exported.served_at(place) {
            targets.take(target);
        }
    }

    fn drop_idle_portals(&self) {
        let is_portal = |place: &ListenAddress| matches!(place, ListenAddress::Iscsi(_));
        self.exported.stop_idle_servers(is_portal);
    }
}

/// Stores the numbers of the served units in the pool. Volumes are found by id: another one may have the name by now.
fn remember_luns(active: &ActivePool, plan: &HaPlan) -> Result<()> {
    let is_new = |unit: &&PlannedUnit| unit.is_new && unit.refused.is_none();
    for unit in plan.units.values().filter(is_new) {
        let lun = Some(unit.lun.to_string());
        let kept = active.pool.keep_prop(unit.id, LUN_PROPERTY, lun);
        // A volume whose unit is not open may have been destroyed by now.
        if active.pool.entry(unit.id).is_ok() {
            kept?;
        }
    }
    Ok(())
}

/// The failure for a line of a file that is refused.
fn refused_file(active: &ActivePool, file: &str, refused: &NounRefusal) -> Failure {
    Failure::usage(format!("{file} of '{}', {refused}", active.pool.name()))
}

impl HaPlan {
    /// The first reason why volumes of the file would not be served that a typing error may have.
    fn problem(&self) -> Option<&NounRefusal> {
        self.missing.first().or(self.clashes.first())
    }

    /// Returns whether there is a unit of this volume that may be served.
    fn is_served(&self, guid: u64) -> bool {
        let unit = self.units.get(&guid);
        unit.is_some_and(|unit| unit.refused.is_none())
    }
}

impl ServedTargets {
    /// Refuses a plan with a problem if it also ends a unit: the name of that volume may be misspelled.
    fn refuse_problem(&self, active: &ActivePool, plan: &HaPlan) -> Result<()> {
        let ends = |guid: &&u64| !plan.is_served(**guid);
        let (Some(problem), Some(guid)) = (plan.problem(), self.units.keys().find(ends)) else {
            return Ok(());
        };
        let mut failure = refused_file(active, plan.file, problem);
        if let Some(unit) = self.plan.units.get(guid) {
            failure.message += &format!(
                "; '{}' would not be served any more, so nothing changes",
                unit.name
            );
        }
        Err(failure)
    }

    /// Makes initiators see the units that are open.
    pub(super) fn show(&self) {
        for (name, target) in &self.targets {
            let planned = &self.plan.targets[name];
            match views(&self.plan, planned, &|guid| {
                Some(&self.units.get(guid)?.unit)
            }) {
                Ok(views) => target.set_views(views),
                Err(failure) => tracing::error!(target = name, reason = failure.message, "stays"),
            }
        }
    }

    /// Hides units from initiators until they can be opened again.
    pub(super) fn suspend(&mut self, is_one: impl Fn(&str) -> bool, why: &str) -> Vec<Failure> {
        let plan = &self.plan;
        let (gone, stay) = std::mem::take(&mut self.units)
            .into_iter()
            .partition(|(guid, _)| plan.units.get(guid).is_some_and(|it| is_one(&it.name)));
        self.units = stay;
        let gone: BTreeMap<u64, ServedUnit> = gone;
        self.waiting
            .extend(gone.keys().map(|guid| (*guid, why.to_owned())));
        self.show();
        close_units(gone)
    }
}

/// The views of a target on units that are open.
fn views<'a>(
    plan: &HaPlan,
    target: &PlannedTarget,
    unit: &dyn Fn(&u64) -> Option<&'a LogicalUnit>,
) -> Result<Vec<LunView>> {
    let mut views = Vec::new();
    for view in &target.views {
        if let (Some(unit), Some(planned)) = (unit(&view.unit), plan.units.get(&view.unit)) {
            views.push(unit.view(planned.lun, view.hosts.as_ref(), view.read_only)?);
        }
    }
    Ok(views)
}

fn access(planned: &PlannedTarget, secrets: Option<&Arc<dyn Chap>>) -> TargetAccess {
    let initiators = planned.initiators().into_iter().flatten();
    TargetAccess {
        read_only: false,
        initiators: initiators.cloned().collect(),
        chap: secrets.cloned(),
    }
}

fn offer(
    target: &Arc<IscsiTarget>,
    places: &BTreeSet<ListenAddress>,
    planned: &PlannedTarget,
    portals: &BTreeMap<ListenAddress, ServerExports>,
) -> Result<()> {
    for place in places {
        if let Some(ServerExports::Iscsi(targets)) = portals.get(place) {
            let moved = planned.moved.get(place).cloned();
            targets.insert_moved(Arc::clone(target), moved)?;
        }
    }
    Ok(())
}

/// Makes portals send initiators elsewhere, or serve them.
fn redirect(
    target: &Arc<IscsiTarget>,
    planned: &PlannedTarget,
    portals: &BTreeMap<ListenAddress, ServerExports>,
) {
    for place in &planned.places {
        if let Some(ServerExports::Iscsi(targets)) = portals.get(place) {
            targets.set_moved(target, planned.moved.get(place).cloned());
        }
    }
}

/// `FROM > TO`, with commas between several portals.
fn shown_redirect((from, moved): (&ListenAddress, &LoginRedirect)) -> String {
    format!("{from} > {}", moved.to.join(","))
}

/// Waits until nothing uses units that are hidden. Returns failures for those still in use.
fn close_units(units: BTreeMap<u64, ServedUnit>) -> Vec<Failure> {
    let left = LogicalUnit::close_all(units.into_values().map(|it| it.unit));
    left.into_iter().map(Failure::from).collect()
}
