//! The table of open mappings.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, FileDevice};
use luks::Mapping;
use parking_lot::Mutex;

use crate::state::leases::{Lease, Leases};
use protocol::api::MappingReencryption;

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
    /// How far its re-encryption is, which does not go on while it is open.
    pub(crate) reencryption: Option<MappingReencryption>,
    /// The file that it is on, if it is one that other programs may lock.
    pub(crate) file: Option<Arc<FileDevice>>,
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
