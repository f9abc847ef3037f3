//! Datasets, their properties and who may change them.

pub(super) mod args;
pub(super) mod run;
