//! Imports: the search for pools, the disks that they reserve, and the imports at the start.

pub(crate) mod absent;
pub(crate) mod disk_reservations;
pub(crate) mod last_host;
pub(crate) mod late;
pub(crate) mod readers;
pub(crate) mod scan;
pub(crate) mod start;
