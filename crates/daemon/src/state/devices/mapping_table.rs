//! The table of open mappings, and of those that the daemon opens when it starts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{BlockDevice, FileDevice};
use luks::Mapping;
use parking_lot::{Condvar, Mutex};
use protocol::api::{FailureKind, MappingReencryption, command};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::state::devices::device_name;
use crate::state::devices::leases::{Lease, Leases};
use crate::state::devices::reencryption_guard::ReencryptionGuard;
use crate::state::memory::StateDir;

/// The longest wait for a re-encryption to pause.
const PATIENCE: Duration = Duration::from_secs(20);

/// The file in the state directory that has the mappings to open at the next start.
const MEMORY: &str = "mappings.json";

/// The mappings: those that are open, and those that the daemon opens when it starts.
pub(crate) struct Mappings {
    state: Arc<StateDir>,
    all: Mutex<BTreeMap<String, Entry>>,
    /// The users of an open mapping, and of its header. Leases are taken while `all` is locked.
    pub(crate) leases: Leases<MappingPart>,
    /// The mappings that the daemon opens when it starts, open or not. Locked after `all`.
    known: Mutex<BTreeMap<String, KnownMapping>>,
    /// Held while mappings that wait are opened, so that only one thread does that.
    pub(crate) restoring: Mutex<()>,
}

impl Mappings {
    pub(crate) fn new(state: &Arc<StateDir>) -> Mappings {
        Mappings {
            state: Arc::clone(state),
            all: Mutex::default(),
            leases: Leases::default(),
            known: Mutex::default(),
            restoring: Mutex::default(),
        }
    }

    /// Reserves the name of a mapping that is about to be opened. [`Mappings::insert`] or [`Mappings::remove`] follows.
    pub(crate) fn reserve(&self, name: &str) -> Result<()> {
        let mut all = self.all.lock();
        if all.contains_key(name) {
            return Err(Failure::new(
                FailureKind::Exists,
                format!("there is a mapping '{name}' already; 'strongroom luks status' shows it"),
            ));
        }
        all.insert(name.to_owned(), Entry::Changing);
        Ok(())
    }

    /// Adds an open mapping, whose name is reserved.
    pub(crate) fn insert(&self, name: &str, open: Box<OpenMapping>) {
        let reserved = self.all.lock().insert(name.to_owned(), Entry::Open(open));
        debug_assert!(
            matches!(reserved, Some(Entry::Changing)),
            "'{name}' was not reserved"
        );
    }

    /// Frees the name of a mapping that was not opened, or was closed.
    pub(crate) fn remove(&self, name: &str) {
        let reserved = self.all.lock().remove(name);
        debug_assert!(
            matches!(reserved, Some(Entry::Changing)),
            "'{name}' was not reserved"
        );
    }

    /// Removes a mapping from the table to close it. Its name stays in use.
    pub(crate) fn take(&self, name: &str) -> Result<Box<OpenMapping>> {
        let mut all = self.all.lock();
        let used = MappingPart::Mapping(name.into());
        let shown = format!("the mapping '{name}'");
        self.leases.may_go(&used, &shown)?;
        match all.get_mut(name) {
            Some(Entry::Open(open)) if open.worker.as_ref().is_some_and(|of| !of.is_over()) => {
                Err(Failure::new(
                    FailureKind::Busy,
                    format!("{shown} is being re-encrypted; pause that first"),
                ))
            }
            Some(entry @ Entry::Open(_)) => match std::mem::replace(entry, Entry::Changing) {
                Entry::Open(open) => Ok(open),
                Entry::Changing => Err(no_such_mapping(name)),
            },
            Some(Entry::Changing) | None => Err(no_such_mapping(name)),
        }
    }

    /// Does something with an open mapping. The table is locked meanwhile.
    pub(crate) fn with_open<T>(
        &self,
        name: &str,
        act: impl FnOnce(&mut OpenMapping) -> Result<T>,
    ) -> Result<T> {
        match self.all.lock().get_mut(name) {
            Some(Entry::Open(open)) => act(open),
            _ => Err(no_such_mapping(name)),
        }
    }

