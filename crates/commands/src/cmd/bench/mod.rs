//! How fast this machine is, and how fast Strongroom on it.

pub(crate) mod args;
pub(crate) mod run;
