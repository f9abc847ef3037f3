//! Directories that are encrypted file by file.

pub(super) mod args;
pub(super) mod run;
