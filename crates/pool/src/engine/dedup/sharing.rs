//! The shared records of an imported pool, and how commits write them into the dedup table.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use store::UNIT;

use super::table::{self, BUCKET_LOAD, Buckets, SharedRecord, mark_of, split_of};
use crate::engine::datasets::table::DatasetTable;
use crate::error::Result;
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::pointer::{RecordIdentity, RecordPtr, ShareId};
use crate::format::superblock::features::FEATURE_DEDUP;
use crate::format::superblock::root::{DedupInfo, PoolRoot};
use crate::storage::array::Overlay;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;
use crate::storage::writer::txg::TxgWriter;

/// The space that a commit can need to add a shared record to the table: its bucket and the nodes above it, each
/// twice.
pub const SPACE: u64 = 2 * (2 + 2) * UNIT as u64;

/// The largest number of buckets that a commit adds.
const SPLITS_MAX: u64 = 256;

/// The shared records of an imported pool.
pub(crate) struct Dedup {
    buckets: Buckets,
    inner: Mutex<SharingState>,
}

struct SharingState {
    /// The table, with the changes of the running commit.
    root: RecordPtr,
    count: u64,
    /// Counts the changes of the table.
    version: u64,
    /// Sorted, so that the same changes give the same table.
    live: BTreeMap<ShareId, Live>,
    by_nonce: HashMap<[u8; 24], ShareId>,
}

/// A shared record that has, or will have, more pointers than the table says.
struct Live {
    shared: SharedRecord,
    /// True if the table has the record, or will have it after the running commit.
    is_stored: bool,
    /// The number of times that the record was placed and is not in an array yet.
    pins: u64,
    /// The number of pointers that a transaction group has put. The index is the last bit of the group's number.
    added: [u64; 2],
}

impl Live {
    fn is_wanted(&self) -> bool {
        self.pins > 0 || self.added != [0; 2]
    }
}

impl Dedup {
    /// The shared records of the pool with this root.
    pub(crate) fn new(root: &PoolRoot) -> Dedup {
        Dedup {
            buckets: Buckets::default(),
            inner: Mutex::new(SharingState {
                root: root.dedup,
                count: root.dedup_buckets.get(),
                version: 0,
                live: BTreeMap::new(),
                by_nonce: HashMap::new(),
            }),
        }
    }

    /// Pins the shared record that is equal to this one, if there is one.
    pub(crate) fn find(
        &self,
        disk: &PoolReader,
        identity: &RecordIdentity,
        checksum: &[u8; 16],
        len: usize,
    ) -> Result<Option<ShareId>> {
        let is_it = |shared: &SharedRecord| {
            shared.nonce == *identity.nonce()
                && shared.checksum == *checksum
                && shared.addr.size() as usize == len
        };
        loop {
            let (root, count, version) = {
                let mut inner = self.inner.lock();
                if let Some(share) = inner.by_nonce.get(identity.nonce()).copied() {
                    let live = inner
                        .live
                        .get_mut(&share)
                        .filter(|live| is_it(&live.shared));
                    return Ok(live.map(|live| {
                        live.pins += 1;
                        share
                    }));
                }
                (inner.root, inner.count, inner.version)
            };
            if count == 0 {
                return Ok(None);
            }
            let mark = mark_of(identity.nonce());
            let bucket = ShareId {
                mark,
                addr: Default::default(),
            }
            .bucket(count);
            // Read without the lock: a device may take long, and writers pin records meanwhile.
            let bucket = self.buckets.get(disk, &root, bucket);
            let mut inner = self.inner.lock();
            if inner.version != version || inner.by_nonce.contains_key(identity.nonce()) {
                // During the search a commit may have freed the record, or another thread may have pinned it.
                continue;
            }
            let found = bucket?.iter().copied().find(|shared| is_it(shared));
            return Ok(found.map(|shared| inner.pin(shared, true)));
        }
    }

    /// Pins a record that was just written, unless an equal one was shared meanwhile.
    pub(crate) fn adopt(
        &self,
        identity: &RecordIdentity,
        checksum: [u8; 16],
        extent: &StoredExtent,
    ) -> Option<ShareId> {
        let mut inner = self.inner.lock();
        let shared = SharedRecord {
            nonce: *identity.nonce(),
            checksum,
            addr: extent.addr(),
            count: 0.into(),
        };
        // Another thread may have written the same contents at the same time. The first one is shared.
        let is_new = !inner.by_nonce.contains_key(identity.nonce());
        is_new.then(|| inner.pin(shared, false))
    }

