//! The threads that serve a mount: the session with the kernel, its workers, and where they run.
//!
//! The layer above `dispatch`.

pub(crate) mod affinity;
pub(crate) mod idle_policy;
pub(crate) mod session;
pub(crate) mod workers;
