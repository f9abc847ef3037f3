//! Serves requests: sockets, connections, permissions, zones, metrics.

pub(crate) mod authorize;
pub(crate) mod commands;
mod decision;
pub(crate) mod dispatch;
pub(crate) mod hurried;
pub(crate) mod metrics;
#[cfg(test)]
mod rights;
mod scope;
mod subjects;
pub(crate) mod unix;
pub(crate) mod zones;
