//! The proof that a pool holds a snapshot: every record is read from the devices, checked, and hashed with a fresh key.
//!
//! No data key is needed. The checks of records and nodes show damage. The hash shows more: its key is a *challenge* that
//! the other side has just drawn. So a host cannot compute it in advance and then lose the records. Two pools with the
//! same snapshot get the same proof, because it depends on the identities and bytes of records, and not on their places.
//!
//! Snapshots share most of their records. So a proof can begin at an earlier snapshot, whose records the caller has just
//! had read. Then subtrees in the same places are not read again, and the proof is about what is new.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::gate::CommitEngine;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::node::{ArrayNode, FANOUT, coverage};
use crate::format::records::pointer::{RecordPtr, SLOT_LIMIT};
use crate::ops::pool::Pool;
use crate::storage::array::walk::{check_root, too_many};

/// The records that are read before the caller is asked whether to go on.
const BATCH: usize = 64;
/// The most lost parts in a proof. Others are only counted.
const LOST_MAX: usize = 100;
/// The contexts of the two keys that are derived from a challenge.
const RECORD_KEY: &str = "strongroom 2026-11 proof of records v1";
const SNAPSHOT_KEY: &str = "strongroom 2026-11 proof of a snapshot v1";

/// A part of a snapshot that no device has any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPart {
    /// The array.
    pub array: ArrayKind,
    /// The first slot.
    pub slot: u64,
    /// The slots: 1 for a record, more for a node.
    pub slots: u64,
    /// The reason.
    pub why: String,
}

/// The outcome of reading a snapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotProof {
    /// The records that were read.
    pub records: u64,
    /// The bytes of these records, as they are sealed.
    pub bytes: u64,
    /// The encrypted records whose identity has no hash of their bytes: without a key only a checksum covers them, which
    /// the host itself could have made.
    pub unchecked: u64,
    /// The parts that cannot be read, or are not what the snapshot had; at most the first hundred.
    pub lost: Vec<LostPart>,
    /// The number of lost parts.
    pub lost_count: u64,
    /// The keyed hash of all records, in order. `None` if any is lost, or if a node of the earlier snapshot cannot be read:
    /// then it is not known what is new.
    pub proof: Option<[u8; 32]>,
}

/// An earlier snapshot, which the caller has had read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierSnapshot {
    /// The id of the snapshot.
    pub id: u64,
    /// False if parts of it, or of one before it, were lost. Then what the later one shares with it is read again.
    pub is_whole: bool,
}

/// A snapshot that is being proved. It cannot be destroyed meanwhile.
pub struct ProofReader {
    engine: Arc<CommitEngine>,
    older: [RecordPtr; 2],
    newer: [RecordPtr; 2],
    /// True if records that both states share are read too.
    reads_shared: bool,
    threads: usize,
    keys: [[u8; 32]; 2],
    _open: Vec<Arc<OpenDataset>>,
}

impl Pool {
    /// Prepares to prove that this pool holds a snapshot. The records that it shares with the snapshot `since` are no part of
    /// the proof. `threads` threads read; 0 means the caller.
    ///
    /// # Errors
    /// As [`Pool::open_dataset`]; [`Error::Refused`] if `snapshot` is not a snapshot, or `since` is not an earlier one of the
    /// same line.
    pub fn prove(
        &self,
        snapshot: u64,
        since: Option<EarlierSnapshot>,
        challenge: &[u8; 32],
        threads: usize,
    ) -> Result<ProofReader> {
        let mut open = vec![self.open_dataset(snapshot)?];
        let entry = self.entry(snapshot)?;
        if !entry.is_snapshot() {
            let name = self.name_of(entry.id)?;
            return Err(Error::refused(name, "it is not a snapshot"));
        }
        let reads_shared = since.is_some_and(|since| !since.is_whole);
        let since = since.map(|since| self.checked_from(&entry, since.id));
        let since = since.transpose()?;
        if let Some(since) = &since {
            open.push(self.open_dataset(since.id)?);
        }
        let seed = [&challenge[..], &entry.guid.to_le_bytes()].concat();
        let none = [RecordPtr::EMPTY; 2];
        Ok(ProofReader {
            engine: Arc::clone(&self.engine),
            older: since.map_or(none, |since: Arc<Entry>| since.roots),
            newer: entry.roots,
            reads_shared,
            threads,
            keys: [RECORD_KEY, SNAPSHOT_KEY].map(|context| blake3::derive_key(context, &seed)),
            _open: open,
        })
    }
}

