//! Metrics, served to Prometheus on a socket beside that of commands.
//!
//! `ops::devices::meters` and `state::mounts::metered_files` put meters around block devices and mounted file systems.
//!
//! - `collect` has the metrics of the daemon, `process` those of every process;
//! - `text` formats them, `server` serves them.

mod collect;
mod initiators;
mod process;
mod replications;
pub(crate) mod server;
mod text;
