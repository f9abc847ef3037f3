//! Serving requests: sockets, connections, who may do what, zones, metrics.

pub(crate) mod authorize;
pub(crate) mod command_text;
pub(crate) mod connection;
pub(crate) mod dispatch;
pub(crate) mod metrics;
#[cfg(test)]
mod rights;
pub(crate) mod zones;
