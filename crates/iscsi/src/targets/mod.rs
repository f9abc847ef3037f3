//! Targets with their logical units and sessions, and the targets of a portal.
//!
//! The layer between `scsi` and the connections.

pub(crate) mod logical_unit;
pub(crate) mod portal;
pub(crate) mod san_identity;
pub(crate) mod target;
