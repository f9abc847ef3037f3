//! The trait of block devices, and the macros that implement its methods by another device.

#[macro_use]
pub(crate) mod delegate;
pub(crate) mod device;
