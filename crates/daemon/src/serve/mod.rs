//! Serving requests: sockets, connections, who may do what, zones, metrics.

pub(crate) mod authorize;
pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod metrics;
#[cfg(test)]
mod rights;
pub(crate) mod zones;
