//! pefs of FreeBSD: names and contents under several keys side by side, contents not authenticated.
//!
//! Layers, lowest first: `error`, `algorithm`, `names`; `key`; `config`, `database`, `database_file`, `chain`,
//! `chains`, `default`; `format`.
//!
//! A name has a checksum, so what was changed in it is noticed; bytes of files can be changed and put back
//! unnoticed.
//!
//! What differs from pefs on FreeBSD: a name whose last character has bits that say nothing, or one
//! character too many, is none (it was never written). A hard link into a directory with another key is
//! refused. An encrypted file in a directory without a key is not found by its stored name, once there is its
//! key; without the key it is, however long the name.

mod algorithm;
pub mod chain;
mod chains;
mod config;
mod database;
mod database_file;
mod default;
mod error;
mod format;
mod key;
mod names;

pub use algorithm::Algorithm;
pub use chains::Chains;
pub use config::{CONFIG_NAME, Config, DATABASE_NAME};
pub use database::{DATABASE_MAX, Database, Record};
pub use default::default_algorithm;
pub use error::Error as KeyError;
pub use format::{Node, Pefs};
pub use key::{DEFAULT_ITERATIONS, Key, KeyId, MasterKey};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_chains;
