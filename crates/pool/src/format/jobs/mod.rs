//! The work that a pool continues after an import: frees, removals, resilvers and scrubs.

pub(crate) mod free_job;
pub(crate) mod removal_status;
pub(crate) mod resilver_status;
pub(crate) mod scrub_status;
