//! Reads records and nodes, and trusts none of them.
//!
//! A node is used only if its bytes match the checksum in its pointer, its children match the identity, and each
//! child has the right level. The key of a cached node is its checksum. So the cache never returns an old node for a
//! newer one in the same place. The cache also keeps the computed identity, because hashing a node takes longer than
//! the look-up.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use meter::{CacheTotals, Lookups};
use parking_lot::RwLock;
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use store::Store;
use zerocopy::{FromZeros, IntoBytes};

use crate::env::CacheHash;
use crate::error::{Error, Result};
use crate::format::records::extent::StoredExtent;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::{
    Addr, GangMark, RecordIdentity, RecordLocation, RecordPtr, checksum,
};
use crate::format::superblock::config::Config;
use crate::storage::cache_device::CacheDevices;
use crate::storage::gang::{AllottedSpace, Bounds, Gang, GangPiece, all_extents, map_extent};
use crate::storage::nodes::Nodes;
use crate::storage::reconstruct::Variants;
use crate::storage::remap::{Remap, TableReader};
use crate::storage::repair_queue::RepairQueue;
use crate::storage::writer::batch::BatchPiece;

/// The nodes and records of a store.
pub(crate) struct PoolReader {
    pub(crate) store: Arc<Store>,
    /// The hash function of the caches.
    hash: CacheHash,
    nodes: SeededCache<[u8; 16], KnownNode>,
    node_lookups: Lookups,
    /// Records and nodes that a commit has placed and not written yet, by checksum.
    unwritten: RwLock<HashMap<[u8; 16], BatchPiece>>,
    maps: SeededCache<MapKey, Arc<Gang>>,
    /// Maps that the running commit has placed.
    unwritten_maps: RwLock<HashMap<MapKey, Arc<Gang>>>,
    bounds: RwLock<Arc<Bounds>>,
    /// The new places of data from removed groups.
    pub(crate) remap: Remap,
    /// Copies that were read with errors, and wait to be repaired.
    pub(crate) repairs: RepairQueue,
    /// The second-level cache, on faster devices.
    pub(crate) caches: CacheDevices,
}

/// The parts that caches keep after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    /// Nodes in memory.
    pub(crate) nodes: bool,
    /// Bytes on cache devices. The read also searches the cache devices.
    pub(crate) cached: bool,
}

impl Keep {
    /// For readers other than open datasets: they read the devices of the pool.
    const NODES: Keep = Keep {
        nodes: true,
        cached: false,
    };
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// The first copy was good.
    Whole,
    /// A good copy was found or reconstructed. Another copy is bad.
    WithErrors,
}

/// The error that no copy is good.
#[derive(Debug, Default)]
pub(crate) struct NoGoodCopy {
    /// The failure of a device that has a copy, or `None` if all copies are damaged.
    failure: Option<store::Error>,
    /// A device that is slow was not asked at first.
    has_skipped: bool,
}

impl NoGoodCopy {
    /// Remembers why a copy could not be read.
    fn note(&mut self, error: store::Error) {
        // A place outside of the pool means that the pointer is damaged.
        if !matches!(error, store::Error::NoSuchPlace { .. }) {
            self.failure.get_or_insert(error);
        }
    }

    /// Remembers why the place of a copy is unknown.
    fn note_unknown(&mut self, error: Error) {
        if let Error::Unreadable { source, .. } = error {
            self.note(source);
        }
    }

    /// Returns whether a device failed to read a copy.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn or(self, other: NoGoodCopy) -> NoGoodCopy {
        NoGoodCopy {
            failure: self.failure.or(other.failure),
            has_skipped: self.has_skipped || other.has_skipped,
        }
    }

    /// The error for a record, node or map (`what`) whose first copy is at `addr`.
    pub(crate) fn into_error(self, what: &'static str, addr: &Addr) -> Error {
        match self.failure {
            Some(source) => Error::unreadable(what, addr, source),
            None => Error::damaged(what, addr),
        }
    }
}

