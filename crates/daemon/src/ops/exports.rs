//! Exports: devices that are offered to others by the NBD protocol or iSCSI.
//!
//! An export is about a machine: it is remembered in the daemon's state directory until it is taken back, and
//! made again at the next start. [`Exportable`] says what can be exported.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Access, BlockDevice, DeviceMeter, Metered};
use iscsi::{Access as InitiatorAccess, Chap, Keeper, LogicalUnit, Target};
use nbd::Export;
use parking_lot::MutexGuard;
use pool::Entry as PoolEntry;
use protocol::api::{ExportRow, FailureKind, command};

use crate::failure::{Failure, Result};
use crate::state::active_pool::ActivePool;
use crate::state::daemon::Daemon;

use crate::state::channel::Channel;
use crate::state::exports::chap::{ChapSources, Secrets};
use crate::state::exports::device::Exportable;
use crate::state::exports::keeper::{InPool, InState};
use crate::state::exports::listen::{Place, Protocol, default_socket};
use crate::state::exports::offers::{Offered, Offers};
use crate::state::exports::registry::{Definition, Entry, ExportNow, State, VolumeGuid};
use crate::state::front_end::{FrontEnd, Going, Held};

/// Where they are remembered.
const MEMORY: &str = "exports.json";

impl Daemon {
    /// Exports a device by NBD.
    pub(crate) fn export_device(&self, new: &command::NbdExport) -> Result<()> {
        let device = Exportable::parse(&new.device)?;
        let is_snapshot = matches!(&device, Exportable::Volume(name) if name.contains('@'));
        let name = new.name.clone().unwrap_or_else(|| device.default_name());
        let listen = match &new.listen {
            Some(text) => Place::parse(text)?,
            None => Place::Unix(default_socket(&self.socket)),
        };
        let is = Definition {
            device,
            description: new.description.clone().unwrap_or_default(),
            read_only: new.read_only || is_snapshot,
            listen,
            more: Vec::new(),
            certificates: new.tls_certificates.clone(),
            volume: None,
            initiators: Vec::new(),
            chap: None,
        };
        if name.is_empty() {
            return Err(Failure::usage("the export needs a name: use --name"));
        }
        if matches!(is.listen, Place::Unix(_)) && is.certificates.is_some() {
            return Err(Failure::usage(
                "certificates are for TCP; who may use a unix socket is known without",
            ));
        }
        self.export(&name, is, None, false)
    }

    /// Exports a device by iSCSI.
    pub(crate) fn export_target(
        &self,
        new: &command::IscsiExport,
        channel: &mut dyn Channel,
    ) -> Result<()> {
        let device = Exportable::parse(&new.device)?;
        let is_snapshot = matches!(&device, Exportable::Volume(name) if name.contains('@'));
        let name = match &new.name {
            Some(name) => name.clone(),
            None => target_name(&device.default_name()),
        };
        let chap = ChapSources::parse(&new.chap, new.own_chap.as_deref())?;
        match (&chap, new.open) {
            (None, false) => {
                return Err(Failure::usage(
                    "the initiators would not be authenticated: any user of a host that reaches the portal could \
                     use the volume; give a secret: --chap USER=LOCATION; if no authentication is meant, say so: \
                     --no-authentication",
                ));
            }
            (Some(_), true) => {
                return Err(Failure::usage(
                    "--chap and --no-authentication cannot be used together",
                ));
            }
            _ => {}
        }
        let (listen, more) = portals(new)?;
        let is = Definition {
            device,
            description: String::new(),
            read_only: new.read_only || is_snapshot,
            listen,
            more,
            certificates: None,
            volume: None,
            initiators: new.initiators.clone(),
            chap,
        };
        if self.exported.all.lock().contains_key(&name) {
            return Err(exists(&name));
        }
        // A person may take long: nothing is locked.
        let secrets = { is.chap.as_ref() }.map(|chap| chap.ask(&name, channel));
        self.export(&name, is, secrets.transpose()?, new.forget_reservations)
    }

