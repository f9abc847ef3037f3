//! The superblock (`root`) and what it lists of the whole pool: the configuration, features, heartbeats and the history.

pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod features;
pub(crate) mod heartbeat;
pub(crate) mod history_line;
pub(crate) mod root;
