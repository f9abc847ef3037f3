//! The mappings that are open, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, FileDevice};
use luks::Mapping;
use parking_lot::Mutex;

/// What is open.
#[derive(Default)]
pub(crate) struct Mappings(pub(crate) Mutex<BTreeMap<String, Entry>>);

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
    /// The file that it is on, if it is one that other programs may lock.
    pub(crate) file: Option<Arc<FileDevice>>,
    /// A command that changes the mapping holds a second reference.
    pub(crate) changing: Arc<()>,
}

/// The borrowed header of an open container. The container is not closed meanwhile.
pub(crate) struct HeaderLoan {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) len: u64,
    /// The file that the borrower changes: other programs are not to look meanwhile.
    pub(crate) file: Option<Arc<FileDevice>>,
    pub(crate) _mapping: Arc<Mapping>,
    pub(crate) _changing: Option<Arc<()>>,
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
