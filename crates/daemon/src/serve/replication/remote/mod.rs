//! Targets on other hosts.

mod program;
mod rows;
mod ssh;

pub(super) use ssh::SshHost;
