//! Metrics: counted where things happen, and served to Prometheus on a socket beside the commands'.
//!
//! `ops::metered_devices` and `state::metered_files` put meters around block devices and mounted file systems.
//!
//! - `collect` says which metrics there are, `process` those that every process has;
//! - `text` writes them down, `server` serves them.

mod collect;
mod process;
pub(crate) mod server;
mod text;
