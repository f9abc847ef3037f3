//! Reads records and nodes, and trusts none of them.
//!
//! A node is used only if its bytes have the checksum, its children the identity, and each child the
//! level that its pointer says. Whole nodes are cached by their checksum, so that a stale entry
//! cannot be mistaken for another node that took its place, and with the identity that they were
//! found to have: to hash a node again costs more than to find it.

use std::collections::HashMap;
use std::sync::Arc;

use meter::{CacheTotals, Lookups};
use parking_lot::RwLock;
use quick_cache::sync::Cache;
use store::Store;
use zerocopy::{FromZeros, IntoBytes};

use crate::batch::Piece;
use crate::error::{Error, Result};
use crate::layout::{Addr, Identity, Node, Place, RecordPtr, ScatterMark, checksum};
use crate::scatter::{Allotted, Bounds, Run, Scatter, all_extents, map_extent};
use crate::space::Extent;

/// The nodes and records of a store.
pub(crate) struct Disk {
    pub(crate) store: Arc<dyn Store>,
    /// How many units there are: no array has more nodes and records than this.
    pub(crate) units: u64,
    nodes: Cache<[u8; 16], KnownNode>,
    node_lookups: Lookups,
    /// What a commit has placed and not written yet, by checksum.
    unwritten: RwLock<HashMap<[u8; 16], Piece>>,
    maps: Cache<MapKey, Arc<Scatter>>,
    /// Maps that the commit under way has placed.
    unwritten_maps: RwLock<HashMap<MapKey, Arc<Scatter>>>,
    pub(crate) bounds: Bounds,
}

/// A node in memory, and its identity, which says its level too.
#[derive(Clone)]
struct KnownNode {
    node: Arc<Node>,
    identity: Identity,
}

/// Names a scatter map: its mark, and where its first copy is.
type MapKey = (ScatterMark, Addr);

/// Scatter maps kept in memory.
const CACHED_MAPS: usize = 4096;

impl Disk {
    /// Reads from `store`, keeping up to `cached_nodes` nodes in memory.
    pub(crate) fn new(store: Arc<dyn Store>, cached_nodes: usize) -> Disk {
        let segments: u64 = store.groups().iter().map(|n| u64::from(*n)).sum();
        Disk {
            units: segments * u64::from(store.segment_size() / store::UNIT),
            bounds: Bounds::of(store.as_ref()),
            store,
            nodes: Cache::new(cached_nodes),
            node_lookups: Lookups::default(),
            unwritten: RwLock::default(),
            maps: Cache::new(CACHED_MAPS),
            unwritten_maps: RwLock::default(),
        }
    }

    /// Makes a piece of a commit readable before it is written.
    pub(crate) fn hold_unwritten(&self, checksum: [u8; 16], piece: Piece) {
        self.unwritten.write().insert(checksum, piece);
    }

    /// Everything held so far is written.
    pub(crate) fn release_unwritten(&self) {
        self.unwritten.write().clear();
    }

    /// Makes the scatter map of a record readable before it is written, if it has one.
    pub(crate) fn hold_unwritten_map(&self, place: &Place, allotted: &Allotted) {
        if let (Some(mark), Some(scatter)) = (place.scatter_mark(), allotted.scatter()) {
            let key = (mark, place.addr[0]);
            self.unwritten_maps.write().insert(key, Arc::clone(scatter));
        }
    }

    /// All maps held so far are written.
    pub(crate) fn release_unwritten_maps(&self) {
        self.unwritten_maps.write().clear();
    }

    /// The scatter map of a place that has one, from whichever copy is whole.
    pub(crate) fn scatter(&self, place: &Place) -> Result<Arc<Scatter>> {
        let damaged = || Error::damaged("a scatter map", &place.addr[0]);
        let mark = place.scatter_mark().ok_or_else(damaged)?;
        let key = (mark, place.addr[0]);
        let unwritten = self.unwritten_maps.read().get(&key).cloned();
        if let Some(scatter) = unwritten.or_else(|| self.maps.get(&key)) {
            return Ok(scatter);
        }
        let found = place.copies().find_map(|addr| self.read_map(place, &addr));
        let (scatter, _) = found.ok_or_else(damaged)?;
        self.maps.insert(key, Arc::clone(&scatter));
        Ok(scatter)
    }

    /// One copy of a scatter map from the device, and its bytes, if it is whole.
    pub(crate) fn read_map(&self, place: &Place, addr: &Addr) -> Option<(Arc<Scatter>, Vec<u8>)> {
        let mut bytes = vec![0; store::UNIT as usize];
        self.store
            .read(addr.segment(), addr.offset(), &mut bytes)
            .ok()?;
        let scatter = Scatter::decode(&bytes, place, &self.bounds)?;
        Some((Arc::new(scatter), bytes))
    }

    /// Every unit of a record or node: of all copies, their pieces, and their maps.
    pub(crate) fn extents(&self, place: &Place) -> Result<Vec<Extent>> {
        if !place.is_scattered() {
            return Ok(Extent::of_whole(place).collect());
        }
        let scatter = self.scatter(place)?;
        let copies = place.addr.iter().filter(|addr| !addr.is_empty());
        Ok(all_extents(copies, &scatter))
    }

