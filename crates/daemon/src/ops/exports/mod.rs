//! Exports: devices that the daemon offers to others by NBD or iSCSI.
//!
//! An export belongs to a machine. The state directory of the daemon remembers it until it is withdrawn, and the next
//! start makes it again. [`Exportable`] lists the kinds of devices.

mod front_end;
mod kernel;
mod last_flush;
pub(crate) mod losses;
pub(crate) mod sessions;
mod ublk;

use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, DeviceMeter, LossNotice, MeteredDevice};
use iscsi::{Chap, IscsiTarget, LogicalUnit, ReservationStore, TargetAccess as InitiatorAccess};
use nbd::Export;
use protocol::api::{ExportRow, FailureKind, command};
use protocol::ha_file::HaIdentity;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::Channel;
use crate::state::daemon::Daemon;
use crate::state::exports::chap::{ChapSources, ExportSecrets};
use crate::state::exports::device::Exportable;
use crate::state::exports::keeper::{PoolKeeper, StateKeeper};
use crate::state::exports::listen::{ListenAddress, Protocol, default_socket};
use crate::state::exports::registry::{
    Entry, ExportDefinition, ExportStatus, KeptIdentity, State, VolumeGuid,
};
use crate::state::exports::servers::{ServerExport, ServerExports};
use crate::state::pools::active_pool::ActivePool;

pub(crate) use front_end::ExportFrontEnd;
use last_flush::UnflushedDevice;

