//! Exports of other NBD servers that are in use. NBD has no exclusive use. Only inside this daemon, the name of an
//! export prevents that it is used twice.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Weak};

use block::{BlockDevice, DeviceAccess, Error};
use nbd::{Remote, RemoteExport};
use parking_lot::Mutex;

/// The exports with a user, by name.
#[derive(Default)]
pub(crate) struct RemoteExports(Mutex<BTreeMap<String, ExportUse>>);

struct ExportUse {
    user: String,
    /// The device, once it is open.
    device: Weak<RemoteExport>,
}

impl RemoteExports {
    /// Opens an export for `user`. Reading an export in use needs no second connection, because a server may allow only
    /// one client.
    pub(crate) fn open(
        self: &Arc<Self>,
        remote: Remote,
        access: DeviceAccess,
        user: &str,
    ) -> block::Result<Arc<dyn BlockDevice>> {
        match access {
            DeviceAccess::ReadOnly => {
                let in_use = self
                    .0
                    .lock()
                    .get(&remote.name)
                    .map(|is| Weak::clone(&is.device));
                let in_use = in_use.and_then(|device| device.upgrade());
                Ok(match in_use {
                    Some(device) => Arc::new(ExportReader(device)),
                    None => Arc::new(RemoteExport::open(remote, access)?),
                })
            }
            DeviceAccess::Exclusive => {
                let place = self.reserve(&remote.name, user)?;
                let device = Arc::new(RemoteExport::open(remote, access)?);
                if let Some(in_use) = self.0.lock().get_mut(&place.name) {
                    in_use.device = Arc::downgrade(&device);
                }
                Ok(Arc::new(UsedExport {
                    device,
                    _place: place,
                }))
            }
        }
    }

    fn reserve(self: &Arc<Self>, name: &str, user: &str) -> block::Result<ExportSlot> {
        let mut all = self.0.lock();
        if let Some(in_use) = all.get(name) {
            return Err(Error::Busy {
                path: name.into(),
                holder: in_use.user.clone(),
            });
        }
        let in_use = ExportUse {
            user: user.into(),
            device: Weak::new(),
        };
        all.insert(name.into(), in_use);
        Ok(ExportSlot {
            all: Arc::clone(self),
            name: name.into(),
        })
    }
}

/// The use of an export. It ends when this is dropped.
struct ExportSlot {
    all: Arc<RemoteExports>,
    name: String,
}

impl Drop for ExportSlot {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.name);
    }
}

/// An export with its user. The connection ends before its place is free.
struct UsedExport {
    device: Arc<RemoteExport>,
    _place: ExportSlot,
}

impl BlockDevice for UsedExport {
    block::delegate!(self => self.device; all);
}

/// A reader of an export that is in use.
struct ExportReader(Arc<RemoteExport>);

impl ExportReader {
    fn refused<T>(&self) -> block::Result<T> {
        let device = self.name();
        Err(Error::ReadOnly { device })
    }
}

impl BlockDevice for ExportReader {
    block::delegate!(self => self.0; size sector_sizes name claim check_unreserved read_at waits_on_write would_wait);
    block::delegate!(self => self.0; io_mode settle drop_cached begin_anew status_at);
    block::plain_methods!(zero_fast is_blank overwrite);

    /// Only the user of the export connects again, and not a reader.
    fn refresh_size(&self) -> block::Result<u64> {
        Ok(self.size())
    }

    fn write_at(&self, _offset: u64, _pieces: &[IoSlice<'_>]) -> block::Result<()> {
        self.refused()
    }

    fn flush(&self) -> block::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _len: u64) -> block::Result<()> {
        self.refused()
    }
}
