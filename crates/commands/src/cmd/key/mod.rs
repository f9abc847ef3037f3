//! Keys.

pub(super) mod args;
mod pktool;
pub(super) mod run;
mod sheet;
