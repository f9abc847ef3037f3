//! Requests of the kernel, the helpers that carry long ones out, and queues.

pub(crate) mod execute;
pub(crate) mod helpers;
pub(crate) mod queue;
pub(crate) mod queue_set;
