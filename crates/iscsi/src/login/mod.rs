//! The login of an initiator: negotiation of keys and authentication.
//!
//! The first phase of a connection.

pub(crate) mod chap;
pub(crate) mod negotiation;