impl Daemon {
    pub(crate) fn export_device(&self, new: &command::NbdExport) -> Result<()> {
        let device = Exportable::parse(&new.device)?;
        let is_snapshot = matches!(&device, Exportable::Volume(name) if name.contains('@'));
        let name = new.name.clone().unwrap_or_else(|| device.default_name());
        let listen = match &new.listen {
            Some(text) => ListenAddress::parse(text)?,
            None => ListenAddress::Unix(default_socket(&self.socket)),
        };
        let is = ExportDefinition {
            device,
            description: new.description.clone().unwrap_or_default(),
            read_only: new.read_only || is_snapshot,
            listen,
            more: Vec::new(),
            certificates: new.tls_certificates.clone(),
            volume: None,
            initiators: Vec::new(),
            identity: KeptIdentity::default(),
            chap: None,
            waits: false,
            contents: None,
        };
        if name.is_empty() {
            return Err(Failure::usage("the export needs a name: use --name"));
        }
        if matches!(is.listen, ListenAddress::Unix(_)) && is.certificates.is_some() {
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
        let is = ExportDefinition {
            device,
            description: String::new(),
            read_only: new.read_only || is_snapshot,
            listen,
            more,
            certificates: None,
            volume: None,
            initiators: new.initiators.clone(),
            identity: identity(new)?,
            chap,
            waits: false,
            contents: None,
        };
        if self.exported.get(&name).is_some() {
            return Err(exists(&name));
        }
        // A person may take long: nothing is locked.
        let secrets = { is.chap.as_ref() }.map(|chap| chap.ask(&name, channel));
        self.export(&name, is, secrets.transpose()?, new.forget_reservations)
    }

    fn export(
        &self,
        name: &str,
        is: ExportDefinition,
        secrets: Option<ExportSecrets>,
        forget_reservations: bool,
    ) -> Result<()> {
        let _changing = self.exported.changing.lock();
        if self.exported.get(name).is_some() {
            return Err(exists(name));
        }
        self.refuse_served(name, &is)?;
        if forget_reservations {
            self.forget_reservations(&is)?;
        }
        if let (Some(chap), Some(secrets)) = (&is.chap, secrets) {
            self.exported.typed.keep(name, chap, secrets);
        }
        self.exported.set(name, is.clone(), State::Opening);
        let made = self
            .offer(name, &is)
            .and_then(|()| self.exported.remember());
        if made.is_err() {
            // Initiators that have logged in since then lose it again.
            let _ = self.end_offer(name, &is, true);
            self.exported.remove(name);
            self.exported.typed.forget(name);
        }
        made
    }

    /// Ends an export; with `force` also while clients use it.
    pub(crate) fn unexport(&self, protocol: Protocol, name: &str, force: bool) -> Result<()> {
        let _changing = self.exported.changing.lock();
        let found = self.exported.get(name).map(|entry| entry.is);
        let other = found.as_ref().map(|is| is.listen.protocol());
        if let (Protocol::Nbd, Some(other @ (Protocol::Kernel | Protocol::Ublk))) =
            (protocol, other)
        {
            return Err(kernel::is_attached(other, name));
        }
        let found = found.filter(|is| is.listen.protocol() == protocol);
        let is = found.ok_or_else(|| no_such_export(protocol, name))?;
        let unflushed = { self.exported.get(name) }
            .and_then(|entry| UnflushedDevice::of(&entry))
            .filter(|device| !force || device.is_prompt());
        self.end_offer(name, &is, force)?;
        self.flush_last(unflushed.into_iter().collect());
        let entry = self.exported.remove(name);
        if let Err(failure) = self.exported.remember() {
            let reason = failure.message.clone();
            self.exported.set(name, is, State::Failed(reason));
            return Err(failure);
        }
        drop(entry);
        self.exported.typed.forget(name);
        Ok(())
    }

    /// The exports by a protocol. Those by NBD include the devices that are attached to the kernel.
    pub(crate) fn export_rows(&self, protocol: Protocol) -> Vec<ExportRow> {
        let rows = self.exported.entries().into_iter();
        let rows =
            rows.filter(|(_, entry)| entry.is.listen.protocol().command() == protocol.command());
        rows.map(|(name, entry)| export_row(name, &entry)).collect()
    }

    /// The exports that are open.
    pub(crate) fn exports_now(&self) -> Vec<ExportStatus> {
        let all = self.exported.entries().into_iter();
        let open = all.filter_map(|(name, entry)| match entry.state {
            State::Open(export, meter) => Some(ExportStatus {
                name,
                clients: export.clients(),
                commands: export.commands(),
                meter,
            }),
            _ => None,
        });
        open.collect()
    }

    /// Follows a volume that was renamed, and refuses another volume that has its name now.
    fn identify(&self, export: &str, is: &ExportDefinition) -> Result<ExportDefinition> {
        let Exportable::Volume(name) = &is.device else {
            return Ok(is.clone());
        };
        let found = self.find(name);
        let guid = found
            .as_ref()
            .ok()
            .map(|(active, entry)| VolumeGuid::of(active, entry));
        if is.volume.is_none() || guid == is.volume {
            return Ok(ExportDefinition {
                volume: guid,
                ..is.clone()
            });
        }
        if let Some(name) = is.volume.and_then(|known| self.name_by_guid(known)) {
            return Ok(ExportDefinition {
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
    fn offer(&self, name: &str, is: &ExportDefinition) -> Result<()> {
        let is = &self.identify(name, is)?;
        let secrets = { is.chap.as_ref() }.map(|chap| self.exported.typed.secrets(name, chap));
        let secrets = secrets.transpose()?;
        let left = self.ublk_left(name, is)?;
        let device = self.open_exportable(name, is)?;
        let meter = Arc::new(DeviceMeter::default());
        let device = Arc::new(MeteredDevice::new(device, Arc::clone(&meter)));
        if let ListenAddress::Ublk(_) = is.listen {
            return self.attach_by_ublk(name, is, left, device, meter);
        }
        if let ListenAddress::Kernel(_) = is.listen {
            let export = Export::new(name, &is.description, device, is.read_only)?;
            return self.attach_to_kernel(name, is, Arc::new(export), meter);
        }
        let offered = match self.exported.serve(is, &is.listen)? {
            ServerExports::Nbd(exports) => {
                let export = Export::new(name, &is.description, device, is.read_only)?;
                let export = Arc::new(export.with_losses(self.losses(is)?));
                exports.insert(Arc::clone(&export))?;
                ServerExport::Nbd(export)
            }
            ServerExports::Iscsi(_) => {
                let target = self.target(name, is, Arc::clone(&device) as _, secrets)?;
                let offered = ServerExport::Iscsi(Arc::new(target), device);
                self.offer_at_portals(is, &offered)?;
                offered
            }
        };
        let state = State::Open(offered, meter);
        self.exported.set(name, is.clone(), state);
        Ok(())
    }

    fn target(
        &self,
        name: &str,
        is: &ExportDefinition,
        device: Arc<dyn BlockDevice>,
        secrets: Option<Arc<ExportSecrets>>,
    ) -> Result<IscsiTarget> {
        let access = InitiatorAccess {
            read_only: is.read_only,
            initiators: is.initiators.clone(),
            chap: secrets.map(|secrets| secrets as Arc<dyn Chap>),
        };
        let keeper = Some(self.keeper(is)?);
        let identity = is.san_identity();
        self.refuse_served_identity(&identity)?;
        self.exported.refuse_identity(&identity)?;
        let unit = LogicalUnit::with_keeper(name, identity, device, is.read_only, keeper)?;
        let view = unit.view(0, None, is.read_only)?;
        let target = IscsiTarget::with_views(name, access, vec![view])?;
        target.set_portals(is.places().map(ToString::to_string).collect());
        Ok(target)
    }

    /// Offers a target at all its portals, or at none.
    fn offer_at_portals(&self, is: &ExportDefinition, offered: &ServerExport) -> Result<()> {
        let ServerExport::Iscsi(target, _) = offered else {
            return Ok(());
        };
        for place in is.places() {
            let done = { self.exported.serve(is, place) }.and_then(|offers| match offers {
                ServerExports::Iscsi(targets) => Ok(targets.insert(Arc::clone(target))?),
                ServerExports::Nbd(_) => Ok(()),
            });
            if done.is_err() {
                for place in is.places() {
                    self.end_offer_at(Some(offered), place, true)?;
                }
                return done;
            }
        }
        Ok(())
    }

    /// The keeper of the reservations of a device. The reservations of a volume are kept in its pool.
    fn keeper(&self, is: &ExportDefinition) -> Result<Arc<dyn ReservationStore>> {
        if let Some((active, id)) = self.volume_of(is)? {
            return Ok(Arc::new(PoolKeeper::new(&active, id)));
        }
        let losses = self.exported.losses(&is.device);
        let kept = StateKeeper::new(self.state_dir(), is.unit_number(), losses);
        Ok(Arc::new(kept))
    }

    /// The losses that the clients of an export have to be told of.
    fn losses(&self, is: &ExportDefinition) -> Result<Arc<LossNotice>> {
        Ok(match self.volume_of(is)? {
            Some((active, id)) => active.losses.of(id),
            None => self.exported.losses(&is.device),
        })
    }

    /// The volume of an export, if it is of one that can be changed.
    fn volume_of(&self, is: &ExportDefinition) -> Result<Option<(Arc<ActivePool>, u64)>> {
        let Exportable::Volume(name) = &is.device else {
            return Ok(None);
        };
        let (active, entry) = self.find(name)?;
        Ok((!entry.is_snapshot()).then_some((active, entry.id)))
    }

    /// Forgets the reservations of a device that is to be offered.
    fn forget_reservations(&self, is: &ExportDefinition) -> Result<()> {
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

    /// Ends the offer of an export, and closes its device.
    fn end_offer(&self, name: &str, is: &ExportDefinition, force: bool) -> Result<()> {
        let offered = self.exported.offered(name);
        let _failing = { force.then_some(&is.device) }
            .map(|device| self.fail_suspended(device, &user_of(name, is)));
        if let (Some(ServerExport::Kernel(_)), false) = (&offered, force) {
            self.may_detach_suspended(&is.device)?;
        }
        match (&offered, &is.listen) {
            (Some(ServerExport::Kernel(attachment)), _) => return attachment.detach(force),
            (_, ListenAddress::Kernel(_) | ListenAddress::Ublk(_)) => {
                return self.end_waiting(is, force);
            }
            _ => {}
        }
        for place in is.places() {
            self.end_offer_at(offered.as_ref(), place, force)?;
        }
        Ok(())
    }

    fn end_offer_at(
        &self,
        offered: Option<&ServerExport>,
        place: &ListenAddress,
        force: bool,
    ) -> Result<()> {
        let Some(offers) = self.exported.served_at(place) else {
            return Ok(());
        };
        if let Some(offered) = offered {
            offers.remove(offered, force)?;
        }
        self.exported.stop_idle_servers(|idle| idle == place);
        Ok(())
    }

    /// Opens a device for an export, which uses it until it is dropped.
    fn open_exportable(&self, export: &str, is: &ExportDefinition) -> Result<Arc<dyn BlockDevice>> {
        let device = &is.device;
        let user = user_of(export, is);
        let access = match is.read_only {
            true => DeviceAccess::ReadOnly,
            false => DeviceAccess::Exclusive,
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

fn export_row(name: String, entry: &Entry) -> ExportRow {
    let (export, failure) = match &entry.state {
        State::Open(export, _) => (Some(export), None),
        State::Opening => (None, None),
        State::Failed(why) => (None, Some(why.clone())),
    };
    ExportRow {
        device: entry.is.device.shown(),
        description: entry.is.description.clone(),
        size: export.map(|export| export.device().size()),
        read_only: entry.is.read_only,
        listen: entry.is.shown_places(),
        uri: entry.is.listen.uri(&name),
        connections: export.map_or(0, ServerExport::clients),
        reservation: export.and_then(ServerExport::reservation),
        failure,
        name,
    }
}

/// The identity that a unit keeps from another storage.
fn identity(new: &command::IscsiExport) -> Result<KeptIdentity> {
    let parsed = HaIdentity::parse(
        new.serial.as_deref(),
        new.naa.as_deref(),
        new.block_size.as_deref(),
    );
    parsed.map(KeptIdentity::from).map_err(Failure::usage)
}

/// The first portal and the others, each once.
fn portals(new: &command::IscsiExport) -> Result<(ListenAddress, Vec<ListenAddress>)> {
    let first = ListenAddress::portal(new.portal.as_deref().unwrap_or("127.0.0.1:3260"))?;
    let mut more: Vec<ListenAddress> = Vec::new();
    for text in &new.more_portals {
        let place = ListenAddress::portal(text)?;
        if place == first || more.contains(&place) {
            return Err(Failure::usage(format!("the portal {place} is named twice")));
        }
        more.push(place);
    }
    Ok((first, more))
}

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

fn another_volume(export: &str, is: &ExportDefinition, found: Option<VolumeGuid>) -> Failure {
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
            "'{}' ({}) is not the volume that was exported ({}); to export this one, forget that one first: {}",
            is.device.shown(),
            shown(found),
            shown(is.volume),
            is.listen.protocol().taking_back(export)
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

/// The name by which a device knows the export that uses it.
fn user_of(export: &str, is: &ExportDefinition) -> String {
    let end = is.listen.protocol().taking_back(export);
    format!("the export '{export}' ({end})")
}
