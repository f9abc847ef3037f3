//! The commands of the tool `fscrypt`, for directories that the kernel or a stacked mount encrypts.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
pub mod run;
