//! Directories that Strongroom encrypts file by file, in the formats of gocryptfs, fscrypt and pefs, and mounts by FUSE.

#[expect(missing_docs, reason = "a comment there is a help text")]
pub mod args;
pub mod run;
