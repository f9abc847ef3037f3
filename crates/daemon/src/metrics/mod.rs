//! Metrics: counted where things happen, and served to Prometheus on a socket beside the commands'.
//!
//! - `devices` and `files` put meters around block devices and mounted file systems;
//! - `collect` says which metrics there are, `process` those that every process has;
//! - `text` writes them down, `server` serves them.

mod collect;
pub(crate) mod devices;
pub(crate) mod files;
mod process;
mod server;
mod text;

#[cfg(fuzzing)]
pub(crate) use server::check_request;
pub(crate) use server::serve;
