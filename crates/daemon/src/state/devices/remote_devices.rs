//! Devices outside this machine that are in use: exports of other NBD servers, and object stores. None of them has an
//! exclusive use for processes of one machine. Only inside this daemon, the name of a device prevents that it is used
//! twice.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Weak};

use block::{AtomicDevice, BlockDevice, DeviceAccess, Error};
use parking_lot::Mutex;

/// The user of devices that are looked at, in messages.
pub(crate) const SCAN: &str = "a command that looks for pools";

/// The devices of one kind with a user, by name, and those that a command reads.
pub(crate) struct RemoteDevices<D> {
    in_use: Mutex<BTreeMap<String, RemoteUse<D>>>,
    readers: Mutex<KeptReaders<D>>,
}

/// Devices that were opened to be read, while a command looks for pools: it opens each several times.
struct KeptReaders<D> {
    commands: usize,
    devices: BTreeMap<String, Arc<D>>,
}

struct RemoteUse<D> {
    user: String,
    /// The device, once it is open.
    device: Weak<D>,
}

impl<D> Default for RemoteDevices<D> {
    fn default() -> RemoteDevices<D> {
        RemoteDevices {
            in_use: Mutex::default(),
            readers: Mutex::new(KeptReaders {
                commands: 0,
                devices: BTreeMap::new(),
            }),
        }
    }
}

impl<D: BlockDevice + 'static> RemoteDevices<D> {
    /// Opens a device for `user`, with `open`. Reading a device in use needs no second one, because a server may allow
    /// only one client. `open` gets the device that a command has read ([`RemoteDevices::keep_readers`]).
    pub(crate) fn open<E: From<Error>>(
        self: &Arc<Self>,
        name: &str,
        access: DeviceAccess,
        user: &str,
        open: impl FnOnce(Option<&D>) -> Result<D, E>,
    ) -> Result<Arc<dyn BlockDevice>, E> {
        match access {
            DeviceAccess::ReadOnly => Ok(match self.in_use(name) {
                Some(device) => Arc::new(DeviceReader(device)),
                None => self.open_reader(name, open)?,
            }),
            DeviceAccess::Exclusive => Ok(self.open_reserved(name, user, open)?),
        }
    }

    /// Opens a device that only `user` uses.
    pub(crate) fn open_reserved<E: From<Error>>(
        self: &Arc<Self>,
        name: &str,
        user: &str,
        open: impl FnOnce(Option<&D>) -> Result<D, E>,
    ) -> Result<Arc<ReservedDevice<D>>, E> {
        let slot = self.reserve(name, user)?;
        let reader = self.readers.lock().devices.remove(name);
        let device = Arc::new(open(reader.as_deref())?);
        if let Some(in_use) = self.in_use.lock().get_mut(name) {
            in_use.device = Arc::downgrade(&device);
        }
        Ok(Arc::new(ReservedDevice {
            device,
            _slot: slot,
        }))
    }

    fn open_reader<E>(
        &self,
        name: &str,
        open: impl FnOnce(Option<&D>) -> Result<D, E>,
    ) -> Result<Arc<D>, E> {
        if let Some(device) = self.readers.lock().devices.get(name) {
            return Ok(Arc::clone(device));
        }
        let device = Arc::new(open(None)?);
        let mut readers = self.readers.lock();
        if readers.commands > 0 {
            readers.devices.insert(name.into(), Arc::clone(&device));
        }
        Ok(device)
    }

    /// Keeps devices that are opened to be read, until all that called this have dropped what it returns.
    pub(crate) fn keep_readers(self: &Arc<Self>) -> ReaderSession<D> {
        self.readers.lock().commands += 1;
        ReaderSession(Arc::clone(self))
    }

    /// The device that a command has read.
    pub(crate) fn kept_reader(&self, name: &str) -> Option<Arc<D>> {
        self.readers.lock().devices.get(name).cloned()
    }

    /// The open device of this name, if it is in use.
    pub(crate) fn in_use(&self, name: &str) -> Option<Arc<D>> {
        let device = self
            .in_use
            .lock()
            .get(name)
            .map(|is| Weak::clone(&is.device));
        device.and_then(|device| device.upgrade())
    }
}

impl<D> RemoteDevices<D> {
    /// Reserves a name for `user`.
    ///
    /// # Errors
    /// [`Error::Busy`]
    pub(crate) fn reserve(
        self: &Arc<Self>,
        name: &str,
        user: &str,
    ) -> block::Result<RemoteSlot<D>> {
        let mut all = self.in_use.lock();
        if let Some(in_use) = all.get(name) {
            return Err(Error::Busy {
                path: name.into(),
                holder: in_use.user.clone(),
            });
        }
        let in_use = RemoteUse {
            user: user.into(),
            device: Weak::new(),
        };
        all.insert(name.into(), in_use);
        Ok(RemoteSlot {
            all: Arc::clone(self),
            name: name.into(),
        })
    }
}

