//! Seals: states that were put back or changed without the key.

#[path = "../common/mod.rs"]
mod common;

mod anchor;
mod audit;
mod changed_facts;
mod foreign_log;
mod old_seals;
