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
use crate::state::exports::attached_place::{AttachedPlace, nbd_identity};
use crate::state::exports::device::Exportable;
use crate::state::exports::kernel_attachment::KernelAttachment;
use crate::state::exports::listen::{ListenAddress, Protocol};
use crate::state::exports::registry::{Entry, ExportDefinition, KeptIdentity, State, VolumeGuid};
use crate::state::exports::servers::ServerExport;
use crate::state::pools::active_pool::ActivePool;

impl Daemon {
    pub(crate) fn attach_device(&self, new: &command::NbdAttach) -> Result<ExportRow> {
        let kernel = new.kernel.as_deref().map(kernel_device).transpose()?;
        let listen = ListenAddress::Kernel(kernel.map(|device| device.0));
        self.attach(&new.device, new.read_only, listen)
    }

    /// Attaches a device to the kernel at a place.
    pub(super) fn attach(
        &self,
        device: &str,
        read_only: bool,
        listen: ListenAddress,
    ) -> Result<ExportRow> {
        let device = Exportable::parse(device)?;
        let is_snapshot = matches!(&device, Exportable::Volume(name) if name.contains('@'));
        let name = device.shown();
        let protocol = listen.protocol();
        let is = ExportDefinition {
            device,
            description: String::new(),
            read_only: read_only || is_snapshot,
            listen,
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
        let mut rows = self.export_rows(protocol).into_iter();
        let row = rows.find(|row| row.name == name);
        row.ok_or_else(|| not_attached(protocol, &name))
    }

    /// Detaches a device of the kernel. `named` is the device, or the volume that is attached to it.
    pub(crate) fn detach_device(&self, named: &str, force: bool) -> Result<()> {
        let kernel = KernelDevice::parse(named).map(|device| ListenAddress::Kernel(Some(device.0)));
        self.detach(Protocol::Kernel, named, kernel, force)
    }

    /// Detaches a device of the kernel, by its place or by its source.
    pub(super) fn detach(
        &self,
        protocol: Protocol,
        named: &str,
        place: Option<ListenAddress>,
        force: bool,
    ) -> Result<()> {
        let device = Exportable::parse(named)?;
        let all = self.exported.entries().into_iter();
        let mut attached = all.filter(|(_, it)| it.is.listen.protocol() == protocol);
        let found = attached
            .find(|(_, it)| place.as_ref() == Some(&it.is.listen) || it.is.device == device);
        let (name, _) = found.ok_or_else(|| not_attached(protocol, named))?;
        self.unexport(protocol, &name, force)
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
        let identity = nbd_identity(&is);
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
        let Some(device) = AttachedPlace::of(is) else {
            return Ok(());
        };
        if !force && device.is_there() {
            device.may_end()?;
        }
        device.end()
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
        attachment: &dyn KernelAttachment,
    ) -> Result<()> {
        let detached = match self.may_detach_suspended(&is.device) {
            Ok(()) => attachment.detach(false),
            // The connection is cut.
            Err(_) => attachment
                .may_detach()
                .and_then(|()| attachment.detach(true)),
        };
        match detached {
            Err(failure) if failure.kind == FailureKind::Busy => {}
            detached => return detached,
        }
        let left = { attachment.leave() }.and_then(|()| self.contents_below(&is.device.name()));
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
    pub(super) fn contents_below(&self, device: &DeviceName<'_>) -> Result<Option<String>> {
        let Some((active, name)) = self.volume_below(device)? else {
            return Ok(None);
        };
        active.pool.commit()?;
        Ok(Some(active.pool.find(&name)?.contents_mark()))
    }

    /// The volume below a device, and its pool; `None` if there is no volume.
    fn volume_below(&self, device: &DeviceName<'_>) -> Result<Option<(Arc<ActivePool>, String)>> {
        match device {
            DeviceName::Volume(name) => Ok(Some((self.find(name)?.0, (*name).to_owned()))),
            DeviceName::Luks(mapping) => {
                let below = self.mapping_device(mapping)?;
                self.volume_below(&DeviceName::parse(&below))
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
        let waits = |Entry { is, state }: &Entry| {
            // A ublk device waits after a daemon that was killed, too.
            let may_wait = is.waits || is.listen.protocol() == Protocol::Ublk;
            may_wait
                && !matches!(state, State::Open(..))
                && is.volume.is_some_and(is_one)
                && AttachedPlace::of(is).is_some_and(|device| device.is_there())
        };
        let all = self.exported.entries().into_iter();
        let mut waiting = all.filter(|(_, entry)| waits(entry));
        match waiting.next() {
            None => Ok(()),
            Some((name, entry)) => Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "'{name}' is attached to the kernel and mounted; what is written there waits until the volume can be \
                     opened again; unmount it and detach it first: {}",
                    entry.is.listen.protocol().taking_back(&name)
                ),
            )),
        }
    }
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

fn not_attached(protocol: Protocol, name: &str) -> Failure {
    let command = protocol.command();
    Failure::new(
        FailureKind::NotFound,
        format!("'{name}' is not attached; 'strongroom {command} list' lists what is"),
    )
}

/// The refusal of `nbd unexport` for an attached device.
pub(super) fn is_attached(protocol: Protocol, name: &str) -> Failure {
    let end = protocol.taking_back(name);
    Failure::usage(format!("'{name}' is attached to the kernel; use {end}"))
}
