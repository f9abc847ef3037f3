//! Pools that move between machines, and the drivers that move them.

#[path = "../common/mod.rs"]
mod common;

mod csi;
mod followers;
mod ha;
mod ocf;
mod stmf_ha;
