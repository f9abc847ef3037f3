//! Exports that are attached to the kernel of this machine by its driver ublk, as `/dev/ublkbN`.
//!
//! Devices are detached, and left to the next daemon, like those by NBD ([`super::kernel`]). They differ after a daemon
//! that was killed: changes of a volume that were answered are in its log. So the next daemon takes the device over, if no
//! answer may be lost and the volume is proved unchanged. Until the volume can be opened, the requests of the device wait.
//! A file, a disk, a mapping or an export of another server proves nothing, so their devices are ended.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use block::{BlockDevice, DeviceMeter};
use dataset::{SyncMode, WriteCache};
use protocol::api::{ExportRow, FailureKind, command};
use ublk::{UblkAttachment, UblkDevice, UblkOptions};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::exports::attached_place::AttachedPlace;
use crate::state::exports::device::Exportable;
use crate::state::exports::listen::{ListenAddress, Protocol};
use crate::state::exports::registry::{ExportDefinition, State};
use crate::state::exports::servers::ServerExport;
use crate::state::pools::active_pool::ActivePool;

/// The name of the kernel among those that are told of losses.
const CLIENT: &str = "ublk";

impl Daemon {
    pub(crate) fn attach_ublk(&self, new: &command::UblkAttach) -> Result<ExportRow> {
        let number = new.kernel.as_deref().map(ublk_device).transpose()?;
        let listen = ListenAddress::Ublk(number.map(|device| device.0));
        self.attach(&new.device, new.read_only, listen)
    }

    /// Detaches a device of the kernel. `named` is the device, or the volume that is attached to it.
    pub(crate) fn detach_ublk(&self, named: &str, force: bool) -> Result<()> {
        let place = UblkDevice::parse(named).map(|device| ListenAddress::Ublk(Some(device.0)));
        self.detach(Protocol::Ublk, named, place, force)
    }

    /// The device that the last daemon left, if this one may take it over. If it may not, the device is ended.
    ///
    /// # Errors
    /// If this is not known yet, because the pool or the mapping is not there. Then the device waits.
    pub(super) fn ublk_left(
        &self,
        name: &str,
        is: &ExportDefinition,
    ) -> Result<Option<UblkDevice>> {
        let Some(AttachedPlace::Ublk(device, identity)) = AttachedPlace::of(is) else {
            return Ok(None);
        };
        if !device.is_of(identity) {
            return Ok(None);
        }
        // Its contents are compared when it is open.
        if is.waits {
            return Ok(Some(device));
        }
        match self.loss_of(name, is)? {
            None => Ok(Some(device)),
            Some(why) => {
                end_left(is, device, why)?;
                Ok(None)
            }
        }
    }

