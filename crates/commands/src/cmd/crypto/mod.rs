//! Ciphers and their providers.

pub(super) mod args;
pub(super) mod run;
