//! Exports: their definitions, devices and servers.

pub(crate) mod attached_place;
pub(crate) mod chap;
pub(crate) mod device;
pub(crate) mod ha_targets;
pub(crate) mod keeper;
pub(crate) mod kernel_attachment;
pub(crate) mod listen;
pub(crate) mod registry;
pub(crate) mod servers;
