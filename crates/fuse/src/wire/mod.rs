//! Messages: the structures of the kernel's protocol, requests read from bytes, and replies written to bytes.
//!
//! The lowest layer. Nothing here calls a file system.

pub(crate) mod abi;
pub(crate) mod buffer;
pub(crate) mod convert;
pub(crate) mod directory;
pub(crate) mod errno;
pub(crate) mod reply;
pub(crate) mod request;
