//! A group: devices that hold the same segments. Requests to several of them do without those that do not answer.

pub(crate) mod batch;
pub(crate) mod deadline;
pub(crate) mod helpers;
pub(crate) mod member;
pub(crate) mod mirror;
pub(crate) mod pace;
pub(crate) mod parity;
pub(crate) mod pool_change;
pub(crate) mod prompt_reads;
pub(crate) mod refused_writes;
