//! Locks on files and disks: one process owns a device, also through loop devices.

pub(crate) mod backing_locks;
pub(crate) mod holder;
pub(crate) mod lock;
#[cfg(test)]
pub(crate) mod loop_device;
pub(crate) mod owner;
