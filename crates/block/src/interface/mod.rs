//! The trait of block devices, and the macros that implement its methods: by another device, or plainly.

#[macro_use]
pub(crate) mod delegate;
pub(crate) mod atomic;
pub(crate) mod device;
pub mod plain;

#[cfg(test)]
mod tests;
