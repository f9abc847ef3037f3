//! The stored formats of a pool, and their types. Nothing here reads a device.

pub(crate) mod array_kind;
pub(crate) mod bookmark;
pub(crate) mod checkpoint;
pub(crate) mod codec;
pub(crate) mod config;
pub(crate) mod entry;
pub(crate) mod entry_flags;
pub(crate) mod extent;
pub(crate) mod features;
pub(crate) mod free_job;
pub(crate) mod heartbeat;
pub(crate) mod history_line;
pub(crate) mod log_entry;
pub(crate) mod log_head;
pub(crate) mod log_state;
pub(crate) mod node;
pub(crate) mod past_seal;
pub(crate) mod pointer;
pub(crate) mod removal_status;
pub(crate) mod resilver_status;
pub(crate) mod root;
pub(crate) mod scrub_status;
pub(crate) mod seal_input;
pub(crate) mod stream;
pub(crate) mod volume_shape;
