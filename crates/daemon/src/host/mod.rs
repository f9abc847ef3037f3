//! The daemon's machine: time, users, directories, sockets, signals.

pub mod crypto;
pub(crate) mod huge_pages;
pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod nfs_server;
pub(crate) mod notify;
pub(crate) mod pool_lock;
pub(crate) mod scope;
pub(crate) mod statedir;
pub(crate) mod system;
pub(crate) mod tokens;
pub(crate) mod users;
pub(crate) mod wakeup;
