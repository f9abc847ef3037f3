//! pefs of FreeBSD: names and contents under several keys side by side, contents not authenticated.
//!
//! Layers, lowest first: `error`, `algorithm`, `names`; `key`; `database`; `format`.
//!
//! A name has a checksum, so what was changed in it is noticed; bytes of files can be changed and put back
//! unnoticed.
//!
//! What differs from pefs on FreeBSD: a name whose last character has bits that say nothing, or one
//! character too many, is none (it was never written). A hard link into a directory with another key is
//! refused. An encrypted file in a directory without a key is not found by its stored name, once there is its
//! key; without the key it is, however long the name.

mod algorithm;
mod database;
mod error;
mod format;
mod key;
mod names;

pub use algorithm::Algorithm;
pub use database::chain;
pub use database::chains::Chains;
pub use database::config::{CONFIG_NAME, Config, DATABASE_NAME};
pub use database::default::default_algorithm;
pub use database::pages::{DATABASE_MAX, Database, DatabaseRecord};
pub use error::Error as KeyError;
pub use format::{PefsFormat, PefsNode};
pub use key::{DEFAULT_ITERATIONS, KeyId, PefsKey, PefsMasterKey};

#[cfg(test)]
mod tests;
