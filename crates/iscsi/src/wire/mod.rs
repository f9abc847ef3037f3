//! Bytes from and to an initiator: PDUs, text keys, and responses with their numbers.
//!
//! The lowest layer.

pub(crate) mod keys;
pub(crate) mod link;
pub(crate) mod output;
pub(crate) mod pdu;