/// A node in memory, and its identity. The identity contains the level.
#[derive(Clone)]
struct KnownNode {
    node: Arc<ArrayNode>,
    identity: RecordIdentity,
}

/// The key of a gang map: its mark, and the address of its first copy.
type MapKey = (GangMark, Addr);

/// A cache that evicts the same entries in each run of a seed.
type SeededCache<CacheKey, Value> = Cache<CacheKey, Value, UnitWeighter, CacheHash>;

fn seeded_cache<CacheKey: Eq + Hash, Value: Clone>(
    entries: usize,
    hash: CacheHash,
) -> SeededCache<CacheKey, Value> {
    let lifecycle = DefaultLifecycle::default();
    Cache::with(entries, entries as u64, UnitWeighter, hash, lifecycle)
}

/// Nodes of the remap table kept in memory.
const REMAP_NODES: usize = 2048;

/// Gang maps kept in memory.
const CACHED_MAPS: usize = 4096;

impl PoolReader {
    /// Reads from `store`, keeping up to `cached_nodes` nodes in memory.
    pub(crate) fn new(store: Arc<Store>, cached_nodes: usize, hash: CacheHash) -> PoolReader {
        PoolReader {
            bounds: RwLock::new(Arc::new(Bounds::of(store.as_ref()))),
            store,
            hash,
            nodes: seeded_cache(cached_nodes, hash),
            node_lookups: Lookups::default(),
            unwritten: RwLock::default(),
            maps: seeded_cache(CACHED_MAPS, hash),
            unwritten_maps: RwLock::default(),
            remap: Remap::default(),
            repairs: RepairQueue::default(),
            caches: CacheDevices::default(),
        }
    }

    /// The bounds of the pool.
    pub(crate) fn bounds(&self) -> Arc<Bounds> {
        Arc::clone(&self.bounds.read())
    }

    /// The store has more groups than before.
    pub(crate) fn grow(&self) {
        *self.bounds.write() = Arc::new(Bounds::of(self.store.as_ref()));
        self.remap.grow();
    }

    /// Called when a commit is durable, and when the pool is opened: sets the root of the remap table, and the purpose
    /// of each group.
    pub(crate) fn on_durable(&self, root: &RecordPtr, config: &Config) {
        let open = || -> Box<dyn TableReader> {
            Box::new(PoolReader::new(
                Arc::clone(&self.store),
                REMAP_NODES,
                self.hash,
            ))
        };
        self.remap
            .on_durable(self.store.as_ref(), root, config, open);
    }

    /// The number of units of the pool. No array has more nodes and records than this.
    pub(crate) fn units(&self) -> u64 {
        let bounds = self.bounds();
        let segments: u64 = bounds.groups.iter().map(|(n, _)| u64::from(*n)).sum();
        segments * u64::from(bounds.units)
    }

    /// Makes a piece of a commit readable before it is written.
    pub(crate) fn hold_unwritten(&self, checksum: [u8; 16], piece: BatchPiece) {
        self.unwritten.write().insert(checksum, piece);
    }

    /// Notes that every record held so far is written.
    pub(crate) fn release_unwritten(&self) {
        self.unwritten.write().clear();
    }

    /// Makes the gang map of a record readable before it is written, if it has one.
    pub(crate) fn hold_unwritten_map(&self, place: &RecordLocation, allotted: &AllottedSpace) {
        if let (Some(mark), Some(gang)) = (place.gang_mark(), allotted.gang()) {
            let key = (mark, place.addr[0]);
            self.unwritten_maps.write().insert(key, Arc::clone(gang));
        }
    }

    /// All maps held so far are written.
    pub(crate) fn release_unwritten_maps(&self) {
        self.unwritten_maps.write().clear();
    }