    fn export(
        &self,
        name: &str,
        is: Definition,
        secrets: Option<Secrets>,
        forget_reservations: bool,
    ) -> Result<()> {
        let _changing = self.exported.changing.lock();
        if self.exported.all.lock().contains_key(name) {
            return Err(exists(name));
        }
        if forget_reservations {
            self.forget_reservations(&is)?;
        }
        if let (Some(chap), Some(secrets)) = (&is.chap, secrets) {
            self.exported.typed.keep(name, chap, secrets);
        }
        self.exported.set(name, is.clone(), State::Opening);
        let made = self.offer(name, &is).and_then(|()| self.remember_exports());
        if made.is_err() {
            // Who found it in this moment has lost it again.
            let _ = self.end_offer(name, &is, true);
            self.exported.all.lock().remove(name);
            self.exported.typed.forget(name);
        }
        made
    }

    /// Takes an export back; with `force` also from those who use it.
    pub(crate) fn unexport(&self, protocol: Protocol, name: &str, force: bool) -> Result<()> {
        let _changing = self.exported.changing.lock();
        let found = self.exported.all.lock().get(name).map(|e| e.is.clone());
        let found = found.filter(|is| is.listen.protocol() == protocol);
        let is = found.ok_or_else(|| no_such_export(protocol, name))?;
        self.end_offer(name, &is, force)?;
        let entry = self.exported.all.lock().remove(name);
        if let Err(failure) = self.remember_exports() {
            let reason = failure.message.clone();
            self.exported.set(name, is, State::Failed(reason));
            return Err(failure);
        }
        drop(entry);
        self.exported.typed.forget(name);
        Ok(())
    }

    /// What exports there are, by a protocol.
    pub(crate) fn export_rows(&self, protocol: Protocol) -> Vec<ExportRow> {
        let all = self.exported.all.lock();
        let row = |(name, entry): (&String, &Entry)| {
            let (export, failure) = match &entry.state {
                State::Open(export, _) => (Some(export), None),
                State::Opening => (None, None),
                State::Failed(why) => (None, Some(why.clone())),
            };
            ExportRow {
                name: name.clone(),
                device: entry.is.device.shown(),
                description: entry.is.description.clone(),
                size: export.map(|export| export.device().size()),
                read_only: entry.is.read_only,
                listen: entry.is.shown_places(),
                uri: entry.is.listen.uri(name),
                connections: export.map_or(0, |export| export.clients()),
                reservation: export.and_then(Offered::reservation),
                failure,
            }
        };
        all.iter()
            .filter(|(_, entry)| entry.is.listen.protocol() == protocol)
            .map(row)
            .collect()
    }

    /// Those that are open.
    pub(crate) fn exports_now(&self) -> Vec<ExportNow> {
        let all = self.exported.all.lock();
        let open = all.iter().filter_map(|(name, entry)| match &entry.state {
            State::Open(export, meter) => Some(ExportNow {
                name: name.clone(),
                clients: export.clients(),
                meter: Arc::clone(meter),
                commands: export.commands(),
            }),
            _ => None,
        });
        open.collect()
    }

    /// Those of volumes, by the name and, if it is known, the guid of each.
    fn exports_of(
        &self,
        is_one: impl Fn(&str, Option<VolumeGuid>) -> bool,
    ) -> Vec<(String, Definition)> {
        let all = self.exported.all.lock();
        let is_one = |is: &Definition| match &is.device {
            Exportable::Volume(name) => is_one(name, is.volume),
            Exportable::File(_) | Exportable::Luks(_) | Exportable::Nbd(_) => false,
        };
        all.iter()
            .filter(|(_, entry)| is_one(&entry.is))
            .map(|(name, entry)| (name.clone(), entry.is.clone()))
            .collect()
    }

    /// Follows a volume that was renamed, and refuses another one that has its name now.
    fn identify(&self, export: &str, is: &Definition) -> Result<Definition> {
        let Exportable::Volume(name) = &is.device else {
            return Ok(is.clone());
        };
        let found = self.find(name);
        let guid = found
            .as_ref()
            .ok()
            .map(|(active, entry)| VolumeGuid::of(active, entry));
        if is.volume.is_none() || guid == is.volume {
            return Ok(Definition {
                volume: guid,
                ..is.clone()
            });
        }
        if let Some(name) = is.volume.and_then(|known| self.name_by_guid(known)) {
            return Ok(Definition {
                device: Exportable::Volume(name),
                ..is.clone()
            });
        }
        found?;
        Err(another_volume(export, is, guid))
    }

