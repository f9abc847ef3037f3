//! Jobs that copy datasets.

pub(crate) mod args;
pub(crate) mod run;