    /// The gang map of a place that has one, from the first good copy.
    pub(crate) fn gang(&self, place: &RecordLocation) -> Result<Arc<Gang>> {
        let what = "a gang map";
        let damaged = || Error::damaged(what, &place.addr[0]);
        let mark = place.gang_mark().ok_or_else(damaged)?;
        let key = (mark, place.addr[0]);
        let unwritten = self.unwritten_maps.read().get(&key).cloned();
        if let Some(gang) = unwritten.or_else(|| self.maps.get(&key)) {
            return Ok(gang);
        }
        let mut lost = NoGoodCopy::default();
        for addr in place.copies() {
            match self.read_map(place, &addr) {
                Ok((gang, _)) => {
                    self.maps.insert(key, Arc::clone(&gang));
                    return Ok(gang);
                }
                Err(why) => lost = lost.or(why),
            }
        }
        Err(lost.into_error(what, &place.addr[0]))
    }

    /// Reads a copy of a gang map, and its bytes, from the first member with a good copy.
    pub(crate) fn read_map(
        &self,
        place: &RecordLocation,
        addr: &Addr,
    ) -> std::result::Result<(Arc<Gang>, Vec<u8>), NoGoodCopy> {
        let mut lost = NoGoodCopy::default();
        let moved = self.remap.resolve(map_extent(addr));
        let moved = moved.unwrap_or_else(|error| {
            lost.note_unknown(error);
            Vec::new()
        });
        let [StoredExtent { segment, start, .. }] = moved[..] else {
            return Err(lost);
        };
        let (store, mut bytes) = (&self.store, vec![0; store::UNIT as usize]);
        for nth in 0..store.width(segment.group()) {
            match store.read_nth(nth, segment, start * store::UNIT, &mut bytes) {
                Err(error) => lost.note(error),
                Ok(()) => {
                    if let Some(gang) = Gang::decode(&bytes, place, &self.bounds()) {
                        return Ok((Arc::new(gang), bytes));
                    }
                }
            }
        }
        Err(lost)
    }

    /// All units of a record or node: all copies, with their pieces and maps.
    pub(crate) fn extents(&self, place: &RecordLocation) -> Result<Vec<StoredExtent>> {
        if !place.is_gang() {
            return Ok(StoredExtent::of_whole(place).collect());
        }
        let gang = self.gang(place)?;
        let copies = place.addr.iter().filter(|addr| !addr.is_empty());
        Ok(all_extents(copies, &gang))
    }

    /// The units of a record or node to free. If every copy of its map is damaged, its pieces are unknown. They stay
    /// allocated as long as the pool exists.
    ///
    /// # Errors
    /// A device failed to read the map. The caller must not free anything yet.
    pub(crate) fn extents_to_free(&self, place: &RecordLocation) -> Result<Vec<StoredExtent>> {
        match self.extents(place) {
            Err(error) if !error.may_pass() => Ok(lost_map(place, &error)),
            extents => extents,
        }
    }

    /// The places of the bytes of one copy of a record or node.
    pub(crate) fn runs(&self, place: &RecordLocation, copy: usize) -> Result<Vec<GangPiece>> {
        let mut runs = Vec::new();
        for run in self.runs_of_pointer(place, copy)? {
            let moved = self.remap.resolve(run.extent())?;
            runs.extend(run.cut(&moved));
        }
        Ok(runs)
    }

    /// The same places before any group was removed.
    pub(crate) fn runs_of_pointer(
        &self,
        place: &RecordLocation,
        copy: usize,
    ) -> Result<Vec<GangPiece>> {
        if place.is_gang() {
            return Ok(self.gang(place)?.runs(copy));
        }
        Ok(vec![GangPiece::of(&place.addr[copy])])
    }

