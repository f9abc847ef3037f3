//! Threads: how the kernel schedules them, and which of them must get memory.

pub(crate) mod flusher;
pub(crate) mod scheduling;
