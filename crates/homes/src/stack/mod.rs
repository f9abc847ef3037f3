//! Directories that are encrypted file by file.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
pub mod run;