    /// Reads one copy of a record or node, in way number `nth`. If this fails, tries the other ways. Notes failures in
    /// `lost`. `None` if a part of the copy cannot be read in any way.
    fn read_copy(
        &self,
        place: &RecordLocation,
        copy: usize,
        nth: usize,
        buf: &mut [u8],
        lost: &mut NoGoodCopy,
    ) -> Option<ReadResult> {
        let runs = self.runs(place, copy);
        let runs = runs.map_err(|error| lost.note_unknown(error)).ok()?;
        let mut fetched = ReadResult::Whole;
        for run in runs {
            let piece = buf.get_mut(run.bytes)?;
            let store = &self.store;
            let first = match nth {
                0 => {
                    let (is_first, read) = store.read_soon(run.segment, run.offset, piece);
                    lost.has_skipped |= !is_first;
                    read
                }
                _ => store.read_nth(nth, run.segment, run.offset, piece),
            };
            let Err(error) = first else { continue };
            lost.note(error);
            fetched = ReadResult::WithErrors;
            let ways = store.width(run.segment.group()) + usize::from(lost.has_skipped);
            let mut others = 1..ways;
            let is_read = others.any(|more| {
                let read = store.read_nth(nth + more, run.segment, run.offset, piece);
                read.map_err(|error| lost.note(error)).is_ok()
            });
            if !is_read {
                return None;
            }
        }
        Some(fetched)
    }

    /// Returns whether the contents of a place are certain. Reading from a member that may lack the newest write is not
    /// enough. `read` reads the place in the way with the given number, and returns whether this worked.
    pub(crate) fn is_known(&self, group: u32, mut read: impl FnMut(usize) -> bool) -> bool {
        let mut ways = 0..self.store.width(group);
        match self.store.works(group) {
            true => ways.any(|nth| self.store.is_trusted(group, nth) && read(nth)),
            false => !ways.is_empty() && ways.all(read),
        }
    }

    /// Returns whether all parts of a record or node are known, see [`PoolReader::is_known`].
    pub(crate) fn is_place_known(&self, place: &RecordLocation) -> bool {
        let is_run_known = |run: GangPiece| {
            let mut buf = vec![0; run.bytes.len()];
            self.is_known(run.segment.group(), |nth| {
                let read = self.store.read_nth(nth, run.segment, run.offset, &mut buf);
                read.is_ok()
            })
        };
        place.copy_numbers().any(|copy| {
            let runs = self.runs(place, copy);
            runs.is_ok_and(|runs| runs.into_iter().all(is_run_known))
        })
    }

    /// The largest number of ways to read a place.
    fn width(&self, place: &RecordLocation) -> usize {
        let of_copy = |copy| {
            let runs = self.runs(place, copy).unwrap_or_default();
            let widths = runs
                .into_iter()
                .map(|run| self.store.width(run.segment.group()));
            widths.max().unwrap_or(0)
        };
        place.copy_numbers().map(of_copy).max().unwrap_or(0)
    }

    /// Reads the copies of a place in all ways, one after the other, until `accept` accepts one. If it accepts none,
    /// tries records that are reconstructed from parts of the copies.
    pub(crate) fn fetch(
        &self,
        place: &RecordLocation,
        buf: &mut [u8],
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) -> std::result::Result<ReadResult, NoGoodCopy> {
        let (mut nth, mut lost) = (0, NoGoodCopy::default());
        loop {
            for copy in place.copy_numbers() {
                let fetched = self.read_copy(place, copy, nth, buf, &mut lost);
                if let Some(fetched) = fetched
                    && accept(buf)
                {
                    let is_first = nth == 0 && place.copy_numbers().next() == Some(copy);
                    return Ok(match is_first {
                        true => fetched,
                        false => ReadResult::WithErrors,
                    });
                }
            }
            nth += 1;
            // The first way, of which a device was slow, comes last.
            if nth >= self.width(place) + usize::from(lost.has_skipped) {
                break;
            }
        }
        let runs = |copy| self.runs(place, copy).unwrap_or_default();
        match Variants::read(self.store.as_ref(), place, runs).any(buf, accept) {
            true => Ok(ReadResult::WithErrors),
            false => Err(lost),
        }
    }