impl ProofReader {
    /// Reads the snapshot. `go_on` gets the bytes of the records that were read since its last call; it returns false to
    /// stop. `None` if it was stopped.
    ///
    /// # Errors
    /// A root is not that of a tree. Other damage is in the result.
    pub fn read(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Option<SnapshotProof>> {
        let mut walk = ProofWalk {
            reader: self,
            left: self.engine.disk.units(),
            batch: Vec::new(),
            hasher: blake3::Hasher::new_keyed(&self.keys[1]),
            found: SnapshotProof::default(),
            go_on,
            is_earlier_known: true,
            is_stopped: false,
        };
        for array in ArrayKind::ALL {
            let [older, newer] = [&self.older, &self.newer].map(|roots| roots[array as usize]);
            walk.array(array, &older, &newer)?;
        }
        walk.read_batch();
        let mut found = walk.found;
        let is_complete = found.lost_count == 0 && walk.is_earlier_known;
        found.proof = is_complete.then(|| walk.hasher.finalize().into());
        Ok((!walk.is_stopped).then_some(found))
    }

    /// Reads a record from any good copy. Returns the hash of its bytes that goes into the proof.
    fn record(&self, slot: u64, ptr: &RecordPtr, bytes: &mut Vec<u8>) -> Result<[u8; 32]> {
        let disk = &self.engine.disk;
        disk.record(ptr, Some(slot), bytes, &mut |bytes| ptr.names(bytes))?;
        Ok(blake3::keyed_hash(&self.keys[0], bytes).into())
    }
}

/// A difference between two states, in the order of slots.
struct ProofItem {
    array: ArrayKind,
    slot: u64,
    /// `None` if the slots are empty now.
    ptr: Option<RecordPtr>,
    slots: u64,
    /// False for a record that the older state has in another place. It is read, and is no part of the proof.
    is_new: bool,
}

/// A walk through a snapshot. After a damaged node it goes on behind it.
struct ProofWalk<'a> {
    reader: &'a ProofReader,
    /// The number of nodes that may still be read.
    left: u64,
    batch: Vec<ProofItem>,
    hasher: blake3::Hasher,
    found: SnapshotProof,
    go_on: &'a mut dyn FnMut(u64) -> bool,
    /// False if a node of the earlier snapshot cannot be read.
    is_earlier_known: bool,
    is_stopped: bool,
}

