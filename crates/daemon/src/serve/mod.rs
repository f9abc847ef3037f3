//! Serves requests: sockets, connections, permissions, zones, metrics.

pub(crate) mod authorize;
pub(crate) mod commands;
mod decision;
pub(crate) mod dispatch;
pub(crate) mod metrics;
pub(crate) mod read_deadline;
pub(crate) mod replication;
mod scope;
mod subjects;
#[cfg(test)]
mod tests;
pub(crate) mod unix;
pub(crate) mod zones;