    /// Reads a record or node, from the running commit if it is not written yet.
    fn read(
        &self,
        ptr: &RecordPtr,
        slot: Option<u64>,
        buf: &mut [u8],
        accept: &mut dyn FnMut(&[u8]) -> bool,
        is_cached: bool,
    ) -> std::result::Result<(), NoGoodCopy> {
        let sum = &ptr.place.checksum;
        // The lock is released before `accept` decrypts the record, which takes long.
        let unwritten = self.unwritten.read().get(sum).cloned();
        if let Some(piece) = unwritten
            && piece.bytes().len() == buf.len()
        {
            buf.copy_from_slice(piece.bytes());
            if accept(buf) {
                return Ok(());
            }
        }
        if is_cached && self.caches.find(sum, buf) && accept(buf) {
            return Ok(());
        }
        loop {
            let generation = self.remap.generation();
            match self.fetch(&ptr.place, buf, accept) {
                Ok(ReadResult::Whole) => {
                    if is_cached {
                        self.caches.offer(sum, buf);
                    }
                    return Ok(());
                }
                Ok(ReadResult::WithErrors) => {
                    self.repairs.add(slot, ptr);
                    return Ok(());
                }
                // Its group was removed meanwhile.
                Err(_) if self.remap.generation() != generation => {}
                Err(lost) => return Err(lost),
            }
        }
    }

    /// The node at `ptr`. It must be `level` levels above the records, and cover `slot`.
    pub(crate) fn node(&self, ptr: &RecordPtr, level: u8, slot: u64) -> Result<Arc<ArrayNode>> {
        self.node_kept(ptr, level, slot, Keep::NODES)
    }

    /// Returns whether the node at `ptr` is in memory.
    pub(crate) fn has_node(&self, ptr: &RecordPtr) -> bool {
        let known = self.nodes.get(&ptr.place.checksum);
        known.is_some_and(|known| known.identity == ptr.identity)
    }

    /// Returns the same as [`PoolReader::node`]. `keep` says whether the node goes into the second-level cache, and
    /// stays in memory.
    pub(crate) fn node_kept(
        &self,
        ptr: &RecordPtr,
        level: u8,
        slot: u64,
        keep: Keep,
    ) -> Result<Arc<ArrayNode>> {
        check_level(ptr, level)?;
        let cached = self.nodes.get(&ptr.place.checksum);
        if let Some(known) = self.node_lookups.count(cached)
            // Equal bytes at another level would be another node.
            && known.identity == ptr.identity
        {
            return Ok(known.node);
        }
        let node = self.read_node(ptr, level, slot, keep.cached)?;
        if keep.nodes {
            self.remember(ptr, Arc::clone(&node));
        }
        Ok(node)
    }

    /// Returns the same as [`PoolReader::node`], from the devices of the pool, even if the node is in memory.
    pub(crate) fn node_on_devices(
        &self,
        ptr: &RecordPtr,
        level: u8,
        slot: u64,
    ) -> Result<Arc<ArrayNode>> {
        check_level(ptr, level)?;
        self.read_node(ptr, level, slot, false)
    }

    /// Reads a node whose pointer has the right level.
    fn read_node(
        &self,
        ptr: &RecordPtr,
        level: u8,
        slot: u64,
        is_cached: bool,
    ) -> Result<Arc<ArrayNode>> {
        let mut node = Arc::new(ArrayNode::new_zeroed());
        let bytes = Arc::get_mut(&mut node).expect("just made").as_mut_bytes();
        let mut is_whole = |bytes: &[u8]| checksum(bytes) == ptr.place.checksum;
        let read = self.read(ptr, Some(slot), bytes, &mut is_whole, is_cached);
        read.map_err(|lost| lost.into_error("a node", &ptr.place.addr[0]))?;
        if node.identity(level) != ptr.identity {
            return Err(Error::damaged("a node's identity", &ptr.place.addr[0]));
        }
        if !node.is_consistent(level) {
            return Err(Error::inconsistent(
                "tree of nodes",
                "a node has impossible children",
            ));
        }
        Ok(node)
    }

