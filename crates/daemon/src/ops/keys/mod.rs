//! Keys of datasets: loading, changing, rotating, copying and re-encrypting with them.

pub(crate) mod at_start;
pub(crate) mod backup;
pub(crate) mod change;
pub(crate) mod commands;
pub(crate) mod handing;
pub(crate) mod reencrypt;
pub(crate) mod slots;
