//! gocryptfs, version 2 of its format: authenticated contents, and names under an IV for each directory.
//!
//! Layers, lowest first: `error`, `features`; `config` with the master key; `names` and `contents`;
//! `attributes`; `format`; `reverse`, the other way round.
//!
//! A block that was changed, moved in its file or put into another file does not open. What cannot be
//! noticed: an old version of a block in its own place, a file cut at the end of a block, and a whole
//! block of zeros, which is a hole.

mod attributes;
mod config;
mod contents;
mod error;
mod features;
mod format;
mod names;
mod reverse;

pub use config::{CONFIG_MAX, CONFIG_NAME, Config};
pub use error::Error as ConfigError;
pub use features::{ContentCipher, Features, NameFeatures};
pub use format::{GocryptfsFormat, GocryptfsNode};
pub(crate) use reverse::{FileIvs, ReverseName};
pub use reverse::{REVERSE_CONFIG_NAME, Reverse};

#[cfg(test)]
mod tests;
