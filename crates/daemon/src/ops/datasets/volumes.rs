//! Volumes: makes and resizes them, and opens them for their users.
//!
//! A volume is open as long as an export, another pool or another user uses it. It has only one user at a time, because
//! two users would overwrite each other's data. A snapshot can have several users. Each user has a name, so that a
//! command that would take the volume away can report the user.

use std::collections::btree_map;
use std::io::IoSlice;
use std::sync::{Arc, Weak};

use block::{BlockDevice, DeviceAccess, FileDevice, RangeStatus, SectorSizes};
use dataset::Volume;
use pool::{Entry, VolumeShape};
use protocol::api::{FailureKind, NewVolume, Props};
use protocol::device_name::DeviceName;
use protocol::property::{Applies, Property};
use protocol::sizes;

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::datasets::volume_state::VolumeInUse;
use crate::state::devices::leases::{Lease, LeasedObject};
use crate::state::exports::registry::VolumeGuid;
use crate::state::pools::active_pool::ActivePool;

/// The default block size, in bytes.
const BLOCK_SIZE: u32 = 16 << 10;

/// Returns whether a property applies to a dataset or snapshot.
pub(crate) fn applies(entry: &Entry, property: &str) -> bool {
    match Property::find(property).map(|property| property.applies) {
        Some(Applies::Pools) => entry.parent == 0,
        Some(Applies::Files) => entry.volume().is_none(),
        Some(Applies::Volumes) => entry.volume().is_some(),
        Some(Applies::All) | None => true,
    }
}

/// Decides the shape of a new volume from its size and properties. It removes from `props` the ones that are not stored
/// as properties. The space of a volume that is not sparse is reserved.
pub(crate) fn shape(new: &NewVolume, props: &mut Props) -> Result<VolumeShape> {
    let mut block_size = BLOCK_SIZE;
    for (name, value) in props.iter() {
        if name == "volblocksize" {
            block_size = properties::record_size(value)
                .ok_or_else(|| properties::no_record_size(name, value))?;
        } else if Property::find(name).is_some_and(|property| property.applies == Applies::Files) {
            return Err(Failure::usage(format!(
                "the property '{name}' is for file systems, and a volume has no files"
            )));
        }
    }
    let shape = VolumeShape::new(new.size, block_size).ok_or_else(|| no_such_size(block_size))?;
    props.retain(|(name, _)| name != "volblocksize");
    let is_said = props.iter().any(|(name, _)| name == "refreservation");
    if !new.sparse && !is_said {
        props.push(reservation(&shape));
    }
    Ok(shape)
}

fn reservation(shape: &VolumeShape) -> (String, String) {
    ("refreservation".into(), shape.reservation().to_string())
}

fn no_such_size(block_size: u32) -> Failure {
    Failure::usage(format!(
        "the size of a volume is a multiple of its block size, here {block_size} bytes, and not 0; give \
         another size, or another block size with -o volblocksize"
    ))
}

/// Refuses an operation on a volume that is only possible with files.
pub(crate) fn refuse_volume(entry: &Entry, name: &str, done: &str) -> Result<()> {
    match entry.volume() {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "'{name}' is a volume: it has no files, and is not {done}; to use it as a block device: strongroom \
             nbd export {name}"
        ))),
    }
}

/// The use of a volume, which ends when this is dropped.
pub(crate) struct LentVolume {
    device: Arc<VolumeInUse>,
    pool: Weak<ActivePool>,
    id: u64,
    /// `None` only while this is dropped.
    lease: Option<Lease<LeasedObject>>,
}

impl Drop for LentVolume {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let (id, lease) = (self.id, self.lease.take());
        let device = Arc::clone(&self.device);
        let end = move || pool.return_volume(id, &device, lease);
        match std::thread::panicking() {
            false => end(),
            // Not on a thread that panics: a commit on it would count as the cause of the panic.
            true => drop(threads::start("volume-end", end)),
        }
    }
}

impl BlockDevice for LentVolume {
    block::plain_methods!(refresh_size claim check_unreserved waits_on_write would_wait io_mode);
    block::plain_methods!(drop_cached begin_anew is_blank overwrite);

    fn size(&self) -> u64 {
        self.device.volume().as_ref().map_or(0, BlockDevice::size)
    }

    fn sector_sizes(&self) -> SectorSizes {
        self.device.sector_sizes
    }

