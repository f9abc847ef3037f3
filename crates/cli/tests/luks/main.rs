//! LUKS containers by the command line, with cryptsetup as the judge.

#[path = "../common/mod.rs"]
mod common;

mod commands;
mod locks;
mod mapping_start;
mod online;
mod options;
mod reencrypt;
mod suspend;
mod tokens;
mod tpm;