    /// The loss after which programs must not go on with the source of a device of a daemon that was killed, if there is one.
    /// Until the volume is opened, the name of its contents is remembered: a command could change them.
    fn loss_of(&self, name: &str, is: &ExportDefinition) -> Result<Option<&'static str>> {
        let Exportable::Volume(volume) = &is.device else {
            return Ok(Some("it may have been changed meanwhile"));
        };
        let (active, entry) = self.find(volume)?;
        // Contents that were noted after the crash prove it themselves, whoever has used the pool since.
        if is.contents.is_none() && !active.goes_on.load(Relaxed) {
            return Ok(Some(
                "the pool may have been used by another program meanwhile",
            ));
        }
        let may_be_lost = !entry.is_snapshot()
            && (!keeps_answers(&active, &entry)? || active.losses.of(entry.id).tell(CLIENT));
        if may_be_lost {
            return Ok(Some("the daemon was killed, and writes may be lost"));
        }
        let contents = Some(entry.contents_mark());
        if is.contents.is_some() && is.contents != contents {
            return Ok(Some("the volume was changed meanwhile"));
        }
        let is = ExportDefinition {
            contents,
            ..is.clone()
        };
        self.exported.set(name, is, State::Opening);
        self.exported.remember()?;
        Ok(None)
    }

    /// Attaches an export: takes over the device that was left, or makes a new one.
    pub(super) fn attach_by_ublk(
        &self,
        name: &str,
        is: &ExportDefinition,
        left: Option<UblkDevice>,
        device: Arc<dyn BlockDevice>,
        meter: Arc<DeviceMeter>,
    ) -> Result<()> {
        let (before, mut is) = (is.clone(), is.clone());
        let is_same = |is: &ExportDefinition| {
            let contents = self.contents_below(&is.device.name());
            !is.waits || contents.is_ok_and(|contents| contents == is.contents)
        };
        let left = match left {
            Some(kernel) if !is_same(&is) => {
                end_left(&is, kernel, "the volume was changed meanwhile")?;
                None
            }
            left => left,
        };
        if is.waits || left.is_some() || is.contents.is_some() {
            // If this daemon is killed, the state of the pool tells the next one whether it may take over the device.
            (is.waits, is.contents) = (false, None);
            self.exported.set(name, is.clone(), State::Opening);
            self.exported.remember()?;
        }
        let number = match is.listen {
            ListenAddress::Ublk(number) => number,
            _ => None,
        };
        let options = UblkOptions {
            number,
            identity: is.unit_number(),
            is_read_only: is.read_only,
        };
        let attachment = match left {
            None => UblkAttachment::new(device, options)?,
            Some(kernel) => match UblkAttachment::take_up(device, kernel, options) {
                Ok(attachment) => attachment,
                Err(error @ ublk::Error::OtherSize { .. }) => {
                    kernel.end(options.identity)?;
                    return Err(error.into());
                }
                Err(error) => {
                    // It waits for another attempt.
                    self.exported.set(name, before, State::Opening);
                    self.exported.remember()?;
                    return Err(error.into());
                }
            },
        };
        is.listen = ListenAddress::Ublk(Some(attachment.kernel().0));
        let state = State::Open(ServerExport::Kernel(Arc::new(attachment)), meter);
        self.exported.set(name, is, state);
        Ok(())
    }

    /// Ends a device that waits for a volume which is gone.
    pub(super) fn end_without_source(&self, is: &ExportDefinition, failure: &Failure) {
        let (Exportable::Volume(name), ListenAddress::Ublk(_)) = (&is.device, &is.listen) else {
            return;
        };
        let pool = name.split(['/', '@']).next().unwrap_or(name);
        let is_gone = failure.kind == FailureKind::NotFound && self.pool(pool).is_ok();
        if is_gone && let Err(failure) = self.end_waiting(is, true) {
            let reason = failure.message;
            tracing::error!(
                name,
                reason,
                "the device of a volume that is gone could not be ended"
            );
        }
    }

    /// Tells the kernel of the new size of a device, or the caller that it cannot be told.
    pub(crate) fn tell_kernel_of_size(
        &self,
        is_one: impl Fn(&ExportDefinition) -> bool,
        context: &mut CallerContext<'_>,
    ) {
        for (name, entry) in self.exported.entries() {
            let State::Open(ServerExport::Kernel(attachment), _) = &entry.state else {
                continue;
            };
            if !is_one(&entry.is) {
                continue;
            }
            let why = match attachment.follow_size() {
                Ok(true) => continue,
                Ok(false) => String::from("this kernel cannot change the size of such a device"),
                Err(failure) => failure.message,
            };
            let text = format!(
                "{} keeps its old size until '{name}' is detached and attached again: {why}",
                entry.is.shown_places()
            );
            context.tell(vec![Failure::other(text)]);
        }
    }
}

/// Ends a device that was left.
fn end_left(is: &ExportDefinition, device: UblkDevice, why: &str) -> Result<()> {
    let (path, source) = (device.path(), is.device.shown());
    tracing::warn!(device = %path.display(), source, why, "it is ended");
    Ok(device.end(is.unit_number())?)
}

/// Returns whether a change of a volume outlives the daemon when it is answered.
fn keeps_answers(active: &ActivePool, entry: &pool::Entry) -> Result<bool> {
    let settings = properties::settings(&active.pool, entry)?;
    Ok(match settings.sync {
        SyncMode::Standard => settings.write_cache != WriteCache::Volatile,
        SyncMode::Always => true,
        SyncMode::Disabled => false,
    })
}

fn ublk_device(path: &str) -> Result<UblkDevice> {
    UblkDevice::parse(path).ok_or_else(|| {
        Failure::usage(format!(
            "'{path}' is not a ublk device of the kernel; write /dev/ublkb0 or another number, or none for a free one"
        ))
    })
}
