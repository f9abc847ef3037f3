//! Targets on other hosts: by `ssh`, and by the HTTPS API of the other daemon.

mod https;
mod program;
mod rows;
mod ssh;

pub(super) use https::HttpsSite;
pub(super) use ssh::SshHost;
