//! Reads records and nodes, and trusts none of them.
//!
//! A node is used only if its bytes have the checksum, its children the identity, and each child the
//! level that its pointer says. Whole nodes are cached by their checksum, so that a stale entry
//! cannot be mistaken for another node that took its place.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use quick_cache::sync::Cache;
use store::Store;
use zerocopy::{FromZeros, IntoBytes};

use crate::batch::Piece;
use crate::error::{Error, Result};
use crate::layout::{Addr, Node, RecordPtr, checksum};

/// The nodes and records of a store.
pub(crate) struct Disk {
    pub(crate) store: Arc<dyn Store>,
    /// How many units there are: no array has more nodes and records than this.
    pub(crate) units: u64,
    nodes: Cache<[u8; 16], Arc<Node>>,
    /// What a commit has placed and not written yet, by checksum.
    unwritten: RwLock<HashMap<[u8; 16], Piece>>,
}

impl Disk {
    /// Reads from `store`, keeping up to `cached_nodes` nodes in memory.
    pub(crate) fn new(store: Arc<dyn Store>, cached_nodes: usize) -> Disk {
        let segments: u64 = store.groups().iter().map(|n| u64::from(*n)).sum();
        Disk {
            units: segments * u64::from(store.segment_size() / store::UNIT),
            store,
            nodes: Cache::new(cached_nodes),
            unwritten: RwLock::default(),
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

    /// Reads one copy of a record or node, from the commit under way if it is not written yet.
    fn read(&self, ptr: &RecordPtr, addr: &Addr, buf: &mut [u8]) -> bool {
        if let Some(piece) = self.unwritten.read().get(&ptr.place.checksum)
            && piece.bytes().len() == buf.len()
        {
            buf.copy_from_slice(piece.bytes());
            return true;
        }
        self.store.read(addr.segment(), addr.offset(), buf).is_ok()
    }

    /// The node at `ptr`, which must be `level` levels above the records.
    pub(crate) fn node(&self, ptr: &RecordPtr, level: u8) -> Result<Arc<Node>> {
        if ptr.level() != level || !ptr.is_consistent() {
            return Err(Error::inconsistent(
                "tree of nodes",
                "a pointer has the wrong level",
            ));
        }
        if let Some(node) = self.nodes.get(&ptr.place.checksum) {
            // Equal bytes at another level would be another node.
            if node.identity(level) == ptr.identity {
                return Ok(node);
            }
        }
        let mut node = Arc::new(Node::new_zeroed());
        let bytes = Arc::get_mut(&mut node).expect("just made").as_mut_bytes();
        let read = |bytes: &mut [u8]| {
            ptr.place
                .copies()
                .any(|addr| self.read(ptr, &addr, bytes) && checksum(bytes) == ptr.place.checksum)
        };
        if !read(bytes) {
            return Err(Error::damaged("a node", ptr));
        }
        if node.identity(level) != ptr.identity {
            return Err(Error::damaged("a node's identity", ptr));
        }
        if !children_are_consistent(&node, level) {
            return Err(Error::inconsistent(
                "tree of nodes",
                "a node has impossible children",
            ));
        }
        self.nodes.insert(ptr.place.checksum, Arc::clone(&node));
        Ok(node)
    }

    /// Keeps a node that is likely to be read soon.
    pub(crate) fn remember(&self, ptr: &RecordPtr, node: Arc<Node>) {
        self.nodes.insert(ptr.place.checksum, node);
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
        for addr in ptr.place.copies() {
            if self.read(ptr, &addr, buf) && accept(buf) {
                return Ok(());
            }
        }
        Err(Error::damaged("a record", ptr))
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
