//! The changes of a closed transaction group in a dataset, until they are written.

use std::sync::Arc;

use parking_lot::Mutex;
use pool::{RecordPtr, Reservation};

use super::inode::{Inode, SealJob};
use crate::buffer::Buffer;
use crate::tree::{Header, Page};

/// The changes of a closed transaction group.
#[derive(Default)]
pub(crate) struct FrozenFiles {
    pub(super) records: Vec<FrozenRecord>,
    pub(super) pages: Vec<(u64, Arc<Page>)>,
    pub(super) freed: Vec<u64>,
    /// The header, if the dataset has files.
    pub(super) header: Option<Header>,
    /// Whether the header changed.
    pub(super) is_header_new: bool,
    /// Space for the pages, released once all have places.
    pub(super) page_reservations: Vec<Reservation>,
}

/// A record of a transaction group that has ended.
pub(super) struct FrozenRecord {
    pub(super) inode: Arc<Inode>,
    pub(super) record: u64,
    pub(super) slot: u64,
    pub(super) buffer: Arc<Buffer>,
    pub(super) copies: usize,
    /// The job that already seals it.
    pub(super) job: Option<Arc<SealJob>>,
    pub(super) ptr: Mutex<RecordPtr>,
    /// Space for the record, released as soon as it has a place.
    pub(super) reserved: Mutex<Option<Reservation>>,
}