    /// The results of `act` for the open mappings, in the order of their names. The table is locked meanwhile.
    pub(crate) fn map_open<T>(&self, act: impl Fn(&str, &OpenMapping) -> Option<T>) -> Vec<T> {
        let all = self.all.lock();
        let open = all.iter().filter_map(|(name, entry)| match entry {
            Entry::Open(open) => act(name, open),
            Entry::Changing => None,
        });
        open.collect()
    }

    /// The first result of `act` for the open mappings, in the order of their names. The table is locked meanwhile.
    pub(crate) fn find_open<T>(&self, act: impl Fn(&str, &OpenMapping) -> Option<T>) -> Option<T> {
        let all = self.all.lock();
        all.iter().find_map(|(name, entry)| match entry {
            Entry::Open(open) => act(name, open),
            Entry::Changing => None,
        })
    }

    /// The mappings that the daemon opens when it starts, open or not.
    pub(crate) fn all_known(&self) -> BTreeMap<String, KnownMapping> {
        self.known.lock().clone()
    }

    /// Returns whether the daemon opens this mapping when it starts.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.known.lock().contains_key(name)
    }

    /// Notes why a known mapping is not open, or that it is. False if it is not known.
    pub(crate) fn note(&self, name: &str, problem: Option<MappingProblem>) -> bool {
        let mut known = self.known.lock();
        let known = known.get_mut(name);
        known.map(|known| known.waits = problem).is_some()
    }

    /// A known mapping that is not open.
    pub(crate) fn known_and_closed(&self, name: &str) -> Option<KnownMapping> {
        let is_open = matches!(self.all.lock().get(name), Some(Entry::Open(_)));
        let known = self.known.lock();
        known.get(name).filter(|_| !is_open).cloned()
    }

    /// Reads the table. The mappings are not open yet.
    pub(crate) fn recall(&self) -> BTreeMap<String, KnownMapping> {
        let known: BTreeMap<String, KnownMapping> = self
            .state
            .recall(MEMORY, "strongroom luks open --persistent-open");
        *self.known.lock() = known.clone();
        known
    }

    /// Refuses the name of another mapping of the table.
    pub(crate) fn check_known(&self, new: &command::LuksOpen) -> Result<()> {
        let known = self.known.lock();
        match known.get(&new.name) {
            Some(known) if !device_name::is_same(&known.open.device, &new.device) => {
                let (name, device) = (&new.name, known.open.device.display());
                Err(Failure::new(
                    FailureKind::Exists,
                    format!(
                        "the daemon opens a mapping '{name}' of {device} at its start; to forget it: strongroom \
                         luks close {name}"
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Adds an open mapping to the table, if it is to be there.
    pub(crate) fn remember(&self, open: &command::LuksOpen) -> Result<()> {
        let mut known = self.known.lock();
        if open.at_start.is_some() {
            let mapping = KnownMapping {
                // Later changes of the options in the header stay.
                open: command::LuksOpen {
                    persistent: false,
                    ..open.clone()
                },
                waits: None,
            };
            let before = known.insert(open.name.clone(), mapping);
            if let Err(failure) = self.state.remember(MEMORY, &*known) {
                match before {
                    Some(before) => known.insert(open.name.clone(), before),
                    None => known.remove(&open.name),
                };
                return Err(failure);
            }
        }
        if let Some(mapping) = known.get_mut(&open.name) {
            mapping.waits = None;
        }
        Ok(())
    }

    /// Removes a mapping from the table, if it is there.
    pub(crate) fn forget(&self, name: &str) -> Result<()> {
        let mut known = self.known.lock();
        let Some(mapping) = known.remove(name) else {
            return Ok(());
        };
        self.state.remember(MEMORY, &*known).inspect_err(|_| {
            known.insert(name.into(), mapping);
        })
    }

    /// Removes a mapping that is not open from the table. False if there is no such mapping.
    pub(crate) fn forget_waiting(&self, name: &str) -> Result<bool> {
        let is_open = self.all.lock().contains_key(name);
        if is_open || !self.known.lock().contains_key(name) {
            return Ok(false);
        }
        self.forget(name).map(|()| true)
    }
}

/// The failure for a mapping that is not open.
pub(crate) fn no_such_mapping(name: &str) -> Failure {
    Failure::new(
        FailureKind::NotFound,
        format!("there is no mapping '{name}'; 'strongroom luks status' lists the open ones"),
    )
}

/// A mapping that the daemon opens when it starts.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct KnownMapping {
    /// The request that opens the mapping.
    pub(crate) open: command::LuksOpen,
    /// The reason why the mapping is not open.
    #[serde(skip)]
    pub(crate) waits: Option<MappingProblem>,
}

/// The reason why a mapping is not open.
#[derive(Clone)]
pub(crate) struct MappingProblem {
    pub(crate) reason: String,
    /// True if the device is missing, and not the key. Then the mapping is tried again when a device appears.
    pub(crate) for_device: bool,
}

impl KnownMapping {
    /// The paths of its device, and of its header elsewhere.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Path> {
        let header = self.open.header.as_deref();
        std::iter::once(self.open.device.as_path()).chain(header)
    }
}

/// The part of a mapping that is in use, with the name of the mapping.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MappingPart {
    Mapping(String),
    /// The header. One command changes it at a time.
    Header(String),
}

enum Entry {
    /// A mapping that is being opened or closed. Other commands do not wait for this.
    Changing,
    Open(Box<OpenMapping>),
}

pub(crate) struct OpenMapping {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) kind: &'static str,
    pub(crate) device: String,
    pub(crate) header: Option<String>,
    pub(crate) uuid: Option<String>,
    pub(crate) slot: Option<u32>,
    pub(crate) key_bits: usize,
    /// The device with the header of a container, and the length of the header. Other users cannot take it.
    pub(crate) on: Option<(Arc<dyn BlockDevice>, u64)>,
    /// The progress of its re-encryption.
    pub(crate) reencryption: Option<MappingReencryption>,
    /// The worker of the re-encryption, running or ended.
    pub(crate) worker: Option<Arc<ReencryptionWorker>>,
    /// Prevents other programs from continuing it.
    pub(crate) guard: Option<ReencryptionGuard>,
    /// The file of the container, if other programs may lock it.
    pub(crate) file: Option<Arc<FileDevice>>,
}

impl OpenMapping {
    /// The paths of its device, and of its header elsewhere.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Path> {
        let places = std::iter::once(&self.device).chain(&self.header);
        places.map(Path::new)
    }

    /// Returns whether the file is locked as long as the re-encryption is not complete.
    pub(crate) fn has_locked_file(&self) -> bool {
        matches!(self.guard, Some(ReencryptionGuard::File(_)))
    }
}

