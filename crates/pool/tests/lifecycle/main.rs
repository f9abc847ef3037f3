//! The life of a pool: creation, import by one of several hosts, division, failures and power cuts.

#[path = "../common/mod.rs"]
mod common;

mod claims;
mod division;
mod faults;
mod multihost;
mod pool_life;
mod power_cut;
mod reguid;
