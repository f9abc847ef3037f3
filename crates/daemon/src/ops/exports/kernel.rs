//! Exports that are attached to the kernel of this machine, as `/dev/nbdN`.
//!
//! - `daemon stop` detaches them, and refuses if one is mounted.
//! - A daemon that a signal ends leaves mounted devices to the next daemon. Meanwhile the kernel holds their requests
//!   back. This is safe only if all earlier writes are durable ([`ExportDefinition::waits`]) and the volume has not changed
//!   ([`ExportDefinition::contents`]).
//! - If a daemon was killed, the next daemon ends the device when it starts. So no program continues after lost writes,
//!   and none waits for ever.

use std::sync::Arc;

use block::DeviceMeter;
use nbd::{Attachment, Export, KernelDevice};
use protocol::api::{ExportRow, FailureKind, command};
use protocol::device_name::DeviceName;

use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::exports::device::Exportable;
use crate::state::exports::listen::{ListenAddress, Protocol};
use crate::state::exports::registry::{ExportDefinition, KeptIdentity, State, VolumeGuid};
use crate::state::exports::servers::ServerExport;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    pub(crate) fn attach_device(&self, new: &command::NbdAttach) -> Result<ExportRow> {
        let device = Exportable::parse(&new.device)?;
        let kernel = new.kernel.as_deref().map(kernel_device).transpose()?;
        let is_snapshot = matches!(&device, Exportable::Volume(name) if name.contains('@'));
        let name = device.shown();
        let is = ExportDefinition {
            device,
            description: String::new(),
            read_only: new.read_only || is_snapshot,
            listen: ListenAddress::Kernel(kernel.map(|device| device.0)),
            more: Vec::new(),
            certificates: None,
            volume: None,
            initiators: Vec::new(),
            identity: KeptIdentity::default(),
            chap: None,
            waits: false,
            contents: None,
        };
        if let Some(there) = self.exported.get(&name) {
            return Err(Failure::new(
                FailureKind::Exists,
                format!(
                    "'{name}' is exported already, at {}; end that first: {}",
                    there.is.shown_places(),
                    there.is.listen.protocol().taking_back(&name)
                ),
            ));
        }
        self.export(&name, is, None, false)?;
        let mut rows = self.export_rows(Protocol::Kernel).into_iter();
        let row = rows.find(|row| row.name == name);
        row.ok_or_else(|| not_attached(&name))
    }

    /// Detaches a device of the kernel. `named` is the device, or the volume that is attached to it.
    pub(crate) fn detach_device(&self, named: &str, force: bool) -> Result<()> {
        let kernel = KernelDevice::parse(named).map(|device| ListenAddress::Kernel(Some(device.0)));
        let device = Exportable::parse(named)?;
        let all = self.exported.entries().into_iter();
        let mut attached = all.filter(|(_, it)| it.is.listen.protocol() == Protocol::Kernel);
        let found = attached
            .find(|(_, it)| kernel.as_ref() == Some(&it.is.listen) || it.is.device == device);
        let (name, _) = found.ok_or_else(|| not_attached(named))?;
        self.unexport(Protocol::Kernel, &name, force)
    }

    /// Attaches an export: takes over the device that the last daemon left, or attaches a new one.
    pub(super) fn attach_to_kernel(
        &self,
        name: &str,
        is: &ExportDefinition,
        export: Arc<Export>,
        meter: Arc<DeviceMeter>,
    ) -> Result<()> {
        let mut is = is.clone();
        let identity = identity(&is);
        let device = known_device(&is);
        let is_same = || {
            let contents = self.contents_below(&is.device.name());
            contents.is_ok_and(|contents| contents == is.contents)
        };
        let left = device.filter(|device| is.waits && device.is_of(&identity));
        let left = left.filter(|_| is_same());
        if is.waits {
            // If this daemon is killed, the next one must not take over the device.
            (is.waits, is.contents) = (false, None);
            self.exported.set(name, is.clone(), State::Opening);
            self.exported.remember()?;
        }
        let attachment = match left {
            Some(device) => {
                let taken = Attachment::take_up(export, device, &identity);
                if taken.is_err() {
                    device.end(&identity)?;
                }
                taken?
            }
            None => {
                if let Some(device) = device {
                    device.end(&identity)?;
                }
                Attachment::new(export, device, &identity)?
            }
        };
        is.listen = ListenAddress::Kernel(Some(attachment.device().0));
        let state = State::Open(ServerExport::Kernel(Arc::new(attachment)), meter);
        self.exported.set(name, is, state);
        Ok(())
    }

    /// Ends the kernel's device of an export that is not open. The device waits for a daemon.
    pub(super) fn end_waiting(&self, is: &ExportDefinition, force: bool) -> Result<()> {
        let Some(device) = known_device(is) else {
            return Ok(());
        };
        let identity = identity(is);
        if !force && device.is_of(&identity) {
            device.may_end()?;
        }
        Ok(device.end(&identity)?)
    }

    /// Cuts the kernel's connections to suspended mappings. It keeps the requests that wait, and gets no errors for them.
    pub(crate) fn cut_suspended_devices(&self) {
        for (_, entry) in self.exported.entries() {
            if let (State::Open(ServerExport::Kernel(attachment), _), Err(_)) =
                (&entry.state, self.may_detach_suspended(&entry.is.device))
            {
                attachment.cut();
            }
        }
    }

    /// Detaches a device. A mounted one is left to the next daemon: its requests wait until then.
    pub(super) fn leave_to_next(
        &self,
        name: &str,
        is: &mut ExportDefinition,
        attachment: &Attachment,
    ) -> Result<()> {
        let detached = match self.may_detach_suspended(&is.device) {
            Ok(()) => attachment.detach(false),
            // The connection is cut.
            Err(_) => attachment
                .may_detach()
                .and_then(|()| attachment.detach(true)),
        };
        match detached {
            Err(nbd::Error::KernelDeviceInUse { .. }) => {}
            detached => return Ok(detached?),
        }
        let left = { attachment.leave().map_err(Failure::from) }
            .and_then(|()| self.contents_below(&is.device.name()));
        match left {
            Ok(contents) => {
                tracing::warn!(name, "it is mounted, and waits for the next daemon");
                (is.waits, is.contents) = (true, contents);
            }
            Err(failure) => {
                let reason = failure.message;
                tracing::error!(
                    name,
                    reason,
                    "what was written to it may be lost; it is detached"
                );
                attachment.detach(true)?;
            }
        }
        Ok(())
    }

    /// Identifies the contents of the volume below a device; `None` if there is no volume. The contents include all
    /// writes, those in the log of the volume too.
    fn contents_below(&self, device: &DeviceName<'_>) -> Result<Option<String>> {
        match device {
            DeviceName::Volume(name) => {
                let (active, _) = self.find(name)?;
                active.pool.commit()?;
                Ok(Some(active.pool.find(name)?.contents_mark()))
            }
            DeviceName::Luks(mapping) => {
                let below = self.mapping_device(mapping)?;
                self.contents_below(&DeviceName::parse(&below))
            }
            _ => Ok(None),
        }
    }

    /// Refuses to change a volume, or all of a pool, for which a device of the kernel waits.
    pub(crate) fn may_change_waiting(
        &self,
        active: &ActivePool,
        volume: Option<&pool::Entry>,
    ) -> Result<()> {
        let is_one = |known: VolumeGuid| match volume {
            Some(entry) => known == VolumeGuid::of(active, entry),
            None => known.pool == active.pool.guid(),
        };
        let waits = |is: &ExportDefinition| {
            let device = known_device(is).filter(|_| is.waits && is.volume.is_some_and(is_one));
            device.is_some_and(|device| device.is_of(&identity(is)))
        };
        let all = self.exported.entries().into_iter();
        let mut waiting = all.filter(|(_, entry)| waits(&entry.is));
        match waiting.next() {
            None => Ok(()),
            Some((name, _)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{name}' is attached to the kernel and mounted; what is written there waits until the volume can be \
                     opened again; unmount it and detach it first: {}",
                    Protocol::Kernel.taking_back(&name)
                ),
            )),
        }
    }
}

/// The name by which a later daemon recognizes the kernel's device of this export.
fn identity(is: &ExportDefinition) -> String {
    format!("strongroom-{:016x}", is.unit_number())
}

fn known_device(is: &ExportDefinition) -> Option<KernelDevice> {
    match is.listen {
        ListenAddress::Kernel(index) => index.map(KernelDevice),
        _ => None,
    }
}

fn kernel_device(path: &str) -> Result<KernelDevice> {
    KernelDevice::parse(path).ok_or_else(|| {
        Failure::usage(format!(
            "'{path}' is not a network block device of the kernel; write /dev/nbd0 or another number, or none for a \
             free one"
        ))
    })
}

fn not_attached(name: &str) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!("'{name}' is not attached; 'strongroom nbd list' lists what is"),
    )
}

/// The refusal of `nbd unexport` for an attached device.
pub(super) fn is_attached(name: &str) -> Failure {
    let end = Protocol::Kernel.taking_back(name);
    Failure::usage(format!("'{name}' is attached to the kernel; use {end}"))
}
