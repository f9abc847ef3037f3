//! Visits everything of a state that was born since another one, with its bytes.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use store::SegmentId;

use crate::engine::frees::deadlist::{self, Sublist};
use crate::engine::gate::CommitEngine;
use crate::env::CacheHash;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::jobs::free_job::{FreeJob, FreeTarget};
use crate::format::records::pointer::{RecordLocation, RecordPtr, checksum};
use crate::format::superblock::root::PoolRoot;
use crate::storage::array::walk::{self, Visit};
use crate::storage::gang::GangPiece;
use crate::storage::reader::PoolReader;

/// Bytes at their place. The copies of a record share their bytes.
pub(super) struct StatePart {
    pub(super) segment: SegmentId,
    pub(super) offset: u32,
    record: Arc<[u8]>,
    range: Range<usize>,
}

impl StatePart {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.record[self.range.clone()]
    }
}

/// Takes the parts of a state.
type PutPart<'a> = &'a mut dyn FnMut(StatePart) -> Result<()>;

/// A walk through a state that does not change meanwhile.
pub(super) struct StateWalk {
    disk: PoolReader,
    /// The transaction group after which visited records were born.
    base: u64,
    /// The number of records of datasets without a good copy.
    lost: Cell<u64>,
}

impl StateWalk {
    pub(super) fn new(engine: &CommitEngine, base: u64, nodes: usize) -> StateWalk {
        let store = Arc::clone(&engine.disk.store);
        StateWalk {
            disk: PoolReader::new(store, nodes, CacheHash(engine.env.guid())),
            base,
            lost: Cell::new(0),
        }
    }

    /// The number of records of datasets that had no good copy. They are as damaged in the image.
    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// The segment table and the bitmaps.
    pub(super) fn system(&self, root: &PoolRoot) -> Result<Vec<StatePart>> {
        let mut parts = Vec::new();
        for array in [&root.table, &root.bitmaps] {
            self.array(array, self.base, &mut |part| {
                parts.push(part);
                Ok(())
            })?;
        }
        Ok(parts)
    }

    /// All else.
    pub(super) fn state(&self, root: &PoolRoot, put: PutPart<'_>) -> Result<()> {
        for array in [&root.history, &root.dedup] {
            self.array(array, self.base, put)?;
        }
        self.record(&root.config, put)?;
        self.each(&root.datasets, self.base, &mut |ptr| {
            self.record(ptr, put)?;
            if ptr.level() > 0 {
                return Ok(());
            }
            let entry = Entry::decode(&self.disk.clear_record(ptr)?);
            let entry = entry.ok_or_else(|| Error::inconsistent("dataset table", "an entry"))?;
            self.entry(&entry, put)
        })?;
        self.each(&root.async_free, self.base, &mut |ptr| {
            self.record(ptr, put)?;
            if ptr.level() > 0 {
                return Ok(());
            }
            let job = FreeJob::decode(&self.disk.clear_record(ptr)?);
            let job = job.ok_or_else(|| Error::inconsistent("free queue", "a job"))?;
            self.job(&job, put)
        })
    }

    /// The records of a dataset or snapshot. What the snapshot before has too is visited there.
    fn entry(&self, entry: &Entry, put: PutPart<'_>) -> Result<()> {
        let min_birth = self.base.max(entry.prev_snap_txg);
        for root in &entry.roots {
            self.each(root, min_birth, &mut |ptr| match self.record(ptr, put) {
                // No later copy visits the record, so what a later attempt may read is no loss yet.
                Err(error) if ptr.level() == 0 && error.is_loss() && !error.may_pass() => {
                    self.lost.set(self.lost.get() + 1);
                    Ok(())
                }
                copied => copied,
            })?;
        }
        self.each(&entry.deadlist, self.base, &mut |ptr| {
            self.record(ptr, put)?;
            if ptr.level() > 0 {
                return Ok(());
            }
            let list = Sublist::decode(&self.disk.clear_record(ptr)?)?;
            self.array(&list.root, self.base, put)
        })
    }

    /// The part of a destroyed dataset that is not freed yet: the next commits read its nodes.
    fn job(&self, job: &FreeJob, put: PutPart<'_>) -> Result<()> {
        let min_birth = match job.what {
            FreeTarget::Tree { min_birth } => min_birth.max(self.base),
            FreeTarget::DeadRecords | FreeTarget::ListOnly => self.base,
        };
        let visited = walk::visit(&self.disk, &job.root, job.cursor, min_birth, &mut |visit| {
            let (Visit::Record(_, ptr) | Visit::Node(_, ptr, _)) = visit;
            self.record(ptr, put)?;
            if ptr.level() == 0 && job.what == FreeTarget::DeadRecords {
                let dead = deadlist::decode_chunk(&self.disk.clear_record(ptr)?)?;
                let places = dead.into_iter().map(|dead| dead.place());
                let mut pieces = places.filter(|it| it.is_gang() && it.birth() > self.base);
                pieces.try_for_each(|place| self.map(&place, put))?;
            }
            Ok(ControlFlow::<()>::Continue(()))
        });
        visited.map(|_| ())
    }

    fn array(&self, root: &RecordPtr, min_birth: u64, put: PutPart<'_>) -> Result<()> {
        self.each(root, min_birth, &mut |ptr| self.record(ptr, put))
    }

    fn each(
        &self,
        root: &RecordPtr,
        min_birth: u64,
        each: &mut dyn FnMut(&RecordPtr) -> Result<()>,
    ) -> Result<()> {
        let visited = walk::visit(&self.disk, root, 0, min_birth, &mut |visit| {
            let (Visit::Record(_, ptr) | Visit::Node(_, ptr, _)) = visit;
            each(ptr)?;
            Ok(ControlFlow::<()>::Continue(()))
        });
        visited.map(|_| ())
    }

    /// Every copy of a record or node.
    fn record(&self, ptr: &RecordPtr, put: PutPart<'_>) -> Result<()> {
        let place = &ptr.place;
        if ptr.is_empty() || place.birth() <= self.base {
            return Ok(());
        }
        if place.is_gang() {
            self.map(place, put)?;
        }
        let mut bytes = vec![0; place.disk_size() as usize];
        let fetched = self.disk.fetch(place, &mut bytes, &mut |bytes| {
            checksum(bytes) == place.checksum
        });
        fetched.map_err(|lost| lost.into_error("record", &place.addr[0]))?;
        let record: Arc<[u8]> = bytes.into();
        for copy in place.copy_numbers() {
            for run in self.disk.runs_of_pointer(place, copy)? {
                put(StatePart {
                    segment: run.segment,
                    offset: run.offset,
                    record: Arc::clone(&record),
                    range: run.bytes,
                })?;
            }
        }
        Ok(())
    }

    /// Every copy of the gang map of a record.
    fn map(&self, place: &RecordLocation, put: PutPart<'_>) -> Result<()> {
        for addr in place.copies() {
            let (_, bytes) = self
                .disk
                .read_map(place, &addr)
                .map_err(|lost| lost.into_error("gang map", &addr))?;
            let run = GangPiece::of_map(&addr);
            put(StatePart {
                segment: run.segment,
                offset: run.offset,
                range: 0..bytes.len(),
                record: bytes.into(),
            })?;
        }
        Ok(())
    }
}