/// A command that opens devices several times. It ends when this is dropped.
pub(crate) struct ReaderSession<D>(Arc<RemoteDevices<D>>);

impl<D> Drop for ReaderSession<D> {
    fn drop(&mut self) {
        let mut readers = self.0.readers.lock();
        readers.commands -= 1;
        if readers.commands == 0 {
            let devices = std::mem::take(&mut readers.devices);
            drop(readers);
            drop(devices);
        }
    }
}

/// The reservation of a name. It ends when this is dropped.
pub(crate) struct RemoteSlot<D> {
    all: Arc<RemoteDevices<D>>,
    name: String,
}

impl<D> Drop for RemoteSlot<D> {
    fn drop(&mut self) {
        self.all.in_use.lock().remove(&self.name);
    }
}

/// A device with its user. The connection ends before its name is free.
pub(crate) struct ReservedDevice<D> {
    device: Arc<D>,
    _slot: RemoteSlot<D>,
}

impl<D: BlockDevice> BlockDevice for ReservedDevice<D> {
    block::delegate!(self => self.device; all);
}

impl<D: AtomicDevice> AtomicDevice for ReservedDevice<D> {
    fn begin_batch(&self) -> block::Result<()> {
        self.device.begin_batch()
    }

    fn end_batch(&self) -> block::Result<()> {
        self.device.end_batch()
    }
}

/// A reader of a device that is in use.
struct DeviceReader<D>(Arc<D>);

impl<D: BlockDevice> DeviceReader<D> {
    fn refused<T>(&self) -> block::Result<T> {
        let device = self.name();
        Err(Error::ReadOnly { device })
    }
}

impl<D: BlockDevice> BlockDevice for DeviceReader<D> {
    block::delegate!(self => self.0; size sector_sizes name claim check_unreserved read_at waits_on_write would_wait);
    block::delegate!(self => self.0; io_mode settle drop_cached begin_anew status_at);
    block::plain_methods!(zero_fast is_blank overwrite);

    /// Only the user of the device connects again, and not a reader.
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

#[cfg(test)]
mod tests {
    use block::MemoryDevice;

    use super::*;

    type Table = RemoteDevices<MemoryDevice>;

    fn open(
        table: &Arc<Table>,
        access: DeviceAccess,
        is_asked: &mut bool,
    ) -> block::Result<Arc<dyn BlockDevice>> {
        table.open("s3://b/tank", access, "the pool 'tank'", |_| {
            *is_asked = true;
            Ok(MemoryDevice::new(4096))
        })
    }

    #[test]
    fn a_device_has_one_user_and_readers_share_it() {
        let table = Arc::new(Table::default());
        let mut is_asked = false;
        let used = open(&table, DeviceAccess::Exclusive, &mut is_asked).unwrap();
        used.write_at(0, &[IoSlice::new(&[7; 512])]).unwrap();
        let second = open(&table, DeviceAccess::Exclusive, &mut is_asked).err();
        let said = second.map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(said, "s3://b/tank is in use by the pool 'tank'");
        is_asked = false;
        let reader = open(&table, DeviceAccess::ReadOnly, &mut is_asked).unwrap();
        assert!(!is_asked, "the reader uses the open device");
        let mut found = [0; 512];
        reader.read_at(0, &mut found).unwrap();
        assert_eq!(found, [7; 512]);
        assert!(matches!(
            reader.write_at(0, &[IoSlice::new(&[8; 512])]),
            Err(Error::ReadOnly { .. })
        ));
        drop((used, reader));
        assert!(table.in_use("s3://b/tank").is_none());
        drop(open(&table, DeviceAccess::ReadOnly, &mut is_asked).unwrap());
        assert!(is_asked);
        table.reserve("s3://b/tank", "a command").unwrap();
    }

    #[test]
    fn a_command_opens_a_device_once_to_read_it() {
        let table = Arc::new(Table::default());
        let mut is_asked = false;
        let session = table.keep_readers();
        drop(open(&table, DeviceAccess::ReadOnly, &mut is_asked).unwrap());
        assert!(std::mem::take(&mut is_asked));
        drop(open(&table, DeviceAccess::ReadOnly, &mut is_asked).unwrap());
        assert!(!is_asked);
        // The user of the device gets what was read.
        let mut has_reader = false;
        let opened = table.open("s3://b/tank", DeviceAccess::Exclusive, "it", |reader| {
            has_reader = reader.is_some();
            Ok::<_, Error>(MemoryDevice::new(4096))
        });
        drop(opened.unwrap());
        assert!(has_reader);
        drop(open(&table, DeviceAccess::ReadOnly, &mut is_asked).unwrap());
        assert!(std::mem::take(&mut is_asked));
        drop(session);
        drop(open(&table, DeviceAccess::ReadOnly, &mut is_asked).unwrap());
        assert!(is_asked);
    }
}