    fn name(&self) -> String {
        self.device.name.clone()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let range = (offset, buf.len() as u64);
        self.device
            .with("read", range, |volume| volume.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.device.with("write", (offset, len), |volume| {
            volume.write_at(offset, pieces)
        })
    }

    fn settle(&self) -> block::Result<()> {
        self.device.with("log", (0, 0), BlockDevice::settle)
    }

    fn flush(&self) -> block::Result<()> {
        self.device.with("flush", (0, 0), BlockDevice::flush)
    }

    fn discard(&self, offset: u64, len: u64) -> block::Result<()> {
        self.device.with("discard", (offset, len), |volume| {
            volume.discard(offset, len)
        })
    }

    fn zero(&self, offset: u64, len: u64) -> block::Result<()> {
        self.device
            .with("zero", (offset, len), |volume| volume.zero(offset, len))
    }

    fn zero_fast(&self, offset: u64, len: u64) -> block::Result<bool> {
        self.device.with("zero", (offset, len), |volume| {
            volume.zero_fast(offset, len)
        })
    }

    fn status_at(&self, offset: u64, len: u64) -> block::Result<RangeStatus> {
        self.device.with("look at", (offset, len), |volume| {
            volume.status_at(offset, len)
        })
    }
}

impl Daemon {
    /// Opens a volume, or a snapshot of one.
    fn open_volume(
        &self,
        active: &ActivePool,
        (entry, name): (&Entry, &str),
        gives_up_log: bool,
    ) -> Result<Volume> {
        if entry.volume().is_none() {
            return Err(Failure::usage(format!(
                "'{name}' is not a volume; 'strongroom list -t volume' shows those there are"
            )));
        }
        active.refuse_rolled_back(entry)?;
        let keys = active.data_keys(entry)?;
        let mut settings = properties::settings(&active.pool, entry)?;
        settings.gives_up_log = gives_up_log;
        let opened = Volume::open(&self.engine, &active.pool, entry.id, keys, settings);
        opened.map_err(|error| active.explain_foreign(entry, error.into()))
    }

    /// Replays the log of a volume that is not in use, without the entries that are not of its present state.
    pub(crate) fn give_up_volume_log(
        &self,
        active: &ActivePool,
        entry: &Entry,
        name: &str,
    ) -> Result<()> {
        let volumes = active.volumes.lock();
        if volumes.contains_key(&entry.id) {
            let why = format!("'{name}' is in use, so no log waits");
            return Err(Failure::new(FailureKind::Busy, why));
        }
        Ok(self.open_volume(active, (entry, name), true)?.close()?)
    }

    /// Lends a volume, or a snapshot of one, to `user`: `the pool 'inner'`.
    ///
    /// # Errors
    /// Something else uses it, or its key is not loaded.
    pub(crate) fn lend_volume(&self, name: &str, user: &str) -> Result<LentVolume> {
        self.lend_volume_to(name, user, true)
    }

    /// Lends a volume, or a snapshot of one, for reading only, even while it is in use.
    pub(crate) fn look_at_volume(&self, name: &str, user: &str) -> Result<LentVolume> {
        self.lend_volume_to(name, user, false)
    }

    fn lend_volume_to(&self, name: &str, user: &str, alone: bool) -> Result<LentVolume> {
        let (active, entry) = self.find(name)?;
        let mut volumes = active.volumes.lock();
        let device = match volumes.entry(entry.id) {
            btree_map::Entry::Occupied(device) => device.into_mut(),
            btree_map::Entry::Vacant(place) => {
                let volume = self.open_volume(&active, (&entry, name), false)?;
                place.insert(Arc::new(VolumeInUse::new(volume)))
            }
        };
        if alone && !entry.is_snapshot() {
            active
                .leases
                .may_go(&LeasedObject::Dataset(entry.id), &format!("'{name}'"))?;
        }
        Ok(LentVolume {
            device: Arc::clone(device),
            pool: Arc::downgrade(&active),
            id: entry.id,
            lease: Some(active.leases.take(LeasedObject::Dataset(entry.id), user)),
        })
    }

    /// Opens a device for `user`, which has it until it is dropped.
    ///
    /// # Errors
    /// It cannot be opened so, or something else uses it.
    pub(crate) fn open(
        &self,
        name: DeviceName<'_>,
        access: DeviceAccess,
        user: &str,
    ) -> Result<Arc<dyn BlockDevice>> {
        Ok(match name {
            DeviceName::Path(path) => Arc::new(FileDevice::open(path, access)?),
            DeviceName::Volume(volume) => Arc::new(self.lend_volume(volume, user)?),
            DeviceName::Luks(mapping) => Arc::new(self.open_mapped(mapping, access, user)?),
            DeviceName::Nbd(text) => self.open_remote_export(text, access, user)?,
            DeviceName::Object(text) => self.open_object_device(text, access, user)?,
            DeviceName::Unsupported(name) => return Err(name.refusal()),
        })
    }