    fn name_by_guid(&self, known: VolumeGuid) -> Option<String> {
        let pools = self.pools();
        let active = pools.iter().find(|it| it.pool.guid() == known.pool)?;
        let listed = active.pool.list(active.pool.top().ok()?.id).ok()?;
        let found = listed
            .into_iter()
            .find(|it| it.entry.guid == known.dataset)?;
        Some(found.name)
    }

    /// Opens a device and offers it.
    fn offer(&self, name: &str, is: &Definition) -> Result<()> {
        let is = &self.identify(name, is)?;
        let secrets = { is.chap.as_ref() }.map(|chap| self.exported.typed.secrets(name, chap));
        let secrets = secrets.transpose()?;
        let device = self.open_exportable(name, is)?;
        let meter = Arc::new(DeviceMeter::default());
        let device = Arc::new(Metered::new(device, Arc::clone(&meter)));
        let offered = match self.exported.serve(is, &is.listen)? {
            Offers::Nbd(exports) => {
                let export = Export::new(name, &is.description, device, is.read_only)?;
                let export = Arc::new(export);
                exports.insert(Arc::clone(&export))?;
                Offered::Nbd(export)
            }
            Offers::Iscsi(_) => {
                let target = self.target(name, is, Arc::clone(&device) as _, secrets)?;
                let target = Arc::new(target);
                self.offer_at_portals(is, &target)?;
                Offered::Iscsi(target, device)
            }
        };
        let state = State::Open(offered, meter);
        self.exported.set(name, is.clone(), state);
        Ok(())
    }

    fn target(
        &self,
        name: &str,
        is: &Definition,
        device: Arc<dyn BlockDevice>,
        secrets: Option<Arc<Secrets>>,
    ) -> Result<Target> {
        let access = InitiatorAccess {
            read_only: is.read_only,
            initiators: is.initiators.clone(),
            chap: secrets.map(|secrets| secrets as Arc<dyn Chap>),
        };
        let keeper = Some(self.keeper(is)?);
        let number = is.unit_number();
        let unit = LogicalUnit::with_keeper(name, number, device, is.read_only, keeper)?;
        let view = unit.view(0, None, is.read_only)?;
        let target = Target::with_views(name, access, vec![view])?;
        target.set_portals(is.places().map(ToString::to_string).collect());
        Ok(target)
    }

    /// Offers a target at all its portals, or at none.
    fn offer_at_portals(&self, is: &Definition, target: &Arc<Target>) -> Result<()> {
        for place in is.places() {
            let offered = self
                .exported
                .serve(is, place)
                .and_then(|offers| match offers {
                    Offers::Iscsi(targets) => Ok(targets.insert(Arc::clone(target))?),
                    Offers::Nbd(_) => Ok(()),
                });
            if offered.is_err() {
                // It is not the target of another export that has this name there.
                for before in is.places().take_while(|before| *before != place) {
                    self.end_offer_at(target.name(), before, true)?;
                }
                return offered;
            }
        }
        Ok(())
    }

    /// Where the reservations of a device are kept. Those of a volume go with its pool.
    fn keeper(&self, is: &Definition) -> Result<Arc<dyn Keeper>> {
        if let Exportable::Volume(name) = &is.device {
            let (active, entry) = self.find(name)?;
            if !entry.is_snapshot() {
                return Ok(Arc::new(InPool::new(&active, entry.id)));
            }
        }
        Ok(Arc::new(InState::new(self.state_dir(), is.unit_number())))
    }

    /// Forgets the reservations of a device that is to be offered.
    fn forget_reservations(&self, is: &Definition) -> Result<()> {
        let is = match &is.device {
            Exportable::Volume(_) => &self.identify("", is)?,
            _ => is,
        };
        let forgotten = self.keeper(is)?.save(None);
        forgotten.map_err(|error| {
            let device = is.device.shown();
            Failure::other(format!("the reservations of {device} stay: {error}"))
        })
    }

    /// Offers it no longer, and lets go of its device.
    fn end_offer(&self, name: &str, is: &Definition, force: bool) -> Result<()> {
        for place in is.places() {
            self.end_offer_at(name, place, force)?;
        }
        Ok(())
    }