    /// Called when a transaction group puts a pinned record into an array.
    pub(crate) fn put(&self, share: &ShareId, txg: u64) {
        let mut inner = self.inner.lock();
        // It stays in `live` until the commit of its group has counted the pointer.
        let live = inner.live.get_mut(share).expect("it is pinned");
        debug_assert!(live.pins > 0, "it is pinned");
        live.pins -= 1;
        live.added[(txg % 2) as usize] += 1;
    }

    /// Called when a pinned record is dropped without being put into an array.
    pub(crate) fn unpin(&self, share: &ShareId, space: &Space) {
        let mut inner = self.inner.lock();
        let live = inner.live.get_mut(share).expect("it is pinned");
        debug_assert!(live.pins > 0, "it is pinned");
        live.pins -= 1;
        if !live.is_wanted() && !live.is_stored {
            let extent = live.shared.extent();
            inner.forget(share);
            // No commit has counted the extent, so that it can be reused at once.
            space.release([extent]);
        }
    }

    /// Writes the pointers that a transaction group put and freed into the table.
    pub(crate) fn sync(&self, commit: &TxgWriter<'_>, state: &mut DatasetTable) -> Result<()> {
        let mut inner = self.inner.lock();
        let mut deltas: BTreeMap<ShareId, i64> = BTreeMap::new();
        for share in commit.take_unshared() {
            *deltas.entry(share).or_default() -= 1;
        }
        // Two groups at most have pointers: the one that is committed, and the open one.
        let group = (commit.txg % 2) as usize;
        for (share, live) in &mut inner.live {
            let added = std::mem::take(&mut live.added[group]);
            // Also without new pointers: a record that is not pinned any more may have no pointers left.
            *deltas.entry(*share).or_default() += added as i64;
        }
        if deltas.is_empty() {
            return Ok(());
        }
        let mut buckets: BTreeMap<u64, Vec<(ShareId, i64)>> = BTreeMap::new();
        for (share, by) in deltas {
            let bucket = share.bucket(inner.count.max(1));
            buckets.entry(bucket).or_default().push((share, by));
        }
        let mut change = SharingChange {
            commit,
            dedup: self,
            root: inner.root,
            count: inner.count,
            info: state.root.dedup_info(),
            changed: BTreeMap::new(),
        };
        for (bucket, deltas) in buckets {
            change.apply(&mut inner, bucket, deltas)?;
        }
        change.grow();
        change.write(&mut inner, &mut state.root)
    }
}

impl SharingState {
    fn pin(&mut self, shared: SharedRecord, is_stored: bool) -> ShareId {
        let share = shared.share();
        self.by_nonce.insert(shared.nonce, share);
        let live = self.live.entry(share).or_insert(Live {
            shared,
            is_stored,
            pins: 0,
            added: [0; 2],
        });
        live.pins += 1;
        share
    }

    fn forget(&mut self, share: &ShareId) {
        if let Some(live) = self.live.remove(share) {
            self.by_nonce.remove(&live.shared.nonce);
        }
    }
}

/// Reports a shared record that is not in the table.
fn lost(share: &ShareId) {
    let addr = &share.addr;
    tracing::error!(
        ?addr,
        "the dedup table lacks a shared record; its space stays allocated as long as the pool exists"
    );
}

/// A change of the table by a commit.
struct SharingChange<'a> {
    commit: &'a TxgWriter<'a>,
    dedup: &'a Dedup,
    root: RecordPtr,
    count: u64,
    info: DedupInfo,
    changed: BTreeMap<u64, Vec<SharedRecord>>,
}

