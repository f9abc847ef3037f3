//! The key database and the configuration of a pefs directory: the chains of keys under one passphrase.
//!
//! Layers, lowest first: `config`, `pages`; `file`, `chain`; `chains`; `default`.

pub mod chain;
pub(super) mod chains;
pub(super) mod config;
pub(super) mod default;
pub(super) mod file;
pub(super) mod pages;
