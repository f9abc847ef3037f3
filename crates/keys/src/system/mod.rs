//! Files and programs of this machine that a key source names: checked before they are opened or started.

pub(crate) mod child;
pub(crate) mod file;
pub(crate) mod trust;
