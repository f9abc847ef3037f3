//! Requests become calls of the file system, and their results become replies.
//!
//! The layer above `wire`. It starts no threads.

pub(crate) mod caller;
pub(crate) mod delayed_reply;
pub(crate) mod direct;
pub(crate) mod handshake;
pub(crate) mod inode_limit;
pub(crate) mod ioctl;
pub(crate) mod serve;
