//! Ciphers and their providers.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
pub mod run;
