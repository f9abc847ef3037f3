//! Directories that are encrypted file by file, in all formats.

#[path = "../common/mod.rs"]
mod common;

mod adopt;
mod directories;
mod fscrypt;
mod fscrypt_mounts;
mod gocryptfs;
mod pefs;
mod pefs_mounts;
mod reverse;
mod several_clients;
mod two_clients;