    /// The contents of the node cache, and its hits.
    pub(crate) fn node_cache(&self) -> CacheTotals {
        let bytes = |nodes: u64| nodes * size_of::<ArrayNode>() as u64;
        let (held, capacity) = (self.nodes.weight(), self.nodes.capacity());
        self.node_lookups.totals(bytes(held), bytes(capacity))
    }

    /// Caches a node that is likely to be read soon. The caller knows that it matches its pointer.
    pub(crate) fn remember(&self, ptr: &RecordPtr, node: Arc<ArrayNode>) {
        let identity = ptr.identity;
        self.nodes
            .insert(ptr.place.checksum, KnownNode { node, identity });
    }

    /// Reads the copies of a record into `buf`, one after the other, until `accept` accepts one. `slot` is its slot
    /// in an array of a dataset; `None` for a record of the pool itself.
    pub(crate) fn record(
        &self,
        ptr: &RecordPtr,
        slot: Option<u64>,
        buf: &mut Vec<u8>,
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.record_kept(ptr, slot, buf, accept, false)
    }

    /// Returns the same as [`PoolReader::record`]. If `is_cached`, cache devices may have the record.
    pub(crate) fn record_kept(
        &self,
        ptr: &RecordPtr,
        slot: Option<u64>,
        buf: &mut Vec<u8>,
        accept: &mut dyn FnMut(&[u8]) -> bool,
        is_cached: bool,
    ) -> Result<()> {
        if ptr.level() != 0 || ptr.is_empty() || !ptr.is_consistent() {
            return Err(Error::inconsistent(
                "record pointer",
                "it does not point to a record",
            ));
        }
        buf.resize(ptr.place.disk_size() as usize, 0);
        let read = self.read(ptr, slot, buf, accept, is_cached);
        read.map_err(|lost| lost.into_error("a record", &ptr.place.addr[0]))
    }

    /// Reads a record that only its checksum verifies.
    pub(crate) fn clear_record(&self, ptr: &RecordPtr) -> Result<Vec<u8>> {
        let mut buf = Vec::new();
        self.record(ptr, None, &mut buf, &mut |bytes| {
            checksum(bytes) == ptr.place.checksum
        })?;
        Ok(buf)
    }
}

fn check_level(ptr: &RecordPtr, level: u8) -> Result<()> {
    match ptr.level() == level && ptr.is_consistent() {
        true => Ok(()),
        false => Err(Error::inconsistent(
            "tree of nodes",
            "a pointer has the wrong level",
        )),
    }
}

/// The units of a record or node that can be freed without its map.
pub(crate) fn lost_map(place: &RecordLocation, error: &Error) -> Vec<StoredExtent> {
    let bytes = place.allocated();
    tracing::error!(%error, bytes, "a gang map is lost; the space of its record stays allocated until the pool is destroyed");
    place.copies().map(|addr| map_extent(&addr)).collect()
}

impl Nodes for PoolReader {
    fn node(&self, ptr: &RecordPtr, level: u8, slot: u64) -> Result<Arc<ArrayNode>> {
        PoolReader::node(self, ptr, level, slot)
    }

    fn units(&self) -> u64 {
        PoolReader::units(self)
    }

    fn clear_record(&self, ptr: &RecordPtr) -> Result<Vec<u8>> {
        PoolReader::clear_record(self, ptr)
    }
}

impl TableReader for PoolReader {
    fn bounds(&self) -> Arc<Bounds> {
        PoolReader::bounds(self)
    }

    fn grow(&self) {
        PoolReader::grow(self);
    }

    fn had_errors(&self) -> bool {
        !self.repairs.take().is_empty()
    }
}
