//! The interface through which arrays read their nodes.

use std::sync::Arc;

use crate::error::Result;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::RecordPtr;

/// Reads nodes, and trusts none of them.
pub(crate) trait Nodes {
    /// The node at `ptr`. It must be `level` levels above the records, and cover `slot`.
    fn node(&self, ptr: &RecordPtr, level: u8, slot: u64) -> Result<Arc<ArrayNode>>;

    /// The number of units of the pool. No array has more nodes and records than this.
    fn units(&self) -> u64;

    /// Reads a record that only its checksum verifies.
    fn clear_record(&self, ptr: &RecordPtr) -> Result<Vec<u8>>;
}

impl<N: Nodes + ?Sized> Nodes for Arc<N> {
    fn node(&self, ptr: &RecordPtr, level: u8, slot: u64) -> Result<Arc<ArrayNode>> {
        self.as_ref().node(ptr, level, slot)
    }

    fn units(&self) -> u64 {
        self.as_ref().units()
    }

    fn clear_record(&self, ptr: &RecordPtr) -> Result<Vec<u8>> {
        self.as_ref().clear_record(ptr)
    }
}
