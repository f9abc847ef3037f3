//! The daemon's machine: time, users, directories, sockets, signals.

pub(crate) mod callers;
pub mod crypto;
pub(crate) mod identity;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod nfs_server;
pub(crate) mod pkcs11;
pub(crate) mod pool_lock;
pub(crate) mod process;
pub(crate) mod state_dir;
