//! How fast this machine is, and how fast Strongroom on it.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
pub mod run;
