//! The logs of synced changes: heads, entries and the states that they continue.

pub(crate) mod log_entry;
pub(crate) mod log_head;
pub(crate) mod log_state;
