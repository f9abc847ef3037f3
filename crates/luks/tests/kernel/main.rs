//! The Linux kernel opens what is made here, and the other way round, in a virtual machine.

#[path = "../common/mod.rs"]
mod common;

mod format;
mod integrity;
