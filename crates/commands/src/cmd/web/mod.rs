//! The HTTP API and the dashboard.

pub(crate) mod args;
pub(crate) mod run;