impl ProofWalk<'_> {
    fn array(&mut self, array: ArrayKind, older: &RecordPtr, newer: &RecordPtr) -> Result<()> {
        check_root(older)?;
        check_root(newer)?;
        let level = older.level().max(newer.level());
        self.below(array, level, (older, newer), 0, true)
    }

    /// Compares two subtrees below a level. Either tree may be lower than the level.
    fn below(
        &mut self,
        array: ArrayKind,
        level: u8,
        (older, newer): (&RecordPtr, &RecordPtr),
        first: u64,
        is_new: bool,
    ) -> Result<()> {
        let is_shared = older == newer && !self.reader.reads_shared;
        if is_shared || self.is_stopped || older.is_empty() && newer.is_empty() {
            return Ok(());
        }
        let slots = coverage(level).min(SLOT_LIMIT - first);
        let is_new = is_new && older.identity != newer.identity;
        let item = |ptr, slots| ProofItem {
            array,
            slot: first,
            ptr,
            slots,
            is_new,
        };
        if newer.is_empty() {
            self.add(item(None, slots));
            return Ok(());
        }
        if level == 0 {
            self.add(item(Some(*newer), 1));
            return Ok(());
        }
        self.left = self.left.checked_sub(1).ok_or_else(too_many)?;
        let news = match self.children(newer, level, first) {
            Ok(news) => news,
            Err(error) => {
                self.lose(array, first, slots, &error);
                // A tree with many lost nodes has few batches.
                self.is_stopped |= !(self.go_on)(0);
                return Ok(());
            }
        };
        // Without the older node everything below is read. A hash of that would differ from the hash of a good copy.
        let olds = self.children(older, level, first).unwrap_or_else(|_| {
            self.is_earlier_known = false;
            SubtreeChildren::Lower(RecordPtr::EMPTY)
        });
        for index in 0..FANOUT {
            let child_first = first + index as u64 * coverage(level - 1);
            let pair = (&olds.get(index), &news.get(index));
            self.below(array, level - 1, pair, child_first, is_new)?;
        }
        Ok(())
    }

    /// The children of a subtree at a level. The node is read from the devices, even if it is in memory.
    fn children(&self, ptr: &RecordPtr, level: u8, slot: u64) -> Result<SubtreeChildren> {
        if ptr.is_empty() || ptr.level() < level && slot == 0 {
            return Ok(SubtreeChildren::Lower(*ptr));
        }
        let node = self.reader.engine.disk.node_on_devices(ptr, level, slot)?;
        Ok(SubtreeChildren::Node(node))
    }

    fn add(&mut self, item: ProofItem) {
        self.batch.push(item);
        if self.batch.len() == BATCH {
            self.read_batch();
        }
    }

    /// Reads the records of the batch, with several threads, and adds them to the proof in order.
    fn read_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let results = read_records(self.reader, &batch);
        let before = self.found.bytes;
        for (item, result) in batch.iter().zip(results) {
            let mut hash = [0; 32];
            match (&item.ptr, result) {
                (None, _) => {}
                (Some(_), Some(Err(error))) => {
                    self.lose(item.array, item.slot, 1, &error);
                    continue;
                }
                (Some(ptr), read) => {
                    hash = read.and_then(Result::ok).unwrap_or_default();
                    self.found.records += 1;
                    self.found.bytes += u64::from(ptr.place.disk_size());
                    let is_unchecked = ptr.identity.suite != 0 && !ptr.is_checked();
                    self.found.unchecked += u64::from(is_unchecked);
                }
            }
            if item.is_new {
                self.hasher.update(&[item.array as u8]);
                let numbers = [item.slot, item.slots].map(u64::to_le_bytes);
                self.hasher.update(numbers.as_bytes());
                let identity = item.ptr.unwrap_or(RecordPtr::EMPTY).identity;
                self.hasher.update(identity.as_bytes()).update(&hash);
            }
        }
        self.is_stopped |= !(self.go_on)(self.found.bytes - before);
    }

    fn lose(&mut self, array: ArrayKind, slot: u64, slots: u64, error: &Error) {
        self.found.lost_count += 1;
        if self.found.lost.len() < LOST_MAX {
            self.found.lost.push(LostPart {
                array,
                slot,
                slots,
                why: error.to_string(),
            });
        }
    }
}

/// The children of a subtree.
enum SubtreeChildren {
    Node(Arc<ArrayNode>),
    /// The tree is lower than this level. It counts as the first child.
    Lower(RecordPtr),
}

impl SubtreeChildren {
    fn get(&self, index: usize) -> RecordPtr {
        match self {
            SubtreeChildren::Node(node) => node.children[index],
            SubtreeChildren::Lower(ptr) if index == 0 => *ptr,
            SubtreeChildren::Lower(_) => RecordPtr::EMPTY,
        }
    }
}

/// Reads the records of a batch. `None` for slots without a record.
fn read_records(reader: &ProofReader, batch: &[ProofItem]) -> Vec<Option<Result<[u8; 32]>>> {
    let results = Mutex::new(batch.iter().map(|_| None).collect::<Vec<_>>());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut bytes = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = batch.get(number) else {
                return;
            };
            let read = item
                .ptr
                .map(|ptr| reader.record(item.slot, &ptr, &mut bytes));
            results.lock()[number] = read;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..reader.threads.min(batch.len()) {
            // The caller reads too. So nothing is missing where no more threads can be started.
            if threads::start_in(scope, "proof", work).is_err() {
                break;
            }
        }
        work();
    });
    results.into_inner()
}
