//! Jobs that copy datasets.

pub(crate) mod args;
pub(crate) mod drill;
pub(crate) mod job;
pub(crate) mod run;
pub(crate) mod verify;
