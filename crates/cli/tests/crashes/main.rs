//! Power cuts, and programs that are killed.

#[path = "../common/mod.rs"]
mod common;

mod any_call;
mod killed_daemon;
mod power_cuts;
mod power_cuts_luks;
mod stack_cut;
mod stack_kills;