    /// What of a record or node can be freed. Where no copy of its map is whole nobody knows its
    /// pieces, and they are lost until the pool is made anew.
    pub(crate) fn extents_to_free(&self, place: &Place) -> Vec<Extent> {
        self.extents(place).unwrap_or_else(|error| {
            let bytes = place.allocated();
            tracing::error!(%error, bytes, "a scatter map is lost; the space of its record is not given back while the pool lives");
            place.copies().map(|addr| map_extent(&addr)).collect()
        })
    }

    /// Where the bytes of one copy of a record or node lie.
    pub(crate) fn runs(&self, place: &Place, copy: usize) -> Result<Vec<Run>> {
        if place.is_scattered() {
            return Ok(self.scatter(place)?.runs(copy));
        }
        let addr = &place.addr[copy];
        Ok(vec![Run {
            segment: addr.segment(),
            offset: addr.offset(),
            bytes: 0..addr.size() as usize,
        }])
    }

    /// Reads one copy of a record or node from the device.
    pub(crate) fn read_copy(&self, place: &Place, copy: usize, buf: &mut [u8]) -> bool {
        let Ok(runs) = self.runs(place, copy) else {
            return false;
        };
        runs.into_iter().all(|run| {
            let piece = buf.get_mut(run.bytes);
            piece.is_some_and(|piece| self.store.read(run.segment, run.offset, piece).is_ok())
        })
    }

    /// Reads one copy of a record or node, from the commit under way if it is not written yet.
    fn read(&self, ptr: &RecordPtr, copy: usize, buf: &mut [u8]) -> bool {
        if let Some(piece) = self.unwritten.read().get(&ptr.place.checksum)
            && piece.bytes().len() == buf.len()
        {
            buf.copy_from_slice(piece.bytes());
            return true;
        }
        self.read_copy(&ptr.place, copy, buf)
    }

    /// The node at `ptr`, which must be `level` levels above the records.
    pub(crate) fn node(&self, ptr: &RecordPtr, level: u8) -> Result<Arc<Node>> {
        if ptr.level() != level || !ptr.is_consistent() {
            return Err(Error::inconsistent(
                "tree of nodes",
                "a pointer has the wrong level",
            ));
        }
        let cached = self.nodes.get(&ptr.place.checksum);
        if let Some(known) = self.node_lookups.count(cached)
            // Equal bytes at another level would be another node.
            && known.identity == ptr.identity
        {
            return Ok(known.node);
        }
        let mut node = Arc::new(Node::new_zeroed());
        let bytes = Arc::get_mut(&mut node).expect("just made").as_mut_bytes();
        let read = |bytes: &mut [u8]| {
            let mut copies = ptr.place.copy_numbers();
            copies.any(|copy| self.read(ptr, copy, bytes) && checksum(bytes) == ptr.place.checksum)
        };
        if !read(bytes) {
            return Err(Error::damaged("a node", &ptr.place.addr[0]));
        }
        if node.identity(level) != ptr.identity {
            return Err(Error::damaged("a node's identity", &ptr.place.addr[0]));
        }
        if !children_are_consistent(&node, level) {
            return Err(Error::inconsistent(
                "tree of nodes",
                "a node has impossible children",
            ));
        }
        self.remember(ptr, Arc::clone(&node));
        Ok(node)
    }

    /// What the cache of nodes holds, and how often that was what was wanted.
    pub(crate) fn node_cache(&self) -> CacheTotals {
        let bytes = |nodes: u64| nodes * size_of::<Node>() as u64;
        let (held, capacity) = (self.nodes.weight(), self.nodes.capacity());
        self.node_lookups.totals(bytes(held), bytes(capacity))
    }

    /// Keeps a node that is likely to be read soon, and that is what the pointer says.
    pub(crate) fn remember(&self, ptr: &RecordPtr, node: Arc<Node>) {
        let identity = ptr.identity;
        self.nodes
            .insert(ptr.place.checksum, KnownNode { node, identity });
    }

    /// Reads the copies of a record into `buf` one after the other until `accept` takes one.
    pub(crate) fn record(
        &self,
        ptr: &RecordPtr,
        buf: &mut Vec<u8>,
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        if ptr.level() != 0 || ptr.is_empty() || !ptr.is_consistent() {
            return Err(Error::inconsistent(
                "record pointer",
                "it does not point to a record",
            ));
        }
        buf.resize(ptr.place.disk_size() as usize, 0);
        for copy in ptr.place.copy_numbers() {
            if self.read(ptr, copy, buf) && accept(buf) {
                return Ok(());
            }
        }
        Err(Error::damaged("a record", &ptr.place.addr[0]))
    }

    /// Reads a record whose checksum is all there is to verify it.
    pub(crate) fn clear_record(&self, ptr: &RecordPtr) -> Result<Vec<u8>> {
        let mut buf = Vec::new();
        self.record(ptr, &mut buf, &mut |bytes| {
            checksum(bytes) == ptr.place.checksum
        })?;
        Ok(buf)
    }
}

fn children_are_consistent(node: &Node, level: u8) -> bool {
    node.children
        .iter()
        .filter(|child| !child.is_empty())
        .all(|child| child.level() == level - 1 && child.is_consistent())
}
