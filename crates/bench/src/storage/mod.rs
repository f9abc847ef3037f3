//! The speed of this machine, and of Strongroom on it.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
pub mod run;
