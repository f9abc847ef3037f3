//! Datasets and volumes: making, changing, listing and destroying them.

pub(crate) mod assured_delete;
pub(crate) mod commands;
pub(crate) mod list;
pub(crate) mod renames;
pub(crate) mod spec;
pub(crate) mod userspace;
pub(crate) mod volumes;
