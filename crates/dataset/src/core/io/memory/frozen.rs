//! The changes of a closed transaction group in a dataset, until they are written.

use std::sync::Arc;

use parking_lot::Mutex;
use pool::{RecordPtr, SpaceReservation};

use crate::buffer::RecordBuffer;
use crate::core::io::memory::inode::{Inode, SealJob};
use crate::tree::{Header, TreePage};

/// The changes of a closed transaction group.
#[derive(Default)]
pub(crate) struct FrozenFiles {
    pub(crate) records: Vec<FrozenRecord>,
    pub(crate) pages: Vec<(u64, Arc<TreePage>)>,
    pub(crate) freed: Vec<u64>,
    /// The header, if the dataset has files.
    pub(crate) header: Option<Header>,
    /// True if the header changed.
    pub(crate) is_header_new: bool,
    /// Space for the pages, released once all have places.
    pub(crate) page_reservations: Vec<SpaceReservation>,
}

/// A record of a transaction group that has ended.
pub(crate) struct FrozenRecord {
    pub(crate) inode: Arc<Inode>,
    pub(crate) record: u64,
    pub(crate) slot: u64,
    pub(crate) buffer: Arc<RecordBuffer>,
    pub(crate) copies: usize,
    /// The job that already seals it.
    pub(crate) job: Option<Arc<SealJob>>,
    pub(crate) ptr: Mutex<RecordPtr>,
    /// Space for the record, released as soon as it has a place.
    pub(crate) reserved: Mutex<Option<SpaceReservation>>,
}
