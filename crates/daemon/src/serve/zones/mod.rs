//! Zones: each gives a tenant a socket of its own, with access to one dataset and the datasets below it.
//!
//! `serve::commands` decides what a tenant may do, with the rules of `zone_policy`. `state::zones::view` decides what
//! the tenant sees. A zone belongs to a machine and not to a pool: the state directory of the daemon remembers it. It
//! names its root by numbers, so that another dataset with the same name is not taken for it.

mod listen;
mod profiles;
mod zone_policy;

pub(crate) use zone_policy::NameEffect;
pub(in crate::serve) use zone_policy::check_source;

use std::sync::Arc;

use pool::Entry;
use protocol::api::{FailureKind, ZoneProfile, ZoneRow, command};

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::front_end::{ExclusiveUse, FrontEnd, offers_nothing};
use crate::state::pools::active_pool::ActivePool;
use crate::state::zones::view::ZoneView;
use crate::state::zones::zone::{Zone, ZoneDefinition, ZoneOwner};

/// The longest name of a zone. It is part of the path of a socket.
const NAME_MAX: usize = 48;
/// The limits of a new zone. Without them a tenant could use the memory of the daemon as it likes, whatever its quota.
const LIMITS: [(&str, &str); 4] = [
    ("filesystem_limit", "1000"),
    ("mount_limit", "200"),
    ("property_limit", "4194304"),
    ("snapshot_limit", "10000"),
];
impl Daemon {
    /// Returns whether a dataset is in a zone, and its tenant decides what is there.
    pub(crate) fn is_in_zone(&self, active: &ActivePool, entry: &Entry) -> bool {
        let guid = active.pool.guid();
        let zones = self.zones.all();
        let mut at = active.pool.entry(entry.id).ok();
        while let Some(dataset) = at {
            if zones.iter().any(|zone| zone.is_root(guid, &dataset)) {
                return true;
            }
            at = active.pool.entry(dataset.parent).ok();
        }
        false
    }

    /// Makes a zone, and listens for its tenant.
    pub(crate) fn create_zone(
        self: &Arc<Self>,
        new: &command::ZoneCreate,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        check_name(&new.name)?;
        let owner = new.owner.as_deref().map(ZoneOwner::parse).transpose()?;
        let _changing = self.zones.changing.lock();
        if self.zones.get(&new.name).is_some() {
            return Err(Failure::new(
                FailureKind::Exists,
                format!("a zone '{}' is there already", new.name),
            ));
        }
        let (active, _) = self.find(&new.dataset)?;
        // Nothing is renamed or destroyed meanwhile.
        let _admin = active.lock(context.decision)?;
        let root = active.pool.find(&new.dataset)?;
        check_root(&root, &new.dataset)?;
        let is = ZoneDefinition {
            pool: active.pool.guid(),
            dataset: root.id,
            guid: root.guid,
            alias: alias(new)?,
            owner,
        };
        let zone = Zone::new(&new.name, is, new.profile);
        self.open_listener(&zone)?;
        let made = self
            .establish(&zone, &active, &new.dataset, context)
            .and_then(|()| self.attend(&zone));
        if made.is_err() {
            zone.close();
            self.zones.remove(&zone.name);
            self.zones.remember()?;
        }
        self.open_to_delegates();
        made
    }

    /// Adds a zone that already listens to the table, and remembers it.
    fn establish(
        &self,
        zone: &Arc<Zone>,
        active: &ActivePool,
        root: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        self.zones.insert(zone);
        self.zones.remember()?;
        let entry = active.pool.find(root)?;
        if !active.pool.is_read_only() {
            let limits = missing_limits(&entry);
            let names = [root.to_owned()];
            active.pool.set_props(&names, &limits, &context.origin())?;
        }
        let none = ZoneProfile::None;
        active.follow_profile(&entry, none, zone.profile(), context)
    }

    /// Destroys a zone. Its datasets stay. Running commands of its tenant are interrupted.
    pub(crate) fn destroy_zone(&self, name: &str, context: &CallerContext<'_>) -> Result<()> {
        let _changing = self.zones.changing.lock();
        let zone = self.zones.named(name)?;
        zone.close();
        if !zone.callers.break_off() {
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "zone '{name}' accepts no commands any more, but a command still runs; destroy the zone \
                     again when that command has ended"
                ),
            ));
        }
        // Or they would open the next zone of this name.
        self.tokens.remove_zone(name)?;
        self.zones.remove(name);
        if let Err(failure) = self.zones.remember() {
            self.zones.insert(&zone);
            return Err(failure);
        }
        self.open_to_delegates();
        if let Some((active, _)) = self.root_of(&zone)
            && let Err(error) = active.pool.record(&context.origin())
        {
            tracing::warn!(%error, "the end of a zone is not in the history of its pool");
        }
        Ok(())
    }

    /// The rows of `zone list`.
    pub(crate) fn zone_rows(&self) -> Vec<ZoneRow> {
        let zones = self.zones.all();
        let row = |zone: &Arc<Zone>| ZoneRow {
            name: zone.name.clone(),
            dataset: self.root_of(zone).and_then(|(active, root)| {
                let name = active.pool.name_of(root.id);
                name.ok()
            }),
            alias: zone.is.alias.clone(),
            profile: zone.profile(),
            owner: zone.is.owner.map(ZoneOwner::to_text),
            socket: self.zone_socket(&zone.name).display().to_string(),
        };
        zones.iter().map(row).collect()
    }

    /// Returns whether the zone of a view still exists with its profile, and the caller may use it.
    pub(in crate::serve) fn has_zone(&self, view: &ZoneView, peer: &Peer) -> bool {
        let guid = view.active.pool.guid();
        self.zones.all().iter().any(|zone| {
            zone.is_root(guid, &view.root)
                && zone.profile() == view.profile
                && zone.check(peer).is_ok()
        })
    }

    /// The present view of the tenant.
    pub(crate) fn view(&self, zone: &Zone) -> Result<ZoneView> {
        let (active, root) = self.root_of(zone).ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                "the pool of this zone is not imported now",
            )
        })?;
        Ok(ZoneView {
            pool: active.pool.name(),
            name: active.pool.name_of(root.id)?,
            active,
            root,
            alias: zone.is.alias.clone(),
            profile: zone.profile(),
        })
    }
}

