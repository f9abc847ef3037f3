//! The system's OpenSSL 3, if this program is built with the feature `openssl`: for whoever must use
//! it, and as a judge of the others.
//!
//! Through the crate `openssl`, without foreign code of our own.

#[cfg(not(feature = "openssl"))]
#[path = "absent.rs"]
mod implementation;
#[cfg(feature = "openssl")]
#[path = "present.rs"]
mod implementation;

pub(crate) use implementation::{hash, hmac, open, seal, sectors, version};
