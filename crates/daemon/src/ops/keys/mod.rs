//! Keys of datasets: load, change, rotate, back up, re-encrypt.

pub(crate) mod at_start;
pub(crate) mod autolock;
pub(crate) mod backup;
pub(crate) mod change;
pub(crate) mod commands;
pub(crate) mod reencrypt;
pub(crate) mod rewrap_right;
pub(crate) mod slots;
