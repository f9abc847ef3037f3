//! The CSI driver.

pub(crate) mod args;
pub(crate) mod run;