impl SharingChange<'_> {
    fn read(&self, bucket: u64) -> Result<Vec<SharedRecord>> {
        let disk = &self.commit.core.disk;
        let bucket = self.dedup.buckets.get(disk, &self.root, bucket)?;
        Ok(bucket.to_vec())
    }

    /// Updates a bucket. If the bucket cannot be read, the number of pointers to its records is unknown. Then they
    /// stay allocated as long as the pool exists.
    fn apply(
        &mut self,
        inner: &mut SharingState,
        bucket: u64,
        deltas: Vec<(ShareId, i64)>,
    ) -> Result<()> {
        let mut all = match self.read(bucket) {
            Ok(all) => all,
            Err(error) => {
                tracing::error!(%error, bucket, "a part of the dedup table is lost; the space of its records stays allocated as long as the pool exists");
                for (share, _) in deltas {
                    self.give_up(inner, &share);
                }
                return Ok(());
            }
        };
        let before = all.clone();
        for (share, by) in deltas {
            self.count_pointers(inner, &mut all, &share, by);
        }
        all.retain(|shared| self.is_kept(inner, shared));
        if all != before {
            self.changed.insert(bucket, all);
        }
        Ok(())
    }

    fn count_pointers(
        &mut self,
        inner: &mut SharingState,
        all: &mut Vec<SharedRecord>,
        share: &ShareId,
        by: i64,
    ) {
        // A new record is not in the bucket. While there are few buckets, a search through one takes long.
        let is_new = inner.live.get(share).is_some_and(|live| !live.is_stored);
        let listed = match is_new {
            true => None,
            false => all.iter().position(|shared| shared.share() == *share),
        };
        let bytes = u64::from(share.addr.size());
        let at = match (listed, inner.live.get_mut(share)) {
            (Some(at), _) => at,
            (None, Some(live)) if by > 0 => {
                live.is_stored = true;
                self.commit.note_allocated(live.shared.extent());
                self.info.records += 1;
                self.info.stored += bytes;
                all.push(live.shared);
                all.len() - 1
            }
            // The record is pinned, or its pointer was added and removed in this group.
            (None, Some(_)) => return,
            (None, None) => return lost(share),
        };
        match all[at].count().checked_add_signed(by) {
            Some(count) => all[at].count = count.into(),
            None => return lost(share),
        }
        let referenced = i64::try_from(bytes).unwrap_or(0).saturating_mul(by);
        self.info.referenced = self.info.referenced.saturating_add_signed(referenced);
    }

    /// Frees a record without pointers, unless a thread is about to add one.
    fn is_kept(&mut self, inner: &mut SharingState, shared: &SharedRecord) -> bool {
        let share = shared.share();
        let is_wanted = inner.live.get(&share).is_some_and(Live::is_wanted);
        if shared.count() > 0 || is_wanted {
            return true;
        }
        inner.forget(&share);
        self.commit.free_extents([shared.extent()]);
        self.info.records = self.info.records.saturating_sub(1);
        let bytes = u64::from(share.addr.size());
        self.info.stored = self.info.stored.saturating_sub(bytes);
        false
    }

    /// Forgets a record whose part of the table is lost.
    fn give_up(&self, inner: &mut SharingState, share: &ShareId) {
        if let Some(live) = inner.live.get_mut(share)
            && !live.is_stored
        {
            live.is_stored = true;
            self.commit.note_allocated(live.shared.extent());
        }
    }

    /// Adds buckets until there are enough, or until a bucket to split cannot be read.
    fn grow(&mut self) {
        let wanted = self.info.records.div_ceil(BUCKET_LOAD).max(1);
        let limit = self.count + SPLITS_MAX;
        self.count = self.count.max(1);
        while self.count < wanted.min(limit) {
            let (new, old) = (self.count, split_of(self.count));
            let all = match self.changed.remove(&old) {
                Some(all) => all,
                None => match self.read(old) {
                    Ok(all) => all,
                    Err(_) => return,
                },
            };
            self.count += 1;
            let count = self.count;
            let (stay, go) = all
                .into_iter()
                .partition(|shared| shared.share().bucket(count) == old);
            self.changed.insert(old, stay);
            self.changed.insert(new, go);
        }
    }

    fn write(self, inner: &mut SharingState, root: &mut PoolRoot) -> Result<()> {
        let mut overlay = Overlay::default();
        for (number, bucket) in self.changed {
            let ptr = if bucket.is_empty() {
                RecordPtr::EMPTY
            } else {
                let ptr = self
                    .commit
                    .place_record(Class::Meta, table::encode(&bucket))?;
                self.dedup.buckets.remember(&ptr, bucket);
                ptr
            };
            overlay.put(number, ptr);
        }
        if !overlay.is_empty() {
            inner.root = self
                .commit
                .update_pool_array(Class::Meta, &self.root, &overlay)?;
            inner.count = self.count;
            inner.version += 1;
            root.features_required |= FEATURE_DEDUP;
            root.dedup = inner.root;
            root.set_dedup_info(self.count, &self.info);
        }
        let unwanted = inner.live.iter().filter(|(_, live)| !live.is_wanted());
        let unwanted: Vec<ShareId> = unwanted.map(|(share, _)| *share).collect();
        for share in unwanted {
            let live = &inner.live[&share];
            if !live.is_stored {
                self.commit.core.space.release([live.shared.extent()]);
            }
            inner.forget(&share);
        }
        Ok(())
    }
}