    fn end_offer_at(&self, name: &str, place: &Place, force: bool) -> Result<()> {
        let offers = {
            let servers = self.exported.servers.lock();
            let offering = servers.get(place);
            offering.map(|offering| offering.offers.clone())
        };
        let Some(offers) = offers else {
            return Ok(());
        };
        offers.remove(name, force)?;
        if offers.is_empty() {
            self.exported.servers.lock().remove(place);
        }
        Ok(())
    }

    fn recall_exports(&self) -> BTreeMap<String, Definition> {
        self.recall_from(MEMORY, "strongroom nbd export")
    }

    fn remember_exports(&self) -> Result<()> {
        let all = self.exported.all.lock();
        let all: BTreeMap<&String, &Definition> =
            all.iter().map(|(name, entry)| (name, &entry.is)).collect();
        self.remember_in(MEMORY, &all)
    }

    /// Opens a device for an export, which has it until it drops it.
    fn open_exportable(&self, export: &str, is: &Definition) -> Result<Arc<dyn BlockDevice>> {
        let device = &is.device;
        let command = is.listen.protocol().command();
        let user = format!("the export '{export}' (strongroom {command} unexport {export})");
        let access = match is.read_only {
            true => Access::ReadOnly,
            false => Access::Exclusive,
        };
        match (self.open(device.name(), access, &user), device) {
            (Err(failure), Exportable::Volume(name)) if failure.kind == FailureKind::NotFound => {
                let why = format!("{}; if a file is meant, say ./{name}", failure.message);
                Err(Failure::new(FailureKind::NotFound, why))
            }
            (opened, _) => opened,
        }
    }
}

/// The exports, as a front end.
pub(crate) struct Exports;

impl FrontEnd<Daemon> for Exports {
    fn start(&self, daemon: &Arc<Daemon>) {
        self.restore(daemon);
    }

    /// Opens what is not open, also of what there was when the daemon last ran.
    fn restore(&self, daemon: &Daemon) {
        let _changing = daemon.exported.changing.lock();
        let closed: Vec<(String, Definition)> = {
            let mut all = daemon.exported.all.lock();
            for (name, is) in daemon.recall_exports() {
                let state = State::Opening;
                all.entry(name).or_insert(Entry { is, state });
            }
            let closed = all
                .iter()
                .filter(|(_, entry)| !matches!(entry.state, State::Open(..)));
            closed
                .map(|(name, e)| (name.clone(), e.is.clone()))
                .collect()
        };
        let mut has_changed = false;
        for (name, is) in closed {
            match daemon.offer(&name, &is) {
                // The volume may have another name now.
                Ok(()) => has_changed |= matches!(is.device, Exportable::Volume(_)),
                Err(failure) => {
                    let reason = failure.0.message;
                    tracing::error!(export = name, reason, "it could not be exported again");
                    daemon.exported.set(&name, is, State::Failed(reason));
                }
            }
        }
        let remembered = match has_changed {
            true => daemon.remember_exports(),
            false => Ok(()),
        };
        if let Err(failure) = remembered {
            let reason = failure.0.message;
            tracing::warn!(reason, "the names of exported volumes are not remembered");
        }
    }