/// A running re-encryption.
#[derive(Default)]
pub(crate) struct ReencryptionWorker {
    is_to_pause: AtomicBool,
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl ReencryptionWorker {
    pub(crate) fn is_to_pause(&self) -> bool {
        self.is_to_pause.load(Ordering::Relaxed)
    }

    /// Makes it pause, and waits until it has paused. Stops waiting after [`PATIENCE`]: the command that receives its
    /// progress may hang.
    pub(crate) fn pause(&self) -> bool {
        self.is_to_pause.store(true, Ordering::Relaxed);
        let mut is_over = self.is_over.lock();
        let runs = |is_over: &mut bool| !*is_over;
        self.changed.wait_while_for(&mut is_over, runs, PATIENCE);
        *is_over
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.lock()
    }

    pub(crate) fn end(&self) {
        *self.is_over.lock() = true;
        self.changed.notify_all();
    }
}

/// The use of a mapping. It ends when this is dropped.
pub(crate) struct LentMapping {
    /// The name of the mapping as a device: `luks:secret`.
    pub(crate) name: String,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) _lease: Lease<MappingPart>,
}

impl BlockDevice for LentMapping {
    block::delegate!(self => self.mapping; size refresh_size sector_sizes check_unreserved read_at write_at);
    block::delegate!(self => self.mapping; write_durably_at write_in_place waits_on_write would_wait io_mode settle);
    block::delegate!(self => self.mapping; flush order drop_cached begin_anew discard zero zero_fast is_blank status_at overwrite);
    block::plain_methods!(claim);

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// The borrowed header of an open container. The container is not closed meanwhile.
pub(crate) struct HeaderLoan {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) len: u64,
    /// The file that the borrower changes. Other programs must not read it meanwhile.
    pub(crate) file: Option<Arc<FileDevice>>,
    pub(crate) _leases: Vec<Lease<MappingPart>>,
}

impl HeaderLoan {
    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The length of the header with all key material, in bytes. It begins at the start of the device.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}
