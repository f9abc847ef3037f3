//! The exports, and their connections.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, LossNotice};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::wire::link::PeerLink;
use crate::wire::proto::{PAYLOAD_MAX, can};
use crate::{Error, Result};

/// A name or a description has at most so many bytes.
pub(crate) const TEXT_MAX: usize = 4096;

/// The time that a removal waits for the requests of connections that it has closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A device under a name.
pub struct Export {
    name: String,
    description: String,
    device: Arc<dyn BlockDevice>,
    is_read_only: bool,
    losses: Arc<LossNotice>,
    clients: Mutex<Clients>,
    left: Condvar,
}

#[derive(Default)]
struct Clients {
    next: u64,
    links: BTreeMap<u64, Arc<dyn PeerLink>>,
    is_closed: bool,
}

impl Export {
    /// Exports a device; `description` is for people.
    ///
    /// # Errors
    /// If the name or the description does not fit, or the size of the device is no multiple of its
    /// logical sectors: the rest could not be reached.
    pub fn new(
        name: &str,
        description: &str,
        device: Arc<dyn BlockDevice>,
        is_read_only: bool,
    ) -> Result<Export> {
        check_text(name)?;
        check_text(description)?;
        let (size, sector) = (device.size(), device.sector_sizes().logical);
        if !size.is_multiple_of(u64::from(sector)) {
            return Err(Error::Unaligned {
                device: device.name(),
                size,
                sector,
            });
        }
        Ok(Export {
            name: name.into(),
            description: description.into(),
            device,
            is_read_only,
            losses: Arc::default(),
            clients: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// The same, with what its clients have to be told of.
    pub fn with_losses(self, losses: Arc<LossNotice>) -> Export {
        Export { losses, ..self }
    }

    /// Returns whether a client has to be told of a loss now.
    pub(crate) fn tell_of_loss(&self, client: &str) -> bool {
        self.losses.tell(client)
    }

    /// The name of the export.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description of the export, for people.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Returns whether clients cannot change the export.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The number of connections that use the export.
    pub fn clients(&self) -> usize {
        self.clients.lock().links.len()
    }

    /// Returns whether the export accepts no more connections.
    pub(crate) fn is_closed(&self) -> bool {
        self.clients.lock().is_closed
    }

    /// The size for a new client, in bytes: whole sectors.
    pub(crate) fn size(&self) -> block::Result<u64> {
        let size = self.device.refresh_size()?;
        Ok(size - size % u64::from(self.device.sector_sizes().logical))
    }

    pub(crate) fn flags(&self) -> u16 {
        let always = can::HAS_FLAGS | can::FLUSH | can::MULTI_CONN | can::CACHE;
        match self.is_read_only {
            true => always | can::READ_ONLY,
            false => always | can::FUA | can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO,
        }
    }

    /// The smallest, the preferred and the largest request, in bytes.
    pub(crate) fn block_sizes(&self) -> [u32; 3] {
        let sectors = self.device.sector_sizes();
        let preferred = sectors.physical.max(4096).next_power_of_two();
        [sectors.logical, preferred, PAYLOAD_MAX]
    }

    /// Counts a connection for as long as what is returned exists; `None` if no more are taken.
    pub(crate) fn attach(self: &Arc<Self>, link: &Arc<dyn PeerLink>) -> Option<ExportAttachment> {
        let mut clients = self.clients.lock();
        if clients.is_closed {
            return None;
        }
        clients.next += 1;
        let number = clients.next;
        clients.links.insert(number, Arc::clone(link));
        Some(ExportAttachment {
            export: Arc::clone(self),
            number,
        })
    }

    /// Takes no more clients and cuts the connections. A request that is carried out is not answered any more.
    pub(crate) fn cut(&self) {
        let mut clients = self.clients.lock();
        clients.is_closed = true;
        clients.links.values().for_each(|link| link.cut());
    }

    /// Takes no more connections, if there are none, or `force` ends them. Those that have not ended
    /// after a while are what it fails with. A client that closed its end is waited for: its connection
    /// ends by itself.
    pub(crate) fn close(&self, force: bool) -> Result<()> {
        if force {
            self.cut();
        }
        let mut clients = self.clients.lock();
        let ends = |link: &Arc<dyn PeerLink>| force || link.is_left();
        let are_ending =
            |clients: &mut Clients| !clients.links.is_empty() && clients.links.values().all(ends);
        self.left.wait_while_for(&mut clients, are_ending, PATIENCE);
        if !clients.links.is_empty() {
            return Err(Error::InUse {
                name: self.name.clone(),
                clients: clients.links.len(),
            });
        }
        clients.is_closed = true;
        Ok(())
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A connection that uses an export.
pub(crate) struct ExportAttachment {
    export: Arc<Export>,
    number: u64,
}

impl ExportAttachment {
    pub(crate) fn export(&self) -> &Export {
        &self.export
    }
}

impl Drop for ExportAttachment {
    fn drop(&mut self) {
        self.export.clients.lock().links.remove(&self.number);
        self.export.left.notify_all();
    }
}

fn check_text(text: &str) -> Result<()> {
    let refuse = |what| {
        Err(Error::Name {
            name: text.chars().take(64).collect(),
            what,
        })
    };
    match text {
        long if long.len() > TEXT_MAX => refuse("longer than 4,096 bytes"),
        odd if odd.chars().any(char::is_control) => refuse("not plain text"),
        _ => Ok(()),
    }
}

/// Exports by name, which a server offers.
#[derive(Debug, Default)]
pub struct Exports(RwLock<BTreeMap<String, Arc<Export>>>);

impl Exports {
    /// Adds an export.
    ///
    /// # Errors
    /// [`Error::Exists`]
    pub fn insert(&self, export: Arc<Export>) -> Result<()> {
        let mut all = self.0.write();
        if all.contains_key(&export.name) {
            return Err(Error::Exists {
                name: export.name.clone(),
            });
        }
        all.insert(export.name.clone(), export);
        Ok(())
    }

    /// Removes an export. Returns when it has no more users.
    ///
    /// # Errors
    /// [`Error::NoSuchExport`]; [`Error::InUse`] if there are connections, or with `force` if one still
    /// does what it was asked for. Then it stays, but with `force` takes no more.
    pub fn remove(&self, name: &str, force: bool) -> Result<Arc<Export>> {
        let export = self.0.read().get(name).cloned();
        let export = export.ok_or_else(|| Error::NoSuchExport { name: name.into() })?;
        export.close(force)?;
        self.0.write().remove(name);
        Ok(export)
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<Export>> {
        self.0.read().values().cloned().collect()
    }

    /// The one of that name. The only one there is need not be named.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Arc<Export>> {
        let all = self.0.read();
        let named = str::from_utf8(name).ok().and_then(|name| all.get(name));
        match named {
            None if name.is_empty() && all.len() == 1 => all.values().next().cloned(),
            named => named.cloned(),
        }
    }
}
