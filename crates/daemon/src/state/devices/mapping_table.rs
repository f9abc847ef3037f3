//! The table of open mappings, and of those that the daemon opens when it starts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{BlockDevice, FileDevice};
use luks::Mapping;
use parking_lot::{Condvar, Mutex};
use protocol::api::{MappingReencryption, command};
use serde::{Deserialize, Serialize};

use crate::state::devices::leases::{Lease, Leases};
use crate::state::devices::reencryption_lock::ReencryptionGuard;

/// The longest wait for a re-encryption to pause.
const PATIENCE: Duration = Duration::from_secs(20);

/// The open mappings.
#[derive(Default)]
pub(crate) struct Mappings {
    pub(crate) all: Mutex<BTreeMap<String, Entry>>,
    /// The users of an open mapping, and of its header. Leases are taken while `all` is locked.
    pub(crate) leases: Leases<MappingPart>,
    /// The mappings that the daemon opens when it starts, open or not. Locked after `all`.
    pub(crate) known: Mutex<BTreeMap<String, KnownMapping>>,
    /// Held while mappings that wait are opened, so that only one thread does that.
    pub(crate) restoring: Mutex<()>,
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

pub(crate) enum Entry {
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
    pub(crate) claim: Option<ReencryptionGuard>,
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
        matches!(self.claim, Some(ReencryptionGuard::File(_)))
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
    block::delegate!(self => self.mapping; size refresh_size sector_sizes read_at write_at write_durably_at);
    block::delegate!(self => self.mapping; write_in_place flush drop_cached begin_anew discard zero zero_fast status_at is_blank overwrite waits_on_write would_wait io_mode settle);

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
    /// The device of the header.
    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The length of the header with all key material, in bytes. It begins at the start of the device.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}