/// Zones, as a front end.
pub(crate) struct ZoneSockets;

impl FrontEnd<Daemon> for ZoneSockets {
    /// Makes the sockets of remembered zones. Their tenants can connect and wait.
    fn prepare(&self, daemon: &Daemon) {
        let _changing = daemon.zones.changing.lock();
        for (name, remembered) in daemon.zones.recall() {
            let zone = remembered.into_zone(&name);
            if let Err(failure) = daemon.open_listener(&zone) {
                zone_failed(&zone, &failure);
            }
            daemon.zones.insert(&zone);
        }
    }

    /// Serves the tenants, after their pools were imported.
    fn start(&self, daemon: &Arc<Daemon>) {
        let _changing = daemon.zones.changing.lock();
        let zones = daemon.zones.all();
        for zone in zones {
            if let Err(failure) = daemon.attend(&zone) {
                zone_failed(&zone, &failure);
            }
        }
        daemon.open_to_delegates();
    }

    /// Refuses to destroy or rename the root of a zone, because commands of the tenant use its name. Refuses another
    /// guid for its pool, because the zone names the pool by guid.
    fn may_go(&self, daemon: &Daemon, going: &ExclusiveUse<'_>) -> Result<()> {
        let zones = daemon.zones.all();
        let (active, entries) = match going {
            ExclusiveUse::Devices(_) => return Ok(()),
            ExclusiveUse::Datasets(active, entries) => (active, entries),
            ExclusiveUse::Guid(active) => {
                let guid = active.pool.guid();
                let Some(zone) = zones.iter().find(|zone| zone.is.pool == guid) else {
                    return Ok(());
                };
                return Err(Failure::new(
                    FailureKind::Busy,
                    format!(
                        "the zone '{name}' is in '{}'; destroy the zone first, and create it again afterwards: \
                         strongroom zone destroy {name}",
                        active.pool.name(),
                        name = zone.name
                    ),
                ));
            }
        };
        let guid = active.pool.guid();
        let of = |entry: &Entry| zones.iter().find(|zone| zone.is_root(guid, entry));
        match entries.iter().find_map(|entry| Some((entry, of(entry)?))) {
            None => Ok(()),
            Some((root, zone)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{}' is the root of the zone '{name}'; destroy that first: strongroom zone destroy {name}",
                    active.pool.name_of(root.id)?,
                    name = zone.name
                ),
            )),
        }
    }

    /// Ends the sockets. The next start makes the zones again.
    fn stop(&self, daemon: &Daemon) {
        let zones = daemon.zones.all();
        zones.iter().for_each(|zone| zone.close());
    }

    offers_nothing!(Daemon: restore offer withdraw withdraw_what_can awaits hold forget close);
}

fn zone_failed(zone: &Zone, failure: &Failure) {
    tracing::error!(
        zone = zone.name,
        reason = failure.message,
        "its tenant cannot connect; destroy the zone and create it again"
    );
}

/// The limits that the root of a new zone gets, where it has none.
fn missing_limits(root: &Entry) -> Vec<(String, Option<String>)> {
    let limits = LIMITS
        .iter()
        .filter(|(name, _)| !root.props.contains_key(*name));
    limits
        .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
        .collect()
}

/// Refuses an invalid name of a zone. The name is part of the path of its socket.
fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_good = (1..=NAME_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(allowed);
    match is_good {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "'{name}' cannot be the name of a zone: it begins with a letter or digit, has these and \
             the characters '-_.', and at most {NAME_MAX} of them"
        ))),
    }
}

/// Refuses an entry that cannot be the root of a zone.
fn check_root(root: &Entry, name: &str) -> Result<()> {
    let why = match (root.is_snapshot(), root.parent) {
        (true, _) => "a snapshot",
        (false, 0) => "the root of a pool, which is the global zone's",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!(
        "'{name}' is {why}; the root of a zone is a dataset below the root of a pool"
    )))
}

/// The alias of the root in the zone. It looks like the name of a pool.
fn alias(new: &command::ZoneCreate) -> Result<String> {
    let last = new.dataset.rsplit('/').next().unwrap_or_default();
    let alias = new.alias.as_deref().unwrap_or(last);
    match pool::DatasetName::parse(alias) {
        Ok(name) if name.path.is_empty() && name.snapshot.is_none() => Ok(alias.into()),
        Ok(_) => Err(Failure::usage(format!(
            "'{alias}' cannot be the name of the root in the zone; use a name without '/' and '@', with --alias"
        ))),
        Err(error) => Err(Failure::from(error)
            .context("the name of the root in the zone (give another one with --alias)")),
    }
}

#[cfg(test)]
mod tests;
