//! `generate`: units of systemd from lines of fstab and crypttab. Lowest first: `table` reads lines, `unit` writes names
//! and values of units, `mounts` and `containers` make units, `run` writes them.

pub(super) mod args;
mod containers;
mod mounts;
pub(super) mod run;
mod table;
mod unit;
