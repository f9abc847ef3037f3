//! Directories that are encrypted file by file. All of it happens in the process of the command.
//!
//! Layers, the lowest first:
//! - `stack`: mounts of such directories, and the requests to the processes that serve them;
//! - `fscrypt`: directories with the files of the tool fscrypt, which the kernel or a mount decrypts;
//! - `pefs`: directories of pefs;
//! - `login`: unlocks and locks what belongs to a user, for PAM.

pub mod fscrypt;
pub mod login;
pub mod pefs;
pub mod stack;