    fn may_go(&self, daemon: &Daemon, going: &Going<'_>) -> Result<()> {
        let all = daemon.exported.all.lock();
        let goes = |device: &Exportable| match going {
            Going::Devices(paths) => device.is_at(paths),
            // Leases say who uses volumes and mappings.
            Going::Datasets(..) => false,
        };
        let holds =
            |entry: &Entry| !matches!(entry.state, State::Failed(_)) && goes(&entry.is.device);
        match all.iter().find(|(_, entry)| holds(entry)) {
            None => Ok(()),
            Some((name, entry)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{}' is exported as '{name}'; take that back first: strongroom {} unexport {name}",
                    entry.is.device.shown(),
                    entry.is.listen.protocol().command()
                ),
            )),
        }
    }

    fn awaits(&self, daemon: &Daemon, active: &ActivePool, entry: &PoolEntry) -> Result<bool> {
        let volume = active.pool.name_of(entry.id)?;
        let own = VolumeGuid::of(active, entry);
        let is_it =
            |name: &str, guid: Option<VolumeGuid>| guid.map_or(name == volume, |it| it == own);
        Ok(!daemon.exports_of(is_it).is_empty())
    }

    fn hold<'a>(&self, daemon: &'a Daemon) -> Option<Box<dyn Held + 'a>> {
        Some(Box::new(HeldExports {
            daemon,
            _changing: daemon.exported.changing.lock(),
        }))
    }

    fn forget(&self, daemon: &Daemon, pool: u64, is_gone: &dyn Fn(&str) -> bool) -> Result<()> {
        let _changing = daemon.exported.changing.lock();
        let is_of_pool = |guid: Option<VolumeGuid>| guid.is_none_or(|guid| guid.pool == pool);
        let gone = daemon.exports_of(|name, guid| is_of_pool(guid) && is_gone(name));
        if gone.is_empty() {
            return Ok(());
        }
        for (name, is) in gone {
            daemon.end_offer(&name, &is, true)?;
            daemon.exported.all.lock().remove(&name);
            daemon.exported.typed.forget(&name);
        }
        daemon.remember_exports()
    }

    fn close(&self, daemon: &Daemon, force: bool) -> Result<()> {
        let _changing = daemon.exported.changing.lock();
        let all: Vec<(String, Definition)> = {
            let all = daemon.exported.all.lock();
            let in_use = all.iter().find_map(|(name, entry)| match &entry.state {
                State::Open(export, _) if export.clients() > 0 => Some((name, export.clients())),
                _ => None,
            });
            if let (Some((name, clients)), false) = (in_use, force) {
                let name = name.clone();
                return Err(nbd::Error::InUse { name, clients }.into());
            }
            all.iter()
                .map(|(name, e)| (name.clone(), e.is.clone()))
                .collect()
        };
        for (name, is) in all {
            daemon.end_offer(&name, &is, force)?;
            let why = "the daemon is ending".to_owned();
            daemon.exported.set(&name, is, State::Failed(why));
        }
        Ok(())
    }
}

/// The exports, which only one thread changes.
struct HeldExports<'a> {
    daemon: &'a Daemon,
    _changing: MutexGuard<'a, ()>,
}

impl Held for HeldExports<'_> {
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()> {
        let is_one = |volume: &str, _| volumes.iter().any(|name| name == volume);
        for (name, is) in self.daemon.exports_of(is_one) {
            self.daemon.end_offer(&name, &is, true)?;
            self.daemon
                .exported
                .set(&name, is, State::Failed(why.into()));
        }
        Ok(())
    }
}

/// The first portal, and further ones: each once.
fn portals(new: &command::IscsiExport) -> Result<(Place, Vec<Place>)> {
    let first = Place::portal(new.portal.as_deref().unwrap_or("127.0.0.1:3260"))?;
    let mut more: Vec<Place> = Vec::new();
    for text in &new.more_portals {
        let place = Place::portal(text)?;
        if place == first || more.contains(&place) {
            return Err(Failure::usage(format!("the portal {place} is named twice")));
        }
        more.push(place);
    }
    Ok((first, more))
}

/// The name of a target for a device.
fn target_name(device: &str) -> String {
    let may =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | ':');
    let name = device.to_ascii_lowercase().replace(['/', '@'], ".");
    let name: String = { name }
        .chars()
        .map(|c| if may(c) { c } else { '-' })
        .collect();
    format!("iqn.2026-01.io.github.strongroom:{name}")
}

fn another_volume(export: &str, is: &Definition, found: Option<VolumeGuid>) -> Failure {
    let shown = |guid: Option<VolumeGuid>| {
        guid.map_or_else(String::new, |guid| {
            format!(
                "guid {} in the pool with the guid {}",
                guid.dataset, guid.pool
            )
        })
    };
    Failure::new(
        FailureKind::Permission,
        format!(
            "'{}' ({}) is not the volume that was exported ({}); to export this one, forget that one first: \
             strongroom {} unexport {export}",
            is.device.shown(),
            shown(found),
            shown(is.volume),
            is.listen.protocol().command()
        ),
    )
}

fn exists(name: &str) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("an export '{name}' is there already; give this one another name: --name"),
    )
}

pub(crate) fn no_such_export(protocol: Protocol, name: &str) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!(
            "there is no export '{name}'; 'strongroom {} list' lists all exports",
            protocol.command()
        ),
    )
}
