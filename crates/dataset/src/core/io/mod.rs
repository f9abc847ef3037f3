//! File contents: records in memory, on their way to the pool and back.
//!
//! Layers, lowest first: `workers`, `memory`, `slots`; reads and writes; `ahead`, `copy`, `truncate`; `write_back`.

pub(crate) mod ahead;
pub(crate) mod blocks;
pub(crate) mod copy;
pub(crate) mod memory;
pub(crate) mod record_reads;
pub(crate) mod slots;
pub(crate) mod truncate;
pub(crate) mod workers;
pub(crate) mod write;
pub(crate) mod write_back;
