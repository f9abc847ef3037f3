//! The format of Linux's fscrypt, kept in ordinary files.
//!
//! Contents, names and contexts are byte for byte those of Linux. What Linux keeps in an inode is kept
//! in extended attributes, and what it keeps as bytes in a directory is kept as base64url.
//!
//! Layers, lowest first:
//! - `mode`: the ciphers and their numbers; `context`: the policy and nonce of one inode;
//! - `master_key`: a master key and what is derived from it; `inode_key`: the key of one inode;
//! - `name`: names, targets, and what they look like without a key;
//! - `format`: all of it as a [`DirectoryFormat`](super::DirectoryFormat);
//! - [`tool`]: master keys under passphrases and key files.

mod context;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod inode_key;
mod master_key;
mod mode;
mod name;
#[cfg(test)]
mod tests;
pub mod tool;

pub use context::{EncryptionPolicy, InodeContext, KeyName, KeyUsage};
pub use format::{FscryptFormat, FscryptNode, KeyState, XattrNamespace};
pub use inode_key::{InodeIdentity, InodeKey};
pub use master_key::FscryptMasterKey;
pub use mode::EncryptionMode;
pub use name::{nokey_name, padded_len};
