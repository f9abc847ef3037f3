//! The plaintext side of a pool.
#![allow(dead_code, missing_docs)]
mod error;
mod header;
mod io;
mod layout;
mod seal;
mod tree;
pub use error::{Error, Result};
pub use seal::Compression;