    /// Gives volumes another size. False if the properties are others.
    pub(crate) fn set_volsize(
        &self,
        names: &[String],
        props: &Props,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<bool> {
        let Some((_, size)) = props.iter().find(|(name, _)| name == "volsize") else {
            return Ok(false);
        };
        let [name] = names else {
            return Err(Failure::usage("'set volsize' takes one volume"));
        };
        if props.len() > 1 {
            return Err(Failure::usage(
                "the property 'volsize' is set alone; set the other properties with another command",
            ));
        }
        let size = sizes::positive(size).ok_or_else(|| {
            Failure::usage(format!(
                "the property 'volsize' cannot be '{size}'; allowed: a size, such as 512M, 1.5G or 2T"
            ))
        })?;
        let (active, entry) = self.find(name)?;
        let _admin = active.lock(context.decision)?;
        let entry = active.again(&entry, name, context.decision)?;
        self.resize_volume(&active, &entry, name, size, force, context)?;
        let volume = Some(VolumeGuid::of(&active, &entry));
        self.tell_kernel_of_size(|is| is.volume == volume, context);
        context.tell(active.apply_settings()?);
        Ok(true)
    }

    fn resize_volume(
        &self,
        active: &ActivePool,
        entry: &Entry,
        name: &str,
        size: u64,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let old = entry.volume().filter(|_| !entry.is_snapshot());
        let old = old.ok_or_else(|| Failure::usage(format!("'{name}' is not a volume")))?;
        if VolumeShape::new(size, old.block_size()).is_none() {
            return Err(no_such_size(old.block_size()));
        }
        if size < old.size() && !force {
            return Err(Failure::usage(format!(
                "'{name}' would become smaller, and the data behind its new end would be lost; make its file \
                 system smaller first, then use -f"
            )));
        }
        let origin = context.origin();
        let in_use = active.volumes.lock().get(&entry.id).cloned();
        let resized = match in_use {
            Some(device) => device
                .volume()
                .as_ref()
                .map_or(Ok(()), |volume| volume.resize(size, &origin)),
            None => {
                let volume = self.open_volume(active, (entry, name), false)?;
                let resized = volume.resize(size, &origin);
                resized.and(volume.close())
            }
        };
        resized.map_err(|error| Failure::from(error).context(format_args!("'{name}'")))
    }
}

impl ActivePool {
    /// Ends the use of a volume; after the last it is closed.
    fn return_volume(
        &self,
        id: u64,
        device: &Arc<VolumeInUse>,
        lease: Option<Lease<LeasedObject>>,
    ) {
        let mut volumes = self.volumes.lock();
        drop(lease);
        let is_there = volumes.get(&id).is_some_and(|is| Arc::ptr_eq(is, device));
        // The volume may have been closed by force, and opened again for other users.
        if is_there && self.leases.users(&LeasedObject::Dataset(id)).is_empty() {
            // The next user waits until it is closed.
            volumes.remove(&id);
            device.take_away();
        }
    }

    /// Closes a volume. If something uses it, this needs `force`.
    pub(crate) fn close_volume(&self, id: u64, force: bool) -> Result<()> {
        let mut volumes = self.volumes.lock();
        if !volumes.contains_key(&id) {
            return Ok(());
        }
        if !force {
            let name = self.pool.name_of(id)?;
            self.leases
                .may_go(&LeasedObject::Dataset(id), &format!("'{name}'"))?;
        }
        if let Some(device) = volumes.remove(&id) {
            self.leases.end(&LeasedObject::Dataset(id));
            device.take_away();
        }
        Ok(())
    }

    /// The names of those entries that are volumes, or snapshots of volumes.
    pub(crate) fn volumes_of(&self, entries: &[Arc<Entry>]) -> Result<Vec<String>> {
        let volumes = entries.iter().filter(|entry| entry.volume().is_some());
        volumes
            .map(|entry| Ok(self.pool.name_of(entry.id)?))
            .collect()
    }

    pub(crate) fn volumes_in_use(&self) -> Vec<u64> {
        self.volumes.lock().keys().copied().collect()
    }
}
