//! The table of open mappings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{BlockDevice, FileDevice, FileLock};
use luks::Mapping;
use parking_lot::{Condvar, Mutex};

use crate::state::leases::{Lease, Leases};
use protocol::api::MappingReencryption;

/// So long a re-encryption takes to pause.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is open.
#[derive(Default)]
pub(crate) struct Mappings {
    pub(crate) all: Mutex<BTreeMap<String, Entry>>,
    /// Who uses an open mapping, and who changes its header. They are taken while `all` is locked.
    pub(crate) leases: Leases<Used>,
}

/// What is used of a mapping, by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Used {
    Mapping(String),
    /// To change it, which one command does at a time.
    Header(String),
}

pub(crate) enum Entry {
    /// It is being opened or closed, which takes time that others do not wait.
    Changing,
    Open(Box<Open>),
}

pub(crate) struct Open {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) kind: &'static str,
    pub(crate) device: String,
    pub(crate) header: Option<String>,
    pub(crate) uuid: Option<String>,
    pub(crate) slot: Option<u32>,
    pub(crate) key_bits: usize,
    /// Where it is, and how long, if there is one. It is kept from others.
    pub(crate) on: Option<(Arc<dyn BlockDevice>, u64)>,
    /// How far its re-encryption is.
    pub(crate) reencryption: Option<MappingReencryption>,
    /// What goes on with that, or did.
    pub(crate) worker: Option<Arc<Worker>>,
    /// Keeps other programs from going on with it.
    pub(crate) lock: Option<FileLock>,
    /// The file that it is on, if it is one that other programs may lock.
    pub(crate) file: Option<Arc<FileDevice>>,
}

/// A re-encryption that goes on.
#[derive(Default)]
pub(crate) struct Worker {
    is_to_pause: AtomicBool,
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Worker {
    pub(crate) fn is_to_pause(&self) -> bool {
        self.is_to_pause.load(Ordering::Relaxed)
    }

    /// Lets it pause, and waits until it does. The command that it tells its progress may have stopped: then this
    /// waits no longer.
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

/// The use of a mapping, which ends when this is dropped.
pub(crate) struct LentMapping {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) _lease: Lease<Used>,
}

impl BlockDevice for LentMapping {
    block::delegate!(self => self.mapping; size refresh_size sector_sizes name read_at write_at write_durably_at);
    block::delegate!(self => self.mapping; write_in_place flush drop_cached discard zero zero_fast status_at overwrite waits_on_write);
}

/// The borrowed header of an open container. The container is not closed meanwhile.
pub(crate) struct HeaderLoan {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) len: u64,
    /// The file that the borrower changes: other programs are not to look meanwhile.
    pub(crate) file: Option<Arc<FileDevice>>,
    pub(crate) _leases: Vec<Lease<Used>>,
}

impl HeaderLoan {
    /// What it is on.
    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// How long it is with all key material, in bytes. It begins where the device does.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}
